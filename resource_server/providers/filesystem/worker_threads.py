"""Threads for what may wait for a disk or network: of each folder its own."""

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
    """At most so many threads at once, also of those that nobody waits for any more.

    A drive that is gone takes no more than these, however often it is asked.
    """

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        """One for each thread, until it has come back."""

    def unless_now(self, work: Callable[[bool], T]) -> MaybeAwaitable[T]:
        """Return what `work(False)` gives, or where that would block `work(True)`, from a thread.

        It would block where it raises `BlockingIOError`.
        """
        try:
            return work(False)
        except BlockingIOError:
            return self.run(lambda: work(True))

    async def run(self, work: Callable[[], T], *, patience_s: float | None = None) -> T:
        """Return what `work` gives, in a thread as soon as there is a place for one.

        Who is cancelled does not wait for the end of the thread.

        Raises:
            DeadlineExceeded: there was no place in `patience_s` seconds.
        """
        # Imported here: most folders are served without a thread ever being needed.
        from anyio import CapacityLimiter, to_thread

        try:
            async with asyncio.timeout(patience_s):
                await self._places.acquire()
        except TimeoutError:
            raise DeadlineExceeded("a look at this folder has not ended in time") from None
        loop = asyncio.get_running_loop()
        begun = threading.Lock()
        """Taken once: by the thread, or by who was cancelled before the thread took it."""
        users = 2

        def leave() -> None:
            nonlocal users
            users -= 1
            if not users:  # both this and the thread, in whatever order
                self._places.release()

        def placed() -> T:
            if not begun.acquire(blocking=False):
                raise _Late
            try:
                return work()
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(leave)

        # Its tokens would be given back by whoever is cancelled, while the thread runs on.
        unlimited = CapacityLimiter(math.inf)
        try:
            return await to_thread.run_sync(placed, abandon_on_cancel=True, limiter=unlimited)
        finally:
            if begun.acquire(blocking=False):
                leave()
            leave()


class _Late(Exception):
    """Whoever asked for it has been cancelled before it began."""
