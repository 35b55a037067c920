"""Search of a mount whose provider has no search of its own: all of it is walked, and read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from resource_server import media_types
from resource_server.catalog import contract_guard
from resource_server.catalog.mount import FAILURES, Mount, log_failure
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceError
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, MatchedLine, SearchPage, SearchRequest
from resource_server.runtime.eager import Turns, is_cancelled, settle
from resource_server.search.name_match import NameQuery
from resource_server.search.text_match import LineQuery
from resource_server.search.top_k import INVALID, TopK, to_path

_PAGE = 100
_AT_ONCE = 8
"""Documents that are read at the same time."""
_LEAST_S = 0.05
"""However late it is, so long is waited for a document."""
_LOOP_BYTES = 64 * 1024
"""Texts of more than this leave the event loop to be looked through."""


async def search_mount(
    mount: Mount,
    sought: SearchRequest,
    *,
    below: Path,
    after: str | None,
    limit: int,
    deadline: float,
) -> SearchPage:
    """Return what is found in a mount; see `SupportsSearch.search`."""
    top = await settle(mount.provider.metadata(below))
    if sought.where == "names":
        return await _names(mount, sought, top, after=after, limit=limit, deadline=deadline)
    return await _TextSearch(mount, sought, top, limit=limit, deadline=deadline).found(after)


async def _names(
    mount: Mount,
    sought: SearchRequest,
    top: Resource,
    *,
    after: str | None,
    limit: int,
    deadline: float,
) -> SearchPage:
    names = NameQuery(sought.text)
    best = TopK[Resource](names, after, limit)
    looked_at = 0
    stopped_at: Path | None = None
    walk = _MountWalk(mount, top, best.start)
    while (page := await walk.next()) and stopped_at is None:
        for resource in page:
            rank = names.rank(resource.path)
            if rank is not None:
                best.add(resource.path, rank, resource)
        looked_at += len(page)
        sought.report_progress(len(page))
        if time.monotonic() >= deadline and not walk.ended:
            stopped_at = page[-1].path
    found, following = best.page(stopped_at)
    total = looked_at if stopped_at is None and not best.start else None
    return SearchPage(
        hits=[Hit(resource) for resource in found],
        next=following,
        looked_at=looked_at,
        total=total,
    )


class _MountWalk:
    """What lies below a resource, or the document itself, in pages."""

    def __init__(self, mount: Mount, top: Resource, after: Path) -> None:
        if after and after[: len(top.path)] != top.path:
            raise InvalidParameter(INVALID)
        self.ended = top.type == "document" and bool(after)
        self._mount = mount
        self._top = top
        self._after = after or top.path
        self._turns = Turns()

    async def next(self) -> Sequence[Resource]:
        """Return the next page; empty at the end."""
        await self._turns.others()
        if self.ended:
            return ()
        if self._top.type == "document":
            self.ended = True
            return (self._top,)
        page = await contract_guard.below(
            self._mount,
            self._top.path,
            after=self._after,
            limit=_PAGE,
            unlisted=not self._top.listed,
        )
        self.ended = len(page) < _PAGE
        if page:
            self._after = page[-1].path
        return page


class _TextSearch:
    """Reads document after document, some at the same time, and looks for lines in them."""

    def __init__(
        self, mount: Mount, sought: SearchRequest, top: Resource, *, limit: int, deadline: float
    ) -> None:
        self._mount = mount
        self._sought = sought
        self._lines = LineQuery(sought)
        self._top = top
        self._limit = limit
        self._deadline = deadline
        self._hits: list[Hit] = []
        self._looked_at = 0
        self._has_failed = False

    async def found(self, after: str | None) -> SearchPage:
        """Return what is found, in the order of the walk."""
        walk = _MountWalk(self._mount, self._top, to_path(after or ""))
        last: Path | None = None
        while page := await walk.next():
            for begin in range(0, len(page), _AT_ONCE):
                some = page[begin : begin + _AT_ONCE]
                done = await self._look(some)
                last = some[done - 1].path if done else last
                if last is None:
                    # Not even the first: it is left out, or there would be no getting on.
                    last = some[0].path
                if done < len(some) or len(self._hits) == self._limit or self._is_late():
                    return self._page(last)
        return self._page(None)

    def _page(self, last: Path | None) -> SearchPage:
        following = None if last is None else "/".join(last)
        return SearchPage(hits=self._hits, next=following, looked_at=self._looked_at)

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    async def _look(self, resources: Sequence[Resource]) -> int:
        """Look into some resources; return how many were done, in order, in the time left."""
        tasks = [asyncio.create_task(self._text(resource)) for resource in resources]
        try:
            left = max(self._deadline - time.monotonic(), _LEAST_S)
            await asyncio.wait(tasks, timeout=left)
        finally:
            for task in tasks:
                task.cancel()
        done = 0
        for resource, task in zip(resources, tasks, strict=True):
            if not task.done() or len(self._hits) == self._limit:
                break
            done += 1
            text = None if task.cancelled() else task.result()
            try:
                lines = await self._matching(text) if text else ()
            except DeadlineExceeded:
                done -= 1
                break
            if lines:
                self._hits.append(Hit(resource, lines))
        self._looked_at += done
        self._sought.report_progress(done)
        return done

    async def _text(self, resource: Resource) -> bytes | None:
        """Return the text of a document as it is read; None where it has none."""
        if resource.type == "collection" or not resource.readable:
            return None
        if resource.mime_type is not None and media_types.is_binary(resource.mime_type):
            return None
        try:
            _, contents = await contract_guard.fetch(self._mount, resource.path, {})
            data = contents[0].data if contents else b""
            return data.encode("utf-8", "replace") if isinstance(data, str) else None
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            # What is too large, gone or has to be asked for something is none of the search's.
            if not isinstance(error, ResourceError) and not self._has_failed:
                self._has_failed = True
                log_failure(error, f"a document in mount {self._mount.name} could not be searched")
            return None

    async def _matching(self, text: bytes) -> tuple[MatchedLine, ...]:
        if len(text) <= _LOOP_BYTES and not self._sought.is_pattern:
            return self._lines.found(text)
        # Imported here: not every search needs a thread.
        from anyio import to_thread

        return await to_thread.run_sync(
            self._lines.found, text, self._check, abandon_on_cancel=True
        )

    def _check(self) -> None:
        if self._is_late():
            raise DeadlineExceeded
