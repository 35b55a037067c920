"""What is sent on one stream of server-sent events, and what was sent for who has to ask again.

A channel outlives the connection that reads it: it keeps its last messages, and goes on from any of
them. While nobody reads it there is no room, so that whoever has something to tell keeps it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from resource_server.transports.http.request import Headers, Request, Send

KEEP_ALIVE_S = 15.0
"""A comment follows after so long a silence: proxies close what says nothing."""
SLOW_READER_S = 30.0
"""So long a client may take to accept what it is sent at once."""
RETRY_MS = 1000
"""After so long a client should come back."""

_KEPT = 256
_KEPT_BYTES = 256 * 1024
_HIGH_WATER_BYTES = 256 * 1024
_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Event(NamedTuple):
    """One message of a channel."""

    number: int
    """From 1 on."""
    data: bytes


class Channel:
    """The messages of one stream, in order. `name` is its part of event ids; None has none."""

    def __init__(self, name: bytes | None = None) -> None:
        self.name = name
        self.room = asyncio.Event()
        """Set while somebody reads, and has not too much to read already."""
        self.answer: bytes | None = None
        """The message that ends it, once that has been put."""
        self.is_ended = False
        self._events = deque[Event]()
        self._bytes = 0
        self._last = 0
        self._position = 0
        """The number of the last event that was given to a reader."""
        self._unread = 0
        """Bytes behind that."""
        self._news = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_read(self) -> bool:
        """Whether somebody reads it."""
        return self._reader is not None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put but perhaps the answer."""
        return self._last == (0 if self.answer is None else 1)

    def put(self, data: bytes) -> None:
        """Send a message: at once to who reads, else when somebody does."""
        self._last += 1
        self._events.append(Event(self._last, data))
        self._bytes += len(data)
        self._unread += len(data)
        while len(self._events) > _KEPT or (self._bytes > _KEPT_BYTES and len(self._events) > 1):
            dropped = self._events.popleft()
            self._bytes -= len(dropped.data)
            if dropped.number > self._position:
                self._unread -= len(dropped.data)
        self._wake()

    def reply(self, data: bytes) -> None:
        """Send the answer, which is the last message."""
        self.answer = data
        self.put(data)
        self.end()

    def end(self) -> None:
        """End the stream once everything was sent."""
        self.is_ended = True
        self._wake()

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to send, or the end; return False where it takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._news.set()
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._reader is not None and self._unread < _HIGH_WATER_BYTES:
            self.room.set()
        else:
            self.room.clear()

    async def serve(
        self,
        request: Request,
        send: Send,
        *,
        after: int | None = None,
        headers: Headers = (),
        primed: bool = False,
    ) -> bool:
        """Send the stream to a client from behind an event on, by default from what is unsent.

        Returns whether all of it was sent: False where the client has left before. `primed` begins
        with an event that has an id and no message, so that the client can ask again at once.
        """
        gone = asyncio.ensure_future(request.gone())
        reading = asyncio.ensure_future(self._serve(send, after, headers, primed))
        if self._reader is not None:
            self._reader.cancel()
        self._reader = reading
        self._look_for_room()
        try:
            await asyncio.wait((gone, reading), return_when=asyncio.FIRST_COMPLETED)
            return reading.done() and not reading.cancelled() and reading.exception() is None
        finally:
            gone.cancel()
            reading.cancel()
            if self._reader is reading:
                self._reader = None
                self._look_for_room()
            await asyncio.gather(gone, reading, return_exceptions=True)

    async def _serve(self, send: Send, after: int | None, headers: Headers, primed: bool) -> None:
        if after is not None:
            self._position = after
            self._unread = sum(len(event.data) for event in self._events if event.number > after)
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
        frames = [b"retry: %d\n%bdata:\n\n" % (RETRY_MS, self._id(self._position))] * primed
        while True:
            self._news.clear()
            unsent = [event for event in self._events if event.number > self._position]
            frames += [self._frame(event) for event in unsent]
            is_last = self.is_ended
            if unsent:
                self._position = unsent[-1].number
            async with asyncio.timeout(SLOW_READER_S):
                await send(
                    {
                        "type": "http.response.body",
                        "body": b"".join(frames),
                        "more_body": not is_last,
                    }
                )
            self._unread = sum(len(e.data) for e in self._events if e.number > self._position)
            self._look_for_room()
            if is_last:
                return
            frames = [] if await self.wait(KEEP_ALIVE_S) else [b": \n\n"]

    def _id(self, number: int) -> bytes:
        return b"" if self.name is None else b"id: %b-%d\n" % (self.name, number)

    def _frame(self, event: Event) -> bytes:
        return b"%bevent: message\ndata: %b\n\n" % (self._id(event.number), event.data)
