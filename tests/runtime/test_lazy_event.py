from __future__ import annotations

import asyncio

import pytest

from resource_server.runtime.lazy_event import LazyEvent
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("event", [asyncio.Event, LazyEvent])
async def test_whoever_waits_is_woken_even_if_it_is_cleared_at_once(
    event: type[asyncio.Event | LazyEvent],
) -> None:
    made = event()
    waiting = [asyncio.create_task(made.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    made.set()
    made.clear()
    late = asyncio.create_task(made.wait())
    assert await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S) == [True, True]
    assert not late.done()
    assert not made.is_set()
    made.set()
    assert await asyncio.wait_for(late, PATIENCE_S)
    assert await made.wait()
    assert made.is_set()
