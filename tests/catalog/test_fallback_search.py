"""Search of mounts whose provider has no search of its own."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import msgspec
import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.fallback_search import search_mount
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter, ResourceNotFound, ResourceTooLarge
from resource_server.provider import Path, Provider
from resource_server.provider.search import SearchPage, SearchRequest, Unsearched, Where
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.cases import for_each
from tests.providers_for_tests import Folder, Gate, Leaf, Node, Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

HASTY = Timing(search_s=0.2, search_mount_grace_s=0.1)


def catalog(*trees: Provider, timing: Timing = DEFAULT_TIMING) -> Catalog:
    mounts = [Mount(f"m{at}", f"test://m{at}/", tree) for at, tree in enumerate(trees)]
    return Catalog(mounts, timing=timing)


async def found(
    provider: Provider,
    text: str,
    where: Where,
    *,
    below: Path = (),
    after: str | None = None,
    limit: int = 10,
    time_s: float = PATIENCE_S,
    count_s: float = 0.0,
) -> SearchPage:
    """Return one page of a search that has this much time."""
    mount = Mount("one", "test://one/", provider)
    await mount.start()
    request = SearchRequest(text=text, where=where, count_s=count_s)
    deadline = time.monotonic() + time_s
    return await search_mount(
        mount, request, below=below, after=after, limit=limit, deadline=deadline, walk_page=2
    )


def paths(page: SearchPage) -> list[str]:
    return ["/".join(hit.resource.path) for hit in page.hits]


NODES: dict[str, Node] = {
    "bread": "nothing",
    "docs": {"bread": "crumb", "deep": {"crumb": "bread"}},
    "hidden": Folder({"bread": "crumb"}),
    "picture.png": Leaf("crumb", "image/png"),
}


@for_each(
    ("where", "expected"),
    [("names", ["docs/deep/crumb"]), ("text", ["docs/bread"])],
)
async def test_names_and_lines_are_found_in_listed_documents(
    where: Where, expected: list[str]
) -> None:
    assert paths(await found(Tree(NODES), "crumb", where)) == expected


@for_each("where", ["names", "text"])
async def test_an_unlisted_collection_is_searched_by_its_path(where: Where) -> None:
    page = await found(Tree(NODES), "b" if where == "names" else "crumb", where, below=("hidden",))
    assert paths(page) == ["hidden/bread"]


async def test_a_single_document_can_be_searched() -> None:
    page = await found(Tree(NODES), "crumb", "text", below=("docs", "bread"))
    assert (paths(page), page.next, page.looked_at) == (["docs/bread"], None, 1)
    with pytest.raises(ResourceNotFound):
        await found(Tree(NODES), "crumb", "text", below=("absent",))


@for_each("time_s", [20.0, 0.0])
@for_each("where", ["names", "text"])
async def test_pages_continue_where_the_one_before_ended(where: Where, time_s: float) -> None:
    tree = Tree({f"a{at}": "a" for at in range(7)})
    pages: list[str] = []
    after: str | None = None
    for _ in range(50):
        page = await found(tree, "a", where, after=after, limit=3, time_s=time_s)
        pages += paths(page)
        after = page.next
        if after is None:
            break
    assert pages == [f"a{at}" for at in range(7)]


async def test_a_position_outside_of_the_searched_collection_is_invalid() -> None:
    with pytest.raises(InvalidParameter):
        await found(Tree(NODES), "crumb", "text", below=("docs",), after="bread")


async def test_a_hanging_document_is_skipped() -> None:
    nodes: dict[str, Node] = {f"a{at:02}": "hello" for at in range(20)}
    nodes["a05"] = Gate()
    searched = catalog(Tree(nodes), timing=HASTY)
    found: list[str] = []
    after: str | None = None
    while not found or after is not None:
        page = await searched.search("hello", where="text", after=after)
        found += [hit.entry.uri for hit in page.hits]
        after = page.next_cursor
    assert len(found) == 19


async def test_a_document_that_hangs_only_on_a_later_page_is_named_there() -> None:
    best = {"b": "class hello:"}
    first = await found(Tree({"a": "hello", **best}), "hello", "text", limit=1, count_s=9)
    assert (paths(first), first.unsearched) == (["b"], ())
    hanging = Tree({"a": Gate(), **best})
    page = await found(hanging, "hello", "text", limit=1, after=first.next, time_s=0)
    assert (paths(page), page.unsearched) == ([], (Unsearched(("a",), "too slow to read"),))


async def test_unreadable_documents_are_not_a_failure() -> None:
    tree = Tree(
        {
            "a": Leaf(raises=ResourceTooLarge(size=9, limit=1, next={})),
            "b": Leaf(raises=InvalidParameter("ask something")),
            "c": Leaf(raises=ValueError("a defect")),
            "d": b"hello",
            "e": "hello",
        }
    )
    page = await catalog(tree).search("hello")
    assert ([hit.entry.uri for hit in page.hits], page.unavailable) == (["test://m0/e"], ())


async def test_unreadable_documents_are_found_only_by_name() -> None:
    class Kept(Tree):
        def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
            found = super().list(parent, after=after, limit=limit)
            return [msgspec.structs.replace(one, readable=False) for one in cast("Any", found)]

    page = await catalog(Kept({"a": "a"}), Tree({"a": "a"})).search("a", where="names")
    assert [hit.entry.uri for hit in page.hits] == ["test://m0/a", "test://m1/a"]
    page = await catalog(Kept({"a": "a"}), Tree({"a": "a"})).search("a", where="text")
    assert [hit.entry.uri for hit in page.hits] == ["test://m1/a"]


async def test_cancelling_a_search_cancels_its_pending_reads() -> None:
    gate = Gate()
    patient = catalog(Tree({"a": gate}), timing=Timing(search_s=60.0))
    task = asyncio.create_task(patient.search("x", where="text"))
    await gate.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gate.cancelled.wait(), PATIENCE_S)


async def test_no_page_is_fetched_after_the_deadline_of_names() -> None:
    class Counting(Tree):
        pages = 0

        def list(self, *args: Any, **options: Any) -> Any:
            self.pages += 1
            return super().list(*args, **options)

    tree = Counting({f"a{at}": "" for at in range(9)})
    page = await found(tree, "a", "names", time_s=0.0)
    assert (page.looked_at, tree.pages) == (2, 1)


async def test_a_count_of_more_lines_than_are_counted_is_not_exact() -> None:
    tree = Tree({"a": "x", "b": "x\n" * 12_000})
    mount = Mount("one", "test://one/", tree)
    await mount.start()
    request = SearchRequest(text="x", where="text", count_s=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    page = await search_mount(mount, request, below=(), after=None, limit=1, deadline=deadline)
    assert (page.beyond, page.is_counted) == (10_000, False)
