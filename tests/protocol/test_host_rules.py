"""Rules that hosts rely on: pages that end, foreign URIs, capabilities, whole folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.protocol import revisions
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import Template
from resource_server.serving import server_builder
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, server_of
from tests.providers_for_tests import Leaf, LevelTree, Node, Tree, WatchedTree

pytestmark = pytest.mark.anyio

REVISIONS = pytest.mark.parametrize("revision", EVERY)

PAGED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "resources/list": ("resources", {}),
    "resources/list of a collection": ("resources", {"uri": "test://one/"}),
    "resources/templates/list": ("resourceTemplates", {}),
    "tools/list": ("tools", {}),
    "prompts/list": ("prompts", {}),
}


class Templated(LevelTree):
    templates = tuple(Template(f"{{+path}}?{n}={{{n}}}", name=str(n)) for n in "abcde")


@REVISIONS
@pytest.mark.parametrize("listing", PAGED)
async def test_the_last_page_has_no_next_cursor(
    revision: str, listing: str, tmp_path: Path
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text(
        "server: {page_size: 2, listing: {max: 20}}\nroots: {a: {path: .}}\n"
        "prompts: {" + ", ".join(f"p{n}: {{messages: [{{text: x}}]}}" for n in range(5)) + "}\n"
    )
    manifest = server_builder.load_manifest(str(tmp_path), allow_plugins=False)
    prompts = manifest.prompts
    server = await server_of(
        Templated({f"{n}": "" for n in range(5)}), limits=CatalogLimits(page_size=2)
    )
    server.prompts = prompts
    wire = Wire(server, revision)
    method = listing.split(" ", 1)[0]
    member, params = PAGED[listing]
    cursors: list[str] = []
    count = 0
    while True:
        given = {**params, "cursor": cursors[-1]} if cursors else params
        page = await wire.result(method, given)
        count += len(page[member])
        if "nextCursor" not in page:
            break
        assert isinstance(page["nextCursor"], str)
        assert page["nextCursor"]
        cursors.append(page["nextCursor"])
    assert count >= 4
    assert len(cursors) == len(set(cursors)) == -(-count // 2) - 1


class Untouched(Tree):
    """Fails the test if anything asks it or starts it."""

    touched = False

    async def __aenter__(self) -> None:
        Untouched.touched = True

    async def __aexit__(self, *_: object) -> None:
        pass

    def list(self, *_: object, **__: object) -> Any:
        raise AssertionError

    metadata = read = complete = list


FOREIGN = (
    "file:///etc/passwd",
    "https://example.org/",
    "ui://widget/index.html",
    "test://three/a",
    "test:///one/a",
    "TEST2://one/a",
)


@REVISIONS
@pytest.mark.parametrize("uri", FOREIGN)
async def test_a_foreign_uri_is_refused_before_any_work(revision: str, uri: str) -> None:
    Untouched.touched = False
    server = Server(Catalog([Mount("one", "test://one/", Untouched({}))]))
    wire = Wire(server, revision)
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("resources/read", {"uri": uri}),
        ("resources/list", {"uri": uri}),
        ("resources/metadata", {"uri": uri}),
    ]
    if revision in HANDSHAKE:
        calls.append(("resources/subscribe", {"uri": uri}))
    codes = {(await wire.error(method, given))["code"] for method, given in calls}
    assert codes == {-32602 if revision in MODERN else -32002}
    argument = {"name": "path", "value": "a"}
    ref = {"type": "ref/resource", "uri": uri}
    assert (await wire.error("completion/complete", {"ref": ref, "argument": argument}))["code"]
    # A tool is called for this server alone, and looks for what its model may have meant.
    assert not Untouched.touched


@REVISIONS
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("prompts/list", {}),
        ("prompts/get", {"name": "p"}),
        ("tools/list", {}),
        ("tools/call", {"name": "read_resource", "arguments": {"uri": "test://one/a"}}),
    ],
)
async def test_a_capability_that_is_not_declared_is_not_served_in_the_latest_revision(
    revision: str, method: str, given: Mapping[str, Any]
) -> None:
    server = await server_of(Tree({"a": "text"}), tools=ToolSettings(enabled=False))
    wire = Wire(server, revision)
    capabilities = server.capabilities(
        revisions.MODERN.get(revision) or revisions.HANDSHAKE[revision]
    )
    assert not {"prompts", "tools"} & set(capabilities)
    reply = await wire.call(method, given)
    if revision in MODERN:
        assert reply["error"]["code"] == -32601
    elif method.endswith("/list"):
        assert reply["result"][method.split("/")[0]] == []
    else:
        assert reply["error"]["code"] == -32602


@REVISIONS
async def test_every_declared_capability_has_its_methods(revision: str) -> None:
    server = await server_of(Tree({"a": "text"}))
    of = revisions.MODERN.get(revision) or revisions.HANDSHAKE[revision]
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "resources": ("resources/list", {}),
        "completions": (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "test://one/{+path}"},
                "argument": {"name": "path", "value": ""},
            },
        ),
        "tools": ("tools/list", {}),
        "logging": ("logging/setLevel", {"level": "info"}),
    }
    wire = Wire(server, revision)
    for capability in server.capabilities(of):
        if capability in methods and not (capability == "logging" and revision in MODERN):
            assert await wire.result(*methods[capability]) is not None


@REVISIONS
async def test_an_empty_collection_returns_itself(revision: str) -> None:
    wire = Wire(await server_of(Tree({"a b": {}})), revision)
    for uri in ("test://one/a%20b", "TEST://one/%61%20b/"):
        (item,) = (await wire.result("resources/read", {"uri": uri}))["contents"]
        assert (item["uri"], item["text"]) == (uri, "")
        assert item["mimeType"] == "inode/directory"


async def test_a_collection_read_has_every_child_within_the_budget() -> None:
    nodes: dict[str, Node] = {f"{n:03}": Leaf("x" * 5000) for n in range(500)}
    nodes["big"] = Leaf("y" * 5_000_000)
    wire = Wire(await server_of(Tree(nodes)), "2025-11-25")
    result = await wire.result("resources/read", {"uri": "test://one/"})
    assert len(result["contents"]) == 501
    # A document without byte ranges that is larger than the whole budget is only named.
    assert all(item["text"] for item in result["contents"][:-1])
    assert sum(len(item["text"]) for item in result["contents"]) <= 256 * 1024
    notes = [item["_meta"]["resource-server/truncated"] for item in result["contents"]]
    assert all(note["next"] and note["reason"] == "limit" for note in notes)
    assert "_meta" not in result


@REVISIONS
async def test_the_last_page_of_a_bounded_listing_says_that_there_is_more(revision: str) -> None:
    limits = CatalogLimits(page_size=2, listing_max=3)
    wire = Wire(await server_of(LevelTree({"a": "", "b": "", "c": ""}), limits=limits), revision)
    first = await wire.result("resources/list")
    second = await wire.result("resources/list", {"cursor": first["nextCursor"]})
    assert "description" not in first["resources"][-1]
    assert [each["uri"] for each in second["resources"]] == ["test://one/b"]
    assert "nextCursor" not in second
    note = second["resources"][-1]["description"]
    assert note.startswith("The listing ends here, after 3 resources. More are below")
    assert second["_meta"]["resource-server/truncated"] == {"returned": 3, "more": True}
    # The resource itself is described as ever.
    shown = await wire.result("resources/metadata", {"uri": "test://one/b"})
    assert "description" not in shown["resource"]


async def test_subscribing_after_a_read_of_many_children_notifies_of_nothing() -> None:
    nodes: dict[str, Node] = {f"{n:04}": "" for n in range(1500)}
    for children in (2, 1000, 1200, 10_000):
        limits = CatalogLimits(collection_children=children)
        async with await server_of(WatchedTree(nodes), limits=limits) as server:
            wire = Wire(server, "2025-11-25")
            await wire.result("resources/read", {"uri": "test://one/"})
            await wire.result("resources/subscribe", {"uri": "test://one/"})
            await wire.quiet()
            assert wire.updates == []


@REVISIONS
async def test_tools_are_declared_read_only_and_closed(revision: str) -> None:
    wire = Wire(await server_of(Tree({})), revision)
    for tool in (await wire.result("tools/list"))["tools"]:
        if revision == "2024-11-05":
            assert "annotations" not in tool
        else:
            assert tool["annotations"]["readOnlyHint"] is True
            assert tool["annotations"]["openWorldHint"] is False
