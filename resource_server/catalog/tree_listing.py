"""Listings of a tree, level by level: the nearest resources first, collections before documents.

A collection with more than `CHUNK` children is listed in the order of its provider. Nothing is
stored between two pages: the next page continues after the position of an item.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from itertools import takewhile
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog import cursor
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.runtime.eager import TimeLimit

MAX_DEPTH = 5
CHUNK = 1000
"""Children that are listed at a time."""

_Phase: TypeAlias = Literal["any", "collection", "document", "done"]
"""The children of a collection that are being listed; `done` is its end."""
_BOTH: tuple[_Phase, ...] = ("collection", "document")


class TreePosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The position of an item, or of a collection that has been looked through."""

    level: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEPTH)]
    mount: str
    parent: tuple[bytes, ...] = ()
    """Path below the top of the listing."""
    phase: _Phase = "done"
    last: bytes | None = None
    """Name of the child."""


class TreeItem(NamedTuple):
    """A resource of the listing."""

    entry: CatalogEntry
    position: TreePosition


class _Stopped(Exception):
    """The time, or the number of unlisted resources, has run out."""


class TreeListing:
    """The resources down to `depth` levels below the top of each mount.

    Unlisted resources, such as rows, are left out below the first level, and from all levels
    without a collection `top`.
    """

    def __init__(
        self,
        mounts: Sequence[Mount],
        top: Resource | None,
        *,
        depth: int,
        after: str | None,
        time_limit: TimeLimit,
        max_unlisted: int,
    ) -> None:
        """Prepare a listing of `mounts`, or below the collection `top` of a single one.

        Raises:
            InvalidParameter: `depth` is out of range, or `after` is no cursor of this listing.
            NotACollection: `top` is a document.
        """
        if not 1 <= depth <= MAX_DEPTH:
            raise InvalidParameter(f"depth is a number from 1 to {MAX_DEPTH}")
        if top is not None and top.type == "document":
            raise NotACollection
        self.base = _base(mounts, top)
        """URI with a final slash, or nothing, with which the URIs of all items begin."""
        self.unavailable: list[str] = []
        """Names of the mounts that cannot be listed now."""
        self.stopped_at: TreePosition | None = None
        """Where the listing has stopped early."""
        self.is_late = False
        """Whether it has stopped because its time was over, not after `max_unlisted` resources."""
        self._mounts = mounts
        self.top: Path = () if top is None else top.path
        self._is_whole = top is None
        self._includes_unlisted = top is not None and not top.listed
        self._depth = depth
        self._time_limit = time_limit
        self._unlisted_left = max_unlisted
        self._last: TreePosition | None = None
        self._scope = f"tree\0{self.base}\0{depth}\0{self._is_whole}"
        self._start = None if after is None else self._position(after)

    def _position(self, after: str) -> TreePosition:
        position = cursor.unpack(after, TreePosition, scope=self._scope)
        last = () if position.last is None else (position.last,)
        segments = [_decoded(each) for each in (*position.parent, *last)]
        is_known = position.mount in [mount.name for mount in self._mounts]
        if not is_known or not all(map(uris.is_segment, segments)):
            raise InvalidParameter(cursor.INVALID)
        return position

    def cursor(self, position: TreePosition) -> str:
        """Return the cursor of the page after an item."""
        return cursor.pack(position, scope=self._scope)

    async def items(self) -> AsyncGenerator[TreeItem]:
        """Yield the items, from the cursor on."""
        start = self._start
        try:
            for level in range(
                start.level if start else int(len(self._mounts) == 1), self._depth + 1
            ):
                for mount in self._mounts[self._first_mount(level) :]:
                    at = (
                        start
                        if start and (start.level, start.mount) == (level, mount.name)
                        else None
                    )
                    async with aclosing(self._of_mount(mount, level, at)) as items:
                        async for item in items:
                            yield item
        except _Stopped:
            pass

    def _first_mount(self, level: int) -> int:
        if self._start is None or self._start.level != level:
            return 0
        return [mount.name for mount in self._mounts].index(self._start.mount)

    async def _of_mount(
        self, mount: Mount, level: int, at: TreePosition | None
    ) -> AsyncGenerator[TreeItem]:
        """Yield the items of one level of a mount; one that fails must not break the others."""
        if mount.name in self.unavailable:
            return
        try:
            await mount.start()
            if level == 0:
                if at is None:
                    entry = mount.entry(await mount.provider.metadata(()))
                    yield TreeItem(entry, TreePosition(0, mount.name))
                return
            async with aclosing(self._level(mount, level, at)) as items:
                async for item in items:
                    yield item
        except _Stopped:
            raise
        except Exception as error:
            if not self._is_whole:
                raise
            log_failure(error, f"listing mount {mount.name} failed")
            self.unavailable.append(mount.name)

    async def _level(
        self, mount: Mount, level: int, at: TreePosition | None
    ) -> AsyncGenerator[TreeItem]:
        after: Path | None = None
        if at is not None:
            after = tuple(_decoded(each) for each in at.parent)
            if at.phase != "done":
                async with aclosing(self._children(mount, level, after, at)) as items:
                    async for item in items:
                        yield item
        async with aclosing(self._collections(mount, level, (), level - 1, after)) as parents:
            async for parent in parents:
                async with aclosing(self._children(mount, level, parent, None)) as items:
                    async for item in items:
                        yield item

    async def _collections(
        self, mount: Mount, level: int, parent: Path, levels: int, after: Path | None
    ) -> AsyncGenerator[Path]:
        """Yield the collections `levels` below `parent`, after what is at or below `after`."""
        if levels == 0 and after is None:
            yield parent
        if levels == 0 or after == ():
            return
        more, last = True, (*parent, after[0]) if after else None
        if after and len(after) > 1:
            below = self._collections(mount, level, (*parent, after[0]), levels - 1, after[1:])
            async with aclosing(below) as found:
                async for each in found:
                    yield each
        while more:
            children = await self._list(mount, parent, last)
            more = len(children) == CHUNK
            for child in children:
                last = (*parent, child.path[-1])
                async with aclosing(self._inside(mount, level, child, last, levels - 1)) as found:
                    async for each in found:
                        yield each
            if children and last is not None:
                self._check_time(_position(level, mount, last))

    async def _inside(
        self, mount: Mount, level: int, child: Resource, path: Path, levels: int
    ) -> AsyncGenerator[Path]:
        """Yield the collections `levels` below a child, if it is a collection."""
        if child.type == "collection" and (child.listed or self._includes_unlisted):
            async with aclosing(self._collections(mount, level, path, levels, None)) as found:
                async for each in found:
                    yield each

    async def _children(
        self, mount: Mount, level: int, parent: Path, at: TreePosition | None
    ) -> AsyncGenerator[TreeItem]:
        """Yield the children of a collection, from a position in it on."""
        phases: Sequence[_Phase] = _BOTH
        last, known = None, None
        if at is not None:
            last = None if at.last is None else (*parent, _decoded(at.last))
            phases = _BOTH[_BOTH.index(at.phase) :] if at.phase in _BOTH else ("any",)
        else:
            known = await self._list(mount, parent, None)
            if len(known) == CHUNK:
                phases = ("any",)
        for phase in phases:
            more = True
            while more:
                children = known if known is not None else await self._list(mount, parent, last)
                more = len(children) == CHUNK
                for child in children:
                    last = (*parent, child.path[-1])
                    if phase in ("any", child.type) and self._is_included(child, level):
                        self._count_unlisted(child)
                        self._last = _position(level, mount, parent, phase, child)
                        yield TreeItem(mount.entry(child), self._last)
                if phase == "any":
                    known = None
                if children:
                    self._check_time(_position(level, mount, parent, phase, children[-1]))
            last = None

    def _is_included(self, child: Resource, level: int) -> bool:
        if child.listed or self._includes_unlisted:
            return True
        return level == 1 and not self._is_whole

    async def _list(self, mount: Mount, parent: Path, last: Path | None) -> Sequence[Resource]:
        """Return children of a collection; none if it has gone since its parent was listed."""
        after = None if last is None else (*self.top, *last)
        with suppress(ResourceNotFound, NotACollection):
            return await mount.provider.list((*self.top, *parent), after=after, limit=CHUNK)
        return ()

    def _count_unlisted(self, child: Resource) -> None:
        if not child.listed:
            if self._unlisted_left == 0:
                self.stopped_at = self._last
                raise _Stopped
            self._unlisted_left -= 1

    def _check_time(self, position: TreePosition) -> None:
        if self._time_limit.left_s() <= 0:
            self.stopped_at, self.is_late = position, True
            raise _Stopped


def _base(mounts: Sequence[Mount], top: Resource | None) -> str:
    if top is not None:
        return collection_base(mounts[0].uri(top.path))
    return common_base([mount.base for mount in mounts])


def common_base(bases: Sequence[str]) -> str:
    """Return the longest URI with a final slash with which all bases begin; empty if none does."""
    first, last = (min(bases), max(bases)) if bases else ("", "")
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )
    return first[: first.rfind("/", 0, same) + 1]


def collection_base(uri: str) -> str:
    """Return the URI of a collection with a final slash."""
    return uri if uri.endswith("/") else uri + "/"


def _position(
    level: int, mount: Mount, parent: Path, phase: _Phase = "done", child: Resource | None = None
) -> TreePosition:
    last = None if child is None else _encoded(child.path[-1])
    return TreePosition(level, mount.name, tuple(map(_encoded, parent)), phase, last)


def _encoded(segment: str) -> bytes:
    return segment.encode("utf-8", "surrogateescape")


def _decoded(segment: bytes) -> str:
    return segment.decode("utf-8", "surrogateescape")
