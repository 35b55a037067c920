"""File system events of a SQLite database and its journals: inotify, watchfiles, or none."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from resource_server.runtime import inotify
from resource_server.runtime.file_system_kind import file_system_kind
from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.runtime.watchfiles_events import FileChanges, WatchfilesEvents

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
_TIMING = msgspec.structs.replace(DEFAULT_TIMING, watchfiles_step_s=0.05)
"""A shorter step would cost more than polling."""


@asynccontextmanager
async def file_events(
    path: str, nudge: Callable[[], None], *, has_inotify: bool = sys.platform == "linux"
) -> AsyncGenerator[Callable[[], bool]]:
    """Call `nudge` in the event loop after each event of the database at `path`.

    Yields a function that returns whether the system reports every write of this machine from now
    on: not where the folder is missing, lies on a network file system, or cannot be watched.
    """
    if not has_inotify:
        source = WatchfilesEvents(
            lambda: _place(path)[0],
            lambda changes: _nudge_for(path, changes, nudge),
            nudge,
            _TIMING,
            recursive=False,
        )
        async with source.running():
            yield lambda: source.are_arriving
        return
    try:
        shared = inotify.Inotify.shared()
    except (OSError, AttributeError):  # such as too many instances
        yield lambda: False
        return
    events = _InotifyEvents(shared, path, nudge)
    try:
        yield events.are_arriving
    finally:
        events.close()
        shared.release()


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
        """Return as `file_events` says; watches the folder again if another took its place."""
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


def _nudge_for(path: str, changes: FileChanges, nudge: Callable[[], None]) -> None:
    name = _place(path)[1]
    if any(os.path.basename(changed).startswith(name) for _, changed in changes):
        nudge()


def _place(path: str) -> tuple[str, str]:
    """Return the folder and name of a file; the journals lie beside the target of a symlink."""
    folder, name = os.path.split(os.path.realpath(path))
    return folder, name


_: type[inotify.EventListener] = _InotifyEvents
