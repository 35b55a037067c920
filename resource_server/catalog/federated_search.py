"""Search over mounts, a page at a time: first by names, the best first, then in texts.

Each mount is searched in a task of its own that nobody waits for longer than the time allowed, so
that one which hangs takes only itself out. A page is as long as its hits or its time last; its
cursor says where each mount goes on.
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
from resource_server.catalog.mount import FAILURES, CatalogEntry, Mount, log_failure
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceServerError
from resource_server.provider import Path
from resource_server.provider.search import MatchedLine, SearchPage, SearchRequest, Where
from resource_server.runtime.eager import is_cancelled, settle
from resource_server.search.name_match import OTHER, NameQuery
from resource_server.search.text_match import LineQuery

DEADLINE_S = 2.0
"""How long one page may take."""
_GRACE_S = 0.5
"""What a mount may be late by before nobody waits for it any more."""
_TOLD_EVERY_S = 0.5
_MAX_QUERY = 1000
_MAX_NEXT = 16 * 1024
_MAX_LINES = 20
_MAX_LINE = 1000
_AT_ONCE = 8
"""Mounts that are searched by name at the same time, and whose hits are ranked together."""
_EXPRESSION = re.compile(r"/(.+)/", re.DOTALL)


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class SearchHit(msgspec.Struct, frozen=True):
    """A resource that was found, with the first lines that match where text was looked through."""

    entry: CatalogEntry
    lines: tuple[MatchedLine, ...] = ()


class SearchResults(msgspec.Struct, frozen=True):
    """Part of what a search finds; `next_cursor` is None where all was searched.

    `where` tells the place it has come to, and `looked_at` of `total` resources (None: not known)
    have been looked at there so far; what has text of its own may be others than what has a name.
    With `stopped` it ends there because its time was over. `unavailable` names the mounts that
    could not be searched.
    """

    hits: Sequence[SearchHit]
    next_cursor: str | None
    where: Where = "names"
    looked_at: int = 0
    total: int | None = None
    stopped: bool = False
    unavailable: tuple[str, ...] = ()


class _Mark(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where the search of one mount goes on; None: at its beginning."""

    mount: str
    after: bytes | None = None

    @property
    def place(self) -> str | None:
        return None if self.after is None else self.after.decode("utf-8", "surrogateescape")


class _SearchState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where a search goes on: in the mounts that are marked, then in those from `rest` on.

    `looked_at` and `total` are of this place only, `total` that of the mounts that were begun; None
    as soon as one does not know it.
    """

    where: Where
    marks: list[_Mark]
    rest: str | None
    looked_at: _Count = 0
    total: _Count | None = 0


def parse_query(query: str, where: Where | None) -> dict[Where, SearchRequest]:
    """Return what is looked for in each place, in order.

    Raises:
        InvalidParameter: nothing can be found by this query; says why.
    """
    if not query.strip():
        raise InvalidParameter(
            "the query is empty; write a part of a name or of a line, a glob, or /an expression/"
        )
    if len(query) > _MAX_QUERY:
        raise InvalidParameter(
            f"the query has {len(query)} characters; at most {_MAX_QUERY} are taken"
        )
    if uris.display(query) != query or any(end in query for end in "\0\r\n"):
        raise InvalidParameter("the query is not one line of text")
    match = _EXPRESSION.fullmatch(query)
    sought: dict[Where, SearchRequest] = {}
    if where != "text":
        sought["names"] = SearchRequest(text=query.strip(), where="names")
    if where != "names":
        text = query if match is None else match[1]
        sought["text"] = SearchRequest(text=text, where="text", is_pattern=match is not None)
    return sought


async def search_mounts(
    mounts: Sequence[Mount],
    query: str,
    *,
    below: Path | None,
    where: Where | None,
    after: str | None,
    size: int,
    progress: Progress | None,
) -> SearchResults:
    """Return a page of what is found in `mounts`, or below a path of the only one.

    Raises:
        InvalidParameter: the query or the cursor cannot be used.
        ResourceError: with `below`, what its mount raises.
    """
    sought = parse_query(query, where)
    place = "" if below is None else uris.join(mounts[0].base, below)
    scope = "\0".join(("search", where or "", place, query))
    if "text" in sought:
        LineQuery(sought["text"])  # refused here, whatever the mounts are
    names = [mount.name for mount in mounts]
    if after:
        state = cursor.unpack(after, _SearchState, scope=scope)
        _check(state, sought, names)
    else:
        state = _begun(next(iter(sought)), names)
    searching = _Searching(
        mounts,
        sought,
        state,
        below=below,
        size=size,
        progress=progress,
        goes_on=bool(after),
    )
    page = await searching.page()
    if searching.state is None:
        return page
    return msgspec.structs.replace(page, next_cursor=cursor.pack(searching.state, scope=scope))


def _begun(where: Where, names: Sequence[str]) -> _SearchState:
    return _SearchState(where, [], names[0] if names else None)


def _check(
    state: _SearchState, sought: Mapping[Where, SearchRequest], names: Sequence[str]
) -> None:
    marked = [mark.mount for mark in state.marks]
    known = len(set(marked)) == len(marked) and {*marked, state.rest} <= {*names, None}
    if not known or state.where not in sought:
        raise InvalidParameter(cursor.INVALID)


class _Searching:
    """One page of a search in the making; `state` is where the next goes on, None at the end."""

    def __init__(
        self,
        mounts: Sequence[Mount],
        sought: Mapping[Where, SearchRequest],
        state: _SearchState,
        *,
        below: Path | None,
        size: int,
        progress: Progress | None,
        goes_on: bool,
    ) -> None:
        self.state: _SearchState | None = state
        self._mounts = {mount.name: mount for mount in mounts}
        self._order = [mount.name for mount in mounts]
        self._sought = {
            where: msgspec.structs.replace(each, on_progress=self._saw)
            for where, each in sought.items()
        }
        self._below = below
        self._size = size
        self._progress = progress
        self._goes_on = goes_on
        self._deadline = time.monotonic() + DEADLINE_S
        self._hits: list[SearchHit] = []
        self._unavailable: list[str] = []
        self._seen = self._told = 0

    async def page(self) -> SearchResults:
        """Return the page, but for its cursor."""
        state = self.state
        where: Where = "names"
        looked_at, total, stopped = 0, None, False
        # However late it is: each page gets on.
        while state is not None and len(self._hits) < self._size and not stopped:
            marks = self._active(state)
            # Of names each mount gives as many; a round for less than one of each is not worth it.
            if self._hits and self._size - len(self._hits) < len(marks):
                break
            if marks and state.where == "names":
                await self._names(state, marks)
            elif marks:
                await self._text(state)
            where, looked_at = state.where, state.looked_at
            total = state.total if state.rest is None else None
            if not state.marks and state.rest is None:
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
            unavailable=tuple(dict.fromkeys(self._unavailable)),
        )

    def _following(self, state: _SearchState) -> _SearchState | None:
        if state.where == "text" or "text" not in self._sought:
            return None
        return _begun("text", self._order)

    def _active(self, state: _SearchState) -> list[_Mark]:
        """Return the mounts to search next: of names several, in text one after the other."""
        most = _AT_ONCE if state.where == "names" else 1
        while len(state.marks) < most and state.rest is not None:
            state.marks.append(_Mark(state.rest))
            following = self._order.index(state.rest) + 1
            state.rest = self._order[following] if following < len(self._order) else None
        return state.marks[:most]

    async def _names(self, state: _SearchState, marks: Sequence[_Mark]) -> None:
        """Take as many hits from each mount as the page has room for, and rank them together."""
        room = self._size - len(self._hits)
        marks = marks[:room]
        limit = room // len(marks)
        founds = await self._ask(state, marks, limit)
        names = NameQuery(self._sought["names"].text)
        ranked: list[tuple[int, int, SearchHit]] = []
        for mark, found in zip(marks, founds, strict=True):
            for hit in self._taken(state, mark, found):
                path = hit.entry.resource.path
                rank = names.rank(path)
                ranked.append((OTHER if rank is None else rank, len("/".join(path)), hit))
        ranked.sort(key=lambda each: each[:2])
        self._hits += [hit for _, _, hit in ranked]

    async def _text(self, state: _SearchState) -> None:
        mark = state.marks[0]
        (found,) = await self._ask(state, [mark], self._size - len(self._hits))
        self._hits += self._taken(state, mark, found)

    def _taken(self, state: _SearchState, mark: _Mark, found: SearchPage | None) -> list[SearchHit]:
        """Return the hits of a mount, and note where its search goes on."""
        at = state.marks.index(mark)
        if found is None:
            del state.marks[at]
            return []
        if mark.after is None:
            if state.total is None or found.total is None:
                state.total = None
            else:
                state.total += found.total
        state.looked_at += found.looked_at
        mount = self._mounts[mark.mount]
        if found.next is None:
            del state.marks[at]
        else:
            state.marks[at] = _Mark(mark.mount, _packed(found.next))
        return [SearchHit(mount.entry(hit.resource), _clipped(hit.lines)) for hit in found.hits]

    async def _ask(
        self, state: _SearchState, marks: Sequence[_Mark], limit: int
    ) -> list[SearchPage | None]:
        """Search several mounts, each in a task; None for one that fails or takes too long."""
        sought = self._sought[state.where]
        tasks = [asyncio.create_task(self._found(sought, mark, limit)) for mark in marks]
        try:
            await self._wait(tasks)
        finally:
            for task in tasks:
                # Not waited for: what hangs may not even end when it is cancelled.
                task.cancel()
        return [self._outcome(mark, task) for mark, task in zip(marks, tasks, strict=True)]

    async def _wait(self, tasks: Sequence[asyncio.Task[SearchPage | BaseException]]) -> None:
        until = self._deadline + _GRACE_S
        while pending := [task for task in tasks if not task.done()]:
            left = until - time.monotonic()
            if left <= 0:
                return
            await asyncio.wait(pending, timeout=min(left, _TOLD_EVERY_S))
            if self._progress is not None and self._seen > self._told:
                self._told = self._seen
                self._progress(self._told, None)

    async def _found(
        self, sought: SearchRequest, mark: _Mark, limit: int
    ) -> SearchPage | BaseException:
        """Return what one mount finds, or why it does not; an error of a task is never lost so."""
        mount = self._mounts[mark.mount]
        search = partial(fallback_search.search_mount, mount)
        if mount.searches is not None:
            search = mount.searches.search
        below, until = self._below or (), self._deadline
        try:
            if mount.problem is not None:
                await mount.start()
            found: SearchPage = await settle(
                search(sought, below=below, after=mark.place, limit=limit, deadline=until)
            )
            _check_found(found, mark, below, limit)
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            return error
        return found

    def _outcome(
        self, mark: _Mark, task: asyncio.Task[SearchPage | BaseException]
    ) -> SearchPage | None:
        error: BaseException = DeadlineExceeded("the search has not ended in time")
        if task.done() and not task.cancelled():
            outcome = task.result()
            if isinstance(outcome, SearchPage):
                return outcome
            error = outcome
        if self._below is not None or (self._goes_on and isinstance(error, InvalidParameter)):
            raise error
        log_failure(error, f"searching mount {mark.mount} failed")
        self._unavailable.append(mark.mount)
        return None

    def _saw(self, count: int) -> None:
        self._seen += count


def _packed(place: str | None) -> bytes | None:
    return None if place is None else place.encode("utf-8", "surrogateescape")


def _check_found(found: SearchPage, mark: _Mark, below: Path, limit: int) -> None:
    """Make sure that the search of a provider keeps within what was asked, and gets on.

    Raises:
        ResourceServerError: it does not.
    """
    if len(found.hits) > limit:
        raise ResourceServerError("search() returned more than `limit` hits")
    if any(hit.resource.path[: len(below)] != below for hit in found.hits):
        raise ResourceServerError("search() returned a resource that is not below `below`")
    if found.next is not None and (found.next == mark.place or len(found.next) > _MAX_NEXT):
        raise ResourceServerError("search() returned a `next` that is too long, or `after` again")
    _packed(found.next)


def _clipped(lines: Sequence[MatchedLine]) -> tuple[MatchedLine, ...]:
    return tuple(
        MatchedLine(line.number, uris.display(line.text[:_MAX_LINE])) for line in lines[:_MAX_LINES]
    )
