"""Bounded concurrency with a bounded queue, for the statements of one kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from resource_server.errors import ResourceBusy

MAX_WAITING = 64
"""Maximum number of statements that wait for a slot; later ones are refused."""


class Slots:
    """A semaphore that serves waiters in order and refuses them when its queue is full."""

    def __init__(self, size: int, *, max_waiting: int = MAX_WAITING) -> None:
        self._free = asyncio.Semaphore(size)
        self._max_waiting = max_waiting
        self._waiting = 0

    async def acquire(self) -> None:
        """Take a slot, waiting for one if all are taken.

        Raises:
            ResourceBusy: the queue is full.
        """
        if self._waiting >= self._max_waiting:
            raise ResourceBusy("the database is overloaded")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

    def release(self) -> None:
        """Return a slot, and wake the first waiter."""
        self._free.release()


async def acquire_all(needed: Iterable[Slots], held: list[Slots]) -> None:
    """Take a slot of each, or none, and note those that are taken. Raises as `Slots.acquire`."""
    try:
        for slots in needed:
            await slots.acquire()
            held.append(slots)
    except BaseException:
        release_all(held)
        raise


def release_all(held: list[Slots]) -> None:
    """Return all slots that are noted."""
    while held:
        held.pop().release()
