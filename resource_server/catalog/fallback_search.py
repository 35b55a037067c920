"""Search of a mount whose provider does not search itself: walks it and reads its documents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from resource_server import media_types
from resource_server.catalog.contract_guard import GuardedProvider
from resource_server.catalog.mount import Mount, log_failure
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    ResourceError,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, SearchPage, SearchRequest
from resource_server.runtime.eager import Turns
from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.search.coverage import FAILED, NOT_READABLE, NOT_TEXT, TOO_LARGE
from resource_server.search.name_match import NameQuery
from resource_server.search.path_glob import FileGlob
from resource_server.search.text_hits import TextHits
from resource_server.search.text_match import NO_MATCHES, LineQuery, Matches
from resource_server.search.top_k import INVALID, TopK

WALK_PAGE = 100
"""Resources listed at a time."""
_CONCURRENT_READS = 8
_TOO_SLOW = "too slow to read"
_LOOP_BYTES = 64 * 1024
"""Maximum bytes of a text searched on the event loop."""


async def search_mount(
    mount: Mount,
    request: SearchRequest,
    *,
    below: Path,
    after: str | None,
    limit: int,
    deadline: float,
    walk_page: int = WALK_PAGE,
    read_s: float = DEFAULT_TIMING.search_read_s,
) -> SearchPage:
    """Return the hits in a mount, as `SupportsSearch.search`; `read_s` as in `Timing`."""
    top = await mount.provider.metadata(below)
    walk = _MountWalk(mount.provider, top, walk_page)
    if request.where == "names":
        return await _search_names(request, walk, after=after, limit=limit, deadline=deadline)
    search = _TextSearch(
        mount, request, walk, after=after, limit=limit, deadline=deadline, read_s=read_s
    )
    return await search.page()


async def _search_names(
    request: SearchRequest,
    walk: _MountWalk,
    *,
    after: str | None,
    limit: int,
    deadline: float,
) -> SearchPage:
    query = NameQuery.of(request)
    top_k = TopK[Resource](query.key, after, limit, has_windows=False)
    looked_at = 0
    stopped_at: Path | None = None
    walk.start_after(top_k.start)
    while stopped_at is None and (page := await walk.next()):
        for resource in page:
            rank = query.rank(resource.path)
            if rank is not None:
                top_k.add(resource.path, rank, lambda resource=resource: resource)
        looked_at += len(page)
        request.report_progress(len(page))
        if time.monotonic() >= deadline and not walk.has_ended:
            stopped_at = page[-1].path
    found, following, beyond = top_k.page(stopped_at)
    return SearchPage(
        hits=[Hit(resource) for resource in found],
        next=following,
        looked_at=0 if top_k.is_continued else looked_at,
        total=looked_at if stopped_at is None and after is None else None,
        beyond=beyond,
        is_counted=stopped_at is None,
    )


class _MountWalk:
    """The descendants of a collection, or a single document, in pages."""

    def __init__(self, provider: GuardedProvider, top: Resource, page_size: int) -> None:
        self.has_ended = False
        self._provider = provider
        self._top = top
        self._page_size = page_size
        self._after = top.path
        self._turns = Turns()

    def start_after(self, path: Path) -> None:
        """Skip everything up to `path`; the empty path skips nothing.

        Raises:
            InvalidParameter: `path` is not in the walk.
        """
        if path and path[: len(self._top.path)] != self._top.path:
            raise InvalidParameter(INVALID)
        self.has_ended = self._top.type == "document" and bool(path)
        self._after = path or self._top.path

    async def next(self) -> Sequence[Resource]:
        """Return the next page; empty at the end."""
        await self._turns.others()
        if self.has_ended:
            return ()
        if self._top.type == "document":
            self.has_ended = True
            return (self._top,)
        page = await self._provider.below(
            self._top.path,
            self._after,
            self._page_size,
            include_unlisted=not self._top.listed,
        )
        self.has_ended = len(page) < self._page_size
        if page:
            self._after = page[-1].path
        return page


class _TextSearch:
    """Reads the documents of a walk, several at a time, and matches their lines."""

    def __init__(
        self,
        mount: Mount,
        request: SearchRequest,
        walk: _MountWalk,
        *,
        after: str | None,
        limit: int,
        deadline: float,
        read_s: float,
    ) -> None:
        self._mount = mount
        self._request = request
        self._query = LineQuery(request)
        self._walk = walk
        self._deadline = deadline
        self._read_s = read_s
        self._files = None if request.files is None else FileGlob(request.files)
        self._hits = TextHits(request, after, limit, has_windows=False)
        self._is_first = after is None
        self._has_failed = False

    async def page(self) -> SearchPage:
        """Return a page of hits: the best of all, or of the first in walk order if time is over."""
        best = self._hits.best
        self._walk.start_after(best.start)
        last: Path | None = None
        while page := await self._walk.next():
            at = 0
            while at < len(page):
                batch = page[at : at + _CONCURRENT_READS]
                done = await self._search_batch(batch)
                at += done
                last = batch[done - 1].path if done else last
                if last is None:
                    # Even the first document took too long: skip it, or every page would stop here.
                    last = batch[0].path
                    self._hits.miss(last, _TOO_SLOW, is_late=True)
                is_end = self._walk.has_ended and at == len(page)
                if done < len(batch) or (self._is_late() and not is_end):
                    return self._page(last)
        return self._page(None)

    def _page(self, last: Path | None) -> SearchPage:
        return self._hits.page(
            last, self._hits.looked_at if last is None and self._is_first else None
        )

    def _is_late(self) -> bool:
        return time.monotonic() >= self._until()

    def _until(self) -> float:
        return min(self._deadline, self._hits.until())

    async def _search_batch(self, resources: Sequence[Resource]) -> int:
        """Search some resources; return how many were done, in order, before the deadline."""
        tasks = [asyncio.create_task(self._text_of(resource)) for resource in resources]
        try:
            left = max(self._until() - time.monotonic(), self._read_s)
            await asyncio.wait(tasks, timeout=left)
        finally:
            for task in tasks:
                task.cancel()
        done = documents = 0
        for resource, task in zip(resources, tasks, strict=True):
            if not task.done():
                break
            done += 1
            documents += resource.type == "document"
            text = FAILED if task.cancelled() else task.result()
            try:
                found = NO_MATCHES
                if isinstance(text, bytes) and text:
                    found = await self._matches(text, resource.path)
            except DeadlineExceeded:
                done -= 1
                documents -= resource.type == "document"
                break
            if isinstance(text, str):
                self._hits.miss(resource.path, text)
            else:
                self._hits.add(resource.path, found, lambda resource=resource: resource)
        self._hits.look_at(documents)
        return done

    async def _text_of(self, resource: Resource) -> bytes | str:
        """Return the text of a document as UTF-8, nothing for a collection, or why it has none."""
        if resource.type == "collection" or not self._is_sought(resource.path):
            return b""
        if not resource.readable:
            return NOT_READABLE
        if resource.mime_type is not None and media_types.is_binary(resource.mime_type):
            return NOT_TEXT
        try:
            _, contents = await self._mount.provider.fetch(resource.path, {})
            data = contents[0].data if contents else b""
            return data.encode("utf-8", "replace") if isinstance(data, str) else NOT_TEXT
        except ResourceNotFound:
            return b""  # gone meanwhile
        except ResourceTooLarge:
            return TOO_LARGE
        except Exception as error:
            # A document that needs parameters is not a failed search.
            if not isinstance(error, ResourceError) and not self._has_failed:
                self._has_failed = True
                log_failure(error, f"a document in mount {self._mount.name} could not be searched")
            return NOT_READABLE if isinstance(error, ResourceError) else FAILED

    def _is_sought(self, path: Path) -> bool:
        return self._files is None or self._files.matches(path)

    async def _matches(self, text: bytes, path: Path) -> Matches:
        keep = self._hits.keep
        if len(text) <= _LOOP_BYTES and not self._request.is_pattern:
            return self._query.matches(text, keep=keep, path=path)
        # Imported here: not every search needs a thread.
        from anyio import to_thread

        return await to_thread.run_sync(
            self._query.matches, text, self._check_deadline, keep, path, abandon_on_cancel=True
        )

    def _check_deadline(self) -> None:
        if self._is_late():
            raise DeadlineExceeded
