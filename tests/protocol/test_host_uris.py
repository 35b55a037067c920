"""Every method understands a URI that a host has changed, and repeats it as it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, Resource
from tests.cases import for_each
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, server_of
from tests.providers_for_tests import Node, SlowTree, SlowWatchedTree, Tree, WatchedTree
from tests.spellings import host_spellings, wrong_spellings

pytestmark = pytest.mark.anyio

NODES: dict[str, Node] = {
    "a b.md": "spaced",
    "a%20b.md": "literal",
    "100%.md": "1\n2\n",
    "x%20y": {"é%41.md": "deep"},
    "plain.md": "plain",
}
WRAPPED = "mcp-resource://6d6370/test/one"
SPELLINGS = {
    "test://one/a%20b.md": "spaced",
    "test://one/a b.md": "spaced",
    "test://one/a%2520b.md": "literal",
    "test://one/a%252520b.md": "literal",
    "test://one/100%.md": "1\n2\n",
    "test://one/100%2525.md": "1\n2\n",
    "test://one/100%.md?lines=1": "1\n",
    "test://one/100%2525.md?lines%3D1": "1\n",
    "test://one/x%20y/%C3%A9%41.md": "deep",
    "test://one/x%2520y/%C3%A9%2541.md": "deep",
    "test://one/x%252520y/%25C3%25A9%252541.md": "deep",
    f"{WRAPPED}/plain.md": "plain",
    f"{WRAPPED}/100%.md?lines%3D1": "1\n",
    f"{WRAPPED}/x%20y/é%41.md": "deep",
}


@pytest.mark.guarantee("no-spelling-reaches-more")
@for_each("tree", [Tree, SlowTree])
@for_each("revision", [HANDSHAKE[0], *MODERN])
async def test_a_changed_uri_is_read_and_described(tree: type[Tree], revision: str) -> None:
    wire = Wire(await server_of(tree(NODES)), revision)
    for uri, text in SPELLINGS.items():
        (content,) = (await wire.result("resources/read", {"uri": uri}))["contents"]
        assert (content["uri"], content["text"]) == (uri, text)
        resource = (await wire.result("resources/metadata", {"uri": uri}))["resource"]
        canonical = await wire.result("resources/read", {"uri": resource["uri"]})
        assert canonical["contents"][0]["text"].startswith(text)


@for_each("uri", ["test://one/x%20y", f"{WRAPPED}/x%2520y/", f"{WRAPPED}"])
@for_each("revision", EVERY)
async def test_below_a_changed_uri_is_listed_and_searched(uri: str, revision: str) -> None:
    wire = Wire(await server_of(Tree(NODES)), revision)
    listed = (await wire.result("resources/list", {"uri": uri}))["resources"]
    assert listed == (await wire.result("resources/directory/read", {"uri": uri}))["resources"]
    assert all(entry["uri"].startswith("test://one/") for entry in listed)
    deep = "test://one/x%2520y/%C3%A9%2541.md"
    assert (deep in [entry["uri"] for entry in listed]) == ("x%" in uri)
    for name, more in (("list_resources", {}), ("search_resources", {"query": "41"})):
        called = await wire.result("tools/call", {"name": name, "arguments": {"uri": uri, **more}})
        assert "isError" not in called
        assert "41.md" in str(called) or "x%2520y" in str(called)


async def test_tools_take_a_changed_uri() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    for uri, text in SPELLINGS.items():
        for name in ("read_resource", "resource_metadata"):
            asked = {"name": name, "arguments": {"uri": uri}}
            called = await wire.result("tools/call", asked)
            assert "isError" not in called, uri
            assert name == "resource_metadata" or called["content"][0]["text"] == text


@pytest.fixture(params=[WatchedTree, SlowWatchedTree])
async def watched(request: pytest.FixtureRequest) -> AsyncIterator[tuple[WatchedTree, Wire]]:
    tree = request.param(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2025-11-25")
        yield tree, wire
        await wire.connection.close()


@pytest.mark.parametrize("uri", [uri for uri in SPELLINGS if "100" in uri])
async def test_a_notification_repeats_the_uri_as_it_was_sent(
    watched: tuple[WatchedTree, Wire], uri: str
) -> None:
    tree, wire = watched
    assert await wire.result("resources/subscribe", {"uri": uri}) == {}
    tree.set("100%.md", to="3\n4\n5\n")
    (told,) = await wire.notified(1)
    assert told["params"] == {"uri": uri}
    await wire.result("resources/unsubscribe", {"uri": uri})
    tree.set("100%.md", to="6\n")
    await wire.quiet()
    assert len(wire.notifications) == 1


async def test_a_listener_of_a_changed_uri_gets_it_back() -> None:
    tree = WatchedTree(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, "2026-07-28")
        uri = f"{WRAPPED}/100%.md"
        wire.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}, "a")
        (told,) = await wire.notified(1)
        assert told["params"]["notifications"]["resourceSubscriptions"] == [uri]
        tree.set("100%.md", to="new")
        _, told = await wire.notified(2)
        assert told["params"]["uri"] == uri
        await wire.connection.close()


# -- the canonical reading


class Noting(Tree):
    """Notes every path that is looked for."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__(nodes)
        self.paths: list[Path] = []

    def _node(self, path: Path) -> Node:
        self.paths.append(path)
        return super()._node(path)


async def test_a_canonical_uri_is_looked_for_once() -> None:
    tree = Noting({"a b": "1", "a%20b": "2"})
    catalog = (await server_of(tree)).catalog
    for uri, path in (("test://one/a%20b", "a b"), ("test://one/a%2520b", "a%20b")):
        tree.paths.clear()
        await catalog.metadata(uri)
        assert tree.paths == [(path,)]


async def test_an_absent_plain_uri_is_looked_for_once_and_others_a_few_times() -> None:
    tree = Noting({})
    catalog = (await server_of(tree)).catalog
    looks = {"plain": 1, "a%20b": 3, "a/b c/%E4%B8%AD/%2525": 11, "%20/" * 4000: 11}
    for path, most in looks.items():
        tree.paths.clear()
        with pytest.raises(ResourceNotFound):
            await catalog.metadata(f"test://one/{path}")
        assert 1 <= len(tree.paths) <= most, path


async def test_a_foreign_uri_is_refused_without_looking() -> None:
    tree = Noting({"a b": ""})
    wire = Wire(await server_of(tree), "2025-11-25")
    for uri in ("file:///a%20b", "test://two/a%20b", "mcp-resource://x/other/one/a%20b", "a%20b"):
        for method in ("read", "metadata", "list", "subscribe"):
            assert (await wire.error(f"resources/{method}", {"uri": uri}))["code"] == -32002
    assert tree.paths == []


async def test_trouble_with_another_reading_leaves_the_resource_not_found() -> None:
    class Fails(Tree):
        def metadata(self, path: Path) -> Resource:
            if any("%" in segment for segment in path):
                raise RuntimeError("no such thing")
            found = super().metadata(path)
            assert isinstance(found, Resource)
            return found

    wire = Wire(await server_of(Fails(NODES)), "2025-11-25")
    assert (await wire.error("resources/read", {"uri": "test://one/no%20a"}))["code"] == -32002
    assert await wire.result("resources/read", {"uri": "test://one/a%20b.md"})


# -- mounts


@for_each(
    ("base", "uri", "text"),
    [
        # The base of a folder that has a space or a percent sign in its name.
        ("test://h/a%2520b/", "test://h/a%20b/c%20d", "c d"),
        ("test://h/a%2520b/", "test://h/a%20b/%.md", "%.md"),
        ("test://h/a%20b/", "test://h/a%20b/%2541", "%41"),
        ("test://h/a%20b/", "test://h/a%2520b/c%2520d", "c d"),
        ("test://h/100%25/", "test://h/100%/%2541", "%41"),
        ("test://h/100%25/", "mcp-resource://x/test/h/100%25/c d", "c d"),
    ],
)
async def test_the_base_of_a_mount_may_be_changed_too(base: str, uri: str, text: str) -> None:
    tree = Tree({name: name for name in ("c d", "%.md", "%41")})
    catalog = Catalog([Mount("one", base, tree)])
    await catalog.start()
    (item,) = (await catalog.read(uri)).items
    assert item.content is not None
    assert (item.uri, item.content.data) == (uri, text)
    assert catalog.route(uri)[0].name == "one"


async def test_another_reading_belongs_to_the_mount_of_its_canonical_uri() -> None:
    outer, inner = Tree({"in": {"a%": "outer"}, "in%20": "x"}), Tree({"a%": "inner", "b": "x"})
    mounts = [Mount("outer", "test://h/", outer), Mount("inner", "test://h/in/", inner)]
    catalog = Catalog(mounts)
    await catalog.start()
    for uri in ("test://h/in/a%25", "test://h/%2569n/a%2525", "mcp-resource://x/test/h/%69n/a%"):
        (item,) = (await catalog.read(uri)).items
        assert item.content is not None
        assert item.content.data == "inner"


@pytest.mark.guarantee("no-spelling-reaches-more")
async def test_every_spelling_reads_what_the_canonical_one_does() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    for uri, text in {
        "test://one/plain.md": "plain",
        "test://one/100%25.md": "1\n2\n",
        "test://one/x%2520y/%C3%A9%2541.md": "deep",
    }.items():
        for spelling in (uri, *host_spellings(uri)[2:4]):
            (content,) = (await wire.result("resources/read", {"uri": spelling}))["contents"]
            assert content["text"] == text
        for spelling in wrong_spellings(uri):
            await wire.error("resources/read", {"uri": spelling})
