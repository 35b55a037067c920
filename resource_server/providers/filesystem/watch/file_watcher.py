"""Watches a tree: turns events of the system, or of polling, into changes of resources.

An event only says where to look. What is written to a file that is subscribed to is told when its
writer closes it, or after 50 ms of writing. What comes and goes in a directory is looked at 50 ms
after it began, so that the temporary file of an editor comes and goes unnoticed.
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
from resource_server.providers.filesystem.watch.event_sources import opened
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.runtime import inotify

_SETTLE_S = 0.05
_ROOT_S = 1.0
"""Between two looks whether the root is still the same directory: nothing tells of that."""
_LOST_ROOT_S = 0.1
_POLL_S = 1.0
_POLL_SHARE = 20
"""Polling takes at most so much of the time, and a look at a large directory."""
_SWEEP_S = 30.0
_SWEEP_SHARE = 300
_EVENTS_AT_ONCE = 512
_FINE_TIME = (6, 13)
"""The Linux that ended it: before, two changes in a few milliseconds may leave the same time."""

_CAME_OR_WENT = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_FINISHED = _CAME_OR_WENT & ~inotify.CREATE | inotify.CLOSE_WRITE | inotify.ATTRIB
_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT


class _Event(NamedTuple):
    place: str
    mask: int
    name: str


async def changes(tree: FileTree, option: WatchMode, interest: Interest) -> AsyncGenerator[Change]:
    """Yield what may have changed in a tree, noticed in the way that `option` says."""
    watch = FileWatcher(tree)
    async with (
        opened(tree.root.path, option, watch) as source,
        aclosing(watch.changes(DirectoryScanner(tree, source), interest)) as found,
    ):
        async for change in found:
            yield change


class FileWatcher:
    """The watch over one tree. Events are put in by `happened` and `overflowed`."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        # Its own: those that all share may be taken by whatever hangs.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._events: deque[_Event] = deque()
        self._has_overflowed = False
        self._wake = asyncio.Event()
        self._unsettled: dict[str, float] = {}
        """When to look at directories in which something came or went."""
        self._unfinished: dict[str, float] = {}
        """When to tell of files that are being written."""
        self._written: set[str] = set()
        """Files that have been written to for certain, since they were told of last."""
        self._renewed: set[str] = set()
        self._replaced: dict[str, set[str]] = {}
        """By directory, what came or went in it: a link may have led there, or lead now."""
        self._root_at = 0.0
        self._poll_at = 0.0
        self._sweep_at = time.monotonic() + _SWEEP_S

    # -- events

    def happened(self, place: str, mask: int, name: str) -> None:
        """Take note of an event; see `inotify.Watcher`.

        A place is a directory's prefix; with a NUL and a name behind it, a file in it.
        """
        self._events.append(_Event(place, mask, name))
        self._wake.set()

    def overflowed(self) -> None:
        """Take note that events were lost."""
        self._events.clear()
        self._has_overflowed = True
        self._wake.set()

    # -- the loop

    async def changes(self, survey: DirectoryScanner, interest: Interest) -> AsyncGenerator[Change]:
        """Yield what may have changed, as `SupportsWatch.changes`."""
        following = asyncio.create_task(self._follow(survey, interest))
        try:
            while True:
                await self._pause(survey)
                if following.done():
                    following.result()
                for change in self._told(survey):
                    yield change
                if self._has_work(survey):
                    for change in await self._work(survey):
                        yield change
        finally:
            self._thread.shutdown(wait=False)
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _follow(self, survey: DirectoryScanner, interest: Interest) -> None:
        """Let the survey know what is wanted."""
        while True:
            came, went = await interest.next()
            survey.remove(went)
            survey.add(came)
            survey.listing_since_ns = interest.listing_since_ns
            survey.listing = interest.listing
            self._wake.set()

    async def _pause(self, survey: DirectoryScanner) -> None:
        """Wait until there is something to do."""
        if self._events or survey.is_busy:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds(survey)):
                    await self._wake.wait()
        self._wake.clear()

    def _seconds(self, survey: DirectoryScanner) -> float | None:
        """Return how long there is nothing to do; None for ever."""
        if not survey.is_wanted:
            return None
        due = min([self._due_at(survey), *list(self._unfinished.values())[:1]])
        return max(0.0, due - time.monotonic())

    def _due_at(self, survey: DirectoryScanner) -> float:
        """Return when there is something to look at."""
        times = [self._root_at, self._sweep_at, *self._unsettled.values()]
        if survey.has_polled:
            times.append(self._poll_at)
        return min(times)

    def _told(self, survey: DirectoryScanner) -> Iterator[Change]:
        """Yield what the events of the moment tell of by themselves, without a look."""
        now = time.monotonic()
        finished: dict[str, None] = {}
        for _ in range(min(len(self._events), _EVENTS_AT_ONCE)):
            event = self._events.popleft()
            if event.name:
                self._entry(survey, event, now, finished)
            else:
                self._itself(event, now)
        while self._unfinished:
            key, due = next(iter(self._unfinished.items()))
            if due > now:
                break
            del self._unfinished[key]
            finished[key] = None
        for key in finished:
            yield from self._changes_of(survey, key)

    def _entry(
        self, survey: DirectoryScanner, event: _Event, now: float, finished: dict[str, None]
    ) -> None:
        """Take in an event of an entry of a directory that is watched."""
        place, mask, name = event
        key = place + name
        if name in IGNORE_FILES or key == ROOT_IGNORE_FILE:
            self._unsettled["" if key == ROOT_IGNORE_FILE else place] = now
        if mask & _CAME_OR_WENT:
            patience = max(_SETTLE_S, _POLL_SHARE * survey.patience_s(place))
            self._unsettled.setdefault(place, now + patience)
            if self._tree.follow_links:
                self._replaced.setdefault(place, set()).add(key)
            if mask & inotify.ISDIR:
                self._renewed.add(f"{key}/")
        elif mask & inotify.ISDIR and mask & inotify.ATTRIB:
            self._unsettled.setdefault(f"{key}/", now + _SETTLE_S)
        elif not survey.subscribed(key) and place in self._unsettled:
            return  # a look at the whole directory is about to come
        if mask & inotify.MODIFY:
            self._written.add(key)
        if mask & _FINISHED:
            self._unfinished.pop(key, None)
            finished[key] = None
        elif key not in finished:
            self._unfinished.setdefault(key, now + _SETTLE_S)

    def _itself(self, event: _Event, now: float) -> None:
        """Take in an event of a directory that is watched, or of an ignore file."""
        place, mask, _ = event
        prefix, is_file, _ = place.partition("\0")
        if is_file:
            self._unsettled[prefix] = now
        elif mask & inotify.ATTRIB:
            self._unsettled.setdefault(place, now + _SETTLE_S)
        elif not place:
            self._root_at = now
        elif mask & _GONE:
            self._renewed.add(place)
            above = place[: place.rfind("/", 0, -1) + 1]
            self._unsettled.setdefault(above, now + _SETTLE_S)

    def _changes_of(self, survey: DirectoryScanner, key: str) -> Iterator[Change]:
        """Yield the changes of a file or directory, and of the collection it is in."""
        paths = set(survey.subscribed(key))
        above, _, name = key.rpartition("/")
        paths.update((*path, name) for path in survey.subscribed(above))
        if not paths:
            self._written.discard(key)
            return
        certain = key in self._written and self._may_hide_changes(key)
        self._written.discard(key)
        for path in paths:
            yield Change(path, certain=certain)

    def _may_hide_changes(self, key: str) -> bool:
        """Say whether the stamp of a file may be the same as before its last change."""
        try:
            return _time_is_coarse() and is_fresh(self._tree.directories.status(key))
        except ResourceError:
            return False

    # -- looks

    def _has_work(self, survey: DirectoryScanner) -> bool:
        if survey.is_busy:
            return True
        is_due = self._has_overflowed or self._due_at(survey) <= time.monotonic()
        return survey.is_wanted and is_due

    async def _work(self, survey: DirectoryScanner) -> Sequence[Change]:
        now = time.monotonic()
        unsettled = {place for place, due in self._unsettled.items() if due <= now}
        for place in unsettled:
            del self._unsettled[place]
        renewed, self._renewed = self._renewed, set()
        replaced = {key for place in unsettled for key in self._replaced.pop(place, ())}
        overflowed, self._has_overflowed = self._has_overflowed, False

        def work() -> Sequence[Change]:
            for prefix in renewed:
                survey.renew(prefix)
            for prefix in unsettled:
                survey.look_at(prefix)
            if unsettled:
                survey.follow_links_again(replaced)
            if overflowed:
                survey.look_at_everything()
            self._look_around(survey, now)
            return survey.work()

        # Not by anyio: to import what it needs for a thread would hold up the loop for 14 ms.
        job = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            # What it uses is about to be closed; but whoever only polls may hang on a dead drive.
            if not survey.only_polls:
                await asyncio.wait([job])
            raise

    def _look_around(self, survey: DirectoryScanner, now: float) -> None:
        """Look at what is to be looked at every now and then."""
        if self._root_at <= now:
            is_there = survey.check_root()
            self._root_at = time.monotonic() + (_ROOT_S if is_there else _LOST_ROOT_S)
        if self._sweep_at <= now:
            began = time.monotonic()
            survey.poll(everything=True)
            survey.follow_links_again()
            ended = time.monotonic()
            self._sweep_at = ended + max(_SWEEP_S, _SWEEP_SHARE * (ended - began))
        elif survey.has_polled and self._poll_at <= now:
            began = time.monotonic()
            survey.poll()
            survey.follow_links_again()
            ended = time.monotonic()
            self._poll_at = ended + max(_POLL_S, _POLL_SHARE * (ended - began))


@functools.cache
def _time_is_coarse() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux" or release is None:
        return True
    return (int(release[1]), int(release[2])) < _FINE_TIME
