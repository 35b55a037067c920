"""Reads of collections: every child, and of each document at least the beginning.

Hosts show the items of such a read as the contents of a folder, so a child that is left out does
not exist for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from resource_server import media_types, uris
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.catalog.read_result import ReadItem, content_size, next_uri, text_format
from resource_server.errors import ConversionError, InvalidParameter, MountUnavailable, ResourceBusy
from resource_server.provider import Content, Resource, Truncation
from resource_server.runtime.eager import TimeLimit

_MIN_BYTES = 16
"""Bytes of a document that are returned however small its share is: hosts show an empty file as a
folder."""
_UNKNOWN_BYTES = 1024
"""Assumed size of a document that does not declare one."""
_NEXT_BYTES = 64 * 1024
"""Bytes of the range that follows a beginning."""
_WHOLE_BYTES = 64 * 1024
"""Bytes of a document without ranges that are read for its beginning, if the budget is smaller."""
_CONVERSION_SHARE = 0.2
"""Share of the time that conversions may take: hosts read a folder to list it."""
_ONE_CONVERSION = 0.5
"""Share of that for one document."""
_LINK_TYPE = "text/uri-list"


class SharedBudget:
    """Bytes shared among documents: each gets a fair share, and what smaller ones leave over."""

    def __init__(self, sizes: Sequence[int | None], budget: int) -> None:
        assumed = [_UNKNOWN_BYTES if size is None else size for size in sizes]
        level = _fair_level(assumed, budget)
        self._shares = [min(size, level) for size in reversed(assumed)]
        self._reserved = sum(self._shares)
        self._left = budget

    def next(self) -> int:
        """Return the maximum bytes of the next document."""
        share = self._shares.pop()
        self._reserved -= share
        return max(share, self._left - self._reserved, _MIN_BYTES)

    def spend(self, size: int) -> None:
        """Count the bytes that a document took."""
        self._left -= size


def _fair_level(sizes: Sequence[int], budget: int) -> int:
    """Return the size to which larger documents are shortened, so that all fit the budget."""
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * count > budget:
            return budget // count
        budget -= size
    return max(sizes, default=0)


class CollectionReader:
    """Reads the children of one collection within limits of bytes and time."""

    def __init__(
        self, mount: Mount, *, max_bytes: int, time_limit: TimeLimit, links_to_binary: bool
    ) -> None:
        self._mount = mount
        self._max_bytes = max_bytes
        self._time_limit = time_limit
        self._links_to_binary = links_to_binary
        conversion_s = time_limit.left_s() * _CONVERSION_SHARE
        self._conversion_limit = TimeLimit(conversion_s)
        self._longest_s = conversion_s * _ONE_CONVERSION
        self._takes_ranges = True

    async def items(
        self, children: Sequence[Resource], progress: Progress | None
    ) -> list[ReadItem]:
        """Return an item for each child, except those that cannot be read."""
        sizes = [child.size for child in children if child.type == "document"]
        budget = SharedBudget(sizes, self._max_bytes)
        items: list[ReadItem] = []
        for done, child in enumerate(children, start=1):
            if child.type == "collection":
                entry = self._mount.entry(child)
                items.append(ReadItem(entry.uri, entry, None))
            elif (item := await self._document(child, budget.next())) is not None:
                budget.spend(content_size(item.content))
                items.append(item)
            if progress is not None:
                progress(done, len(children))
        return items

    async def _document(self, child: Resource, room: int) -> ReadItem | None:
        """Return a document of at most `room` bytes; None if it cannot be read."""
        if self._time_limit.left_s() > 0:
            try:
                return await self._read(child, room)
            except Exception as error:
                log_failure(error, f"a child in mount {self._mount.name} could not be read")
            if self._time_limit.left_s() > 0:
                return None
        return _unread(self._mount.entry(child), "deadline")

    async def _read(self, child: Resource, room: int) -> ReadItem:
        converted = await self._as_text(child, room)
        if converted is not None:
            return converted
        if child.size is not None and child.size > room:
            beginning = await self._beginning(child, room, {}, self._time_limit)
            if beginning is not None:
                return self._linked(beginning)
            if child.size > max(self._max_bytes, _WHOLE_BYTES):
                return _unread(self._mount.entry(child), "limit")
        return self._linked(await self._whole(child, room, {}, self._time_limit))

    async def _as_text(self, child: Resource, room: int) -> ReadItem | None:
        """Read a document that is no text in a format that is; None if that is not possible.

        One that takes too long is replaced by a link to the format.
        """
        if child.mime_type is None or not media_types.is_encoded(child.mime_type):
            return None
        resource = await self._mount.provider.metadata(child.path, self._time_limit)
        format = text_format(resource)
        if format is None:
            return None
        query = {"format": format.name}
        try:
            if self._conversion_limit.left_s() > 0:
                return await self._converted(child, room, query)
        except (ConversionError, InvalidParameter):
            return None
        except (MountUnavailable, ResourceBusy):
            pass
        entry = self._mount.entry(resource)
        uri = uris.with_query(entry.uri, query)
        link = _link(resource.mime_type, resource.size, uri)
        late = msgspec.structs.replace(link, truncated=Truncation("deadline", "bytes"))
        return ReadItem(entry.uri, entry, late, uri)

    async def _converted(self, child: Resource, room: int, query: Mapping[str, str]) -> ReadItem:
        """Read a document in another format within the time that one conversion may take."""
        limit = TimeLimit(min(self._conversion_limit.left_s(), self._longest_s))
        beginning = await self._beginning(child, room, query, limit)
        return beginning or await self._whole(child, room, query, limit)

    async def _whole(
        self, child: Resource, room: int, query: Mapping[str, str], time_limit: TimeLimit
    ) -> ReadItem:
        """Read a document, and shorten it to `room` bytes."""
        fetched = await self._mount.provider.fetch(child.path, query, time_limit)
        resource, contents = fetched
        content, entry = contents[0], self._mount.entry(resource)
        item = ReadItem(entry.uri, entry, content, next_uri(entry, query, content))
        size = content_size(content)
        if size <= room:
            return item
        whole_uri = uris.with_query(entry.uri, query) if query else entry.uri
        return _shortened(item, content, room, size, whole_uri)

    async def _beginning(
        self, child: Resource, room: int, query: Mapping[str, str], time_limit: TimeLimit
    ) -> ReadItem | None:
        """Read the first bytes of a document; None if it takes no byte ranges."""
        if not self._takes_ranges:
            return None
        ranged = {**query, "bytes": f"0-{room - 1}"}
        try:
            fetched = await self._mount.provider.fetch(child.path, ranged, time_limit)
        except InvalidParameter:
            self._takes_ranges = bool(query)  # another format may have none, or not these
            return None
        resource, contents = fetched
        content, entry = contents[0], self._mount.entry(resource)
        if content.truncated is not None:
            content = msgspec.structs.replace(content, truncated=_as_beginning(content.truncated))
        return ReadItem(entry.uri, entry, content, next_uri(entry, query, content))

    def _linked(self, item: ReadItem) -> ReadItem:
        """Return a link in the place of a binary content, if the manifest wants links."""
        content = item.content
        if not self._links_to_binary or content is None or isinstance(content.data, str):
            return item
        resource = item.entry.resource
        size = resource.size if content.truncated is not None else len(content.data)
        mime_type = content.mime_type or resource.mime_type
        return ReadItem(item.uri, item.entry, _link(mime_type, size, item.entry.uri))


def _link(mime_type: str | None, size: int | None, uri: str) -> Content:
    """Return a link to a document in the place of its content."""
    facts = [mime_type or "binary"]
    facts += [] if size is None else [f"{size} bytes"]
    return Content(f"# {', '.join(facts)}\r\n{uri}\r\n", _LINK_TYPE)


def _as_beginning(truncation: Truncation) -> Truncation:
    """Return the note of a range as that of a limit, with a longer range to follow."""
    following = truncation.next
    if following is not None and "bytes" in following:
        first = following["bytes"].partition("-")[0]
        if first.isdecimal():
            following = {**following, "bytes": f"{first}-{int(first) + _NEXT_BYTES - 1}"}
    return msgspec.structs.replace(truncation, reason="limit", next=following)


def _shortened(item: ReadItem, content: Content, room: int, size: int, uri: str) -> ReadItem:
    """Return the beginning of a content; `uri` reads the whole."""
    data = content.data
    if isinstance(data, bytes):
        beginning: str | bytes = data[:room]
    else:
        beginning = data.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
    short = Content(beginning, content.mime_type, Truncation("limit", "bytes", size))
    return ReadItem(item.uri, item.entry, short, uri)


def _unread(entry: CatalogEntry, reason: Literal["deadline", "limit"]) -> ReadItem:
    """Return an item without any of its content; its URI reads it."""
    truncated = Truncation(reason, "bytes", entry.resource.size)
    return ReadItem(entry.uri, entry, Content("", truncated=truncated), entry.uri)
