"""File system events of a SQLite database and its journals: inotify, watchfiles, or none."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from resource_server.runtime import inotify
from resource_server.runtime.file_system_kind import file_system_kind

logger = logging.getLogger(__name__)

_MASK = (
    inotify.MODIFY
    | inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
)
_STEP_MS = 50
"""Interval at which watchfiles looks for events; a shorter one costs more than polling."""
_CHECK_MS = 1000
_RESTART_S = 1.0


class FileEvents(Protocol):
    """Reports writes to a database file, its journals and its log."""

    def are_arriving(self) -> bool:
        """Return whether the system reports every write of this machine from now on.

        False where the folder is missing, lies on a network file system, or cannot be watched.
        """
        ...


@asynccontextmanager
async def file_events(
    path: str, nudge: Callable[[], None], *, has_inotify: bool = sys.platform == "linux"
) -> AsyncGenerator[FileEvents]:
    """Call `nudge` in the event loop after each event of the database at `path`."""
    if not has_inotify:
        async with _watchfiles_events(path, nudge) as events:
            yield events
        return
    try:
        shared = inotify.Inotify.shared()
    except (OSError, AttributeError):  # such as too many instances
        yield _NoEvents()
        return
    events = _InotifyEvents(shared, path, nudge)
    try:
        yield events
    finally:
        events.close()
        shared.release()


class _NoEvents:
    def are_arriving(self) -> bool:
        return False


class _InotifyEvents:
    """Watches the folder of the file that the path leads to."""

    def __init__(self, shared: inotify.Inotify, path: str, nudge: Callable[[], None]) -> None:
        self._shared = shared
        self._path = path
        self._nudge = nudge
        self._name = ""
        self._folder: tuple[str, int, int] | None = None
        """Name, device and inode of the watched folder."""
        self._watch: int | None = None
        self._is_local = False

    def are_arriving(self) -> bool:
        """See `FileEvents.are_arriving`; watches the folder again if another took its place."""
        folder, self._name = _place(self._path)
        try:
            status = os.stat(folder)
            identity = (folder, status.st_dev, status.st_ino)
            if identity != self._folder:
                self.close()
                self._add(folder)
                self._folder = identity
                self._is_local = file_system_kind(folder) == "local"
                self._nudge()  # for what happened before
        except OSError:  # such as a missing folder, or too many watches
            self.close()
        return self._watch is not None and self._is_local

    def _add(self, folder: str) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._watch = self._shared.add(fd, _MASK, self, self._path)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Stop watching the folder."""
        if self._watch is not None:
            self._shared.remove(self._watch, self, self._path)
        self._watch = self._folder = None

    def happened(self, place: str, mask: int, name: str) -> None:
        """Pass on an event of the database or its journals; see `EventListener`."""
        if mask & inotify.IGNORED:
            self._watch = self._folder = None
        if not name or name.startswith(self._name):
            self._nudge()

    def overflowed(self) -> None:
        """Events were lost; see `EventListener`."""
        self._nudge()


class _WatchfilesEvents:
    """Watches the folder with watchfiles, and starts it again when it fails."""

    def __init__(self, path: str, nudge: Callable[[], None]) -> None:
        self._path = path
        self._nudge = nudge
        self._is_alive = False

    def are_arriving(self) -> bool:
        """See `FileEvents.are_arriving`."""
        return self._is_alive

    async def run(self) -> None:
        """Pass on events until it is cancelled."""
        while True:
            with suppress(OSError, RuntimeError, ExceptionGroup):
                await self._run_once()
            self._is_alive = False
            self._nudge()
            await asyncio.sleep(_RESTART_S)

    async def _run_once(self) -> None:
        # Imported here: not needed on Linux.
        import watchfiles

        folder, name = _place(self._path)
        status = os.stat(folder)
        stream = watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
            folder,
            watch_filter=lambda _, changed: os.path.basename(changed).startswith(name),
            step=_STEP_MS,
            debounce=_STEP_MS,
            rust_timeout=_CHECK_MS,
            yield_on_timeout=True,
            recursive=False,
        )
        async for changes in stream:
            # Only the first batch proves that it watches; what came before has to be looked for.
            if changes or not self._is_alive:
                self._is_alive = True
                self._nudge()
            if not os.path.samestat(status, os.stat(folder)):
                return  # watchfiles would keep watching the replaced folder


@asynccontextmanager
async def _watchfiles_events(path: str, nudge: Callable[[], None]) -> AsyncGenerator[FileEvents]:
    events = _WatchfilesEvents(path, nudge)
    task = asyncio.create_task(events.run())
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.wait((task,))


def _place(path: str) -> tuple[str, str]:
    """Return the folder and name of a file; the journals lie beside the target of a symlink."""
    folder, name = os.path.split(os.path.realpath(path))
    return folder, name


_: type[inotify.EventListener] = _InotifyEvents
