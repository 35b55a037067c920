"""Runs coroutines at once, and in a task only where they have to wait.

Most answers are there at once: a cached listing, a small file. A task for each would cost more than
the answer. So whoever starts a coroutine calls `run`, which steps it on the spot, and code below
awaits what may have to wait only through `settle`, which moves the rest into a task first: before
that point nothing needs a current task, after it everything (time limits, anyio) works as usual.
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

END_S = 2.0
"""For what is cancelled to end, before nobody waits for it any more."""
_TURN_S = 0.001

_stepping: ContextVar[bool] = ContextVar("stepping", default=False)


async def settle(value: T | Awaitable[T]) -> T:
    """Return `value`, or what it gives when awaited."""
    if not hasattr(value, "__await__"):
        return cast("T", value)
    if _stepping.get():
        try:
            await _move_to_task()
        except BaseException:
            # Given up before the task began: what was never awaited must still be closed.
            if isinstance(value, Coroutine):
                value.close()
            raise
    return await cast("Awaitable[T]", value)


@types.coroutine
def _move_to_task() -> Generator[None, None, None]:
    yield


class Suspended(Generic[T]):
    """A started coroutine that has to wait; await it in a task to finish it."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: object = None) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        """What it waits for already; None where it asked for a task first."""

    def __await__(self) -> Generator[Any, Any, T]:
        # As `yield from` would, had it been there from the beginning.
        awaited = self._awaited
        while awaited is not None:
            try:
                yield awaited
                awaited = None
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # the task was cancelled, say
                try:
                    awaited = self._coroutine.throw(error)
                except StopIteration as done:
                    return cast("T", done.value)
        return (yield from self._coroutine.__await__())

    def close(self) -> None:
        """End the coroutine where it was given up before it was awaited."""
        self._coroutine.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T | Suspended[T]:
    """Step `coroutine`: return its result if that is there at once, else what is left of it.

    Raises:
        Whatever the coroutine raises in this first step.
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


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Step `work`; if it has to wait, wait no longer than so many seconds for its result.

    What takes longer is cancelled and left alone: a thread may keep it, or it may not want to end.

    Raises:
        MountUnavailable: it takes longer.
        Whatever the coroutine raises.
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
        rest.close()  # a task that is cancelled before its first step leaves it open
        if not task.cancelled():
            task.exception()  # of what was left alone nobody asks for it

    task.add_done_callback(ended)
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        # Who cancels what it waits for may count on its end, as if it had been awaited.
        task.cancel()
        await asyncio.wait([task], timeout=END_S)
        raise
    if not task.done():
        task.cancel()
        raise MountUnavailable(f"no answer within {seconds:g} s")
    return task.result()


class Turns:
    """What takes long, in turns of a millisecond: `await turns.others()` after each step of it."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + _TURN_S

    async def others(self) -> None:
        """Let others have their turn, if this one is over."""
        if time.monotonic() > self._until:
            await settle(asyncio.sleep(0))
            self._until = time.monotonic() + _TURN_S


def is_cancelled() -> bool:
    """Say whether the current task was asked to end: else what was cancelled was another's work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
