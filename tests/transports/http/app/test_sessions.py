"""Sessions of the handshake revisions: their beginning, their end, and their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import ENVELOPE, HANDSHAKE
from tests.transports.program import (
    GATE,
    OPEN,
    README,
    STATE,
    Program,
    initialize,
    message,
    notification,
    read,
    request,
    serving,
)

_UNSUPPORTED = ("2099-01-01", "1999-01-01", "x", "", "2025-06-18, 2025-06-18")


@for_each("revision", HANDSHAKE)
def test_initialize_begins_a_session_of_its_revision(program: Program, revision: str) -> None:
    opened = program.ask(request("POST", initialize(revision)))
    assert opened.json["result"]["protocolVersion"] == revision
    id = opened.headers["mcp-session-id"]
    assert len(id) >= 22  # 128 bits
    assert all("!" <= character <= "~" for character in id)
    assert id != program.session(revision).id
    for header in (None, revision):
        asked = request("POST", read(README), mcp_session_id=id, mcp_protocol_version=header)
        assert program.ask(asked).json["result"]["contents"][0]["text"] == "# Hällo\n"


def test_initialize_may_name_another_revision_than_its_header(program: Program) -> None:
    asked = request("POST", initialize("2025-06-18"), mcp_protocol_version="2025-11-25")
    assert program.ask(asked).json["result"]["protocolVersion"] == "2025-06-18"


def test_an_unknown_revision_gets_the_latest_one(program: Program) -> None:
    opened = program.ask(request("POST", initialize("2099-01-01")))
    assert opened.json["result"]["protocolVersion"] == "2025-11-25"
    assert "mcp-session-id" in opened.headers


@for_each(
    ("method", "params"),
    [
        ("initialize", {}),
        ("initialize", {"protocolVersion": 5, "capabilities": {}}),
        ("resources/list", {}),
        ("ping", {}),
    ],
)
def test_only_a_valid_initialize_begins_a_session(
    program: Program, method: str, params: Any
) -> None:
    refused = program.ask(request("POST", message(method, params)))
    assert "error" in refused.json
    assert "mcp-session-id" not in refused.headers


def test_a_missing_session_id_is_400_and_an_unknown_one_404(program: Program) -> None:
    for method in ("POST", "GET", "DELETE"):
        assert program.ask(request(method, read(README))).status == 400
        for unknown in ("x" * 22, "", "é"):
            asked = request(method, read(README), mcp_session_id=unknown)
            assert program.ask(asked).status == 404


def test_a_deleted_session_is_404(program: Program) -> None:
    session, other = program.session(), program.session()
    with session.stream() as stream:
        ended = program.ask(session.request("DELETE"))
        assert (ended.status, ended.body) == (204, b"")
        assert "content-length" not in ended.headers
        assert stream.events() == []
    for method in ("POST", "GET", "DELETE"):
        assert program.ask(session.request(method, read(README))).status == 404
    assert other.post(read(README)).status == 200


def test_requests_in_flight_end_when_their_session_is_deleted(program: Program) -> None:
    session = program.session()
    with program.line() as line:
        line.send(session.request("POST", read(GATE + "deleted")))
        program.waiting("deleted")
        program.ask(session.request("DELETE"))
        assert line.answer().status == 404
    program.until(lambda: program.read(STATE + "deleted").endswith("1 cancelled"))


@for_each("revision", ["2025-03-26", "2025-11-25"])
def test_a_revision_other_than_the_session_has_is_400(program: Program, revision: str) -> None:
    session = program.session(revision)
    for other in {"2025-03-26", "2025-06-18", "2025-11-25", *_UNSUPPORTED} - {revision}:
        asked = {"mcp_protocol_version": other}
        assert session.post(read(README), **asked).status == 400
        assert program.ask(session.request("GET", **asked)).status == 400
        assert program.ask(session.request("DELETE", **asked)).status == 400
    assert session.post(read(README), mcp_protocol_version=revision).status == 200


def test_a_session_refuses_the_envelope_of_the_stateless_revision(program: Program) -> None:
    refused = program.session().post(message("resources/list", {"_meta": ENVELOPE}))
    assert (refused.status, refused.code) == (400, -32600)
    refused = program.ask(request("POST", message("resources/list", {"_meta": ENVELOPE})))
    assert (refused.status, refused.code) == (400, -32020)


def test_a_second_initialize_is_refused(program: Program) -> None:
    refused = program.session().post(initialize("2025-11-25"))
    assert (refused.status, refused.code) == (400, -32600)


def test_errors_of_a_request_have_status_200(program: Program) -> None:
    session = program.session()
    for asked, code in (
        (read("file:///project/absent"), -32002),
        (message("resources/read", {}), -32602),
        (message("tools/of/nobody"), -32601),
    ):
        answered = session.post(asked)
        assert (answered.status, answered.code) == (200, code)


def test_a_cancelled_request_is_not_answered(program: Program) -> None:
    session = program.session()
    with program.line() as line:
        line.send(session.request("POST", read(GATE + "cancelled", id="c")))
        program.waiting("cancelled")
        cancel = notification("notifications/cancelled", {"requestId": "c"})
        assert session.post(cancel).status == 202
        answered = line.answer()
        assert (answered.status, answered.body) == (202, b"")
    assert program.read(STATE + "cancelled") == "0 waiting 0 read 1 cancelled"


def test_disconnecting_does_not_cancel_in_a_session(program: Program) -> None:
    session = program.session()
    with program.line() as line:
        line.send(session.request("POST", read(GATE + "left", id=7)))
        program.waiting("left")
    busy = session.post(read(README, id=7))
    assert busy.code == -32600  # The id is in use.
    program.read(OPEN + "left")
    program.until(lambda: session.post(read(README, id=7)).status == 200)
    assert program.read(STATE + "left") == "0 waiting 1 read 0 cancelled"


def test_one_session_cannot_cancel_requests_of_another(program: Program) -> None:
    session = program.session()
    with program.line() as line:
        line.send(session.request("POST", read(GATE + "mine", id=1)))
        program.waiting("mine")
        cancel = notification("notifications/cancelled", {"requestId": 1})
        assert program.session().post(cancel).status == 202
        program.read(OPEN + "mine")
        assert line.answer().json["result"]["contents"][0]["text"] == "mine at last"


# -- batches


def test_a_batch_is_answered_whole_in_the_revision_that_has_batches(program: Program) -> None:
    session = program.session("2025-03-26")
    batch = [message("ping", id=1), notification("notifications/initialized"), read(README, id=2)]
    answered = session.post(batch)
    assert [each["id"] for each in answered.json] == [1, 2]
    assert session.post(batch[1:2]).status == 202
    refused = session.post([])
    assert (refused.status, refused.code) == (400, -32600)


def test_a_batch_waits_for_its_slowest_request(program: Program) -> None:
    session = program.session("2025-03-26")
    with program.line() as line:
        line.send(session.request("POST", [read(GATE + "batch", id=1), read(README, id=2)]))
        program.waiting("batch")
        program.read(OPEN + "batch")
        assert {each["id"] for each in line.answer().json} == {1, 2}


def test_a_batch_cancelled_whole_is_not_answered(program: Program) -> None:
    session = program.session("2025-03-26")
    with program.line() as line:
        line.send(session.request("POST", [read(GATE + "none", id=1), read(GATE + "none", id=2)]))
        program.waiting("none", readers=2)
        session.post([notification("notifications/cancelled", {"requestId": id}) for id in (1, 2)])
        assert line.answer().status == 202


@for_each("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_refuse_a_batch(program: Program, revision: str) -> None:
    refused = program.session(revision).post([message("ping")])
    assert (refused.status, refused.code) == (400, -32600)


def test_a_batch_cannot_begin_a_session(program: Program) -> None:
    refused = program.ask(request("POST", [initialize("2025-03-26")]))
    assert (refused.status, refused.code) == (400, -32600)
    assert "mcp-session-id" not in refused.headers


# -- limits


def opened(program: Program, count: int) -> list[tuple[int, str | None]]:
    """Begin sessions one after another; return each status with its Retry-After."""
    found: list[tuple[int, str | None]] = []
    with program.line() as line:
        for _ in range(count):
            answered = line.ask(request("POST", initialize("2025-11-25")))
            found.append((answered.status, answered.headers.get("retry-after")))
    return found


@pytest.mark.deep
def test_ten_thousand_abandoned_sessions_are_limited_and_use_little_memory(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as program:
        first = program.session()
        opened(program, 100)
        before = program.memory()
        statuses = opened(program, 10_000)
        assert statuses.count((200, None)) == 899
        assert statuses.count((503, "60")) == 9101
        assert program.memory() - before < 32 << 20
        assert first.post(read(README)).status == 200
        program.ask(first.request("DELETE"))
        assert opened(program, 2) == [(200, None), (503, "60")]


def test_the_longest_idle_session_makes_room(tmp_path: Path) -> None:
    http, timing = "{limits: {sessions: 3}}", {"session_evictable_s": 0.0}
    with serving(tmp_path, http=http, timing=timing) as program:
        one, two, three = (program.session() for _ in range(3))
        with one.stream():
            two.post(message("ping"))
            four = program.session()
            statuses = [each.post(message("ping")).status for each in (one, two, three, four)]
            assert statuses == [200, 200, 404, 200]


def test_an_idle_session_ends(tmp_path: Path) -> None:
    with serving(tmp_path, http="{limits: {sessions: 3, session_idle: 1s}}") as program:
        streaming, waiting, idle = (program.session() for _ in range(3))
        with streaming.stream(), program.line() as line:
            line.send(waiting.request("POST", read(GATE + "idle")))
            # A ping would keep it in use; so its end shows in the room for another session.
            program.until(lambda: opened(program, 1) == [(200, None)])
            assert idle.post(message("ping")).status == 404
            program.read(OPEN + "idle")
            assert line.answer().status == 200
            assert opened(program, 1) == [(503, "60")]
            assert waiting.post(message("ping")).status == 200
            assert streaming.post(message("ping")).status == 200
