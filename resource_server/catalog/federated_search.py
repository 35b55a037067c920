"""Search over all mounts, page by page: names first, best match first, then text.

Each mount is searched in its own task with a deadline, so a mount that hangs only loses its own
hits. A page ends when it is full or its time is over; its cursor says where each mount continues.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog import cursor, fallback_search
from resource_server.catalog.contract_guard import Progress
from resource_server.catalog.mount import CatalogEntry, Mount, log_failure
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceServerError
from resource_server.provider import Path
from resource_server.provider.search import MatchedLine, SearchPage, SearchRequest, Where
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search.name_match import OTHER, NameQuery
from resource_server.search.text_match import LineQuery

_MAX_QUERY_LENGTH = 1000
_MAX_NEXT_LENGTH = 16 * 1024
"""Maximum characters of a provider's own cursor."""
_MAX_LINES = 20
"""Maximum lines quoted of one document."""
_MAX_LINE_LENGTH = 1000
_CONCURRENT_MOUNTS = 8
"""Mounts searched by name at the same time, whose hits are ranked together."""
_EXPRESSION = re.compile(r"/(.+)/", re.DOTALL)

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class SearchHit(msgspec.Struct, frozen=True):
    """A resource that matches, with its first matching lines in a search of text."""

    entry: CatalogEntry
    lines: tuple[MatchedLine, ...] = ()
    has_more_lines: bool = False


class SearchResults(msgspec.Struct, frozen=True):
    """A page of search results; `next_cursor` is None on the last one.

    `where` is what was searched last, names or text, in which `looked_at` of `total` resources
    (None: not known) were searched so far. `stopped` says that the page ended at its deadline.
    `skipped` documents of this page could not be searched: too large, not readable, or not text.
    `unavailable` names the mounts that could not be searched.
    """

    hits: Sequence[SearchHit]
    next_cursor: str | None
    where: Where = "names"
    looked_at: int = 0
    total: int | None = None
    stopped: bool = False
    skipped: int = 0
    unavailable: tuple[str, ...] = ()


class _MountCursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where the search of one mount continues; None: at its beginning."""

    mount: str
    after: bytes | None = None

    @property
    def text(self) -> str | None:
        return None if self.after is None else self.after.decode("utf-8", "surrogateescape")


class _SearchState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where a search continues: in the mounts with a cursor, then in those from `rest` on.

    `looked_at` and `total` count resources in `where`; `total` covers the mounts that were begun,
    and is None once a mount reports no total.
    """

    where: Where
    cursors: list[_MountCursor]
    rest: str | None
    looked_at: _Count = 0
    total: _Count | None = 0


def parse_query(query: str, where: Where | None) -> dict[Where, SearchRequest]:
    """Return the requests for names and for text, in the order they are made.

    Raises:
        InvalidParameter: the query cannot be used; says why.
    """
    if not query.strip():
        raise InvalidParameter(
            "the query is empty; write a part of a name or of a line, a glob, or /an expression/"
        )
    if len(query) > _MAX_QUERY_LENGTH:
        raise InvalidParameter(
            f"the query has {len(query)} characters; at most {_MAX_QUERY_LENGTH} are taken"
        )
    if uris.display(query) != query or any(end in query for end in "\0\r\n"):
        raise InvalidParameter("the query is not one line of text")
    match = _EXPRESSION.fullmatch(query)
    requests: dict[Where, SearchRequest] = {}
    if where != "text":
        requests["names"] = SearchRequest(text=query.strip(), where="names")
    if where != "names":
        text = query if match is None else match[1]
        requests["text"] = SearchRequest(text=text, where="text", is_pattern=match is not None)
    return requests


async def search_mounts(
    mounts: Sequence[Mount],
    query: str,
    *,
    below: Path | None,
    where: Where | None,
    after: str | None,
    size: int,
    progress: Progress | None,
    walk_page: int = fallback_search.WALK_PAGE,
    timing: Timing = DEFAULT_TIMING,
) -> SearchResults:
    """Return a page of hits in `mounts`, or below a path of a single mount.

    Raises:
        InvalidParameter: the query or the cursor cannot be used.
        ResourceError: with `below`, what its mount raises.
    """
    requests = parse_query(query, where)
    place = "" if below is None else uris.join(mounts[0].base, below)
    scope = "\0".join(("search", where or "", place, query))
    if "text" in requests:
        LineQuery(requests["text"])  # validated once, whatever the mounts are
    names = [mount.name for mount in mounts]
    if after:
        state = cursor.unpack(after, _SearchState, scope=scope)
        _check_state(state, requests, names)
    else:
        state = _initial_state(next(iter(requests)), names)
    page_search = _PageSearch(
        mounts,
        requests,
        state,
        below=below,
        size=size,
        progress=progress,
        is_continued=bool(after),
        walk_page=walk_page,
        timing=timing,
    )
    page = await page_search.page()
    if page_search.state is None:
        return page
    return msgspec.structs.replace(page, next_cursor=cursor.pack(page_search.state, scope=scope))


def _initial_state(where: Where, names: Sequence[str]) -> _SearchState:
    return _SearchState(where, [], names[0] if names else None)


def _check_state(
    state: _SearchState, requests: Mapping[Where, SearchRequest], names: Sequence[str]
) -> None:
    begun = [mount_cursor.mount for mount_cursor in state.cursors]
    are_unique = len(set(begun)) == len(begun)
    are_known = {*begun, state.rest} <= {*names, None}
    if not (are_unique and are_known and state.where in requests):
        raise InvalidParameter(cursor.INVALID)


class _PageSearch:
    """Searches one page; `state` is where the next one continues, None at the end."""

    def __init__(
        self,
        mounts: Sequence[Mount],
        requests: Mapping[Where, SearchRequest],
        state: _SearchState,
        *,
        below: Path | None,
        size: int,
        progress: Progress | None,
        is_continued: bool,
        walk_page: int,
        timing: Timing,
    ) -> None:
        self.state: _SearchState | None = state
        self._mounts = {mount.name: mount for mount in mounts}
        self._order = [mount.name for mount in mounts]
        self._requests = {
            where: msgspec.structs.replace(request, on_progress=self._count)
            for where, request in requests.items()
        }
        self._below = below
        self._size = size
        self._progress = progress
        self._is_continued = is_continued
        self._walk_page = walk_page
        self._timing = timing
        self._deadline = time.monotonic() + timing.search_s
        self._hits: list[SearchHit] = []
        self._unavailable: list[str] = []
        self._looked_at = self._reported = self._skipped = 0

    async def page(self) -> SearchResults:
        """Return the page without its cursor."""
        state = self.state
        where: Where = "names"
        looked_at, total, stopped = 0, None, False
        # At least one round, however late it is: every page makes progress.
        while state is not None and len(self._hits) < self._size and not stopped:
            cursors = self._next_cursors(state)
            # A round of names takes as many hits from each mount: it needs room for one of each.
            if self._hits and self._size - len(self._hits) < len(cursors):
                break
            if cursors and state.where == "names":
                await self._search_names(state, cursors)
            elif cursors:
                await self._search_text(state)
            where, looked_at = state.where, state.looked_at
            total = state.total if state.rest is None else None
            if not state.cursors and state.rest is None:
                state = self._following(state)
            stopped = state is not None and time.monotonic() >= self._deadline
        self.state = state
        return SearchResults(
            self._hits,
            None,
            where=where,
            looked_at=looked_at if total is None else min(looked_at, total),
            total=total,
            stopped=stopped and len(self._hits) < self._size,
            skipped=self._skipped,
            unavailable=tuple(dict.fromkeys(self._unavailable)),
        )

    def _following(self, state: _SearchState) -> _SearchState | None:
        if state.where == "text" or "text" not in self._requests:
            return None
        return _initial_state("text", self._order)

    def _next_cursors(self, state: _SearchState) -> list[_MountCursor]:
        """Return the mounts to search next: several by name, but one by text."""
        limit = _CONCURRENT_MOUNTS if state.where == "names" else 1
        while len(state.cursors) < limit and state.rest is not None:
            state.cursors.append(_MountCursor(state.rest))
            following = self._order.index(state.rest) + 1
            state.rest = self._order[following] if following < len(self._order) else None
        return state.cursors[:limit]

    async def _search_names(self, state: _SearchState, cursors: Sequence[_MountCursor]) -> None:
        """Take as many hits from each mount as the page has room for, and rank them together."""
        room = self._size - len(self._hits)
        cursors = cursors[:room]
        limit = room // len(cursors)
        pages = await self._search(state, cursors, limit)
        query = NameQuery(self._requests["names"].text)
        ranked: list[tuple[int, int, SearchHit]] = []
        for mount_cursor, page in zip(cursors, pages, strict=True):
            for hit in self._take_hits(state, mount_cursor, page):
                path = hit.entry.resource.path
                rank = query.rank(path)
                ranked.append((OTHER if rank is None else rank, len("/".join(path)), hit))
        ranked.sort(key=lambda hit: hit[:2])
        self._hits += [hit for _, _, hit in ranked]

    async def _search_text(self, state: _SearchState) -> None:
        mount_cursor = state.cursors[0]
        (page,) = await self._search(state, [mount_cursor], self._size - len(self._hits))
        self._hits += self._take_hits(state, mount_cursor, page)

    def _take_hits(
        self, state: _SearchState, mount_cursor: _MountCursor, found: SearchPage | None
    ) -> list[SearchHit]:
        """Return the hits of a mount, and store where its search continues."""
        at = state.cursors.index(mount_cursor)
        if found is None:
            del state.cursors[at]
            return []
        if mount_cursor.after is None:
            if state.total is None or found.total is None:
                state.total = None
            else:
                state.total += found.total
        state.looked_at += found.looked_at
        self._skipped += found.skipped
        mount = self._mounts[mount_cursor.mount]
        if found.next is None:
            del state.cursors[at]
        else:
            state.cursors[at] = _MountCursor(mount_cursor.mount, _packed(found.next))
        return [
            SearchHit(
                mount.entry(hit.resource),
                _clipped(hit.lines),
                hit.has_more_lines or len(hit.lines) > _MAX_LINES,
            )
            for hit in found.hits
        ]

    async def _search(
        self, state: _SearchState, cursors: Sequence[_MountCursor], limit: int
    ) -> list[SearchPage | None]:
        """Search several mounts, each in a task; None for one that fails or takes too long."""
        request = self._requests[state.where]
        tasks = [
            asyncio.create_task(self._search_mount(request, mount_cursor, limit))
            for mount_cursor in cursors
        ]
        try:
            await self._wait(tasks)
        finally:
            for task in tasks:
                # Not awaited: a task that hangs may not end even when it is cancelled.
                task.cancel()
        return [
            self._outcome(mount_cursor, task)
            for mount_cursor, task in zip(cursors, tasks, strict=True)
        ]

    async def _wait(self, tasks: Sequence[asyncio.Task[SearchPage | BaseException]]) -> None:
        until = self._deadline + self._timing.search_mount_grace_s
        while pending := [task for task in tasks if not task.done()]:
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.wait(pending, timeout=min(left, self._timing.search_progress_s))
            if self._progress is not None and self._looked_at > self._reported:
                self._reported = self._looked_at
                self._progress(self._reported, None)

    async def _search_mount(
        self, request: SearchRequest, mount_cursor: _MountCursor, limit: int
    ) -> SearchPage | BaseException:
        """Return the page of one mount, or its error; a task's exception could get lost."""
        mount = self._mounts[mount_cursor.mount]
        search = partial(fallback_search.search_mount, mount, walk_page=self._walk_page)
        if "search" in mount.provider.abilities:
            search = mount.provider.search
        below = self._below or ()
        try:
            await mount.start()
            found = await search(
                request,
                below=below,
                after=mount_cursor.text,
                limit=limit,
                deadline=self._deadline,
            )
            _check_found(found, mount_cursor, below, limit)
        except Exception as error:
            return error
        return found

    def _outcome(
        self, mount_cursor: _MountCursor, task: asyncio.Task[SearchPage | BaseException]
    ) -> SearchPage | None:
        error: BaseException = DeadlineExceeded("the search has not ended in time")
        if task.done() and not task.cancelled():
            outcome = task.result()
            if isinstance(outcome, SearchPage):
                return outcome
            error = outcome
        if self._below is not None or (self._is_continued and isinstance(error, InvalidParameter)):
            raise error
        log_failure(error, f"searching mount {mount_cursor.mount} failed")
        self._unavailable.append(mount_cursor.mount)
        return None

    def _count(self, count: int) -> None:
        self._looked_at += count


def _packed(place: str | None) -> bytes | None:
    return None if place is None else place.encode("utf-8", "surrogateescape")


def _check_found(found: SearchPage, mount_cursor: _MountCursor, below: Path, limit: int) -> None:
    """Check that a provider's search keeps within its request and makes progress.

    Raises:
        ResourceServerError: it does not.
    """
    if len(found.hits) > limit:
        raise ResourceServerError("search() returned more than `limit` hits")
    if any(hit.resource.path[: len(below)] != below for hit in found.hits):
        raise ResourceServerError("search() returned a resource that is not below `below`")
    if found.next is not None and (
        found.next == mount_cursor.text or len(found.next) > _MAX_NEXT_LENGTH
    ):
        raise ResourceServerError("search() returned a `next` that is too long, or `after` again")
    _packed(found.next)


def _clipped(lines: Sequence[MatchedLine]) -> tuple[MatchedLine, ...]:
    return tuple(
        MatchedLine(line.number, uris.display(_shortened(line.text))) for line in lines[:_MAX_LINES]
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}…"
