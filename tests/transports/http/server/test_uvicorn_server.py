"""The shutdown: streams end, requests in flight finish, and the rest is cut off."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.transports.phone import callee
from tests.transports.program import (
    README,
    RawConnection,
    initialize,
    message,
    modern,
    project,
    read,
    request,
    running,
)
from tests.waiting import PATIENCE_S

SIGNALS = (signal.SIGTERM, signal.SIGINT)

signals = pytest.mark.parametrize("number", SIGNALS)


def listen(line: RawConnection, id: object = 1) -> None:
    """Listen for changes of the list, and wait for the acknowledgement."""
    opened = line.ask(
        modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, id)
    )
    assert opened.headers["content-type"] == "text/event-stream"
    assert line.event().json["method"] == "notifications/subscriptions/acknowledged"


@signals
def test_a_signal_ends_streams_and_lets_requests_in_flight_finish(
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
            # The listen ends first, with its result.
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


def test_no_connection_is_accepted_during_the_shutdown(tmp_path: Path) -> None:
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


def test_a_request_that_outlasts_the_shutdown_is_503(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        session = program.session()
        with program.line() as stateless, program.line() as stateful:
            stateless.send(modern("resources/read", {"uri": called.uri}))
            stateful.send(session.request("POST", read(called.uri)))
            called.wait(2)
            program.process.send_signal(signal.SIGTERM)
            for line in (stateless, stateful):  # sessions go on at other servers
                refused = line.answer()
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert program.end() == 0


@signals
def test_a_second_signal_ends_the_server_immediately(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(project(tmp_path)) as program, callee() as called:
        with program.line() as waiting, program.line() as listening:
            listen(listening)
            waiting.send(modern("resources/read", {"uri": called.uri}))
            called.wait()
            program.process.send_signal(signal.SIGTERM)
            listening.events()
            program.process.send_signal(number)
            # Without a response: the client may send its request to another replica.
            assert waiting.is_closed()
        assert program.end() == 0


def test_requests_behind_a_stream_that_ends_are_refused(tmp_path: Path) -> None:
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
def test_a_signal_right_after_startup_is_no_failure(tmp_path: Path, number: signal.Signals) -> None:
    with running(project(tmp_path)) as program:
        assert program.end(number) == 0


def test_an_unfinished_request_delays_the_shutdown_only_so_long(tmp_path: Path) -> None:
    with running(project(tmp_path), timing={"shutdown_timeout_s": 0.5}) as program:
        with program.line() as line:
            line.send(modern("resources/read", {"uri": README})[:-5])
            assert program.read(README) == "# Hello\n"
            assert program.end(signal.SIGTERM) == 0
        assert not [line for line in program.errors if "Traceback" in line]


def test_idle_sessions_do_not_delay_the_shutdown(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        session = program.session()
        session.post(message("resources/subscribe", {"uri": README}))
        assert program.end(signal.SIGTERM) == 0


# -- what we rely on and uvicorn does not document


class _Connection(asyncio.Protocol):
    """Records what uvicorn passes to the connection class of `Config.http`."""

    given: ClassVar[dict[str, Any]] = {}
    is_made = asyncio.Event()

    def __init__(self, **given: Any) -> None:
        type(self).given = given

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.given["server_state"].connections.add(self)
        self.is_made.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.given["server_state"].connections.discard(self)

    def shutdown(self) -> None:
        self.transport.close()


@pytest.mark.anyio
async def test_uvicorn_still_has_the_shape_that_our_connections_rely_on() -> None:
    """If this fails, read `HttpConnection` and `_UvicornServer` beside the new uvicorn.

    Only then raise the version that `pyproject.toml` allows.
    """
    _Connection.is_made = asyncio.Event()
    config = uvicorn.Config(_empty, http=_Connection, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        _, writer = await asyncio.open_connection(*listening.getsockname())
        async with asyncio.timeout(PATIENCE_S):
            await _Connection.is_made.wait()
            given = _Connection.given
            assert set(given) == {"config", "server_state", "app_state", "_loop"}
            assert given["config"] is config
            state: Any = given["server_state"]
            assert state is server.server_state
            assert type(state.connections) is type(state.tasks) is set
            # The shutdown closes each connection, and waits until it is gone.
            server.should_exit = True
            await serving
            assert not state.connections
        writer.close()
    for overridden in ("startup", "shutdown", "handle_exit", "capture_signals"):
        assert callable(getattr(uvicorn.Server, overridden))
    assert server.force_exit is False
    connection = HttpToolsProtocol(config, server.server_state, {})
    for used in (
        *("cycle", "expect_100_continue", "headers", "loop", "parser", "pipeline", "scope"),
        *("send_400_response", "shutdown", "timeout_keep_alive_task", "transport"),
    ):
        assert hasattr(connection, used)


async def _empty(scope: object, receive: object, send: object) -> None: ...
