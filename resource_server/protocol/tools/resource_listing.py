"""The tool `list_resources`: a tree, or what matches a glob, as paths below one base URI."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from resource_server import uris
from resource_server.catalog.federated_search import MAX_QUERY_LENGTH, phrase
from resource_server.catalog.mount import CatalogEntry
from resource_server.catalog.tree_listing import MAX_DEPTH, TreePosition, collection_base
from resource_server.errors import InvalidParameter
from resource_server.protocol import content_blocks
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools.budget import Budget, characters
from resource_server.protocol.tools.results import tool_result
from resource_server.runtime.near_name import as_typed
from resource_server.search.path_glob import is_glob

_MAX_MATCHES = 1000
"""Maximum resources of a page that match a glob."""
_SHORT_ROW = 40
"""Characters of a row that are expected before the rows are known."""

_encode = msgspec.json.Encoder().encode


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `list_resources`."""

    uri: str | None = None
    depth: int | None = None
    pattern: str | None = None
    cursor: str | None = None


class _ListingPage(msgspec.Struct):
    """A page of a listing, in both forms."""

    base: str
    rows: list[tuple[str, int | None]] = []
    next: str | None = None
    unavailable: Sequence[str] = ()
    stopped: bool = False
    """Whether the time was over before the page was full."""
    name: str = ""
    """The whole name that was looked for."""

    def json(self) -> bytes:
        """Return the structured content."""
        members = b'{"base":%b,"items":[%b]' % (
            _encode(self.base),
            b",".join(_json_row(*row) for row in self.rows),
        )
        if self.next is not None:
            members += b',"next":' + _encode(self.next)
        if self.unavailable:
            members += b',"unavailable":' + _encode(self.unavailable)
        return members + b"}"

    def text(self) -> str:
        """Return the rows as lines, with notices."""
        text = "Nothing is listed here." if self.next is None else "Nothing yet."
        if self.name and self.next is None:
            part = _encode({"pattern": f"*{self.name}*"}).decode()
            text = f"Nothing has this name. For parts of names: {part}"
        if self.rows:
            head = f"Below {self.base} (path, bytes):" if self.base else "URI, bytes:"
            text = "\n".join([head, *(text_row(*row) for row in self.rows)])
        if self.next is not None:
            cut = "The time was over" if self.stopped else "There is more"
            text += f"\n\n{cut} after these {len(self.rows)}: call again with cursor={self.next}"
        if self.unavailable:
            text += f"\n\nNot available now: {', '.join(self.unavailable)}"
        return text

    def fits(self, limit: int) -> bool:
        """Return whether both forms are within the budget."""
        return max(len(self.text()), characters(self.json())) <= limit


def text_row(path: str, size: int | None) -> str:
    """Return a line of a listing."""
    return path if size is None else f"{path} {size}"


def _json_row(path: str, size: int | None) -> bytes:
    return _encode(path if size is None else [path, size])


async def list_resources(call: Call, arguments: ListArguments) -> Result:
    """List the children of a collection, a tree, or the resources that match a glob.

    Raises:
        InvalidParameter: `depth`, `pattern` or `cursor` cannot be used.
        NotACollection: `uri` is a document.
    """
    # Some models send an empty string for an optional argument.
    if arguments.pattern:
        page = await _matching(call, arguments, arguments.pattern)
    else:
        page = await _tree(call, arguments)
    return tool_result(call, [content_blocks.text_block(page.text())], page.json())


async def _tree(call: Call, arguments: ListArguments) -> _ListingPage:
    limit = call.server.toolbox.settings.budget
    listing = await call.server.catalog.tree(
        arguments.uri or None,
        depth=1 if arguments.depth is None else arguments.depth,
        after=arguments.cursor or None,
    )
    base = uris.readable(listing.base)
    budget = Budget(limit)
    rows: list[tuple[str, int | None]] = []
    positions: list[TreePosition] = []
    stopped_at = None
    async with aclosing(listing.items()) as items:
        async for entry, position in items:
            path, size = row(entry, base)
            if not path:
                continue  # the root of a mount that lies around the others
            if not budget.take(text_row(path, size) + "\n", _json_row(path, size) + b","):
                stopped_at = positions[-1]
                break
            rows.append((path, size))
            positions.append(position)
            if call.progress is not None:
                call.progress(len(rows), None)
    stopped = stopped_at is None and listing.is_late
    stopped_at = stopped_at or listing.stopped_at
    page = _ListingPage(base, rows, unavailable=listing.unavailable, stopped=stopped)
    page.next = None if stopped_at is None else listing.cursor(stopped_at)
    while len(rows) > 1 and not page.fits(limit):
        # The notices did not fit.
        del rows[-1], positions[-1]
        page.next, page.stopped = listing.cursor(positions[-1]), False
    return page


def row(entry: CatalogEntry, base: str) -> tuple[str, int | None]:
    """Return the path of a resource below `base`, with a final slash for a collection, its size."""
    uri = uris.readable(entry.uri)
    if entry.resource.type == "collection":
        uri = collection_base(uri)
    return uri.removeprefix(base), entry.resource.size


def _whole_name(pattern: str) -> str:
    """Return a glob that a name, or the end of a path, matches as a whole."""
    pattern = as_typed(pattern)
    if is_glob(pattern) or len(pattern) > MAX_QUERY_LENGTH // 2:
        return pattern
    for at, letter in enumerate(pattern.partition("[")[0]):
        if letter.isalnum() and len(letter.casefold()) == 1:
            return f"{pattern[:at]}[{letter}]{pattern[at + 1 :]}"
    return pattern


async def _matching(call: Call, arguments: ListArguments, pattern: str) -> _ListingPage:
    """Return the resources at or below `uri` whose name or path matches a glob, best first."""
    catalog, limit = call.server.catalog, call.server.toolbox.settings.budget
    depth = arguments.depth
    if depth is not None and not 1 <= depth <= MAX_DEPTH:
        raise InvalidParameter(f"depth is a number from 1 to {MAX_DEPTH}")
    query = phrase(_whole_name(pattern))
    if len(query) > MAX_QUERY_LENGTH:
        raise InvalidParameter(
            f"`pattern` is too long: it has {len(pattern)} characters; at most "
            f"{MAX_QUERY_LENGTH - 2} are taken, where quotes and backslashes count twice"
        )
    listing = await catalog.tree(arguments.uri or None, depth=1, after=None)
    base = uris.readable(listing.base)
    count = max(1, min(_MAX_MATCHES, limit // _SHORT_ROW))
    name = "" if is_glob(pattern) or "/" in pattern else pattern
    while True:
        found = await catalog.search(
            query,
            uri=arguments.uri or None,
            where="names",
            after=arguments.cursor or None,
            limit=count,
            progress=call.progress,
        )
        rows = [row(hit.entry, base) for hit in found.hits]
        page = _ListingPage(base, rows, found.next_cursor, found.unavailable, found.stopped, name)
        if count == 1 or page.fits(limit):
            break
        # A cursor continues after a whole page only: search again for a shorter one.
        count = max(1, min(len(rows) - 1, count * limit // len(page.json()) - 1))
    if depth is not None:
        levels = [len(hit.entry.resource.path) - len(listing.top) for hit in found.hits]
        page.rows = [row for row, level in zip(rows, levels, strict=True) if level <= depth]
    return page
