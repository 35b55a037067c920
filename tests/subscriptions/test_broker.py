"""What listeners are told of what a provider says."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.access import EVERYTHING, Caller, acting
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.provider import Change, Content, Interest, Path, Resource, Template
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.subscriptions import snapshot
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.snapshot import ABSENT, DocumentState
from tests.cases import for_each
from tests.listeners import LIST, Recorder, mounted, uri_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

_INTERVAL_S = 20.0
"""Less than between two sweeps."""
_LONG_S = 60.0


class Shelf:
    """Documents that a test gives versions to, and changes that a test says there were."""

    templates: Sequence[Template] = ()

    def __init__(self, **documents: str | None) -> None:
        self.documents: dict[Path, Resource] = {}
        self.unlisted: set[Path] = set()
        self.failing: Exception | None = None
        """What is raised instead of telling anything."""
        self.looks: list[Path] = []
        """What was asked for."""
        self.interest: Interest | None = None
        self.watchers = 0
        self._queue = asyncio.Queue[Change]()
        for name, version in documents.items():
            self.put(name, version)

    # -- what a test does

    def put(self, name: str, version: str | None, *, size: int | None = None) -> None:
        """Put a document in its place; nothing is said of it."""
        path = path_of(name)
        self.documents[path] = Resource(path=path, name=path[-1], version=version, size=size)

    def take(self, name: str) -> None:
        """Take a document, or all in a collection, away; nothing is said of it."""
        path = path_of(name)
        for each in list(self.documents):
            if each[: len(path)] == path:
                del self.documents[each]

    def say(self, *names: str, kind: Any = "resource", certain: bool = False) -> None:
        """Say that something may have changed."""
        for name in names:
            self._queue.put_nowait(Change(path_of(name), kind, certain))

    # -- the provider

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if self.metadata(parent).type == "document":
            raise NotACollection
        depth = len(parent) + 1
        paths = {path[:depth] for path in self.documents if path[: depth - 1] == parent}
        names = sorted(path for path in paths if after is None or path > after)
        return [self._resource(path) for path in names[:limit]]

    def metadata(self, path: Path) -> Resource:
        self.looks.append(path)
        if self.failing is not None:
            raise self.failing
        return self._resource(path)

    def _resource(self, path: Path) -> Resource:
        known = self.documents.get(path)
        if known is not None:
            return known
        if path and not any(each[: len(path)] == path for each in self.documents):
            raise ResourceNotFound
        return Resource(
            path=path,
            name=path[-1] if path else "shelf",
            type="collection",
            listed=path not in self.unlisted,
        )

    def read(self, path: Path, query: object) -> Sequence[Content]:
        return [Content("")]

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.interest = interest
        following = asyncio.create_task(self._follow(interest))
        self.watchers += 1
        try:
            while True:
                yield await self._queue.get()
        finally:
            self.watchers -= 1
            following.cancel()

    async def _follow(self, interest: Interest) -> None:
        while True:
            came, _ = await interest.next()
            for path in came:
                self._queue.put_nowait(Change(path))


class SlowShelf:
    """The same, but what was found has to be waited for until a test lets it go."""

    templates: Sequence[Template] = ()

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        self.most_waiting = 0

    async def metadata(self, path: Path) -> Resource:
        found = self.shelf.metadata(path)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await asyncio.sleep(0)
            await self.open.wait()
        finally:
            self.waiting -= 1
        return found

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        found = self.shelf.list(parent, after=after, limit=limit)
        await self.open.wait()
        return found

    def read(self, path: Path, query: object) -> Sequence[Content]:
        return [Content("")]

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        return self.shelf.changes(interest)


class Quitter(SlowShelf):
    """The same, but while `quits` one of its methods waits for work that somebody has cancelled."""

    def __init__(self, shelf: Shelf, method: str) -> None:
        super().__init__(shelf)
        self.method = method
        self.quits = False

    async def metadata(self, path: Path) -> Resource:
        await self._work("metadata")
        return await super().metadata(path)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        await self._work("list")
        return await super().list(parent, after=after, limit=limit)

    async def _work(self, method: str) -> None:
        work = asyncio.ensure_future(asyncio.sleep(0))
        if self.quits and method == self.method:
            work.cancel()
        await work


class Results(SlowShelf):
    """Documents without a version; what is read of one depends on the query."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.results: dict[str, str] = {}

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        resource = await self.metadata(path)
        if resource.type == "collection":
            return resource, ()
        if query["n"] not in self.results:
            raise InvalidParameter("no such n")
        return resource, [Content(self.results[query["n"]])]


def path_of(name: str) -> Path:
    return tuple(name.split("/")) if name else ()


@asynccontextmanager
async def served(*mounts: Mount, timing: Timing, **options: Any) -> AsyncGenerator[Broker]:
    """Serve mounts and close them at the end."""
    live = Broker(Catalog(mounts), timing, **options)
    try:
        yield live
    finally:
        await live.close()


async def subscribed(live: Broker, *names: str) -> Recorder:
    """Return a listener that is subscribed to these paths of the mount `one`, and is armed."""
    recorder = Recorder()
    for name in names:
        await live.subscribe(uri_of(name), recorder)
    await calm()
    return recorder


async def calm() -> None:
    """Let everything be done that needs no time; under load that takes more turns."""
    for _ in range(200):
        await asyncio.sleep(0)


class Clock:
    """The time of the running loop: so much more of it passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + self._ahead)

    async def passes(self, seconds: float) -> None:
        self._ahead += seconds
        await calm()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


INTERVAL = Timing(notify_interval_s=_INTERVAL_S, list_notify_interval_s=_INTERVAL_S)
"""Longer than anything takes, whatever else the machine does."""
NO_INTERVAL = Timing(notify_interval_s=0.0, list_notify_interval_s=0.0, vanish_grace_s=0.0)


# -- updates: when they are told


@pytest.mark.guarantee("updates-arrive")
async def test_the_first_change_notifies_immediately() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=Timing(notify_interval_s=_LONG_S)) as live:
        recorder = await subscribed(live, "a")
        shelf.put("a", "2")
        shelf.say("a")
        await calm()
        assert recorder.told == ["a"]


async def test_further_changes_are_merged_after_an_interval(clock: Clock) -> None:
    shelf = Shelf(a="0")
    async with served(mounted(shelf), timing=INTERVAL) as live:
        recorder = await subscribed(live, "a")
        for version in range(1, 50):
            shelf.put("a", str(version))
            shelf.say("a")
            await asyncio.sleep(0)
        await calm()
        assert recorder.take() == ["a"]
        await clock.passes(_INTERVAL_S)
        assert recorder.take() == ["a"]
        await clock.passes(_INTERVAL_S)
        assert recorder.take() == []


@pytest.mark.guarantee("updates-arrive")
async def test_the_last_notification_follows_the_last_change(clock: Clock) -> None:
    shelf = Shelf(a="0")
    read: list[str | None] = []

    class Reader(Recorder):
        def updated(self, uri: str) -> None:
            super().updated(uri)
            read.append(shelf.documents[("a",)].version)

    async with served(mounted(shelf), timing=INTERVAL) as live:
        reader = Reader()
        await live.subscribe(uri_of("a"), reader)
        for version in range(1, 30):
            shelf.put("a", str(version))
            shelf.say("a")
            await clock.passes(_INTERVAL_S / 7)
        await clock.passes(_INTERVAL_S)
        assert read[-1] == "29"
        assert 2 <= len(read) <= 6


async def test_a_state_already_notified_is_not_notified_again(clock: Clock) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=INTERVAL) as live:
        recorder = await subscribed(live, "a")
        for version in ("2", "3", "2"):
            shelf.put("a", version)
            shelf.say("a")
            await calm()
        await clock.passes(_INTERVAL_S)
        assert recorder.told == ["a"]


async def test_an_unchanged_resource_is_not_notified_despite_reported_changes() -> None:
    shelf = Shelf(a="1", b="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "")
        shelf.say("a", "b", "", "c")
        shelf.say("", kind="children")
        shelf.say("", kind="tree")
        await calm()
        assert recorder.told == []


async def test_a_change_notifies_only_its_subscribers() -> None:
    shelf = Shelf(a="1", b="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        one, other, both = [await subscribed(live, *names) for names in ("a", "b", ("a", "b"))]
        shelf.put("a", "2")
        shelf.say("a")
        await calm()
        assert (one.told, other.told, both.told) == (["a"], [], ["a"])


async def test_a_tree_change_checks_all_topics_below() -> None:
    shelf = Shelf(a="1", **{"b/c/d": "1", "b/e": "1", "bb": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "b/c/d", "b/e", "b", "bb")
        for name in ("a", "b/c/d", "b/e", "bb"):
            shelf.put(name, "2")
        shelf.say("b", kind="tree")
        await calm()
        assert sorted(recorder.told) == ["b", "b/c/d", "b/e"]


async def test_the_sweep_finds_unreported_changes() -> None:
    shelf = Shelf(a="1", b="1")
    timing = replace(NO_INTERVAL, sweep_s=0.02)
    unwatched = mounted(Shelf(a="1"), "two", watch=False)
    async with served(mounted(shelf), unwatched, timing=timing) as live:
        recorder = await subscribed(live, "a", "b")
        for version in ("2", "3"):
            shelf.put("a", version)
            await recorder.of("a")
            assert recorder.take() == ["a"]


# -- updates: what a comparison cannot tell


async def test_a_certain_change_notifies_although_the_version_is_the_same() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "")
        shelf.say("a", certain=True)
        await calm()
        assert sorted(recorder.told) == ["", "a"]


async def test_a_certain_change_within_the_interval_notifies_after_it(clock: Clock) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=INTERVAL) as live:
        recorder = await subscribed(live, "a")
        for _ in range(3):
            shelf.say("a", certain=True)
            await calm()
        assert recorder.take() == ["a"]
        await clock.passes(_INTERVAL_S)
        assert recorder.take() == ["a"]


async def test_a_certain_change_of_a_missing_resource_is_not_notified() -> None:
    shelf = Shelf(a="1", b="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "")
        shelf.say("hidden", certain=True)
        shelf.take("a")
        shelf.say("a")
        await recorder.of("a", "")
        recorder.take()
        shelf.say("a", certain=True)
        await calm()
        assert await recorder.quiet() == []


async def test_without_a_version_size_and_time_reveal_a_change() -> None:
    shelf = Shelf()
    shelf.put("a", None, size=1)
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        shelf.say("a")
        await calm()
        assert recorder.told == []
        shelf.put("a", None, size=2)
        shelf.say("a")
        await calm()
        assert recorder.told == ["a"]


@for_each(("name", "kind"), [("a", "resource"), ("", "tree")])
async def test_every_reported_change_of_an_unversioned_resource_notifies(
    name: str, kind: str
) -> None:
    shelf = Shelf(a=None, b="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        recorder.take()
        for _ in range(3):
            shelf.say("b")
            shelf.say(name, kind=kind)
            await recorder.of("a")  # a search that was interrupted rests before the next
            await calm()
            assert recorder.take() == ["a"]


async def test_without_a_version_each_query_result_is_compared_separately() -> None:
    shelf = Shelf(a=None)
    results = Results(shelf)
    results.results = {"1": "x", "2": "x"}
    async with served(mounted(results), timing=NO_INTERVAL) as live:
        one, two = Recorder(), Recorder()
        first = await live.subscribe(uri_of("a") + "?n=1&format=b", one)
        assert await live.subscribe(uri_of("a") + "?format=b&%6E=1", one) is first
        await live.subscribe(uri_of("a") + "?n=2", two)
        await calm()
        for kind in ("resource", "tree"):
            shelf.say("a" if kind == "resource" else "", kind=kind)
            await calm()
        assert (one.take(), two.take()) == ([], [])
        results.results["2"] = "y"
        shelf.say("a")
        await calm()
        assert (one.take(), two.take()) == ([], ["a"])
        del results.results["1"]
        for _ in range(3):
            shelf.say("a")
            await one.of("a")
        assert (one.take(), two.take()) == (["a"], [])
        with pytest.raises(InvalidParameter):
            await live.subscribe(uri_of("a") + "?n=1", one)
        with pytest.raises(InvalidParameter):
            await live.subscribe(uri_of("") + "?n=2", one)
        live.unsubscribe(first.uri, one)
        assert shelf.interest is not None
        assert shelf.interest.paths == {("a",)}


async def test_concurrent_reads_of_one_document_are_limited() -> None:
    shelf = Shelf(a=None)
    results = Results(shelf)
    results.results = {str(number): "x" for number in range(100)}
    async with served(mounted(results), timing=NO_INTERVAL, max_comparisons=10) as live:
        recorder = Recorder()
        for number in results.results:
            await live.subscribe(f"{uri_of('a')}?n={number}", recorder)
        await calm()
        results.results = dict.fromkeys(results.results, "y")
        results.most_waiting = 0
        results.open.clear()
        for _ in range(3):
            shelf.say("a")
            await calm()
        assert 0 < results.most_waiting <= 10
        results.open.set()
        await recorder.until(lambda: len(recorder.told) >= len(results.results))
        assert recorder.told == ["a"] * len(results.results)


# -- updates: collections


async def test_a_collection_changes_with_its_children_but_not_with_grandchildren() -> None:
    shelf = Shelf(a="1", **{"b/c": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "")
        shelf.put("b/c", "2")
        shelf.put("b/d", "1")
        shelf.say("b/c", "b", "")
        shelf.say("b", kind="children")
        await calm()
        assert recorder.take() == []
        shelf.put("a", "2")
        shelf.say("a")
        await calm()
        assert recorder.take() == [""]
        shelf.take("b")
        shelf.say("", kind="children")
        await calm()
        assert recorder.take() == [""]
        shelf.put("b", "now a document")
        shelf.say("", kind="children")
        await calm()
        assert recorder.take() == [""]


@pytest.fixture
async def crowd(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """One with more children than are compared."""
    # A limit of the module: a thousand children would take long.
    monkeypatch.setattr(snapshot, "MAX_CHILDREN", 10)
    return Shelf(**{f"d/{number:02}": "1" for number in range(20)})


async def test_with_too_many_children_every_change_of_one_notifies(crowd: Shelf) -> None:
    async with served(mounted(crowd), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "d")
        crowd.put("d/19", "2")
        crowd.say("d/19")
        await calm()
        assert recorder.take() == ["d"]
        crowd.take("d/19")
        crowd.say("d", kind="children")
        await calm()
        assert recorder.take() == ["d"]
        crowd.put("d/18", "2")
        crowd.say("", kind="tree")
        await calm()
        assert recorder.take() == ["d"]
        crowd.put("d/17", "2")
        crowd.say("d", kind="tree")
        await calm()
        assert recorder.take() == ["d"]


async def test_with_too_many_children_a_hidden_child_never_notifies(crowd: Shelf) -> None:
    async with served(mounted(crowd), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "d")
        crowd.say("d/hidden", certain=True)
        crowd.say("d/hidden")
        crowd.say("d")
        await calm()
        assert recorder.told == []


async def test_frequent_reports_check_a_collection_only_rarely(clock: Clock) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=INTERVAL) as live:
        await subscribed(live, "")
        shelf.looks.clear()
        for _ in range(200):
            shelf.say("hidden")
            await asyncio.sleep(0)
        await calm()
        await clock.passes(_INTERVAL_S)
        assert 0 < len(shelf.looks) <= 8  # a look asks twice


# -- updates: what is gone


async def test_a_brief_absence_without_a_change_is_not_notified(
    clock: Clock,
) -> None:
    shelf = Shelf(a="1", b="1")
    async with served(mounted(shelf), timing=Timing(vanish_grace_s=_INTERVAL_S)) as live:
        recorder = await subscribed(live, "a")
        shelf.take("a")
        shelf.say("a")
        await calm()
        shelf.put("a", "1")
        shelf.say("a")
        await clock.passes(_INTERVAL_S)
        assert recorder.told == []


async def test_a_brief_absence_with_a_change_is_notified_once(clock: Clock) -> None:
    shelf = Shelf(a="1", b="1")
    async with served(mounted(shelf), timing=Timing(vanish_grace_s=_INTERVAL_S)) as live:
        recorder = await subscribed(live, "a")
        shelf.take("a")
        shelf.say("a", "a", "a")
        await calm()
        assert recorder.told == []
        shelf.put("a", "2")
        shelf.say("a")
        await clock.passes(_INTERVAL_S)
        assert recorder.told == ["a"]


async def test_deletion_is_notified_once_and_so_is_restoration() -> None:
    shelf = Shelf(a="1", **{"d/b": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "d", "d/b")
        for name in ("a", "d"):
            shelf.take(name)
        shelf.say("", kind="tree")
        await recorder.of("a", "d", "d/b")
        assert sorted(await recorder.quiet()) == ["a", "d", "d/b"]
        shelf.say("", kind="tree")
        assert await recorder.quiet() == []
        for name in ("a", "d/b"):
            shelf.put(name, "1")
        shelf.say("", kind="tree")
        await recorder.of("a", "d", "d/b")
        assert sorted(await recorder.quiet()) == ["a", "d", "d/b"]


# -- the list


async def test_a_changed_list_notifies_immediately_and_then_merged_per_interval(
    clock: Clock,
) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        shelf.say("", kind="children")
        await recorder.of(LIST)
        for _ in range(20):
            shelf.say("", kind="children")
            await calm()
        assert recorder.take() == [LIST]
        await clock.passes(_INTERVAL_S)
        assert recorder.take() == [LIST]
        await clock.passes(_INTERVAL_S)
        assert recorder.take() == []


@pytest.mark.guarantee("updates-arrive")
async def test_the_list_changes_with_children_and_trees_but_not_with_content() -> None:
    shelf = Shelf(a="1", **{"b/c": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        shelf.put("a", "2")
        shelf.say("a", "", "b", "b/c", certain=True)
        await calm()
        assert recorder.take() == []
        for kind in ("children", "tree"):
            shelf.say("b", kind=kind)
            await calm()
            assert recorder.take() == [LIST]


async def test_unlisted_and_missing_resources_do_not_change_the_list() -> None:
    shelf = Shelf(**{"a/b/c": "1", "d": "1"})
    shelf.unlisted.add(("a",))
    unlisted = Shelf(a="1")
    mounts = mounted(shelf), mounted(unlisted, "two", listed=False)
    async with served(*mounts, timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await live.subscribe("test://two/a", Recorder())
        await calm()
        shelf.say("a", "a/b", "hidden", "hidden/x", kind="tree")
        unlisted.say("", kind="tree")
        await calm()
        assert recorder.told == []


async def test_the_list_changes_when_a_mount_becomes_unreadable() -> None:
    shelf = Shelf(**{"a/b": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        for failing in (ResourceNotFound(), ResourceBusy(), RuntimeError("broken")):
            shelf.failing = failing
            shelf.say("", kind="children")
            await calm()
            assert recorder.take() == [LIST]


async def test_a_changed_list_is_notified_despite_a_failed_check() -> None:
    shelf = Shelf(**{"a/b": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        shelf.failing = ResourceBusy()
        shelf.say("a", kind="children")
        await calm()
        assert recorder.told == [LIST]


async def test_a_mount_that_was_missing_from_a_listing_is_announced_once_it_can_be_listed(
    clock: Clock,
) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        shelf.failing = ResourceBusy()
        page = await live.catalog.list()
        for _ in range(2):
            live.note_unlisted(page.unavailable)
        await clock.passes(NO_INTERVAL.compare_retry_s)
        assert recorder.take() == []
        shelf.failing = None
        await clock.passes(NO_INTERVAL.compare_retry_max_s)
        assert recorder.take() == [LIST]
        await clock.passes(NO_INTERVAL.compare_retry_max_s)
        assert recorder.take() == []


async def test_a_mount_missing_from_a_listing_is_not_listed_again_without_followers(
    clock: Clock,
) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        shelf.failing = ResourceBusy()
        live.note_unlisted((await live.catalog.list()).unavailable)
        looks = len(shelf.looks)
        await clock.passes(NO_INTERVAL.compare_retry_max_s)
        assert len(shelf.looks) == looks


async def test_unfollowing_the_list_ends_its_notifications() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        stays, leaves = Recorder(), Recorder()
        for recorder in (stays, stays, leaves):
            live.follow_list(recorder)
        await calm()
        shelf.say("", kind="children")
        live.unfollow_list(leaves)
        live.unfollow_list(leaves)
        await stays.of(LIST)
        assert (stays.told, leaves.told) == ([LIST], [])
        assert shelf.interest is not None
        assert shelf.interest.listing
        live.unfollow_list(stays)
        assert not shelf.interest.listing


async def test_unfollowing_the_list_forgets_the_follower_under_all_scopes() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        for scopes in (None, frozenset(("one",)), frozenset(("two",))):
            with acting(Caller(scopes=scopes)):
                live.follow_list(recorder)
        await calm()
        shelf.say("", kind="children")
        await recorder.of(LIST)
        assert recorder.take() == [LIST]
        live.unfollow_list(recorder)
        assert shelf.interest is not None
        assert not shelf.interest.listing


# -- who subscribes


async def test_another_spelling_is_the_same_subscription() -> None:
    shelf = Shelf(**{"a b": "1"})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        topics = [
            await live.subscribe(uri, recorder)
            for uri in ("test://one/a%20b", "TEST://ONE/%61%20b?lines=1", "test://one/a%20b/")
        ]
        assert {topic.uri for topic in topics} == {"test://one/a%20b"}
        assert topics[0].read_digest == DocumentState("1")
        shelf.put("a b", "2")
        shelf.say("a b")
        await recorder.of("a b")
        assert recorder.told == ["a b"]
        live.unsubscribe("test://one/a%20b", recorder)
        assert shelf.interest is not None
        assert shelf.interest.paths == set()


@pytest.mark.guarantee("hidden-does-not-exist")
@for_each("uri", ["test://one/none", "test://none/a", "nonsense", ""])
async def test_hidden_and_missing_resources_cannot_be_subscribed_to(uri: str) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=DEFAULT_TIMING) as live:
        with pytest.raises(ResourceNotFound):
            await live.subscribe(uri, Recorder())
        live.unsubscribe(uri, Recorder())
        await calm()
        assert shelf.interest is None


async def test_a_failing_resource_cannot_be_subscribed_to_until_it_recovers() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=DEFAULT_TIMING) as live:
        shelf.failing = ResourceBusy()
        with pytest.raises(ResourceBusy):
            await live.subscribe(uri_of("a"), Recorder())
        shelf.failing = None
        await live.subscribe(uri_of("a"), Recorder())


@for_each("name", ["a", ""])
async def test_a_change_during_a_subscription_is_detected(name: str) -> None:
    shelf = Shelf(a="1")
    slow = SlowShelf(shelf)
    async with served(mounted(slow), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        slow.open.clear()
        subscribing = asyncio.create_task(live.subscribe(uri_of(name), recorder))
        await calm()
        slow.open.set()
        topic = await subscribing
        known = topic.read_digest
        shelf.put("a", "2")  # before anything is watched, and nobody says so
        await recorder.of(name)
        assert topic.read_digest != known


async def test_concurrent_subscribers_share_one_watch() -> None:
    shelf = Shelf(a="1")
    slow = SlowShelf(shelf)
    async with served(mounted(slow), timing=DEFAULT_TIMING) as live:
        recorders = [Recorder() for _ in range(20)]
        topics = await asyncio.gather(
            *(live.subscribe(uri_of("a"), recorder) for recorder in recorders)
        )
        assert len(set(map(id, topics))) == 1
        shelf.put("a", "2")
        shelf.say("a")
        for recorder in recorders:
            await recorder.of("a")
        for recorder in recorders:
            live.unsubscribe(uri_of("a"), recorder)
        await calm()
        assert shelf.interest is not None
        assert shelf.interest.paths == set()


async def test_a_listener_may_unsubscribe_others_while_it_is_notified(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shelf = Shelf(a="1")

    class Leaver(Recorder):
        def updated(self, uri: str) -> None:
            super().updated(uri)
            for recorder in recorders:
                live.unsubscribe(uri, recorder)

    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorders = [Leaver() for _ in range(3)]
        for recorder in recorders:
            await live.subscribe(uri_of("a"), recorder)
        for version in ("2", "3"):
            shelf.put("a", version)
            shelf.say("a")
            await calm()
        assert recorders[0].told == ["a"]
        assert caplog.text == ""


async def test_a_storm_of_subscriptions_leaves_only_the_active_ones() -> None:
    shelf = Shelf(**{str(number): "1" for number in range(50)})
    slow = SlowShelf(shelf)
    async with served(mounted(slow), timing=NO_INTERVAL) as live:
        recorders = [Recorder() for _ in range(4)]

        async def storm(recorder: Recorder, step: int) -> None:
            for turn in range(300):
                name = str(turn * step % 50)
                await live.subscribe(uri_of(name), recorder)
                shelf.put(name, str(turn))
                shelf.say(name)
                if turn % 3:
                    live.unsubscribe(uri_of(name), recorder)
                live.unsubscribe(uri_of(str(turn % 50)), recorder)
            for number in range(1, 50):
                live.unsubscribe(uri_of(str(number)), recorder)
            await live.subscribe(uri_of("0"), recorder)

        await asyncio.gather(*map(storm, recorders, (1, 3, 7, 11)))
        await asyncio.gather(*(recorder.quiet(0.02) for recorder in recorders))
        assert shelf.interest is not None
        assert shelf.interest.paths == {("0",)}
        shelf.put("0", "last")
        shelf.put("1", "nobody wants to know")
        shelf.say("", kind="tree")
        for recorder in recorders:
            await recorder.of("0")
            assert recorder.told == ["0"]


# -- many, slow and broken


async def test_changes_among_ten_thousand_topics_notify_without_blocking_the_loop() -> None:
    shelf = Shelf(**{f"{number:05}": "1" for number in range(10_000)})
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        for path in shelf.documents:
            await live.subscribe(uri_of(path[0]), recorder)
        await calm()
        changed = [f"{number:05}" for number in range(0, 10_000, 100)]
        for name in changed:
            shelf.put(name, "2")
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        turning = asyncio.create_task(turn())
        await recorder.quiet()
        recorder.take()
        turns = 0
        shelf.say("", kind="tree")
        for name in changed:
            shelf.put(name, "3")
        await recorder.of(*changed)
        assert turns > 10
        turning.cancel()
        assert sorted(await recorder.quiet()) == changed


async def test_overlapping_tree_changes_check_each_topic_about_once() -> None:
    names = [f"{number // 20}/{number % 20}" for number in range(2000)]
    shelf = Shelf(**dict.fromkeys(names, "1"))
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, *names)
        await calm()
        shelf.looks.clear()
        for _ in range(10):
            shelf.say("", *(str(number) for number in range(100)), kind="tree")
        shelf.put(names[-1], "2")
        await recorder.of(names[-1])
        assert len(shelf.looks) < 10 * len(names)


async def test_bulk_unsubscribing_ends_all_notifications() -> None:
    names = [f"{number:04}" for number in range(2000)]
    shelf = Shelf(**dict.fromkeys(names, "1"))
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, *names)
        live.unsubscribe_all([(uri_of(name), recorder, EVERYTHING) for name in names])
        async with asyncio.timeout(PATIENCE_S):
            while shelf.interest is None or shelf.interest.paths:  # noqa: ASYNC110
                await asyncio.sleep(0)
        shelf.put(names[-1], "2")
        shelf.say("", kind="tree")
        assert await recorder.quiet(0.02) == []


async def test_a_transient_state_read_by_a_client_is_notified() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        await calm()
        live.note_read(uri_of("a"), DocumentState("1"))
        assert await recorder.quiet(0.02) == []
        live.note_read(uri_of("a"), DocumentState("2"))
        await recorder.of("a")
        live.note_read(uri_of("a"), ABSENT)
        await recorder.of("a")
        assert await recorder.quiet(0.02) == ["a", "a"]


async def test_diverging_reads_do_not_notify_forever() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        for number in range(100):
            live.note_read(uri_of("a"), DocumentState(f"read {number}"))
            await calm()
        assert 1 <= len(recorder.told) < 20


async def test_a_change_during_a_check_causes_another_check() -> None:
    shelf = Shelf(a="1")
    slow = SlowShelf(shelf)
    async with served(mounted(slow), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        topic = await live.subscribe(uri_of("a"), recorder)
        await recorder.quiet(0.02)
        slow.open.clear()
        for version in ("2", "3"):
            shelf.put("a", version)
            shelf.say("a")
            await calm()
        slow.open.set()
        assert await recorder.quiet(0.02) == ["a", "a"]
        assert topic.read_digest == DocumentState("3")


async def test_concurrent_checks_of_a_slow_provider_are_limited() -> None:
    shelf = Shelf(**{str(number): "1" for number in range(200)})
    slow = SlowShelf(shelf)
    async with served(mounted(slow), timing=DEFAULT_TIMING) as live:
        recorder = Recorder()
        for (name,) in shelf.documents:
            await live.subscribe(uri_of(name), recorder)
        await recorder.quiet(0.02)
        for (name,) in list(shelf.documents):
            shelf.put(name, "2")
        slow.open.clear()
        slow.most_waiting = 0
        shelf.say("", kind="tree")
        await calm()
        assert 0 < slow.waiting < 100
        slow.open.set()
        await recorder.of(*map(str, range(200)))
        assert slow.most_waiting < 100


async def test_a_hanging_mount_does_not_delay_others() -> None:
    shelf = Shelf(**{str(number): "1" for number in range(100)})
    slow = SlowShelf(shelf)
    other = Shelf(**{str(number): "1" for number in range(100)})
    async with served(mounted(slow, "two"), mounted(other), timing=NO_INTERVAL) as live:
        recorder = Recorder()
        for (name,) in shelf.documents:
            await live.subscribe(uri_of(name, "test://two/"), Recorder())
            await live.subscribe(uri_of(name), recorder)
        await recorder.quiet(0.02)
        slow.open.clear()
        shelf.say("", kind="tree")
        await calm()
        for (name,) in list(other.documents):
            other.put(name, "2")
        other.say("", kind="tree")
        await recorder.of(*map(str, range(100)))


async def test_a_hanging_mount_does_not_stop_the_sweep_of_others() -> None:
    shelf = Shelf(**{str(number): "1" for number in range(100)})
    slow = SlowShelf(shelf)
    other = Shelf(a="1")
    timing = replace(NO_INTERVAL, sweep_s=0.02)
    async with served(mounted(slow, "two"), mounted(other), timing=timing) as live:
        recorder = Recorder()
        for (name,) in shelf.documents:
            await live.subscribe(uri_of(name, "test://two/"), Recorder())
        await live.subscribe(uri_of("a"), recorder)
        slow.open.clear()
        for version in "2345":
            other.put("a", version)
            await recorder.of("a")
            recorder.take()


@for_each("failing", [ResourceBusy(), RuntimeError("broken"), SystemExit()])
async def test_a_failed_check_is_retried(failing: Exception) -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=replace(NO_INTERVAL, compare_retry_s=0.02)) as live:
        recorder = await subscribed(live, "a")
        shelf.put("a", "2")
        shelf.failing = failing
        shelf.say("a")
        await calm()
        assert recorder.told == []
        shelf.failing = None
        await recorder.of("a")


@pytest.mark.parametrize("method", ["metadata", "list"])
async def test_a_check_cancelled_by_its_provider_is_retried(
    caplog: pytest.LogCaptureFixture, method: str
) -> None:
    caplog.set_level("INFO", "resource_server.subscriptions.broker")
    shelf = Shelf(a="1")
    quitter = Quitter(shelf, method)
    async with served(mounted(quitter), timing=replace(NO_INTERVAL, compare_retry_s=0.02)) as live:
        recorder = await subscribed(live, "")
        quitter.quits = True
        shelf.put("a", "2")
        shelf.say("a")
        await calm()
        assert recorder.told == []
        assert "could not be compared: CancelledError" in caplog.text
        quitter.quits = False
        await recorder.of("")


async def test_a_further_change_is_checked_although_the_last_check_failed() -> None:
    shelf = Shelf(a="1")
    async with served(mounted(shelf), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        shelf.put("a", "2")
        shelf.failing = ResourceBusy()
        for _ in range(10):
            shelf.say("a")
            await calm()
        shelf.failing = None
        shelf.say("a")
        await calm()
        assert recorder.told == ["a"]


# -- another catalog


async def test_replacing_the_catalog_notifies_only_of_differences() -> None:
    before, after = Shelf(a="1", b="1", c="1"), Shelf(a="1", b="2", d="1")
    async with served(mounted(before), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "b", "c")
        live.follow_list(recorder)
        live.replace_catalog(Catalog([mounted(after)]), relist=False)
        await recorder.of("b", "c")
        assert sorted(await recorder.quiet()) == ["b", "c"]
        after.put("a", "3")
        after.say("a")
        await recorder.of("a")
        assert (before.watchers, after.watchers) == (0, 1)
        assert after.interest is not None
        assert after.interest.listing


async def test_replacing_the_catalog_notifies_of_the_list_if_requested() -> None:
    mount = mounted(Shelf(a="1"))
    async with served(mount, timing=NO_INTERVAL) as live:
        recorder = Recorder()
        live.follow_list(recorder)
        await calm()
        live.replace_catalog(Catalog([mount]), relist=False)
        await calm()
        assert recorder.told == []
        live.replace_catalog(Catalog([]), relist=True)
        await calm()
        assert recorder.told == [LIST]


async def test_a_mount_that_was_gone_for_a_moment_is_notified_since_it_may_have_been_read() -> None:
    timing = replace(NO_INTERVAL, vanish_grace_s=0.5)
    async with served(mounted(Shelf(a="1", b=None)), timing=timing) as live:
        recorder = await subscribed(live, "a", "b")
        await calm()
        recorder.take()
        live.replace_catalog(Catalog([]), relist=False)
        await calm()
        live.replace_catalog(Catalog([mounted(Shelf(a="1", b=None))]), relist=False)
        await recorder.of("a")


async def test_a_mount_kept_by_a_new_catalog_stays_watched() -> None:
    shelf = Shelf(a="1", b=None)
    mount = mounted(shelf)
    async with served(mount, timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a", "b")
        recorder.take()
        interest = shelf.interest
        live.replace_catalog(Catalog([mounted(Shelf(), "two"), mount]), relist=False)
        await calm()
        assert (shelf.watchers, shelf.interest) == (1, interest)
        assert recorder.told == []
        shelf.put("a", "2")
        shelf.say("a")
        await calm()
        assert recorder.told == ["a"]


async def test_resources_of_removed_and_restored_mounts_are_notified() -> None:
    shelf = Shelf(a="1")
    mount = mounted(shelf)
    async with served(mount, timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        live.replace_catalog(Catalog([]), relist=False)
        await recorder.of("a")
        assert await recorder.quiet() == ["a"]
        live.replace_catalog(Catalog([mounted(Shelf(a="1"))]), relist=False)
        await recorder.of("a")
        assert await recorder.quiet() == ["a"]
        live.unsubscribe(uri_of("a"), recorder)
        live.replace_catalog(Catalog([]), relist=False)
        assert await recorder.quiet() == []


async def test_a_deeper_mount_takes_over_the_resources_below_its_base() -> None:
    outer, inner = Shelf(**{"sub/a": "1", "b": "1"}), Shelf(a="2")
    mounts = [mounted(outer)]
    async with served(*mounts, timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "sub/a", "b")
        mounts.append(Mount("inner", "test://one/sub/", inner))
        live.replace_catalog(Catalog(mounts), relist=False)
        await recorder.of("sub/a")
        assert await recorder.quiet() == ["sub/a"]
        inner.put("a", "3")
        inner.say("a")
        await recorder.of("sub/a")


async def test_unversioned_resources_are_notified_after_replacing_the_catalog() -> None:
    async with served(mounted(Shelf(a=None)), timing=NO_INTERVAL) as live:
        recorder = await subscribed(live, "a")
        recorder.take()
        live.replace_catalog(Catalog([mounted(Shelf(a=None))]), relist=False)
        await recorder.of("a")


async def test_removed_mounts_are_released() -> None:
    async with served(timing=DEFAULT_TIMING) as live:
        shelves: list[weakref.ref[Shelf]] = []
        recorder = Recorder()
        for version in ("1", "2"):
            shelf = Shelf(a=version)
            shelves.append(weakref.ref(shelf))
            live.replace_catalog(Catalog([mounted(shelf)]), relist=False)
            await live.subscribe(uri_of("a"), recorder)
            del shelf
        live.replace_catalog(Catalog([]), relist=False)
        await recorder.quiet()
        gc.collect()
        assert [shelf() for shelf in shelves] == [None, None]


# -- the end


async def test_closing_the_broker_leaves_no_tasks_and_sends_nothing() -> None:
    tasks = asyncio.all_tasks()
    shelf = Shelf(**{str(number): "1" for number in range(100)})
    slow, failing = SlowShelf(shelf), Shelf(a="1")
    live = Broker(Catalog([mounted(slow), mounted(failing, "two")]), Timing(sweep_s=0.01))
    recorder = Recorder()
    live.follow_list(recorder)
    for (name,) in shelf.documents:
        await live.subscribe(uri_of(name), recorder)
    await live.subscribe("test://two/a", recorder)
    failing.failing = RuntimeError("broken")
    failing.say("a")
    await recorder.quiet(0.02)
    recorder.take()
    for (name,) in list(shelf.documents):
        shelf.put(name, "2")
    slow.open.clear()
    shelf.say("", kind="tree")
    await calm()
    live.replace_catalog(Catalog([mounted(slow)]), relist=True)
    await live.close()
    slow.open.set()
    assert asyncio.all_tasks() == tasks
    assert await recorder.quiet() == []
    await live.close()


async def test_a_broker_without_subscribers_has_no_tasks() -> None:
    tasks = asyncio.all_tasks()
    live = Broker(Catalog([mounted(Shelf(a="1"))]), DEFAULT_TIMING)
    await calm()
    assert asyncio.all_tasks() == tasks
    await live.close()
