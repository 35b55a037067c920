from __future__ import annotations

import asyncio

import pytest

from resource_server.runtime import clock
from resource_server.subscriptions.interest import MountInterest

pytestmark = pytest.mark.anyio

A, B = ("a",), ("b", "c")


async def test_the_first_call_returns_all_paths() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.add(B)
    assert await interests.next() == ({A, B}, set())


async def test_later_calls_return_the_paths_added_and_removed_since() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.add(B)
    interests.remove(A)
    assert await interests.next() == ({B}, {A})


async def test_a_call_waits_until_paths_change() -> None:
    interests = MountInterest()
    asked = asyncio.create_task(interests.next())
    await asyncio.sleep(0)
    assert not asked.done()
    interests.add(A)
    assert await asked == ({A}, set())


async def test_a_call_waits_no_longer_than_its_timeout() -> None:
    interests = MountInterest()
    assert await interests.next(within=0.01) == (set(), set())
    interests.add(A)
    assert await interests.next(within=0.01) == ({A}, set())


async def test_a_cancelled_call_loses_no_paths() -> None:
    interests = MountInterest()
    asked = asyncio.create_task(interests.next())
    await asyncio.sleep(0)
    interests.add(A)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert await interests.next() == ({A}, set())


async def test_a_path_added_and_removed_between_calls_is_not_returned() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.remove(A)
    assert await interests.next(within=0.01) == (set(), set())


async def test_a_path_removed_and_added_again_is_returned_as_both() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.remove(A)
    interests.add(A)
    assert await interests.next() == ({A}, {A})


async def test_a_path_removed_twice_between_calls_is_returned_as_removed() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.remove(A)
    interests.add(A)
    interests.remove(A)
    assert await interests.next() == (set(), {A})


async def test_repeated_additions_and_removals_are_not_returned() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.add(A)
    interests.remove(B)
    assert await interests.next(within=0.01) == (set(), set())


async def test_the_paths_are_current() -> None:
    interests = MountInterest()
    paths = interests.paths
    interests.add(A)
    assert paths == {A}
    interests.remove(A)
    assert paths == set()


async def test_a_change_of_interest_in_the_listing_ends_the_wait() -> None:
    interests = MountInterest()
    for wanted in (True, False):
        interests.listing = wanted
        assert await interests.next(within=5) == (set(), set())
        assert interests.listing is wanted
        interests.listing = wanted
        asked = asyncio.create_task(interests.next())
        await asyncio.sleep(0)
        assert not asked.done()
        asked.cancel()


async def test_the_start_of_interest_in_the_listing_is_recorded() -> None:
    interests = MountInterest()
    before = clock.now_ns()
    interests.listing = True
    since = interests.listing_since_ns
    assert before <= since <= clock.now_ns()
    interests.listing = True
    assert interests.listing_since_ns == since


async def test_restarting_returns_all_paths_again() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.add(B)
    await interests.next()
    interests.remove(B)
    interests.restart()
    assert await interests.next() == ({A}, set())
