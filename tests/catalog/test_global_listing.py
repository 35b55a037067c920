from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.cursor import ListCursor, ListingState
from resource_server.catalog.global_listing import ListPage
from resource_server.catalog.mount import Mount
from resource_server.provider import Annotations, Resource
from resource_server.provider import Path as Address
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests.cases import for_each
from tests.providers_for_tests import Folder, LevelTree, Node, Tree
from tests.waiting import grow_old

pytestmark = pytest.mark.anyio

NODES: dict[str, Node] = {
    "README.md": "",
    "docs": {"guide.md": "", "more": {"deep": {"end.md": ""}}},
    "src": {"main.py": ""},
}


async def catalog_of(
    *trees: Tree, priorities: Sequence[float | None] = (), **limits: Any
) -> Catalog:
    mounts = [
        Mount(
            f"m{n}",
            f"test://m{n}/",
            tree,
            annotations=Annotations(priority=priorities[n]) if priorities else None,
        )
        for n, tree in enumerate(trees)
    ]
    catalog = Catalog(mounts, CatalogLimits(**limits))
    await catalog.start()
    return catalog


async def pages_of(catalog: Catalog, uri: str | None = None) -> list[ListPage]:
    found = [await catalog.list(uri)]
    while (after := found[-1].next_cursor) is not None:
        assert len(found) < 2000
        found.append(await catalog.list(uri, after))
    return found


async def listed(catalog: Catalog) -> list[str]:
    return [entry.uri for page in await pages_of(catalog) for entry in page.entries]


async def test_each_level_is_listed_before_the_next_and_collections_before_documents() -> None:
    assert await listed(await catalog_of(LevelTree(NODES), LevelTree({"a": "", "z": {}}))) == [
        "test://m0",
        "test://m1",
        "test://m0/docs",
        "test://m0/src",
        "test://m1/z",
        "test://m0/README.md",
        "test://m1/a",
        "test://m0/docs/more",
        "test://m0/docs/guide.md",
        "test://m0/src/main.py",
        "test://m0/docs/more/deep",
        "test://m0/docs/more/deep/end.md",
    ]


async def test_mounts_of_high_priority_are_first() -> None:
    trees = [LevelTree({"a": ""}) for _ in range(4)]
    catalog = await catalog_of(*trees, priorities=(0.1, None, 0.9, None), page_size=3)
    found = await listed(catalog)
    assert found[:4] == ["test://m2", "test://m1", "test://m3", "test://m0"]
    assert found[4:] == [f"{uri}/a" for uri in found[:4]]


@for_each("size", [1, 2, 100])
@for_each("most", range(1, 11))
async def test_a_listing_ends_at_its_bound_and_says_so(size: int, most: int) -> None:
    catalog = await catalog_of(LevelTree(NODES), page_size=size, listing_max=most)
    pages = await pages_of(catalog)
    assert sum(len(page.entries) for page in pages) == min(most, 9)
    assert [page.left_out_after for page in pages[:-1]] == [None] * (len(pages) - 1)
    assert pages[-1].left_out_after == (most if most < 9 else None)
    whole = await listed(await catalog_of(LevelTree(NODES)))
    assert [entry.uri for page in pages for entry in page.entries] == whole[:most]


@for_each(("depth", "count"), [(1, 4), (2, 7), (3, 8), (4, 9), (5, 9)])
@for_each("tree", [Tree, LevelTree])
async def test_a_listing_ends_at_its_depth_and_says_so(
    tree: type[Tree], depth: int, count: int
) -> None:
    catalog = await catalog_of(tree(NODES), listing_depth=depth)
    (page,) = await pages_of(catalog)
    assert len(page.entries) == count
    assert page.left_out_after == (count if count < 9 else None)


async def test_an_empty_collection_at_the_bottom_leaves_nothing_out() -> None:
    catalog = await catalog_of(LevelTree({"a": {"empty": {}}}), listing_depth=2)
    (page,) = await pages_of(catalog)
    assert page.left_out_after is None


async def test_unlisted_resources_are_not_told_of_by_the_bound() -> None:
    catalog = await catalog_of(LevelTree({"a": "", "b": Folder({"c": ""})}), listing_max=2)
    (page,) = await pages_of(catalog)
    assert page.left_out_after is None


async def test_pages_after_the_first_are_longer() -> None:
    nodes: dict[str, Node] = {f"{n:03}": "" for n in range(60)}
    catalog = await catalog_of(LevelTree(nodes), page_size=5, next_page_size=50)
    assert [len(page.entries) for page in await pages_of(catalog)] == [5, 50, 6]
    assert [len(page.entries) for page in await pages_of(catalog, "test://m0")] == [5, 50, 5]


@pytest.mark.parametrize("most", [1, 99, 100, 101, 10_000, 100_000])
@pytest.mark.parametrize("size", [1, 50, 100, 1000])
def test_64_pages_reach_the_end_of_any_bounded_listing(
    tmp_path: Path, most: int, size: int
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text(
        f"server: {{page_size: {size}, listing: {{max: {most}}}}}\nroots: {{a: {{path: .}}}}\n"
    )
    manifest = server_builder.load_manifest(str(tmp_path), allow_plugins=False)
    limits = server_builder.build_server(manifest, allow_plugins=False).catalog.limits
    assert limits.next_page_size is not None
    assert limits.page_size + 63 * limits.next_page_size >= limits.listing_max == most


async def test_no_cursor_repeats_while_the_tree_changes() -> None:
    dice = random.Random(7)  # noqa: S311
    nodes: dict[str, Node] = {f"{n:02}": {"x": "", "y": {}} for n in range(20)}
    catalog = await catalog_of(LevelTree(nodes), page_size=3)
    stays = set(await listed(catalog))
    seen: list[str] = []
    cursors: list[str] = []
    page = await catalog.list()
    while True:
        seen += [entry.uri for entry in page.entries]
        if page.next_cursor is None:
            break
        cursors.append(page.next_cursor)
        name = dice.choice(sorted(nodes))
        if dice.random() < 0.5:
            del nodes[name]
            stays = {uri for uri in stays if not uri.startswith(f"test://m0/{name}")}
        else:
            nodes[f"{name}+"] = {"new": ""}
        page = await catalog.list(None, page.next_cursor)
    assert len(cursors) == len(set(cursors))
    assert stays <= set(seen)
    assert len(seen) == len(set(seen))


async def test_a_mount_that_fails_on_a_later_page_is_not_asked_again() -> None:
    class Failing(LevelTree):
        asked = 0

        def level(self, depth: int, type: Any, *, after: Address | None, limit: int) -> Any:
            self.asked += 1
            raise ValueError

    failing = Failing({"a": ""})
    nodes: dict[str, Node] = {f"{n}": "" for n in range(9)}
    pages = await pages_of(await catalog_of(failing, LevelTree(nodes), page_size=2))
    assert failing.asked == 1
    assert [page.unavailable for page in pages[1:]] == [("m0",)] * (len(pages) - 1)
    assert sum(len(page.entries) for page in pages) >= 10


WRONG: Mapping[str, Resource] = {
    "another depth": Resource(path=("a", "b"), name="b"),
    "another type": Resource(path=("a",), name="a", type="collection"),
}


@for_each("wrong", WRONG)
async def test_a_level_with_resources_of_another_kind_fails_only_its_mount(wrong: str) -> None:
    class Confused(LevelTree):
        def level(self, depth: int, type: Any, *, after: Address | None, limit: int) -> Any:
            return [WRONG[wrong]] if type == "document" else []

    found = await listed(await catalog_of(Confused({}), LevelTree({"a": ""})))
    assert found == ["test://m1", "test://m1/a"]


# -- folders


def folder(root: Path, text: str) -> Catalog:
    file = root / "mcp-resources.yaml"
    file.write_text(text)
    manifest = server_builder.load_manifest(str(file), allow_plugins=False)
    return server_builder.build_server(manifest, allow_plugins=False).catalog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a/x.md", "b/c/y.md", "b/z.md", "d/e/f/g.md", "h/i.md", "README.md"):
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    return tmp_path


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_a_folder_is_listed_level_by_level(root: Path, size: int) -> None:
    text = f"server: {{page_size: {size}}}\nroots: {{r: {{path: root}}}}\n"
    async with folder(root, text) as catalog:
        found = await listed(catalog)
    assert found == [
        "file:///r",
        *("file:///r/a", "file:///r/b", "file:///r/d", "file:///r/h", "file:///r/README.md"),
        *(
            "file:///r/b/c",
            "file:///r/d/e",
            "file:///r/a/x.md",
            "file:///r/b/z.md",
            "file:///r/h/i.md",
        ),
        *("file:///r/d/e/f", "file:///r/b/c/y.md", "file:///r/d/e/f/g.md"),
    ]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_directories_of_high_priority_come_first_with_those_above_them(
    root: Path, size: int
) -> None:
    text = (
        f"server: {{page_size: {size}}}\nroots: {{r: {{path: root, directories: "
        "{d/e: {annotations: {priority: 1}}, a: {annotations: {priority: 0.1}}}}}\n"
    )
    async with folder(root, text) as catalog:
        found = await listed(catalog)
    assert found == [
        "file:///r",
        *("file:///r/d", "file:///r/b", "file:///r/h", "file:///r/a", "file:///r/README.md"),
        *(
            "file:///r/d/e",
            "file:///r/b/c",
            "file:///r/b/z.md",
            "file:///r/h/i.md",
            "file:///r/a/x.md",
        ),
        *("file:///r/d/e/f", "file:///r/b/c/y.md", "file:///r/d/e/f/g.md"),
    ]


async def test_a_hidden_directory_does_not_move_those_above_it(root: Path) -> None:
    text = (
        "roots: {r: {path: root, directories: "
        "{d/e: {annotations: {priority: 1}, exposed: false}}}}\n"
    )
    async with folder(root, text) as catalog:
        found = await listed(catalog)
    assert found[1:5] == ["file:///r/a", "file:///r/b", "file:///r/d", "file:///r/h"]
    assert not [uri for uri in found if uri.startswith("file:///r/d/")]


async def test_unlisted_and_hidden_entries_are_in_no_level(root: Path) -> None:
    (root / "root" / "b" / ".env").write_text("KEY=1")
    (root / "root" / ".gitignore").write_text("h/\n")
    text = "roots: {r: {path: root, directories: {d: {listed: false}}}}\n"
    async with folder(root, text) as catalog:
        found = await listed(catalog)
    assert sorted(found) == [
        "file:///r",
        *(
            "file:///r/README.md",
            "file:///r/a",
            "file:///r/a/x.md",
            "file:///r/b",
            "file:///r/b/c",
            "file:///r/b/c/y.md",
        ),
        "file:///r/b/z.md",
    ]


async def test_links_are_listed_as_what_they_lead_to(root: Path) -> None:
    (root / "root" / "to-b").symlink_to("b")
    (root / "root" / "to-x").symlink_to("a/x.md")
    (root / "root" / "d" / "up").symlink_to("..")
    text = "roots: {r: {path: root, symlinks: within-root}}\n"
    async with folder(root, text) as catalog:
        found = await listed(catalog)
    assert "file:///r/to-b/c/y.md" in found
    assert found.index("file:///r/to-b") < found.index("file:///r/to-x")
    assert not [uri for uri in found if "up" in uri]


async def test_a_document_that_became_a_directory_is_not_listed_twice(root: Path) -> None:
    text = "server: {page_size: 5}\nroots: {r: {path: root}}\n"
    async with folder(root, text) as catalog:
        page = await catalog.list()
        seen = [entry.uri for entry in page.entries]
        (root / "root" / "README.md").unlink()
        (root / "root" / "README.md").mkdir()
        while page.next_cursor is not None:
            page = await catalog.list(None, page.next_cursor)
            seen += [entry.uri for entry in page.entries]
    assert len(seen) == len(set(seen))


async def test_a_known_directory_without_entries_is_listed_again_once_it_has_some(
    root: Path,
) -> None:
    (root / "root" / "empty").mkdir()
    (root / "root" / "h" / "new").mkdir()
    (root / "root" / "h" / "new" / "i.md").write_text("text")
    (root / "root" / "h" / ".gitignore").write_text("new/\n")
    grow_old(root)  # what changed just now is not cached
    async with folder(root, "roots: {r: {path: root}}\n") as catalog:
        before = await listed(catalog)
        assert await listed(catalog) == before
        (root / "root" / "a" / "new").mkdir()
        (root / "root" / "a" / "new" / "j.md").write_text("text")
        (root / "root" / "empty" / "k.md").write_text("text")
        (root / "root" / "h" / ".gitignore").write_text("")
        after = await listed(catalog)
    assert sorted(set(after) - set(before)) == [
        *("file:///r/a/new", "file:///r/a/new/j.md", "file:///r/empty/k.md"),
        *("file:///r/h/new", "file:///r/h/new/i.md"),
    ]


class Refusing(LevelTree):
    """A tree that records the levels it is asked for, and fails."""

    def __init__(self, nodes: Mapping[str, Node], *, fails_at: int = 1) -> None:
        super().__init__(nodes)
        self.asked: list[int] = []
        self._fails_at = fails_at

    def level(self, depth: int, *_: Any, **__: Any) -> Any:
        self.asked.append(depth)
        if depth >= self._fails_at:
            raise OSError("the disk is gone")
        return []


async def test_a_mount_that_has_failed_is_not_asked_for_the_level_after_the_last() -> None:
    failing = Refusing({})
    catalog = await catalog_of(failing, LevelTree(NODES), listing_depth=1)
    page = await catalog.list()
    assert (page.unavailable, page.failed) == (("m0",), ("m0",))
    assert failing.asked == [1]
    assert page.left_out_after == 4


async def test_a_mount_is_started_before_it_is_asked_for_the_level_after_the_last() -> None:
    class Late(LevelTree):
        async def __aenter__(self) -> None:
            self.is_open = True

        async def __aexit__(self, *_: object) -> None:
            self.is_open = False

        def level(self, *args: Any, **options: Any) -> Any:
            assert self.is_open
            return super().level(*args, **options)

    trees = (Late(NODES), Late({"x": "", "y": ""}))
    mounts = [Mount(f"m{n}", f"test://m{n}/", tree) for n, tree in enumerate(trees)]
    before = ListCursor(
        "", "m1", ("x",), ListingState(6, is_at_documents=True, has_collections=True)
    ).encode()
    async with Catalog(mounts, CatalogLimits(listing_depth=1)) as catalog:
        page = await catalog.list(None, before)
    assert ([entry.uri for entry in page.entries], page.left_out_after) == (["test://m1/y"], 7)


async def test_mounts_that_hang_share_one_time_limit() -> None:
    asked: list[int] = []

    class Hanging(LevelTree):
        async def level(self, depth: int, *args: Any, **options: Any) -> Any:  # type: ignore[override]
            if depth > 1:
                asked.append(depth)
                await asyncio.Event().wait()
            return super().level(depth, *args, **options)

    mounts = [Mount(f"m{n}", f"test://m{n}/", Hanging(NODES)) for n in range(50)]
    limits = CatalogLimits(listing_depth=1, page_size=1000)
    async with Catalog(mounts, limits, Timing(listing_s=0.4)) as catalog:
        await catalog.list()
    # The first one leaves nothing to the others, or a tick of the clock.
    assert 1 <= len(asked) <= 2


async def test_only_mounts_that_failed_on_a_page_count_as_failed_there() -> None:
    catalog = await catalog_of(LevelTree(NODES), LevelTree(NODES), Refusing({}), page_size=5)
    pages = await pages_of(catalog)
    assert [page.failed for page in pages if page.failed] == [("m2",)]
    assert pages[-1].unavailable == ("m2",)
    forged = ListCursor("", "m0", (), ListingState(1, without=("m1",))).encode()
    page = await catalog.list(None, forged)
    assert (page.unavailable[:1], "m1" in page.failed) == (("m1",), False)
