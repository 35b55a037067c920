"""The official SDK judges every reply; what it does not know (SEP-2093) is asserted here."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types.methods import (
    CACHEABLE_METHODS,
    SERVER_NOTIFICATIONS,
    SERVER_RESULTS,
    validate_server_result,
)

from resource_server.catalog.catalog import CatalogLimits
from resource_server.manifest.prompts import Prompt, PromptMessage
from tests.cases import for_each
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, initialize, server_of
from tests.providers_for_tests import Folder, Leaf, SlowTree, Tree, WatchedTree

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "a b.txt": "one\ntwo\nthree\n",
    "blob": b"\x00\xff",
    "folder": {"inner.txt": "", "empty": {}},
    "formats": Leaf("x", formats={"html": "<p>x</p>"}),
    "hidden": Folder({"deep.txt": "deep"}),
}
PROMPTS = {"hello": Prompt(messages=(PromptMessage(text="hello"),))}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("resources/list", {}),
    ("resources/list", {"uri": "test://one/folder"}),
    ("resources/list", {"uri": "test://one/"}),
    ("resources/read", {"uri": "test://one/a%20b.txt"}),
    ("resources/read", {"uri": "test://one/a%20b.txt?lines=1"}),
    ("resources/read", {"uri": "test://one/a%20b.txt?lines=3"}),
    ("resources/read", {"uri": "test://one/blob"}),
    ("resources/read", {"uri": "test://one/folder/inner.txt"}),
    ("resources/read", {"uri": "test://one/folder/empty"}),
    ("resources/read", {"uri": "test://one/formats?format=html"}),
    ("resources/read", {"uri": "test://one"}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "list_resources"}),
    ("tools/call", {"name": "read_resource", "arguments": {"uri": "test://one"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "test://one/{+path}"},
            "argument": {"name": "path", "value": "f"},
        },
    ),
]


@pytest.mark.guarantee("every-revision")
@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
@for_each(("method", "params"), CALLS)
async def test_the_sdk_accepts_every_result(
    revision: str, tree: type[Tree], method: str, params: dict[str, Any]
) -> None:
    server = await server_of(tree(NODES))
    server.prompts = PROMPTS
    wire = Wire(server, revision)
    validate_server_result(method, revision, await wire.result(method, params))


@for_each("revision", HANDSHAKE)
async def test_the_sdk_accepts_the_results_of_the_handshake(revision: str) -> None:
    wire = Wire(await server_of(Tree(NODES)))
    for message in (
        initialize(revision),
        wire.request("ping", {}, 2),
        wire.request("logging/setLevel", {"level": "info"}, 3),
    ):
        result = wire.ask(message)["result"]
        validate_server_result(message["method"], revision, result)


@for_each("revision", MODERN)
async def test_the_sdk_accepts_the_result_of_discover(revision: str) -> None:
    result = await Wire(await server_of(Tree(NODES)), revision).result("server/discover")
    validate_server_result("server/discover", revision, result)


@for_each("revision", HANDSHAKE)
@for_each("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_the_sdk_accepts_the_results_of_subscribing(revision: str, method: str) -> None:
    async with await server_of(WatchedTree(NODES)) as server:
        wire = Wire(server, revision)
        result = await wire.result(method, {"uri": "test://one/blob"})
        validate_server_result(method, revision, result)


@for_each("revision", MODERN)
async def test_the_sdk_accepts_the_result_of_a_listen(revision: str) -> None:
    async with await server_of(WatchedTree(NODES)) as server:
        wire = Wire(server, revision)
        id = wire.start("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        await wire.connection.close()
        result = (await wire.reply_to(id))["result"]
        validate_server_result("subscriptions/listen", revision, result)


@for_each("revision", EVERY)
async def test_the_sdk_accepts_every_change_notification(revision: str) -> None:
    tree = WatchedTree(NODES)
    async with await server_of(tree) as server:
        wire = Wire(server, revision)
        if wire.modern:
            uris = ["test://one/blob", "test://one/none"]
            wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
            wire.start("subscriptions/listen", {"notifications": wanted})
        else:
            await wire.result("resources/subscribe", {"uri": "test://one/blob"})
        await tree.asked(("blob",), listing=True)
        tree.set("blob", to=b"longer")
        tree.set("new", to="")
        told = {each["method"]: each for each in await wire.notified(3 if wire.modern else 2)}
        for method, notification in told.items():
            SERVER_NOTIFICATIONS[method, revision].model_validate(notification, strict=True)
        acknowledged = {"notifications/subscriptions/acknowledged"} if wire.modern else set[str]()
        assert set(told) == acknowledged | {
            "notifications/resources/updated",
            "notifications/resources/list_changed",
        }


@for_each("revision", EVERY)
async def test_every_supported_method_known_to_the_sdk_is_tested(revision: str) -> None:
    tried = {method for method, _ in CALLS} | {"prompts/get"}  # in prompts/test_messages.py
    tried |= (
        {"server/discover", "subscriptions/listen"}
        if revision in MODERN
        else {
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
        }
    )
    wire = Wire(await server_of(Tree(NODES)), revision)
    for method, version in SERVER_RESULTS:
        if version == revision and method not in tried:
            assert (await wire.error(method))["code"] == -32601


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
async def test_a_resource_has_equal_metadata_in_lists_metadata_and_reads(
    revision: str, tree: type[Tree]
) -> None:
    wire = Wire(await server_of(tree(NODES)), revision)
    listed = (await wire.result("resources/list", {"uri": "test://one"}))["resources"]
    everything = (await wire.result("resources/list"))["resources"]
    together = (await wire.result("resources/read", {"uri": "test://one"}))["contents"]
    assert len(listed) == len(NODES)
    for entry, content in zip(listed, together, strict=True):
        asked = await wire.result("resources/metadata", {"uri": entry["uri"]})
        assert asked["resource"] == entry
        assert (entry in everything) == (entry["name"] != "hidden")
        assert {**content, "text": 0, "blob": 0} == {**entry, "text": 0, "blob": 0}
        if entry["resourceType"] == "document":
            read = await wire.result("resources/read", {"uri": entry["uri"]})
            assert read["contents"] == [content]


@pytest.mark.guarantee("every-revision")
async def test_a_document_has_every_member_of_both_texts_of_sep_2093() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    found = await wire.result("resources/metadata", {"uri": "test://one/a%20b.txt"})
    assert found["resource"] == {
        "uri": "test://one/a%20b.txt",
        "name": "a b.txt",
        "mimeType": "text/plain",
        "size": 14,
        "annotations": {"lastModified": "2026-11-20T10:00:00.123Z"},
        "resourceType": "document",
        "capabilities": {"list": False, "subscribe": False},
        "_meta": {
            "resource-server/resourceType": "document",
            "resource-server/version": "v14",
        },
    }


async def test_a_collection_is_a_directory_without_size_or_trailing_slash() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    found = (await wire.result("resources/metadata", {"uri": "test://one/folder/"}))["resource"]
    assert found["uri"] == "test://one/folder"
    assert found["mimeType"] == "inode/directory"
    assert found["resourceType"] == found["_meta"]["resource-server/resourceType"] == "collection"
    assert found["capabilities"] == {"list": True, "subscribe": False}
    assert "size" not in found


async def test_other_formats_are_listed_with_their_uris() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    found = await wire.result("resources/metadata", {"uri": "test://one/formats"})
    (announced,) = found["resource"]["_meta"]["resource-server/formats"]
    assert announced["name"] == "html"
    assert announced["mimeType"] == "text/html"
    (content,) = (await wire.result("resources/read", {"uri": announced["uri"]}))["contents"]
    assert (content["text"], content["mimeType"], content["size"]) == ("<p>x</p>", "text/html", 8)


async def test_a_content_has_the_requested_uri() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    for uri in ("test://one/a%20b.txt", "TEST://One/%61%20b.txt", "test://one/a%20b.txt?lines=1"):
        (content,) = (await wire.result("resources/read", {"uri": uri}))["contents"]
        assert content["uri"] == uri


async def test_a_truncated_content_has_the_reason_and_the_next_range() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    asked = await wire.result("resources/read", {"uri": "test://one/a%20b.txt?lines=1"})
    (content,) = asked["contents"]
    notice = content["_meta"]["resource-server/truncated"]
    assert content["text"] == "one\n"
    assert content["size"] == 14
    assert notice == {
        "reason": "requested",
        "unit": "lines",
        "total": 3,
        "next": "test://one/a%20b.txt?lines=3",
    }
    (rest,) = (await wire.result("resources/read", {"uri": notice["next"]}))["contents"]
    assert "next" not in rest["_meta"]["resource-server/truncated"]


async def test_a_template_carries_its_capabilities_as_an_upper_bound() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    (shape,) = (await wire.result("resources/templates/list"))["resourceTemplates"]
    assert shape["uriTemplate"] == "test://one/{+path}"
    assert shape["capabilities"] == {"list": True, "subscribe": False}


@for_each(
    "method",
    ["resources/list", "resources/read", "resources/templates/list", "tools/list", "prompts/list"],
)
async def test_cacheable_results_have_a_ttl_and_a_scope(method: str) -> None:
    assert method in CACHEABLE_METHODS
    server = await server_of(Tree(NODES))
    server.prompts = PROMPTS
    wire = Wire(server, "2026-07-28")
    result = await wire.result(method, {"uri": "test://one/blob"} if "read" in method else {})
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@for_each("method", ["resources/list", "resources/templates/list"])
async def test_the_last_page_has_no_cursor_member(method: str) -> None:
    server = await server_of(Tree({}), Tree({}), limits=CatalogLimits(page_size=1))
    wire = Wire(server, "2025-11-25")
    first = await wire.result(method)
    last = await wire.result(method, {"cursor": first["nextCursor"]})
    assert "nextCursor" not in last


async def test_completion_has_no_caching_hints() -> None:
    wire = Wire(await server_of(Tree(NODES)), "2026-07-28")
    result = await wire.result(*CALLS[-1])
    assert not {"ttlMs", "cacheScope"} & set(result)
    assert result["resultType"] == "complete"


@for_each("revision", HANDSHAKE)
async def test_handshake_results_have_no_modern_envelope(revision: str) -> None:
    wire = Wire(await server_of(Tree(NODES)), revision)
    for method, params in CALLS:
        result = await wire.result(method, params)
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


async def test_the_envelope_keeps_the_meta_of_a_result() -> None:
    server = await server_of(Tree({f"{n:04}": "" for n in range(1001)}))
    result = await Wire(server, "2026-07-28").result("resources/read", {"uri": "test://one"})
    assert result["_meta"]["resource-server/truncated"] == {"returned": 1000, "more": True}
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == server.info


@for_each("revision", HANDSHAKE)
async def test_a_truncated_collection_is_marked_in_handshake_revisions_too(revision: str) -> None:
    server = await server_of(Tree({f"{n:04}": "" for n in range(1001)}))
    result = await Wire(server, revision).result("resources/read", {"uri": "test://one"})
    assert result["_meta"] == {"resource-server/truncated": {"returned": 1000, "more": True}}


@for_each("revision", EVERY)
@for_each(
    ("trees", "reloads", "subscribe", "list_changed"),
    [
        ((Tree,), False, False, False),
        ((Tree, WatchedTree), False, True, True),
        ((Tree,), True, False, True),
    ],
)
async def test_the_advertised_capabilities_match_the_notifications_sent(
    revision: str,
    trees: tuple[type[Tree], ...],
    reloads: bool,
    subscribe: bool,
    list_changed: bool,
) -> None:
    server = await server_of(*(tree(NODES) for tree in trees))
    server.reloads = reloads
    wire = Wire(server, revision if revision in MODERN else None)
    described = (
        await wire.result("server/discover")
        if revision in MODERN
        else wire.ask(initialize(revision))["result"]
    )
    assert described["capabilities"]["resources"] == {
        "subscribe": subscribe,
        "listChanged": list_changed,
    }
    assert described["capabilities"]["experimental"] == {
        "resource-server/sep-2093": {"metadata": True, "list": True}
    }
    assert ("completions" in described["capabilities"]) == (revision != "2024-11-05")
