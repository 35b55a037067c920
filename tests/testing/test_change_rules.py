from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence, Set
from typing import Any, Self

import msgspec
import pytest

from resource_server.provider import (
    Change,
    Interest,
    Path,
    Resource,
    SupportsWatch,
)
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.cases import for_each
from tests.testing.shelf import SHELF, SIGNATURE, Shelf, changed
from tests.waiting import pause

pytestmark = pytest.mark.anyio


class Watched(Shelf):
    """A shelf that looks often for what has changed. Most classes below do it wrongly."""

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        seen = self.items
        while True:
            wanted = interest.paths or interest.listing
            for path in await self.came(interest, 0.01 if wanted else None):
                yield Change(path)
            now = self.items
            for path in {*seen, *now}:
                if seen.get(path) != now.get(path):
                    for change in self.tells(path):
                        yield change
            seen = now

    async def came(self, interest: Interest, within_s: float | None) -> Set[Path]:
        return (await interest.next(within_s))[0]

    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path), Change(path[:-1], "children")]


_watches: type[SupportsWatch] = Watched


class TellsOfItAll(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((), "tree")]


class ArmsNothing(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        await interest.next()
        await asyncio.Event().wait()
        yield Change(())


class ArmsTheFirst(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)
        await asyncio.Event().wait()


class ArmsWhatIsThere(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            if not change.path or change.path in self.items:
                yield change


class ArmsOnce(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        known: set[Path] = set()
        async for change in super().changes(interest):
            if change.path not in known:
                known.add(change.path)
                yield change


class TellsOfTreesBelow(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            for path in (await interest.next())[0]:
                yield Change((*path, "x"), "tree")


class YieldsPaths(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield change.path


class YieldsLists(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield Change([*change.path])  # pyright: ignore[reportArgumentType]


class YieldsOddKinds(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Any]:
        async for change in super().changes(interest):
            yield change
            yield Change(change.path, "gone")  # pyright: ignore[reportArgumentType]


class YieldsSlashes(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            yield change
            yield Change(("a/b",))


class NeverRests(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            await interest.next(0.001)
            yield Change((), "tree")


class NeverWaits(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        while True:
            yield Change((), "tree")


class Ends(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)


class Fails(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        for path in (await interest.next())[0]:
            yield Change(path)
        raise OSError("too many watches")


class IsNoGenerator(Watched):
    async def changes(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, interest: Interest
    ) -> AsyncIterator[Change]:
        return super().changes(interest)


class ReturnsAList(Watched):
    def changes(self, interest: Interest) -> Any:
        return [Change(path) for path in interest.paths]


class IgnoresTheEnd(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        except asyncio.CancelledError:
            yield Change(())


class IgnoresTheEndBetweenTwo(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            try:
                yield change
            except GeneratorExit:
                yield change


class FailsAtTheEnd(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        finally:
            raise OSError("not open")


class EndsSlowly(Watched):
    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        try:
            async for change in super().changes(interest):
                yield change
        finally:
            await pause(5)


class KnowsOneInterest(Watched):
    interest: Interest

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.interest = interest
        async for change in super().changes(interest):
            yield change

    async def came(self, interest: Interest, within_s: float | None) -> Set[Path]:
        return (await self.interest.next(within_s))[0]


class EndsThemAll(Watched):
    watches = 0

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        self.watches += 1
        try:
            async for change in super().changes(interest):
                if self.watches:
                    yield change
        finally:
            self.watches = 0


class WatchesOneLife(Watched):
    lives = 0

    async def __aenter__(self) -> Self:
        self.lives += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        async for change in super().changes(interest):
            if self.lives == 1:
                yield change


class TellsNoChanges(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return []


class TellsTheParentOnly(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path[:-1], "children")]


class TellsTheTopOnly(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((), "children")]


class TellsOfSiblings(Watched):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change((*path[:-1], "other")), Change((*path, "below"), "tree")]


class TellsOneVersion(Watched):
    def entry(self, path: Path) -> Resource:
        return msgspec.structs.replace(super().entry(path), version="1")


class TellsForCertain(TellsOneVersion):
    def tells(self, path: Path) -> Sequence[Change]:
        return [Change(path, certain=True)]


class TellsTimes(Watched):
    def entry(self, path: Path) -> Resource:
        return msgspec.structs.replace(super().entry(path), version=None)


ARMED = "a Change is yielded for every path added to the interest"


GOES_ON = "changes runs until it is closed"


ENDS = "changes stops promptly and without an error when closed"


BESIDE = "concurrent watches are independent of each other"


TOLD = "every change is reported by a Change"


BROKEN_WATCHES: list[tuple[type[Watched], str]] = [
    (ArmsNothing, ARMED),
    (ArmsTheFirst, ARMED),
    (ArmsWhatIsThere, ARMED),
    (ArmsOnce, ARMED),
    (TellsOfTreesBelow, ARMED),
    (YieldsPaths, SIGNATURE),
    (YieldsLists, SIGNATURE),
    (YieldsOddKinds, SIGNATURE),
    (
        YieldsSlashes,
        "a path segment is not empty, '.' or '..', has no '/' or NUL, and can be encoded in a URI",
    ),
    (NeverRests, "nothing is yielded while the interest is empty"),
    (NeverWaits, "nothing is yielded while the interest is empty"),
    (Ends, GOES_ON),
    (Fails, GOES_ON),
    (IsNoGenerator, SIGNATURE),
    (ReturnsAList, SIGNATURE),
    (IgnoresTheEnd, ENDS),
    (IgnoresTheEndBetweenTwo, ENDS),
    (FailsAtTheEnd, ENDS),
    (EndsSlowly, ENDS),
    (KnowsOneInterest, BESIDE),
    (EndsThemAll, BESIDE),
    (WatchesOneLife, "a provider can be entered again"),
    (TellsNoChanges, TOLD),
    (TellsTheParentOnly, TOLD),
    (TellsTheTopOnly, TOLD),
    (TellsOfSiblings, TOLD),
    (TellsOneVersion, "a changed resource has a new version"),
]


def put(shelf: Watched, path: Path, data: str | None) -> Callable[[], Path]:
    """Return what puts data on a shelf, or takes it away."""

    def make_change() -> Path:
        others = {other: shelf.items[other] for other in shelf.items if other != path}
        shelf.items = others if data is None else {**others, path: data}
        return path

    return make_change


@for_each(
    ("kind", "path", "data"),
    [
        (Watched, ("a", "empty"), "full"),
        (Watched, ("a", "b", "deep"), None),
        (Watched, ("a", "new"), "new"),
        (TellsOfItAll, ("a", "empty"), "full"),
        (TellsOfItAll, ("a", "b", "new"), "new"),
        (TellsTheParentOnly, ("a", "new"), "new"),
        (TellsTheTopOnly, ("new", "er"), "new"),
        (TellsForCertain, ("a", "empty"), "full"),
        (TellsTimes, ("a", "empty"), "full"),
    ],
)
async def test_a_provider_that_reports_a_change_passes(
    kind: type[Watched], path: Path, data: str | None
) -> None:
    shelf = kind()
    await check_provider(shelf, make_change=put(shelf, path, data), within_s=1)


async def test_a_change_may_be_made_asynchronously() -> None:
    shelf = Watched()

    async def make_change() -> Path:
        await asyncio.sleep(0)
        return put(shelf, ("a", "empty"), "full")()

    await check_provider(shelf, make_change=make_change, within_s=1)


@for_each(("broken", "rule"), BROKEN_WATCHES, ids=[kind.__name__ for kind, _ in BROKEN_WATCHES])
async def test_each_broken_rule_of_watching_is_reported(broken: type[Watched], rule: str) -> None:
    shelf = broken()
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_a_missing_change_is_reported_with_its_time_limit() -> None:
    shelf = TellsNoChanges()
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)
    assert caught.value.violations == (f"{TOLD}: no Change for ('a', 'empty') within 0.2 s",)


async def test_a_change_reported_before_it_is_visible_is_a_violation() -> None:
    class Early(Watched):
        async def metadata(self, path: Path) -> Resource:
            if path == ("a", "empty"):
                return changed([await super().metadata(path)], "empty", size=0, version="v0")[0]
            return await super().metadata(path)

    shelf = Early()
    with pytest.raises(ProviderViolations, match="a changed resource has a new version"):
        await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"), within_s=0.2)


async def test_watching_is_not_checked_if_it_is_switched_off() -> None:
    class Off(Watched):
        watch = "off"

        def changes(self, interest: Interest) -> Any:
            raise AssertionError("asked")

    shelf = Off()
    await check_provider(shelf, make_change=put(shelf, ("a", "empty"), "full"))
    assert shelf.items == SHELF


async def test_make_change_requires_a_provider_that_watches() -> None:
    with pytest.raises(ProviderViolations, match="make_change requires a provider with changes"):
        await check_provider(Shelf(), make_change=lambda: ("a",))


async def test_a_make_change_without_a_path_is_a_test_error() -> None:
    with pytest.raises(TypeError, match="make_change returned 'a'"):
        await check_provider(Watched(), make_change=lambda: "a")  # pyright: ignore[reportArgumentType]
