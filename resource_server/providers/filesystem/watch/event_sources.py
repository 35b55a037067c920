"""Where a watch gets its events from: inotify, watchfiles, or nowhere, so that it polls."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

from resource_server.providers.filesystem.options import WatchMode
from resource_server.providers.filesystem.watch.file_system_kind import file_system_kind
from resource_server.runtime import inotify

logger = logging.getLogger(__name__)

_STRUCTURE = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ATTRIB
)
_CONTENT = inotify.MODIFY | inotify.CLOSE_WRITE
_FILE = inotify.MODIFY | inotify.CLOSE_WRITE | inotify.DELETE_SELF | inotify.MOVE_SELF
_STEP_MS = 10
_DEBOUNCE_MS = 50
_PULSE_MS = 500
_RESTART_S = 1.0


class EventSource(Protocol):
    """Where events come from. The methods are called in worker threads, one at a time."""

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        """Watch the directory `prefix`, open as `fd`; with `content` also what is written in it.

        Raises:
            OSError: ENOSPC, there can be no more watches.
        """
        ...

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        """Watch what is written into one file, open as `fd`; raises as `add`."""
        ...

    def remove(self, prefix: str, name: str = "") -> None:
        """Watch a directory, or a file in it, no longer."""
        ...


@asynccontextmanager
async def opened(
    path: str, option: WatchMode, watch: inotify.Watcher
) -> AsyncGenerator[EventSource | None]:
    """Open the source of events for a folder; None if it can only be polled."""
    if option == "auto":
        option = _best(path)
    if option == "inotify":
        try:
            source = _InotifySource(watch)
        except (OSError, AttributeError) as error:
            _say_none(_why_none(error))
        else:
            with source:
                yield source
            return
    elif option == "watchfiles":
        async with _watchfiles(path, watch) as source:
            yield source
        return
    yield None


def _best(path: str) -> WatchMode:
    if file_system_kind(path) == "remote":
        return "poll"
    return "inotify" if sys.platform == "linux" else "watchfiles"


def back_end(path: str, option: WatchMode) -> str:
    """Return what notices the changes of a folder with this option, and why if it has to poll.

    For the operator; on an event loop.
    """
    if option in ("off", "poll"):
        return option
    if (found := file_system_kind(path)) != "local":
        # There watchfiles runs beside.
        also = "watchfiles and " if option == "watchfiles" else ""
        return f"{also}poll ({found} file system)"
    best = _best(path) if option == "auto" else option
    if best == "inotify":
        try:
            inotify.Inotify.shared().release()
        except (OSError, AttributeError) as error:
            return f"poll (no inotify: {_why_none(error)})"
    return best


def _why_none(error: OSError | AttributeError) -> str:
    """Return why there is no inotify, and what helps if anything does."""
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return "too many instances; more with: sysctl fs.inotify.max_user_instances=1024"
    return getattr(error, "strerror", None) or "this system has none"


@functools.cache
def _say_none(reason: str) -> None:
    """Say that folders are polled: once in a process, however many there are."""
    logger.warning("no inotify (%s): folders are looked at once a second instead", reason)


class _InotifySource:
    """The directories of one tree in the descriptor of the process."""

    def __init__(self, watch: inotify.Watcher) -> None:
        self._watch = watch
        self._inotify = inotify.Inotify.shared()
        self._watches: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        # A look may go on for a while in its thread, and must not watch anything from here on.
        with self._lock:
            self._is_closed = True
        if not self._inotify.release():
            # There may be very many.
            threading.Thread(target=self._remove_all, daemon=True).start()

    def _remove_all(self) -> None:
        for place in list(self._watches):
            self._remove(place)

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        self._add(prefix, fd, _STRUCTURE | _CONTENT if content else _STRUCTURE)

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        self._add(f"{prefix}\0{name}", fd, _FILE)

    def remove(self, prefix: str, name: str = "") -> None:
        with self._lock:
            self._remove(f"{prefix}\0{name}" if name else prefix)

    def _add(self, place: str, fd: int, mask: int) -> None:
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            watch = self._inotify.add(fd, mask, self._watch, place)
            before = self._watches.get(place)
            if before is not None and before != watch:
                self._inotify.remove(before, self._watch, place)
            self._watches[place] = watch

    def _remove(self, place: str) -> None:
        watch = self._watches.pop(place, None)
        if watch is not None:
            self._inotify.remove(watch, self._watch, place)


class _WatchfilesSource:
    """Watches a whole tree at once; single directories need no watch of their own."""

    def __init__(self) -> None:
        self.is_alive = False
        """Whether there are events now."""

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        if not self.is_alive:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        pass

    def remove(self, prefix: str, name: str = "") -> None:
        pass


@asynccontextmanager
async def _watchfiles(path: str, watch: inotify.Watcher) -> AsyncGenerator[EventSource]:
    source = _WatchfilesSource()
    task = asyncio.create_task(_run_watchfiles(path, watch, source))
    try:
        yield source
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run_watchfiles(path: str, watch: inotify.Watcher, source: _WatchfilesSource) -> None:
    """Put the events of watchfiles into `watch`; when its stream dies, begin another.

    In between everything is polled.
    """
    told = False
    while True:
        try:
            await _until_it_dies(path, watch, source)
        except (OSError, RuntimeError, ExceptionGroup) as error:
            # Among others for a name that is not UTF-8, and where the root is missing.
            (logger.info if told else logger.warning)(
                "watchfiles has failed (%s): folders are looked at once a second until it is back",
                type(error).__name__,
            )
            told = True
        if source.is_alive:
            source.is_alive = False
            watch.overflowed()
        await asyncio.sleep(_RESTART_S)


async def _until_it_dies(path: str, watch: inotify.Watcher, source: _WatchfilesSource) -> None:
    # Imported here: on Linux it is only used where somebody asks for it.
    import watchfiles

    masks = {
        watchfiles.Change.added: inotify.MOVED_TO,
        watchfiles.Change.modified: inotify.MODIFY | inotify.CLOSE_WRITE,
        watchfiles.Change.deleted: inotify.DELETE,
    }
    identity = _identity(path)
    stream = watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
        path,
        watch_filter=None,
        step=_STEP_MS,
        debounce=_DEBOUNCE_MS,
        rust_timeout=_PULSE_MS,
        yield_on_timeout=True,
    )
    async with aclosing(stream):
        async for events in stream:
            if not source.is_alive:
                # Only now it watches for certain; what was looked at before counts for nothing.
                source.is_alive = True
                watch.overflowed()
            for kind, name in events:
                _tell(watch, path, name, masks[kind])
            if _identity(path) != identity:
                return  # it goes on watching the directory that was there


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _tell(watch: inotify.Watcher, root: str, name: str, mask: int) -> None:
    key = os.path.relpath(name, root).replace(os.sep, "/")
    if key == ".":
        watch.happened("", mask, "")
        return
    above, _, last = key.rpartition("/")
    if mask & inotify.MOVED_TO and os.path.isdir(name):
        mask |= inotify.ISDIR
    watch.happened(f"{above}/" if above else "", mask, last)
