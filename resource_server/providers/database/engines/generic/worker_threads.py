"""Threads for drivers that block, each of which may be left behind.

SQLAlchemy has no way to stop a statement. A thread that exceeds its deadline is left behind: it is
a daemon, so it keeps nothing from ending, and its name lets the exit bypass libraries that would
wait for it. Only a few may be left behind at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from resource_server.errors import DeadlineExceeded, ResourceBusy
from resource_server.runtime.eager import DRIVER_THREAD

T = TypeVar("T")

MAX_LEFT_BEHIND: Final = 8
"""Maximum number of threads whose statement runs on after its deadline."""


class LeftBehind(Exception):
    """Nobody waits for this work any more."""


class Work(Generic[T]):
    """One call in a thread; `stop` ends it early, if the driver can."""

    def __init__(self, function: Callable[[Work[T]], T]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.is_left_behind = False
        self.finished: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def stopped_by(self, stop: Callable[[], object] | None) -> None:
        """Name what another thread may call to stop the rest of the work.

        Raises:
            LeftBehind: it is too late.
        """
        with self._lock:
            if self.is_left_behind:
                raise LeftBehind
            self._stop = stop

    def leave_behind(self) -> Callable[[], object] | None:
        """Wait no longer; return what may stop the rest of the work, if the driver can."""
        with self._lock:
            self.is_left_behind = True
            return self._stop

    def run(self, loop: asyncio.AbstractEventLoop, ended: Callable[[Work[T]], None]) -> None:
        """Run in this thread, and tell the event loop."""
        result: T | None = None
        error: BaseException | None = None
        try:
            result = self._function(self)
        except BaseException as raised:
            error = raised

        def finish() -> None:
            ended(self)
            if self.is_left_behind:
                self.finished.cancel()  # nobody would take an error
            elif error is None:
                self.finished.set_result(cast("T", result))
            else:
                self.finished.set_exception(error)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish)


class StatementThreads:
    """Runs calls that block, each in a thread of its own."""

    def __init__(self) -> None:
        self._running = set[Work[Any]]()
        self._left_behind = set[Work[Any]]()

    @property
    def has_work(self) -> bool:
        """Whether any thread runs, left behind or not."""
        return bool(self._running)

    async def run(self, function: Callable[[Work[T]], T], within: float) -> T:
        """Return the result of a function of its `Work`.

        Raises:
            DeadlineExceeded: it takes longer than `within` seconds, and is left behind.
            ResourceBusy: too many are left behind, and none of them ends meanwhile.
        """
        deadline = time.monotonic() + within
        while len(self._left_behind) >= MAX_LEFT_BEHIND:
            left = [work.finished for work in self._left_behind]
            first = asyncio.FIRST_COMPLETED
            ended, _ = await asyncio.wait(left, timeout=_until(deadline), return_when=first)
            if not ended:
                raise ResourceBusy(
                    f"the database does not answer: {MAX_LEFT_BEHIND} statements run on after "
                    "their time limits"
                )
        work = Work(function)
        self._start(work)
        try:
            await asyncio.wait((work.finished,), timeout=_until(deadline))
        finally:
            if not work.finished.done():
                self._leave_behind(work)
        if not work.finished.done():
            raise DeadlineExceeded
        return work.finished.result()

    def _start(self, work: Work[Any]) -> None:
        self._running.add(work)
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=work.run, args=(loop, self._ended), name=DRIVER_THREAD, daemon=True
        ).start()

    def _leave_behind(self, work: Work[Any]) -> None:
        self._left_behind.add(work)
        stop = work.leave_behind()
        if stop is not None:  # it may block, too, and takes connections that nobody else may close
            self._start(Work(lambda _: _quietly(stop)))

    def _ended(self, work: Work[Any]) -> None:
        self._running.discard(work)
        self._left_behind.discard(work)

    async def close(self, within: float) -> None:
        """Stop what is running, and wait for it for `within` seconds."""
        for work in self._running - self._left_behind:
            self._leave_behind(work)
        unfinished = [work.finished for work in self._running]
        if unfinished:
            await asyncio.wait(unfinished, timeout=within)


def _until(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)


def _quietly(stop: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        stop()
