"""Notifications that belong to no request: sent as fast as the client takes them, and no faster.

They are made when they are sent. Until then each source only knows what it still has to tell, so a
client that does not read costs no more memory than what it subscribed to.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

Send: TypeAlias = Callable[[bytes], None]
"""Takes one encoded message; never blocks and never raises."""

_AT_ONCE = 256
"""Messages that are sent before others have their turn."""


class Source(Protocol):
    """What has something to tell."""

    def send_next(self) -> bool:
        """Send the next message; return False, having sent none, where there is none."""
        ...


class Outbox:
    """The sources of one connection that have something to tell, in the order in which they had."""

    def __init__(self, room: asyncio.Event | None = None) -> None:
        self._room = room
        """Set while the client takes what it is sent; None where it always does."""
        self._sources = OrderedDict[Source, None]()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sent = 0
        self._scheduled: asyncio.Handle | None = None
        self._waiting: asyncio.Task[bool] | None = None

    def put(self, source: Source) -> None:
        """Let a source send what it has: soon, but not before the caller is done."""
        self._sources[source] = None
        self._empty.clear()
        self._schedule()

    def remove(self, source: Source) -> None:
        """Send nothing more of a source."""
        self._sources.pop(source, None)
        if not self._sources:
            self._empty.set()

    def flush(self, at_once: int | None = None) -> None:
        """Send what there is, as far as the client takes it now; the rest follows by itself."""
        sent = 0
        while self._sources:
            if self._room is not None and not self._room.is_set():
                self._wait(self._room)
                break
            if sent == at_once:
                self._schedule()
                break
            source = next(iter(self._sources))
            if source.send_next():
                sent += 1
            else:
                self.remove(source)
        self._sent += sent

    async def drain(self, seconds: float) -> None:
        """Wait until everything is sent, as long as the client takes some in so many seconds."""
        before = -1
        while self._sources and self._sent > before:
            before = self._sent
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()

    def close(self) -> None:
        """Send nothing more."""
        self._sources.clear()
        self._empty.set()
        if self._scheduled is not None:
            self._scheduled.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _schedule(self) -> None:
        # Whoever waits for room flushes when it comes.
        if self._scheduled is None and self._waiting is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = None
        self.flush(_AT_ONCE)

    def _wait(self, room: asyncio.Event) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(room.wait())
            self._waiting.add_done_callback(self._resume)

    def _resume(self, waited: asyncio.Task[bool]) -> None:
        self._waiting = None
        if not waited.cancelled():
            self._turn()
