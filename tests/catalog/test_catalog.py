from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server import uris
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.cursor import ListCursor, ListingState
from resource_server.catalog.global_listing import ListPage
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceServerError,
)
from resource_server.provider import Content, Path, Provider, Resource, Template
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search.name_match import MAX_COMPLETIONS
from tests.cases import for_each
from tests.providers_for_tests import (
    Broken,
    FetchingTree,
    Folder,
    Gate,
    Leaf,
    LevelTree,
    Node,
    SlowTree,
    Tree,
)
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

TREES = pytest.mark.parametrize("tree", [Tree, SlowTree, LevelTree, FetchingTree])
NODES: dict[str, Node] = {
    "a": "text of a",
    "b": {"c": {"d": "text of d"}, "e": "text of e", "empty": {}},
    "f g": b"\x00",
    "secret": Folder({"h": "text of h"}),
    "z": Leaf("unlisted", listed=False),
}


async def catalog_of(
    *providers: Provider, timing: Timing = DEFAULT_TIMING, **limits: Any
) -> Catalog:
    """Return a catalog of mounts `test://0`, `test://1`, ..."""
    mounts = [Mount(str(n), f"test://{n}/", provider) for n, provider in enumerate(providers)]
    catalog = Catalog(mounts, CatalogLimits(**limits), timing)
    await catalog.start()
    return catalog


def uris_of(page: ListPage) -> list[str]:
    return [entry.uri for entry in page.entries]


async def pages(catalog: Catalog, uri: str | None = None) -> list[list[str]]:
    """Return the URIs of every page of a listing."""
    page = await catalog.list(uri)
    found = [uris_of(page)]
    while page.next_cursor is not None:
        assert len(found) < 1000, "the listing has no end"
        page = await catalog.list(uri, page.next_cursor)
        found.append(uris_of(page))
    return found


async def listed(catalog: Catalog, uri: str | None = None) -> list[str]:
    return [uri for page in await pages(catalog, uri) for uri in page]


# -- routing


@pytest.fixture
async def nested() -> Catalog:
    catalog = Catalog(
        [
            Mount("outer", "test://site/", Tree({"inner": {"a": "outer's"}, "a": "outer's"})),
            Mount("inner", "test://site/inner/", Tree({"a": "inner's"})),
            Mount("file", "file:///project/", Tree({"a": "file's"})),
        ]
    )
    await catalog.start()
    return catalog


@pytest.mark.parametrize(
    ("uri", "mount", "path"),
    [
        ("test://site/a", "outer", ("a",)),
        ("test://site/inner/a", "inner", ("a",)),
        ("test://site/inner", "inner", ()),
        ("test://site/inner/", "inner", ()),
        ("test://site/innermost", "outer", ("innermost",)),
        ("test://site", "outer", ()),
        ("test://site/", "outer", ()),
        ("TEST://SITE/%61", "outer", ("a",)),
        ("file:///project/a", "file", ("a",)),
        ("file://localhost/project/a", "file", ("a",)),
        ("file:/project/a", "file", ("a",)),
    ],
)
async def test_a_uri_belongs_to_the_mount_with_the_longest_base(
    nested: Catalog, uri: str, mount: str, path: Path
) -> None:
    found, below, _ = nested.route(uri)
    assert (found.name, below) == (mount, path)


@pytest.mark.parametrize(
    "uri",
    ["test://sites/a", "test://site.a", "file:///", "file:///projects/a", "file://host/project/a"],
)
async def test_a_uri_outside_every_base_is_not_found(nested: Catalog, uri: str) -> None:
    with pytest.raises(ResourceNotFound):
        nested.route(uri)


async def test_listings_return_canonical_uris_for_every_spelling(nested: Catalog) -> None:
    assert uris_of(await nested.list("TEST://SITE/%69nner/")) == ["test://site/inner/a"]
    assert (await nested.metadata("test://Site/%61/")).uri == "test://site/a"


async def test_contents_keep_the_requested_uri_and_children_have_their_own() -> None:
    catalog = await catalog_of(Tree(NODES))
    reading = await catalog.read("TEST://0/%61")
    assert [body.uri for body in reading.items] == ["TEST://0/%61"]
    reading = await catalog.read("TEST://0/%62/")
    assert [body.uri for body in reading.items] == [
        "test://0/b/c",
        "test://0/b/e",
        "test://0/b/empty",
    ]


# -- listing


@TREES
@pytest.mark.parametrize("size", [*range(1, 12), 100])
async def test_children_are_the_same_for_every_page_size(tree: type[Tree], size: int) -> None:
    nodes = {f"{n:02}": "" for n in range(10)}
    found = await pages(await catalog_of(tree(nodes), page_size=size), "test://0")
    assert [uri for page in found for uri in page] == [f"test://0/{n:02}" for n in range(10)]
    assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)
    assert len(found) == -(-10 // size)


@TREES
@pytest.mark.parametrize("size", [*range(1, 20), 100])
async def test_listings_are_the_same_for_every_page_size(tree: type[Tree], size: int) -> None:
    catalog = await catalog_of(
        tree(NODES), tree({}), tree({"y": "", "x": {"w": ""}}), page_size=size
    )
    whole = overview(tree, NODES, {}, {"y": "", "x": {"w": ""}})
    found = await pages(catalog)
    assert [uri for page in found for uri in page] == whole
    assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)
    assert len(found) == -(-len(whole) // size)


def paths(nodes: Mapping[str, Node], *, below: Path = ()) -> list[tuple[Path, bool]]:
    """Return what a global listing holds of a tree, by name, and whether each is a document."""
    found: list[tuple[Path, bool]] = []
    for name, node in sorted(nodes.items()):
        if not isinstance(node, Folder) and not (isinstance(node, Leaf) and not node.listed):
            found.append(((*below, name), not isinstance(node, Mapping)))
            if isinstance(node, Mapping):
                found += paths(node, below=(*below, name))
    return found


def overview(tree: type[Tree], *nodes: Mapping[str, Node]) -> list[str]:
    """Return the URIs of a global listing in order: mounts, then level by level.

    The collections of a level come first if the tree can tell them apart.
    """
    found = [((), False, n) for n in range(len(nodes))]
    for n, each in enumerate(nodes):
        found += [(path, is_document, n) for path, is_document in paths(each)]
    apart = tree is LevelTree
    found.sort(key=lambda one: (len(one[0]), apart and one[1], one[2], one[0]))
    return [uris.join(f"test://{n}/", path) for path, _, n in found]


TREE_STRATEGY = st.recursive(
    st.just(""),
    lambda inner: (
        st.dictionaries(st.sampled_from("abcde"), inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcde"), inner, max_size=3).map(Folder)
    ),
    max_leaves=12,
)


@given(
    nodes=st.lists(
        st.dictionaries(st.sampled_from("abcde"), TREE_STRATEGY, max_size=4), max_size=3
    ),
    size=st.integers(1, 8),
    tree=st.sampled_from([Tree, LevelTree]),
)
def test_any_trees_are_listed_level_by_level_in_pages_without_gap_or_repetition(
    nodes: list[dict[str, Node]], size: int, tree: type[Tree]
) -> None:
    async def check() -> None:
        made = [tree(node) for node in nodes]
        found = await pages(await catalog_of(*made, page_size=size))
        assert [uri for page in found for uri in page] == overview(tree, *nodes)
        assert all(len(page) == size for page in found[:-1])

    asyncio.run(check())


@TREES
async def test_resources_deleted_between_pages_leave_no_gap(tree: type[Tree]) -> None:
    nodes: dict[str, Node] = {"a": {"x": "", "y": ""}, "b": "", "c": ""}
    catalog = await catalog_of(tree(nodes), page_size=2)
    first = await catalog.list()
    assert uris_of(first) == ["test://0", "test://0/a"]
    del nodes["a"]
    nodes["aa"] = "new"
    second = await catalog.list(None, first.next_cursor)
    assert uris_of(second) == ["test://0/aa", "test://0/b"]
    assert uris_of(await catalog.list(None, second.next_cursor)) == ["test://0/c"]
    children = await catalog.list("test://0")
    del nodes["b"]
    assert uris_of(await catalog.list("test://0", children.next_cursor)) == ["test://0/c"]


@TREES
@pytest.mark.parametrize("then", [None, "now a document"])
async def test_a_collection_that_is_gone_ends_its_listing(
    tree: type[Tree], then: str | None
) -> None:
    nodes: dict[str, Node] = {"a": {"x": "", "y": "", "z": ""}, "b": {"w": ""}}
    catalog = await catalog_of(tree(nodes), page_size=2)
    first = await catalog.list()
    second = await catalog.list(None, first.next_cursor)
    assert uris_of(second) == ["test://0/b", "test://0/a/x"]
    del nodes["a"]
    nodes |= {} if then is None else {"a": then}
    assert uris_of(await catalog.list(None, second.next_cursor)) == ["test://0/b/w"]


async def test_an_unlisted_mount_is_served_but_not_listed() -> None:
    mounts = [
        Mount("a", "test://a/", Tree({"x": ""}), listed=False),
        Mount("b", "test://b/", Tree({})),
    ]
    catalog = Catalog(mounts)
    await catalog.start()
    assert await listed(catalog) == ["test://b"]
    assert await listed(catalog, "test://a") == ["test://a/x"]


async def test_unlisted_resources_are_still_children_of_their_parent() -> None:
    catalog = await catalog_of(Tree(NODES))
    assert await listed(catalog) == overview(Tree, NODES)
    assert "test://0/secret" in await listed(catalog, "test://0")
    assert await listed(catalog, "test://0/secret") == ["test://0/secret/h"]


async def test_a_catalog_without_mounts_lists_nothing() -> None:
    assert await pages(await catalog_of()) == [[]]


@TREES
async def test_a_document_has_no_children(tree: type[Tree]) -> None:
    catalog = await catalog_of(tree(NODES))
    with pytest.raises(NotACollection):
        await catalog.list("test://0/a")


# -- cursors


@pytest.fixture
async def paged() -> Catalog:
    return await catalog_of(Tree(NODES), Tree(NODES), page_size=1)


def forged(scope: str, mount: str, *path: str) -> str:
    return ListCursor(scope, mount, path).encode()


async def test_a_cursor_of_one_listing_is_invalid_in_another(paged: Catalog) -> None:
    cursors = {
        uri: (await paged.list(uri)).next_cursor
        for uri in (None, "test://0", "test://0/b", "test://1")
    }
    assert None not in cursors.values()
    for uri in cursors:
        for other, after in cursors.items():
            if uri == other:
                assert await paged.list(uri, after)
            else:
                with pytest.raises(InvalidParameter):
                    await paged.list(uri, after)
    with pytest.raises(InvalidParameter):
        await paged.templates(cursors[None])


async def test_a_cursor_is_valid_for_every_spelling_of_its_collection(paged: Catalog) -> None:
    after = (await paged.list("test://0/b")).next_cursor
    assert uris_of(await paged.list("TEST://0/%62/", after)) == ["test://0/b/e"]


@pytest.mark.parametrize("after", ["x", "AAAA", "é", "=" * 9, "a" * 100_000])
async def test_a_malformed_cursor_is_refused(paged: Catalog, after: str) -> None:
    for uri in (None, "test://0"):
        with pytest.raises(InvalidParameter):
            await paged.list(uri, after)
    with pytest.raises(InvalidParameter):
        await paged.templates(after)


async def test_a_cursor_of_a_removed_mount_is_refused(paged: Catalog) -> None:
    assert uris_of(await paged.list(None, forged("", "1"))) == ["test://0/a"]
    with pytest.raises(InvalidParameter):
        await paged.list(None, forged("", "2"))
    with pytest.raises(InvalidParameter):
        await paged.list("test://0", forged("test://0", "2", "a"))


async def test_a_forged_cursor_exposes_nothing_a_listing_would_not(paged: Catalog) -> None:
    for path, expected in (
        (("zzz",), "test://1/a"),
        (("zzz", "zzz"), "test://1/b/c"),
        (("a", "x", "y"), "test://0/b/c/d"),
        (("b", "nothing", "x"), "test://1/b/c/d"),
        (("secret", "a"), "test://0/secret/h"),
    ):
        at_documents = ListingState(is_at_documents=True, has_collections=True)
        after = ListCursor("", "0", path, at_documents).encode()
        assert uris_of(await paged.list(None, after)) == [expected]
    with pytest.raises(InvalidParameter):
        await paged.list("test://0", forged("test://0", "0"))


async def test_pages_end_at_any_template() -> None:
    names = ("a", "a/b", ".", "é")
    shapes = [Template(f"{name}/{{key}}{{?at}}", name="row") for name in names]
    catalog = await catalog_of(Broken(templates=shapes), Tree({}), page_size=1)
    page = await catalog.templates()
    told = [*page.templates]
    while page.next_cursor is not None:
        assert len(told) < 9, "the listing has no end"
        page = await catalog.templates(page.next_cursor)
        told += page.templates
    assert [shape.uri_template for shape in told] == [
        *(f"test://0/{shape.uri_template}" for shape in shapes),
        "test://1/{+path}",
    ]


async def test_templates_are_paged_across_mounts() -> None:
    catalog = await catalog_of(Tree({}), Tree({}), Tree({}), page_size=2)
    first = await catalog.templates()
    assert [shape.uri_template for shape in first.templates] == [
        "test://0/{+path}",
        "test://1/{+path}",
    ]
    assert first.next_cursor is not None
    second = await catalog.templates(first.next_cursor)
    assert [shape.uri_template for shape in second.templates] == ["test://2/{+path}"]
    assert second.next_cursor is None
    with pytest.raises(InvalidParameter):
        await catalog.templates(forged("templates", "0", "{gone}"))


# -- mounts that fail


class Lived(Tree):
    entered = left = 0

    async def __aenter__(self) -> None:
        self.entered += 1

    async def __aexit__(self, *_: object) -> None:
        self.left += 1


class Fallen(Tree):
    async def __aenter__(self) -> None:
        raise MountUnavailable("the disk is gone")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError


def raising(error: BaseException) -> Broken:
    def fail(*_: object, **__: object) -> None:
        raise error

    return Broken(list=fail, metadata=fail)


async def test_a_mount_that_cannot_start_is_left_out_of_the_listing_and_named() -> None:
    catalog = await catalog_of(Tree({"a": ""}), Fallen({"b": ""}), Tree({"c": ""}))
    page = await catalog.list()
    assert uris_of(page) == ["test://0", "test://2", "test://0/a", "test://2/c"]
    assert page.unavailable == ("1",)
    with pytest.raises(ResourceBusy):
        await catalog.read("test://1/b")
    assert await catalog.read("test://2/c")


@for_each("error", [ResourceBusy(), ValueError("x"), ResourceNotFound(), asyncio.CancelledError()])
@for_each("size", [1, 2, 3, 100])
async def test_a_failing_mount_is_left_out_of_every_page(error: BaseException, size: int) -> None:
    catalog = await catalog_of(raising(error), Tree({"a": ""}), raising(error), page_size=size)
    assert await listed(catalog) == ["test://1", "test://1/a"]
    assert (await catalog.list()).unavailable[0] == "0"


async def test_cancelling_a_listing_cancels_its_pending_provider_call() -> None:
    gate = Gate()

    class Waiting(Tree):
        async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
            return await gate.wait()

    catalog = await catalog_of(Waiting({}), Tree({"a": ""}))
    task = asyncio.ensure_future(catalog.list())
    await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.cancelled.is_set()


class Hanging(Tree):
    """Does not list anything, and does not end when it is cancelled."""

    released: asyncio.Event

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        return []


async def test_a_hanging_mount_is_left_out_of_the_listing_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging = Hanging({})
    hanging.released = asyncio.Event()
    trees = Tree({"a": ""}), hanging, SlowTree({"c": ""})
    catalog = await catalog_of(*trees, timing=Timing(listing_s=0.05))
    page = await asyncio.wait_for(catalog.list(), PATIENCE_S)
    assert uris_of(page) == ["test://0", "test://2", "test://0/a", "test://2/c"]
    assert page.unavailable == ("1",)
    assert caplog.messages == ["listing mount 1 failed: no answer within 0.05 s"]
    hanging.released.set()


async def test_start_returns_the_mounts_that_cannot_serve() -> None:
    mounts = [Mount("a", "test://a/", Tree({})), Mount("b", "test://b/", Fallen({}))]
    assert await Catalog(mounts).start() == {"b": "the disk is gone"}


async def test_a_mount_is_started_by_the_first_request_for_it() -> None:
    provider = Lived({"x": ""})
    catalog = Catalog([Mount("a", "test://a/", provider)])
    assert (await catalog.metadata("test://a/x")).resource.name == "x"
    assert provider.entered == 1


# -- providers that break the contract


def child(*path: str, kind: Any = "document", **more: Any) -> Resource:
    return Resource(path=path, name="x", type=kind, **more)


WRONG_CHILDREN: list[object] = [
    None,
    5,
    "text",
    [None],
    [{"path": ["a"]}],
    [child()],
    [child("elsewhere", "a")],
    [child("a", "b")],
    [child("..", "..", "etc")],
]


@pytest.mark.parametrize("wrong", WRONG_CHILDREN)
async def test_invalid_children_fail_only_their_mount(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = await catalog_of(Broken(list=lambda *_, **__: wrong), Tree({"a": ""}))
    for reading in (catalog.list("test://0"), catalog.read("test://0")):
        with pytest.raises(Exception):  # noqa: B017, PT011
            await reading
    page = await catalog.list()
    assert uris_of(page) == ["test://1", "test://1/a"]
    assert page.unavailable == ("0",)
    assert "listing mount 0 failed" in caplog.text


@for_each("wrong", [None, 5, {"path": ()}])
async def test_invalid_mount_metadata_fails_only_that_mount(wrong: object) -> None:
    catalog = await catalog_of(Tree({"a": ""}), Broken(metadata=lambda _: wrong))
    page = await catalog.list()
    assert uris_of(page) == ["test://0", "test://0/a"]
    assert page.unavailable == ("1",)


async def test_surplus_children_are_dropped() -> None:
    many = [child(f"{n:03}") for n in range(50)]
    catalog = await catalog_of(
        Broken(list=lambda *_, **__: many), page_size=10, collection_children=10
    )
    assert len(uris_of(await catalog.list("test://0"))) == 10
    assert len(uris_of(await catalog.list())) == 10


@for_each("kind", ["document", "collection"])
@for_each("shown", [True, False])
@for_each("size", [1, 2, 3])
async def test_a_listing_that_ignores_its_cursor_terminates(
    kind: str, shown: bool, size: int
) -> None:
    """With unlisted children it would be an endless loop, with listed ones endless pages."""

    def list(parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        if parent and kind == "document":
            raise NotACollection
        return [child(*parent, str(n), kind=kind, listed=shown) for n in range(limit)]

    catalog = await catalog_of(Broken(list=list), Tree({"a": ""}), page_size=size)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ResourceServerError, match="`after` again"):
            await pages(catalog, "test://0")
        if kind == "document" or not shown:
            found = await listed(catalog)
            assert "test://1" in found
            assert found[-1] == "test://1/a"


async def test_a_level_that_ignores_its_cursor_terminates() -> None:
    class Forgetful(LevelTree):
        def level(self, depth: int, type: Any, *, after: Path | None, limit: int) -> Any:
            return super().level(depth, type, after=None, limit=limit)

    nodes = {"a": "", "b": "", "c": ""}
    catalog = await catalog_of(Forgetful(nodes), Tree({"z": ""}), page_size=2)
    assert (await listed(catalog))[-1] == "test://1/z"


async def test_failing_templates_affect_only_their_mount(
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalog = await catalog_of(Broken(templates=ValueError("x")), Broken(templates=5), Tree({}))
    page = await catalog.templates()
    assert [shape.uri_template for shape in page.templates] == ["test://2/{+path}"]
    assert (await catalog.complete("test://2/{+path}", "path", "")).total == 0
    assert "templates of mount 0 failed" in caplog.text


# -- reading a document


@TREES
async def test_a_document_is_read_in_its_preferred_format(tree: type[Tree]) -> None:
    node = Leaf("plain", formats={"html": "<p>", "csv": "p"})
    catalog = await catalog_of(tree({"a": node}))
    (body,) = (await catalog.read("test://0/a")).items
    assert body.content == Content("plain")
    (body,) = (await catalog.read("test://0/a?format=csv")).items
    assert body.content == Content("p", "text/csv")


async def test_the_first_of_several_contents_is_preferred() -> None:
    provider = Broken(read=lambda *_: [Content("first"), Content("second")])
    (body,) = (await (await catalog_of(provider)).read("test://0/a")).items
    assert body.content == Content("first")
    inline = await (await catalog_of(provider, alternatives=True)).read("test://0/a")
    assert [body.content for body in inline.items] == [Content("first"), Content("second")]


@TREES
async def test_alternatives_follow_inline_if_the_manifest_enables_them(tree: type[Tree]) -> None:
    node = Leaf("plain", formats={"html": "<p>", "csv": "p"})
    catalog = await catalog_of(tree({"a": node}), alternatives=True)
    reading = await catalog.read("test://0/a")
    assert [body.uri for body in reading.items] == ["test://0/a"] * 3
    assert [body.content for body in reading.items] == [
        Content("plain"),
        Content("<p>", "text/html"),
        Content("p", "text/csv"),
    ]
    assert len((await catalog.read("test://0/a?format=csv")).items) == 1


async def test_an_unusable_query_is_refused() -> None:
    catalog = await catalog_of(Tree(NODES))
    for uri in ("test://0/a?x=1", "test://0/a?format=pdf", "test://0/b?lines=1", "test://0?x"):
        with pytest.raises(InvalidParameter):
            await catalog.read(uri)


async def test_reading_on_keeps_the_format_and_the_canonical_uri() -> None:
    catalog = await catalog_of(Tree({"a b": "1\n2\n3\n"}))
    (body,) = (await catalog.read("TEST://0/a%20%62?lines=1")).items
    assert body.next_uri == "test://0/a%20b?lines=3"


# -- reading a collection


@TREES
async def test_a_collection_is_read_as_its_children_with_their_contents(tree: type[Tree]) -> None:
    catalog = await catalog_of(tree(NODES))
    reading = await catalog.read("test://0")
    assert reading.complete
    assert [(body.uri, body.content and body.content.data) for body in reading.items] == [
        ("test://0/a", "text of a"),
        ("test://0/b", None),
        ("test://0/f%20g", b"\x00"),
        ("test://0/secret", None),
        ("test://0/z", "unlisted"),
    ]


@TREES
@pytest.mark.parametrize(("children", "complete"), [(5, True), (4, False), (1, False)])
async def test_a_collection_read_is_limited_in_children(
    tree: type[Tree], children: int, complete: bool
) -> None:
    catalog = await catalog_of(tree(NODES), collection_children=children)
    reading = await catalog.read("test://0")
    assert (len(reading.items), reading.complete) == (children, complete)


WRONG_CONTENTS: list[object] = [
    None,
    5,
    [],
    [None],
    ["text"],
    [Content(5)],  # type: ignore[arg-type]
    [Content("\udcff")],
]


@pytest.mark.parametrize("wrong", WRONG_CONTENTS)
async def test_a_child_with_an_invalid_read_result_is_left_out(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    def read(path: Path, _: object) -> object:
        return wrong if path == ("a",) else [Content("fine")]

    provider = Broken(list=lambda *_, **__: [child("a"), child("b")], read=read)
    reading = await (await catalog_of(provider)).read("test://0")
    assert [body.uri for body in reading.items] == ["test://0/b"]
    assert "could not be read" in caplog.text


@pytest.mark.parametrize(
    "error", [ValueError("x"), ResourceNotFound(), ResourceBusy(), asyncio.CancelledError()]
)
async def test_a_child_that_fails_is_left_out(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = await catalog_of(Tree({"a": Leaf(raises=error), "b": "fine"}))
    with caplog.at_level(logging.INFO):
        reading = await catalog.read("test://0")
    assert [body.uri for body in reading.items] == ["test://0/b"]
    assert "could not be read" in caplog.text


async def test_a_child_that_hangs_marks_the_read_of_its_collection_as_truncated() -> None:
    gate = Gate()
    tree = Tree({"a": "first", "b": gate, "c": "never read", "d": {}})
    mount = Mount("docs", "test://docs/", tree)
    async with Catalog([mount], timing=Timing(listing_s=0.05)) as catalog:
        reading = await asyncio.wait_for(catalog.read("test://docs/"), PATIENCE_S)
    notes = [item.content and item.content.truncated for item in reading.items]
    assert [item.entry.resource.name for item in reading.items] == ["a", "b", "c", "d"]
    assert [note and note.reason for note in notes] == [None, "deadline", "deadline", None]
    assert not reading.complete


@for_each(
    ("method", "uri"),
    [
        ("list", "test://docs/"),
        ("metadata", "test://docs/a"),
        ("read", "test://docs/a"),
        ("read", "test://docs/"),
    ],
)
async def test_a_call_that_hangs_is_given_up(method: str, uri: str) -> None:
    class Hanging(Tree):
        async def metadata(self, path: Path) -> Resource:
            if path and method == "metadata":
                await asyncio.Event().wait()
            return await SlowTree(self.nodes).metadata(path)

        async def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
            await asyncio.Event().wait()

        async def read(self, path: Path, query: Mapping[str, str]) -> Any:
            await asyncio.Event().wait()

    timing = Timing(call_s=0.05)
    mount = Mount("docs", "test://docs/", Hanging({"a": "text"}), timing=timing)
    async with Catalog([mount], timing=timing) as catalog:
        with pytest.raises(MountUnavailable, match="no answer within"):
            await asyncio.wait_for(getattr(catalog, method)(uri), PATIENCE_S)


async def test_reading_a_collection_can_be_cancelled() -> None:
    gate = Gate()
    catalog = await catalog_of(Tree({"a": gate, "b": "fine"}))
    task = asyncio.ensure_future(catalog.read("test://0"))
    await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.cancelled.is_set()


async def test_a_name_whose_spelling_was_not_looked_for_is_refused_with_the_way_to_it() -> None:
    tree = Tree({"docs": {"Cafe\u0301": "text", "plain": "text"}})
    catalog = await catalog_of(tree, timing=Timing(listing_s=0))
    with pytest.raises(ResourceNotFound) as refused:
        await catalog.read("test://0/docs/Caf\u00e9")
    assert str(refused.value) == (
        "resource not found as it is written, and not all names in test://0/docs were compared in "
        "time; list that collection for its spelling"
    )
    with pytest.raises(ResourceNotFound, match=r"^resource not found$"):
        await catalog.read("test://0/docs/absent")


# -- completion


async def completed(catalog: Catalog, value: str, **given: str) -> list[str]:
    return list((await catalog.complete("test://0/{+path}", "path", value, given)).values)


@TREES
async def test_completions_with_the_typed_prefix_are_first(tree: type[Tree]) -> None:
    catalog = await catalog_of(tree({"Readme": "", "read": "", "other": "", "xread": {}}))
    assert await completed(catalog, "read") == ["read", "Readme", "other", "xread/"]


class ListingCounter(Tree):
    listings = 0

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Any:
        self.listings += 1
        return super().list(parent, after=after, limit=limit)

    def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Any:
        found: Any = super().complete(variable, value, given=given)
        return [path for path in found if path.startswith(value)]


async def test_a_completion_in_a_collection_as_it_is_listed_does_not_list_it() -> None:
    tree = ListingCounter({"a b": {"c": ""}, "Cafe\u0301": {"d": ""}})
    catalog = await catalog_of(tree)
    assert await completed(catalog, "a b/x") == await completed(catalog, "Cafe\u0301/x") == []
    assert await completed(catalog, "no/x") == await completed(catalog, "é/../x") == []
    assert tree.listings == 0
    assert await completed(catalog, "a b/") == ["a b/c"]


async def test_completions_of_paths_are_plain_for_plain_and_encoded_input() -> None:
    catalog = await catalog_of(Tree({"a b": {"c#d": "", "é": ""}}))
    assert await completed(catalog, "a b/") == ["a b/é", "a b/c%23d"]
    assert await completed(catalog, "a%20b/") == ["a b/é", "a b/c%23d"]


async def test_a_name_with_a_percent_sign_is_completed_in_both_spellings() -> None:
    catalog = await catalog_of(Tree({"a b.md": "", "a%20b.md": "", "%": {"a%20b.md": ""}}))
    assert await completed(catalog, "a%20b.m") == ["a b.md", "a%2520b.md", "%25/"]
    assert await completed(catalog, "a%2520b.m") == ["a%2520b.md", "%25/", "a b.md"]
    assert await completed(catalog, "%25/a%20b") == ["%25/a%2520b.md"]
    assert await completed(catalog, "%/a%20b") == ["%25/a%2520b.md"]
    found = await catalog.complete("test://0/{+path}", "path", "a%20b.m")
    assert found.total == len(found.values)


async def test_a_completed_template_is_a_served_uri() -> None:
    catalog = await catalog_of(Tree({"100% \udcff?": "text"}))
    (value,) = await completed(catalog, "100")
    assert (await catalog.metadata(f"test://0/{value}")).resource.path == ("100% \udcff?",)


async def test_a_missing_collection_has_no_completions() -> None:
    catalog = await catalog_of(Tree({"a": ""}))
    assert await completed(catalog, "nowhere/x") == []


async def test_a_value_too_long_for_a_uri_is_not_completed() -> None:
    class Counting(Tree):
        asked = 0

        def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Sequence[str]:
            self.asked += 1
            return ()

    tree = Counting({})
    catalog = await catalog_of(tree)
    assert await completed(catalog, "a" * (uris.MAX_URI_LENGTH + 1)) == []
    assert tree.asked == 0
    await completed(catalog, "a" * uris.MAX_URI_LENGTH)
    assert tree.asked == 1


async def test_very_many_completions_are_ranked_off_the_loop() -> None:
    ranked_in: set[str] = set()

    class Noting(str):
        def startswith(self, *args: Any) -> bool:
            ranked_in.add(threading.current_thread().name)
            return super().startswith(*args)

    class Many(Tree):
        def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Sequence[str]:
            return [Noting(f"{number:05}") for number in range(10_000)]

    completion = await (await catalog_of(Many({}))).complete("test://0/{+path}", "path", "2")
    assert completion.total == 10_000
    assert ranked_in
    assert threading.current_thread().name not in ranked_in


async def test_completions_are_counted_and_truncated() -> None:
    catalog = await catalog_of(Tree({f"{n:03}": "" for n in range(250)}))
    completion = await catalog.complete("test://0/{+path}", "path", "2")
    assert len(completion.values) == MAX_COMPLETIONS
    assert completion.total == 250
    assert completion.values[0] == "200"


async def test_completion_receives_the_values_given_so_far() -> None:
    class Rows(Tree):
        templates = (Template("{table}/{key}{?lines}", name="row"),)

        def complete(self, variable: str, value: str, *, given: Any) -> Any:
            return [f"{variable} {given} {value}", f"{variable} {given} {value}"]

    catalog = await catalog_of(Rows({}))
    completion = await catalog.complete(
        "test://0/{table}/{key}{?lines}", "key", "5%20", {"table": "t"}
    )
    assert completion.values == ["key {'table': 't'} 5%20"]
    assert completion.total == 1


async def test_the_path_given_to_a_completion_may_be_plain_or_encoded() -> None:
    class Members(Tree):
        templates = (Template("{+path}?member={member}", name="member"),)

        def complete(self, variable: str, value: str, *, given: Any) -> Any:
            return [f"of {given['path']}"] if given["path"] in ("a b", "c%20d") else []

    catalog = await catalog_of(Members({}))
    for path, found in (
        ("a b", ["of a b"]),
        ("a%20b", ["of a b"]),
        ("c%2520d", ["of c%20d"]),
        ("c%20d", ["of c%20d"]),
        ("x%20y", []),
    ):
        form = "test://0/{+path}?member={member}"
        assert (await catalog.complete(form, "member", "", {"path": path})).values == found


async def test_optional_uri_parameters_are_completed_and_not_in_the_template() -> None:
    class Paged(Tree):
        templates = (Template("{+path}?from={from}", name="page", optional=("format",)),)

        def complete(self, variable: str, value: str, *, given: Any) -> Any:
            return [f"{variable}-{value}"]

    catalog = await catalog_of(Paged({}))
    form = "test://0/{+path}?from={from}"
    (entry,) = (await catalog.templates()).templates
    assert entry.uri_template == form
    assert (await catalog.complete(form, "format", "c/%20")).values == ["format-c/%20"]
    with pytest.raises(InvalidParameter):
        await catalog.complete(form, "other", "")


async def test_completion_requires_an_existing_template_and_variable() -> None:
    catalog = await catalog_of(Tree({}), Broken(templates=[Template("{x}", name="x")]))
    for template, variable in (
        ("test://0/{path}", "path"),
        ("test://0/{+path}", "+path"),
        ("test://0/{+path}", ""),
        ("test://2/{+path}", "path"),
    ):
        with pytest.raises(InvalidParameter):
            await catalog.complete(template, variable, "")
    assert (await catalog.complete("test://1/{x}", "x", "")).total == 0


# -- the end


async def test_leaving_the_catalog_closes_every_started_mount() -> None:
    started, untouched = Lived({}), Lived({})
    mounts = [Mount("a", "test://a/", started), Mount("b", "test://b/", untouched)]
    async with Catalog(mounts) as catalog:
        await catalog.metadata("test://a")
    assert (started.left, untouched.left) == (1, 0)
