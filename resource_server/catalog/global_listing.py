"""The global listing: a bounded overview of all mounts, level by level.

First come the mounts, those of high priority first; then, level by level below them, the
collections of every mount and after them the documents. So the first page shows the top of
everything, and what the bound leaves out is at the bottom, below collections that are listed.

Nothing is stored between two pages: a cursor names the last resource. A page costs as much as it is
long; the first page of a level also has to find the collections above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from resource_server.catalog import cursor
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.cursor import ListCursor, ListingState
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.errors import InvalidParameter
from resource_server.provider import Path
from resource_server.runtime.eager import TimeLimit, Turns, within
from resource_server.runtime.timing import Timing

SCOPE = ""
_AT_A_TIME = 128
"""Maximum resources that a provider is asked for at a time: other requests wait meanwhile."""
_PRIORITY = 0.5
"""Priority of a mount that has none."""

_Step: TypeAlias = tuple[int, bool]
"""A level, and whether its documents are listed, after its collections; level 0 is the mounts."""


class ListingBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the global listing and of its pages."""

    page_size: int
    """Maximum resources of the first page."""
    next_page_size: int
    """Maximum resources of each further page."""
    max: int
    """Maximum resources of all pages."""
    depth: int
    """Maximum levels below a mount."""


class ListPage(msgspec.Struct, frozen=True):
    """A page of a listing; `next_cursor` is None on the last one.

    `unavailable` names the mounts that are missing from it because they cannot serve now.
    `left_out_after` is set on the last page of a listing that leaves resources out: after how many.
    """

    entries: Sequence[CatalogEntry]
    next_cursor: str | None
    unavailable: tuple[str, ...] = ()
    left_out_after: int | None = None
    failed: tuple[str, ...] = ()
    """Mounts that failed on this page, by name; those of earlier pages are only in the cursor."""


class _MountEntries(msgspec.Struct):
    """The resources of a page that one mount lists in one step."""

    mount: Mount
    step: _Step
    has_collections: bool
    """Whether the level, up to the end of this part, has collections."""
    entries: Sequence[CatalogEntry]


class GlobalListing:
    """One page of the listing of some mounts; make a new one for each page."""

    def __init__(
        self,
        mounts: Sequence[Mount],
        bounds: ListingBounds,
        timing: Timing,
        progress: Progress | None = None,
    ) -> None:
        self._mounts = sorted(mounts, key=_importance)
        self._bounds = bounds
        self._timing = timing
        self._progress = progress
        self._turns = Turns()
        self._page: list[_MountEntries] = []
        self._has_collections = False
        self._without: list[str] = []
        self._failed: list[str] = []

    async def page(self, after: str | None) -> ListPage:
        """Return the page after a cursor, or the first one.

        Raises:
            InvalidParameter: `after` is no cursor of this listing, or its mount is not in it.
        """
        bounds = self._bounds
        step: _Step | None = (0, False)
        at, last, listed, size = 0, None, 0, bounds.page_size
        if after is not None:
            step, at, last, listed = self._resume(ListCursor.decode(after, scope=SCOPE))
            size = bounds.next_page_size
        room = min(size, max(0, bounds.max - listed))
        is_full = False
        while step is not None and step[0] <= bounds.depth and not is_full:
            is_full = await self._list_step(step, at, last, room)
            at, last = 0, None
            step = step if is_full else self._following(step)
        entries = [*chain.from_iterable([part.entries for part in self._page])]
        listed, unavailable = listed + len(entries), tuple(self._without)
        if is_full and listed < bounds.max:
            following = self._cursor(self._page[-1], listed)
            return ListPage(entries, following, unavailable, failed=tuple(self._failed))
        leaves_out = is_full or (step is not None and await self._has_level(step[0]))
        left_out_after = listed if leaves_out else None
        return ListPage(entries, None, unavailable, left_out_after, tuple(self._failed))

    def _resume(self, held: ListCursor) -> tuple[_Step, int, Path, int]:
        """Return the step to go on with, its first mount, the last path in it, and the count."""
        names = [mount.name for mount in self._mounts]
        if held.mount not in names:
            raise InvalidParameter(cursor.INVALID)
        level, state = len(held.path), held.state
        at = names.index(held.mount) + (level == 0)
        self._has_collections = state.has_collections or not state.is_at_documents
        self._without = [*state.without]
        return (level, state.is_at_documents and level > 0), at, held.path, state.listed

    def _cursor(self, last: _MountEntries, listed: int) -> str:
        without = tuple(self._without)
        state = ListingState(listed, last.step[1], last.has_collections, without)
        return ListCursor(SCOPE, last.mount.name, last.entries[-1].resource.path, state).encode()

    def _following(self, step: _Step) -> _Step | None:
        level, is_at_documents = step
        if level > 0 and not is_at_documents:
            return level, True
        if not self._has_collections:
            return None
        self._has_collections = False
        return level + 1, False

    async def _list_step(self, step: _Step, at: int, last: Path | None, room: int) -> bool:
        """List one step from the mount at a position on; return whether the page is too short."""
        for mount in self._mounts[at:]:
            if mount.name in self._without:
                continue
            free = room - sum([len(part.entries) for part in self._page])
            try:
                if mount.problem is not None:
                    await mount.start()
                members = self._members(mount, step, last, free + 1)
                found = await within(self._timing.listing_s, members)
            except Exception as error:
                # A mount that fails or hangs must not break the listing of the others.
                log_failure(error, f"listing mount {mount.name} failed")
                self._without.append(mount.name)
                self._failed.append(mount.name)
                self._page = [each for each in self._page if each.mount is not mount]
                continue
            finally:
                last = None
            if entries := found[:free]:
                # Without the ability, collections come among the documents.
                is_mixed = not step[1] or "levels" not in mount.provider.abilities
                if is_mixed and "collection" in [entry.resource.type for entry in entries]:
                    self._has_collections = True
                self._page.append(_MountEntries(mount, step, self._has_collections, entries))
            if self._progress is not None:
                self._progress(room - free + len(entries), None)
            if len(found) > free:
                return True
        return False

    async def _members(
        self, mount: Mount, step: _Step, last: Path | None, wanted: int
    ) -> Sequence[CatalogEntry]:
        level, is_at_documents = step
        if level == 0:
            return [mount.entry(await mount.provider.metadata(()))]
        found: list[CatalogEntry] = []
        while True:
            size = min(wanted - len(found), _AT_A_TIME)
            kind = "document" if is_at_documents else "collection"
            some = await mount.provider.level(level, kind, after=last, limit=size)
            found += mount.entries(some)
            if len(some) < size or len(found) >= wanted:
                return found
            last = some[-1].path
            await self._turns.others()

    async def _has_level(self, level: int) -> bool:
        """Return whether any mount is found in time to have listed resources this deep."""
        time_limit = TimeLimit(self._timing.listing_s)
        for mount in self._mounts:
            if mount.name in self._without or time_limit.left_s() <= 0:
                continue
            try:
                if await within(time_limit.left_s(), self._reaches(mount, level)):
                    return True
            except Exception as error:
                log_failure(error, f"listing mount {mount.name} failed")
        return False

    async def _reaches(self, mount: Mount, level: int) -> bool:
        await mount.start()
        return bool(
            await self._members(mount, (level, False), None, 1)
            or await self._members(mount, (level, True), None, 1)
        )


def _importance(mount: Mount) -> float:
    """Return the sort key of a mount: high priority first."""
    priority = mount.annotations.priority if mount.annotations is not None else None
    return -(_PRIORITY if priority is None else priority)
