"""What is asked over HTTP, in every shape: what is refused, beside the nearest that is answered."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.transports.program import (
    BOTH,
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

BODY = 100_000


start_program = partial(serving, http=f"{{limits: {{body: {BODY}}}}}")


INITIALIZE: Any = initialize("2025-11-25")


@pytest.mark.parametrize("type", ["application/json", 'APPLICATION/JSON; Charset="UTF-8"'])
def test_a_body_of_json_is_taken(program: Program, type: str) -> None:
    assert program.ask(request("POST", INITIALIZE, content_type=type)).status == 200


@pytest.mark.parametrize(
    "type",
    [None, "", "text/plain", "application/json-seq", "application/json; charset=latin-1",
     "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/mixed"],
)  # fmt: skip
def test_a_body_of_anything_else_is_415(program: Program, type: str | None) -> None:
    assert program.ask(request("POST", INITIALIZE, content_type=type)).status == 415


@pytest.mark.parametrize(
    ("encoding", "status"), [("gzip", 415), ("gzip, identity", 415), ("x", 415), ("identity", 200)]
)
def test_a_body_that_is_compressed_is_415(program: Program, encoding: str, status: int) -> None:
    asked = request("POST", INITIALIZE, content_encoding=encoding)
    assert program.ask(asked).status == status


@pytest.mark.parametrize(
    "accept",
    [None, "", BOTH, "application/json", "*/*", "application/*", "Application/JSON;q=0.1",
     "text/html, */*;q=0.1", "text/event-stream", "*/*;q=0, application/json",
     "application/json;q=0, text/*"],
)  # fmt: skip
def test_who_takes_one_of_our_answers_gets_it(program: Program, accept: str | None) -> None:
    assert program.ask(request("POST", INITIALIZE, accept=accept)).status == 200


@pytest.mark.parametrize(
    "accept",
    ["text/html", "application/xml, image/*", "application/json;q=0", "*/*; q=0.000",
     "application/json;q=0, text/event-stream ; q=0 , */*"],
)  # fmt: skip
def test_who_takes_none_of_our_answers_gets_406(program: Program, accept: str) -> None:
    assert program.ask(request("POST", INITIALIZE, accept=accept)).status == 406


def test_a_stream_is_406_for_who_does_not_take_one(program: Program) -> None:
    session = program.session()
    asked = {"notifications": {"resourcesListChanged": True}}
    for accept in ("application/json", "text/event-stream;q=0"):
        assert program.ask(session.request("GET", accept=accept)).status == 406
        assert program.ask(modern("subscriptions/listen", asked, accept=accept)).status == 406


@pytest.mark.parametrize(
    "name",
    ["accept", "authorization", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
     "mcp-protocol-version", "mcp-session-id", "origin"],
)  # fmt: skip
def test_a_header_that_is_given_twice_is_400_unless_it_is_a_list(
    program: Program, name: str
) -> None:
    whole = request("POST", INITIALIZE)
    line = next((line for line in whole.split(b"\r\n") if line.startswith(name.encode())), None)
    line = line or f"{name}: x".encode()
    twice = whole.replace(b"\r\n", b"\r\n" + line + b"\r\n" + line + b"\r\n", 1)
    assert program.ask(twice).status == (200 if name == "accept" else 400)


def test_the_parts_of_a_list_in_two_headers_are_one_list(program: Program) -> None:
    asked = request("POST", INITIALIZE, accept="text/html", Accept="application/json")
    assert program.ask(asked).status == 200


@pytest.mark.parametrize("space", ["", "  ", "\t", " \t "])
def test_space_around_a_header_does_not_belong_to_it(program: Program, space: str) -> None:
    session = program.session()
    asked = {"mcp_session_id": f"{space}{session.id}{space}"}
    assert program.ask(session.request("POST", message("ping"), **asked)).status == 200


@pytest.mark.parametrize("other", ["\xa0", "\x85", "\x1f"])
def test_what_only_looks_like_space_does(program: Program, other: str) -> None:
    session = program.session()
    asked = session.request("POST", message("ping"), mcp_session_id=session.id + other)
    assert program.ask(asked).status in (400, 404)


@pytest.mark.parametrize(
    "headers",
    [{"transfer_encoding": "chunked"}, {"Content-Length": "3"}, {"content_length": "-1"},
     {"content_length": "9" * 30}, {"content_length": "1_0"}, {"transfer_encoding": "gzip"},
     {"transfer_encoding": "chunked, identity"}],
)  # fmt: skip
def test_a_body_whose_length_cannot_be_told_is_refused(
    program: Program, headers: dict[str, str]
) -> None:
    with program.line() as line:
        assert line.ask(request("POST", INITIALIZE, **headers)).status == 400
        assert line.is_closed()


def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_413(program: Program) -> None:
    longest = json.dumps(INITIALIZE).encode().ljust(BODY)
    assert program.ask(request("POST", longest)).status == 200
    assert program.ask(request("POST", longest + b" ")).status == 413


def test_a_body_in_chunks_is_counted_as_it_comes(program: Program) -> None:
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


def test_who_sends_too_long_a_body_is_told_so_and_not_cut_off(program: Program) -> None:
    length = 40_000_000
    with program.line() as line:
        line.send(request("POST", content_length=str(length)))
        for _ in range(length // 1_000_000):
            line.send(b" " * 1_000_000)
        assert line.answer().status == 413
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_who_asks_before_sending_a_long_body_need_not_send_it(program: Program) -> None:
    asked = request("POST", expect="100-continue", content_length="9999999")
    with program.line() as line:
        assert line.ask(asked).status == 413
        assert line.is_closed()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "PROPFIND"])
def test_other_methods_are_405_and_told_which_there_are(program: Program, method: str) -> None:
    refused = program.ask(request(method))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST, DELETE")
    newer = program.ask(request(method, mcp_protocol_version="2026-07-28"))
    assert (newer.status, newer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_stateless_revision_knows_only_post(program: Program, method: str) -> None:
    refused = program.ask(request(method, mcp_protocol_version="2026-07-28"))
    assert (refused.status, refused.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path", ["/", "/mcp/", "//mcp", "/MCP", "/mcp/..", "/mcp%2f", "/sse", "/messages", "/%6dcp%00"]
)
def test_other_paths_are_404(program: Program, path: str) -> None:
    assert program.ask(request("POST", INITIALIZE, path=path)).status == 404


@pytest.mark.parametrize("path", ["/mcp?x=1", "/%6dcp", "http://127.0.0.1/mcp"])
def test_other_spellings_of_the_path_are_it(program: Program, path: str) -> None:
    assert program.ask(request("POST", INITIALIZE, path=path)).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[" * 50_000, -32600),
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
def test_a_body_that_is_no_message_is_400_and_says_why(
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


@pytest.mark.parametrize("version", [None, "2026-07-28"])
def test_half_a_character_is_refused_with_the_id(program: Program, version: str | None) -> None:
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


def test_an_answer_that_nobody_asked_for_is_refused_without_a_session(program: Program) -> None:
    answered: Any = {"jsonrpc": "2.0", "id": 1, "result": {}}
    for headers in ({}, {"mcp_protocol_version": "2026-07-28"}):
        refused = program.ask(request("POST", answered, **headers))
        assert (refused.status, refused.code) == (400, -32600)


def test_what_needs_no_answer_is_202_without_a_body(program: Program) -> None:
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


def test_many_requests_follow_each_other_on_one_connection(program: Program) -> None:
    with program.line() as line:
        for number in range(50):
            id = f"é{number}"
            asked = modern("resources/read", {"uri": README}, id=id)
            assert line.ask(asked).json["id"] == id


def test_requests_sent_at_once_are_answered_in_order(program: Program) -> None:
    with program.line() as line:
        asked = [modern("resources/read", {"uri": README}, id=number) for number in range(10)]
        line.send(b"".join(asked))
        assert [line.answer().json["id"] for _ in asked] == list(range(10))


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     b"GET /mcp HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /mcp HTTP/1.1\r\nA\x00: x\r\n\r\n",
     b"GET /mcp HTTP/9.9\r\n\r\n"],
)  # fmt: skip
def test_what_is_not_http_closes_the_connection(program: Program, data: bytes) -> None:
    with program.line() as line:
        line.send(data)
        assert line.answer().status in (400, 421)


@pytest.mark.parametrize(
    ("status", "refused"),
    [(415, {"content_type": "text/plain"}), (421, {"host": "evil.example"}), (404, {"path": "/x"})],
)
def test_who_waits_for_leave_to_send_a_body_and_is_refused_comes_again(
    program: Program, status: int, refused: Any
) -> None:
    asked = request("POST", expect="100-continue", content_length="9", **refused)
    with program.line() as line:
        answer = line.ask(asked)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert line.is_closed()
    # Who sends the body all the same is not sent away.
    with program.line() as line:
        answer = line.ask(request("POST", b"{}", expect="100-continue", **refused))
        assert "connection" not in answer.headers
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_an_upgrade_is_not_taken_and_the_request_is_answered(program: Program) -> None:
    # As Java's client asks, whose first request of a connection could become HTTP/2.
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAM"}
    with program.line() as line:
        for _ in range(2):
            assert line.ask(request("POST", INITIALIZE, **upgrade)).status == 200
        assert line.ask(request("POST", INITIALIZE)).status == 200


def test_an_upgrade_is_not_taken_wherever_the_network_cuts_it(program: Program) -> None:
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAM"}
    asked = request("POST", message("ping"), mcp_session_id=program.session().id, **upgrade)
    end = asked.index(b"\r\n\r\n") + 6
    with program.line() as line:
        for cut in range(1, end):
            line.send(asked[:cut])
            time.sleep(0.001)
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


def test_old_http_is_answered_and_closed(program: Program) -> None:
    with program.line() as line:
        assert line.ask(request("POST", INITIALIZE, version="HTTP/1.0")).status == 200
        assert line.is_closed()


def test_nothing_of_all_this_was_logged(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        with program.line() as line:
            line.send(b"\x00\r\n\r\n")
            line.answer()
        program.ask(request("POST", b"{", origin="https://evil.example"))
        program.ask(request("PUT", connection="upgrade", upgrade="websocket"))
        assert program.end(15) == 0
        assert program.errors == []
