"""Search of a folder: its names, and the lines of its documents, in a worker thread.

Only what the tree gives is looked at, and only documents that `read` would give as text: so nothing
is found that cannot be seen. A document is opened by the descriptor of its directory, never through
a link, and is described only if it matches.
"""

from __future__ import annotations

import codecs
import os
import stat as modes
import time
from collections.abc import Callable, Generator
from contextlib import suppress

from resource_server import media_types
from resource_server.errors import InvalidParameter, ResourceBusy, ResourceNotFound
from resource_server.provider import Path
from resource_server.provider.search import Hit, MatchedLine, SearchPage, SearchRequest
from resource_server.providers.filesystem.encoding import TextEncoding
from resource_server.providers.filesystem.exposure.rules import DirectoryRules
from resource_server.providers.filesystem.file_tree import (
    FileTree,
    NameRun,
    ResourceFactory,
    TreeEntry,
)
from resource_server.providers.filesystem.root import resource_error
from resource_server.providers.filesystem.worker_threads import WorkerThreads
from resource_server.search.name_match import NameQuery
from resource_server.search.text_match import Check, LineQuery
from resource_server.search.top_k import INVALID, TopK, to_path

_AT_ONCE = 4
"""Searches of one folder; others wait."""
_LEAST_S = 0.25
"""However late a search begins, it takes so long for a document."""
_LATE_S = 0.4
"""But no longer than so much after its time: soon after that nobody waits for it any more."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_HEAD_BYTES = 8192
"""A NUL in them tells a binary document before all of it is read."""
_SMALL_BYTES = 64 * 1024
"""Read whole at once, and decoded at once: meanwhile no other thread has its turn."""
_BLOCK_BYTES = 1024 * 1024
_FIRST_OF_MARKS = frozenset(mark[:1] for mark, _ in media_types.BOMS)


class FileSearch:
    """Searches one folder; `types` are the media types of its options."""

    def __init__(
        self, tree: FileTree, factory: ResourceFactory, types: tuple[tuple[str, str], ...]
    ) -> None:
        self._tree = tree
        self._factory = factory
        self._types = types
        self._threads = WorkerThreads(_AT_ONCE)
        self._waited_for = 0
        """Searches that somebody waits for, whether or not they have begun."""

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return what is found; see `SupportsSearch.search`."""
        clock = _TimeShare(deadline, lambda: self._waited_for)

        def work() -> SearchPage:
            clock.begin()
            top = self._tree.find(below)
            if request.where == "names":
                return self._names(request, top, after, limit=limit, clock=clock)
            text = DocumentSearcher(LineQuery(request), self._types, clock.check)
            looking = _TextSearch(self._tree, self._factory, text, limit=limit, clock=clock)
            return looking.found(request, top, after)

        self._waited_for += 1
        try:
            return await self._threads.run(work, patience_s=clock.left())
        finally:
            self._waited_for -= 1
            clock.is_cancelled = True

    def _names(
        self,
        request: SearchRequest,
        top: TreeEntry,
        after: str | None,
        *,
        limit: int,
        clock: _TimeShare,
    ) -> SearchPage:
        names = NameQuery(request.text)
        best = TopK[Path](names, after, limit)
        looked_at = 0
        stopped_at: Path | None = None
        for path, _, _, some, _ in _runs(self._tree, top, best.start):
            for name in some if names.matches_paths else names.among(some):
                rank = names.rank((*path, name))
                if rank is not None:
                    best.add((*path, name), rank, (*path, name))
            looked_at += len(some)
            request.report_progress(len(some))
            if clock.is_over():
                stopped_at = (*path, some[-1])
                break
        paths, following = best.page(stopped_at)
        hits: list[Hit] = []
        for path in paths:
            with suppress(ResourceNotFound):  # gone meanwhile
                hits.append(Hit(self._factory.resource(self._tree.find(path))))
        total = looked_at if stopped_at is None and not best.start else None
        return SearchPage(hits=hits, next=following, looked_at=looked_at, total=total)


class _Late(Exception):
    """The time is over, or nobody waits any more."""


class _TimeShare:
    """How much time is left; nobody waits any more when it `is_cancelled`.

    It runs from when the search has its turn, and leaves as much for those that wait for theirs.
    """

    def __init__(self, deadline: float, waited_for: Callable[[], int]) -> None:
        self.is_cancelled = False
        self._deadline = deadline
        self._latest = deadline + _LATE_S
        self._waited_for = waited_for
        self.begin()

    def begin(self) -> None:
        self._begun = time.monotonic()
        self._least = min(self._begun + _LEAST_S, self._latest)

    def left(self) -> float:
        """Return for how long somebody waits for it, if it does not begin."""
        return self._latest - time.monotonic()

    def is_over(self) -> bool:
        share = (max(self._deadline, self._least) - self._begun) / self._turns()
        return self.is_cancelled or time.monotonic() >= self._begun + share

    def check(self) -> None:
        """Stop in a document; one that was begun has a while, however many wait."""
        if self.is_cancelled or (time.monotonic() >= self._least and self.is_over()):
            raise _Late

    def spare(self) -> float:
        """Return until when something may be done that can as well be left out."""
        return min(time.monotonic() + _LEAST_S / self._turns(), self._latest)

    def _turns(self) -> float:
        return max(self._waited_for() / _AT_ONCE, 1.0)


def _runs(tree: FileTree, top: TreeEntry, after: Path) -> Generator[NameRun]:
    """Give what lies below an entry behind `after`; of a document that itself, if it is not."""
    if after and after[: len(top.path)] != top.path:
        raise InvalidParameter(INVALID)
    if top.directory is not None:
        return tree.name_runs(top.path, top.directory, after)
    return _itself(tree, top, after)


def _itself(tree: FileTree, top: TreeEntry, after: Path) -> Generator[NameRun]:
    above = tree.find(top.path[:-1]).directory
    if not after and above is not None:
        yield NameRun(top.path[:-1], above, -1, top.path[-1:], top)


class _TextSearch:
    """Goes from document to document."""

    def __init__(
        self,
        tree: FileTree,
        factory: ResourceFactory,
        text: DocumentSearcher,
        *,
        limit: int,
        clock: _TimeShare,
    ) -> None:
        self._tree = tree
        self._factory = factory
        self._text = text
        self._limit = limit
        self._clock = clock
        self._hits: list[Hit] = []
        self._looked_at = 0

    def found(self, request: SearchRequest, top: TreeEntry, after: str | None) -> SearchPage:
        """Return what is found, in the order of the listing."""
        last: Path = ()
        name_runs = _runs(self._tree, top, to_path(after or ""))
        for run in name_runs:
            done = self._look(run)
            self._looked_at += done
            request.report_progress(done)
            if done:
                last = (*run.path, run.names[done - 1])
            if done < len(run.names) or len(self._hits) == self._limit:
                total = None
                if after is None and self._clock.is_over():
                    counted = self._looked_at + len(run.names) - done
                    total = _count(name_runs, counted, self._clock.spare())
                return SearchPage(
                    hits=self._hits, next="/".join(last), looked_at=self._looked_at, total=total
                )
        total = self._looked_at if after is None else None
        return SearchPage(hits=self._hits, looked_at=self._looked_at, total=total)

    def _look(self, run: NameRun) -> int:
        """Look into documents; return how many were done before time or room was over."""
        if run.entry is not None:
            return self._look_at(run, run.entry)
        rules = run.directory.rules
        if not rules.readable:
            return len(run.names)
        for done, name in enumerate(run.names):
            if self._clock.is_over() and self._looked_at + done:
                return done
            if len(self._hits) == self._limit:
                return done
            try:
                fd = os.open(name, _FILE, dir_fd=run.fd)
            except OSError as error:
                _skip(error)
                continue
            if not self._document(fd, (*run.path, name), rules) and self._looked_at + done:
                return done
        return len(run.names)

    def _look_at(self, run: NameRun, entry: TreeEntry) -> int:
        """Look at what is found by its path: a link that leads to a document, or the only one."""
        if entry.directory is None and entry.rules.readable:
            with suppress(ResourceNotFound):
                fd, _ = self._tree.root.open_file(tuple(entry.key.split("/")))
                if not self._document(fd, entry.path, entry.rules) and self._looked_at:
                    return 0
        return 1

    def _document(self, fd: int, path: Path, rules: DirectoryRules) -> bool:
        """Look into an open document and close it; return False where that takes too long."""
        try:
            status = os.fstat(fd)
            # What stands there by now may be no file any more.
            if modes.S_ISREG(status.st_mode):
                lines = self._text.lines(fd, status.st_size, path[-1], rules)
                if lines:
                    self._hits.append(Hit(self._factory.document(path, status, rules), lines))
        except OSError as error:
            _skip(error)
        except _Late:
            return False
        finally:
            os.close(fd)
        return True


class DocumentSearcher:
    """Looks for lines in open documents; between blocks of large ones it calls `check`."""

    def __init__(self, lines: LineQuery, types: tuple[tuple[str, str], ...], check: Check) -> None:
        self._lines = lines
        self._types = types
        self._check = check

    def lines(
        self, fd: int, size: int, name: str, rules: DirectoryRules
    ) -> tuple[MatchedLine, ...]:
        """Return the first lines that match in a document of this size and name.

        None in what is binary, does not decode, or is larger than `scope` allows.

        Raises:
            OSError: it cannot be read.
        """
        is_utf8 = rules.encoding == "utf-8"
        if size > _SMALL_BYTES and (
            size > rules.max_size
            or self._is_binary(name)
            or (is_utf8 and _has_nul(os.pread(fd, _HEAD_BYTES, 0)))
        ):
            return ()
        data = self._read(fd, size, rules.max_size)
        # What has a mark or is of another encoding cannot be asked as it stands.
        plain = is_utf8 and data[:1] not in _FIRST_OF_MARKS
        if not data or (plain and not self._lines.may_be_in(data, self._check)):
            return ()
        if self._is_binary(name):
            return ()
        text = self._decoded(data, TextEncoding.of(data, rules.encoding))
        found = self._lines.found(text, self._check) if text else ()
        if found and media_types.from_name(name, self._types) is None:
            mime_type = media_types.of_content(data, None, decodes=True)
            return () if media_types.is_binary(mime_type) else found
        return found

    def _is_binary(self, name: str) -> bool:
        mime_type = media_types.from_name(name, self._types)
        return mime_type is not None and media_types.is_binary(mime_type)

    def _read(self, fd: int, size: int, most: int) -> bytes:
        """Return all of it; nothing, where it has grown over what is allowed."""
        # Most have the size that they say; one byte more shows those that do not.
        data = os.read(fd, min(size + 1, _BLOCK_BYTES))
        if len(data) == size <= most:
            return data
        blocks = [data]
        count = len(data)
        while data and count <= most:
            self._check()
            data = os.read(fd, _BLOCK_BYTES)
            count += len(data)
            blocks.append(data)
        return b"".join(blocks) if count <= most else b""

    def _decoded(self, data: bytes, form: TextEncoding) -> bytes | None:
        """Return the text in UTF-8; None where the bytes are none."""
        if len(data) <= _SMALL_BYTES:
            text = form.decode(data)
            return None if text is None else text.encode()
        decoder = codecs.getincrementaldecoder(form.codec)()
        pieces: list[bytes] = []
        try:
            for begin in range(0, len(data), _SMALL_BYTES):
                self._check()
                end = begin + _SMALL_BYTES
                piece = decoder.decode(data[begin:end], final=end >= len(data))
                if "\0" in piece:
                    return None
                pieces.append(piece.encode())
        except UnicodeError:
            return None
        text = b"".join(pieces)
        return text.removeprefix(codecs.BOM_UTF8) if form.has_mark else text


def _has_nul(head: bytes) -> bool:
    return b"\0" in head and head[:1] not in _FIRST_OF_MARKS


def _skip(error: OSError) -> None:
    """Pass over what is gone or cannot be read; not over what would be found another time."""
    told = resource_error(error)
    if isinstance(told, ResourceBusy):
        raise told from None


def _count(name_runs: Generator[NameRun], counted: int, until: float) -> int | None:
    """Return how many there are in all, if that is known soon."""
    for run in name_runs:
        counted += len(run.names)
        if time.monotonic() > until:
            return None
    return counted
