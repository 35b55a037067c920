"""Elicitation over HTTP: on the stream of its request, answered in the same session."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.cases import for_each
from tests.protocol.wire import CLIENT
from tests.transports.program import (
    Program,
    RawConnection,
    Session,
    message,
    modern,
    notification,
    project,
    request,
    running,
)

PERSON = Path(__file__).parents[3] / "person.py"
GREET = message("tools/call", {"name": "greet"}, id=7)
CAN: dict[str, Any] = {"elicitation": {}}


@contextlib.contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(project(place, provider=PERSON)) as started:
        yield started


def opened(program: Program, revision: str = "2025-11-25") -> Session:
    """Begin a session of a client that supports elicitation."""
    params: dict[str, Any] = {
        "protocolVersion": revision,
        "capabilities": CAN,
        "clientInfo": CLIENT,
    }
    found = program.ask(request("POST", message("initialize", params)))
    session = Session(program, found.headers["mcp-session-id"], revision)
    assert session.post(notification("notifications/initialized")).status == 202
    return session


@contextlib.contextmanager
def asked(session: Session, **headers: Any) -> Generator[tuple[RawConnection, Any]]:
    """Call a tool; give the stream of the call, and the question that came first on it."""
    with session.stream("POST", GREET, **headers) as line:
        question = line.event().json
        assert question["method"] == "elicitation/create"
        yield line, question


def answer(question: Any, name: object = "Ada") -> Any:
    result = {"action": "accept", "content": {"name": name}}
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def words(line: RawConnection) -> str:
    (last,) = line.events()
    assert last.json["id"] == 7
    return str(last.json["result"]["content"][0]["text"])


@for_each("revision", ["2025-06-18", "2025-11-25"])
def test_an_elicitation_comes_on_the_stream_of_its_call(program: Program, revision: str) -> None:
    session = opened(program, revision)
    with session.stream(), asked(session) as (line, question):
        replied = session.post(answer(question))
        assert (replied.status, replied.body) == (202, b"")
        assert words(line) == "Ada"


def test_a_client_that_accepts_no_stream_is_not_asked(program: Program) -> None:
    session = opened(program)
    found = session.post(GREET, accept="application/json")
    text = found.json["result"]["content"][0]["text"]
    assert text == "cannot ask: this client cannot be asked for what is missing"


def test_another_session_cannot_answer(program: Program) -> None:
    mine, other = opened(program), opened(program)
    with asked(mine) as (line, question):
        assert other.post(answer(question, "Eve")).status == 202
        with asked(other) as (theirs, same):
            assert same["id"] == question["id"]
            assert other.post(answer(same, "Eve")).status == 202
            assert words(theirs) == "Eve"
        assert mine.post(answer(question)).status == 202
        assert words(line) == "Ada"


def test_an_answer_outside_the_session_is_refused(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        assert program.ask(request("POST", answer(question, "Eve"))).status == 400
        stray = request("POST", answer(question, "Eve"), mcp_session_id="guessed")
        assert program.ask(stray).status == 404
        assert session.post(answer(question)).status == 202
        assert words(line) == "Ada"


def test_an_answer_over_the_limit_ends_the_question_of_its_session_only(program: Program) -> None:
    mine, other = opened(program), opened(program)
    with asked(other) as (others, theirs):
        with asked(mine) as (line, question):
            assert mine.post(answer(question, "x" * 5_000_000)).status == 413
            assert words(line) == "cannot ask: the client's answer is too long"
            assert mine.post(answer(question)).status == 202
        assert other.post(answer(theirs)).status == 202
        assert words(others) == "Ada"


def test_a_body_over_the_limit_outside_the_session_ends_no_question(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        huge = answer(question, "x" * 5_000_000)
        assert program.ask(request("POST", huge)).status == 413
        assert program.ask(request("POST", huge, mcp_session_id="guessed")).status == 413
        assert session.post(answer(question)).status == 202
        assert words(line) == "Ada"


def test_only_the_first_answer_counts(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        assert session.post(answer({"id": "ask-99"}, "Eve")).status == 202
        assert session.post(answer(question)).status == 202
        assert session.post(answer(question, "Eve")).status == 202
        assert words(line) == "Ada"


def test_a_client_that_reconnects_sees_the_elicitation_again(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        primer = line.primer.id
    with session.stream(last_event_id=primer) as line:
        assert line.event().json == question
        assert session.post(answer(question)).status == 202
        assert words(line) == "Ada"


def test_a_session_that_ends_cancels_its_elicitations(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        assert program.ask(session.request("DELETE")).status == 204
        line.events()
        assert session.post(answer(question)).status == 404


def test_in_the_stateless_revision_the_elicitation_is_the_result(program: Program) -> None:
    can = {"io.modelcontextprotocol/clientCapabilities": CAN}
    call = {"name": "greet", "_meta": can}
    headers = {"mcp_name": "greet"}
    first = program.ask(modern("tools/call", call, **headers)).json["result"]
    assert (first["resultType"], list(first["inputRequests"])) == ("input_required", ["name"])
    again = {**call, "inputResponses": {"name": answer({"id": 0})["result"]}}
    last = program.ask(modern("tools/call", again, **headers)).json["result"]
    assert last["content"][0]["text"] == "Ada"


def test_the_stateless_revision_refuses_responses(program: Program) -> None:
    session = opened(program)
    with asked(session) as (line, question):
        stray = request("POST", answer(question, "Eve"), mcp_protocol_version="2026-07-28")
        assert program.ask(stray).status == 400
        assert session.post(answer(question)).status == 202
        assert words(line) == "Ada"
