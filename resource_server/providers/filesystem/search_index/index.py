"""The search index of a folder: asked before documents are opened, kept current by a thread.

It never decides what matches. It names documents that cannot, as they are now; all others are
searched. That a document is as the index has it is known by its version, or without a look at it:
the directory has a watch, was compared since, and the kernel has reported nothing of the document.
The kernel queues an event before the call that causes it returns, and a search takes the events
first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sqlite3
import stat as modes
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from resource_server.errors import NotACollection, ResourceError, ResourceNotFound
from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem.contained_root import Stamp
from resource_server.providers.filesystem.directory import Directory, is_fresh, stamp
from resource_server.providers.filesystem.exposure.ignore_files import IGNORE_FILES
from resource_server.providers.filesystem.exposure.rules import DirectoryRules
from resource_server.providers.filesystem.file_tree import FileTree, NameRun
from resource_server.providers.filesystem.search_index.document_text import (
    UNKNOWN,
    DocumentText,
    DocumentTexts,
)
from resource_server.providers.filesystem.search_index.store import (
    IndexedDocument,
    IndexSnapshot,
    IndexStore,
    is_damage,
)
from resource_server.providers.filesystem.watch.demand import prefix_path
from resource_server.runtime import inotify
from resource_server.runtime.file_system_kind import FileSystemKinds
from resource_server.runtime.timing import Timing
from resource_server.search import trigrams
from resource_server.search.indexes import IndexState
from resource_server.uris import is_unicode

_log = logging.getLogger(__name__)

_OF_CONTENT = inotify.CONTENT | inotify.ATTRIB
_EVENTS = _OF_CONTENT | inotify.STRUCTURE
_READ_BYTES = 64 * 1024
_BATCH, _BATCH_CHARACTERS = 256, 4 * 1024 * 1024
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NICE = 5
"""Not more: on a busy machine it would keep the interpreter's lock while it waits for a core."""
_MAX_PAUSE_S = 5.0
"""The kernel keeps a limited number of events."""
_TURN_S = 0.05
"""Time for which a search holds the next step of a comparison back."""


class _Current(msgspec.Struct, eq=False):
    """A directory that was compared with the index since it got its watch."""

    stamp: Stamp
    runs: dict[str, int] = {}
    """Hashes of the runs of names that were compared, by their first names."""
    changed: dict[str, int] = {}
    """Documents that may differ from the index, each with the moment of its last event."""
    settled: int = 0
    """The moment at which it last got a run, or lost a changed document."""

    def has_run(self, run: NameRun) -> bool:
        """Return whether a run was compared, as it is now."""
        is_same = self.stamp == run.directory.stamp
        return is_same and self.runs.get(run.names[0]) == hash(tuple(run.names))


class Moment(NamedTuple):
    """What was known at the begin of a search."""

    current: Mapping[str, _Current]
    settled: int
    structure: int
    """Differs once more than the content of documents may have changed."""

    def changed(self, prefix: str) -> Collection[str] | None:
        """Return the documents of a directory that may differ from the index; None if all may."""
        current = self.current.get(prefix)
        if current is None:
            return None
        changed = [*current.changed]
        # Asked afterwards: what was settled since this moment is not in the snapshot.
        return changed if current.settled <= self.settled else None

    def has_directory(self, directory: Directory) -> bool:
        """Return whether a directory has a watch, and is as it was compared."""
        current = self.current.get(directory.prefix)
        return (
            current is not None
            and current.settled <= self.settled
            and current.stamp == directory.stamp
        )

    def has_run(self, run: NameRun) -> bool:
        """Return whether the documents of a run are known to be as they were compared."""
        current = self.current.get(run.directory.prefix)
        return current is not None and current.settled <= self.settled and current.has_run(run)


class Candidates:
    """The documents that may match one search."""

    def __init__(
        self,
        snapshot: IndexSnapshot,
        names: Mapping[str, set[str]],
        moment: Moment,
        documents: DocumentTexts,
    ) -> None:
        self._snapshot = snapshot
        self._names = names
        self.moment = moment
        self._documents = documents
        self._versions: tuple[str | None, Mapping[str, int]] = None, {}

    def may_match_in(self, prefix: str) -> bool:
        """Return whether any document of a directory may match."""
        changed = self.moment.changed(prefix)
        return changed is None or bool(changed) or prefix in self._names

    def places(self, run: NameRun) -> Sequence[int]:
        """Return the places in a run of the documents to search."""
        prefix, names = run.directory.prefix, run.names
        may_match = self._names.get(prefix, frozenset[str]())
        changed = self.moment.changed(prefix)
        if changed is not None and self.moment.has_run(run):
            wanted = {*may_match, *changed}
            places = [(bisect_left(names, name), name) for name in wanted]
            return sorted([at for at, name in places if at < len(names) and names[at] == name])
        if self._versions[0] != prefix:
            try:
                self._versions = prefix, self._snapshot.versions(prefix)
            except sqlite3.Error:
                return range(len(names))
        known = self._versions[1]
        return [
            at
            for at, name in enumerate(names)
            if name in may_match or not self._is_known(run, name, known.get(name))
        ]

    def _is_known(self, run: NameRun, name: str, version: int | None) -> bool:
        if version is None:
            return False
        try:
            status = os.stat(name, dir_fd=run.fd, follow_symlinks=False)
        except OSError:
            return False
        return version == self._documents.version(status, name, run.directory.rules)


class SearchIndex:
    """The index of one folder. Any thread may ask it; `start` begins the one that writes to it."""

    def __init__(
        self, tree: FileTree, store: IndexStore, documents: DocumentTexts, timing: Timing
    ) -> None:
        self._tree = tree
        self._store = store
        self._documents = documents
        self._timing = timing
        self._kinds = FileSystemKinds(tree.root.path)
        self._lock = threading.RLock()
        self._generation = ""
        """That of the index with which `_current` was compared; empty: there is none."""
        self._current: dict[str, _Current] = {}
        self._stale: set[str] = {""}
        """Directories to compare with all below them."""
        self._changed = set[str]()
        """Directories to compare without those below them."""
        self._moment = 0
        """Grows with each event, and each time something is settled."""
        self._structure = 0
        """Grows with each event that may be of more than the content of a document."""
        self._watches: inotify.InotifyDescriptor | None = None
        self._places: dict[int, str] = {}
        """Directories, by watch."""
        self._batch: list[tuple[IndexedDocument, _Current | None, int | None]] = []
        self._batched = 0
        """Characters in the batch."""
        self._runs: list[tuple[_Current, Sequence[str]]] = []
        """Runs of names that are compared once the batch is written."""
        self._may_write = self._is_full = False
        self._is_comparing = False
        self._problem: Exception | None = None
        self._has_failed = False
        self._is_closed = threading.Event()
        self._wake: Sequence[int] = os.pipe()
        for fd in self._wake:
            os.set_blocking(fd, False)
        self._thread: threading.Thread | None = None
        self.state = IndexState()
        self.compared = 0
        """Documents compared since the start of the last comparison of the whole folder."""

    # -- searches

    @contextlib.contextmanager
    def candidates(self, request: SearchRequest) -> Generator[Candidates | None]:
        """Return the documents that may match a search; None if all may."""
        with contextlib.ExitStack() as stack:
            yield self._candidates(request, stack) if self._generation else None

    def _candidates(self, request: SearchRequest, stack: contextlib.ExitStack) -> Candidates | None:
        wanted = trigrams.of_request(request)
        if wanted is None:
            return None
        generation, moment = self._generation, self.moment()
        try:
            snapshot = stack.enter_context(self._store.snapshot())
            names = snapshot.candidates(wanted)
        except (sqlite3.Error, OSError) as error:
            self._problem = error
            self._notify()
            return None
        if snapshot.generation != generation:
            moment = Moment({}, moment.settled, moment.structure)
        return Candidates(snapshot, names, moment, self._documents)

    def moment(self) -> Moment:
        """Return what is known now."""
        with self._lock:
            self._take_events()
            return Moment(self._current, self._moment, self._structure)

    # -- events

    def _take_events(self) -> None:
        """Note what the kernel has reported; under the lock."""
        uncertain = set[str]()
        while self._watches is not None and (data := self._watches.read(_READ_BYTES)):
            self._notify()  # the thread finds no more events to read
            for watch, mask, name in inotify.events_in(data):
                if mask & inotify.Q_OVERFLOW:
                    uncertain.add("")
                elif (prefix := self._places.get(watch)) is not None:
                    uncertain.update(self._take_event(prefix, mask, name))
                if mask & inotify.IGNORED:
                    self._places.pop(watch, None)
        if uncertain:
            self._forget(uncertain)

    def _take_event(self, prefix: str, mask: int, name: str) -> Iterator[str]:
        """Note an event; yield directories whose state is unknown after it."""
        self._moment += 1
        self._changed.add(prefix)
        if mask & ~_OF_CONTENT:
            self._structure += 1
        if not name or mask & inotify.ISDIR or name in IGNORE_FILES:
            yield f"{prefix}{name}/" if mask & inotify.ISDIR and name else prefix
            return
        current = self._current.get(prefix)
        if current is not None:
            current.changed[name] = self._moment
        if mask & (inotify.CREATE | inotify.MOVED_TO) and self._is_link(prefix + name):
            yield ""  # some document may have got this second name, of which nothing else tells

    def _is_link(self, key: str) -> bool:
        try:
            return self._tree.directories.status(key).st_nlink > 1
        except ResourceError:
            return False

    def _forget(self, prefixes: set[str]) -> None:
        """Have directories compared again, with all below them; under the lock."""
        self._structure += 1
        self._stale |= prefixes
        if "" in prefixes:
            self._current.clear()
            return
        for known in [*self._current]:
            ends = (at + 1 for at, char in enumerate(known) if char == "/")
            if any(known[:end] in prefixes for end in ends):
                del self._current[known]

    # -- the thread

    def start(self) -> None:
        """Begin to keep the index current."""
        self._thread = threading.Thread(target=self._run, name="search index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the file. Blocks for the time of one document."""
        self._is_closed.set()
        self._notify()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._close_watches()
            self._generation = ""
            for fd in self._wake:
                os.close(fd)
            self._wake = ()
        self._store.close()
        # SQLite has folded the log of changes into the file.
        self.state = msgspec.structs.replace(self.state, size=self._store.size())

    def _notify(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._wake:
                os.write(self._wake[1], b".")

    def is_current(self) -> bool:
        """Return whether no known change waits for a comparison with the index."""
        with self._lock:
            self._take_events()
            has_work = bool(self._stale or self._changed)
        return self.state.is_complete and not has_work and not self._is_comparing

    def build(self) -> bool:
        """Compare the whole folder, and wait for documents that are converted; see `MountIndex`."""
        if not self._begin() or not self._may_write:
            return False
        self._compare()
        before = -1
        while self._changed and self.state.documents != before:
            before = self.state.documents
            self._is_closed.wait(self._timing.index_build_pause_s)
            self._compare()
        return True

    def drop(self) -> bool:
        """Delete the file; see `MountIndex`."""
        is_there = self._store.is_there()
        self._store.remove()
        return is_there

    def problem(self) -> str | None:
        """Return why there can be no index, or None."""
        return self._store.problem()

    def _run(self) -> None:
        if sys.platform == "linux":  # elsewhere, it would be that of a process
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while not self._is_closed.is_set():
            try:
                if self._begin():
                    self._keep_current()
                else:
                    self._wait(self._timing.index_settle_s)
            except Exception as error:  # whatever: searches go on without an index
                self._fail(error)
                if self._may_write and is_damage(error):
                    with contextlib.suppress(OSError):
                        self._store.remove()
                self._is_closed.wait(self._timing.index_retry_s)

    def _begin(self) -> bool:
        """Open the index; return whether there is one, which another process may have to make."""
        self._problem = None
        self._may_write = self._store.lock()
        if self._may_write:
            self._store.prepare()
        elif not self._store.is_readable():
            return False
        with self._lock:
            if self._watches is None:
                with contextlib.suppress(OSError, AttributeError):
                    self._watches = inotify.InotifyDescriptor()
            self._forget({""})
        self._follow_generation()
        return True

    def _follow_generation(self) -> None:
        """Forget comparisons with an index that was rebuilt since."""
        with self._store.snapshot() as snapshot:
            generation = snapshot.generation
        with self._lock:
            if generation != self._generation:
                self._forget({""})
                self._generation = generation

    def _fail(self, error: Exception) -> None:
        """Go on without an index, and log why."""
        with self._lock:
            self._generation = ""
            self._close_watches()
            self._forget({""})
        self._batch, self._runs = [], []
        self._store.disconnect()
        reason = getattr(error, "strerror", None) or str(error) or "the folder is not accessible"
        self.state = IndexState(problem=reason)
        level = logging.INFO if self._has_failed else logging.WARNING
        self._has_failed = True
        path = self._tree.root.path
        _log.log(level, "no search index of %s: %s; searches look into all files", path, reason)

    def _close_watches(self) -> None:
        if self._watches is not None:
            os.close(self._watches.fd)
            self._watches = None
        self._places.clear()

    def _keep_current(self) -> None:
        sweep_at = time.monotonic() + self._timing.sweep_s
        while not self._is_closed.is_set():
            if self._problem is not None:
                raise self._problem
            if not self._store.is_there():
                raise FileNotFoundError(0, "its file is gone")
            if not self._may_write and self._store.lock():
                return  # the process that wrote to it has ended
            began = time.monotonic()
            if began >= sweep_at:
                self._stale.add("")
            is_whole = "" in self._stale
            self._follow_generation()
            self._compare()
            spent_s = time.monotonic() - began
            if is_whole:
                sweep_at = time.monotonic() + self._timing.pause_after_sweep(spent_s)
            self._wait(sweep_at - time.monotonic(), 0.0 if is_whole else spent_s)

    def _wait(self, longest_s: float, spent_s: float = 0.0) -> None:
        """Wait for events and a pause after them, which grows with the last comparison."""
        with self._lock:
            self._take_events()
            has_work = bool(self._stale or self._changed)
            fds = [self._wake[0]] if self._watches is None else [self._wake[0], self._watches.fd]
        if not has_work:
            select.select(fds, (), (), max(longest_s, 0.0))
        if not self._is_closed.is_set():
            pause_s = max(self._timing.index_settle_s, self._timing.watch_poll_share * spent_s)
            pause_s = min(pause_s, _MAX_PAUSE_S)
            select.select(fds[:1], (), (), pause_s)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], _READ_BYTES)

    # -- comparisons

    def _compare(self) -> None:
        """Compare what may differ with the index, and write what does."""
        with self._lock:
            self._take_events()
            self._is_comparing = True
            stale, self._stale = self._stale, set[str]()
            changed, self._changed = self._changed, set[str]()
        if "" in stale:
            self._compare_all()
        else:
            for prefix in sorted(stale):
                self._compare_below(prefix)
            for prefix in sorted(changed):
                self._compare_directory(prefix)
        self._write()
        is_whole = "" in stale and not self._is_closed.is_set()
        self._note_state(is_complete=self.state.is_complete or is_whole)
        if self._may_write and self._store.is_wasteful():
            self._store.make_anew()
        self._is_comparing = False

    def _compare_all(self) -> None:
        self.compared = 0
        gone: dict[str, set[str]] = {}
        for run in self._runs_below(""):
            prefix = run.directory.prefix
            versions = self._compare_run(run)
            gone.setdefault(prefix, {*versions}).difference_update(run.names)
        self._write()
        if self._may_write and not self._is_closed.is_set():
            self._tree.root.check()
            for prefix, names in gone.items():
                if names:
                    self._store.forget(prefix, names)
            self._store.forget_directories({*gone})

    def _compare_below(self, prefix: str) -> None:
        for run in self._runs_below(prefix):
            self._compare_run(run)

    def _runs_below(self, prefix: str) -> Generator[NameRun]:
        path = prefix_path(prefix)
        if not prefix:
            self._tree.root.check()
        with contextlib.suppress(ResourceNotFound):
            directory = self._tree.directory(path)
            if directory is None:
                return
            self._watch_inner(directory)
            with contextlib.closing(self._tree.name_runs(path, directory, unlisted=True)) as runs:
                for run in runs:
                    if self._tree.searches:  # they would share the interpreter
                        self._is_closed.wait(_TURN_S)
                    if self._is_closed.is_set():
                        return
                    if run.entry is None:
                        yield run
                    elif run.entry.directory is not None:
                        self._watch_inner(run.entry.directory)

    def _compare_directory(self, prefix: str) -> None:
        """Compare the documents of one directory: those that changed, or all."""
        with contextlib.suppress(ResourceNotFound, NotACollection):
            directory = self._tree.directory(prefix_path(prefix))
            if directory is not None and directory.prefix == prefix:
                self._watch_inner(directory)
            for run in self._tree.document_runs(prefix_path(prefix)):
                current = self._current.get(prefix)
                if current is None or not current.has_run(run):
                    self._compare_run(run)
                else:
                    names = [name for name in [*current.changed] if name in run.names]
                    self._compare_names(run, names, current)

    def _compare_run(self, run: NameRun) -> Mapping[str, int]:
        """Compare the documents of a run; return the versions in the index of its directory."""
        current = self._watched(run.directory, run.fd)
        versions = self._compare_names(run, run.names, current)
        if current is not None and not self._is_closed.is_set():
            self._runs.append((current, run.names))
        return versions

    def _watch_inner(self, directory: Directory) -> None:
        """Watch a directory that may have no documents of its own."""
        current = self._current.get(directory.prefix)
        if current is None or current.stamp != directory.stamp:
            with contextlib.suppress(OSError, ResourceNotFound, NotACollection):
                fd, _ = self._tree.root.open_directory(directory.path)
                try:
                    self._watched(directory, fd)
                finally:
                    os.close(fd)

    def _watched(self, directory: Directory, fd: int) -> _Current | None:
        """Return the entry of a directory that has a watch, and has not changed since."""
        prefix, stamp = directory.prefix, directory.stamp
        current = self._current.get(prefix)
        if current is not None and current.stamp == stamp:
            return current
        with self._lock:
            if self._current.pop(prefix, None) is not None:
                self._structure += 1
            if self._watches is None or self._kinds.kind(prefix, stamp.st_dev) != "local":
                return None
            try:
                watch = self._watches.add(fd, _EVENTS)
            except OSError:
                return None  # the limit of watches is reached
            # A directory that is mounted in two places has one watch, which tells of one of them.
            self._current.pop(self._places.get(watch, prefix), None)
            self._places[watch] = prefix
            if not stamp.is_of(os.fstat(fd)) or is_fresh(stamp):
                self._changed.add(prefix)
                return None
            self._structure += 1
            self._moment += 1
            current = self._current[prefix] = _Current(stamp, settled=self._moment)
            return current

    def _compare_names(
        self, run: NameRun, names: Iterable[str], current: _Current | None
    ) -> Mapping[str, int]:
        with self._store.snapshot() as snapshot:
            versions = snapshot.versions(run.directory.prefix)
        for name in names:
            if self._is_closed.is_set():
                break
            self.compared += 1
            self._compare_name(run, name, versions.get(name), current)
        return versions

    def _compare_name(
        self, run: NameRun, name: str, version: int | None, current: _Current | None
    ) -> None:
        prefix, rules = run.directory.prefix, run.directory.rules
        moment = current.changed.get(name) if current is not None else None
        try:
            status = os.stat(name, dir_fd=run.fd, follow_symlinks=False)
        except OSError:
            return  # an event tells of one that comes again
        is_settled = not is_fresh(status)
        if is_settled and version == self._documents.version(status, name, rules):
            self._settle(current, name, moment, is_linked=status.st_nlink > 1)
            return
        if current is not None:
            moment = current.changed.setdefault(name, self._moment)
            if status.st_nlink > 1:
                moment = None  # never settled: a write by another name is not reported here
        if not is_unicode(prefix + name) or not modes.S_ISREG(status.st_mode):
            return
        document = None
        if is_settled and self._may_write:
            document = self._read(run, name, status, rules)
        if document is None:
            self._changed.add(prefix)
            return
        self._batch.append((document, current, moment))
        self._batched += len(document.text)
        if len(self._batch) >= _BATCH or self._batched >= _BATCH_CHARACTERS:
            self._write()

    def _read(
        self, run: NameRun, name: str, status: os.stat_result, rules: DirectoryRules
    ) -> IndexedDocument | None:
        """Return a document of this status for the index; None if it is not ready for it."""
        prefix = run.directory.prefix
        found: DocumentText | None = UNKNOWN
        with contextlib.suppress(OSError):
            fd = os.open(name, _FILE, dir_fd=run.fd)
            try:
                is_same = stamp(status).is_of(os.fstat(fd))
                is_shown = not self._tree.is_withheld(prefix + name, status)
                if is_same and is_shown and not self._is_full:
                    found = self._documents.text(fd, status, name, rules)
                if not is_same or not stamp(status).is_of(os.fstat(fd)):
                    found = None
            finally:
                os.close(fd)
        if found is None:
            return None
        version = self._documents.version(status, name, rules)
        return IndexedDocument(prefix, name, version, found.known, found.text)

    def _settle(
        self, current: _Current | None, name: str, moment: int | None, *, is_linked: bool
    ) -> None:
        """Note that a document is as the index has it."""
        if current is None:
            return
        with self._lock:
            if is_linked:
                current.changed.setdefault(name, self._moment)
            elif moment is not None and current.changed.get(name) == moment:
                self._moment += 1
                current.settled = self._moment  # first, as `Moment.changed` asks
                del current.changed[name]

    def _write(self) -> None:
        """Write the batch, then note that the documents in it are settled."""
        batch, self._batch, self._batched = self._batch, [], 0
        runs, self._runs = self._runs, []
        if batch:
            self._is_full = self._store.is_full
            self._store.write([document for document, _, _ in batch])
            if not self.state.is_complete:
                self.state = msgspec.structs.replace(self.state, documents=self.compared)
                _log.debug("search index of %s: %d so far", self._tree.root.path, self.compared)
        with self._lock:
            self._moment += 1
            for document, current, moment in batch:
                if current is not None:
                    current.settled = self._moment
                    if moment is not None and current.changed.get(document.name) == moment:
                        del current.changed[document.name]
            for current, names in runs:
                current.settled = self._moment
                current.runs[names[0]] = hash(tuple(names))

    def _note_state(self, *, is_complete: bool) -> None:
        with self._store.snapshot() as snapshot:
            count = snapshot.count()
        waiting = sum(len(current.changed) for current in [*self._current.values()])
        if is_complete and not self.state.is_complete:
            path = self._tree.root.path
            _log.info("the search index of %s is complete: %d documents", path, count)
        self.state = IndexState(count, waiting, self._store.size(), is_complete)
