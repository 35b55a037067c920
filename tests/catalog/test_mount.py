from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

import pytest

from resource_server.catalog import mount as mount_module
from resource_server.catalog.mount import Mount, SecondUseCache, log_failure
from resource_server.errors import MountUnavailable, ResourceBusy, ResourceNotFound
from resource_server.provider import Annotations, Path, Provider, Resource
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.providers_for_tests import LevelTree, SlowTree, Tree
from tests.waiting import PATIENCE_S, quiet_for

pytestmark = pytest.mark.anyio


class Lived(Tree):
    """Has a lifetime, and raises what it is told on entering and leaving."""

    def __init__(self, *, entering: list[Exception] | None = None) -> None:
        super().__init__({})
        self.entering = entering or []
        self.leaving: Exception | None = None
        self.entered = 0
        self.left = 0

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        if self.entering:
            raise self.entering.pop(0)
        self.entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self.left += 1
        if self.leaving is not None:
            raise self.leaving


class Clock:
    """Stands in for the monotonic clock of `mount`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    # The delays between retries are a minute long: the mount's clock is moved instead.
    monkeypatch.setattr(mount_module, "time", clock)
    return clock


def mounted(provider: Provider, **options: Any) -> Mount:
    return Mount("docs", "test://docs/", provider, **options)


# -- lifetime


async def test_a_provider_is_entered_once_for_any_number_of_waiters() -> None:
    provider = Lived()
    mount = mounted(provider)
    assert mount.problem is not None
    await asyncio.gather(*(mount.start() for _ in range(5)))
    assert (provider.entered, mount.problem) == (1, None)


async def test_a_provider_is_exited_once_after_it_was_entered() -> None:
    provider = Lived()
    mount = mounted(provider)
    await mount.start()
    await mount.close()
    await mount.close()
    assert (provider.entered, provider.left) == (1, 1)


async def test_a_closed_mount_is_never_entered_again() -> None:
    provider = Lived()
    mount = mounted(provider)
    await mount.close()
    with pytest.raises(ResourceBusy):
        await mount.start()
    assert (provider.entered, mount.problem) == (0, "closed")


async def test_closing_a_mount_while_it_starts_exits_its_provider() -> None:
    provider = Lived()
    mount = mounted(provider)
    starting = asyncio.create_task(mount.start())
    await asyncio.sleep(0)
    await mount.close()
    assert (provider.entered, provider.left, mount.problem) == (1, 1, "closed")
    with pytest.raises(ResourceBusy):
        await starting


async def test_closing_a_mount_ends_while_a_request_hangs_in_its_start() -> None:
    mount = mounted(Stuck(), timing=Timing(mount_close_s=0.01))
    starting = asyncio.create_task(mount.start())
    await asyncio.sleep(0)
    await mount.close()
    assert not starting.done()
    starting.cancel()
    await asyncio.wait((starting,))


async def test_a_provider_needs_no_context_manager() -> None:
    mount = mounted(Tree({}))
    await mount.start()
    assert mount.problem is None
    await mount.close()


async def test_a_provider_that_fails_on_exit_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Lived()
    provider.leaving = OSError("gone")
    mount = mounted(provider)
    await mount.start()
    await mount.close()
    assert "docs" in caplog.text


# -- narrowed mounts


def test_an_ability_without_one_of_its_methods_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Half(Tree):
        restrictions: Mapping[str, frozenset[str]] = {"some": frozenset({"read"})}

        def narrowed(self, scopes: frozenset[str]) -> Provider:
            return Half({})

        def explain(self, path: Path) -> str:
            return ""

    mount = mounted(Half({}))
    assert mount.narrowed(frozenset()) not in (None, mount)
    assert caplog.messages == [
        "mount docs: the provider's ability is not used: explain without hides, warnings"
    ]


async def test_a_narrowed_mount_that_nobody_has_asked_is_as_available_as_its_origin() -> None:
    class Restricted(Lived):
        restrictions: Mapping[str, frozenset[str]] = {"some": frozenset({"read"})}

        def narrowed(self, scopes: frozenset[str]) -> Provider:
            return Lived(entering=[MountUnavailable("gone")])

    mount = mounted(Restricted())
    narrowed = mount.narrowed(frozenset())
    assert narrowed is not None
    assert not narrowed.is_available
    await mount.start()
    assert narrowed.is_available
    with pytest.raises(ResourceBusy):
        await narrowed.start()
    assert not narrowed.is_available


# -- failing to start


async def test_the_reason_a_mount_cannot_start_is_visible_only_to_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mount = mounted(Lived(entering=[MountUnavailable("folder /srv/docs\nis missing")]))
    with pytest.raises(ResourceBusy) as refused:
        await mount.start()
    assert mount.problem == "folder /srv/docs is missing"
    assert "/srv" not in str(refused.value)
    assert [record.getMessage() for record in caplog.records] == [
        "mount docs is unavailable: folder /srv/docs is missing"
    ]


async def test_a_defect_on_start_is_logged_by_its_type() -> None:
    mount = mounted(Lived(entering=[KeyError("x")]))
    with pytest.raises(ResourceBusy):
        await mount.start()
    assert mount.problem == "KeyError"


async def test_a_mount_is_retried_after_growing_delays(clock: Clock) -> None:
    provider = Lived(entering=[MountUnavailable("x") for _ in range(9)])
    mount = mounted(provider)
    with pytest.raises(ResourceBusy):
        await mount.start()
    for delay in (1, 2, 4, 8, 16, 32, 60, 60):
        left = len(provider.entering)
        clock.now += delay - 0.5
        with pytest.raises(ResourceBusy):
            await mount.start()
        assert len(provider.entering) == left
        clock.now += 0.5
        with pytest.raises(ResourceBusy):
            await mount.start()
        assert len(provider.entering) == left - 1


async def test_one_reason_is_logged_once_for_all_attempts(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    mount = mounted(Lived(entering=[MountUnavailable(text) for text in ("x", "x", "y", "x")]))
    for _ in range(4):
        with pytest.raises(ResourceBusy):
            await mount.start()
        clock.now += 60
    assert caplog.messages == [f"mount docs is unavailable: {text}" for text in ("x", "y", "x")]


async def test_a_recovered_mount_serves_and_resets_its_retry_delay(clock: Clock) -> None:
    provider = Lived(entering=[MountUnavailable("x"), MountUnavailable("x")])
    mount = mounted(provider)
    for _ in range(2):
        with pytest.raises(ResourceBusy):
            await mount.start()
        clock.now += 2
    await mount.start()
    assert (mount.problem, provider.entered) == (None, 1)


# -- hanging


class Stuck(Lived):
    """Does not start before it is released; `stubborn`, it does not end when it is cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        super().__init__()
        self.stubborn = stubborn
        self.released = asyncio.Event()
        self.begun = self.cancelled = 0

    async def __aenter__(self) -> Self:
        self.begun += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn:
                    raise
        return await super().__aenter__()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - the provider tells nobody
            await asyncio.sleep(0)


async def test_a_mount_that_hangs_on_exit_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = asyncio.Event()

    class Clinging(Lived):
        async def __aexit__(self, *_: object) -> None:
            while not released.is_set():
                with suppress(asyncio.CancelledError):
                    await released.wait()

    mount = mounted(Clinging(), timing=Timing(mount_close_s=0.05))
    await mount.start()
    await asyncio.wait_for(mount.close(), PATIENCE_S)
    assert caplog.messages == ["mount docs did not close cleanly: no answer within 0.05 s"]
    released.set()


HASTY = Timing(mount_start_s=0.05)


async def test_a_mount_that_hangs_on_start_fails_and_is_retried(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Stuck()
    mount = mounted(provider, timing=HASTY)
    waiting = await asyncio.gather(*(mount.start() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in waiting] == [ResourceBusy] * 3
    assert (provider.begun, provider.cancelled) == (1, 1)
    assert mount.problem == "no answer within 0.05 s"
    assert caplog.messages == ["mount docs is unavailable: no answer within 0.05 s"]
    clock.now += 1
    provider.released.set()
    await mount.start()
    assert (provider.begun, provider.entered, mount.problem) == (2, 1, None)


async def test_a_provider_may_ask_for_more_time_to_start() -> None:
    class Slow(Stuck):
        start_timeout_s = 60.0

    mount = mounted(provider := Slow(), timing=HASTY)
    start = asyncio.create_task(mount.start())
    await quiet_for(HASTY.mount_start_s * 2)
    provider.released.set()
    await start
    assert (provider.begun, provider.entered, mount.problem) == (1, 1, None)


async def test_a_start_that_still_hangs_is_never_entered_concurrently(clock: Clock) -> None:
    provider = Stuck(stubborn=True)
    mount = mounted(provider, timing=HASTY)
    for _ in range(2):
        with pytest.raises(ResourceBusy):
            await asyncio.wait_for(mount.start(), PATIENCE_S)
        assert mount.retry_in_s > 0
        clock.now += 60
    await until(lambda: provider.cancelled == 1)
    assert provider.begun == 1
    assert mount.problem == "the previous attempt to start hangs and has not ended yet"
    # What starts when nobody waits for it any more is left, before it may be entered again.
    provider.released.set()
    await until(lambda: provider.left == 1)
    clock.now += 60
    await mount.start()
    assert (provider.begun, provider.entered, provider.left, mount.problem) == (2, 2, 1, None)


async def test_a_cancelled_request_leaves_the_start_to_the_next_one() -> None:
    provider = Stuck()
    mount = mounted(provider)
    first, second = (asyncio.create_task(mount.start()) for _ in range(2))
    await until(lambda: provider.begun == 1)
    first.cancel()
    await until(lambda: provider.begun == 2)
    provider.released.set()
    await second
    assert (first.cancelled(), provider.entered, mount.problem) == (True, 1, None)


async def test_a_mount_starts_in_the_background_in_one_task() -> None:
    provider = Stuck()
    mount = mounted(provider)
    before = len(asyncio.all_tasks())
    for _ in range(3):
        mount.start_in_background()
    assert len(asyncio.all_tasks()) == before + 1
    await until(lambda: provider.begun == 1)
    provider.released.set()
    await mount.start()
    assert (provider.begun, provider.entered, mount.problem) == (1, 1, None)
    mount.start_in_background()
    await mount.close()
    assert len(asyncio.all_tasks()) == before


async def test_no_start_in_the_background_before_a_retry_is_due(clock: Clock) -> None:
    provider = Lived(entering=[MountUnavailable("down")])
    mount = mounted(provider)
    mount.start_in_background()
    await until(lambda: mount.retry_in_s > 0)
    mount.start_in_background()
    await asyncio.sleep(0)
    assert (provider.entered, mount.problem) == (0, "down")
    clock.now += 60
    await asyncio.sleep(0)
    mount.start_in_background()
    await until(lambda: mount.problem is None)
    assert provider.entered == 1


async def test_closing_waits_for_the_end_of_a_start_in_the_background() -> None:
    provider = Stuck()
    mount = mounted(provider)
    before = len(asyncio.all_tasks())
    mount.start_in_background()
    await until(lambda: provider.begun == 1)
    await mount.close()
    assert (provider.cancelled, provider.entered, mount.problem) == (1, 0, "closed")
    assert len(asyncio.all_tasks()) == before


# -- what a provider can do


async def test_abilities_are_detected_when_the_mount_is_created() -> None:
    plain, by_level = mounted(SlowTree({})), mounted(LevelTree({}))
    assert "levels" not in plain.provider.abilities
    assert "levels" in by_level.provider.abilities
    assert "complete" in plain.provider.abilities
    assert "check" not in plain.provider.abilities


# -- entries


async def test_the_root_entry_has_the_title_and_description_of_the_manifest() -> None:
    given = Resource(path=(), name="x", type="collection", title="t", description="d")
    worded = mounted(Tree({}), title="Title", description="Words").entry(given).resource
    assert (worded.name, worded.title, worded.description) == ("docs", "Title", "Words")
    plain = mounted(Tree({})).entry(given).resource
    assert (plain.name, plain.title, plain.description) == ("docs", "t", "d")


@for_each(
    ("own", "expected"),
    [
        (None, Annotations(("user",), 0.5)),
        (Annotations(), Annotations(("user",), 0.5)),
        (Annotations(("assistant",)), Annotations(("assistant",), 0.5)),
        (Annotations((), 0), Annotations((), 0)),
    ],
)
async def test_annotations_of_the_mount_apply_to_resources_without_their_own(
    own: Annotations | None, expected: Annotations
) -> None:
    mount = mounted(Tree({}), annotations=Annotations(("user",), 0.5))
    entry = mount.entry(Resource(path=("a",), name="a", annotations=own))
    assert entry.resource.annotations == expected


async def test_an_entry_is_reused_while_its_resource_is_unchanged() -> None:
    mount = mounted(Tree({}), annotations=Annotations(priority=1))
    first = Resource(path=("a b",), name="a")
    assert mount.entry(first).uri == "test://docs/a%20b"
    entry = mount.entry(first)
    assert mount.entry(first) is entry
    assert mount.entry(Resource(path=("a b",), name="a", version="2")) is not entry


# -- what is logged


def test_an_expected_failure_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_failure(ResourceNotFound(), "reading failed")
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.INFO, "reading failed: resource not found")
    ]


def test_a_defect_is_logged_with_its_location_and_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise ValueError("secret")

    with caplog.at_level(logging.INFO):
        try:
            broken()
        except ValueError as error:
            log_failure(error, "reading failed")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "ValueError in " in record.getMessage()
    assert "broken" in record.getMessage()
    assert "secret" not in record.getMessage()


# -- the cache of entries


def test_a_value_is_kept_at_the_second_use_of_its_key() -> None:
    cache = SecondUseCache[str, int](8)
    cache.keep("a", 1)
    assert cache.get("a") is None
    cache.keep("a", 2)
    assert cache.get("a") == 2


def test_one_pass_over_many_keys_pushes_nothing_out_and_keeps_nothing() -> None:
    cache = SecondUseCache[int, int](8)
    for key in (-1, -1, *range(10_000)):
        cache.keep(key, 1)
    assert list(cache) == [-1]
    cache.keep(0, 1)
    assert 0 not in cache, "uses are forgotten, too"


def test_the_oldest_value_is_dropped_first() -> None:
    cache = SecondUseCache[int, int](2)
    for key in (1, 1, 2, 2, 3, 3):
        cache.keep(key, key)
    assert list(cache) == [2, 3]
