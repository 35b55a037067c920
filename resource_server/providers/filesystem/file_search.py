"""Search in a folder: of names, and of lines of documents, in worker threads.

It visits only what the tree exposes, and only documents that a read would return as text, so it
finds nothing that the caller may not see. A document is opened by its directory's descriptor, never
through a link, and gets its metadata only if it matches.
"""

from __future__ import annotations

import codecs
import errno
import logging
import math
import os
import stat as modes
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from resource_server import media_types
from resource_server.documents.encoding import PIECE_BYTES, TextEncoding, decodes_as_utf8
from resource_server.documents.worker_threads import WorkerThreads
from resource_server.errors import ConversionError, InvalidParameter, ResourceBusy, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, SearchPage, SearchRequest, Together
from resource_server.providers.filesystem.contained_root import resource_error
from resource_server.providers.filesystem.converted import (
    ConvertedText,
    NotConvertedYet,
    PlacedText,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules
from resource_server.providers.filesystem.file_tree import (
    FileTree,
    NameRun,
    ResourceFactory,
    TreeEntry,
)
from resource_server.providers.filesystem.large_document import (
    LargeSearch,
    OutOfTime,
    Place,
    next_data,
)
from resource_server.runtime.option_types import short_size
from resource_server.runtime.timing import Timing
from resource_server.search.coverage import FAILED, NOT_READABLE, NOT_TEXT
from resource_server.search.name_match import NameQuery
from resource_server.search.path_glob import FileGlob
from resource_server.search.text_hits import TextHits
from resource_server.search.text_match import NO_MATCHES, Check, Keep, LineQuery, Matches
from resource_server.search.top_k import INVALID, TopK, to_path

if TYPE_CHECKING:
    from resource_server.providers.filesystem.search_index.index import Candidates, SearchIndex
    from resource_server.providers.filesystem.search_index.known_walk import KnownWalk

_log = logging.getLogger(__name__)

MANY_DOCUMENTS = 20_000
"""A folder with more is searched faster with an index."""
_MAX_SEARCHES = 4
"""Maximum simultaneous searches of one folder; others wait."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DENIED = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)
_HEAD_BYTES = 8192
"""A NUL in the first bytes of a large document shows that it is binary."""
_LOOK_AHEAD = 20
"""Names among which the next document to convert is looked for."""
_SMALL_BYTES = PIECE_BYTES
"""Maximum bytes that are read or decoded in one step."""
_BLOCK_BYTES = 1024 * 1024
_FOLDER_BYTES = 4 * 1024**3
"""Bytes of one document that the search of a folder looks into, page by page."""
_WITHIN = "//"
"""Prefix of a position within a document; no path begins with it."""
_TOO_SLOW = "too slow to search"
_NOT_UTF8 = "partly not UTF-8, and too large to guess its encoding"
_NOT_CONVERTED = "not converted yet"
_GROWN = "has grown meanwhile"
_PICTURES, _SOME_PICTURES = "only pictures without text", "partly pictures without text"
_CUT = "too long: its beginning was searched"


class FileSearch:
    """Searches one folder; `types` are the media types of its options."""

    def __init__(
        self,
        tree: FileTree,
        factory: ResourceFactory,
        types: tuple[tuple[str, str], ...],
        timing: Timing,
        converted: ConvertedText | None = None,
        *,
        index: SearchIndex | None = None,
    ) -> None:
        self._tree = tree
        self._factory = factory
        self._types = types
        self._converted = converted
        self._index = index
        self._has_advised = False
        self._to_convert: Path | None = ()
        """A document to convert that a search by name came by; None once a worker is expected."""
        self._walk: KnownWalk | None = None
        if index is not None:
            # Imported here: most folders have no index.
            from resource_server.providers.filesystem.search_index import known_walk

            self._walk = known_walk.KnownWalk(tree, index)
        self._timing = timing
        self._threads = WorkerThreads(_MAX_SEARCHES)
        self._waiting = tree.searches
        """Shares of the searches that have not ended and whose callers wait, begun or not."""

    def close(self) -> None:
        """End the threads that are idle."""
        self._threads.close()

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return one page of hits; see `SupportsSearch.search`."""
        share = _TimeShare(deadline, self._waiting, self._timing)

        def work() -> SearchPage:
            share.begin()
            try:
                top = self._tree.find(below)
                if request.where == "names":
                    return self._search_names(request, top, after, limit=limit, share=share)
                return self._search_text(request, top, after, limit=limit, share=share)
            finally:
                # Here: the thread begins the next search before the loop hears of this one's end.
                self._waiting.discard(share)

        self._waiting.add(share)
        try:
            page = await self._threads.run(work, timeout_s=share.wait_s())
            if self._index is None and request.where == "text":
                self._advise(max(page.looked_at, page.total or 0))
            return page
        finally:
            self._waiting.discard(share)
            share.is_cancelled = True

    def _advise(self, count: int) -> None:
        """Tell the operator once of an index, if a search has to look into very many documents."""
        if count > MANY_DOCUMENTS and not self._has_advised:
            self._has_advised = True
            path = self._tree.root.path
            text = "searches of %s look into %d files; 'index: true' and 'cache' speed them up"
            _log.warning(text, path, count)

    def _search_text(
        self,
        request: SearchRequest,
        top: TreeEntry,
        after: str | None,
        *,
        limit: int,
        share: _TimeShare,
    ) -> SearchPage:
        is_alone = top.directory is None
        documents = DocumentSearcher(
            request, self._types, share.check, self._converted, is_alone=is_alone
        )
        search = _LineSearch(
            self._tree, self._factory, documents, request, after=after, limit=limit, share=share
        )
        if self._index is None or is_alone:
            expected = self._to_convert
            if self._converted is not None and expected and search.seeks(expected, below=top.path):
                # Once: the page may be full before it comes to the document.
                self._to_convert = None
                self._converted.expect(expected[-1])
            return search.page(top)
        with self._index.candidates(request) as candidates:
            return search.page(top, candidates, None if candidates is None else self._walk)

    def _search_names(
        self,
        request: SearchRequest,
        top: TreeEntry,
        after: str | None,
        *,
        limit: int,
        share: _TimeShare,
    ) -> SearchPage:
        query = NameQuery.of(request)
        best = TopK[Path](query.key, after, limit)
        looked_at = 0
        stopped_at: Path | None = None
        for run in _name_runs(self._tree, top, best, self._walk):
            path, names = run.path, run.names
            for name in query.candidates(names):
                rank = query.rank((*path, name))
                if rank is not None:
                    found = (*path, name)
                    best.add(found, rank, lambda found=found: found)
            if self._to_convert == () and self._converted is not None and not run.is_directory:
                named = next(filter(self._converted.is_for, names), None)
                self._to_convert = () if named is None else (*path, named)
            looked_at += len(names)
            request.report_progress(len(names))
            if share.is_spent():
                stopped_at = (*path, names[-1])
                break
        paths, following, beyond = best.page(stopped_at)
        hits: list[Hit] = []
        for path in paths:
            with suppress(ResourceNotFound):  # removed meanwhile
                hits.append(Hit(self._factory.resource(self._tree.find(path))))
        is_whole = stopped_at is None and not best.end
        return SearchPage(
            hits=hits,
            next=following,
            looked_at=0 if best.is_continued else looked_at,
            total=looked_at if is_whole and after is None else None,
            beyond=beyond,
            is_counted=is_whole,
        )


class _TimeShare:
    """A search's share of the time until its deadline, which it divides with waiting searches.

    The share begins when the search begins. Set `is_cancelled` once its caller is gone.
    """

    def __init__(self, deadline: float, waiting: Sized, timing: Timing) -> None:
        self.is_cancelled = False
        self._deadline = deadline
        self._document_s = timing.search_document_s
        self._latest = deadline + timing.search_grace_s
        self._waiting = waiting
        self.begin()

    def begin(self) -> None:
        self._begun = time.monotonic()
        self._earliest = min(self._begun + self._document_s, self._latest)
        self._until = max(self._deadline, self._earliest)

    def wait_s(self) -> float:
        """Return how long the caller waits for the search to begin."""
        return self._latest - time.monotonic()

    def is_spent(self) -> bool:
        until = self._until
        if len(self._waiting) > _MAX_SEARCHES:
            until = self._begun + (until - self._begun) / self._turns()
        return self.is_cancelled or time.monotonic() >= until

    def check(self) -> None:
        """Raise `OutOfTime` once the time is spent; every document gets a minimum."""
        if self.is_cancelled or (time.monotonic() >= self._earliest and self.is_spent()):
            raise OutOfTime

    def spare_until(self) -> float:
        """Return the deadline of optional work."""
        return min(time.monotonic() + self._document_s / self._turns(), self._latest)

    def _turns(self) -> float:
        return max(len(self._waiting) / _MAX_SEARCHES, 1.0)


def _name_runs(
    tree: FileTree,
    top: TreeEntry,
    window: TopK[Any],
    walk: KnownWalk | None = None,
    candidates: Candidates | None = None,
) -> Generator[NameRun]:
    """Yield the names below `top` in a window of the walk; for a document, that itself."""
    start, end = window.start, window.end
    if any(place and place[: len(top.path)] != top.path for place in (start, end)):
        raise InvalidParameter(INVALID)
    runs: Iterable[NameRun]
    if top.directory is None:
        runs = _single_run(tree, top, start)
    elif walk is not None and not top.path and not start:
        runs = walk.runs(top.directory, candidates)
    else:
        runs = tree.name_runs(top.path, top.directory, start)
    for run in runs:
        if not end or (*run.path, run.names[-1]) <= end:
            yield run
            continue
        # The order of the walk is that of the paths.
        names = [name for name in run.names if (*run.path, name) <= end]
        if names:
            yield NameRun(run.path, run.directory, run.fd, names, run.entry)
        return


def _single_run(tree: FileTree, top: TreeEntry, after: Path) -> Generator[NameRun]:
    parent = tree.find(top.path[:-1]).directory
    if not after and parent is not None:
        yield NameRun(top.path[:-1], parent, -1, top.path[-1:], top)


class _LineSearch:
    """Searches the lines of document after document."""

    def __init__(
        self,
        tree: FileTree,
        factory: ResourceFactory,
        documents: DocumentSearcher,
        request: SearchRequest,
        *,
        after: str | None,
        limit: int,
        share: _TimeShare,
    ) -> None:
        self._tree = tree
        self._factory = factory
        self._documents = documents
        self._request = request
        self._files = None if request.files is None else FileGlob(request.files)
        self._share = share
        self._after = after if after is not None and after.startswith(_WITHIN) else None
        self._hits = TextHits(request, None if self._after else after, limit)
        self._best = self._hits.best
        self._is_first = after is None
        self._count_until = math.inf
        """When the count of the rest of a large document ends."""
        self._has_got_on = self._is_alone = False
        """Whether the page has passed anything: each one does, however late it is."""
        self._within: str | None = None
        """The position in the large document that the next page continues with."""
        self._part: Sequence[Hit] = ()
        """The hit in the part of it that was searched."""
        self._beyond = 0
        self._is_counted = True
        self._candidates: Candidates | None = None

    def page(
        self,
        top: TreeEntry,
        candidates: Candidates | None = None,
        walk: KnownWalk | None = None,
    ) -> SearchPage:
        """Return a page of hits: the best of its window.

        Only `candidates` may match, if they are given; `walk` knows the names below the root.
        """
        self._candidates = candidates
        self._is_alone = top.directory is None
        if self._after is not None:
            return self._page_within(top, self._after)
        last: Path = ()  # the last document; the page ends there
        passed: Path = ()
        total: int | None = None
        runs = _name_runs(self._tree, top, self._best, walk, candidates)
        try:
            for run in runs:
                done = self._search_run(run)
                self._has_got_on = self._has_got_on or done > 0
                if done:
                    passed = (*run.path, run.names[done - 1])
                    last = last if run.is_directory else passed
                if not run.is_directory:
                    self._hits.look_at(done)
                if done < len(run.names) or self._within is not None:
                    if self._is_first and not self._best.is_full:
                        counted = self._hits.looked_at + (len(run.names) - done) * (
                            not run.is_directory
                        )
                        total = _count(runs, counted, self._share.spare_until())
                    if self._within is not None:
                        return self._part_page(self._within, total)
                    return self._hits.page(last or passed, total)
        except ResourceBusy:
            if not self._is_enough():
                raise
            return self._hits.page(last or passed, None)
        return self._hits.page(None, self._hits.looked_at if self._is_first else None)

    def _page_within(self, top: TreeEntry, after: str) -> SearchPage:
        """Return a page of a large document that an earlier page has begun."""
        place, _, rest = after.removeprefix(_WITHIN).partition("/")
        path, begin = to_path(rest), Place.parse(place)
        if not path or path[: len(top.path)] != top.path:
            raise InvalidParameter(INVALID)
        with suppress(ResourceNotFound):  # removed meanwhile
            self._search_entry(self._tree.find(path), begin)
        if self._within is None:
            self._hits.look_at(1)
        return self._part_page(self._within or (None if self._is_alone else "/".join(path)), None)

    def _part_page(self, following: str | None, total: int | None) -> SearchPage:
        return SearchPage(
            hits=self._part,
            next=following,
            looked_at=self._hits.looked_at,
            total=total,
            unsearched=self._hits.gaps.entries(),
            beyond=self._beyond,
            is_counted=self._is_alone and self._is_counted and self._hits.is_exact,
        )

    def _is_enough(self) -> bool:
        """Return whether the window can end here."""
        return self._best.is_full and not self._best.is_continued

    def _is_over(self) -> bool:
        return self._share.is_spent() or time.monotonic() >= self._hits.until()

    def seeks(self, path: Path, *, below: Path = ()) -> bool:
        """Return whether a document is one to search, by its path."""
        is_below = path[: len(below)] == below
        return is_below and (self._files is None or self._files.matches(path))

    def _search_run(self, run: NameRun) -> int:
        """Search the documents of a run; return at which of them the time or window ended."""
        if run.is_directory:
            # Windows end at documents: a walk with an index passes no directories.
            return 0 if self._has_got_on and self._share.is_spent() else len(run.names)
        if run.entry is None and not run.directory.rules.readable:
            return self._pass_unreadable(run)
        if run.fd < 0 and run.entry is None and not self._best.is_full:
            return len(run.names)  # none may match
        places: Sequence[int] = range(len(run.names))
        if self._candidates is not None and run.entry is None:
            places = self._candidates.places(run) if run.fd >= 0 else ()
        reached = 0
        for at in (*places, len(run.names)):
            self._has_got_on = self._has_got_on or reached > 0
            if reached < len(run.names) and self._has_got_on and self._is_over():
                return reached
            if at < len(run.names):
                if not self._search_place(run, at):
                    return at
                reached = at + 1
        return len(run.names)

    def _pass_unreadable(self, run: NameRun) -> int:
        if self._has_got_on and self._is_over():
            return 0
        for name in run.names:
            if self.seeks((*run.path, name)):
                self._hits.miss((*run.path, name), NOT_READABLE)
        return len(run.names)

    def _search_place(self, run: NameRun, at: int) -> bool:
        """Search a document of a run; return False if the page ends before its end."""
        try:
            return (
                self._search_name(run, at) if run.entry is None else self._search_entry(run.entry)
            )
        except ResourceBusy:
            if not self._is_enough():
                raise
            return False

    def _search_name(self, run: NameRun, at: int) -> bool:
        """Search a document of a run; return False if it took too long."""
        name = run.names[at]
        path = (*run.path, name)
        if self._files is not None and not self._files.matches(path):
            return True
        try:
            fd = os.open(name, _FILE, dir_fd=run.fd)
        except OSError as error:
            self._skip(path, error)
            return True
        if self._documents.is_converted(name):
            self._prepare_next(run, at)
        return self._search_open(fd, path, run.directory.prefix + name, run.directory.rules)

    def _prepare_next(self, run: NameRun, done: int) -> None:
        """Begin to convert the next document that is no text, while this one is searched."""
        names = run.names
        following = range(done + 1, min(done + 1 + _LOOK_AHEAD, len(names)))
        place = next((at for at in following if self._documents.is_converted(names[at])), None)
        if place is None or not self.seeks((*run.path, names[place])):
            return
        with suppress(OSError):
            fd = os.open(names[place], _FILE, dir_fd=run.fd)
            status = os.fstat(fd)
            key = run.directory.prefix + names[place]
            if modes.S_ISREG(status.st_mode) and not self._tree.is_withheld(key, status):
                self._documents.prepare(fd, names[place])
            else:
                os.close(fd)

    def _search_entry(self, entry: TreeEntry, place: Place | None = None) -> bool:
        """Search a document that is opened by its path: behind a link, or the only one.

        Returns False if it took too long.
        """
        if not self.seeks(entry.path) or entry.directory is not None:
            return True
        if not entry.rules.readable:
            self._hits.miss(entry.path, NOT_READABLE)
            return True
        with suppress(ResourceNotFound):
            fd, _ = self._tree.root.open_file(tuple(entry.key.split("/")))
            return self._search_open(fd, entry.path, entry.key, entry.rules, place)
        return True

    def _search_open(
        self,
        fd: int,
        path: Path,
        key: str,
        rules: DirectoryRules,
        place: Place | None = None,
    ) -> bool:
        """Search an open document and close it; return False if the page ends before its end.

        `key` is its real path below the root. A document that exceeds even a page of its own is
        passed.
        """
        try:
            status = os.fstat(fd)
            # The file may have been replaced.
            if modes.S_ISREG(status.st_mode) and not self._tree.is_withheld(key, status):
                is_over = status.st_size > rules.max_size
                if place is not None or (is_over and not self._documents.is_converted(path[-1])):
                    return self._search_large(fd, status, path, rules, place)
                found = self._documents.matches(fd, status.st_size, path, rules, self._hits.keep)
                if isinstance(found, Missed):
                    self._miss(path, found)
                    found = found.matches
                for each in found:
                    self._hits.add(path, each, partial(self._resource, path, status, rules))
        except OSError as error:
            self._skip(path, error)
        except OutOfTime:
            if self._has_got_on:
                return False
            self._miss(path, Missed(_TOO_SLOW, is_late=True))
        finally:
            os.close(fd)
        return True

    def _miss(self, path: Path, missed: Missed) -> None:
        self._hits.miss(
            path,
            missed.why,
            by_itself=missed.by_itself,
            in_part=missed.in_part,
            is_late=missed.is_late,
        )

    def _search_large(
        self,
        fd: int,
        status: os.stat_result,
        path: Path,
        rules: DirectoryRules,
        place: Place | None,
    ) -> bool:
        """Search a document in blocks, as `_search_open`; `place` is that of an earlier page.

        One that does not end in time is a window of its own.
        """
        encoding = self._documents.encoding_of(fd, path[-1], rules)
        if isinstance(encoding, str):
            self._hits.miss(path, encoding)
            return True
        self._hits.end_with(self._request.together)
        begin = (place or Place(after_line=self._request.after_line)).of(status)
        keep = self._hits.keep[self._request.together]
        search = LargeSearch(fd, begin, self._request, encoding, self._check, path=path)
        found = search.stretch(keep, is_alone=self._is_alone and self._request.lines > 0)
        following = found.next
        if following is not None and self._has_got_on:
            return False  # the next page begins with it
        if following is None and not found.is_utf8:
            self._hits.miss(path, _NOT_UTF8)
        is_window = place is not None or following is not None
        is_left = following is not None and following.offset >= _FOLDER_BYTES and not self._is_alone
        if is_window and self._best.is_continued and not is_left:
            # The first page of the window has searched all of it.
            self._hits.miss(path, _TOO_SLOW, is_late=True)
            return True
        if not is_window or (is_left and place is None):
            self._hits.add(path, found.matches, partial(self._resource, path, status, rules))
        elif found.matches.count:
            self._part = (found.matches.hit(self._resource(path, status, rules)),)
        if following is None:
            return True
        far, size = f"{short_size(following.offset)}B", f"{short_size(status.st_size)}B"
        if is_left:
            self._hits.miss(path, f"{size}: its first {far} were searched", by_itself=True)
            return True
        self._hits.gaps.add(path, f"{far} of {size} searched so far", count=0)
        self._within = f"{_WITHIN}{following.text()}/{'/'.join(path)}"
        self._is_counted = False
        if self._is_alone and self._request.count_s:
            self._count_until = time.monotonic() + self._request.count_s
            rest = LargeSearch(fd, following, self._request, encoding, self._check)
            with suppress(OutOfTime):
                counted = rest.stretch(0, is_alone=False)
                self._beyond = counted.matches.count
                self._is_counted = counted.next is None and counted.matches.is_counted
        return False

    def _check(self) -> None:
        self._share.check()
        if time.monotonic() >= min(self._count_until, self._hits.until()):
            raise OutOfTime

    def _resource(self, path: Path, status: os.stat_result, rules: DirectoryRules) -> Resource:
        return self._factory.document(path, status, rules)

    def _skip(self, path: Path, error: OSError) -> None:
        """Skip a document that is gone or not readable, but not one that is only busy."""
        problem = resource_error(error)
        if isinstance(problem, ResourceBusy):
            raise problem from None
        if error.errno != errno.ENOENT:
            self._hits.miss(path, NOT_READABLE if error.errno in _DENIED else FAILED)


class Missed(NamedTuple):
    """Why a document is not searched, or not to its end, with what was found in it."""

    why: str
    by_itself: bool = False
    """As in `Unsearched`."""
    matches: Sequence[Matches] = ()
    is_late: bool = False
    """As in `Gaps.add`."""
    in_part: bool = False
    """As in `Unsearched`."""


class DocumentSearcher:
    """Finds matching lines in open documents; calls `check` between blocks of large ones.

    Most documents match nothing. So their bytes are searched first, and whether they are text, and
    in which encoding, is determined only for those that may match.
    """

    def __init__(
        self,
        request: SearchRequest,
        types: tuple[tuple[str, str], ...],
        check: Check,
        converted: ConvertedText | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        self._request = request
        self._query = LineQuery(request)
        self._is_alone = is_alone
        self._types = types
        self._check = check
        self._converted = converted

    def matches(
        self, fd: int, size: int, path: Path, rules: DirectoryRules, keep: Keep
    ) -> Sequence[Matches] | Missed:
        """Return the matching lines of a document of this size and path, `keep` of them quoted.

        Returns the reason if it cannot be searched, or not to its end. A small document is known to
        be binary only if its bytes match as requested. Only the parts of a converted one may match
        in several ways.

        Raises:
            OSError: it cannot be read.
        """
        name = path[-1]
        patience = self._check if self._is_alone else None
        if self.is_converted(name):
            if not self._is_alone:
                self._check()
            return self._in_texts(lambda text: text.texts(fd, name, patience), path, size, keep)
        is_utf8 = rules.encoding == "utf-8"
        if (self._is_alone or size > _SMALL_BYTES) and (
            self._is_binary(name) or (is_utf8 and _has_nul(os.pread(fd, _HEAD_BYTES, 0)))
        ):
            return Missed(NOT_TEXT)
        data = self._read(fd, size, rules.max_size)
        if data is None:
            return Missed(_GROWN, by_itself=True)
        if not data or not self._may_match(data, keep, is_utf8=is_utf8):
            return ()
        found = Missed(NOT_TEXT)
        if not self._is_binary(name):
            text = self._decoded(data, TextEncoding.detect(data, rules.encoding))
            if text is not None:
                found = [self._query.matches(text, self._check, keep, path)]
            elif self._converted is not None:
                found = self._in_texts(lambda text: text.recoded(fd, patience), path, size, keep)
        if not isinstance(found, Missed):
            return self._if_text(found, data, name)
        return found if self._may_match(data, (), is_utf8=is_utf8) else found.matches

    def _if_text(
        self, found: Sequence[Matches], data: bytes, name: str
    ) -> Sequence[Matches] | Missed:
        """Return what was found if the document is text by its name, or by its content."""
        is_found = any(each.count for each in found)
        if is_found and media_types.from_name(name, self._types) is None:
            mime_type = media_types.of_content(data, None, decodes=True)
            return Missed(NOT_TEXT) if media_types.is_binary(mime_type) else found
        return found

    def encoding_of(self, fd: int, name: str, rules: DirectoryRules) -> TextEncoding | str:
        """Return the encoding of a large document by its first bytes, or why it is not searched.

        Raises:
            OSError: it cannot be read.
        """
        head = os.pread(fd, _HEAD_BYTES, next_data(fd, 0))
        encoding = TextEncoding.detect(head, rules.encoding)
        mime_type = media_types.from_name(name, self._types)
        if mime_type is not None and encoding.width == 1:
            # What is called a log is one, though its hole is filled with NUL.
            head = head.replace(b"\0", b"")
        is_text = media_types.begins_as_text(head, encoding.codec)
        mime_type = mime_type or media_types.of_content(head, None, decodes=is_text)
        return NOT_TEXT if media_types.is_binary(mime_type) or not is_text else encoding

    def is_converted(self, name: str) -> bool:
        """Return whether a document of this name is searched in its conversion."""
        return self._converted is not None and self._converted.is_for(name)

    def prepare(self, fd: int, name: str) -> None:
        """Begin to convert a document that is searched soon; `fd` is closed after it."""
        if self._converted is not None:
            self._converted.prepare(fd, name)

    def _in_texts(
        self,
        texts: Callable[[ConvertedText], Iterator[PlacedText]],
        path: Path,
        size: int,
        keep: Keep,
    ) -> Sequence[Matches] | Missed:
        """Return the matching lines of a document as text, each with the place where it is."""
        by_way, missed = dict.fromkeys(keep, NO_MATCHES), ""
        found = by_way.values()
        is_begun = False
        parts = pictures = 0
        try:
            for text in texts(self._converted) if self._converted is not None else ():
                left: Keep = {way: most - by_way[way].shown for way, most in keep.items()}
                more = self._in_text(text, left, path)
                if more.count:
                    by_way[more.together] = more.after(by_way[more.together], text.lines_before)
                is_begun = True
                parts, pictures = parts + text.parts, pictures + text.pictures
                missed = _CUT if text.is_cut else missed
        except (NotConvertedYet, ResourceBusy, OutOfTime) as error:
            if isinstance(error, OutOfTime) and not self._is_alone:
                raise
            said = f"{short_size(size)}B, "
            said += "its beginning was searched so far" if is_begun else _NOT_CONVERTED
            is_late = not (isinstance(error, NotConvertedYet) and error.is_begun)
            return Missed(said, by_itself=True, matches=[*found], is_late=is_late)
        except ConversionError as error:
            said = str(error).removeprefix("this document ").removeprefix("cannot be converted: ")
            return Missed(f"cannot be converted: {said}", matches=[*found])
        if missed or not pictures:
            return Missed(missed, not self._is_alone, [*found]) if missed else [*found]
        is_some = pictures < parts
        why = _SOME_PICTURES if is_some else _PICTURES
        return Missed(why, matches=[*found], in_part=is_some)

    def _in_text(self, text: PlacedText, keep: Keep, path: Path) -> Matches:
        """Return the matching lines of a part of a document, with their places."""
        data, before = text.data, text.lines_before
        if not data or not self._query.may_be_in(data, self._check, keep):
            return NO_MATCHES
        if before:
            query = self._query.after(self._request.after_line - before)
            one_more: Keep = {way: max(most, 0) + 1 for way, most in keep.items()}
            found = query.matches(data, self._check, one_more, path)
            found = found.first(keep[found.together], self._request.context)
        else:
            found = self._query.matches(data, self._check, keep, path)
        lines = [replace(line, text=text.placed(line.number, line.text)) for line in found.lines]
        return replace(found, lines=tuple(lines))

    def _may_match(self, data: bytes, ways: Collection[Together], *, is_utf8: bool) -> bool:
        """Return whether a document may match, by its bytes; `ways` as in `LineQuery.may_be_in`."""
        if not is_utf8 or media_types.mark_codec(data) is not None:
            # Bytes of other encodings, or behind a byte order mark, cannot be searched as they are.
            return True
        if self._query.may_be_in(data, self._check, ways):
            return True
        is_guessed = self._converted is not None and not self._query.is_ascii
        return is_guessed and not decodes_as_utf8(data, self._check)

    def _is_binary(self, name: str) -> bool:
        mime_type = media_types.from_name(name, self._types)
        return mime_type is not None and media_types.is_binary(mime_type)

    def _read(self, fd: int, size: int, max_size: int) -> bytes | None:
        """Return the whole document; None if it has grown over `max_size`."""
        # One extra byte detects the few files whose status reports a wrong size.
        data = os.read(fd, min(size + 1, _BLOCK_BYTES))
        if len(data) == size <= max_size:
            return data
        blocks = [data]
        count = len(data)
        while data and count <= max_size:
            self._check()
            data = os.read(fd, _BLOCK_BYTES)
            count += len(data)
            blocks.append(data)
        return b"".join(blocks) if count <= max_size else None

    def _decoded(self, data: bytes, encoding: TextEncoding) -> bytes | None:
        """Return the text in UTF-8; None if the bytes do not decode."""
        if len(data) <= _SMALL_BYTES:
            text = encoding.decode(data)
            return None if text is None else text.encode()
        pieces: list[bytes] = []
        try:
            for piece in encoding.pieces(data, self._check):
                if "\0" in piece:
                    return None
                pieces.append(piece.encode())
        except UnicodeError:
            return None
        text = b"".join(pieces)
        return text.removeprefix(codecs.BOM_UTF8) if encoding.has_mark else text


def _has_nul(head: bytes) -> bool:
    return b"\0" in head and media_types.mark_codec(head) is None


def _count(runs: Generator[NameRun], counted: int, until: float) -> int | None:
    """Return `counted` plus the documents of the remaining runs; None if that takes too long."""
    for run in runs:
        counted += 0 if run.is_directory else len(run.names)
        if time.monotonic() > until:
            return None
    return counted
