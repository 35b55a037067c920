"""One client's TCP connection: uvicorn's, which ends where a client neither reads nor writes."""

from __future__ import annotations

import asyncio
import contextvars
from array import array
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from resource_server.runtime import eager
from resource_server.transports.http.app.exchange import WHOLE
from resource_server.transports.http.app.request import Headers
from resource_server.transports.http.server.write_backlog import Backlog

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

MAX_HEAD_BYTES = 64 * 1024
"""Of a request's headers, and of what belongs to no body in its chunks."""
REQUEST_S = 30.0
"""So long a client may take to send a whole request."""
SLOW_READER_S = 60.0
"""So long a client may take next to nothing of what it is sent."""
LEAST_BYTES = 64 * 1024
"""In that time a client has to take as much, or all that is left."""
MAX_PIPELINED = 16
"""Requests that wait for the answer to the one before."""


class Config(uvicorn.Config):
    """Uvicorn's, for servers whose connections are peers."""

    unread: Backlog
    """Of all of them."""


class Peer(HttpToolsProtocol):
    """Keeps of a client few heads, one body and one answer, and none of them for ever.

    What can be answered at once is: a request that has come whole is answered before the next is
    looked at, without a task of its own, and a whole answer is one call of the system.
    """

    parser: HttpRequestParser
    _running: RequestResponseCycle | None = None
    """The request that is answered; `cycle` is the last that came."""
    _begun: tuple[RequestResponseCycle, ASGI3Application] | None = None
    """A request whose head is complete, and which nobody answers yet."""
    _is_reading = False
    _head_bytes = 0
    _is_whole = False
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None
    _idle_timer: asyncio.TimerHandle | None = None
    _idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._backlog = cast("Config", self.config).unread
        # Whatever the system does not take at once counts as unread; of TLS that may be so already.
        self.transport.set_write_buffer_limits(1, 0)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        running = self._running
        if running is not None and not running.response_complete:
            # uvicorn has told the last request that came.
            running.disconnected = True
            running.message_event.set()
        self._backlog.remove(self)
        for timer in (self._request_timer, self._answer_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()

    # -- what the client sends

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or several requests."""
        self._head_bytes += len(data)
        self._is_reading = True
        self._is_whole = False
        self._parse(data)
        self._is_reading = False
        if self.transport.is_closing():
            return
        if self._begun is not None:
            self._answer(*self._begun)
        if self._is_whole or self.transport.is_closing():
            return
        self._await_request()
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The headers are too long.")

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._asks_for_upgrade():
                again = self._without_upgrade() + data[upgrade.args[0] :]
                # Another one: behind a last request this would take nothing more.
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self._parse(again)
        except HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _without_upgrade(self) -> bytes:
        """Return the head that was read last without the wish for another protocol.

        Java's client has it by default, for HTTP/2; httptools takes no body together with one.
        """
        version = self.parser.get_http_version().encode()
        parts = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                parts += (name, b": ", value, b"\r\n")
        return b"".join((*parts, b"\r\n"))

    def on_message_begin(self) -> None:
        """See the beginning of a request, which may come together with the end of another."""
        self._is_whole = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See the end of a head."""
        if self._asks_for_upgrade():
            return  # It is parsed again.
        if len(self.pipeline) >= MAX_PIPELINED:
            raise OverflowError("too many requests at once")
        self._head_bytes = 0
        if not self.url.startswith(b"/"):
            self._take_host()
        super().on_headers_complete()

    def _take_host(self) -> None:
        """Let a target that names a host stand for the header Host (RFC 9112, 3.2.2)."""
        target = parse_url(self.url)
        if target.host:
            port = b":%d" % target.port if target.port else b""
            others = [each for each in self.headers if each[0] != b"host"]
            host = b"[%b]" % target.host if b":" in target.host else target.host
            self.headers[:] = [*others, (b"host", host + port)]

    def on_body(self, body: bytes) -> None:
        """See a part of a body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See the end of a request."""
        if self._asks_for_upgrade():
            return
        self._head_bytes = 0
        self._is_whole = True
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        super().on_message_complete()

    def _asks_for_upgrade(self) -> bool:
        # To the parser CONNECT does, too.
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; where it would be taken for another's answer, cut it off."""
        running = self._running
        is_whole = running is not None and (running.response_started or not running.more_body)
        if running is not None and is_whole and not running.response_complete:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    # -- what answers

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        if self._is_reading:
            # The body is behind the head, in most cases: it may be parsed in a moment.
            self._begun = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._begun = None
        if cycle.more_body:
            super()._start_asgi_task(cycle, app)
            return
        cycle.waiting_for_100_continue = False
        whole = {"body": bytes(cycle.body), "send": partial(_send_whole, cycle)}
        cycle.scope["extensions"] = {WHOLE: cast("dict[object, object]", whole)}
        context = contextvars.copy_context()
        outcome = context.run(eager.run, cycle.run_asgi(app))
        if isinstance(outcome, eager.Suspended):
            task = self.loop.create_task(_finish(outcome), context=context)
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def on_response_complete(self) -> None:
        """See the end of an answer: as uvicorn does, with one timer for many requests."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()
            if self._idle_timer is None:
                self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._end_idle)

    def _end_idle(self) -> None:
        """Close the connection, unless it was used meanwhile."""
        self._idle_timer = None
        if not self.cycle.response_complete:
            return  # The end of this answer begins it again.
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._end_idle)
        else:
            self.transport.close()

    def _await_request(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    # -- what it is sent

    def pause_writing(self) -> None:
        """See that it does not take all it is sent."""
        super().pause_writing()
        self._await_reading(self._unread())
        self._backlog.add(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """See that it has taken all it was sent."""
        super().resume_writing()
        self._backlog.remove(self)
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def cut_off(self) -> None:
        """See `Reader.cut_off`."""
        self.transport.abort()

    def _await_reading(self, unread: int) -> None:
        self._answer_timer = self.loop.call_later(SLOW_READER_S, self._look, unread)

    def _unread(self) -> int:
        """Return how many bytes it has not taken, those that the system holds included.

        The system asks for more only now and then: by what is here, a slow reader reads nothing.
        """
        held = array("i", [0])
        with suppress(OSError):
            ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + held[0]

    def _look(self, before: int) -> None:
        unread = self._unread()
        if unread <= before - LEAST_BYTES:
            self._await_reading(unread)
        else:
            self.transport.abort()


def _send_whole(cycle: RequestResponseCycle, headers: Headers, body: bytes) -> bool:
    """Send a whole answer as uvicorn would in two parts; return False where it cannot be."""
    if cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    cycle.response_started = True
    cycle.waiting_for_100_continue = False
    parts = [STATUS_LINE[200]]
    for name, value in (*cycle.default_headers, *headers):
        parts += (name, b": ", value, b"\r\n")
    parts += (b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body)
    cycle.transport.write(b"".join(parts))
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


async def _finish(outcome: eager.Suspended[None]) -> None:
    await outcome
