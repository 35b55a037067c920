"""The end: streams end as they should, what is in flight is answered, and the rest is cut off."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.transports.phone import callee
from tests.transports.program import README, Line, initialize, message, modern, read, request
from tests.transports.running import project, running

SIGNALS = (signal.SIGTERM, signal.SIGINT)

signals = pytest.mark.parametrize("number", SIGNALS)


def listen(line: Line, id: object = 1) -> None:
    """Ask to be told of the list, and wait until that is so."""
    opened = line.ask(
        modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, id)
    )
    assert opened.headers["content-type"] == "text/event-stream"
    assert line.event().json["method"] == "notifications/subscriptions/acknowledged"


@signals
def test_a_signal_lets_streams_end_and_what_is_in_flight_be_answered(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        session = program.session()
        with (
            session.stream() as stream,
            program.line() as listening,
            program.line() as stateless,
            program.line() as stateful,
        ):
            listen(listening, "mine")
            stateless.send(modern("resources/read", {"uri": called.uri}))
            stateful.send(session.request("POST", read(called.uri)))
            called.wait(2)
            program.process.send_signal(number)
            # The listen ends at once, with its result.
            [last] = [event.json for event in listening.events()]
            assert (last["id"], last["result"]["resultType"]) == ("mine", "complete")
            called.answer("at last")
            for line in (stateless, stateful):
                answer = line.answer()
                found = answer.json if answer.body else line.event().json
                assert found["result"]["contents"][0]["text"] == "at last"
            assert stream.events() == []
        assert program.end() == 0
        assert program.errors == []


def test_nothing_new_is_accepted_while_the_last_are_answered(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        with program.line() as waiting, program.line() as idle, program.line() as listening:
            assert idle.ask(modern("resources/read", {"uri": README})).status == 200
            listen(listening)
            waiting.send(modern("resources/read", {"uri": called.uri}))
            called.wait()
            program.process.send_signal(signal.SIGTERM)
            listening.events()
            assert idle.is_closed()
            with socket.socket() as late, pytest.raises(ConnectionRefusedError):
                late.connect(("127.0.0.1", program.port))
            called.answer("at last")
            assert waiting.answer().status == 200
            assert waiting.is_closed()
        assert program.end() == 0


def test_what_takes_too_long_is_told_to_ask_again_elsewhere(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        session = program.session()
        with program.line() as stateless, program.line() as stateful:
            stateless.send(modern("resources/read", {"uri": called.uri}))
            stateful.send(session.request("POST", read(called.uri)))
            called.wait(2)
            program.process.send_signal(signal.SIGTERM)
            refused = stateless.answer()
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert stateful.answer().status == 404
        assert program.end() == 0


@signals
def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        with program.line() as waiting, program.line() as listening:
            listen(listening)
            waiting.send(modern("resources/read", {"uri": called.uri}))
            called.wait()
            program.process.send_signal(signal.SIGTERM)
            listening.events()
            program.process.send_signal(number)
            # Neither an answer nor a word of it: what was asked can be asked elsewhere.
            assert waiting.is_closed()
        assert program.end() == 0


def test_what_comes_behind_a_stream_that_ends_is_refused(tmp_path: Path) -> None:
    params = {"notifications": {"resourcesListChanged": True}}
    with running(project(tmp_path)) as program:
        behind = [
            modern("subscriptions/listen", params),
            program.session().request("GET"),
            request("POST", initialize("2025-11-25")),
        ]
        with program.lines(len(behind)) as lines:
            for line, each in zip(lines, behind, strict=True):
                listen(line)
                line.send(each)
            program.ask(modern("ping"))
            program.process.send_signal(signal.SIGTERM)
            for line, status in zip(lines, (503, 404, 503), strict=True):
                line.events()
                assert line.answer().status == status
                assert line.is_closed()
        assert program.end() == 0
        assert program.errors == []


@signals
def test_a_signal_as_soon_as_it_serves_is_no_failure(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(project(tmp_path)) as program:
        assert program.end(number) == 0


def test_a_client_that_never_sends_its_request_keeps_it_for_a_while_only(tmp_path: Path) -> None:
    with running(project(tmp_path), patch="listen._DRAIN_S = 0.5") as program:
        with program.line() as line:
            line.send(modern("resources/read", {"uri": README})[:-5])
            assert program.read(README) == "# Hello\n"
            assert program.end(signal.SIGTERM) == 0
        assert not [line for line in program.errors if "Traceback" in line]


def test_sessions_that_wait_for_nothing_do_not_keep_it(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        session = program.session()
        session.post(message("resources/subscribe", {"uri": README}))
        assert program.end(signal.SIGTERM) == 0
