"""`tools/list` and `tools/call`: pages of tools, unusable params, calls that come too fast."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resource_server.protocol.server import ServerLimits
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import Path, Resource
from resource_server.provider.tools import TextBlock
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.protocol.tools.tooled import (
    COUNTRY,
    PICTURE,
    STRUCTURED,
    called,
    refusal,
    returning,
    saying,
    wired,
    words,
)
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


@for_each("junk", [None, 5, "x", [], ["x"], True])
async def test_arguments_that_are_not_an_object_are_bad_params(junk: object) -> None:
    wire = await wired(returning())
    for name in ("x", "list_resources"):
        error = await wire.error("tools/call", {"name": name, "arguments": junk})
        assert error["code"] == -32602
        assert "$.arguments" in error["message"]


@for_each("name", ["nothing", "", "X", "x ", "../x", "x" * 10_000, "\N{SNOWMAN}"])
async def test_an_unknown_tool_is_bad_params(name: str) -> None:
    error = await (await wired(returning())).error("tools/call", {"name": name})
    assert error["code"] == -32602
    assert error["message"].startswith("Unknown tool: ")
    assert len(error["message"]) < 200


@pytest.mark.parametrize(
    "raw",
    [
        b'{"country":"DE","count":NaN}',
        b'{"country":"DE","count":1e999}',
        b'{"country":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"country":"\xff"}',
        b'{"country":"\\ud800"}',
    ],
)
@pytest.mark.parametrize("name", [b"best", b"read_resource", b"search", b"list_resources"])
async def test_invalid_json_is_refused_and_the_next_call_is_served(
    name: bytes, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await wired(returning(TextBlock("fine")), of=COUNTRY)
    head = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"%b","arguments":'
    for member in (b'"country"', b'"uri"', b'"query"'):
        wire.send(head % name + raw.replace(b'"country"', member) + b"}}")
        reply = await wire.next_reply()
        assert reply.get("error", {}).get("code") != -32603
        assert "error" in reply or reply["result"]["isError"] or name == b"list_resources"
    assert "internal error" not in caplog.text
    assert words(await called(wire, "best", "2025-11-25", country="DE")) == "fine"


async def test_the_last_of_duplicate_members_wins() -> None:
    wire = await wired(saying("country"), of=COUNTRY)
    wire.send(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"best","arguments":'
        b'{"country":5,"country":"DE"}}}'
    )
    assert words((await wire.reply_to(7))["result"]) == "DE"


async def test_calls_beyond_the_rate_limit_are_refused_with_a_delay() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=3)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    results = [await wire.result("tools/call", {"name": "x"}) for _ in range(4)]
    assert [words(each) for each in results[:3]] == ["fine"] * 3
    assert refusal(results[3]).startswith("Too many calls. Wait ")
    # What is no call is not counted.
    assert len((await wire.result("tools/list"))["tools"]) == 5


async def test_calls_of_other_clients_do_not_count_against_the_rate() -> None:
    limits = ServerLimits(tool_calls_per_s=0.001, tool_call_burst=1)
    wire = await wired(returning(TextBlock("fine")), limits=limits)
    told: list[str] = []
    for owner in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        wire.connection.owner = owner
        told.append(words(await wire.result("tools/call", {"name": "x"})))
    assert told[:2] == ["fine", "fine"]
    assert told[2].startswith("Too many calls.")


async def wired_tree(revision: str, tree: type[Tree] = Tree, **more: Any) -> Wire:
    return Wire(await server_of(tree(NODES), **more), revision)


# -- resource_metadata


@for_each("revision", EVERY)
@for_each("uri", ["test://one/formats", "test://one/folder", "test://one"])
async def test_metadata_is_equal_in_text_and_structured_content(revision: str, uri: str) -> None:
    wire = await wired_tree(revision)
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


@for_each("long", ["details", "description"])
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


@for_each("revision", HANDSHAKE)
@for_each("uri", ["test://one/a.txt", "test://one"])
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
    wire = await wired_tree("2025-11-25")
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


@for_each("revision", EVERY)
@for_each(("name", "member", "others"), PLACES)
async def test_arguments_of_wrong_types_are_reported(
    revision: str, name: str, member: str, others: dict[str, Any]
) -> None:
    wire = await wired_tree(revision)
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
    wire = await wired_tree("2025-11-25")
    listed = await called(wire, "list_resources", "2025-11-25")
    assert await called(wire, "list_resources", "2025-11-25", uri=None, cursor=None) == listed
    some = {"query": "blob"}
    found = await called(wire, "search_resources", "2025-11-25", **some)
    nothing = dict.fromkeys(("uri", "in", "files", "context", "case", "limit", "cursor"))
    assert await called(wire, "search_resources", "2025-11-25", **some, **nothing) == found


@for_each("name", ["read_resource", "resource_metadata", "search_resources"])
async def test_a_missing_required_argument_is_named(name: str) -> None:
    told = refusal(await called(await wired_tree("2025-11-25"), name, "2025-11-25"))
    needed = "query" if name == "search_resources" else "uri"
    assert told == f"Invalid arguments: Object missing required field `{needed}`"


@for_each(
    "junk", ["", " ", "x" * 100_000, "\0", "\n", "\u202e", "%", "/(/", "/(a+)+$/", "[", "**/**/**"]
)
async def test_hostile_arguments_do_no_harm(junk: str) -> None:
    wire = await wired_tree("2025-11-25")
    for name, member, others in PLACES:
        await called(wire, name, "2025-11-25", **others, **{member: junk})
    assert words(await called(wire, "read_resource", "2025-11-25", uri="test://one/a%20b.txt"))


@for_each("name", ["list_resources", "read_resource"])
async def test_a_catalog_tool_reports_the_progress_of_the_catalog(name: str) -> None:
    wire = await wired_tree("2025-11-25", SlowTree, timing=Timing(progress_interval_s=0.0))
    uri = {"uri": "test://one"} if name == "read_resource" else {}
    asked = {"name": name, "arguments": uri, "_meta": {"progressToken": "t"}}
    await wire.result("tools/call", asked)
    assert wire.notifications
    assert {each["method"] for each in wire.notifications} == {"notifications/progress"}
