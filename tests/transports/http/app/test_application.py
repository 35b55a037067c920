"""Routes, methods, bodies and messages of the endpoint."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import ENVELOPE
from tests.transports.program import (
    README,
    Program,
    initialize,
    message,
    modern,
    notification,
    read,
    request,
    serving,
)
from tests.waiting import block

BODY = 100_000


start_program = partial(serving, http=f"{{limits: {{body: {BODY}}}}}")


INITIALIZE: Any = initialize("2025-11-25")


@for_each("type", ["application/json", 'APPLICATION/JSON; Charset="UTF-8"'])
def test_a_json_body_is_accepted(program: Program, type: str) -> None:
    assert program.ask(request("POST", INITIALIZE, content_type=type)).status == 200


@for_each(
    "type",
    [None, "", "text/plain", "application/json-seq", "application/json; charset=latin-1",
     "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/mixed"],
)  # fmt: skip
def test_any_other_body_is_415(program: Program, type: str | None) -> None:
    assert program.ask(request("POST", INITIALIZE, content_type=type)).status == 415


@for_each(
    ("encoding", "status"), [("gzip", 415), ("gzip, identity", 415), ("x", 415), ("identity", 200)]
)
def test_a_compressed_body_is_415(program: Program, encoding: str, status: int) -> None:
    asked = request("POST", INITIALIZE, content_encoding=encoding)
    assert program.ask(asked).status == status


@for_each(
    "headers",
    [{"transfer_encoding": "chunked"}, {"Content-Length": "3"}, {"content_length": "-1"},
     {"content_length": "9" * 30}, {"content_length": "1_0"}, {"transfer_encoding": "gzip"},
     {"transfer_encoding": "chunked, identity"}],
)  # fmt: skip
def test_a_body_of_ambiguous_length_is_refused(program: Program, headers: dict[str, str]) -> None:
    with program.line() as line:
        assert line.ask(request("POST", INITIALIZE, **headers)).status == 400
        assert line.is_closed()


@pytest.mark.guarantee("any-input-is-answered")
def test_a_body_at_the_limit_is_accepted_and_one_byte_more_is_413(program: Program) -> None:
    longest = json.dumps(INITIALIZE).encode().ljust(BODY)
    assert program.ask(request("POST", longest)).status == 200
    assert program.ask(request("POST", longest + b" ")).status == 413


def test_a_chunked_body_is_counted_as_it_arrives(program: Program) -> None:
    head = request("POST", transfer_encoding="chunked", content_length=None)
    data = json.dumps(INITIALIZE).encode()
    with program.line() as line:
        for part in (data[:10], data[10:]):
            head += b"%x;a=b\r\n%b\r\n" % (len(part), part)
        assert line.ask(head + b"0\r\nTrailer: x\r\n\r\n").status == 200
    with program.line() as line:
        line.send(request("POST", transfer_encoding="chunked", content_length=None))
        for _ in range(11):
            line.send(b"2710\r\n" + b" " * 10_000 + b"\r\n")
        assert line.answer().status == 413
        line.send(b"2710\r\n" + b" " * 10_000 + b"\r\n0\r\n\r\n")
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_a_client_that_sends_too_large_a_body_sees_the_413(program: Program) -> None:
    length = 40_000_000
    with program.line() as line:
        line.send(request("POST", content_length=str(length)))
        for _ in range(length // 1_000_000):
            line.send(b" " * 1_000_000)
        assert line.answer().status == 413
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_a_client_that_expects_100_continue_sees_the_413_before_its_body(program: Program) -> None:
    asked = request("POST", expect="100-continue", content_length="9999999")
    with program.line() as line:
        assert line.ask(asked).status == 413
        assert line.is_closed()


@for_each("method", ["PUT", "PATCH", "HEAD", "TRACE", "PROPFIND"])
def test_other_methods_are_405_with_the_allowed_ones(program: Program, method: str) -> None:
    refused = program.ask(request(method))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST, DELETE")
    newer = program.ask(request(method, mcp_protocol_version="2026-07-28"))
    assert (newer.status, newer.headers["allow"]) == (405, "POST")


@for_each("method", ["GET", "DELETE"])
def test_the_stateless_revision_allows_only_post(program: Program, method: str) -> None:
    refused = program.ask(request(method, mcp_protocol_version="2026-07-28"))
    assert (refused.status, refused.headers["allow"]) == (405, "POST")


def test_the_endpoint_may_be_written_with_a_slash_at_its_end(program: Program) -> None:
    answered = program.ask(request("POST", initialize("2025-11-25"), path="/mcp/"))
    assert (answered.status, answered.json["id"]) == (200, 1)


def test_a_byte_order_mark_before_a_body_is_skipped(program: Program) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(initialize("2025-11-25")).encode()
    answered = program.ask(request("POST", body))
    assert (answered.status, answered.json["id"]) == (200, 1)


@for_each(
    "path",
    ["/", "/mcp//", "//mcp", "/MCP", "/mcp/..", "/mcp%2f%2f", "/sse", "/messages", "/%6dcp%00"],
)
def test_other_paths_are_404(program: Program, path: str) -> None:
    assert program.ask(request("POST", INITIALIZE, path=path)).status == 404


@for_each("path", ["/mcp?x=1", "/%6dcp", "http://127.0.0.1/mcp"])
def test_other_spellings_of_the_path_are_equivalent(program: Program, path: str) -> None:
    assert program.ask(request("POST", INITIALIZE, path=path)).status == 200


@for_each(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[" * 50_000, -32700),
        (b'[{"a":', -32700),
        (b'{"jsonrpc":"1.0","id":1,', -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"initialize"}', -32600),
        (b'{"a":' * 9_000, -32700),
        (b"null", -32600),
        (b'"initialize"', -32600),
        (b"[]", -32600),
        (b"[1]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"initialize"}', -32600),
    ],
)
def test_a_body_that_is_no_message_is_400_with_the_reason(
    program: Program, body: bytes, code: int
) -> None:
    for version in (None, "2025-11-25", "2026-07-28"):
        refused = program.ask(request("POST", body, mcp_protocol_version=version))
        assert refused.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in refused.headers
        if version != "2026-07-28" or body[:1] != b"{" or code == -32700:
            assert (refused.status, refused.code) == (400, code)
        else:
            assert refused.status in (202, 400, 404)
    session = program.session()
    assert session.post(body).status in (202, 400)
    assert session.post(read(README)).status == 200


def test_a_message_outside_a_session_is_refused_with_its_id(program: Program) -> None:
    asked = message("resources/list", id="seven")
    without_header = message("resources/list", {"_meta": ENVELOPE}, id="seven")
    wrong_version = {**asked, "jsonrpc": "1.0"}
    for body, code in ((asked, -32600), (without_header, -32020), (wrong_version, -32600)):
        refused = program.ask(request("POST", body))
        assert (refused.status, refused.code, refused.json["id"]) == (400, code, "seven")
    assert program.ask(request("POST", wrong_version)).json["error"]["message"] == "Invalid request"
    assert program.ask(modern("resources/list")).status == 200


@for_each("version", [None, "2026-07-28"])
def test_a_lone_surrogate_is_refused_with_the_request_id(
    program: Program, version: str | None
) -> None:
    body = rb'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x":"\ud800"}}'
    headers = {} if version is None else {"mcp_protocol_version": version, "mcp_method": "ping"}
    body = body if version is None else body.replace(b"initialize", b"ping")
    refused = program.ask(request("POST", body, **headers))
    assert (refused.status, refused.json["id"]) == (400, 7)
    if version is None:
        assert refused.code == -32700
        answer = program.session().post(body)
        assert (answer.json["id"], answer.code) == (7, -32700)
        told = body.replace(b'"id":7,', b"").replace(b"initialize", b"notifications/x")
        assert program.session().post(told).status == 202


def test_an_unsolicited_response_is_refused_outside_a_session(program: Program) -> None:
    answered: Any = {"jsonrpc": "2.0", "id": 1, "result": {}}
    for headers in ({}, {"mcp_protocol_version": "2026-07-28"}):
        refused = program.ask(request("POST", answered, **headers))
        assert (refused.status, refused.code) == (400, -32600)


def test_notifications_and_responses_are_202_without_a_body(program: Program) -> None:
    session = program.session()
    needless: list[Any] = [
        notification("notifications/initialized"),
        notification("notifications/cancelled", {"requestId": 99}),
        notification("of/another/kind"),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
    ]
    for each in needless:
        taken = session.post(each)
        assert (taken.status, taken.body) == (202, b"")
        assert "content-type" not in taken.headers


def test_one_connection_serves_many_requests(program: Program) -> None:
    with program.line() as line:
        for number in range(50):
            id = f"é{number}"
            asked = modern("resources/read", {"uri": README}, id=id)
            assert line.ask(asked).json["id"] == id


def test_pipelined_requests_are_answered_in_order(program: Program) -> None:
    with program.line() as line:
        asked = [modern("resources/read", {"uri": README}, id=number) for number in range(10)]
        line.send(b"".join(asked))
        assert [line.answer().json["id"] for _ in asked] == list(range(10))


@pytest.mark.guarantee("any-input-is-answered")
@for_each(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     b"GET /mcp HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /mcp HTTP/1.1\r\nA\x00: x\r\n\r\n",
     b"GET /mcp HTTP/9.9\r\n\r\n"],
)  # fmt: skip
def test_input_that_is_not_http_closes_the_connection(program: Program, data: bytes) -> None:
    with program.line() as line:
        line.send(data)
        assert line.answer().status in (400, 421)


@for_each(
    ("status", "refused"),
    [(415, {"content_type": "text/plain"}), (421, {"host": "evil.example"}), (404, {"path": "/x"})],
)
def test_a_refusal_before_100_continue_closes_the_connection(
    program: Program, status: int, refused: Any
) -> None:
    asked = request("POST", expect="100-continue", content_length="9", **refused)
    with program.line() as line:
        answer = line.ask(asked)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert line.is_closed()
    # A client that sends the body nevertheless is not disconnected.
    with program.line() as line:
        answer = line.ask(request("POST", b"{}", expect="100-continue", **refused))
        assert "connection" not in answer.headers
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_an_upgrade_is_ignored_and_the_request_answered(program: Program) -> None:
    # Java's client asks for HTTP/2 with the first request of each connection.
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAM"}
    with program.line() as line:
        for _ in range(2):
            assert line.ask(request("POST", INITIALIZE, **upgrade)).status == 200
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_an_upgrade_is_ignored_wherever_packets_are_split(program: Program) -> None:
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAM"}
    asked = request("POST", message("ping"), mcp_session_id=program.session().id, **upgrade)
    end = asked.index(b"\r\n\r\n") + 6
    with program.line() as line:
        for cut in range(1, end):
            line.send(asked[:cut])
            block(0.001)
            line.send(asked[cut:])
            assert line.answer().json["result"] == {}
        # Behind another, and before one.
        line.send(asked * 3 + request("GET", path="/healthz"))
        for _ in range(3):
            assert line.answer().json["result"] == {}
        assert line.answer().status == 200


def test_the_last_request_may_ask_for_an_upgrade(program: Program) -> None:
    upgrade = {"connection": "Upgrade, close", "upgrade": "h2c"}
    for version in ("HTTP/1.0", "HTTP/1.1"):
        with program.line() as line:
            asked = request("POST", INITIALIZE, version=version, **upgrade)
            assert line.ask(asked).status == 200
            assert line.is_closed()


def test_a_tunnel_is_refused(program: Program) -> None:
    for target in ("127.0.0.1:80", "/mcp"):
        with program.line() as line:
            line.send(f"CONNECT {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            assert line.answer().status in (400, 404, 405)


def test_http_1_0_is_answered_and_closed(program: Program) -> None:
    with program.line() as line:
        assert line.ask(request("POST", INITIALIZE, version="HTTP/1.0")).status == 200
        assert line.is_closed()


def test_none_of_these_requests_was_logged(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        with program.line() as line:
            line.send(b"\x00\r\n\r\n")
            line.answer()
        program.ask(request("POST", b"{", origin="https://evil.example"))
        program.ask(request("PUT", connection="upgrade", upgrade="websocket"))
        assert program.end(15) == 0
        assert program.errors == []
