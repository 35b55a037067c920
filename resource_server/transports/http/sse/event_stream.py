"""Event streams (Server-Sent Events) that survive their connection and resume after any event.

A stream keeps its last messages. While no client reads it, it has no room, so senders hold back
their messages.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

from resource_server.protocol import error_mapping
from resource_server.runtime.lazy_event import LazyEvent
from resource_server.transports.http.app.request import Exchange, Headers, HttpRequest

RETRY_MS = 1000
"""The time after which a client should reconnect."""

_KEPT_MESSAGES = 256
_KEPT_BYTES = 64 * 1024
_HIGH_WATER_BYTES = _KEPT_BYTES // 2
_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class EventStream:
    """The messages of one stream, in order, numbered from 1.

    `name` is the stream's part of event ids. Without a name no client can resume the stream, and
    messages are not kept once they are sent.
    """

    def __init__(self, name: bytes | None = None) -> None:
        self.name = name
        self.room = LazyEvent()
        """Set while a client reads the stream and keeps up."""
        self.response: bytes | None = None
        """The message that ends the stream, once there is one."""
        self.is_ended = False
        self.kept_bytes = 0
        self._messages: dict[int, bytes] = {}
        self._repeatable: dict[bytes, int] = {}
        """Numbers of the idempotent messages, by message: each is kept only once."""
        self._last = 0
        """The number of the last message."""
        self._lost = 0
        """The number of the last message that was dropped, and not repeated since."""
        self._position = 0
        """The number of the last message that was sent."""
        self._unsent_bytes = 0
        self._news = LazyEvent()
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_read(self) -> bool:
        """Whether a client reads the stream."""
        return self._reader is not None

    @property
    def has_only_response(self) -> bool:
        """Whether the stream has had no message except the response."""
        return self._last == (0 if self.response is None else 1)

    def can_resume(self, number: int) -> bool:
        """Return whether everything after a message is kept."""
        return self._lost <= number <= self._last

    # -- messages in

    def put(self, data: bytes) -> None:
        """Add a message, to be sent as soon as a client reads the stream."""
        self._last += 1
        self._messages[self._last] = data
        self.kept_bytes += len(data)
        self._unsent_bytes += len(data)
        self._drop_oldest()
        self._news.set()
        self._update_room()

    def put_once(self, data: bytes) -> None:
        """Add a message in place of an equal one before it, such as `list_changed`."""
        if data in self._repeatable:
            self._drop(self._repeatable[data])
        self._repeatable[data] = self._last + 1
        self.put(data)

    def put_response(self, data: bytes) -> None:
        """Add the response, which is the last message."""
        self.response = data
        self.put(data)
        self.end()

    def end(self) -> None:
        """End the stream once everything is sent."""
        self.is_ended = True
        self._news.set()

    def disconnect(self) -> None:
        """Cut off the client that reads the stream; it may resume."""
        if self._reader is not None:
            self._reader.cancel()

    def clear(self) -> None:
        """Drop all messages.

        A connection refers to itself, and so to its stream, until the garbage is collected.
        """
        self.response = None
        self._messages.clear()
        self._repeatable.clear()

    def _drop_oldest(self) -> None:
        while len(self._messages) > _KEPT_MESSAGES or (
            self.kept_bytes > _KEPT_BYTES and len(self._messages) > 1
        ):
            number = next(iter(self._messages))
            if number > self._position and self.is_read:
                break  # It is about to be sent.
            self._lost = number
            self._drop(number)

    def _drop(self, number: int) -> None:
        data = self._messages.pop(number)
        if self._repeatable:
            self._repeatable.pop(data, None)
        self.kept_bytes -= len(data)
        if number > self._position:
            self._unsent_bytes -= len(data)

    def _mark_sent(self, number: int) -> None:
        """Record that everything up to a message was sent."""
        self._position = number
        if self.name is None:
            for sent in [each for each in self._messages if each <= number]:
                self._drop(sent)
        self._drop_oldest()
        unsent = (len(data) for each, data in self._messages.items() if each > number)
        self._unsent_bytes = sum(unsent)
        self._update_room()

    def _update_room(self) -> None:
        if self.is_read and self._unsent_bytes < _HIGH_WATER_BYTES:
            self.room.set()
        else:
            self.room.clear()

    # -- events out

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait for a message, or the end; return False on timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                return await self._news.wait()
        return False

    async def wait_ended(self) -> None:
        """Wait until the stream has ended, while no client reads it."""
        while not self.is_ended:
            self._news.clear()
            await self._news.wait()

    def priming_event(self, after: int | None) -> bytes:
        """Return an event with an id and no message, from which a client can resume."""
        number = self._position if after is None else after
        return b"retry: %d\n%bdata:\n\n" % (RETRY_MS, self._id(number))

    async def serve(
        self,
        request: HttpRequest,
        *,
        keep_alive_s: float,
        after: int | None = None,
        headers: Headers = (),
        first: bytes = b"",
        until: float | None = None,
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send the messages after `after` to a client; by default, the unsent ones.

        Returns when everything is sent, when the client leaves, when another client takes over the
        stream, at the time `until` (seconds since the epoch), and when there is something to send
        but the client is no longer `allowed` to read it. `first` is sent before all messages, and
        a comment after each `keep_alive_s` of silence, since proxies close silent connections.
        """
        # Not in the task, which may be cancelled before its first step.
        request.exchange.begin_stream([*_HEADERS, *headers])
        leaving = asyncio.ensure_future(request.disconnected())
        end = math.inf if until is None else until
        sending = self._send(
            request.exchange,
            after,
            first,
            until=end,
            allowed=allowed,
            keep_alive_s=keep_alive_s,
        )
        reading = asyncio.ensure_future(sending)
        self.disconnect()
        self._reader = reading
        self._update_room()
        try:
            await asyncio.wait((leaving, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            reading.cancel()
            if self._reader is reading:
                self._reader = None
                self._update_room()
            await asyncio.gather(leaving, reading, return_exceptions=True)
        if not reading.cancelled():
            reading.result()
            if self.response is not None:
                request.exchange.error_code = error_mapping.code_of(self.response)

    async def _send(
        self,
        exchange: Exchange,
        after: int | None,
        first: bytes,
        *,
        until: float,
        allowed: Callable[[], bool],
        keep_alive_s: float,
    ) -> None:
        if after is not None:
            self._position = after
        frames = [first]
        while True:
            self._news.clear()
            is_over = time.time() >= until or not allowed()
            unsent = [] if is_over else [n for n in self._messages if n > self._position]
            frames += [self._event(number) for number in unsent]
            is_last = self.is_ended or is_over
            await exchange.send_part(b"".join(frames), is_last=is_last)
            # Not before: a message whose sending failed is still unsent.
            self._mark_sent(unsent[-1] if unsent else self._position)
            if is_last:
                return
            left_s = max(until - time.time(), 0.0)
            frames = [] if await self.wait(min(left_s, keep_alive_s)) else [b": \n\n"]

    def _id(self, number: int) -> bytes:
        return b"" if self.name is None else b"id: %b-%d\n" % (self.name, number)

    def _event(self, number: int) -> bytes:
        return b"%bevent: message\ndata: %b\n\n" % (self._id(number), self._messages[number])
