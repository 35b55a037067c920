"""Worker threads for calls that may block on a disk or network, a limited number per folder."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from resource_server.errors import DeadlineExceeded
from resource_server.provider import MaybeAwaitable

T = TypeVar("T")


class WorkerThreads:
    """Runs at most `max_threads` at a time, abandoned ones included.

    A hanging drive occupies no more threads than these, however many calls it gets.
    """

    def __init__(self, max_threads: int) -> None:
        self._slots = asyncio.Semaphore(max_threads)
        """One slot per thread, released when the thread has ended."""

    def now_or_in_thread(self, work: Callable[[bool], T]) -> MaybeAwaitable[T]:
        """Return `work(False)`; if that raises `BlockingIOError`, run `work(True)` in a thread."""
        try:
            return work(False)
        except BlockingIOError:
            return self.run(lambda: work(True))

    async def run(self, work: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """Run `work` in a thread as soon as a slot is free, and return its result.

        A cancelled call returns without waiting for its thread.

        Raises:
            DeadlineExceeded: no slot was free within `timeout_s`.
        """
        # Imported here: most folders are served without threads.
        from anyio import CapacityLimiter, to_thread

        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise DeadlineExceeded("a look at this folder has not ended in time") from None
        slot = _Slot(self._slots)

        def in_thread() -> T:
            if not slot.begin():
                raise _Abandoned
            try:
                return work()
            finally:
                slot.leave_from_thread()

        # anyio's own limiter would free its token on cancellation, while the thread runs on.
        unlimited = CapacityLimiter(math.inf)
        try:
            return await to_thread.run_sync(in_thread, abandon_on_cancel=True, limiter=unlimited)
        finally:
            slot.leave()


class _Slot:
    """One slot, held by a call and by its thread; released when both have left, in any order."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._begun = threading.Lock()
        """Acquired once: by the thread, or by a call that is cancelled before the thread begins."""
        self._holders = 2

    def begin(self) -> bool:
        """Enter the thread; return False if the call was cancelled before."""
        return self._begun.acquire(blocking=False)

    def leave(self) -> None:
        """Leave the call, and also the thread if it has not started."""
        if self._begun.acquire(blocking=False):
            self._release_one()
        self._release_one()

    def leave_from_thread(self) -> None:
        """Leave the thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._release_one)

    def _release_one(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._slots.release()


class _Abandoned(Exception):
    """The call was cancelled before its thread began."""
