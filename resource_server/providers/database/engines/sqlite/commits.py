"""The commit watch of a SQLite file.

File events say when to look at `PRAGMA data_version`. Where the system reports all of them, polls
are rare; they find what no event tells, such as a commit that becomes visible late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from resource_server.errors import DeadlineExceeded, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.sqlite.authorizer import everything
from resource_server.providers.database.engines.sqlite.connection import (
    SqliteConnection,
    StatementRefused,
)
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile
from resource_server.providers.database.engines.sqlite.file_events import file_events
from resource_server.providers.database.engines.sqlite.workers import SqliteWorker

_LOOK_DELAYS_S = (0.0, 0.001, 0.004, 0.010, 0.020, 0.040, 0.080, 0.160, 0.320)
"""When to look after a file event: SQLite writes and syncs the log before a commit is visible."""
_IDLE_AFTER_S = 60.0
"""Time without a commit after which polls become rare, where they are not rare already."""
_RARE_INTERVAL_S = 1.0
_LOOK_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 2.0


class SqliteCommitWatch:
    """Watches one file for commits.

    Looks after file events, once a second besides, and every `interval` seconds if the system
    reports no events or a writer locks the file.
    """

    def __init__(self, file: DatabaseFile, interval: float) -> None:
        self._file = file
        self._interval = interval
        self._worker = SqliteWorker(file, "catalog", everything)
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
                    except (MountUnavailable, StatementRefused) as error:
                        seen = str(error)
                    except (ResourceBusy, DeadlineExceeded):
                        # A writer holds the lock; a later look sees its commit.
                        is_locked = True
                        continue
                    if seen != state:
                        state, changed = seen, loop.time()
                        yield
            finally:
                await self._worker.close(_CLOSE_TIMEOUT_S)

    async def _look(self) -> object:
        """Return what changes with a commit, and when the file is replaced, removed or restored.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` raises them.
        """
        return await self._worker.run(_state, _LOOK_TIMEOUT_S)

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


def _state(connection: SqliteConnection) -> object:
    # The version of the data holds for one connection.
    return connection, connection.versions()
