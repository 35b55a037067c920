"""Topics by themselves: the comparisons they begin, and the notifications these lead to."""

from __future__ import annotations

import asyncio

import pytest

from resource_server.access import Rights
from resource_server.catalog.mount import Mount
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.snapshot import ABSENT, INDISTINCT, DocumentState, Snapshot
from resource_server.subscriptions.topic import Topic, Topics
from resource_server.subscriptions.watch_runner import WatchRunner
from tests.listeners import Recorder, uri_of
from tests.providers_for_tests import Tree
from tests.waiting import quiet_for

pytestmark = pytest.mark.anyio

TIMING = Timing(
    notify_interval_s=0.05,
    vanish_grace_s=0.05,
    compare_retry_s=60.0,
    compare_retry_max_s=60.0,
)
"""A retry is never due in a test; what waits for the interval or the grace is due soon."""
SOON_S = 20.0
"""Patience for what is due soon, on a loaded machine."""


def snapshot(version: str) -> Snapshot:
    state = DocumentState(version)
    return Snapshot(state, state)


NOTHING = Snapshot(ABSENT, ABSENT)


class Watched:
    """A topic whose comparisons the test ends."""

    def __init__(self, begin: Snapshot, timing: Timing = TIMING) -> None:
        self.begun = 0
        self.recorder = Recorder()
        self._has_begun = asyncio.Event()
        self.topic = Topic(uri_of("a"), begin, self._compare, timing=timing)
        self.topic.add_listener(self.recorder)

    def _compare(self, _: Topic) -> None:
        self.begun += 1
        self._has_begun.set()

    @property
    def told(self) -> list[str]:
        return self.recorder.told

    async def begins(self) -> None:
        """Wait for the next comparison."""
        async with asyncio.timeout(SOON_S):
            await self._has_begun.wait()
        self._has_begun.clear()

    async def compares(self, found: Snapshot) -> None:
        """Wait for the next comparison, and end it."""
        await self.begins()
        self.topic.compared(found)


async def test_a_difference_is_notified_once() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.compares(snapshot("2"))
    assert watched.told == ["a"]
    watched.topic.suspect()
    assert watched.begun == 1  # rests after a notification
    await watched.compares(snapshot("2"))
    assert watched.told == ["a"]


async def test_an_equal_snapshot_is_notified_only_if_the_change_is_certain() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.compares(snapshot("1"))
    assert watched.told == []
    watched.topic.suspect(is_certain=True)
    await watched.compares(snapshot("1"))
    assert watched.told == ["a"]
    watched.topic.mark_changed()
    assert watched.begun == 2
    watched.topic.suspect()
    await watched.compares(snapshot("1"))
    assert watched.told == ["a", "a"]


async def test_one_comparison_at_a_time_and_another_for_all_that_came_meanwhile() -> None:
    watched = Watched(snapshot("1"))
    for _ in range(3):
        watched.topic.suspect()
    assert (watched.begun, watched.topic.is_busy) == (1, True)
    await watched.compares(snapshot("1"))
    assert watched.begun == 2
    await watched.compares(snapshot("1"))
    assert (watched.begun, watched.topic.is_busy) == (2, False)


async def test_a_vanished_resource_is_compared_again_before_that_is_notified() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.compares(NOTHING)
    assert (watched.told, watched.topic.is_busy) == ([], True)
    await watched.compares(NOTHING)
    assert watched.told == ["a"]


async def test_a_resource_that_comes_back_unchanged_has_not_vanished() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.compares(NOTHING)
    await watched.compares(snapshot("1"))
    assert (watched.told, watched.topic.is_busy) == ([], False)


async def test_a_failed_comparison_waits_for_its_retry() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.begins()
    watched.topic.failed()
    await quiet_for(3 * TIMING.notify_interval_s)
    assert (watched.begun, watched.topic.is_busy) == (1, False)


async def test_a_failed_comparison_is_retried() -> None:
    timing = Timing(notify_interval_s=0.0, compare_retry_s=0.01, compare_retry_max_s=0.01)
    watched = Watched(snapshot("1"), timing)
    watched.topic.suspect()
    for _ in range(2):
        await watched.begins()
        watched.topic.failed()
    await watched.compares(snapshot("2"))
    assert watched.told == ["a"]


async def test_a_change_during_a_comparison_that_fails_is_compared_before_the_retry() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.begins()
    watched.topic.suspect()
    watched.topic.failed()
    # After the usual interval: the retry would be a minute away.
    await watched.compares(snapshot("2"))
    assert watched.told == ["a"]


async def test_a_change_after_a_failed_comparison_is_compared_before_the_retry() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.begins()
    watched.topic.failed()
    watched.topic.suspect()
    await watched.compares(snapshot("2"))
    assert watched.told == ["a"]


async def test_a_cancelled_comparison_leaves_the_topic_idle() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.begins()
    watched.topic.cancelled()
    assert not watched.topic.is_busy
    watched.topic.suspect()
    assert watched.begun == 2


async def test_a_closed_topic_compares_no_more() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.suspect()
    await watched.compares(NOTHING)
    watched.topic.close()
    await quiet_for(3 * TIMING.vanish_grace_s)
    assert (watched.begun, watched.told, watched.topic.is_busy) == (1, [], False)


async def test_reads_of_another_state_do_not_add_up_while_others_agree() -> None:
    watched = Watched(snapshot("0"))
    for number in range(1, 30):
        watched.topic.note_read(DocumentState("moment"))
        await watched.compares(snapshot("0"))
        assert watched.told == ["a"] * number
        watched.topic.note_read(DocumentState("0"))


async def test_a_read_of_another_state_is_compared_and_notified() -> None:
    watched = Watched(snapshot("1"))
    watched.topic.note_read(DocumentState("1"))
    assert watched.begun == 0
    watched.topic.note_read(DocumentState("0"))
    await watched.compares(snapshot("1"))
    assert watched.told == ["a"]


def test_a_state_is_missing_or_truncated_where_a_comparison_may_miss_a_change() -> None:
    def topic(begin: Snapshot) -> Topic:
        return Topic(uri_of("a"), begin, lambda _: None)

    assert not topic(snapshot("1")).is_inconclusive
    indistinct = topic(Snapshot(INDISTINCT, INDISTINCT))
    assert (indistinct.has_state, indistinct.is_inconclusive) == (False, True)
    truncated = topic(Snapshot(1, 1, is_truncated=True))
    assert (truncated.has_state, truncated.is_inconclusive) == (True, True)


def test_the_document_of_a_topic_is_its_uri_without_the_query() -> None:
    topic = Topic(uri_of("a") + "?x=1", snapshot("1"), lambda _: None, query={"x": "1"})
    assert topic.document == uri_of("a")


async def test_topics_are_found_by_uri_and_rights_and_by_path() -> None:
    mount = Mount("one", "test://one/", Tree({"a": "1"}))
    runner = WatchRunner(mount, lambda _: None, TIMING)
    topics = Topics()
    everybody, some = (
        Topic(uri_of("a"), snapshot("1"), lambda _: None, rights=rights)
        for rights in (Rights(), Rights(frozenset({"x"})))
    )
    topics.add(everybody)
    topics.add(some)
    assert topics.get(uri_of("a"), Rights()) is everybody
    assert topics.get(uri_of("a"), Rights(frozenset({"x"}))) is some
    assert topics.attach(everybody, runner, ("a",))
    assert not topics.attach(some, runner, ("a",))
    assert topics.at(mount, ("a",)) == topics.in_mount(mount) == [everybody, some]
    assert runner.interest.paths == {("a",)}
    topics.remove(everybody)
    assert (topics.at(mount, ("a",)), topics.all()) == ([some], [some])
    topics.remove(some)
    assert not topics.has_any(mount)
    assert not runner.interest.paths
