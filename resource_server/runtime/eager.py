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
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, cast

from resource_server.errors import MountUnavailable

T = TypeVar("T")

CANCEL_S = 2.0
"""Timeout for cancelled work to end; afterwards it is abandoned."""
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
        return cast("T", done.value)
    finally:
        if token is not None:
            _stepping.reset(token)
    return Suspended(coroutine, awaited)


async def within(seconds: float, work: Coroutine[Any, Any, T], *, cancel_s: float = CANCEL_S) -> T:
    """Return the result of `work`, run inline as far as possible, within a timeout.

    Work that takes longer is cancelled and left alone: it may be in a thread, or refuse to end.
    If the caller is cancelled, the work is given `cancel_s` to end.

    Raises:
        MountUnavailable: the timeout is over.
        Exception: whatever the coroutine raises.
    """
    outcome = run(work)
    if not isinstance(outcome, Suspended):
        return outcome
    rest = cast("Suspended[T]", outcome)
    if _stepping.get():
        try:
            await _move_to_task()
        except BaseException:
            rest.close()
            raise
    task = asyncio.ensure_future(rest)

    def ended(_: object) -> None:
        rest.close()  # open if the task was cancelled before its first step
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio logs it

    task.add_done_callback(ended)
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        # Cancelling the caller ends the work, as if the work had been awaited directly.
        task.cancel()
        await asyncio.wait([task], timeout=cancel_s)
        raise
    if not task.done():
        task.cancel()
        raise MountUnavailable(f"no answer within {seconds:g} s")
    return task.result()


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
