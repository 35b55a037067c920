"""The watch over one mount, whatever its provider does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest
from msgspec.structs import replace

from resource_server.errors import MountUnavailable
from resource_server.provider import Change, Interest, Path
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.watch_runner import EVERYTHING, WatchRunner
from tests.listeners import mounted
from tests.providers_for_tests import Tree
from tests.waiting import PATIENCE_S, quiet_for, until

pytestmark = pytest.mark.anyio

A = Change(("a",))


class Watched(Tree):
    """Its changes are what the test gives: one watch after the other, the last for ever."""

    def __init__(self, *watches: Callable[[Interest], Any]) -> None:
        super().__init__({"a": "text"})
        self.left = list(watches)
        self.begun = 0
        self.ended = 0

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.begun += 1
        return self.left.pop(0)(interest) if len(self.left) > 1 else self.left[0](interest)


class Lived(Watched):
    """The same, but it cannot start before it has been tried so often."""

    def __init__(self, failures: int) -> None:
        super().__init__(silent)
        self.failures = failures

    async def __aenter__(self) -> Self:
        if self.failures:
            self.failures -= 1
            raise MountUnavailable("not yet")
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Taker:
    """Takes in changes."""

    def __init__(self) -> None:
        self.taken: list[Change] = []
        self._news = asyncio.Event()

    def __call__(self, change: Change) -> None:
        if not isinstance(change.path, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("no path")
        self.taken.append(change)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


async def silent(interest: Interest) -> AsyncIterator[Change]:
    await asyncio.Event().wait()
    yield A


async def one(interest: Interest) -> AsyncIterator[Change]:
    yield A
    await asyncio.Event().wait()


async def ending(interest: Interest) -> AsyncIterator[Change]:
    yield A


async def never(interest: Interest) -> AsyncIterator[Change]:
    for change in ():
        yield change


async def raising(interest: Interest) -> AsyncIterator[Change]:
    yield A
    raise RuntimeError("secret-password")


async def leaving(interest: Interest) -> AsyncIterator[Change]:
    raise SystemExit
    yield A


async def quitting(interest: Interest) -> AsyncIterator[Change]:
    raise asyncio.CancelledError
    yield A


def refusing(interest: Interest) -> AsyncIterator[Change]:
    raise OSError("secret-password")


def yielding(*what: object) -> Callable[[Interest], Any]:
    async def changes(interest: Interest) -> AsyncIterator[Any]:
        for each in what:
            yield each
        await asyncio.Event().wait()

    return changes


HASTY = Timing(mount_retry_s=0.01, watch_retry_s=0.01)


@asynccontextmanager
async def watched(
    provider: Watched, timing: Timing = HASTY
) -> AsyncGenerator[tuple[WatchRunner, Taker]]:
    taker = Taker()
    watching = WatchRunner(mounted(provider, timing=timing), taker, timing)
    watching.start()
    try:
        yield watching, taker
    finally:
        await watching.close()


# -- what is taken in


async def test_exactly_the_changes_a_provider_yields_are_taken() -> None:
    async with watched(Watched(yielding(A, Change((), "children")))) as (_, taker):
        await taker.until(lambda: len(taker.taken) >= 2)
        await quiet_for(0.02)
        assert taker.taken == [A, Change((), "children")]


async def test_a_watch_that_is_started_twice_runs_once() -> None:
    provider = Watched(one)
    async with watched(provider) as (watching, taker):
        watching.start()
        await taker.until(lambda: bool(taker.taken))
        assert provider.begun == 1


async def test_a_provider_without_watching_has_no_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taker = Taker()
    watching = WatchRunner(mounted(Tree({})), taker)
    watching.start()
    await quiet_for(0.02)
    await watching.close()
    assert (taker.taken, caplog.text) == ([], "")


async def test_a_provider_that_never_waits_does_not_block_others() -> None:
    async def endless(interest: Interest) -> AsyncIterator[Change]:
        for _ in range(500_000):
            yield A
        await asyncio.Event().wait()

    async with watched(Watched(endless)) as (_, taker):
        await taker.until(lambda: len(taker.taken) > 5000)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(taker.taken) < 500_000


async def test_any_asynchronous_iterator_is_accepted() -> None:
    class Iterator:
        def __init__(self, interest: Interest) -> None:
            self._left = [A]

        def __aiter__(self) -> Self:
            return self

        async def __anext__(self) -> Change:
            if not self._left:
                await asyncio.Event().wait()
            return self._left.pop()

    async with watched(Watched(Iterator)) as (_, taker):
        await taker.until(lambda: taker.taken == [A])


# -- watches that fail


FAULTS: dict[str, Callable[[Interest], Any]] = {
    "it ends": ending,
    "it ends before it begins": never,
    "it raises": raising,
    "it leaves": leaving,
    "it cancels its own work": quitting,
    "it cannot be called": refusing,
    "it returns nothing": lambda interest: None,
    "it returns a list": lambda interest: [A],
    "it yields nothing": yielding(None),
    "it yields a number": yielding(7),
    "it yields a path": yielding(("a",)),
    "it yields a text as a path": yielding(Change("a")),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_watch_restarts_and_everything_may_have_changed(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Watched(FAULTS[fault], silent)
    async with watched(provider) as (_, taker):
        await taker.until(lambda: EVERYTHING in taker.taken)
        await asyncio.sleep(0)
        assert provider.begun == 2
    assert taker.taken.count(EVERYTHING) == 1
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "mount one" in warnings[0]
    assert "secret-password" not in warnings[0]


async def test_a_restarted_watch_receives_all_interests() -> None:
    learnt: list[set[Path]] = []

    async def learning(interest: Interest) -> AsyncIterator[Change]:
        came, _ = await interest.next()
        learnt.append({*came})
        yield A

    async with watched(Watched(learning, learning, silent)) as (watching, taker):
        watching.interest.add(("a",))
        watching.interest.add(("b",))
        await taker.until(lambda: taker.taken.count(EVERYTHING) == 2)
    assert learnt == [{("a",), ("b",)}] * 2


async def test_a_watch_that_keeps_failing_restarts_with_growing_delays() -> None:
    provider = Watched(never)
    async with watched(provider, replace(HASTY, watch_retry_max_s=0.1)) as (_, taker):
        loop = asyncio.get_running_loop()
        moments: list[float] = []
        for count in range(1, 7):
            await taker.until(lambda count=count: len(taker.taken) >= count)
            moments.append(loop.time())
        pauses = [late - early for early, late in itertools.pairwise(moments)]
        assert 2 * min(pauses[:2]) < max(pauses[3:])


# -- mounts that cannot start


async def test_a_mount_that_starts_late_counts_as_completely_changed() -> None:
    provider = Lived(failures=2)
    async with watched(provider) as (watching, taker):
        await taker.until(lambda: taker.taken == [EVERYTHING])
        await asyncio.sleep(0)
        assert (watching.mount.problem, provider.begun) == (None, 1)


async def test_a_mount_that_starts_immediately_has_not_changed() -> None:
    async with watched(Lived(failures=0)) as (_, taker):
        await quiet_for(0.02)
        assert taker.taken == []


# -- the end


async def test_closing_ends_the_running_watch() -> None:
    ended: list[str] = []

    async def closing(interest: Interest) -> AsyncIterator[Change]:
        try:
            yield A
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("closed")

    tasks = asyncio.all_tasks()
    async with watched(Watched(closing)) as (_, taker):
        await taker.until(lambda: bool(taker.taken))
    assert ended == ["closed"]
    assert asyncio.all_tasks() == tasks


async def test_a_watch_that_fails_on_closing_is_harmless() -> None:
    async def failing(interest: Interest) -> AsyncIterator[Change]:
        try:
            yield A
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("broken")

    async with watched(Watched(failing)) as (_, taker):
        await taker.until(lambda: bool(taker.taken))


async def test_a_watch_that_returns_on_cancellation_is_not_restarted() -> None:
    async def swallowing(interest: Interest) -> AsyncIterator[Change]:
        yield A
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    provider = Watched(swallowing)
    tasks = asyncio.all_tasks()
    async with watched(provider) as (_, taker):
        await taker.until(lambda: bool(taker.taken))
    assert asyncio.all_tasks() == tasks
    assert provider.begun == 1


async def test_a_watch_that_does_not_end_is_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go, tasks = asyncio.Event(), asyncio.all_tasks()

    async def clinging(interest: Interest) -> AsyncIterator[Change]:
        yield A
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async with watched(Watched(clinging), replace(HASTY, watch_close_s=0.02)) as (_, taker):
        await taker.until(lambda: bool(taker.taken))
    assert [record.getMessage() for record in caplog.records] == [
        "mount one does not end its watch"
    ]
    let_go.set()
    await until(lambda: asyncio.all_tasks() == tasks)


async def test_a_watch_may_end_before_it_starts() -> None:
    watching = WatchRunner(mounted(Watched(one)), Taker())
    await watching.close()
    watching.start()
    await watching.close()
    await watching.close()
