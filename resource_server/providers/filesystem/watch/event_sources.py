"""Sources of file system events: inotify, watchfiles, or none for a folder that is polled."""

from __future__ import annotations

import errno
import functools
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from resource_server.providers.filesystem.options import WatchMode
from resource_server.runtime import inotify
from resource_server.runtime.file_system_kind import file_system_kind
from resource_server.runtime.timing import Timing
from resource_server.runtime.watchfiles_events import FileChanges, WatchfilesEvents

logger = logging.getLogger(__name__)

_STRUCTURE = inotify.STRUCTURE | inotify.ATTRIB
_FILE = inotify.CONTENT | inotify.DELETE_SELF | inotify.MOVE_SELF
# By the numbers of `watchfiles.Change`: added, modified, deleted.
_WATCHFILES_MASKS = {1: inotify.MOVED_TO, 2: inotify.CONTENT, 3: inotify.DELETE}


class EventSource(Protocol):
    """Watches directories and files one by one. Methods run in worker threads, one at a time."""

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        """Watch the directory `prefix`, open as `fd`; with `content`, writes to its files, too.

        Raises:
            OSError: ENOSPC, the limit of watches is reached.
        """
        ...

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        """Watch writes to a single file of a directory, open as `fd`; raises as `add`."""
        ...

    def remove(self, prefix: str, name: str = "") -> None:
        """Stop watching a directory, or a single file in it."""
        ...


@asynccontextmanager
async def event_source(
    path: str, mode: WatchMode, sink: inotify.EventListener, timing: Timing
) -> AsyncGenerator[EventSource | None]:
    """Open the event source of a folder, which feeds `sink`; None if it has to be polled."""
    if mode == "auto":
        mode = _best_mode(path)
    if mode == "inotify":
        try:
            source = _InotifySource(sink)
        except (OSError, AttributeError) as error:
            _warn_without_inotify(_why_no_inotify(error))
        else:
            with source:
                yield source
            return
    elif mode == "watchfiles":
        source = _WatchfilesSource(path, sink, timing)
        async with source.events.running():
            yield source
        return
    yield None


def back_end(path: str, mode: WatchMode) -> str:
    """Return the event source of a folder in this mode, with the reason if it is polled.

    For the operator; call it on an event loop.
    """
    if mode in ("off", "poll"):
        return mode
    if (kind := file_system_kind(path)) != "local":
        # Such folders are always polled, in addition to watchfiles if that is selected.
        also = "watchfiles and " if mode == "watchfiles" else ""
        return f"{also}poll ({kind} file system)"
    best = _best_mode(path) if mode == "auto" else mode
    if best == "inotify":
        try:
            inotify.Inotify.shared().release()
        except (OSError, AttributeError) as error:
            return f"poll (no inotify: {_why_no_inotify(error)})"
    return best


def _best_mode(path: str) -> WatchMode:
    if file_system_kind(path) == "remote":
        return "poll"
    return "inotify" if sys.platform == "linux" else "watchfiles"


def _why_no_inotify(error: OSError | AttributeError) -> str:
    """Return why inotify is unavailable, with the remedy if there is one."""
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return "too many instances; more with: sysctl fs.inotify.max_user_instances=1024"
    return getattr(error, "strerror", None) or "this system has none"


@functools.cache  # once per process, not once per folder
def _warn_without_inotify(reason: str) -> None:
    logger.warning("no inotify (%s): folders are polled once a second instead", reason)


class _InotifySource:
    """The directories of one tree in the inotify instance of the process."""

    def __init__(self, sink: inotify.EventListener) -> None:
        self._sink = sink
        self._inotify = inotify.Inotify.shared()
        self._watches: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        # A scan may still run in its thread; it must add no watches from here on.
        with self._lock:
            self._is_closed = True
        if not self._inotify.release():
            # In a thread: there may be very many watches.
            threading.Thread(target=self._remove_all).start()

    def _remove_all(self) -> None:
        for place in list(self._watches):
            self._remove(place)

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        self._add(prefix, fd, _STRUCTURE | inotify.CONTENT if content else _STRUCTURE)

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        self._add(f"{prefix}\0{name}", fd, _FILE)

    def remove(self, prefix: str, name: str = "") -> None:
        with self._lock:
            self._remove(f"{prefix}\0{name}" if name else prefix)

    def _add(self, place: str, fd: int, mask: int) -> None:
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            watch = self._inotify.add(fd, mask, self._sink, place)
            before = self._watches.get(place)
            if before is not None and before != watch:
                self._inotify.remove(before, self._sink, place)
            self._watches[place] = watch

    def _remove(self, place: str) -> None:
        watch = self._watches.pop(place, None)
        if watch is not None:
            self._inotify.remove(watch, self._sink, place)


class _WatchfilesSource:
    """Watches the whole tree with watchfiles; directories need no watches of their own."""

    def __init__(self, path: str, sink: inotify.EventListener, timing: Timing) -> None:
        self._path = path
        self._sink = sink
        self._has_warned = False
        self.events = WatchfilesEvents(
            lambda: path, self._forward, sink.overflowed, timing, on_failure=self._warn
        )

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        if not self.events.are_arriving:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        pass

    def remove(self, prefix: str, name: str = "") -> None:
        pass

    def _warn(self, error: Exception) -> None:
        (logger.info if self._has_warned else logger.warning)(
            "watchfiles has failed (%s): folders are polled once a second until it is back",
            type(error).__name__,
        )
        self._has_warned = True

    def _forward(self, changes: FileChanges) -> None:
        for change, name in changes:
            mask = _WATCHFILES_MASKS[change]
            key = os.path.relpath(name, self._path).replace(os.sep, "/")
            if key == ".":
                self._sink.happened("", mask, "")
                continue
            parent, _, last = key.rpartition("/")
            if mask & inotify.MOVED_TO and os.path.isdir(name):
                mask |= inotify.ISDIR
            self._sink.happened(f"{parent}/" if parent else "", mask, last)
