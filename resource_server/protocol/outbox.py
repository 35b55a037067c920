"""Notifications that belong to no request, sent as fast as the client takes them.

A notification is built when it is sent. Until then each source only knows what it still has to
send, so a slow client costs no more memory than its subscriptions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from resource_server.runtime.lazy_event import LazyEvent


Send: TypeAlias = Callable[[bytes], None]
"""Takes one encoded message; never blocks and never raises."""

Room: TypeAlias = "asyncio.Event | LazyEvent"
"""Set while a client takes what it is sent."""

_MAX_PER_TURN = 256
"""Maximum notifications sent before the event loop runs other tasks."""


NotificationSource: TypeAlias = Callable[[], bool]
"""Sends its next notification; returns False if there was none."""


class Outbox:
    """The queue of one connection's sources that have notifications, in order of arrival."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room
        """Set while the client takes what it is sent; None if it always does."""
        self._sources = OrderedDict[NotificationSource, None]()
        self._emptied: asyncio.Event | None = None
        """What a drain waits for."""
        self._sent = 0
        self._scheduled: asyncio.Handle | None = None
        self._waiting: asyncio.Task[bool] | None = None

    def put(self, source: NotificationSource) -> None:
        """Queue a source; it sends soon, but not before the caller is done."""
        self._sources[source] = None
        self._schedule()

    def remove(self, source: NotificationSource) -> None:
        """Drop a source and its notifications."""
        self._sources.pop(source, None)
        if not self._sources and self._emptied is not None:
            self._emptied.set()

    def flush(self, most: int | None = None) -> None:
        """Send up to `most` notifications while the client accepts them; the rest follow later."""
        sent = 0
        while self._sources:
            if self._room is not None and not self._room.is_set():
                self._wait(self._room)
                break
            if sent == most:
                self._schedule()
                break
            source = next(iter(self._sources))
            if source():
                sent += 1
            else:
                self.remove(source)
        self._sent += sent

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything is sent, or the client accepts nothing for `timeout_s` seconds."""
        before = -1
        while self._sources and self._sent > before:
            before = self._sent
            if self._emptied is None or self._emptied.is_set():
                self._emptied = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()

    def close(self) -> None:
        """Drop everything that is queued, and send nothing more."""
        self._sources.clear()
        if self._emptied is not None:
            self._emptied.set()
        if self._scheduled is not None:
            self._scheduled.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _schedule(self) -> None:
        # A task that waits for room flushes by itself.
        if self._scheduled is None and self._waiting is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = None
        self.flush(_MAX_PER_TURN)

    def _wait(self, room: Room) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(room.wait())
            self._waiting.add_done_callback(self._resume)

    def _resume(self, waited: asyncio.Task[bool]) -> None:
        self._waiting = None
        if not waited.cancelled():
            self._turn()
