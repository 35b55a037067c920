from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable

import pytest

from resource_server.errors import MountUnavailable
from resource_server.runtime.eager import Suspended, run, settle, within

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


# -- time limits


async def begun(work: asyncio.Task[int]) -> None:
    """Let a task come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not work.done()


async def test_what_is_there_at_once_needs_no_task_to_be_within_a_time() -> None:
    before = asyncio.all_tasks()
    assert run(within(60, twice(21))) == 42
    assert asyncio.all_tasks() == before


async def test_what_comes_within_its_time_is_returned_and_what_fails_raises() -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        raise LookupError

    assert await within(60, twice(later(21))) == 42
    suspended = run(within(60, twice(later(21))))
    assert isinstance(suspended, Suspended)
    assert await suspended == 42
    with pytest.raises(LookupError):
        await within(60, twice(failing()))


async def test_what_takes_longer_than_its_time_is_cancelled() -> None:
    ended = asyncio.Event()

    async def hanging() -> int:
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(MountUnavailable, match=r"no answer within 0\.05 s"):
        await within(0.05, twice(hanging()))
    await asyncio.wait_for(ended.wait(), 5)


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


async def test_what_does_not_end_even_when_it_is_cancelled_is_left_alone() -> None:
    stubborn = Stubborn()
    with pytest.raises(MountUnavailable):
        await within(0.05, twice(stubborn.work()))
    await asyncio.sleep(0)
    assert (stubborn.cancelled, stubborn.ended) == (1, 0)
    stubborn.released.set()


async def test_who_is_cancelled_waits_until_what_it_waited_for_has_ended() -> None:
    ended = False

    async def slow_to_end() -> int:
        nonlocal ended
        try:
            return await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            ended = True

    work = asyncio.create_task(within(60, twice(slow_to_end())))
    await begun(work)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert ended


async def test_who_is_cancelled_does_not_wait_for_ever_for_what_does_not_end() -> None:
    stubborn = Stubborn()
    work = asyncio.create_task(within(60, twice(stubborn.work()), cancel_s=0.05))
    await begun(work)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(work, 20)
    assert (stubborn.cancelled, stubborn.ended) == (1, 0)
    stubborn.released.set()
