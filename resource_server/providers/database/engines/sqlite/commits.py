"""The commit watch of a SQLite file, on aiosqlite.

File events trigger a look at `PRAGMA data_version`. Where the system reports every event, polls are
rare; they find what events miss, such as a commit that becomes visible late.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import aiosqlite
import msgspec

from resource_server.errors import MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.sqlite.connection import errors_explained, hardened
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    WriteAheadLog,
)
from resource_server.runtime import inotify
from resource_server.runtime.eager import wait_through
from resource_server.runtime.file_system_kind import file_system_kind
from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.runtime.watchfiles_events import FileChanges, WatchfilesEvents

_logger = logging.getLogger(__name__)
# At DEBUG it would log statements with their values.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)

_MASK = inotify.MODIFY | inotify.STRUCTURE
_TIMING = msgspec.structs.replace(DEFAULT_TIMING, watchfiles_step_s=0.05)
"""A shorter step would cost more than polling."""

_LOOK_DELAYS_S = (0.0, 0.001, 0.004, 0.010, 0.020, 0.040, 0.080, 0.160, 0.320)
"""When to look after a file event: SQLite writes and syncs the log before a commit is visible."""
_IDLE_AFTER_S = 60.0
"""Time without a commit after which polls become rare, where they are not rare already."""
_RARE_INTERVAL_S = 1.0
_CLOSE_TIMEOUT_S = 2.0


class SqliteCommitWatch:
    """Watches one file for commits.

    Looks after file events, once a second besides, and every `interval` seconds if the system
    reports no events or a writer locks the file.
    """

    def __init__(self, file: DatabaseFile, interval: float) -> None:
        self._file = file
        self._interval = interval
        self._connection: _WatchConnection | None = None
        self._opened = 0
        """Number of connections so far; a data version holds for one of them."""
        self._nudged = asyncio.Event()
        self._looks: list[float] = []
        """Times of the looks that a file event asked for, the last one first."""

    async def follow(self) -> AsyncGenerator[None, None]:
        """Yield as soon as later commits will be noticed, then after each. See `Engine.commits`."""
        loop = asyncio.get_running_loop()
        async with file_events(self._file.path, self._nudge) as are_arriving:
            try:
                are_arriving()
                state = await self._look()
                yield
                changed = loop.time()
                is_locked = False
                while True:
                    idle = loop.time() - changed >= _IDLE_AFTER_S
                    # Before the look, which finds the commits before the first event.
                    is_rare = (are_arriving() and not is_locked) or idle
                    interval = max(self._interval, _RARE_INTERVAL_S) if is_rare else self._interval
                    await self._wait(interval)
                    try:
                        seen, is_locked = await self._look(), False
                    except MountUnavailable as error:
                        seen = str(error)
                    except ResourceBusy:
                        # A writer holds the lock; a later look sees its commit.
                        is_locked = True
                        continue
                    if seen != state:
                        state, changed = seen, loop.time()
                        yield
            finally:
                await self._close()

    async def _look(self) -> object:
        """Return what changes with a commit, and when the file is replaced, removed or restored.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` raises them.
        """
        try:
            if self._connection is None or not self._connection.is_current():
                await self._close()
                self._opened += 1
                connection = _WatchConnection(self._file)
                await connection.open()
                self._connection = connection
            return self._opened, await self._connection.data_version()
        except MountUnavailable:
            await self._close()
            raise

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _nudge(self) -> None:
        now = asyncio.get_running_loop().time()
        self._looks = [now + delay for delay in reversed(_LOOK_DELAYS_S)]
        self._nudged.set()

    async def _wait(self, interval: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + interval
        while True:
            if self._looks:
                until = min(until, self._looks[-1])
            self._nudged.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._nudged.wait()
            except TimeoutError:
                break
        now = loop.time()
        while self._looks and self._looks[-1] <= now:
            self._looks.pop()


class _WatchConnection:
    """A connection for one statement, `PRAGMA data_version`.

    aiosqlite suits it: nothing in the file is evaluated, so no statement can get stuck.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._identity = file.identify()
        self._log: WriteAheadLog | None = None
        self._failure: Exception | None = None
        self._database = aiosqlite.Connection(self._connect, iter_chunk_size=1)

    async def open(self) -> None:
        """Connect.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` raises them.
        """
        opening = asyncio.ensure_future(self._database)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            try:
                await wait_through(opening, _CLOSE_TIMEOUT_S)
            finally:
                await self.close()
            raise
        if self._failure is not None:
            await self.close()
            with errors_explained():
                raise self._failure

    def _connect(self) -> sqlite3.Connection:
        try:
            return self._opened()
        except Exception as error:
            # After an error, aiosqlite would leave us no way to wait for its thread.
            self._failure = error
            return sqlite3.connect(":memory:")

    def _opened(self) -> sqlite3.Connection:
        database = hardened(self._file.uri(self._identity))
        try:
            database.execute("PRAGMA data_version").close()  # opens the log, if there is one
            self._log = self._file.log(self._identity)
        except BaseException:
            database.close()
            raise
        return database

    def is_current(self) -> bool:
        """Return whether the connection notices others' commits.

        Raises:
            MountUnavailable: the file is gone.
        """
        same_log = self._log is not None and self._log.is_current()
        return same_log and self._file.is_current(self._identity)

    async def data_version(self) -> int:
        """Return a number that changes with every commit of another connection.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` raises them.
        """
        with errors_explained():
            ((version,),) = await self._database.execute_fetchall("PRAGMA data_version")
        return version

    async def close(self) -> None:
        """Close the connection, and wait for its thread: it must not outlive the event loop."""
        if self._log is not None:
            self._log.close()
            self._log = None
        # `close` would wait until a busy thread is done.
        stopped: asyncio.Future[None] | None = self._database.stop()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if stopped is not None:
            await wait_through(stopped, _CLOSE_TIMEOUT_S)


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
