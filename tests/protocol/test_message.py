"""JSON-RPC itself: what is no request, what is never answered, and bytes from hell."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_server.protocol.client_connection import MAX_BYTES_IN_FLIGHT, MAX_IN_FLIGHT
from resource_server.protocol.message import Unreadable, decode_message
from resource_server.protocol.server import Server
from tests.protocol.wire import HANDSHAKE, Wire, initialize, request, server_of
from tests.providers_for_tests import Gate, Tree

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> Server:
    return await server_of(Tree({"a": "text"}))


@pytest.fixture
async def wire(server: Server) -> Wire:
    return Wire(server, "2025-11-25")


def refusal(reply: Any) -> tuple[int, Any]:
    assert "result" not in reply
    return reply["error"]["code"], reply["id"]


# -- ids


@pytest.mark.parametrize("id", [0, -1, 1, 2**31, 2**53, 2**63 - 1, "", "a", "1", "\u0000é\u2028"])
async def test_an_id_is_returned_unchanged(wire: Wire, id: object) -> None:
    reply = wire.ask(request("ping", {}, id))
    assert reply == {"jsonrpc": "2.0", "id": id, "result": {}}
    assert type(reply["id"]) is type(id)


@pytest.mark.parametrize("id", [None, 1.5, True, False, [], {}, [1], {"id": 1}])
async def test_a_request_with_an_invalid_id_is_refused_without_one(wire: Wire, id: object) -> None:
    assert refusal(wire.ask(request("ping", {}, id))) == (-32600, None)


@pytest.mark.parametrize("id", [2**64, 10**30, -(10**30), 10**400])
async def test_a_huge_id_is_returned_or_refused_but_never_rounded(wire: Wire, id: int) -> None:
    reply = wire.ask(request("ping", {}, id))
    assert reply["id"] in (id, None)


async def test_a_second_request_with_an_id_in_flight_is_refused(wire: Wire) -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate})), "2025-11-25")
    wire.start("resources/read", {"uri": "test://one/gate"}, id=7)
    assert refusal(wire.ask(request("ping", {}, 7))) == (-32600, 7)
    assert wire.ask(request("ping", {}, "7"))["id"] == "7"
    gate.released.set()
    await wire.finished()
    assert wire.replies[-1]["result"]["contents"][0]["text"] == "late"
    assert "result" in wire.ask(request("ping", {}, 7))


async def test_requests_beyond_the_limit_get_a_retryable_error(wire: Wire) -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate})), "2025-11-25")
    for _ in range(MAX_IN_FLIGHT):
        wire.start("resources/read", {"uri": "test://one/gate"})
    error = wire.ask(request("resources/read", {"uri": "test://one/gate"}))["error"]
    assert (error["code"], error["data"]) == (-32012, {"retryable": True})
    gate.released.set()
    await wire.finished()
    assert sum("result" in reply for reply in wire.replies) == MAX_IN_FLIGHT


async def test_waiting_requests_are_limited_in_bytes() -> None:
    gate = Gate()
    wire = Wire(await server_of(Tree({"gate": gate})), "2025-11-25")
    long = {"uri": "test://one/gate", "padding": "p" * (MAX_BYTES_IN_FLIGHT // 4)}
    for _ in range(3):
        wire.start("resources/read", long)
    error = wire.ask(request("resources/read", long))["error"]
    assert (error["code"], error["data"]) == (-32012, {"retryable": True})
    assert "result" in wire.ask(request("ping", {}))
    gate.released.set()
    await wire.finished()
    assert sum("contents" in reply.get("result", {}) for reply in wire.replies) == 3
    wire.start("resources/read", long)
    await wire.finished()
    assert "contents" in wire.replies[-1]["result"]


# -- shape of a message


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": 2.0, "id": 1, "method": "ping"},
        {"jsonrpc": None, "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": None},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "params": {}},
    ],
)
async def test_an_invalid_request_is_refused_with_its_id(wire: Wire, message: object) -> None:
    assert refusal(wire.ask(message)) == (-32600, 1)


@pytest.mark.parametrize("message", [{}, {"jsonrpc": "2.0"}, 5, "x", None, True, 1.5])
async def test_an_invalid_message_is_refused_without_an_id(wire: Wire, message: object) -> None:
    assert refusal(wire.ask(message)) == (-32600, None)


@pytest.mark.parametrize("revision", [None, *HANDSHAKE])
@pytest.mark.parametrize("params", [None, [], [1], "x", 5, True])
async def test_params_that_are_not_an_object_are_an_invalid_request(
    server: Server, revision: str | None, params: object
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}
    assert refusal(Wire(server, revision).ask(message)) == (-32600, 1)


async def test_params_may_be_omitted_or_contain_whitespace(wire: Wire) -> None:
    assert "result" in wire.ask(b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}')
    spaced = b' { "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" , "params" : \n { } } '
    assert "result" in wire.ask(spaced)


async def test_unknown_members_are_ignored(wire: Wire) -> None:
    message = {**request("ping", {"x": 1, "_meta": {"y": 2}}), "z": [3]}
    assert "result" in wire.ask(message)


# -- never answered


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": None},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "error": {"code": 1, "message": "x"}},
    ],
)
async def test_a_response_is_ignored(wire: Wire, message: object) -> None:
    wire.send(message)
    assert wire.messages == []


@pytest.mark.parametrize(
    "method",
    ["notifications/initialized", "notifications/cancelled", "notifications/x", "resources/read"],
)
@pytest.mark.parametrize("params", ["absent", None, {}, [], "x", {"requestId": {}}, {"uri": 5}])
@pytest.mark.parametrize("revision", [None, "2025-11-25"])
async def test_a_notification_has_no_response(
    server: Server, method: str, params: object, revision: str | None
) -> None:
    wire = Wire(server, revision)
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if params == "absent":
        del message["params"]
    wire.send(message)
    assert wire.messages == []
    assert "result" in wire.ask(request("ping"))


# -- bytes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b"}",
        b"nonsense",
        b"[1,",
        b'[{"a":',
        b'{"jsonrpc":"1.0","id":1,',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"',
        b'{"jsonrpc":"1.0","id":1,"method":5,"x":"\xff"}',
        b'{"jsonrpc":7} x',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} x',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}{}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":"\xc3\x28","method":"ping"}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}',
        b"\xef\xbb\xbf" * 2 + b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b"\xef\xbb\xbf" * 100_000,
        b"{'jsonrpc':'2.0'}",
        b"Content-Length: 30",
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    ],
)
async def test_unparsable_input_is_a_parse_error_without_an_id(wire: Wire, data: bytes) -> None:
    assert refusal(wire.ask(data)) == (-32700, None)


@pytest.mark.parametrize("text", [b"\xff", b"\\ud800", b"\\udc00\\ud800", b"\\ud800x"])
async def test_text_that_is_not_unicode_inside_params_is_a_parse_error(
    wire: Wire, text: bytes
) -> None:
    head = b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"'
    assert refusal(wire.ask(head + text + b'"}}'))[0] == -32700
    assert refusal(wire.ask(head + b'\\ud83d\\ude00"}}'))[0] == -32002


@pytest.mark.parametrize(
    "members",
    [
        rb'"id":1,"method":"ping","params":{"a":"\udcff"}',
        rb'"id":1,"method":"resources/read","params":{"uri":"\uD83D\uD83D\uDE00"}',
        rb'"params":{"\ud800":{"id":2}},"x":"\udc00\ud800","method":"ping","id":1',
        rb'"method":"\ud800","id":1',
        rb'"id":"\ud83d\ude00 \\ud800","method":"ping","params":{"a":"\ud83d"}',
    ],
)
async def test_a_lone_surrogate_is_a_parse_error_with_the_id(wire: Wire, members: bytes) -> None:
    code, request_id = refusal(wire.ask(b'{"jsonrpc":"2.0",%b}' % members))
    assert code == -32700
    assert request_id == (1 if b'"id":1' in members else "\U0001f600 \\ud800")
    assert "result" in wire.ask(request("ping"))


@pytest.mark.parametrize(
    "members",
    [
        rb'"method":"notifications/cancelled","params":{"requestId":"x","reason":"\udcff"}',
        rb'"method":"notifications/\udcff"',
        rb'"id":"ask-1","result":{"roots":[{"uri":"\ud83d"}]}',
    ],
)
async def test_a_lone_surrogate_in_a_notification_or_response_is_ignored(
    wire: Wire, members: bytes
) -> None:
    wire.send(b'{"jsonrpc":"2.0",%b}' % members)
    assert wire.messages == []


@given(
    st.lists(
        st.sampled_from(
            ["\\", "\\\\", r"\ud83d", r"\ude00", r"\uDFFF", r"\u0041", "ud800", "a", '"']
        )
    )
)
def test_replacing_lone_surrogates_never_changes_an_id(pieces: list[str]) -> None:
    text = "".join(pieces)
    with contextlib.suppress(ValueError):
        asked = json.loads(f'"{text}"')
        try:
            found = decode_message(f'{{"jsonrpc":"2.0","id":"{text}","method":"\\ud800"}}'.encode())
        except Unreadable:
            assert not asked.isascii()
        else:
            assert found.id == asked


@pytest.mark.guarantee("any-input-is-answered")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"jsonrpc":"2.0","id":1,"params":['])
@pytest.mark.parametrize("revision", [None, "2025-03-26"])
async def test_unbounded_nesting_is_a_parse_error(
    server: Server, revision: str | None, opening: bytes
) -> None:
    reply = Wire(server, revision).ask(opening * 500_000)
    assert refusal(reply) == (-32700, None)


async def test_nesting_inside_params_is_a_parse_error_and_the_next_request_is_served(
    wire: Wire,
) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%b}}' % deep
    assert refusal(wire.ask(message))[0] == -32700
    assert "result" in wire.ask(request("ping"))


async def test_the_last_of_repeated_members_wins(wire: Wire) -> None:
    reply = wire.ask(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x","method":"ping"}')
    assert reply == {"jsonrpc": "2.0", "id": 2, "result": {}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text() | JSON,
        "method": st.sampled_from(
            [
                "ping",
                "initialize",
                "notifications/initialized",
                "resources/list",
                "resources/subscribe",
                "resources/unsubscribe",
                "subscriptions/listen",
                "x",
            ]
        )
        | JSON,
        "params": st.just({"uri": "test://one/a"}) | JSON,
        "result": JSON,
    },
)
LINES = (
    st.binary()
    | JSON.map(lambda value: json.dumps(value).encode())
    | MESSAGES.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    | st.lists(MESSAGES, max_size=3).map(lambda value: json.dumps(value).encode())
)


@pytest.mark.guarantee("any-input-is-answered")
@pytest.mark.parametrize("revision", [None, "2025-03-26", "2025-11-25", "2026-07-28"])
@settings(max_examples=30)
@given(lines=st.lists(LINES, min_size=1, max_size=5))
def test_arbitrary_input_produces_only_valid_messages_and_does_no_harm(
    revision: str | None, lines: list[bytes]
) -> None:
    asyncio.run(_attack(revision, lines))


async def _attack(revision: str | None, lines: list[bytes]) -> None:
    wire = Wire(await server_of(Tree({"a": "text"})), revision)
    for line in lines:
        wire.send(line)
    for message in wire.replies:
        for reply in cast("list[Any]", message if isinstance(message, list) else [message]):
            assert reply["jsonrpc"] == "2.0"
            assert ("result" in reply) != ("error" in reply)
    if revision is None:
        wire.send(initialize())
    assert "contents" in await wire.result("resources/read", {"uri": "test://one/a"})


async def test_a_connection_that_was_never_opened_closes_cleanly(server: Server) -> None:
    wire = Wire(server)
    await wire.connection.close()
    wire.send(initialize())
    assert "result" in wire.replies[0]
