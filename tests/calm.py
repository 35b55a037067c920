"""Watches and hubs of which a test knows when they have nothing more to do.

Time alone does not tell: on a machine that is busy, what was noticed waits for a thread or a timer.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

import pytest

from resource_server.provider import Change, Interest
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch import file_watcher
from resource_server.providers.filesystem.watch.file_watcher import FileWatcher
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.broker import Broker
from tests.waiting import pause

MARKS = ".marks"
"""A hidden directory; what comes into it is noticed by watchfiles, and looked at by nobody."""
_TURNS = 10
"""Of the loop: what is put into a queue, or wakes a task, has come through after as many."""
_STEP_S = 0.005
_AGAIN = 10
"""Steps after which there is another mark: while a stream began anew, one may have been missed."""

_numbers = itertools.count()


class ObservedWatch(FileWatcher):
    """The watch of a folder, which says when all that it noticed has been looked at and told."""

    running: ClassVar[WeakSet[ObservedWatch]] = WeakSet()

    def __init__(self, tree: FileTree, timing: Timing) -> None:
        super().__init__(tree, timing)
        self.seen = set[str]()
        """The marks it was told of."""
        self._scanner: DirectoryScanner | None = None
        self._is_resting = False
        self._polled_since = float("-inf")
        """When the last polling began that is over."""

    def happened(self, place: str, mask: int, name: str) -> None:
        if place == f"{MARKS}/":
            self.seen.add(name)
        super().happened(place, mask, name)

    async def changes(
        self, scanner: DirectoryScanner, interest: Interest
    ) -> AsyncGenerator[Change]:
        self._scanner = scanner
        self.running.add(self)
        try:
            async with aclosing(super().changes(scanner, interest)) as found:
                async for change in found:
                    yield change
        finally:
            self.running.discard(self)

    async def _pause(self, scanner: DirectoryScanner) -> None:
        self._is_resting = True
        try:
            await super()._pause(scanner)
        finally:
            self._is_resting = False

    def _do_periodic_work(self, scanner: DirectoryScanner, now: float) -> None:
        began, before = time.monotonic(), self._poll_at
        super()._do_periodic_work(scanner, now)
        if self._poll_at != before:
            self._polled_since = began

    def is_calm(self, since: float) -> bool:
        """Say whether there is nothing left to do of what happened until then."""
        # Protected state: whether a watch has work left is of no use but to tests, and all that
        # it may have left must be known, or a test goes on too early.
        scanner = self._scanner
        if scanner is None or not self._is_resting or self._wake.is_set():
            return False
        noticed = (self._events, self._unsettled, self._unfinished, self._replaced)
        if any(noticed) or self._has_overflowed or scanner.has_work:
            return False
        if not scanner.is_wanted:
            return True
        if scanner.has_polled and self._polled_since < since:
            return False
        return self._due_at(scanner) > time.monotonic()


class ObservedBroker(Broker):
    """A hub that says when all that it was told has been compared."""

    @property
    def folders(self) -> int:
        """How many folders it watches, or is about to."""
        mounts = [runner.mount for runner in self._runners.values()]
        return sum(each.can_watch and each.provider.is_instance(Filesystem) for each in mounts)

    @property
    def is_calm(self) -> bool:
        """Whether there is nothing left to do; to try again what failed does not count."""
        # Protected state, for the same reason as that of `ObservedWatch`.
        if any(topic.is_busy for topic in self._topics.all()):
            return False
        return not (self._tasks or self._changed_trees or self._list_timer)


@contextmanager
def observed_watches() -> Generator[None]:
    """Let every folder be watched by an `ObservedWatch`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_watcher, "FileWatcher", ObservedWatch)
        yield


async def settled(*lives: ObservedBroker) -> None:
    """Wait until nothing is left to do of what has happened, in watches of folders either."""
    since, calm = time.monotonic(), 0
    while calm < _TURNS:
        await pause(0 if calm else _STEP_S)
        running = ObservedWatch.running
        has_begun = len(running) >= sum(live.folders for live in lives)
        everything = (each.is_calm(since) for each in running)
        is_calm = has_begun and all(everything) and all(live.is_calm for live in lives)
        calm = calm + 1 if is_calm else 0


async def marked(root: Path) -> None:
    """Wait until watchfiles has told of all that happened in a folder until now.

    Where the folder, or what is there now, has no directory for marks, nobody can know.
    """
    names = set[str]()
    for step in itertools.count():
        if any(names & watch.seen for watch in ObservedWatch.running):
            return
        if step % _AGAIN == 0 and not _mark(root, names):
            return
        await pause(_STEP_S)


def _mark(root: Path, names: set[str]) -> bool:
    name = str(next(_numbers))
    try:
        (root / MARKS / name).touch()
    except OSError:
        return False
    names.add(name)
    return True
