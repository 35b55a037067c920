from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable

import pytest

from resource_server.errors import MountUnavailable, ProviderFailed
from resource_server.runtime.eager import (
    Suspended,
    TimeLimit,
    in_own_task,
    run,
    settle,
    within,
)
from tests.waiting import PATIENCE_S, pause

pytestmark = pytest.mark.anyio


async def twice(value: int | Awaitable[int]) -> int:
    return 2 * await settle(value)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_an_available_result_is_returned_immediately() -> None:
    assert run(twice(21)) == 42


async def test_a_suspended_coroutine_is_completed_by_awaiting_it() -> None:
    suspended = run(twice(later(21)))
    assert isinstance(suspended, Suspended)
    assert await suspended == 42


async def test_a_coroutine_that_waits_starts_only_inside_a_task() -> None:
    tasks: list[asyncio.Task[None] | None] = []

    async def whose() -> int:
        tasks.append(asyncio.current_task())
        return 1

    suspended = run(twice(whose()))
    assert tasks == []
    assert isinstance(suspended, Suspended)

    async def finish() -> None:
        await suspended

    task = asyncio.create_task(finish())
    await task
    assert tasks == [task]


async def test_timeouts_work_in_a_suspended_coroutine() -> None:
    async def limited() -> int:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return 1

    suspended = run(twice(limited()))
    assert isinstance(suspended, Suspended)
    with pytest.raises(TimeoutError):
        await suspended


async def test_an_immediate_failure_raises_immediately() -> None:
    async def failing() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        run(failing())


async def test_a_later_failure_raises_when_awaited() -> None:
    async def failing() -> int:
        raise LookupError

    suspended = run(twice(failing()))
    assert isinstance(suspended, Suspended)
    with pytest.raises(LookupError):
        await suspended


async def test_running_a_coroutine_leaves_the_current_task_unchanged() -> None:
    async def ready() -> int:
        return 21

    assert run(twice(1)) == 2
    outside = twice(ready())
    with pytest.raises(StopIteration, match="42"):
        outside.send(None)


async def test_a_coroutine_abandoned_before_it_starts_is_closed(
    recwarn: pytest.WarningsRecorder,
) -> None:
    suspended = run(twice(later(21)))
    assert isinstance(suspended, Suspended)
    del suspended
    gc.collect()
    assert recwarn.list == []


async def test_futures_are_awaited_and_survive_abandonment() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    suspended = run(twice(future))
    del suspended
    future.set_result(21)
    again = run(twice(future))
    assert isinstance(again, Suspended)
    assert await again == 42


async def test_a_coroutine_waiting_for_a_future_resumes_when_it_is_done() -> None:
    future = asyncio.get_running_loop().create_future()

    async def waiting() -> int:
        return 2 * await future

    suspended = run(waiting())
    assert isinstance(suspended, Suspended)
    asyncio.get_running_loop().call_soon(future.set_result, 21)
    assert await suspended == 42


async def test_cancelling_the_task_cancels_a_coroutine_waiting_for_a_future() -> None:
    told: list[str] = []

    async def waiting() -> int:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            told.append("cancelled")
            await asyncio.sleep(0)
            told.append("cleaned up")
            raise
        return 1

    suspended = run(waiting())
    assert isinstance(suspended, Suspended)
    task = asyncio.ensure_future(suspended)
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["cancelled", "cleaned up"]


async def test_a_coroutine_waiting_for_a_future_may_suppress_cancellation() -> None:
    async def stubborn() -> int:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return 7
        return 1

    suspended = run(stubborn())
    assert isinstance(suspended, Suspended)
    task = asyncio.ensure_future(suspended)
    asyncio.get_running_loop().call_soon(task.cancel)
    assert await task == 7


# -- time limits


async def begun(work: asyncio.Task[int]) -> None:
    """Let a task come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not work.done()


async def test_an_available_result_needs_no_task_for_its_timeout() -> None:
    before = asyncio.all_tasks()
    assert run(within(60, twice(21))) == 42
    assert asyncio.all_tasks() == before


async def test_results_and_errors_within_the_timeout_are_passed_on() -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        raise LookupError

    assert await within(60, twice(later(21))) == 42
    suspended = run(within(60, twice(later(21))))
    assert isinstance(suspended, Suspended)
    assert await suspended == 42
    with pytest.raises(LookupError):
        await within(60, twice(failing()))


async def test_work_that_exceeds_its_timeout_is_cancelled() -> None:
    ended = asyncio.Event()

    async def hanging() -> int:
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(MountUnavailable, match=r"no answer within 0\.05 s"):
        await within(0.05, twice(hanging()))
    await asyncio.wait_for(ended.wait(), PATIENCE_S)


class Stubborn:
    """Work that does not end when it is cancelled, but when it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.cancelled = self.ended = 0

    async def work(self) -> int:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        self.ended += 1
        return 1


async def test_work_that_ignores_cancellation_is_abandoned() -> None:
    stubborn = Stubborn()
    with pytest.raises(MountUnavailable):
        await within(0.05, twice(stubborn.work()))
    await asyncio.sleep(0)
    assert (stubborn.cancelled, stubborn.ended) == (1, 0)
    stubborn.released.set()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_waiter_waits_for_its_work_to_end(times: int) -> None:
    ended = False

    async def slow_to_end() -> int:
        nonlocal ended
        try:
            return await asyncio.Event().wait()
        finally:
            await pause(0.05)
            ended = True

    work = asyncio.create_task(within(60, twice(slow_to_end())))
    for _ in range(times):
        await begun(work)
        work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert ended


async def test_a_cancelled_waiter_does_not_wait_forever_for_stubborn_work() -> None:
    stubborn = Stubborn()
    work = asyncio.create_task(within(60, twice(stubborn.work()), cancel_s=0.05))
    await begun(work)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(work, PATIENCE_S)
    assert (stubborn.cancelled, stubborn.ended) == (1, 0)
    stubborn.released.set()


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, BaseException]
)
async def test_what_would_end_the_loop_or_its_caller_becomes_a_failure(
    error: type[BaseException],
) -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(ProviderFailed, match=error.__name__) as failed:
        await in_own_task(failing())
    assert isinstance(failed.value.cause, error)


async def test_a_pause_does_not_count() -> None:
    limit = TimeLimit(0.05)

    async def working() -> int:
        limit.pause()
        await pause(0.2)
        limit.resume()
        return 1

    assert await in_own_task(working(), limit) == 1

    async def hanging() -> int:
        limit.pause()
        await pause(0.1)
        limit.resume()
        return await asyncio.Event().wait()

    with pytest.raises(MountUnavailable):
        await asyncio.wait_for(in_own_task(hanging(), limit), PATIENCE_S)
