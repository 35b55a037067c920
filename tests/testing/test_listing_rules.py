from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from resource_server.catalog import fallback_search
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, Resource, ResourceType
from resource_server.provider.search import (
    Hit,
    MatchedLine,
    SearchPage,
    SearchRequest,
    SupportsSearch,
)
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.cases import for_each
from tests.providers_for_tests import Leaf, Tree
from tests.testing.shelf import SIGNATURE, Shelf, changed

pytestmark = pytest.mark.anyio


class IgnoresAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=None, limit=limit)


class RepeatsAfter(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            after = (*after[:-1], after[-1][:-1])
        return await super().list(parent, after=after, limit=limit)


class IgnoresLimit(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=1000)


class EndsEarly(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return await super().list(parent, after=after, limit=2 if limit > 2 else limit)


class ChangesOrder(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = [*await super().list(parent, after=None, limit=1000)]
        if self.calls % 2:
            page.reverse()
        paths = [entry.path for entry in page]
        return page[paths.index(after) + 1 if after in paths else 0 :][:limit]


class NeedsItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if after is not None:
            self.find(after)
        return await super().list(parent, after=after, limit=limit)


class RestartsWithoutItsCursor(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        if after is not None and after not in self.items:
            return [*await super().list(parent, after=None, limit=2), *page][:1]
        return page


class ShowsGrandchildren(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "x", "empty"))


class NamesWithSlashes(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        page = await super().list(parent, after=after, limit=limit)
        return changed(page, "empty", path=("a", "em/pty"))


class ListsDicts(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return [msgspec.to_builtins(entry) for entry in page]


class YieldsItems(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        page = await super().list(parent, after=after, limit=limit)
        return (entry for entry in page)


class ListsNowhere(Shelf):
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        try:
            return await super().list(parent, after=after, limit=limit)
        except ResourceNotFound:
            return []


class RootIsADocument(Shelf):
    async def metadata(self, path: Path) -> Resource:
        found = await super().metadata(path)
        return found if path else Resource(path=(), name="shelf")


class LosesItsWay(Shelf):
    async def metadata(self, path: Path) -> Resource:
        return msgspec.structs.replace(await super().metadata(path), path=("elsewhere",))


class ListsHiddenLevels(Shelf):
    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        rest = sorted(path for path in self.items if path > (after or ()) and len(path) == depth)
        return [self.entry(path) for path in rest if self.entry(path).type == type][:limit]


class RestartsLevels(Shelf):
    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        return await super().level(depth, type, after=None, limit=limit)


BROKEN: list[tuple[type[Shelf], str]] = [
    (IgnoresAfter, "a listing resumes right after `after`, and only its last page is short"),
    (RepeatsAfter, "a listing resumes right after `after`, and only its last page is short"),
    (EndsEarly, "a listing resumes right after `after`, and only its last page is short"),
    (IgnoresLimit, "a page has at most `limit` items"),
    (ChangesOrder, "a listing always has the same order"),
    (NeedsItsCursor, "a listing resumes at the position of a child that has disappeared"),
    (RestartsWithoutItsCursor, "a listing resumes at the position of a child that has disappeared"),
    (ShowsGrandchildren, "a child's path is its parent's path plus one segment"),
    (
        NamesWithSlashes,
        "a path segment is not empty, '.' or '..', has no '/' or NUL, and can be encoded in a URI",
    ),
    (ListsDicts, SIGNATURE),
    (YieldsItems, SIGNATURE),
    (ListsNowhere, "an absent path raises ResourceNotFound"),
    (RootIsADocument, "the path () is the mount's own collection"),
    (LosesItsWay, "the path () is the mount's own collection"),
    (ListsHiddenLevels, "level gives the listed resources of one depth and type, each once"),
    (RestartsLevels, "level resumes right after `after`, always in the same order"),
]


@for_each(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_reported(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


class Searched(Tree):
    """A tree that finds what the server would find in it."""

    def __init__(self) -> None:
        super().__init__(
            {
                "apple": "one apple\nand another",
                "b": {"banana": "an apple too", "cherry": "", "d": {"äpfel": "none"}},
                "picture": Leaf(b"\x89\0", "image/png"),
                "zoo": "apple",
            }
        )

    async def metadata(self, path: Path) -> Any:
        return super().metadata(path)

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> Any:
        mount = Mount("m", "test://m/", Tree(self.nodes))
        return await fallback_search.search_mount(
            mount, request, below=below, after=after, limit=limit, deadline=deadline
        )


class FindsMore(Searched):
    async def search(self, request: SearchRequest, *, limit: int, **rest: Any) -> Any:
        return await super().search(request, limit=limit + 3, **rest)


class FindsAll(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        found = await super().search(request, **rest)
        return found.hits


class FindsWhatIsNot(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        await super().search(request, **rest)
        return SearchPage(hits=[Hit(Resource(path=("absent",), name="absent"))])


class FindsTwice(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        found = await super().search(request, **rest)
        return replace(found, hits=[hit for hit in found.hits for _ in "ab"][:3])


class GoesInCircles(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        return replace(await super().search(request, **rest), next="again")


class EndsWhenItIsLate(Searched):
    async def search(self, request: SearchRequest, *, deadline: float, **rest: Any) -> Any:
        found = await super().search(request, deadline=deadline, **rest)
        return found if time.monotonic() < deadline else SearchPage(hits=[])


class LeavesThePlace(Searched):
    async def search(self, request: SearchRequest, *, below: Path, **rest: Any) -> Any:
        await super().search(request, below=below, **rest)
        return await super().search(request, below=(), **rest)


class SearchesAnywhere(Searched):
    async def search(self, request: SearchRequest, *, below: Path, **rest: Any) -> Any:
        try:
            return await super().search(request, below=below, **rest)
        except ResourceNotFound:
            return SearchPage(hits=[])


class QuotesNothing(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        found = await super().search(request, **rest)
        return replace(found, hits=[replace(hit, lines=()) for hit in found.hits])


class CountsFromNought(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        found = await super().search(request, **rest)
        hits = [
            replace(hit, lines=tuple(MatchedLine(line.number - 1, line.text) for line in hit.lines))
            for hit in found.hits
        ]
        return replace(found, hits=hits)


class TakesAnyExpression(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        return await super().search(replace(request, is_pattern=False), **rest)


class Fails(Searched):
    async def search(self, request: SearchRequest, **rest: Any) -> Any:
        raise ValueError("no")


_: type[SupportsSearch] = Searched


async def test_a_provider_whose_search_keeps_the_contract_passes() -> None:
    await check_provider(Searched())


@for_each(
    ("broken", "rule"),
    [
        (FindsMore, "a page has at most `limit` items"),
        (FindsAll, SIGNATURE),
        (FindsWhatIsNot, "every hit exists"),
        (FindsTwice, "a search returns each resource once"),
        (GoesInCircles, "every page of a search makes progress"),
        (EndsWhenItIsLate, "a search that reaches its deadline resumes until everything is found"),
        (LeavesThePlace, "every hit is at or below `below`"),
        (SearchesAnywhere, "an absent path raises ResourceNotFound"),
        (QuotesNothing, "a hit in text has a matching line"),
        (CountsFromNought, "a matched line has a number of 1 or more and no line ending"),
        (TakesAnyExpression, "an invalid pattern raises InvalidParameter"),
        (Fails, "a provider raises only errors from resource_server.errors"),
    ],
)
async def test_each_broken_rule_of_searching_is_reported(broken: type[Searched], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert rule in {violation.partition(": ")[0] for violation in caught.value.violations}, (
        caught.value
    )
