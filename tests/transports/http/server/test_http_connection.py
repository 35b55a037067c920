"""Connections whose clients neither read nor write are cut off, in bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from uvicorn.server import ServerState

from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.request import AsgiReceive, AsgiScope, AsgiSend
from resource_server.transports.http.server.http_connection import (
    ConnectionConfig,
    HttpConnection,
    WriteBacklog,
)
from tests.cases import for_each
from tests.transports.program import (
    GATE,
    LARGE,
    OPEN,
    README,
    Program,
    RawConnection,
    message,
    modern,
    read,
    request,
    serving,
)
from tests.waiting import PATIENCE_S, block

MIB = 1 << 20
METRICS = request("GET", path="/metrics")
SOON = {"request_timeout_s": 0.3, "slow_reader_timeout_s": 0.3}
# Patched, since this bound is no option: nobody needs to set it.
FEW_UNREAD = f"""
from resource_server.transports.http.server import http_connection
http_connection.MAX_UNREAD_BYTES = {20 * MIB}
"""


start_program = partial(serving, timing=SOON)


UNFINISHED = (
    b"",
    b"P",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n",
    request("POST", b"", content_length="10"),
    request("POST", b"[", content_length="10"),
    request("POST", b"5\r\n[[[[[\r\n", content_length=None, transfer_encoding="chunked"),
    request("POST", b"0\r\nA: b\r\n", content_length=None, transfer_encoding="chunked"),
)


def test_an_unfinished_request_is_cut_off(program: Program) -> None:
    with ExitStack() as stack:
        begun: list[tuple[bytes, RawConnection]] = []
        for data in UNFINISHED:
            first = stack.enter_context(program.line())
            first.send(data)
            later = stack.enter_context(program.line())
            later.ask(request("POST", message("ping")))
            later.send(data or b"P")
            begun += [(data, first), (data, later)]
        # They wait at the same time.
        assert [data for data, line in begun if not line.is_closed()] == []


def test_an_unfinished_request_behind_a_finished_one_is_cut_off(program: Program) -> None:
    begun = request("POST", b"[", content_length="10")
    with program.line() as line:
        line.send(request("GET", path="/healthz") + begun)
        assert line.answer().status == 200
        assert line.is_closed()


def test_an_endless_body_after_a_refusal_is_cut_off(program: Program) -> None:
    with program.line() as line:
        asked = request(path="/nowhere", content_length=None, transfer_encoding="chunked")
        assert line.ask(asked).status == 404
        assert not line.takes(b"5\r\nxxxxx\r\n", 10_000_000)


def test_a_finished_request_is_not_cut_off(program: Program) -> None:
    session = program.session()
    with session.stream() as stream, program.line() as waiting, program.line() as silent:
        # Empty lines begin no request (RFC 9112, 2.2).
        waiting.send(session.request("POST", read(GATE + "whole")) + b"\r\n")
        stream.send(b"\r\n")
        assert silent.is_closed()
        with program.line() as later:
            assert later.is_closed()
        program.read(OPEN + "whole")
        assert waiting.answer().status == 200
        program.ask(session.request("DELETE"))
        assert stream.events() == []


@pytest.mark.guarantee("any-input-is-answered")
@pytest.mark.parametrize(
    "part",
    [b"x" * 4096, b"a: b\r\n" * 1000, b"; a=b" * 1000, b"/" * 4096],
)
@pytest.mark.parametrize(
    "begin",
    [
        b"GET /mcp",
        b"GET /mcp HTTP/1.1\r\nx: ",
        b"GET /mcp HTTP/1.1\r\n",
        request(content_length=None, transfer_encoding="chunked") + b"1;",
        request(content_length=None, transfer_encoding="chunked") + b"0\r\n",
    ],
)
def test_an_endless_head_is_disconnected(program: Program, begin: bytes, part: bytes) -> None:
    with program.line() as line:
        before = program.memory()
        line.send(begin)
        assert not line.takes(part, 64 * MIB // len(part))
        assert program.memory() - before < 4 * MIB
        assert program.read(README)


def test_a_long_head_is_accepted(program: Program) -> None:
    asked = modern("server/discover", x="y" * 60_000)
    assert program.ask(asked).status == 200


def test_requests_in_one_packet_are_answered_in_order(program: Program) -> None:
    asked = [modern("resources/read", {"uri": README}, id) for id in range(1, 6)]
    with program.line() as line:
        for packets in ([b"".join(asked)], [b"".join(asked[:2]), *asked[2:]]):
            for packet in packets:
                line.send(packet)
            answers = [line.answer() for _ in asked]
            assert [each.status for each in answers] == [200] * len(asked)
            assert [each.json["id"] for each in answers] == [1, 2, 3, 4, 5]


def test_garbage_is_not_answered_within_another_response(program: Program) -> None:
    session, garbage = program.session(), b"\x16\x03\x01\r\n\r\n"
    with session.stream() as stream:
        stream.send(garbage)
        assert stream.is_closed()
    with program.line() as line:
        line.send(session.request("POST", read(GATE + "garbage")))
        program.waiting("garbage")
        line.send(garbage)
        assert line.is_closed()
    program.read(OPEN + "garbage")


def test_a_client_that_leaves_with_a_request_behind_its_stream_is_noticed(tmp_path: Path) -> None:
    listen = modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
    with serving(tmp_path, timing={"sse_keep_alive_s": 0.05}) as program:
        with program.lines(5) as lines:
            for line in lines:
                line.send(listen)
                line.begins()
                line.send(modern("ping"))
            assert b"resource_server_streams 5.0" in program.ask(METRICS).body
        program.until(lambda: b"resource_server_streams 0.0" in program.ask(METRICS).body)


def test_too_many_pipelined_requests_are_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path) as program, program.line() as line:
        before = program.memory()
        line.send(program.session().request("POST", read(GATE + "first")))
        program.waiting("first")
        assert not line.takes(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n" * 100, 10_000)
        assert program.memory() - before < 8 * MIB


def test_a_client_that_reads_nothing_is_cut_off(program: Program) -> None:
    peaks: list[int] = []
    before = program.sockets()
    for _ in range(5):
        with program.lines(10, receive=4096) as lines:
            for line in lines:
                line.send(modern("resources/read", {"uri": LARGE}))
                line.begins()
            # A client that reads on would not be cut off.
            program.until(lambda: program.sockets() <= before)
            assert max(line.rest() for line in lines) < 6_000_000
        peaks.append(program.memory())
    assert max(peaks[1:]) - peaks[0] < 10 * MIB


def test_a_client_that_reads_slowly_is_not_cut_off(tmp_path: Path) -> None:
    timing = {"slow_reader_timeout_s": 1.2}
    with serving(tmp_path, timing=timing) as program, program.line(receive=1 << 16) as line:
        line.send(modern("resources/read", {"uri": LARGE}))
        until = time.monotonic() + 3.5
        received = 0
        while received < 6_000_000:
            data = line.socket.recv(30_000)
            assert data
            received += len(data)
            if time.monotonic() < until:
                block(0.02)


@pytest.mark.guarantee("any-input-is-answered")
def test_unread_responses_of_all_clients_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path, code=FEW_UNREAD) as program, program.lines(30, receive=4096) as lines:
        program.read(README)
        others = program.sockets() - len(lines)
        for line in lines:
            line.send(modern("resources/read", {"uri": LARGE}))
            line.begins()
        program.until(lambda: 0 < program.sockets() - others <= 12)
        assert program.read(README)


def test_a_client_that_reads_is_not_cut_off_for_others(tmp_path: Path) -> None:
    with serving(tmp_path, code=FEW_UNREAD) as program, program.lines(10, receive=4096) as lines:
        for line in lines:
            line.send(modern("resources/read", {"uri": LARGE}))
            line.begins()
        for _ in range(5):
            with program.line(receive=1 << 16) as quick:
                assert quick.ask(modern("resources/read", {"uri": LARGE})).status == 200


def test_a_client_that_reads_a_few_bytes_at_a_time_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, timing={"slow_reader_timeout_s": 0.5}) as program:
        before = program.sockets()
        line = program.line(receive=4096)
        line.send(modern("resources/read", {"uri": LARGE}))
        line.begins()
        until = time.monotonic() + PATIENCE_S
        while program.sockets() > before:
            assert time.monotonic() < until
            line.socket.recv(2_000)
            block(0.05)
        line.socket.close()


def test_responses_are_not_kept_once_sent(program: Program) -> None:
    session = program.session()
    asked: list[Callable[[int], bytes]] = [
        lambda id: modern("resources/read", {"uri": LARGE}, id),
        lambda id: session.request("POST", read(LARGE, id)),
    ]
    with program.line() as line:
        for ask in asked:
            assert line.ask(ask(0)).status == 200
            before = program.memory()
            for number in range(1, 30):
                assert line.ask(ask(number)).status == 200
            assert program.memory() - before < 20 * MIB


def test_unread_streams_hold_each_resource_once(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        session = program.session()
        subscribe = message("resources/subscribe", {"uri": README})
        for each in (session, *(program.session() for _ in range(20))):
            assert "result" in each.post(subscribe).json
        with session.stream() as stream:
            before = program.memory()
            for count in range(50):
                with (program.folder / "read me.md").open("a") as opened:
                    opened.write(f"{count}\n")
                stream.event()
        assert program.memory() - before < 2 * MIB


@for_each("trailer", [b"host: evil", b"origin: http://evil", b"Mcp-Method: ping"])
def test_trailers_are_no_headers(program: Program, trailer: bytes) -> None:
    asked = modern("server/discover", content_length=None, transfer_encoding="chunked")
    head, _, body = asked.partition(b"\r\n\r\n")
    chunked = b"%b\r\n\r\n%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (head, len(body), body, trailer)
    assert program.ask(chunked).status == 200


def test_bodies_in_tiny_chunks_occupy_little_memory(tmp_path: Path) -> None:
    begun = request(content_length=None, transfer_encoding="chunked") + b"2\r\nxx\r\n" * 30_000
    with serving(tmp_path) as program, program.lines(40) as lines:
        before = program.memory()
        for number, line in enumerate(lines):
            line.send(modern("resources/read", {"uri": f"{GATE}{number}"}) + begun)
            program.waiting(str(number))
        assert program.memory() - before < 16 * MIB


class RecordingTransport(asyncio.Transport):
    """A transport that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading_paused = False
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def connected(
    app: Callable[[AsgiScope, AsgiReceive, AsgiSend], object],
) -> tuple[HttpConnection, RecordingTransport]:
    config = ConnectionConfig(app, ws="none", log_config=None)
    config.load()
    config.write_backlog, config.timing = WriteBacklog(), Timing()
    connection, transport = HttpConnection(config, ServerState(), {}), RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


async def turns() -> None:
    """Let tasks run that wait for nothing."""
    for _ in range(5):
        await asyncio.sleep(0)


async def begin(send: AsgiSend, body: bytes, *, more: bool = False) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


@pytest.mark.anyio
async def test_a_body_that_nobody_takes_is_read_to_its_end() -> None:
    may_respond = asyncio.Event()

    async def app(_scope: AsgiScope, _receive: AsgiReceive, send: AsgiSend) -> None:
        await may_respond.wait()
        await begin(send, b"ok")

    connection, transport = connected(app)
    connection.data_received(request("POST", content_length="300000") + b"x" * 100_000)
    assert transport.is_reading_paused
    may_respond.set()
    await turns()
    assert b"200 OK" in transport.written
    assert not transport.is_reading_paused
    connection.data_received(b"x" * 100_000)
    assert not transport.is_reading_paused
    connection.data_received(b"x" * 100_000 + request("GET"))
    await turns()
    assert transport.written.count(b"200 OK") == 2
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_no_interim_response_follows_the_final_one() -> None:
    async def app(_scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        await begin(send, b"o", more=True)
        await receive()
        await send({"type": "http.response.body", "body": b"k"})

    connection, transport = connected(app)
    connection.data_received(request("POST", content_length="2", expect="100-continue"))
    connection.data_received(b"xx")
    await turns()
    assert transport.written.endswith(b"\r\n\r\nok")
    connection.connection_lost(None)


@pytest.mark.anyio
@for_each(
    ("version", "is_shut_down", "closes"),
    [(b"1.1", False, False), (b"1.1", True, True), (b"1.0", False, True)],
)
async def test_a_body_after_100_continue_keeps_no_connection_that_was_to_end(
    version: bytes, *, is_shut_down: bool, closes: bool
) -> None:
    async def app(_scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()
        await begin(send, b"ok")

    connection, transport = connected(app)
    asked = request("POST", content_length="2", expect="100-continue", connection="keep-alive")
    connection.data_received(asked.replace(b"HTTP/1.1", b"HTTP/" + version))
    await turns()
    assert b"100 Continue" in transport.written
    if is_shut_down:
        connection.shutdown()
    connection.data_received(b"xx")
    await turns()
    assert (b"connection: close" in transport.written) == closes
    assert transport.is_closing() == closes
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_reading_goes_on_while_a_response_waits_for_the_client_to_leave() -> None:
    received: list[str] = []

    async def app(_scope: AsgiScope, receive: AsgiReceive, _send: AsgiSend) -> None:
        await asyncio.sleep(0)
        received.extend([(await receive())["type"], (await receive())["type"]])

    connection, transport = connected(app)
    connection.data_received(request("GET") + request("POST", content_length="100"))
    assert transport.is_reading_paused
    await turns()
    assert not transport.is_reading_paused
    connection.data_received(b"x" * 50)
    assert not transport.is_reading_paused
    connection.data_received(b"x" * 50)
    assert not transport.is_reading_paused
    connection.connection_lost(None)
    await turns()
    assert received == ["http.request", "http.disconnect"]
