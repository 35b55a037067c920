"""Runs coroutines inline, moving to a task only when they have to wait.

Most results are ready immediately: a cached listing, a small file. A task for each would cost more
than the result. So `run` starts a coroutine and steps it inline. Code below it awaits anything that
may block through `settle`, which first moves the rest of the coroutine into a task. Before that
point nothing needs a current task; after it, timeouts and anyio work as usual.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, TypeVar, cast

from resource_server.errors import MountUnavailable, ProviderFailed

T = TypeVar("T")

CANCEL_S = 2.0
"""Timeout for cancelled work to end; afterwards it is abandoned."""
DRIVER_THREAD = "driver"
"""Name of threads that a driver of a database may block."""
_TURN_S = 0.001

_stepping: ContextVar[bool] = ContextVar("stepping", default=False)


async def settle(value: T | Awaitable[T]) -> T:
    """Return `value`, or the result of awaiting it."""
    if not hasattr(value, "__await__"):
        return cast("T", value)
    if _stepping.get():
        try:
            await _move_to_task()
        except BaseException:
            # Cancelled before the task began: the coroutine was never awaited.
            if isinstance(value, Coroutine):
                value.close()
            raise
    return await cast("Awaitable[T]", value)


@types.coroutine
def _move_to_task() -> Generator[None, None, None]:
    yield


class Suspended(Generic[T]):
    """A started coroutine that has to wait; a task must await it."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: object = None) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        """The awaitable that suspended the coroutine; None if it asked for a task first."""

    def __await__(self) -> Generator[Any, Any, T]:
        # Equivalent to `yield from`, had it been used from the start.
        awaited = self._awaited
        while awaited is not None:
            try:
                yield awaited
                awaited = None
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # such as a cancelled task
                try:
                    awaited = self._coroutine.throw(error)
                except StopIteration as done:
                    return cast("T", done.value)
        return (yield from self._coroutine.__await__())

    def close(self) -> None:
        """Close the coroutine if it will never be awaited."""
        self._coroutine.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T | Suspended[T]:
    """Step `coroutine` once; return its result if it finished, else the suspended rest.

    Raises:
        Exception: whatever the coroutine raises in this step.
    """
    token = None if _stepping.get() else _stepping.set(True)
    try:
        awaited = coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        if token is not None:
            _stepping.reset(token)
    return Suspended(coroutine, awaited)


async def within(seconds: float, work: Coroutine[Any, Any, T], *, cancel_s: float = CANCEL_S) -> T:
    """Return the result of `work` within a timeout; it runs in a task only if it waits.

    Raises:
        MountUnavailable: the timeout is over.
        Exception: whatever the coroutine raises.
    """
    outcome = run(work)
    if not isinstance(outcome, Suspended):
        return outcome
    rest = cast("Suspended[T]", outcome)
    return await in_own_task(rest, TimeLimit(seconds), cancel_s=cancel_s)


class TimeLimit:
    """The time that is left for one call; it can be paused."""

    __slots__ = ("_end", "_paused_at", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._paused_at: float | None = None

    def left_s(self) -> float:
        """Return the seconds that are left; a pause does not count."""
        now = time.monotonic() if self._paused_at is None else self._paused_at
        return self._end - now

    def pause(self) -> None:
        """Stop the clock."""
        if self._paused_at is None:
            self._paused_at = time.monotonic()

    def resume(self) -> None:
        """Let the clock run again."""
        if self._paused_at is not None:
            self._end += time.monotonic() - self._paused_at
            self._paused_at = None


async def in_own_task(
    work: Awaitable[T],
    limit: TimeLimit | None = None,
    *,
    cancel_s: float | None = CANCEL_S,
    on_abandoned: Callable[[asyncio.Future[Any]], object] | None = None,
) -> T:
    """Return the result of `work`, which runs in a task of its own.

    Work over its limit is cancelled and abandoned: it may be in a thread, or refuse to end. If the
    caller is cancelled, the work is given `cancel_s` to end. The task also tells the two apart: a
    cancellation that comes out of it is the work's own, never the caller's.

    Args:
        work: What is awaited. It is closed if it never starts.
        limit: None for none.
        cancel_s: None waits without a limit.
        on_abandoned: Called with the task of work that is abandoned.

    Raises:
        MountUnavailable: the time is over.
        ProviderFailed: the work raises what is no `Exception`, such as a cancellation of its own.
        Exception: whatever the work raises.
    """
    if _stepping.get():
        try:
            await _move_to_task()
        except BaseException:
            _close(work)
            raise
    task = asyncio.ensure_future(_contained(work))
    task.add_done_callback(partial(_retrieve, work))
    try:
        await _wait(task, limit)
        task.cancel()
    except asyncio.CancelledError:
        # Cancelling the caller ends the work, as if the work had been awaited directly.
        task.cancel()
        await wait_through(task, cancel_s)
        raise
    finally:
        if on_abandoned is not None and not task.done():
            on_abandoned(task)
    return _outcome(task, limit)


async def wait_through(work: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    """Wait until `work` is done or the time is over, even if cancelled meanwhile.

    A cancellation is raised then: anyio repeats it at every turn, and so does the end of a loop.
    """
    limit = None if timeout_s is None else TimeLimit(timeout_s)
    cancellation: asyncio.CancelledError | None = None
    while True:
        try:
            await _wait(work, limit)
            break
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation


async def _wait(task: asyncio.Future[Any], limit: TimeLimit | None) -> None:
    if limit is None:
        await asyncio.wait([task])
        return
    left_s = limit.left_s()
    while not task.done() and left_s > 0:
        await asyncio.wait([task], timeout=left_s)
        left_s = limit.left_s()  # more than nothing if it was paused


def _retrieve(work: Awaitable[Any], task: asyncio.Future[Any]) -> None:
    _close(work)  # open if the task was cancelled before its first step
    if not task.cancelled():
        task.exception()  # retrieved, or asyncio logs it


def _outcome(task: asyncio.Future[T], limit: TimeLimit | None) -> T:
    if not task.done():
        raise MountUnavailable(f"no answer within {cast('TimeLimit', limit).seconds:g} s")
    if task.cancelled():
        raise ProviderFailed(asyncio.CancelledError())
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise ProviderFailed(error) from error
    return task.result()


async def _contained(work: Awaitable[T]) -> T:
    """Await `work`; contain what the task would pass on to its event loop, or take as its end."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise ProviderFailed(error) from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise ProviderFailed(error) from error


def _close(work: Awaitable[Any]) -> None:
    if isinstance(work, Suspended | Coroutine):
        cast("Suspended[Any]", work).close()


class Turns:
    """Splits long work into turns of a millisecond: `await turns.others()` after each step."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + _TURN_S

    async def others(self) -> None:
        """Let other tasks run if this turn is over."""
        if time.monotonic() > self._until:
            await settle(asyncio.sleep(0))
            self._until = time.monotonic() + _TURN_S


def is_cancelled() -> bool:
    """Return whether the current task is cancelled; if not, work it waited for was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
