"""One client's TCP connection: uvicorn's, which ends where a client neither reads nor writes."""

from __future__ import annotations

import asyncio
import re
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Of a request's headers, and of what belongs to no body in its chunks."""
REQUEST_S = 30.0
"""So long a client may take to send a whole request."""
SLOW_READER_S = 60.0
"""So long a client may take nothing of what it is sent."""
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Of what all clients together were sent; beyond it, who does not take a long answer is cut off."""
MAX_PIPELINED = 16
"""Requests that wait for the answer to the one before."""

_MUCH_BYTES = 64 * 1024
_UPGRADE = re.compile(rb"\r\n(upgrade[ \t]*:)", re.IGNORECASE)


class Peer(HttpToolsProtocol):
    """Keeps of a client few heads, one body and one answer, and none of them for ever."""

    _head_bytes = 0
    _is_in_head = True
    _is_whole = False
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", transport))
        # Whatever the system does not take at once counts as unread.
        self.transport.set_write_buffer_limits(1, 0)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        for timer in (self._request_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()

    # -- what the client sends

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or several requests."""
        self._head_bytes += len(data)
        if self._is_in_head and b"pgrade" in data:
            data = _without_upgrade(data)
        super().data_received(data)
        if self._is_whole or self.transport.is_closing():
            return
        self._await_request()
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        """See the first byte of a request."""
        super().on_message_begin()
        self._is_whole = False

    def on_headers_complete(self) -> None:
        """See the end of a head."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise OverflowError("too many requests at once")
        self._head_bytes = 0
        self._is_in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See a part of a body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See the end of a request."""
        self._head_bytes = 0
        self._is_in_head = self._is_whole = True
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        super().on_message_complete()

    def _await_request(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    # -- what it is sent

    def pause_writing(self) -> None:
        """See that it does not take all it is sent."""
        super().pause_writing()
        unread = self.transport.get_write_buffer_size()
        if unread > _MUCH_BYTES and self._all_unread() > MAX_UNREAD_BYTES:
            self.transport.abort()
        else:
            self._await_reading(unread)

    def _all_unread(self) -> int:
        return sum(each.transport.get_write_buffer_size() for each in self.connections)

    def resume_writing(self) -> None:
        """See that it has taken all it was sent."""
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _await_reading(self, unread: int) -> None:
        self._answer_timer = self.loop.call_later(SLOW_READER_S, self._look, unread)

    def _look(self, before: int) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread < before:
            self._await_reading(unread)
        else:
            self.transport.abort()


def _without_upgrade(data: bytes) -> bytes:
    """Hide the wish for another protocol: httptools would take no body together with one.

    Java's client has it by default, for HTTP/2.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(rb"\r\nx-\1", head) + end + rest
