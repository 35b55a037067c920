"""Worker threads for calls that may block on a disk or network, a limited number per folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from resource_server.errors import DeadlineExceeded
from resource_server.provider import MaybeAwaitable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Work that yields when what follows may take long, and returns its result."""


def finish(steps: Steps[T]) -> T:
    """Return the result of the work, however long the rest of it takes."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


class WorkerThreads:
    """Runs at most `max_threads` at a time, abandoned ones included.

    A hanging drive occupies no more threads than these, however many calls it gets.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._threads: ThreadPoolExecutor | None = None

    def now_or_in_thread(self, steps: Steps[T]) -> MaybeAwaitable[T]:
        """Return the result of the work, or run in a thread what follows its first yield."""
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        return self.run(lambda: finish(steps))

    async def run(self, work: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """Run `work` in a thread as soon as one is free, and return its result.

        A cancelled call returns without waiting for its thread.

        Raises:
            DeadlineExceeded: no thread was free within `timeout_s`.
        """
        if self._threads is None:
            # Imported here: most folders are served without threads. Not with anyio: importing its
            # threads would hold up the loop for 14 ms.
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(self._max_threads)
        job = self._threads.submit(work)
        result = asyncio.wrap_future(job)
        if timeout_s is not None:
            done, _ = await asyncio.wait([result], timeout=timeout_s)
            # Only a job that has not begun can be cancelled.
            if not done and job.cancel():
                raise DeadlineExceeded("a look at this folder has not ended in time")
        return await result

    def close(self) -> None:
        """End idle threads now, and the others after their work; a later call starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None
