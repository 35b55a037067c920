from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server import access
from resource_server.access import Caller
from resource_server.catalog import cursor
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.federated_search import SearchOptions, SearchResults
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceNotFound,
)
from resource_server.provider import Path, Provider, Resource
from resource_server.provider.search import (
    Hit,
    MatchedLine,
    SearchPage,
    SearchRequest,
    Unsearched,
    Where,
)
from resource_server.runtime.timing import Timing
from tests.providers_for_tests import Folder, Gate, Leaf, Node, Searching, SlowTree, Tree
from tests.waiting import PATIENCE_S, PATIENT

pytestmark = pytest.mark.anyio

NODES: Mapping[str, Node] = {
    "README.md": "Hello World\nsecond line",
    "docs": {"read-me-too.txt": "hello again\r\nHELLO", "bread": "nothing", "empty": ""},
    "picture.png": Leaf("hello", "image/png"),
    "src": {"reader.py": "def hello(): ...", "deep": {"thread.py": "x = 1  # Hello"}},
    "unlisted": Folder({"readable": "hello from within", "too": Folder({"x": "hello"})}),
}


def catalog(
    *trees: Provider, size: int = 25, walk_page: int = 100, timing: Timing = PATIENT
) -> Catalog:
    mounts = [Mount(f"m{at}", f"test://m{at}/", tree) for at, tree in enumerate(trees)]
    limits = CatalogLimits(search_hits=size, search_walk_page=walk_page)
    return Catalog(mounts, limits, timing)


NO_TIME = msgspec.structs.replace(PATIENT, search_s=0.0, search_read_s=PATIENCE_S)


def names(page: SearchResults) -> list[str]:
    return [hit.entry.uri.removeprefix("test://") for hit in page.hits]


async def everything(
    searched: Catalog, query: str, *, where: Where | None = None, uri: str | None = None
) -> list[str]:
    """Return what all pages give, in order; of hits in text with the numbers of their lines."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await searched.search(query, where=where, uri=uri, after=after)
        found += [
            hit.entry.uri.removeprefix("test://") + "".join(f":{line.number}" for line in hit.lines)
            for hit in page.hits
        ]
        after = page.next_cursor
        if after is None:
            return found


@pytest.mark.parametrize("kind", [Tree, SlowTree])
async def test_names_come_first_then_lines(kind: type[Tree]) -> None:
    searched = catalog(kind(NODES))
    assert await everything(searched, "read") == [
        "m0/README.md",
        "m0/src/reader.py",
        "m0/docs/read-me-too.txt",
        "m0/docs/bread",
        "m0/src/deep/thread.py",
    ]
    assert await everything(searched, "hello") == [
        "m0/src/reader.py:1",
        "m0/docs/read-me-too.txt:1:2",
        "m0/README.md:1",
        "m0/src/deep/thread.py:1",
    ]
    assert await everything(searched, "hello", where="names") == []
    assert await everything(searched, "read", where="text") == []
    assert await everything(searched, "/h.l+o/") == [
        "m0/src/reader.py:1",
        "m0/docs/read-me-too.txt:1",
    ]
    assert await everything(searched, "/docs/") == [
        "m0/docs/bread",
        "m0/docs/empty",
        "m0/docs/read-me-too.txt",
    ]


async def test_text_is_searched_beside_more_names_than_a_page_has_room_for() -> None:
    nodes: dict[str, Node] = {f"readable{at:02}": "x" for at in range(30)}
    searched = catalog(Tree({**nodes, "z.py": "def read(): ..."}), size=20)
    page = await searched.search("read")
    assert names(page) == ["m0/z.py", *(f"m0/readable{at:02}" for at in range(5))]
    assert await everything(searched, "read") == [
        "m0/z.py:1",
        *(f"m0/readable{at:02}" for at in range(30)),
    ]


async def test_hits_are_entries_of_the_catalog_with_their_lines() -> None:
    searched = catalog(Tree(NODES))
    (hit,) = (await searched.search("second", where="text")).hits
    entry = await searched.metadata("test://m0/README.md")
    assert (hit.entry.uri, hit.entry.resource) == (entry.uri, entry.resource)
    assert hit.lines == (MatchedLine(2, "second line"),)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("test://m0/docs", ["m0/docs/read-me-too.txt:1:2"]),
        ("test://m0/docs/", ["m0/docs/read-me-too.txt:1:2"]),
        ("test://m0/README.md", ["m0/README.md:1"]),
        ("test://m0/docs/bread", []),
        ("test://m0/unlisted", ["m0/unlisted/readable:1", "m0/unlisted/too/x:1"]),
        ("test://m0/unlisted/readable", ["m0/unlisted/readable:1"]),
    ],
)
async def test_a_search_below_a_uri_finds_only_its_descendants(uri: str, found: list[str]) -> None:
    assert await everything(catalog(Tree(NODES), Tree(NODES)), "hello", uri=uri) == found


@pytest.mark.parametrize("uri", ["test://m0/absent", "test://m9/", "nonsense", ""])
@pytest.mark.parametrize("where", ["names", "text", None])
async def test_a_search_below_a_missing_resource_is_refused(uri: str, where: Where | None) -> None:
    with pytest.raises(ResourceNotFound):
        await catalog(Tree(NODES)).search("a", uri=uri, where=where)


async def test_unlisted_resources_are_found_only_below_their_own_uri() -> None:
    hidden = Mount("m1", "test://m1/", Tree({"a": "hello"}), listed=False)
    searched = Catalog([Mount("m0", "test://m0/", Tree(NODES)), hidden])
    assert not [one for one in await everything(searched, "readable") if "unlisted" in one]
    assert "m1/a:1" not in await everything(searched, "hello")
    assert await everything(searched, "hello", uri="test://m1/") == ["m1/a:1"]


async def test_resources_with_scopes_are_found_only_by_callers_with_those_scopes() -> None:
    secret = Mount("m1", "test://m1/", Tree({"hello": "hello"}), access=frozenset({"s"}))
    searched = Catalog([Mount("m0", "test://m0/", Tree({"a": "hello"})), secret])
    with access.acting(Caller("x", frozenset())):
        assert await everything(searched, "hello") == ["m0/a:1"]
        with pytest.raises(ResourceNotFound):
            await searched.search("hello", uri="test://m1/")
    with access.acting(Caller("x", frozenset({"s"}))):
        assert await everything(searched, "hello") == ["m1/hello", "m0/a:1", "m1/hello:1"]


async def test_a_cursor_of_a_caller_with_more_scopes_reveals_nothing() -> None:
    secret = Mount("m1", "test://m1/", Tree({"x1": "", "x2": ""}), access=frozenset({"s"}))
    searched = Catalog([secret], CatalogLimits(search_hits=1))
    cursor = (await searched.search("x")).next_cursor
    with access.acting(Caller("x", frozenset())), pytest.raises(InvalidParameter):
        await searched.search("x", after=cursor)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "empty"),
        (" \t ", "empty"),
        ("x" * 1001, "at most 1000"),
        ("x" * 5_000_000, "at most 1000"),
        ("a\nb", "one line"),
        ("a\0", "one line"),
        ("\ud800", "one line"),
        ("/(/", "not a regular expression of RE2"),
        (r"/(a)\1/", "not a regular expression of RE2"),
    ],
)
async def test_a_query_that_cannot_match_is_refused(query: str, reason: str) -> None:
    with pytest.raises(InvalidParameter, match=reason):
        await catalog(Tree(NODES)).search(query)


async def test_a_uri_with_a_query_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        await catalog(Tree(NODES)).search("a", uri="test://m0/docs?lines=1")


@pytest.mark.parametrize("query", ["/", "//", "/a", "x" * 1000, "*" * 1000, "[" * 1000, "🙂"])
async def test_unusual_queries_find_their_literal_text(query: str) -> None:
    tree = Tree({query.replace("/", "") or "x": query, "other": "-"})
    found = await everything(catalog(tree), query, where="text")
    assert [one.rpartition(":")[2] for one in found] == ["1"]


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    size=st.integers(1, 6),
    where=st.sampled_from([None, "names", "text"]),
    kind=st.sampled_from([Tree, SlowTree]),
    hurried=st.booleans(),
)
async def test_each_hit_is_on_exactly_one_page(
    sizes: list[int], size: int, where: Where | None, kind: type[Tree], *, hurried: bool
) -> None:
    trees = [
        kind({f"a{at}": {f"b{at}": "a\nb", "c": {}, "x": "b"} for at in range(count)})
        for count in sizes
    ]
    timing = NO_TIME if hurried else PATIENT
    whole = await everything(catalog(*trees, size=10_000), "a", where=where)
    split = catalog(*trees, size=size, walk_page=3, timing=timing)
    paged = await everything(split, "a", where=where)
    assert sorted(paged) == sorted(whole)
    assert len(set(paged)) == len(paged)


async def test_a_cursor_survives_a_restart_and_a_change() -> None:
    nodes = {f"a{at}": "" for at in range(9)}
    # By name only: otherwise three quarters of a page are kept for text.
    cursor = (await catalog(Tree(nodes), size=4).search("a", where="names")).next_cursor
    del nodes["a3"]  # the last one that was given
    page = await catalog(Tree(nodes), size=4).search("a", where="names", after=cursor)
    assert names(page) == ["m0/a4", "m0/a5", "m0/a6", "m0/a7"]


async def test_a_cursor_belongs_to_its_query_and_place() -> None:
    searched = catalog(Tree({f"a{at}": "a b" for at in range(9)}), size=2)
    cursor = (await searched.search("a")).next_cursor
    assert cursor is not None
    assert (await searched.search("a", after=cursor)).hits
    listed = (await Catalog(searched.mounts, CatalogLimits(page_size=2)).list()).next_cursor
    for query, where, uri, after in (
        ("b", None, None, cursor),
        ("a", "names", None, cursor),
        ("a", "text", None, cursor),
        ("a", None, "test://m0/", cursor),
        ("a", None, None, cursor[:-1]),
        ("a", None, None, cursor + "A" * 400_000),
        ("a", None, None, "nonsense"),
        ("a", None, None, "é"),
        ("a", None, None, listed),
    ):
        with pytest.raises(InvalidParameter):
            await searched.search(query, where=where, uri=uri, after=after)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        await searched.list(after=cursor)


async def test_a_failing_mount_is_named_and_the_others_continue() -> None:
    class Failing(Tree):
        def metadata(self, path: Path) -> Any:
            raise ValueError("secret")

    class Ending(Tree):
        def metadata(self, path: Path) -> Any:
            raise SystemExit

    class Closed(Tree):
        async def __aenter__(self) -> None:
            raise MountUnavailable("closed")

        async def __aexit__(self, *_: object) -> None: ...

    searched = catalog(Failing({}), Tree({"a": "a"}), Ending({}), Closed({}))
    page = await searched.search("a")
    assert names(page) == ["m1/a", "m1/a"]
    assert set(page.unavailable) == {"m0", "m2", "m3"}
    assert not page.stopped
    with pytest.raises(ValueError, match="secret"):
        await searched.search("a", uri="test://m0/")


async def test_a_cancelled_error_inside_a_provider_counts_as_its_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Cancelled(Tree):
        def metadata(self, path: Path) -> Any:
            raise asyncio.CancelledError

    leaf = Leaf("hello", raises=asyncio.CancelledError())
    searched = catalog(Cancelled({}), Tree({"a": leaf, "b": "hello"}))
    page = await searched.search("hello", where="text")
    assert (names(page), page.unavailable) == (["m1/b"], ("m0",))
    assert "searching mount m0 failed: CancelledError" in caplog.text
    assert "a document in mount m1 could not be searched: CancelledError" in caplog.text


class Hanging(Tree):
    """Never answers, and does not even end when it is cancelled."""

    def __init__(self) -> None:
        super().__init__({"a": "a"})
        self.released = asyncio.Event()

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue
        return []


HASTY = Timing(search_s=0.2, search_mount_grace_s=0.1)


async def test_a_mount_that_hangs_affects_no_other_mount() -> None:
    hanging = Hanging()
    searched = catalog(hanging, Tree({"a": "x"}), timing=HASTY)
    page = await searched.search("a", where="names")
    assert (names(page), page.unavailable, page.next_cursor) == (["m1/a"], ("m0",), None)
    assert [gap.why for gap in page.unsearched] == ["took too long"]
    page = await searched.search("x", where="text")
    assert (page.unavailable, page.stopped) == (("m0",), True)
    assert names(await searched.search("x", where="text", after=page.next_cursor)) == ["m1/a"]
    with pytest.raises(DeadlineExceeded):
        await searched.search("a", uri="test://m0/")
    hanging.released.set()


async def test_a_search_that_times_out_reports_its_progress() -> None:
    tree = Tree({f"a{at:02}": "hello" for at in range(30)})
    pages: list[tuple[int, int, bool]] = []
    after: str | None = None
    while not pages or after is not None:
        # Its time is over when a page begins, and still it gets on.
        hurried = catalog(tree, size=100, walk_page=10, timing=NO_TIME)
        page = await hurried.search("a", where="names", after=after)
        pages.append((len(page.hits), page.looked_at, page.stopped))
        after = page.next_cursor
    assert pages == [(10, 10, True), (10, 20, True), (10, 30, True), (0, 30, False)]


async def test_names_and_text_are_counted_separately() -> None:
    def search(request: SearchRequest, *, after: str | None, **_: object) -> SearchPage:
        # As a database has it: names of tables, but the text of rows, which nobody has counted.
        if request.where == "names":
            return SearchPage(hits=[], looked_at=6, total=6)
        return SearchPage(hits=[], next=None if after else "1", looked_at=1)

    searched = catalog(Searching({}, search), timing=NO_TIME)
    pages: list[tuple[str, int, int | None]] = []
    after: str | None = None
    while not pages or after is not None:
        page = await searched.search("x", after=after)
        pages.append((page.where, page.looked_at, page.total))
        after = page.next_cursor
    assert pages == [("names", 6, 6), ("text", 1, None), ("text", 2, None)]


async def test_progress_counts_the_resources_searched() -> None:
    told: list[tuple[int, int | None]] = []
    gate = Gate("hello")
    searched = catalog(Tree({"a": "", "b": gate, "c": {"d": "hello"}}))
    release = asyncio.get_running_loop().call_later(0.8, gate.released.set)
    page = await searched.search("hello", progress=lambda done, of: told.append((done, of)))
    release.cancel()
    assert names(page) == ["m0/b", "m0/c/d"]
    assert (page.looked_at, page.total, page.stopped) == (3, 3, False)
    assert told
    assert told == sorted(told)


# -- providers that search by themselves


async def test_what_one_pass_has_found_is_not_searched_for_again() -> None:
    asked: list[tuple[str, str]] = []

    def search(request: SearchRequest, *, limit: int, **_: object) -> SearchPage:
        asked.append((request.where, request.together))
        if request.where == "names":
            return SearchPage(hits=[])
        later = {"document": SearchPage(hits=[hit("b")]), "most": SearchPage(hits=[hit("c")] * 2)}
        return SearchPage(hits=[hit("a")], later={way: later[way] for way in request.then})

    searched = catalog(Searching({}, search), size=4)
    assert names(await searched.search("red tea pot")) == ["m0/a", "m0/b", "m0/c", "m0/c"]
    assert asked == [("names", "line"), ("text", "line")]
    asked.clear()
    assert names(await searched.search("red tea", where="text")) == ["m0/a", "m0/b"]
    assert asked == [("text", "line")]


async def test_all_pages_of_a_searching_provider_are_fetched() -> None:
    asked: list[tuple[SearchRequest, Path, str | None, int]] = []

    def search(
        sought: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        asked.append((sought, below, after, limit))
        at = int(after or 0)
        hit = Hit(
            Resource(path=("docs", f"r{at}"), name="r"), (MatchedLine(at + 1, "x\ud800" * 999),)
        )
        return SearchPage(hits=[hit], next=str(at + 1) if at < 2 else None, looked_at=5, total=15)

    searched = catalog(Searching(NODES, search), size=2)
    page = await searched.search("/r+/", uri="test://m0/docs", where="text")
    assert names(page) == ["m0/docs/r0", "m0/docs/r1"]
    assert (page.looked_at, page.total) == (10, 15)
    assert [line.text[:2] for hit in page.hits for line in hit.lines] == ["x\ufffd"] * 2
    page = await searched.search("/r+/", uri="test://m0/docs", where="text", after=page.next_cursor)
    assert (names(page), page.next_cursor, page.looked_at) == (["m0/docs/r2"], None, 15)
    assert [(one[0].text, one[0].is_pattern, *one[1:]) for one in asked] == [
        ("r+", True, ("docs",), None, 2),
        ("r+", True, ("docs",), "1", 1),
        ("r+", True, ("docs",), "2", 2),
    ]


def hit(*path: str) -> Hit:
    return Hit(Resource(path=path, name="r"))


@pytest.mark.parametrize(
    "found",
    [
        SearchPage(hits=[hit("a")] * 26),
        SearchPage(hits=[], next="x" * 20_000),
        SearchPage(hits=[], next="\ud800"),
        SearchPage(hits=[], unsearched=[Unsearched(("a",), "large")] * 41),
        SearchPage(hits=[], unsearched=[Unsearched(("a",), "large", count=-1)]),
        SearchPage(hits=[], unsearched=[Unsearched(("a",), "large", count=2**60)]),
        SearchPage(hits=[], unsearched=[cast("Any", "a")]),
        SearchPage(hits=[], later={"most": cast("Any", None)}),
        SearchPage(hits=[], unsearched=[Unsearched(("a",), cast("Any", None))]),
        SearchPage(hits=[], unsearched=[Unsearched(("a",), "large", count=cast("Any", "1"))]),
        None,
        "nonsense",
    ],
)
async def test_invalid_search_results_fail_only_their_mount(found: Any) -> None:
    wrong = Searching({}, lambda *_, **__: found)
    page = await catalog(wrong, Tree({"a": ""})).search("a")
    assert (names(page), page.unavailable, page.next_cursor) == (["m1/a"], ("m0",), None)


async def test_what_was_not_searched_is_remembered_to_the_last_page() -> None:
    def search(request: SearchRequest, *, after: str | None, **_: object) -> SearchPage:
        if request.where == "names":
            return SearchPage(hits=[])
        large = Unsearched(("a",), "7 GB: its first GB was searched", by_itself=True)
        binary = Unsearched(("b",), "not text", count=3)
        if after is None:
            return SearchPage(hits=[hit("c")], next="1", unsearched=[binary, large])
        return SearchPage(hits=[])

    searched = catalog(Searching({}, search))
    page = await searched.search("a", limit=1)
    assert [(gap.uri, gap.count) for gap in page.unsearched] == [
        ("test://m0/a", 1),
        ("test://m0/b", 3),
    ]
    assert (page.unsearched_count, page.is_complete) == (4, False)
    last = await searched.search("a", limit=1, after=page.next_cursor)
    assert (last.next_cursor, list(last.unsearched), last.unsearched_count) == (None, [], 4)
    assert not last.is_complete


async def test_hits_outside_the_searched_uri_and_cyclic_cursors_fail_the_mount() -> None:
    outside = Searching(NODES, lambda *_, **__: SearchPage(hits=[hit("other")]))
    with pytest.raises(Exception, match="below"):
        await catalog(outside).search("a", uri="test://m0/docs")
    beside = Searching(
        NODES, lambda *_, **__: SearchPage(hits=[], unsearched=[Unsearched(("other",), "large")])
    )
    with pytest.raises(Exception, match="below"):
        await catalog(beside).search("a", uri="test://m0/docs")
    circle = Searching(NODES, lambda *_, **__: SearchPage(hits=[], next="1"))
    page = await catalog(circle).search("a")
    assert page.unavailable == ("m0",)


async def test_a_mount_that_ends_its_page_early_gives_way_to_the_others() -> None:
    begun: list[str | None] = []

    async def in_parts(request: SearchRequest, *, after: str | None, **_: object) -> SearchPage:
        begun.append(after)
        part = int(after or 0)
        found = [hit(f"part{part}")] if request.where == "text" else []
        going_on = request.where == "text" and part < 3
        return SearchPage(hits=found, looked_at=1, next=str(part + 1) if going_on else None)

    parts = {f"part{n}": "x" for n in range(4)}
    searched = catalog(Searching(parts, in_parts), Tree({"a": "hello"}), Tree({"b": "hello"}))
    found = await everything(searched, "hello", where="text")
    assert found == ["m0/part0", "m1/a:1", "m2/b:1", "m0/part1", "m0/part2", "m0/part3"]
    assert begun == [None, "1", "2", "3"]
    page = await catalog(Searching(parts, in_parts), Tree({"a": "hello"}), timing=NO_TIME).search(
        "hello", where="text"
    )
    assert (names(page), page.next_cursor is None) == (["m0/part0"], False)


async def test_the_best_hit_of_each_mount_is_on_the_first_page() -> None:
    trees = [Tree({f"xa{at}": "", "a": ""}) for at in range(20)]
    searched = catalog(*trees, size=10)
    first = await searched.search("a", where="names")
    assert names(first)[:8] == [f"m{at}/a" for at in range(8)]
    assert sorted(await everything(searched, "a", where="names")) == sorted(
        f"m{mount}/{name}" for mount in range(20) for name in ("a", f"xa{mount}")
    )


async def test_a_search_without_mounts_is_empty() -> None:
    page = await Catalog([]).search("a")
    assert page == SearchResults([], None, where="text", total=0)


async def test_a_provider_search_runs_as_the_caller() -> None:
    seen: list[str | None] = []

    def search(*_: object, **__: object) -> SearchPage:
        seen.append(access.current().subject)
        return SearchPage(hits=[])

    with access.acting(Caller("ada", None)):
        await catalog(Searching({}, search)).search("a", where="names")
    assert seen == ["ada"]


def forged(*cursors: object, passed: int = 0) -> str:
    """Return a cursor of a search for the names with `a`."""
    genuine = cursor.pack(msgspec.defstruct("Empty", [], array_like=True)(), scope=SCOPE)
    begin = urlsafe_b64decode(genuine + "=" * (-len(genuine) % 4))[:-1]
    state = [[["names", list(cursors), None, 0, 0]], passed]
    return urlsafe_b64encode(begin + msgspec.msgpack.encode(state)).rstrip(b"=").decode()


SCOPE = "\0".join(("search", "names", "", "None ", "a"))


async def test_a_forged_cursor_is_refused_before_it_costs_anything() -> None:
    searched = catalog(Tree({f"a{at}": "" for at in range(9)}))
    page = await searched.search("a", where="names", after=forged(["m0", b"a3"]))
    assert len(page.hits) == 5
    deep = b"/".join([b"a"] * 8000)
    for wrong in (
        forged(["m0", deep]),
        forged(["m0", b"a3\0" + deep]),
        forged(["m0", b"a" * 20_000]),
        forged(["m0", b"a3"], passed=2**64 - 1),
        forged(["m0", b"a3"], passed=2**53 + 1),
    ):
        with pytest.raises(InvalidParameter):
            await searched.search("a", where="names", after=wrong)
    page = await searched.search("a", where="names", after=forged(["m0", b"a3"], passed=2**53))
    assert page.matches == 2**53 + 5


async def test_a_text_that_looks_like_too_many_globs_is_found_in_text() -> None:
    text = "{a,b}" * 7
    assert await everything(catalog(Tree({"x": text})), text) == ["m0/x:1"]
    with pytest.raises(InvalidParameter, match="64 alternatives"):
        await catalog(Tree({"x": text})).search(text, where="names")


async def test_a_mount_that_counts_only_some_lines_makes_the_number_a_least_one() -> None:
    resource = Resource(path=("r",), name="r")

    def search(*_: object, **__: object) -> SearchPage:
        line = MatchedLine(1, "a")
        return SearchPage(hits=[Hit(resource, (line,), matches=10_000, is_counted=False)])

    searched = catalog(Tree({"a": "a"}), Searching({"r": "a"}, search), size=1)
    options = SearchOptions(count=True)
    first = await searched.search("a", where="text", options=options)
    assert (first.matches, first.has_more) == (10_001, True)


async def test_a_number_stays_a_least_one_on_later_pages() -> None:
    searched = catalog(Tree({"a": "x\n" * 12_000, "b": "x"}), size=1)
    options = SearchOptions(count=True)
    first = await searched.search("x", where="text", options=options)
    second = await searched.search("x", where="text", options=options, after=first.next_cursor)
    assert [(page.matches, page.has_more) for page in (first, second)] == [(10_001, True)] * 2
