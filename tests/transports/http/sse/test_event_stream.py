"""Event streams: notifications, responses, and resumption after any event."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE
from tests.transports.program import (
    EACH_PROGRESS,
    GATE,
    LARGE,
    MANY,
    OPEN,
    README,
    STATE,
    Program,
    RawConnection,
    Session,
    message,
    modern,
    read,
    request,
    serving,
)

NAMES = ("a", "b", "c")
# A client that accepts only streams gets one at once.
STREAM: Any = {"accept": "text/event-stream"}


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    (place / "project").mkdir()
    for name in NAMES:
        (place / "project" / name).write_text("")
    with serving(place, timing=EACH_PROGRESS) as started:
        yield started


def subscribe(session: Session, *uris: str) -> None:
    for uri in uris:
        assert "result" in session.post(message("resources/subscribe", {"uri": uri})).json


def change(program: Program, name: str = "read me.md") -> None:
    """Append to a file, which is one change; a new file is a change of its folder."""
    with (program.folder / name).open("a") as opened:
        opened.write("more\n")


def updated(line: RawConnection) -> str:
    told = line.event().json
    assert told["method"] == "notifications/resources/updated"
    return str(told["params"]["uri"])


def test_the_later_of_two_concurrent_readers_has_the_stream(program: Program) -> None:
    session = program.session()
    for _ in range(20):
        with program.lines(2) as lines:
            for line in lines:
                line.send(session.request("GET"))
            for line in lines:
                answer = line.answer()
                assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")


# -- notifications


@for_each("revision", HANDSHAKE)
def test_a_notification_comes_on_the_stream_and_nowhere_else(
    program: Program, revision: str
) -> None:
    session = program.session(revision)
    with session.stream() as stream:
        subscribe(session, README)
        change(program)
        assert updated(stream) == README
        assert session.post(message("ping", id="p")).json == {
            "jsonrpc": "2.0",
            "id": "p",
            "result": {},
        }


def test_notifications_wait_for_a_reader(program: Program) -> None:
    session, witness = program.session(), program.session()
    subscribe(session, README)
    subscribe(witness, README)
    with witness.stream() as other:
        for _ in range(3):
            change(program)
            assert updated(other) == README
    with session.stream() as stream:
        assert updated(stream) == README
        program.ask(session.request("DELETE"))
        assert stream.events() == []


def test_the_latest_reader_gets_the_notifications(program: Program) -> None:
    # The reader before may be dead unnoticed, as on a laptop that slept.
    session = program.session()
    subscribe(session, README)
    with session.stream() as before, session.stream() as latest:
        assert before.events() == []
        change(program)
        assert updated(latest) == README


def test_other_sessions_get_no_notifications(program: Program) -> None:
    session, other = program.session(), program.session()
    with session.stream() as stream, other.stream() as silent:
        subscribe(session, README)
        change(program)
        assert updated(stream) == README
        program.ask(other.request("DELETE"))
        assert silent.events() == []


def test_only_revisions_with_priming_events_get_them(program: Program) -> None:
    for revision in HANDSHAKE:
        session = program.session(revision)
        subscribe(session, README)
        with program.line() as line:
            line.ask(session.request("GET"))
            change(program)
            event = line.event()
            if revision == "2025-11-25":
                assert (event.id, event.data, event.retry) == ("0-0", "", "1000")
                event = line.event()
            assert (event.id, event.name, event.retry) == ("0-1", "message", None)


@pytest.mark.deep
def test_a_slow_reader_gets_more_notifications_than_are_kept(tmp_path: Path) -> None:
    # Some 6 MB: more than the system buffers for a client that does not read.
    deep = tmp_path / "project" / "/".join(["é" * 120] * 3)
    deep.mkdir(parents=True)
    names = [f"{number:04}" for number in range(2500)]
    for name in names:
        (deep / name).write_text("")
    with serving(tmp_path) as program:
        uris = {f"file:///project/{'/'.join(['%C3%A9' * 120] * 3)}/{name}" for name in names}
        slow, quick = program.session(), program.session()
        for session in (slow, quick):
            with program.line() as line:
                for uri in uris:
                    asked = message("resources/subscribe", {"uri": uri})
                    line.ask(session.request("POST", asked))
        with slow.stream(receive=4096) as unread, quick.stream() as stream:
            for name in names:
                change(program, f"{deep}/{name}")
            for reader in (stream, unread):
                missing = set(uris)
                while missing:
                    missing.discard(updated(reader))


# -- resumption


def test_a_stream_resumes_after_an_event(program: Program) -> None:
    session = program.session()
    subscribe(session, *(f"file:///project/{name}" for name in NAMES))

    def told(stream: RawConnection, count: int) -> list[tuple[str | None, str]]:
        events = [stream.event() for _ in range(count)]
        return [(event.id, event.json["params"]["uri"][-1]) for event in events]

    with session.stream() as stream:
        for name, number in (("a", 1), ("b", 2), ("c", 3), ("a", 4)):
            change(program, name)
            assert told(stream, 1) == [(f"0-{number}", name)]
    with session.stream(last_event_id="0-2") as stream:
        assert told(stream, 2) == [("0-3", "c"), ("0-4", "a")]
    with session.stream(last_event_id="0-0") as stream:
        # A notification repeated later is sent once.
        assert told(stream, 3) == [("0-2", "b"), ("0-3", "c"), ("0-4", "a")]
        change(program, "b")
        assert told(stream, 1) == [("0-5", "b")]
    with session.stream(last_event_id="0-5") as stream:
        program.ask(session.request("DELETE"))
        assert stream.events() == []


@for_each("when", ["before", "after"])
def test_a_response_that_was_cut_off_is_resumed(program: Program, when: str) -> None:
    session, gate = program.session(), f"cut-off-{when}"
    with session.stream("POST", read(GATE + gate, id=41), **STREAM) as stream:
        program.waiting(gate)
        primer = stream.primer
    if when == "before":
        program.read(OPEN + gate)
        program.until(lambda: "1 read" in program.read(STATE + gate))
    with session.stream(last_event_id=primer.id) as stream:
        assert stream.primer.id == primer.id
        if when == "after":
            program.read(OPEN + gate)
        (event,) = stream.events()
        assert event.json["id"] == 41
        assert event.id == str(primer.id).replace("-0", "-1")


def test_a_client_resumes_while_its_old_connection_seems_alive(program: Program) -> None:
    session = program.session()
    with (
        session.stream("POST", read(GATE + "twice", id=1), **STREAM) as first,
        session.stream(last_event_id=first.primer.id) as second,
    ):
        assert first.events() == []
        program.read(OPEN + "twice")
        assert [event.json["id"] for event in second.events()] == [1]


def test_a_response_never_comes_on_another_stream(program: Program) -> None:
    session = program.session()
    with session.stream() as told:
        with session.stream("POST", read(GATE + "own", id=1), **STREAM) as one:
            with session.stream("POST", read(GATE + "own", id=2), **STREAM) as two:
                program.waiting("own", readers=2)
                program.read(OPEN + "own")
                assert [event.json["id"] for event in two.events()] == [2]
            assert [event.json["id"] for event in one.events()] == [1]
        program.ask(session.request("DELETE"))
        assert told.events() == []


def test_event_ids_that_are_foreign_or_unknown_are_400(program: Program) -> None:
    session, other = program.session(), program.session()
    for _ in range(5):
        other.post(message("ping"))
    with other.stream("POST", read(GATE + "secret", id=1), **STREAM) as stream:
        foreign = str(stream.primer.id)
        for id in (foreign, "0-1", "0-999999999999999", "0-" + "9" * 30, "0", "-", "0--1", "x-0",
                   "0-1 ", "00-0", "0-\u00b2", "1-0"):  # fmt: skip
            asked = session.request("GET", last_event_id=id)
            assert program.ask(asked).status == 400, id
        program.read(OPEN + "secret")
        assert len(stream.events()) == 1
    for id in (foreign, foreign.replace("-0", "-1")):
        with other.stream(last_event_id=id) as stream:
            assert len(stream.events()) == (id == foreign)


def test_a_response_too_large_to_keep_cannot_be_resumed(program: Program) -> None:
    session = program.session()
    with session.stream("POST", read(LARGE), **STREAM) as stream:
        assert len(stream.event().data) > 6_000_000
        assert stream.events() == []
        asked = session.request("GET", last_event_id=stream.primer.id)
    assert program.ask(asked).status == 400


def test_a_session_keeps_few_responses(program: Program) -> None:
    session = program.session()
    ids: list[str | None] = []
    for number in range(70):
        with session.stream("POST", read(STATE + "few", id=number), **STREAM) as stream:
            assert len(stream.events()) == 1
            ids.append(stream.primer.id)
    statuses = [
        program.ask(session.request("GET", last_event_id=id)).status for id in (ids[0], ids[-1])
    ]
    assert statuses == [400, 200]


# -- responses


def test_progress_comes_before_the_response(program: Program) -> None:
    asked: Any = {"uri": MANY, "_meta": {"progressToken": "p"}}
    session = program.session()
    with session.stream("POST", message("resources/read", asked)) as stream:
        *progress, answer = [event.json for event in stream.events()]
    assert [each["params"]["progress"] for each in progress] == [1, 2, 3, 4, 5]
    assert len(answer["result"]["contents"]) == 5


def test_a_client_that_accepts_no_stream_gets_json_in_the_end(program: Program) -> None:
    asked: Any = {"uri": MANY, "_meta": {"progressToken": "p"}}
    answered = program.session().post(message("resources/read", asked), accept="application/json")
    assert answered.headers["content-type"] == "application/json"
    assert len(answered.json["result"]["contents"]) == 5


def test_comments_break_the_silence_of_a_stream(tmp_path: Path) -> None:
    with serving(tmp_path, timing={"sse_keep_alive_s": 0.05}) as program:
        session = program.session()
        with session.stream() as stream:
            assert [stream.block() for _ in range(2)] == [": "] * 2
        with session.stream("POST", read(GATE + "silent", id=1)) as stream:
            assert [stream.block() for _ in range(2)] == [": "] * 2
            program.read(OPEN + "silent")
            assert [event.json["id"] for event in stream.events()] == [1]
        with program.line() as line:
            # Without a stream there are no comments: the client waits for the response.
            line.send(session.request("POST", read(GATE + "json"), accept="application/json"))
            program.waiting("json")
            program.read(OPEN + "json")
            assert line.answer().status == 200


def test_streams_are_limited(tmp_path: Path) -> None:
    with serving(tmp_path, http="{limits: {streams: 2}}") as program:
        one, two = program.session(), program.session()
        listen = modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        with program.line() as line:
            with one.stream():
                assert line.ask(listen).status == 200
                for asked in (two.request("GET"), listen):
                    refused = program.ask(asked)
                    assert (refused.status, refused.headers["retry-after"]) == (503, "60")
                    assert refused.code == -32012
                assert two.post(read(README)).status == 200
            program.until(lambda: program.ask(two.request("GET")).status == 200)


def test_an_immediate_response_is_json(program: Program) -> None:
    answered = program.ask(request("POST", read(README), mcp_session_id=program.session().id))
    assert answered.headers["content-type"] == "application/json"
    assert int(answered.headers["content-length"]) == len(answered.body)
