"""Listings of trees, level by level, from any position on."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.catalog import tree_listing
from resource_server.catalog.mount import Mount
from resource_server.catalog.tree_listing import MAX_DEPTH, TreeItem, TreeListing
from resource_server.errors import InvalidParameter, NotACollection
from resource_server.provider import Resource
from resource_server.runtime.eager import TimeLimit
from tests.providers_for_tests import Broken, Leaf, Node, Tree

pytestmark = pytest.mark.anyio

NODES: dict[str, Node] = {
    "a": {"b": {"c": {"d": "x"}, "e": "x"}, "empty": {}},
    "row": Leaf("x", listed=False),
    "z": {"b": "x"},
}
MOUNTS = [Mount("0", "test://0/", Tree(NODES)), Mount("1", "test://1/", Tree({"k": "x"}))]


def listing(
    mounts: list[Mount] = MOUNTS, top: Resource | None = None, after: str | None = None, **more: Any
) -> TreeListing:
    limits: dict[str, Any] = {"depth": 3, "time_limit": TimeLimit(60), "max_unlisted": 99, **more}
    return TreeListing(mounts, top, after=after, **limits)


async def items(found: TreeListing) -> list[TreeItem]:
    return [item async for item in found.items()]


def uris(found: list[TreeItem]) -> list[str]:
    return [item.entry.uri.removeprefix("test://") for item in found]


async def test_every_position_is_followed_by_the_rest() -> None:
    for mounts in (MOUNTS, MOUNTS[:1]):
        whole = await items(listing(mounts))
        assert len({item.entry.uri for item in whole}) == len(whole)
        for at, item in enumerate(whole):
            rest = await items(listing(mounts, after=listing(mounts).cursor(item.position)))
            assert uris(rest) == uris(whole[at + 1 :])


async def test_levels_follow_one_another_with_collections_first() -> None:
    assert uris(await items(listing())) == [
        *("0", "1", "0/a", "0/z", "1/k", "0/a/b", "0/a/empty", "0/z/b", "0/a/b/c", "0/a/b/e")
    ]
    top = Resource(path=("a",), name="a", type="collection")
    found = listing(MOUNTS[:1], top, depth=1)
    assert (found.base, uris(await items(found))) == ("test://0/a/", ["0/a/b", "0/a/empty"])


async def test_unlisted_resources_end_a_listing_at_their_number() -> None:
    top = Resource(path=(), name="0", type="collection")
    rows = [Mount("0", "test://0/", Tree({str(n): Leaf("x", listed=False) for n in range(5)}))]
    found = listing(rows, top, max_unlisted=2)
    assert uris(await items(found)) == ["0/0", "0/1"]
    assert found.stopped_at is not None
    assert not found.is_late
    rest = listing(rows, top, after=found.cursor(found.stopped_at))
    assert uris(await items(rest)) == ["0/2", "0/3", "0/4"]
    assert uris(await items(listing(rows, None, depth=2, max_unlisted=0))) == []


async def test_a_listing_without_time_gets_further_at_each_page() -> None:
    seen: list[str] = []
    after = None
    for _ in range(30):
        found = listing(after=after, time_limit=TimeLimit(0))
        seen += uris(await items(found))
        if found.stopped_at is None:
            break
        assert found.is_late
        after = found.cursor(found.stopped_at)
    assert seen == uris(await items(listing()))


@pytest.mark.parametrize("depth", [0, MAX_DEPTH + 1, -1])
async def test_a_depth_out_of_range_is_refused(depth: int) -> None:
    with pytest.raises(InvalidParameter, match="from 1 to 5"):
        listing(depth=depth)


async def test_a_cursor_of_another_listing_and_a_document_are_refused() -> None:
    item = (await items(listing()))[4]
    after = listing().cursor(item.position)
    others: list[dict[str, Any]] = [{"depth": 2}, {"mounts": MOUNTS[:1]}, {"mounts": []}]
    for other in others:
        with pytest.raises(InvalidParameter):
            listing(after=after, **other)
    with pytest.raises(NotACollection):
        listing(MOUNTS[:1], Resource(path=("k",), name="k", type="document"))


async def test_no_mounts_are_an_empty_listing() -> None:
    found = listing([])
    assert (found.base, await items(found)) == ("", [])


async def test_a_mount_that_fails_is_named_and_the_others_are_listed() -> None:
    mounts = [Mount("bad", "test://bad/", Broken(list=lambda *_, **__: 1)), MOUNTS[1]]
    found = listing(mounts)
    assert uris(await items(found)) == ["bad", "1", "1/k"]
    assert found.unavailable == ["bad"]


@pytest.mark.parametrize(
    ("bases", "base"),
    [
        (["test://0/a/", "test://0/b/"], "test://0/"),
        (["test://0/", "test://0/b/"], "test://0/"),
        (["test://ab/", "test://ac/"], "test://"),
        (["test://0/", "file:///x/"], ""),
    ],
)
def test_the_base_of_mounts_ends_with_a_slash(bases: list[str], base: str) -> None:
    assert listing([Mount(each, each, Tree({})) for each in bases]).base == base
    assert tree_listing.collection_base("test://0") == "test://0/"
    assert tree_listing.collection_base("test://0/") == "test://0/"
