from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.catalog import fallback_search
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider.search import (
    Hit,
    MatchedLine,
    SearchPage,
    SearchRequest,
    SupportsSearch,
)
from resource_server.testing import ProviderViolations, check_provider
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio

SIGNATURE = "methods return the types declared in resource_server.provider"


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


@pytest.mark.parametrize(
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
