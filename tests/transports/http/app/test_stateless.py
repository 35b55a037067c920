"""The stateless revision: headers that repeat the body, and listening."""

from __future__ import annotations

import signal
from base64 import b64encode
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import ENVELOPE
from tests.transports.program import (
    EACH_PROGRESS,
    GATE,
    MANY,
    OPEN,
    README,
    STATE,
    Program,
    message,
    modern,
    notification,
    request,
    serving,
)

VERSION = "io.modelcontextprotocol/protocolVersion"
READ: Any = {"uri": README}


start_program = partial(serving, timing=EACH_PROGRESS)


def encoded(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def test_a_request_needs_no_session(program: Program) -> None:
    answered = program.ask(modern("resources/read", READ))
    assert answered.json["result"]["contents"][0]["text"] == "# Hällo\n"
    assert "mcp-session-id" not in answered.headers
    # Headers that older clients still send.
    assert program.ask(modern("resources/read", READ, mcp_session_id="x")).status == 200


@for_each(
    "name", [README, encoded(README), f" {README}\t", encoded("file:///project/read%20me.md")]
)
def test_mcp_name_may_be_in_base64(program: Program, name: str) -> None:
    assert program.ask(modern("resources/read", READ, mcp_name=name)).status == 200


def test_an_mcp_name_beyond_ascii_must_be_in_base64(program: Program) -> None:
    (program.folder / "é").write_text("e")
    asked = {"uri": "file:///project/é"}
    for name, status in ((encoded("file:///project/é"), 200), ("file:///project/Ã©", 400)):
        assert program.ask(modern("resources/read", asked, mcp_name=name)).status == status


@for_each(
    "headers",
    [{"mcp_method": None}, {"mcp_method": ""}, {"mcp_method": "resources/list"},
     {"mcp_method": "Resources/Read"}, {"mcp_method": encoded("resources/read")},
     {"mcp_name": None}, {"mcp_name": ""}, {"mcp_name": README.upper()},
     {"mcp_name": README + "x"}, {"mcp_name": encoded(README + "x")},
     {"mcp_name": encoded(README)[:-4] + "?="}, {"mcp_name": "=?base64?!?="},
     {"mcp_name": "=?base64?/w==?="}, {"mcp_name": "=?BASE64?" + encoded(README)[9:]},
     {"mcp_name": encoded("ab").replace("YWI=", "YWJ=")},
     {"mcp_protocol_version": None}, {"mcp_protocol_version": "2025-11-25"},
     {"mcp_protocol_version": "2099-01-01"}],
)  # fmt: skip
def test_a_header_different_from_the_body_is_refused(
    program: Program, headers: dict[str, str | None]
) -> None:
    refused = program.ask(modern("resources/read", READ, **headers))
    assert (refused.status, refused.code) == (400, -32020)


@for_each(("method", "params"), [("resources/list", {}), ("server/discover", {})])
def test_a_method_without_a_name_needs_no_mcp_name(
    program: Program, method: str, params: Any
) -> None:
    assert program.ask(modern(method, params, id="7")).json["id"] == "7"
    assert program.ask(modern(method, params, mcp_name="anything")).status == 200


def test_an_unknown_revision_is_refused_with_the_supported_ones(program: Program) -> None:
    meta = {**ENVELOPE, VERSION: "2099-01-01"}
    for body in (
        message("resources/list", {"_meta": meta}),
        message("resources/list"),
        notification("notifications/cancelled"),
    ):
        for method in ("resources/list", None):
            asked = request("POST", body, mcp_protocol_version="2099-01-01", mcp_method=method)
            refused = program.ask(asked)
            assert (refused.status, refused.code) == (400, -32022)
            told = {"supported": ["2026-07-28"], "requested": "2099-01-01"}
            assert refused.json["error"]["data"] == told


def test_errors_have_the_status_of_the_revision(program: Program) -> None:
    for asked, status, code in (
        (modern("of/nobody"), 404, -32601),
        (modern("initialize"), 404, -32601),
        (modern("ping"), 404, -32601),
        (modern("resources/subscribe", READ), 404, -32601),
        (modern("resources/read"), 400, -32602),
        (modern("resources/read", {"uri": "file:///project/absent"}), 400, -32602),
        (modern("resources/list", {"cursor": "x"}), 400, -32602),
        (modern("resources/list", {"_meta": {VERSION: 5}}), 400, -32020),
        (
            request("POST", message("resources/list"), mcp_protocol_version="2026-07-28"),
            400,
            -32602,
        ),
    ):
        refused = program.ask(asked)
        assert (refused.status, refused.code) == (status, code)
        assert refused.headers["content-type"] == "application/json"


def test_a_batch_is_refused(program: Program) -> None:
    refused = program.ask(request("POST", [message("ping")], mcp_protocol_version="2026-07-28"))
    assert (refused.status, refused.code) == (400, -32600)


def test_a_notification_is_accepted_and_cancels_nothing(program: Program) -> None:
    with program.line() as line:
        line.send(modern("resources/read", {"uri": GATE + "kept"}, id=1))
        program.waiting("kept")
        cancel = notification("notifications/cancelled", {"requestId": 1})
        taken = program.ask(request("POST", cancel, mcp_protocol_version="2026-07-28"))
        assert (taken.status, taken.body) == (202, b"")
        program.read(OPEN + "kept")
        assert line.answer().status == 200


@for_each("accept", ["application/json", "text/event-stream"])
def test_disconnecting_cancels_a_stateless_request(program: Program, accept: str) -> None:
    name = f"left-{accept.replace('/', '-')}"
    with program.line() as line:
        line.send(modern("resources/read", {"uri": GATE + name}, accept=accept))
        program.waiting(name)
    program.until(lambda: program.read(STATE + name) == "0 waiting 0 read 1 cancelled")


def test_progress_comes_before_the_response(program: Program) -> None:
    asked: Any = {"uri": MANY, "_meta": {"progressToken": "p"}}
    with program.line() as line:
        assert line.ask(modern("resources/read", asked)).status == 200
        *progress, answer = line.events()
    assert [each.json["params"]["progress"] for each in progress] == [1, 2, 3, 4, 5]
    assert len(answer.json["result"]["contents"]) == 5
    # The stream cannot be resumed.
    assert {event.id for event in (*progress, answer)} == {None}


# -- listening


def listen(*uris: str) -> bytes:
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": list(uris)}
    return modern("subscriptions/listen", {"notifications": wanted}, id="listen")


def change(program: Program, name: str) -> None:
    with (program.folder / name).open("a") as opened:
        opened.write("more\n")


def test_a_listen_is_acknowledged_and_notified(program: Program) -> None:
    with program.line() as line:
        opened = line.ask(listen(README, "file:///project/absent"))
        assert opened.headers["content-type"] == "text/event-stream"
        acknowledged = line.event()
        assert acknowledged.json["method"] == "notifications/subscriptions/acknowledged"
        honoured = acknowledged.json["params"]["notifications"]["resourceSubscriptions"]
        assert honoured == [README]
        change(program, "read me.md")
        told = line.event()
        assert told.json["params"]["uri"] == README
        subscription = told.json["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        assert subscription == "listen"
        (program.folder / "another").write_text("")
        assert line.event().json["method"] == "notifications/resources/list_changed"
        assert (acknowledged.id, told.id, told.retry) == (None, None, None)


def test_two_listens_may_have_the_same_id(program: Program) -> None:
    with program.line() as one, program.line() as two:
        for line in (one, two):
            line.ask(listen(README))
            line.event()
        one.socket.close()
        change(program, "read me.md")
        assert two.event().json["params"]["uri"] == README


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_listen_ends_with_its_result_at_shutdown(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as program, program.line() as line:
        line.ask(listen(README))
        line.event()
        change(program, "read me.md")
        assert line.event().json["params"]["uri"] == README
        assert program.end(number) == 0
        told = [each.json for each in line.events()]
        assert [(each.get("method"), each.get("id")) for each in told] == [(None, "listen")]
        assert told[0]["result"]["resultType"] == "complete"
        assert program.errors == []
