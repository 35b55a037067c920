"""HTTP/1.1 connections of the web server, bounded in time and memory.

Parses with httptools and runs the ASGI application, as uvicorn's own connection class does; uvicorn
still listens, accepts and shuts down. Its class can be neither bounded nor started without a task
through public hooks, so `uvicorn.Config.http` names this one instead.
"""

from __future__ import annotations

import asyncio
import contextvars
import http
import logging
import re
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from resource_server.runtime import eager
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.request import AsgiMessage, AsgiScope

if TYPE_CHECKING:
    from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request's headers, and of chunk headers and trailers between body parts."""
MAX_PIPELINED = 16
"""Maximum requests that wait for the response to the one before."""
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Maximum bytes of responses that clients have not read, over all connections."""

_PARSED_BYTES = 16 * 1024
"""Bytes parsed between two checks of the bounds: one read may hold 40,000 tiny headers."""
_MAX_BUFFERED_BYTES = 64 * 1024
"""Reading pauses while more of a body than this waits for the application."""
_SLOW_READER_BYTES = 64 * 1024
"""A client must read this much, or all that is left, within `slow_reader_timeout_s`."""
_MAX_BODY_PARTS = 64
"""More parts are joined: a chunk of one byte would otherwise occupy fifty."""

_STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode())
    for each in http.HTTPStatus
}
_INVALID_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class UnreadConnection(Protocol):
    """A connection whose client has not read everything it was sent."""

    def cut_off(self) -> None:
        """Close the connection and drop what was not read."""
        ...


class WriteBacklog:
    """Bytes that clients have not read, bounded over all connections; longest unread first."""

    def __init__(self) -> None:
        self._unread = OrderedDict[UnreadConnection, int]()
        self._bytes = 0

    def add(self, connection: UnreadConnection, unread: int) -> None:
        """Count a connection's unread bytes; cut off connections while the total is too high."""
        self.remove(connection)
        self._unread[connection] = unread
        self._bytes += unread
        while self._bytes > MAX_UNREAD_BYTES:
            slowest = next(iter(self._unread))
            self.remove(slowest)
            slowest.cut_off()

    def remove(self, connection: UnreadConnection) -> None:
        """Forget a connection that has read everything, or is closed."""
        self._bytes -= self._unread.pop(connection, 0)


class ConnectionConfig(uvicorn.Config):
    """uvicorn's configuration, with what all connections of one server share."""

    write_backlog: WriteBacklog
    timing: Timing


class _RequestCycle:
    """One request and its response, through the `receive` and `send` of ASGI."""

    def __init__(self, connection: HttpConnection, scope: AsgiScope, *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.must_continue = False
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.body_complete = False
        self.buffered = 0
        self.disconnected = False
        self.started = False
        self.complete = False
        self._connection = connection
        self._parts: list[bytes] = []
        self._news = asyncio.Event()
        self._start: AsgiMessage | None = None
        self._chunked = False

    async def run(self, app: Callable[..., Any]) -> None:
        """Run the application; a response it does not finish becomes an error or ends."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:  # by uvicorn, when a shutdown takes too long
            await self._fail()
        except BaseException:
            logger.exception("the application failed")
            await self._fail()
        else:
            if not self.complete and not self.disconnected:
                logger.error("the application did not complete its response")
                await self._fail()

    async def _fail(self) -> None:
        if self.started:
            self._connection.transport.close()
        else:
            await self._send_text(500, b"Internal Server Error")

    async def refuse(self) -> None:
        """Answer that the server has too many connections."""
        await self._send_text(503, b"Service Unavailable")

    async def _send_text(self, status: int, text: bytes) -> None:
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            (b"connection", b"close"),
        ]
        self._start = None
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": text})

    # -- the request's body

    def put(self, part: bytes) -> None:
        """Take a part of the body; what follows the response is dropped."""
        if not self.complete:
            if len(self._parts) == _MAX_BODY_PARTS:
                self._parts = [b"".join(self._parts)]
            self._parts.append(part)
            self.buffered += len(part)
            self._news.set()

    def end_body(self) -> None:
        """Mark the body as complete."""
        self.body_complete = True
        self._news.set()

    def disconnect(self) -> None:
        """Notify the application that the client has disconnected."""
        self.disconnected = True
        self._news.set()

    async def receive(self) -> AsgiMessage:
        """Return the body received so far, or wait until the client leaves."""
        connection = self._connection
        if self.must_continue and not self.body_complete and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.must_continue = False
        if not self.disconnected and not self.complete:
            connection.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body = b"".join(self._parts)
        self._drop_body()
        return {"type": "http.request", "body": body, "more_body": not self.body_complete}

    def _drop_body(self) -> None:
        self._parts.clear()
        self.buffered = 0

    # -- the response

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the response; the head is sent together with the first part."""
        connection = self._connection
        if connection.write_paused and not self.disconnected:
            await connection.writable.wait()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        body: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        parts = [] if self.started else self._head()
        self.started = True
        if self.scope["method"] != "HEAD":
            if not self._chunked:
                parts.append(body)
            else:
                if body:
                    parts += (b"%x\r\n" % len(body), body, b"\r\n")
                if is_last:
                    parts.append(b"0\r\n\r\n")
        connection.transport.write(b"".join(parts))
        if is_last:
            self.complete = True
            self._drop_body()  # Reading would stay paused for a body that is never consumed.
            self._news.set()
            if not self.keep_alive:
                connection.transport.close()
            connection.on_response_complete()

    def _head(self) -> list[bytes]:
        start, self._start = self._start, None
        if start is None:
            raise RuntimeError("a response begins with http.response.start")
        if self.must_continue and not self.body_complete:
            # The client may not send the body now; the next bytes would be taken for it.
            self.keep_alive = False
        self.must_continue = False  # An interim response may not follow the final one.
        status: int = start["status"]
        parts = [_STATUS_LINES[status]]
        has_length = says_close = False
        headers: Sequence[tuple[bytes, bytes]] = start["headers"]
        for name, value in (*self._connection.default_headers, *headers):
            if _INVALID_VALUE.search(value):
                raise ValueError("invalid header value")
            if name == b"content-length":
                has_length = True
            elif name == b"connection" and value == b"close":
                self.keep_alive, says_close = False, True
            parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive and not says_close:
            parts.append(b"connection: close\r\n")
        if not has_length and self.scope["method"] != "HEAD" and status not in (204, 304):
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        return parts


class HttpConnection(asyncio.Protocol):
    """One client's connection: bounded heads, one body and one response at a time, all timed.

    Requests are run without a task unless the application has to wait, and a whole response is
    written with one system call.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        config: ConnectionConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Accept the arguments that uvicorn passes to its connection class."""
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self._timing = config.timing
        self._backlog = config.write_backlog
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = self._new_parser()
        self.writable = asyncio.Event()
        """Set while the client keeps up with reading."""
        self.writable.set()
        self._is_reading = True
        # The request that is parsed: its head, then what takes its body.
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._parsed: _RequestCycle | None = None
        self._is_whole = False
        self._head_bytes = 0
        # The request that is answered, and those behind it.
        self._running: _RequestCycle | None = None
        self._pending: deque[_RequestCycle] = deque()
        self._is_starting = False
        self._request_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0

    def _new_parser(self) -> HttpRequestParser:
        parser = HttpRequestParser(self)
        # Data after a request with `Connection: close` is ignored instead of refused.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for a request."""
        self.transport = cast("asyncio.Transport", transport)
        # Everything left in the write buffer counts as unread.
        self.transport.set_write_buffer_limits(1, 0)
        self._server_state.connections.add(cast("Any", self))
        is_tls = transport.get_extra_info("sslcontext") is not None
        self._scope_base: AsgiScope = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "https" if is_tls else "http",
            "root_path": self._config.root_path,
        }
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application that the client has disconnected."""
        self._server_state.connections.discard(cast("Any", self))
        for cycle in (self._running, self._parsed):
            if cycle is not None and not cycle.complete:
                cycle.disconnect()
        self._pending.clear()
        # These refer to the connection, which would live on until the garbage is collected.
        self._running = self._parsed = None
        del self._parser
        self.writable.set()
        self._backlog.remove(self)
        for timer in (self._request_timer, self._reader_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()

    def shutdown(self) -> None:
        """Close the connection, after the response to the last request; uvicorn calls this."""
        if self._parsed is None or self._parsed.complete:
            self.transport.close()
        else:
            self._parsed.keep_alive = False

    @property
    def default_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers that uvicorn adds to each response: the date."""
        return self._server_state.default_headers

    # -- what the client sends

    def data_received(self, data: bytes) -> None:
        """Take part of a request, or several requests."""
        before = self._parsed
        for start in range(0, len(data), _PARSED_BYTES):
            part = data if len(data) <= _PARSED_BYTES else data[start : start + _PARSED_BYTES]
            self._head_bytes += len(part)
            self._is_whole = False
            self._parse(part)
            self._answer_pending()
            if self.transport.is_closing():
                return
            if not self._is_whole:
                self._await_request()
                if self._head_bytes > MAX_HEAD_BYTES:
                    self._refuse(b"The headers are too long.")
                    return
        # For the rest of a request that waits, reading goes on: a client that leaves is noticed.
        is_queued = self._parsed is not before and self._pending
        if is_queued or (self._parsed and self._parsed.buffered > _MAX_BUFFERED_BYTES):
            self._pause_reading()

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._asks_for_upgrade():
                again = self._without_upgrade() + data[upgrade.args[0] :]
                # A new parser: the old one accepts nothing after a last request.
                self._parser = self._new_parser()
                self._parse(again)
        except HttpParserError:
            self._refuse(b"Invalid HTTP request received.")

    def _without_upgrade(self) -> bytes:
        """Return the head that was parsed last, without its `Upgrade` header.

        Java's client asks for HTTP/2 by default, and httptools parses no body after an upgrade.
        """
        version = self._parser.get_http_version().encode()
        parts = [self._parser.get_method(), b" ", self._url, b" HTTP/", version, b"\r\n"]
        for name, value in self._headers:
            if name != b"upgrade":
                parts += (name, b": ", value, b"\r\n")
        return b"".join((*parts, b"\r\n"))

    def _asks_for_upgrade(self) -> bool:
        # To the parser CONNECT is an upgrade, too.
        return self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT"

    def on_message_begin(self) -> None:
        """Begin a request (called by httptools)."""
        self._is_whole = False
        self._url = b""
        self._headers = []
        self._expects_continue = False

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target (called by httptools)."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header (called by httptools)."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Queue a request whose head is complete (called by httptools)."""
        if self._asks_for_upgrade():
            return  # It is parsed again without.
        if len(self._pending) > MAX_PIPELINED:
            raise OverflowError("too many pipelined requests")
        self._head_bytes = 0
        version = self._parser.get_http_version()
        keep_alive = version != "1.0" and self._parser.should_keep_alive()
        cycle = _RequestCycle(self, self._scope(version), keep_alive=keep_alive)
        cycle.must_continue = self._expects_continue
        self._parsed = cycle
        self._pending.append(cycle)
        # Trailers are ignored (RFC 9110, 6.5.1): no proxy or firewall has seen them as headers.
        self._headers = []

    def _scope(self, version: str) -> AsgiScope:
        target = parse_url(self._url)
        headers = self._headers
        if target.host and not self._url.startswith(b"/"):
            # A target that names a host replaces the header Host (RFC 9112, 3.2.2).
            port = b":%d" % target.port if target.port else b""
            host = b"[%b]" % target.host if b":" in target.host else target.host
            headers = [*(each for each in headers if each[0] != b"host"), (b"host", host + port)]
        path = target.path.decode("ascii")
        root = self._config.root_path
        return {
            **self._scope_base,
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "path": root + (unquote(path) if "%" in path else path),
            "raw_path": root.encode("ascii") + target.path,
            "query_string": target.query or b"",
            "headers": headers,
            "state": self._app_state.copy(),
        }

    def on_body(self, body: bytes) -> None:
        """Append a part of a body (called by httptools)."""
        self._head_bytes = 0
        if self._parsed is not None:
            self._parsed.put(body)

    def on_message_complete(self) -> None:
        """End a request (called by httptools)."""
        if self._asks_for_upgrade():
            return
        self._head_bytes = 0
        self._is_whole = True
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        if self._parsed is not None:
            self._parsed.end_body()

    def _refuse(self, reason: bytes) -> None:
        """Answer 400 and close; only close if the answer could be mistaken for another response."""
        for cycle in (self._running, *self._pending):
            awaits = cycle is not None and (cycle.started or cycle.body_complete)
            if cycle is not None and awaits and not cycle.complete:
                self.transport.abort()
                return
        head = [_STATUS_LINES[400]]
        for name, value in self.default_headers:
            head += (name, b": ", value, b"\r\n")
        head += (
            b"content-type: text/plain; charset=utf-8\r\n",
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(reason),
            reason,
        )
        self.transport.write(b"".join(head))
        self.transport.close()

    def _pause_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading: the application consumes the data, or waits for a disconnect."""
        if not self._is_reading:
            self._is_reading = True
            self.transport.resume_reading()

    # -- what answers

    def _answer_pending(self) -> None:
        """Answer the requests that wait, each after the response to the one before."""
        if self._is_starting:
            return  # An immediate response gets back to here.
        self._is_starting = True
        while (
            self._pending
            and (self._running is None or self._running.complete)
            and not self.transport.is_closing()
        ):
            self._running = self._pending.popleft()
            self._run(self._running)
        self._is_starting = False

    def _run(self, cycle: _RequestCycle) -> None:
        state, most = self._server_state, self._config.limit_concurrency
        is_full = most is not None and (len(state.connections) >= most or len(state.tasks) >= most)
        answer = cycle.refuse() if is_full else cycle.run(cast("Any", self._config).loaded_app)
        context = contextvars.copy_context()
        outcome = context.run(eager.run, answer)
        if isinstance(outcome, eager.Suspended):
            task = self._loop.create_task(_finish(outcome), context=context)
            task.add_done_callback(state.tasks.discard)
            state.tasks.add(task)

    def on_response_complete(self) -> None:
        """Continue with the next request, or wait for one."""
        if self.transport.is_closing():
            return
        self.resume_reading()
        self._answer_pending()
        if not self._pending:
            # One timer serves many requests.
            self._idle_since = self._loop.time()
            if self._idle_timer is None:
                timeout = self._config.timeout_keep_alive
                self._idle_timer = self._loop.call_later(timeout, self._end_idle)

    def _end_idle(self) -> None:
        """Close the connection, unless it was used meanwhile."""
        self._idle_timer = None
        if self._running is None or not self._running.complete:
            return  # The end of this response starts the timer again.
        left = self._idle_since + self._config.timeout_keep_alive - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._end_idle)
        else:
            self.transport.close()

    def _await_request(self) -> None:
        if self._request_timer is None:
            timeout = self._timing.request_timeout_s
            self._request_timer = self._loop.call_later(timeout, self.transport.abort)

    # -- what the client reads

    @property
    def write_paused(self) -> bool:
        """Whether the client has not read everything it was sent."""
        return not self.writable.is_set()

    def pause_writing(self) -> None:
        """Start watching a client that has stopped reading."""
        self.writable.clear()
        self._await_reader(self._unread())
        self._backlog.add(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop watching a client that has read everything."""
        self.writable.set()
        self._backlog.remove(self)
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def cut_off(self) -> None:
        """See `UnreadConnection.cut_off`."""
        self.transport.abort()

    def _await_reader(self, unread: int) -> None:
        timeout = self._timing.slow_reader_timeout_s
        self._reader_timer = self._loop.call_later(timeout, self._check_reader, unread)

    def _check_reader(self, before: int) -> None:
        unread = self._unread()
        if unread <= before - _SLOW_READER_BYTES:
            self._await_reader(unread)
        else:
            self.transport.abort()

    def _unread(self) -> int:
        """Return how many bytes the client has not read, those in the system's buffer included.

        The system drains our buffer only in bursts: judged by it alone, a slow client would seem to
        read nothing.
        """
        held = array("i", [0])
        with suppress(OSError):
            ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + held[0]


def _address(found: object) -> tuple[str, int] | None:
    """Return host and port of a socket's address, which for IPv6 has more members."""
    if not isinstance(found, tuple):
        return None
    host, port, *_ = cast("tuple[Any, ...]", found)
    return str(host), int(port)


async def _finish(outcome: eager.Suspended[None]) -> None:
    await outcome
