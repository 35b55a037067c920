"""Sessions of several workers: each request reaches the worker that has the session."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import pytest

from tests.protocol.wire import HANDSHAKE
from tests.transports.http.app.test_http_elicitation import PERSON, answer, asked, words
from tests.transports.http.app.test_http_elicitation import opened as may_be_asked
from tests.transports.http.app.test_legacy import opened, post
from tests.transports.http.fleet.fleets import SECRET, at, redis_server
from tests.transports.http.observability.monitor import metrics
from tests.transports.http.workers.crews import crew, is_alive, line_to_each, workers
from tests.transports.phone import callee
from tests.transports.program import (
    README,
    Program,
    RawConnection,
    Session,
    message,
    notification,
    project,
    read,
    running,
)
from tests.waiting import block_until


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_session_continues_at_each_worker(tmp_path: Path, revision: str) -> None:
    with crew(tmp_path, count=3) as program, line_to_each(program, 3) as lines:
        session = program.session(revision)
        for line in lines.values():
            asked = session.request("POST", read(README), mcp_protocol_version=revision)
            assert "result" in line.ask(asked).json
            twice = session.request("POST", message("initialize"))
            assert "error" in line.ask(twice).json
        first, *others = lines.values()
        assert first.ask(session.request("DELETE")).status == 204
        for line in (first, *others):
            assert line.ask(session.request("POST", read(README))).status == 404


def test_subscriptions_are_notified_whichever_worker_takes_the_request(tmp_path: Path) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines, ExitStack() as stack:
        for number, line in enumerate(lines.values()):
            name = f"{number}.md"
            (program.folder / name).write_text("one")
            sessions = [program.session() for _ in range(4)]
            streams = [stack.enter_context(session.stream()) for session in sessions]
            uri = f"file:///project/{name}"
            for session in sessions:
                subscribe = session.request("POST", message("resources/subscribe", {"uri": uri}))
                assert line.ask(subscribe).json["result"] == {}
            (program.folder / name).write_text("two")
            for stream in streams:
                assert updated(stream) == uri
            for session in sessions:
                end = session.request("POST", message("resources/unsubscribe", {"uri": uri}))
                assert line.ask(end).json["result"] == {}


def updated(stream: RawConnection) -> str:
    while (found := stream.event().json)["method"] != "notifications/resources/updated":
        pass
    return str(found["params"]["uri"])


def test_a_request_is_cancelled_whichever_worker_is_told(tmp_path: Path) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines, callee() as called:
        session = program.session()
        for number, line in enumerate(lines.values()):
            with program.line() as asking:
                asking.send(session.request("POST", read(called.uri, id=number)))
                called.wait()
                cancel = notification("notifications/cancelled", {"requestId": number})
                assert line.ask(session.request("POST", cancel)).status == 202
                assert asking.answer().status == 202


def test_a_question_is_answered_by_way_of_any_worker(tmp_path: Path) -> None:
    manifest = project(tmp_path, provider=PERSON)
    with running(manifest, "--workers", "2") as program, program.lines(12) as lines:
        session = may_be_asked(program)
        for line in lines:
            with asked(session) as (call, question):
                assert line.ask(session.request("POST", answer(question))).status == 202
                assert words(call) == "Ada"


def test_a_body_over_the_limit_is_refused_by_the_worker_that_has_the_session(
    tmp_path: Path,
) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines:
        session = program.session()
        for _ in range(3):
            for _ in lines:
                huge = message("ping", {"padding": "x" * 5_000_000})
                assert session.post(huge).status == 413
        for line in lines.values():
            assert line.ask(session.request("POST", message("ping"))).status == 200


def test_a_client_that_waits_to_send_its_body_is_told_first_that_it_is_too_large(
    tmp_path: Path,
) -> None:
    with crew(tmp_path) as program:
        sessions = [program.session() for _ in range(4)]
        for _ in range(2):
            for session in sessions:
                whole = session.request("POST", message("ping"))
                head, _, body = whole.partition(b"\r\n\r\n")
                expecting = head + b"\r\nExpect: 100-continue\r\n\r\n"
                with program.line() as line:
                    line.send(expecting)
                    assert line.socket.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
                    line.send(body)
                    assert line.answer().json["result"] == {}
                large = re.sub(rb"(?i)content-length: \d+", b"content-length: 50000000", expecting)
                with program.line() as line:
                    line.send(large)
                    assert line.answer().status == 413


def test_clients_of_the_oldest_revision_post_to_any_worker(tmp_path: Path) -> None:
    with crew(tmp_path, "--legacy-sse") as program:
        for _ in range(6):
            with program.line() as line:
                path = opened(line)
                assert post(program, path, message("ping", id=7)) == 202
                assert line.event().json == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_ids_that_no_worker_has_given_are_refused_as_by_one_process(tmp_path: Path) -> None:
    with crew(tmp_path) as program, line_to_each(program) as lines:
        for guess in ("", "x", "guessed", "é", "%00", "A" * 8_000):
            for line in lines.values():
                session = Session(program, guess, "2025-06-18")
                assert line.ask(session.request("POST", message("ping"))).status == 404


def test_each_worker_is_a_server_of_a_fleet_on_several_machines(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("redis", "here", "there")]
    for place in places:
        place.mkdir()
    key = f"server: {{key: {SECRET}}}\n"
    with redis_server(places[0]) as store:
        fleet, timing = f"{{fleet: {{url: '{store.url}'}}}}", {"fleet_sync_s": 0.1}
        with (
            crew(places[1], http=fleet, more=key, timing=timing) as here,
            crew(places[2], http=fleet, more=key, timing=timing) as there,
        ):
            for _ in range(4):
                session = here.session()
                subscribe = message("resources/subscribe", {"uri": README})
                assert session.post(subscribe).json["result"] == {}
                with at(there, session).stream() as stream:
                    assert updated(stream) == README
                    assert session.post(read(README)).status == 200

            def all_are_counted() -> bool:
                # A worker without any session is none, and the system chooses who gets one.
                programs = (here, there)
                assert all(program.session() for program in programs)
                return {metrics(each)["resource_server_fleet_servers"] for each in programs} == {4}

            block_until(all_are_counted)


def test_a_session_outlives_its_worker_but_for_its_subscriptions(tmp_path: Path) -> None:
    with crew(tmp_path) as program, ExitStack() as stack, callee() as called:
        session = program.session()
        subscribe = message("resources/subscribe", {"uri": README})
        assert session.post(subscribe).json["result"] == {}
        lines = list(stack.enter_context(line_to_each(program)).values())
        home = _home_of(program, session)
        for number, line in enumerate(lines):
            line.send(session.request("POST", read(called.uri, id=number)))
        called.wait(2)
        os.kill(home, signal.SIGKILL)
        # One was accepted by the worker that has died, the other by one that goes on.
        assert sorted(map(_outcome, lines)) == ["503", "ended"]
        block_until(lambda: session.post(read(README)).status == 200)
        refused = session.post(subscribe).json["error"]["message"]
        assert "begin a new one with initialize to subscribe" in refused
        assert program.ask(session.request("GET")).status == 404
        assert is_alive(program.process.pid)


def test_a_worker_that_hangs_keeps_nobody_waiting_whose_line_was_kept(tmp_path: Path) -> None:
    timing = {"worker_answer_s": 0.5}
    with crew(tmp_path, timing=timing) as program, line_to_each(program) as lines:
        ping = program.session().request("POST", message("ping"))
        (one, at_one), (other, at_other) = lines.items()
        for line in (at_one, at_other) * 5:
            assert line.ask(ping).status == 200
        answers: list[int] = []
        for hung, line in ((one, at_other), (other, at_one)):
            os.kill(hung, signal.SIGSTOP)
            try:
                answers.append(line.ask(ping).status)
            finally:
                os.kill(hung, signal.SIGCONT)
        assert sorted(answers) == [200, 503]
        block_until(lambda: {at_one.ask(ping).status, at_other.ask(ping).status} == {200})


def _home_of(program: Program, session: Session) -> int:
    """Return the worker that has a session; the first to be started has the number 0."""
    pids = sorted(workers(program))
    return pids[crc32(session.id.encode()) % len(pids)]


def _outcome(line: RawConnection) -> str:
    try:
        return str(line.answer().status)
    except ConnectionResetError:
        return "ended"
