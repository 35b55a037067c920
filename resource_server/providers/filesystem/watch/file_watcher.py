"""The file watcher: turns file system events and polls into changes of resources.

Events only hint at where to look. A write to a subscribed file is reported when its writer closes
it, or after 50 ms of writing. A directory is scanned 50 ms after an entry first came or went, so
the temporary file of an editor comes and goes unnoticed.
"""

from __future__ import annotations

import asyncio
import functools
import platform
import re
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import NamedTuple

from resource_server.errors import ResourceError
from resource_server.provider import Change, Interest
from resource_server.providers.filesystem.directory import is_fresh
from resource_server.providers.filesystem.exposure.ignore_files import (
    IGNORE_FILES,
    ROOT_IGNORE_FILE,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.options import WatchMode
from resource_server.providers.filesystem.watch.event_sources import event_source
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.runtime import inotify
from resource_server.runtime.eager import wait_through
from resource_server.runtime.timing import Timing

_YIELD_STEP_S = 0.01
"""Interval between looks whether a search has ended."""
_MAX_EVENTS = 512
"""Maximum events handled before the loop has its turn."""
_FINE_TIME = (6, 13)
"""The Linux version that fixed this: before, two changes a few milliseconds apart may leave the
same time behind."""

_CAME_OR_WENT = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_FINISHED = _CAME_OR_WENT & ~inotify.CREATE | inotify.CLOSE_WRITE | inotify.ATTRIB
_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT


class _Event(NamedTuple):
    place: str
    mask: int
    name: str


async def changes(
    tree: FileTree, mode: WatchMode, interest: Interest, timing: Timing
) -> AsyncGenerator[Change]:
    """Yield possible changes of a tree, as `SupportsWatch.changes`."""
    watcher = FileWatcher(tree, timing)
    async with (
        event_source(tree.root.path, mode, watcher, timing) as source,
        aclosing(watcher.changes(DirectoryScanner(tree, source, timing), interest)) as found,
    ):
        async for change in found:
            yield change


class FileWatcher:
    """The watcher of one tree. Event sources feed it through `happened` and `overflowed`."""

    def __init__(self, tree: FileTree, timing: Timing) -> None:
        self._tree = tree
        self._timing = timing
        # A thread of its own: a hanging disk may take all threads of a shared pool.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._events: deque[_Event] = deque()
        self._has_overflowed = False
        self._wake = asyncio.Event()
        self._unsettled: dict[str, float] = {}
        """When to scan directories in which an entry came or went."""
        self._unfinished: dict[str, float] = {}
        """When to report files that are being written."""
        self._written: set[str] = set()
        """Files that were certainly written since they were last reported."""
        self._replaced: set[str] = set()
        """Directories that may have been replaced."""
        self._moved: dict[str, set[str]] = {}
        """Entries that came or went, by directory: they may be links, or targets of links."""
        self._root_at = 0.0
        self._poll_at = 0.0
        self._sweep_at = time.monotonic() + timing.sweep_s

    # -- events

    def happened(self, place: str, mask: int, name: str) -> None:
        """Queue an event; see `inotify.EventListener`.

        A place is a directory's prefix, or a prefix, a NUL and the name of a single file.
        """
        self._events.append(_Event(place, mask, name))
        self._wake.set()

    def overflowed(self) -> None:
        """Record that events were lost."""
        self._events.clear()
        self._has_overflowed = True
        self._wake.set()

    # -- the loop

    async def changes(
        self, scanner: DirectoryScanner, interest: Interest
    ) -> AsyncGenerator[Change]:
        """Yield possible changes, as `SupportsWatch.changes`."""
        following = asyncio.create_task(self._follow(scanner, interest))
        try:
            while True:
                await self._pause(scanner)
                if following.done():
                    following.result()
                for change in self._reported(scanner):
                    yield change
                if self._has_work(scanner):
                    for change in await self._work(scanner):
                        yield change
        finally:
            self._thread.shutdown(wait=False)
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _follow(self, scanner: DirectoryScanner, interest: Interest) -> None:
        """Pass on the interest of clients."""
        while True:
            came, went = await interest.next()
            scanner.remove(went)
            scanner.add(came)
            scanner.listing_since_ns = interest.listing_since_ns
            scanner.listing = interest.listing
            self._wake.set()

    async def _pause(self, scanner: DirectoryScanner) -> None:
        """Wait until there is work."""
        if self._events or scanner.has_work:
            await asyncio.sleep(0)
            if scanner.only_explores:
                await self._yield_to_searches()
        else:
            await self._woken(self._idle_s(scanner))
        self._wake.clear()

    async def _yield_to_searches(self) -> None:
        """Wait until there is an event or no search: both would look at each directory."""
        until = time.monotonic() + self._timing.watch_yield_s
        while self._tree.searches and not self._wake.is_set() and time.monotonic() < until:
            await self._woken(_YIELD_STEP_S)

    async def _woken(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    def _idle_s(self, scanner: DirectoryScanner) -> float | None:
        """Return the seconds until there is work; None means indefinitely."""
        if not scanner.is_wanted:
            return None
        due = min([self._due_at(scanner), *list(self._unfinished.values())[:1]])
        return max(0.0, due - time.monotonic())

    def _due_at(self, scanner: DirectoryScanner) -> float:
        """Return when the next scan, check or poll is due."""
        times = [self._root_at, self._sweep_at, *self._unsettled.values()]
        if scanner.has_polled:
            times.append(self._poll_at)
        return min(times)

    def _reported(self, scanner: DirectoryScanner) -> Iterator[Change]:
        """Yield the changes that follow from events alone, without a scan."""
        now = time.monotonic()
        finished: dict[str, None] = {}
        for _ in range(min(len(self._events), _MAX_EVENTS)):
            event = self._events.popleft()
            if event.name:
                self._take_entry_event(scanner, event, now, finished)
            else:
                self._take_own_event(event, now)
        while self._unfinished:
            key, due = next(iter(self._unfinished.items()))
            if due > now:
                break
            del self._unfinished[key]
            finished[key] = None
        for key in finished:
            yield from self._changes_of(scanner, key)

    def _take_entry_event(
        self, scanner: DirectoryScanner, event: _Event, now: float, finished: dict[str, None]
    ) -> None:
        """Handle an event of an entry of a watched directory."""
        place, mask, name = event
        key = place + name
        if name in IGNORE_FILES or name == self._tree.described_by or key == ROOT_IGNORE_FILE:
            self._unsettled["" if key == ROOT_IGNORE_FILE else place] = now
        settled_at = now + self._timing.watch_settle_s
        if mask & _CAME_OR_WENT:
            pause = self._timing.watch_poll_share * scanner.scan_time_s(place)
            self._unsettled.setdefault(place, max(settled_at, now + pause))
            if self._tree.follow_links:
                self._moved.setdefault(place, set()).add(key)
            if mask & inotify.ISDIR:
                self._replaced.add(f"{key}/")
        elif mask & inotify.ISDIR and mask & inotify.ATTRIB:
            self._unsettled.setdefault(f"{key}/", settled_at)
        elif not scanner.subscribed(key) and place in self._unsettled:
            return  # the whole directory is about to be scanned
        if mask & inotify.MODIFY:
            self._written.add(key)
        if mask & _FINISHED:
            self._unfinished.pop(key, None)
            finished[key] = None
        elif key not in finished:
            self._unfinished.setdefault(key, settled_at)

    def _take_own_event(self, event: _Event, now: float) -> None:
        """Handle an event of a watched directory itself, or of an ignore file."""
        place, mask, _ = event
        prefix, is_file, _ = place.partition("\0")
        settled_at = now + self._timing.watch_settle_s
        if is_file:
            self._unsettled[prefix] = now
        elif mask & inotify.ATTRIB:
            self._unsettled.setdefault(place, settled_at)
        elif not place:
            self._root_at = now
        elif mask & _GONE:
            self._replaced.add(place)
            parent = place[: place.rfind("/", 0, -1) + 1]
            self._unsettled.setdefault(parent, settled_at)

    def _changes_of(self, scanner: DirectoryScanner, key: str) -> Iterator[Change]:
        """Yield the changes of a file or directory, and of the collection it is in."""
        paths = set(scanner.subscribed(key))
        parent, _, name = key.rpartition("/")
        paths.update((*path, name) for path in scanner.subscribed(parent))
        if not paths:
            self._written.discard(key)
            return
        certain = key in self._written and self._may_hide_changes(key)
        self._written.discard(key)
        for path in paths:
            yield Change(path, certain=certain)

    def _may_hide_changes(self, key: str) -> bool:
        """Return whether the last change of a file may have left its stamp as it was."""
        try:
            return _time_is_coarse() and is_fresh(self._tree.directories.status(key))
        except ResourceError:
            return False

    # -- scans

    def _has_work(self, scanner: DirectoryScanner) -> bool:
        if scanner.has_work:
            return True
        is_due = self._has_overflowed or self._due_at(scanner) <= time.monotonic()
        return scanner.is_wanted and is_due

    async def _work(self, scanner: DirectoryScanner) -> Sequence[Change]:
        now = time.monotonic()
        unsettled = {prefix for prefix, due in self._unsettled.items() if due <= now}
        for prefix in unsettled:
            del self._unsettled[prefix]
        replaced, self._replaced = self._replaced, set()
        moved = {key for prefix in unsettled for key in self._moved.pop(prefix, ())}
        has_overflowed, self._has_overflowed = self._has_overflowed, False

        def work() -> Sequence[Change]:
            for prefix in replaced:
                scanner.invalidate(prefix)
            for prefix in unsettled:
                scanner.rescan(prefix)
            if unsettled:
                scanner.recheck_links(moved)
            if has_overflowed:
                scanner.rescan_all()
            self._do_periodic_work(scanner, now)
            return scanner.work()

        # Not with anyio: importing its threads would hold up the loop for 14 ms.
        job = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            # The job uses descriptors that are about to close; but a poll may hang on a dead drive.
            if not scanner.only_polls:
                await wait_through(job)
            raise

    def _do_periodic_work(self, scanner: DirectoryScanner, now: float) -> None:
        """Check the root, sweep or poll, if that is due."""
        timing = self._timing
        if self._root_at <= now:
            is_there = scanner.check_root()
            interval = timing.watch_root_s if is_there else timing.watch_lost_root_s
            self._root_at = time.monotonic() + interval
        if self._sweep_at <= now:
            began = time.monotonic()
            scanner.poll(everything=True)
            scanner.recheck_links()
            ended = time.monotonic()
            self._sweep_at = ended + timing.pause_after_sweep(ended - began)
        elif scanner.has_polled and self._poll_at <= now:
            began = time.monotonic()
            scanner.poll()
            scanner.recheck_links()
            ended = time.monotonic()
            pause = timing.watch_poll_share * (ended - began)
            self._poll_at = ended + max(timing.watch_poll_s, pause)


@functools.cache
def _time_is_coarse() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux" or release is None:
        return True
    return (int(release[1]), int(release[2])) < _FINE_TIME
