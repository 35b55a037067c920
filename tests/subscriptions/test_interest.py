from __future__ import annotations

import asyncio

import pytest

from resource_server.runtime import clock
from resource_server.subscriptions.interest import MountInterest

pytestmark = pytest.mark.anyio

A, B = ("a",), ("b", "c")


async def test_the_first_to_ask_is_told_of_all_there_is() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.add(B)
    assert await interests.next() == ({A, B}, set())


async def test_who_asks_again_is_told_of_what_came_and_went_since() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.add(B)
    interests.remove(A)
    assert await interests.next() == ({B}, {A})


async def test_who_asks_waits_until_there_is_something_to_tell() -> None:
    interests = MountInterest()
    asked = asyncio.create_task(interests.next())
    await asyncio.sleep(0)
    assert not asked.done()
    interests.add(A)
    assert await asked == ({A}, set())


async def test_who_asks_waits_no_longer_than_he_wants() -> None:
    interests = MountInterest()
    assert await interests.next(within=0.01) == (set(), set())
    interests.add(A)
    assert await interests.next(within=0.01) == ({A}, set())


async def test_nothing_is_lost_to_who_gives_up_waiting() -> None:
    interests = MountInterest()
    asked = asyncio.create_task(interests.next())
    await asyncio.sleep(0)
    interests.add(A)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert await interests.next() == ({A}, set())


async def test_what_came_and_went_unseen_is_not_told_of() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.remove(A)
    assert await interests.next(within=0.01) == (set(), set())


async def test_what_went_and_came_again_is_told_of_as_both() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.remove(A)
    interests.add(A)
    assert await interests.next() == ({A}, {A})


async def test_what_went_came_and_went_again_has_gone() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.remove(A)
    interests.add(A)
    interests.remove(A)
    assert await interests.next() == (set(), {A})


async def test_what_is_known_already_is_no_news() -> None:
    interests = MountInterest()
    interests.add(A)
    await interests.next()
    interests.add(A)
    interests.remove(B)
    assert await interests.next(within=0.01) == (set(), set())


async def test_the_paths_are_those_of_now() -> None:
    interests = MountInterest()
    paths = interests.paths
    interests.add(A)
    assert paths == {A}
    interests.remove(A)
    assert paths == set()


async def test_whether_the_listing_matters_is_news_when_it_changes() -> None:
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


async def test_since_when_the_listing_matters_is_known() -> None:
    interests = MountInterest()
    before = clock.now_ns()
    interests.listing = True
    since = interests.listing_since_ns
    assert before <= since <= clock.now_ns()
    interests.listing = True
    assert interests.listing_since_ns == since


async def test_who_begins_again_is_told_all_again() -> None:
    interests = MountInterest()
    interests.add(A)
    interests.add(B)
    await interests.next()
    interests.remove(B)
    interests.restart()
    assert await interests.next() == ({A}, set())
