"""What the system tells of a SQLite file and its log: reasons to look for a commit at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from resource_server.runtime import inotify

_MASK = inotify.MODIFY | inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO


class _Watcher:
    """Calls `nudge` for events of the files whose names begin with that of the database."""

    def __init__(self, name: str, nudge: Callable[[], None]) -> None:
        self._name = name
        self._nudge = nudge

    def happened(self, place: str, mask: int, name: str) -> None:
        if name.startswith(self._name):
            self._nudge()

    def overflowed(self) -> None:
        self._nudge()


@contextmanager
def nudging(path: str | os.PathLike[str], nudge: Callable[[], None]) -> Generator[None]:
    """Call `nudge` on the running loop whenever something happens to a database file or its log.

    Where the system tells nothing (not Linux, no more instances, no such folder) it is never
    called: whoever relies on it polls as well.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        shared = inotify.Inotify.shared()
    except (OSError, AttributeError):
        yield
        return
    watcher = _Watcher(name, nudge)
    watch: int | None = None
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            watch = shared.add(fd, _MASK, watcher, folder)
        finally:
            os.close(fd)
    except OSError:
        pass
    try:
        yield
    finally:
        if watch is not None:
            shared.remove(watch, watcher, folder)
        shared.release()


_: type[inotify.Watcher] = _Watcher
