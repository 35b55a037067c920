"""Notices that somebody has committed to a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from resource_server.errors import MountUnavailable, ResourceError
from resource_server.providers.database.engines.sqlite.connection import Connection
from resource_server.providers.database.engines.sqlite.connection_pool import Lane

_AFTER = (0.0, 0.001, 0.004, 0.020)
"""Seconds after a nudge when it is looked: a log is written before its commit can be seen."""
_BUSY = 60.0
"""Seconds without a commit after which it is looked less often."""
_IDLE_INTERVAL = 1.0
_WITHIN = 2.0


class Commits:
    """The commits to one file, by a connection of its own."""

    def __init__(self, lane: Lane, interval: float) -> None:
        self._lane = lane
        self._interval = interval
        self._nudged = asyncio.Event()
        self._looks: list[float] = []
        """Times when to look because of a nudge, the last first."""

    def nudge(self) -> None:
        """Look now, and again in a moment."""
        now = asyncio.get_running_loop().time()
        self._looks = [now + delay for delay in reversed(_AFTER)]
        self._nudged.set()

    async def follow(self) -> AsyncGenerator[None, None]:
        """Yield once a later commit will be noticed, and then after each. See `Engine.commits`."""
        loop = asyncio.get_running_loop()
        try:
            state = await self._lane.run(_data_version, _WITHIN), self._file()
            yield
            changed = loop.time()
            while True:
                await self._wait(
                    self._interval if loop.time() - changed < _BUSY else _IDLE_INTERVAL
                )
                seen = await self._look(state)
                if seen != state:
                    state, changed = seen, loop.time()
                    yield
        finally:
            await self._lane.close(_WITHIN)

    async def _look(self, state: object) -> object:
        """Return what differs after a commit or when the file was replaced, came or went."""
        try:
            version = await self._lane.run(_data_version, _WITHIN)
        except MountUnavailable as error:
            return str(error)
        except ResourceError:
            # A writer holds it: what it commits is seen at the next look.
            return state
        return version, self._file()

    def _file(self) -> object:
        # The version counts for one connection only.
        return self._lane.identity, self._lane.opened

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


def _data_version(connection: Connection) -> int:
    (version,) = connection.database.execute("PRAGMA data_version").fetchone()
    return version
