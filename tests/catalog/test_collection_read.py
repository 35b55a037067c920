from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.collection_read import SharedBudget
from resource_server.catalog.mount import Mount
from resource_server.catalog.read_result import ReadItem, content_size
from resource_server.errors import ConversionError, InvalidParameter, ResourceNotFound
from resource_server.provider import Content, MaybeAwaitable, Path, Resource, Truncation
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.providers_for_tests import Leaf, Node, Tree

pytestmark = pytest.mark.anyio


class RangedTree(Tree):
    """The same, with documents that take `bytes=0-15`, and that are never read whole."""

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        if "bytes" not in query:
            raise AssertionError("a document beyond its share was read whole")
        first, last = map(int, query["bytes"].split("-"))
        node = self.nodes[path[0]]
        assert isinstance(node, Leaf)
        length = last - first + 1
        following = {"bytes": f"{last + 1}-{last + length}"}
        truncated = Truncation("requested", "bytes", len(node.data), following)
        return [Content(node.data[first : last + 1], truncated=truncated)]


async def items_of(tree: Tree, uri: str = "test://0", **limits: object) -> Sequence[ReadItem]:
    catalog = Catalog([Mount("0", "test://0/", tree)], CatalogLimits(**limits))  # type: ignore[arg-type]
    await catalog.start()
    return (await catalog.read(uri)).items


def data_of(items: Sequence[ReadItem]) -> list[str | bytes | None]:
    return [item.content and item.content.data for item in items]


@for_each("sized", [True, False])
@for_each("text", ["x" * 60, "é" * 30, b"\x00" * 60])
async def test_a_document_beyond_its_share_is_returned_as_its_beginning(
    sized: bool, text: str | bytes
) -> None:
    node = Leaf(text, sized=sized)
    nodes: dict[str, Node] = {"a": node, "b": node, "c": Leaf("small", sized=sized), "d": {}}
    items = await items_of(Tree(nodes), collection_bytes=100)
    assert [item.entry.resource.path for item in items] == [("a",), ("b",), ("c",), ("d",)]
    contents = [item.content for item in items if item.content is not None]
    assert 70 <= sum(map(content_size, contents)) <= 100
    assert data_of(items)[2:] == ["small", None]
    for item in items[:2]:
        assert item.content is not None
        assert text.startswith(item.content.data)  # type: ignore[arg-type]
        assert item.content.truncated is None or (
            item.content.truncated == Truncation("limit", "bytes", 60)
            and item.next_uri == item.entry.uri
        )
    # Sizes that are not declared are guessed, so that a part of the budget may stay unused.
    whole = await items_of(Tree(nodes), collection_bytes=125 if sized else 4096)
    assert data_of(whole) == [text, text, "small", None]


async def test_a_document_that_takes_ranges_is_not_read_beyond_its_share() -> None:
    tree = RangedTree({"a": Leaf("x" * 5_000_000), "b": Leaf("y" * 5_000_000)})
    items = await items_of(tree, collection_bytes=100)
    assert data_of(items) == ["x" * 50, "y" * 50]
    assert items[0].content is not None
    following = {"bytes": "50-65585"}
    assert items[0].content.truncated == Truncation("limit", "bytes", 5_000_000, following)
    assert items[0].next_uri == "test://0/a?bytes=50-65585"


async def test_a_large_document_without_ranges_is_named_but_not_read() -> None:
    class Unranged(Tree):
        def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
            if query:
                raise InvalidParameter("no ranges")
            assert path == ("b",), "a large document was read whole"
            return [Content("small")]

    tree = Unranged({"a": "x" * 100_000, "b": "small"})
    first, second = await items_of(tree, collection_bytes=100)
    assert first.content == Content("", truncated=Truncation("limit", "bytes", 100_000))
    assert first.next_uri == "test://0/a"
    assert second.content == Content("small")


async def test_a_thousand_children_are_all_read() -> None:
    nodes: dict[str, Node] = {f"{n:04}": Leaf("text " * 100) for n in range(1000)}
    items = await items_of(Tree(nodes))
    assert len(items) == 1000
    sizes = [content_size(item.content) for item in items]
    assert min(sizes) >= 256
    assert sum(sizes) <= 256 * 1024


@for_each("budget", [1, 10])
async def test_no_document_is_shown_as_empty_by_a_tiny_budget(budget: int) -> None:
    items = await items_of(Tree({"a": "é" * 50, "b": "y" * 50, "c": ""}), collection_bytes=budget)
    assert data_of(items) == ["é" * 8, "y" * 16, ""]


async def test_links_take_the_place_of_blobs() -> None:
    nodes: dict[str, Node] = {"a": "text", "b": Leaf(b"\x89PNG", "image/png"), "c": b"\x00" * 500}
    items = await items_of(Tree(nodes), collection_bytes=100, links_to_binary=True)
    texts = data_of(items)
    assert texts[0] == "text"
    assert texts[1] == "# image/png, 4 bytes\r\ntest://0/b\r\n"
    assert items[1].content is not None
    assert items[1].content.mime_type == "text/uri-list"
    assert all(isinstance(text, str) for text in texts)


async def test_a_single_document_is_a_blob_all_the_same() -> None:
    (item,) = await items_of(Tree({"b": b"\x00"}), "test://0/b", links_to_binary=True)
    assert item.content == Content(b"\x00")


async def test_an_empty_collection_has_no_items_but_itself() -> None:
    catalog = Catalog([Mount("0", "test://0/", Tree({"a": {}}))])
    await catalog.start()
    reading = await catalog.read("TEST://0/%61/")
    assert reading.items == []
    assert reading.complete
    assert reading.itself is not None
    assert (reading.itself.uri, reading.itself.entry.uri) == ("TEST://0/%61/", "test://0/a")


async def test_a_hidden_child_is_not_told_of() -> None:
    class Hiding(Tree):
        def metadata(self, path: Path) -> Resource:
            if path == ("secret",):
                raise ResourceNotFound
            resource = super().metadata(path)
            assert isinstance(resource, Resource)
            return resource

        def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
            found = super().list(parent, after=after, limit=limit)
            assert isinstance(found, list)
            return [each for each in found if each.path != ("secret",)]

    items = await items_of(Hiding({"a": "text", "secret": "x" * 90}), collection_bytes=4)
    assert data_of(items) == ["text"]


async def test_ranges_are_tried_once_where_there_are_none() -> None:
    class Counting(Tree):
        refused = 0

        def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
            if query:
                self.refused += 1
                raise InvalidParameter("no ranges")
            return [Content("x" * 90)]

    tree = Counting({"a": "x" * 90, "b": "x" * 90, "c": "x" * 90})
    items = await items_of(tree, collection_bytes=100)
    assert tree.refused == 1
    assert [content_size(item.content) for item in items] == [34, 33, 33]


@given(
    sizes=st.lists(st.integers(0, 500) | st.none(), max_size=30),
    true_sizes=st.lists(st.integers(0, 5000), min_size=30, max_size=30),
    budget=st.integers(1, 3000),
)
def test_shares_use_the_budget_and_do_not_exceed_it(
    sizes: list[int | None], true_sizes: list[int], budget: int
) -> None:
    shared = SharedBudget(sizes, budget)
    spent, least = 0, 16 * len(sizes)
    for size, true_size in zip(sizes, true_sizes, strict=False):
        taken = min(true_size if size is None else size, shared.next())
        shared.spend(taken)
        spent += taken
    assert spent <= budget + least
    if None not in sizes and sum(size or 0 for size in sizes) <= budget:
        assert spent == sum(size or 0 for size in sizes)


class Converting(Tree):
    """Documents that are no text and can be read as Markdown; `broken` and `slow` cannot."""

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        if "format" not in query:
            return super().read(path, {})
        if path[-1] == "slow":
            return self._never()
        if path[-1] == "broken":
            raise ConversionError("this document cannot be converted: it is damaged")
        if path[-1] == "nothing":
            raise InvalidParameter("the document has no such pages")
        text = f"# {path[-1]}\n" + "word " * 100
        if "bytes" not in query or path[-1] == "whole":
            if "bytes" in query:
                raise InvalidParameter("no ranges")
            return [Content(text, "text/markdown")]
        last = int(query["bytes"].partition("-")[2])
        rest = Truncation("requested", "bytes", len(text), {"bytes": f"{last + 1}-"})
        is_all = last + 1 >= len(text)
        return [Content(text[: last + 1], "text/markdown", None if is_all else rest)]

    async def _never(self) -> Sequence[Content]:
        await asyncio.Event().wait()
        return ()


def paper(size: int = 200) -> Leaf:
    formats = {"markdown": ""}
    return Leaf(b"%PDF" + b"\0" * (size - 4), "application/pdf", formats=formats)


async def test_a_document_that_is_no_text_is_read_as_text() -> None:
    first, second, third = await items_of(Converting({"a": paper(), "b": "text", "whole": paper()}))
    assert data_of([first, second, third]) == [
        "# a\n" + "word " * 100,
        "text",
        "# whole\n" + "word " * 100,
    ]
    assert first.content is not None
    assert first.content.mime_type == "text/markdown"
    assert first.uri == first.entry.uri == "test://0/a"
    assert first.next_uri is None


@pytest.mark.guarantee("nothing-is-silently-short")
@for_each(("name", "read_on"), [("a", "&bytes=100-65635"), ("whole", "")])
async def test_converted_text_beyond_the_budget_says_how_to_read_on(
    name: str, read_on: str
) -> None:
    (item,) = await items_of(Converting({name: paper()}), collection_bytes=100)
    assert item.content is not None
    assert (f"# {name}\n" + "word " * 100).startswith(str(item.content.data))
    assert content_size(item.content) == 100
    assert item.content.truncated is not None
    assert item.content.truncated.reason == "limit"
    assert item.next_uri == f"test://0/{name}?format=markdown{read_on}"


@for_each("name", ["broken", "nothing"])
async def test_a_document_that_cannot_be_converted_is_read_as_it_is(name: str) -> None:
    nodes: dict[str, Node] = {name: paper(), "z": "text"}
    first, second = await items_of(Converting(nodes))
    assert data_of([first, second]) == [paper().data, "text"]


@for_each("count", [1, 5])
async def test_a_slow_conversion_is_replaced_by_a_link_and_the_others_are_read(count: int) -> None:
    names = ["slow", *(f"t{n}" for n in range(count))]
    nodes: dict[str, Node] = {"slow": paper(), **dict.fromkeys(names[1:], "text")}
    mount = Mount("0", "test://0/", Converting(nodes))
    catalog = Catalog([mount], timing=Timing(listing_s=1.0))
    await catalog.start()
    found = await catalog.read("test://0")
    assert found.complete
    assert found.is_shortened
    slow, *others = found.items
    assert data_of(others) == ["text"] * count
    assert slow.content is not None
    assert slow.content.data == "# application/pdf, 200 bytes\r\ntest://0/slow?format=markdown\r\n"
    assert slow.content.truncated == Truncation("deadline", "bytes")
    assert slow.next_uri == "test://0/slow?format=markdown"
