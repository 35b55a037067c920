"""Batches: received on 2025-03-26 and nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resource_server.protocol.client_connection import MAX_BATCH_BYTES, MAX_RUNNING
from resource_server.protocol.message import MAX_BATCH
from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE, Wire, initialize, request, server_of
from tests.providers_for_tests import Gate, Leaf, SlowTree, Tree
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

NOTIFICATION: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def pong(id: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.fixture
async def wire() -> Wire:
    nodes: dict[str, Any] = {"a": "text", "bad": Leaf(raises=ValueError("x"))}
    return Wire(await server_of(Tree(nodes)), "2025-03-26")


@for_each("revision", [None, *HANDSHAKE, "2026-07-28"])
async def test_batches_are_refused_except_in_2025_03_26(revision: str | None) -> None:
    wire = Wire(await server_of(Tree({})), revision)
    if revision == "2026-07-28":
        await wire.result("server/discover")
        wire.messages.clear()
    reply = wire.ask([request("ping", {}, 1), request("ping", {}, 2)])
    if revision == "2025-03-26":
        assert reply == [pong(1), pong(2)]
    else:
        assert (reply["error"]["code"], reply["id"]) == (-32600, None)


async def test_an_empty_batch_is_an_invalid_request(wire: Wire) -> None:
    reply = wire.ask([])
    assert (reply["error"]["code"], reply["id"]) == (-32600, None)


async def test_the_response_to_a_batch_of_one_is_an_array(wire: Wire) -> None:
    assert wire.ask([request("ping")]) == [pong(1)]


async def test_a_batch_of_notifications_has_no_response(wire: Wire) -> None:
    wire.send([NOTIFICATION, {"jsonrpc": "2.0", "method": "unknown"}])
    assert wire.messages == []


async def test_a_batch_of_responses_has_no_response(wire: Wire) -> None:
    wire.send([pong(1)])
    assert wire.messages == []


async def test_each_member_of_a_mixed_batch_has_its_own_response(wire: Wire) -> None:
    replies = wire.ask(
        [
            request("ping", {}, "a"),
            NOTIFICATION,
            5,
            [request("ping")],
            request("unknown", {}, "b"),
            request("resources/read", {"uri": "test://one/bad"}, "c"),
            request("resources/read", {"uri": "test://one/a"}, "d"),
            {"jsonrpc": "2.0", "id": None, "method": "ping"},
        ]
    )
    codes = [(reply["id"], reply.get("error", {}).get("code")) for reply in replies]
    assert codes == [
        ("a", None),
        (None, -32600),
        (None, -32600),
        ("b", -32601),
        ("c", -32603),
        ("d", None),
        (None, -32600),
    ]


async def test_the_largest_batch_is_accepted_and_one_more_message_is_refused(wire: Wire) -> None:
    whole = [request("ping", {}, n) for n in range(MAX_BATCH)]
    assert len(wire.ask(whole)) == MAX_BATCH
    assert wire.ask([*whole, NOTIFICATION])["error"]["code"] == -32600


async def test_an_unparsable_batch_is_a_parse_error(wire: Wire) -> None:
    assert wire.ask(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},')["error"]["code"] == -32700
    assert wire.ask(b"[1,]")["error"]["code"] == -32700


async def test_initialize_in_a_batch_is_refused() -> None:
    wire = Wire(await server_of(Tree({})))
    assert wire.ask([initialize("2025-03-26")])["error"]["code"] == -32600
    assert "result" in wire.ask(initialize("2025-03-26"))
    (reply,) = wire.ask([initialize("2025-03-26", 5)])
    assert (reply["error"]["code"], reply["id"]) == (-32600, 5)


async def test_a_batch_with_slow_members_gets_one_response_when_all_are_done() -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate, "a": "text"})), "2025-03-26")
    wire.send(
        [
            request("resources/read", {"uri": "test://one/gate"}, 1),
            request("resources/read", {"uri": "test://one/a"}, 2),
        ]
    )
    assert wire.messages == []
    gate.released.set()
    replies = {reply["id"]: reply["result"] for reply in await wire.next_reply()}
    assert replies[1]["contents"][0]["text"] == "late"
    assert replies[2]["contents"][0]["text"] == "text"


async def test_cancelled_members_are_missing_from_the_response() -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate})), "2025-03-26")
    wire.send([request("resources/read", {"uri": "test://one/gate"}, 1), request("ping", {}, 2)])
    await asyncio.wait_for(gate.started.wait(), PATIENCE_S)
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert await wire.next_reply() == [pong(2)]


async def test_a_batch_whose_members_are_all_cancelled_has_no_response() -> None:
    gates = {"x": Gate(), "y": Gate()}
    wire = Wire(await server_of(Tree(gates)), "2025-03-26")
    reads = [request("resources/read", {"uri": f"test://one/{name}"}, name) for name in gates]
    cancels = [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}}
        for name in gates
    ]
    wire.send([*reads, *cancels])
    await wire.finished()
    assert wire.messages == []


async def test_an_id_that_is_in_flight_in_the_same_batch_is_refused() -> None:
    wire = Wire(await server_of(SlowTree({"a": "text"})), "2025-03-26")
    read = request("resources/read", {"uri": "test://one/a"}, 1)
    wire.send([read, read])
    replies = await wire.next_reply()
    assert sorted("result" in reply for reply in replies) == [False, True]


@for_each("tree", [Tree, SlowTree])
async def test_batch_members_beyond_the_byte_limit_get_a_retryable_error(
    tree: type[Tree],
) -> None:
    wire = Wire(await server_of(tree({"long": "x" * (MAX_BATCH_BYTES // 8)})), "2025-03-26")
    read = {"uri": "test://one/long"}
    wire.send([request("resources/read", read, id) for id in range(60)])
    await wire.finished()
    (replies,) = wire.messages
    assert len(replies) == 60
    refused = [reply["error"] for reply in replies if "error" in reply]
    assert len(refused) >= 60 - 8 - MAX_RUNNING
    assert {error["code"] for error in refused} == {-32012}
    assert len(replies) - len(refused) >= 8
