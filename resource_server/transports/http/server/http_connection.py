"""HTTP/1.1 connections of the web server: uvicorn's, bounded in time and memory.

uvicorn parses requests and runs the application. Its class leaves open how long a head, a queue of
requests or a pause of the client may be; here these have limits. Only what asyncio and httptools
call is overridden. A class of its own, without a task for each request and with one system call for
each response, would answer a fifth more requests; it took 350 lines more.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from resource_server.runtime.timing import Timing

if TYPE_CHECKING:
    from uvicorn.server import ServerState

MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request's headers, and of chunk headers and trailers between body parts."""
MAX_PIPELINED = 16
"""Maximum requests that wait for the response to the one before."""
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Maximum bytes of responses that clients have not read, over all connections."""

_PARSED_BYTES = 16 * 1024
"""Bytes parsed between two checks of the bounds: one read may hold 40,000 tiny headers."""
_SLOW_READER_BYTES = 64 * 1024
"""A client must read this much, or all that is left, within `slow_reader_timeout_s`."""


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


class HttpConnection(HttpToolsProtocol):
    """One client's connection: bounded heads, requests and unread responses, all timed."""

    def __init__(
        self,
        config: ConnectionConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Accept the arguments that uvicorn passes to its connection class."""
        super().__init__(config, server_state, app_state, _loop)
        self._timing = config.timing
        self._backlog = config.write_backlog
        self._unanswered: list[RequestResponseCycle] = []
        """The request that is answered, and those behind it."""
        self._is_whole = False
        self._keeps_alive = False
        """Whether the connection outlasts the last request, if its body is received."""
        self._head_bytes = 0
        self._request_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    # -- the connection

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Everything left in the write buffer counts as unread.
        transport.set_write_buffer_limits(1, 0)
        self._await_request()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn notifies only the last request.
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unanswered.clear()
        self.pipeline.clear()
        super().connection_lost(exc)
        self._backlog.remove(self)
        for timer in (self._request_timer, self._reader_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()

    @override
    def shutdown(self) -> None:
        self._keeps_alive = False
        super().shutdown()

    # -- what the client sends

    @override
    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PARSED_BYTES):
            part = data if len(data) <= _PARSED_BYTES else data[start : start + _PARSED_BYTES]
            self._head_bytes += len(part)
            self._parse(part)
            if self.transport.is_closing():
                return
            if not self._is_whole:  # empty lines between requests begin none
                self._await_request()
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse("The headers are too long.")
                return

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._asks_for_upgrade():
                again = self._without_upgrade() + data[upgrade.args[0] :]
                # A new parser: the old one accepts nothing after a last request.
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self._parse(again)
        except HttpParserError:
            self._refuse("Invalid HTTP request received.")

    def _without_upgrade(self) -> bytes:
        """Return the head that was parsed last, without its `Upgrade` header.

        Java's client asks for HTTP/2 by default, and httptools parses no body after an upgrade.
        """
        version = self.parser.get_http_version().encode()
        parts = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                parts += (name, b": ", value, b"\r\n")
        return b"".join((*parts, b"\r\n"))

    def _asks_for_upgrade(self) -> bool:
        # To the parser CONNECT is an upgrade, too.
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    @override
    def on_message_begin(self) -> None:
        self._is_whole = False
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        if self._asks_for_upgrade():
            return  # It is parsed again without.
        if len(self.pipeline) > MAX_PIPELINED:
            raise OverflowError("too many pipelined requests")
        self._head_bytes = 0
        if not self.url.startswith(b"/") and (target := parse_url(self.url)).host:
            # A target that names a host replaces the header Host (RFC 9112, 3.2.2).
            port = b":%d" % target.port if target.port else b""
            host = b"[%b]" % target.host if b":" in target.host else target.host
            others = [each for each in self.headers if each[0] != b"host"]
            self.scope["headers"] = [*others, (b"host", host + port)]
        super().on_headers_complete()
        self._keeps_alive = self.cycle.keep_alive
        if self.expect_100_continue:
            # A client may not send the body after a final response; the next bytes would be taken
            # for it.
            self.cycle.keep_alive = False
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.pop(0)
        self._unanswered.append(self.cycle)
        # Trailers are ignored (RFC 9110, 6.5.1): no proxy or firewall has seen them as headers.
        self.headers = []

    @override
    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        if self._asks_for_upgrade():
            return
        self._head_bytes = 0
        self._is_whole = True
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        if self.expect_100_continue and not self.cycle.response_started:
            self.cycle.waiting_for_100_continue = False
            self.cycle.keep_alive = self._keeps_alive
        super().on_message_complete()

    def _refuse(self, reason: str) -> None:
        """Answer 400 and close; only close if the answer could be mistaken for another response."""
        for cycle in self._unanswered:
            awaits = cycle.response_started or not cycle.more_body
            if awaits and not cycle.response_complete:
                self.transport.abort()
                return
        self.send_400_response(reason)

    def _await_request(self) -> None:
        if self._request_timer is None:
            timeout = self._timing.request_timeout_s
            self._request_timer = self.loop.call_later(timeout, self.transport.abort)

    # -- what the client reads

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader(self._unread())
        self._backlog.add(self, self.transport.get_write_buffer_size())

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._backlog.remove(self)
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def cut_off(self) -> None:
        """See `UnreadConnection.cut_off`."""
        self.transport.abort()

    def _await_reader(self, unread: int) -> None:
        timeout = self._timing.slow_reader_timeout_s
        self._reader_timer = self.loop.call_later(timeout, self._check_reader, unread)

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
