from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable

import pytest

from resource_server.eager import Suspended, run, settle

pytestmark = pytest.mark.anyio


async def twice(value: int | Awaitable[int]) -> int:
    return 2 * await settle(value)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_what_is_there_at_once_is_returned_at_once() -> None:
    assert run(twice(21)) == 42


async def test_what_has_to_wait_is_finished_by_awaiting_it() -> None:
    suspended = run(twice(later(21)))
    assert isinstance(suspended, Suspended)
    assert await suspended == 42


async def test_nothing_that_has_to_wait_begins_outside_a_task() -> None:
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


async def test_time_limits_work_in_what_has_to_wait() -> None:
    async def limited() -> int:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return 1

    suspended = run(twice(limited()))
    assert isinstance(suspended, Suspended)
    with pytest.raises(TimeoutError):
        await suspended


async def test_what_fails_at_once_raises_at_once() -> None:
    async def failing() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        run(failing())


async def test_what_fails_later_raises_when_awaited() -> None:
    async def failing() -> int:
        raise LookupError

    suspended = run(twice(failing()))
    assert isinstance(suspended, Suspended)
    with pytest.raises(LookupError):
        await suspended


async def test_a_run_inside_a_task_leaves_that_task_as_it_was() -> None:
    async def ready() -> int:
        return 21

    assert run(twice(1)) == 2
    outside = twice(ready())
    with pytest.raises(StopIteration, match="42"):
        outside.send(None)


async def test_what_is_given_up_before_it_has_begun_is_closed(
    recwarn: pytest.WarningsRecorder,
) -> None:
    suspended = run(twice(later(21)))
    assert isinstance(suspended, Suspended)
    del suspended
    gc.collect()
    assert recwarn.list == []


async def test_futures_are_awaited_and_survive_being_given_up() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    suspended = run(twice(future))
    del suspended
    future.set_result(21)
    again = run(twice(future))
    assert isinstance(again, Suspended)
    assert await again == 42


async def test_what_waits_for_a_future_already_goes_on_when_that_is_done() -> None:
    future = asyncio.get_running_loop().create_future()

    async def waiting() -> int:
        return 2 * await future

    suspended = run(waiting())
    assert isinstance(suspended, Suspended)
    asyncio.get_running_loop().call_soon(future.set_result, 21)
    assert await suspended == 42


async def test_a_task_that_is_cancelled_tells_what_waits_for_a_future_already() -> None:
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


async def test_who_waits_for_a_future_already_may_survive_being_cancelled() -> None:
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
