"""The four tools that a catalog is offered as: what they say, in every revision."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import Path, Resource
from resource_server.runtime.timing import Timing
from tests.protocol.tools.tooled import PICTURE, STRUCTURED, called, refusal, words
from tests.protocol.wire import EVERY, HANDSHAKE, Wire, server_of
from tests.providers_for_tests import Broken, Folder, Leaf, SlowTree, Tree, WatchedTree

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "a b.txt": "one\ntwo\nthree\n",
    "blob": b"\x00\xff",
    "folder": {"inner.txt": "tea", "empty": {}, "logo.png": Leaf(PICTURE, "image/png")},
    "formats": Leaf("x", formats={"html": "<p>x</p>"}),
    "hidden": Folder({"deep.txt": "deep"}),
    "logo.png": Leaf(PICTURE, "image/png"),
    "song.wav": Leaf(b"RIFF", "audio/wav"),
}


async def wired(revision: str, tree: type[Tree] = Tree, **more: Any) -> Wire:
    return Wire(await server_of(tree(NODES), **more), revision)


# -- resource_metadata


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("uri", ["test://one/formats", "test://one/folder", "test://one"])
async def test_metadata_is_equal_in_text_and_structured_content(revision: str, uri: str) -> None:
    wire = await wired(revision)
    result = await called(wire, "resource_metadata", revision, uri=uri)
    described = (await wire.result("resources/metadata", {"uri": uri}))["resource"]
    found = json.loads(words(result))
    if revision in STRUCTURED:
        assert result["structuredContent"] == {"resource": found}
    # Each fact comes once, without what only programs use.
    for same in ("uri", "title", "description", "mimeType", "size"):
        assert found.get(same) == described.get(same)
    assert found["type"] == described["resourceType"]
    meta, annotations = described["_meta"], described.get("annotations", {})
    assert found.get("version") == meta.get("resource-server/version")
    assert found.get("lastModified") == annotations.get("lastModified")
    formats = [each["name"] for each in meta.get("resource-server/formats", [])]
    assert found.get("formats", []) == formats
    assert not {"_meta", "capabilities", "annotations", "resourceType"} & found.keys()
    assert len(words(result)) < 0.8 * len(json.dumps(described, separators=(",", ":")))


@pytest.mark.parametrize("long", ["details", "description"])
async def test_long_details_and_descriptions_are_left_out_of_metadata(long: str) -> None:
    def detailed(path: Path) -> Resource:
        more: dict[str, Any] = {"details": {"many": "x"}, "description": "y"}
        more[long] = {"many": "x" * 500} if long == "details" else "y" * 500
        return Resource(path=path, name="x", type="collection", **more)

    server = await server_of(Broken(metadata=detailed), tools=ToolSettings(budget=300))
    result = await called(
        Wire(server, "2025-11-25"), "resource_metadata", "2025-11-25", uri="test://one"
    )
    assert len(words(result)) <= 300
    assert json.loads(words(result))[long] == "[Truncated: too long for a tool]"


# -- notifications


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("uri", ["test://one/a.txt", "test://one"])
async def test_a_change_between_read_and_subscribe_is_notified(revision: str, uri: str) -> None:
    tree = WatchedTree({"a.txt": "text"})
    async with await server_of(tree) as server:
        wire = Wire(server, revision)
        await called(wire, "read_resource", revision, uri=uri)
        await wire.result("resources/subscribe", {"uri": uri})
        await tree.asked(() if uri.endswith("one") else ("a.txt",))
        await wire.quiet()
        assert wire.updates == []
        await wire.result("resources/unsubscribe", {"uri": uri})
        tree.set("a.txt", to="longer text")
        await wire.result("resources/subscribe", {"uri": uri})
        await wire.notified(1)
        assert wire.updates == [uri]


# -- errors


async def test_a_document_cannot_be_listed() -> None:
    wire = await wired("2025-11-25")
    told = refusal(await called(wire, "list_resources", "2025-11-25", uri="test://one/blob"))
    assert told == "Not a collection: test://one/blob. It is a document: read it."


JUNK = [None, True, 5, 1.5, [], ["x"], {}, {"x": 1}]
PLACES: list[tuple[str, str, dict[str, Any]]] = [
    ("list_resources", "uri", {}),
    ("list_resources", "cursor", {}),
    ("read_resource", "uri", {}),
    ("resource_metadata", "uri", {}),
    ("search_resources", "query", {}),
    ("search_resources", "uri", {"query": "x"}),
    ("search_resources", "in", {"query": "x"}),
    ("search_resources", "files", {"query": "x"}),
    ("search_resources", "context", {"query": "x"}),
    ("search_resources", "case", {"query": "x"}),
    ("search_resources", "limit", {"query": "x"}),
    ("search_resources", "cursor", {"query": "x"}),
]


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(("name", "member", "others"), PLACES)
async def test_arguments_of_wrong_types_are_reported(
    revision: str, name: str, member: str, others: dict[str, Any]
) -> None:
    wire = await wired(revision)
    needed = (name, member) == ("search_resources", "query") or name not in (
        "list_resources",
        "search_resources",
    )
    valid = {"case": (True,), "context": (5,), "limit": (5,)}.get(member, ())
    for junk in (each for each in JUNK if each not in valid):
        if junk is None and not needed:
            continue  # Models write it where there is nothing; see below.
        told = refusal(await called(wire, name, revision, **others, **{member: junk}))
        assert told.startswith("Invalid arguments: ")
        assert f"$.{member}" in told
    told = refusal(await called(wire, name, revision, **others, nonsense=1))
    assert told.startswith("Invalid arguments: unknown argument 'nonsense'; known: ")


async def test_null_counts_as_omitted_for_optional_arguments() -> None:
    wire = await wired("2025-11-25")
    listed = await called(wire, "list_resources", "2025-11-25")
    assert await called(wire, "list_resources", "2025-11-25", uri=None, cursor=None) == listed
    some = {"query": "blob"}
    found = await called(wire, "search_resources", "2025-11-25", **some)
    nothing = dict.fromkeys(("uri", "in", "files", "context", "case", "limit", "cursor"))
    assert await called(wire, "search_resources", "2025-11-25", **some, **nothing) == found


@pytest.mark.parametrize("name", ["read_resource", "resource_metadata", "search_resources"])
async def test_a_missing_required_argument_is_named(name: str) -> None:
    told = refusal(await called(await wired("2025-11-25"), name, "2025-11-25"))
    needed = "query" if name == "search_resources" else "uri"
    assert told == f"Invalid arguments: Object missing required field `{needed}`"


@pytest.mark.parametrize(
    "junk", ["", " ", "x" * 100_000, "\0", "\n", "\u202e", "%", "/(/", "/(a+)+$/", "[", "**/**/**"]
)
async def test_hostile_arguments_do_no_harm(junk: str) -> None:
    wire = await wired("2025-11-25")
    for name, member, others in PLACES:
        await called(wire, name, "2025-11-25", **others, **{member: junk})
    assert words(await called(wire, "read_resource", "2025-11-25", uri="test://one/a%20b.txt"))


@pytest.mark.parametrize("name", ["list_resources", "read_resource"])
async def test_a_catalog_tool_reports_the_progress_of_the_catalog(name: str) -> None:
    wire = await wired("2025-11-25", SlowTree, timing=Timing(progress_interval_s=0.0))
    uri = {"uri": "test://one"} if name == "read_resource" else {}
    asked = {"name": name, "arguments": uri, "_meta": {"progressToken": "t"}}
    await wire.result("tools/call", asked)
    assert wire.notifications
    assert {each["method"] for each in wire.notifications} == {"notifications/progress"}
