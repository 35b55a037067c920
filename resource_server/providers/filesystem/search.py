"""Search of a folder: its names, and the lines of its documents, in a worker thread.

Only what the tree gives is looked at, and only documents that `read` would give as text: so nothing
is found that cannot be seen. A document is opened by the descriptor of its directory, never through
a link, and is described only if it matches.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Callable, Generator
from contextlib import suppress

from resource_server.errors import InvalidParameter, ResourceBusy, ResourceNotFound
from resource_server.provider import Path
from resource_server.provider.search import Hit, SearchPage, SearchRequest
from resource_server.providers.filesystem.exposure.rules import Scope
from resource_server.providers.filesystem.root import refusal
from resource_server.providers.filesystem.text import Text
from resource_server.providers.filesystem.threads import Threads
from resource_server.providers.filesystem.tree import Entry, Make, Run, Tree
from resource_server.search.name_match import Names
from resource_server.search.text_match import Lines
from resource_server.search.top_k import INVALID, Best, to_path

_AT_ONCE = 4
"""Searches of one folder; others wait."""
_LEAST_S = 0.25
"""However late a search begins, it takes so long for a document."""
_LATE_S = 0.4
"""But no longer than so much after its time: soon after that nobody waits for it any more."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Searches:
    """Searches one folder; `types` are the media types of its options."""

    def __init__(self, tree: Tree, make: Make, types: tuple[tuple[str, str], ...]) -> None:
        self._tree = tree
        self._make = make
        self._types = types
        self._threads = Threads(_AT_ONCE)
        self._waited_for = 0
        """Searches that somebody waits for, whether or not they have begun."""

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Return what is found; see `SupportsSearch.search`."""
        clock = _Clock(deadline, lambda: self._waited_for)

        def work() -> SearchPage:
            clock.begin()
            top = self._tree.find(below)
            if request.where == "names":
                return self._names(request, top, after, limit=limit, clock=clock)
            text = Text(Lines(request), self._types, clock.check)
            looking = _Texts(self._tree, self._make, text, limit=limit, clock=clock)
            return looking.found(request, top, after)

        self._waited_for += 1
        try:
            return await self._threads.run(work, patience_s=clock.left())
        finally:
            self._waited_for -= 1
            clock.is_cancelled = True

    def _names(
        self, sought: SearchRequest, top: Entry, after: str | None, *, limit: int, clock: _Clock
    ) -> SearchPage:
        names = Names(sought.text)
        best = Best[Path](names, after, limit)
        looked_at = 0
        stopped_at: Path | None = None
        for path, _, _, some, _ in _runs(self._tree, top, best.start):
            for name in some if names.of_paths else names.among(some):
                rank = names.rank((*path, name))
                if rank is not None:
                    best.add((*path, name), rank, (*path, name))
            looked_at += len(some)
            sought.report_progress(len(some))
            if clock.is_over():
                stopped_at = (*path, some[-1])
                break
        paths, following = best.page(stopped_at)
        hits: list[Hit] = []
        for path in paths:
            with suppress(ResourceNotFound):  # gone meanwhile
                hits.append(Hit(self._make.resource(self._tree.find(path))))
        total = looked_at if stopped_at is None and not best.start else None
        return SearchPage(hits=hits, next=following, looked_at=looked_at, total=total)


class _Late(Exception):
    """The time is over, or nobody waits any more."""


class _Clock:
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


def _runs(tree: Tree, top: Entry, after: Path) -> Generator[Run]:
    """Give what lies below an entry behind `after`; of a document that itself, if it is not."""
    if after and after[: len(top.path)] != top.path:
        raise InvalidParameter(INVALID)
    if top.directory is not None:
        return tree.runs(top.path, top.directory, after)
    return _itself(tree, top, after)


def _itself(tree: Tree, top: Entry, after: Path) -> Generator[Run]:
    above = tree.find(top.path[:-1]).directory
    if not after and above is not None:
        yield Run(top.path[:-1], above, -1, top.path[-1:], top)


class _Texts:
    """Goes from document to document."""

    def __init__(self, tree: Tree, make: Make, text: Text, *, limit: int, clock: _Clock) -> None:
        self._tree = tree
        self._make = make
        self._text = text
        self._limit = limit
        self._clock = clock
        self._hits: list[Hit] = []
        self._looked_at = 0

    def found(self, sought: SearchRequest, top: Entry, after: str | None) -> SearchPage:
        """Return what is found, in the order of the listing."""
        last: Path = ()
        runs = _runs(self._tree, top, to_path(after or ""))
        for run in runs:
            done = self._look(run)
            self._looked_at += done
            sought.report_progress(done)
            if done:
                last = (*run.path, run.names[done - 1])
            if done < len(run.names) or len(self._hits) == self._limit:
                total = None
                if after is None and self._clock.is_over():
                    counted = self._looked_at + len(run.names) - done
                    total = _count(runs, counted, self._clock.spare())
                return SearchPage(
                    hits=self._hits, next="/".join(last), looked_at=self._looked_at, total=total
                )
        total = self._looked_at if after is None else None
        return SearchPage(hits=self._hits, looked_at=self._looked_at, total=total)

    def _look(self, run: Run) -> int:
        """Look into documents; return how many were done before time or room was over."""
        if run.entry is not None:
            return self._look_at(run, run.entry)
        scope = run.directory.scope
        if not scope.readable:
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
            if not self._document(fd, (*run.path, name), scope) and self._looked_at + done:
                return done
        return len(run.names)

    def _look_at(self, run: Run, entry: Entry) -> int:
        """Look at what is found by its path: a link that leads to a document, or the only one."""
        if entry.directory is None and entry.scope.readable:
            with suppress(ResourceNotFound):
                fd, _ = self._tree.root.open_file(tuple(entry.key.split("/")))
                if not self._document(fd, entry.path, entry.scope) and self._looked_at:
                    return 0
        return 1

    def _document(self, fd: int, path: Path, scope: Scope) -> bool:
        """Look into an open document and close it; return False where that takes too long."""
        try:
            status = os.fstat(fd)
            # What stands there by now may be no file any more.
            if modes.S_ISREG(status.st_mode):
                lines = self._text.lines(fd, status.st_size, path[-1], scope)
                if lines:
                    self._hits.append(Hit(self._make.document(path, status, scope), lines))
        except OSError as error:
            _skip(error)
        except _Late:
            return False
        finally:
            os.close(fd)
        return True


def _skip(error: OSError) -> None:
    """Pass over what is gone or cannot be read; not over what would be found another time."""
    told = refusal(error)
    if isinstance(told, ResourceBusy):
        raise told from None


def _count(runs: Generator[Run], counted: int, until: float) -> int | None:
    """Return how many there are in all, if that is known soon."""
    for run in runs:
        counted += len(run.names)
        if time.monotonic() > until:
            return None
    return counted
