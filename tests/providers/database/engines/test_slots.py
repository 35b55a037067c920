from __future__ import annotations

import asyncio

import pytest

from resource_server.errors import ResourceBusy
from resource_server.providers.database.engines.slots import Slots

pytestmark = pytest.mark.anyio


async def test_waiters_get_slots_in_order() -> None:
    slots, order = Slots(1), list[int]()

    async def work(number: int) -> None:
        await slots.acquire()
        order.append(number)
        slots.release()

    await slots.acquire()
    waiting = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    slots.release()
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def test_a_full_queue_refuses_more_waiters_until_one_gives_up() -> None:
    slots = Slots(1, max_waiting=1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    with pytest.raises(ResourceBusy):
        await slots.acquire()
    waiting.cancel()
    await asyncio.wait((waiting,))
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.release()
    await waiting
