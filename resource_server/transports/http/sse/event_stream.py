"""What is sent on one stream of server-sent events, and what was sent for who has to ask again.

A channel outlives the connection that reads it: it keeps its last messages, and goes on from any of
them. While nobody reads it there is no room, so that whoever has something to tell keeps it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

from resource_server.protocol import error_mapping
from resource_server.transports.http.app.exchange import Exchange
from resource_server.transports.http.app.request import Headers, Request

KEEP_ALIVE_S = 15.0
"""A comment follows after so long a silence: proxies close what says nothing."""
RETRY_MS = 1000
"""After so long a client should come back."""

_KEPT = 256
_KEPT_BYTES = 64 * 1024
_HIGH_WATER_BYTES = _KEPT_BYTES // 2
_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Channel:
    """The messages of one stream, in order, numbered from 1 on.

    `name` is its part of event ids. Without one nobody can ask again, and nothing is kept that was
    read.
    """

    def __init__(self, name: bytes | None = None) -> None:
        self.name = name
        self.room = asyncio.Event()
        """Set while somebody reads, and has not too much to read already."""
        self.answer: bytes | None = None
        """The message that ends it, once that has been put."""
        self.is_ended = False
        self.size = 0
        """Bytes of the messages that are kept."""
        self._messages: dict[int, bytes] = {}
        self._told: dict[bytes, int] = {}
        """The numbers of those among them that would say no more when sent twice."""
        self._last = 0
        self._lost = 0
        """The number of the last message that is not kept and was not told again."""
        self._position = 0
        """The number of the last message that was given to a reader."""
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

    def keeps(self, number: int) -> bool:
        """Tell whether all is kept that came after a message."""
        return self._lost <= number <= self._last

    # -- what is put

    def put(self, data: bytes) -> None:
        """Send a message: at once to who reads, else when somebody does."""
        self._last += 1
        self._messages[self._last] = data
        self.size += len(data)
        self._unread += len(data)
        self._forget()
        self._news.set()
        self._look_for_room()

    def tell(self, data: bytes) -> None:
        """Send a message that says no more when it is sent twice."""
        if data in self._told:
            self._drop(self._told[data])
        self._told[data] = self._last + 1
        self.put(data)

    def reply(self, data: bytes) -> None:
        """Send the answer, which is the last message."""
        self.answer = data
        self.put(data)
        self.end()

    def end(self) -> None:
        """End the stream once everything was sent."""
        self.is_ended = True
        self._news.set()

    def cut(self) -> None:
        """End the stream for who reads it; who asks again goes on behind what was sent."""
        if self._reader is not None:
            self._reader.cancel()

    def clear(self) -> None:
        """Keep nothing of what was put.

        A connection refers to itself, and so to its channel, until the garbage is collected.
        """
        self.answer = None
        self._messages.clear()
        self._told.clear()

    def _forget(self) -> None:
        while len(self._messages) > _KEPT or (self.size > _KEPT_BYTES and len(self._messages) > 1):
            number = next(iter(self._messages))
            if number > self._position and self.is_read:
                break  # It is about to be sent.
            self._lost = number
            self._drop(number)

    def _drop(self, number: int) -> None:
        data = self._messages.pop(number)
        if self._told:
            self._told.pop(data, None)
        self.size -= len(data)
        if number > self._position:
            self._unread -= len(data)

    def _read_to(self, number: int) -> None:
        """Take note of how far it was read."""
        self._position = number
        if self.name is None:
            for read in [each for each in self._messages if each <= number]:
                self._drop(read)
        self._forget()
        unread = (len(data) for each, data in self._messages.items() if each > number)
        self._unread = sum(unread)
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self.is_read and self._unread < _HIGH_WATER_BYTES:
            self.room.set()
        else:
            self.room.clear()

    # -- what is sent

    async def wait(self, seconds: float | None) -> bool:
        """Wait until there is something to send, or the end; return False where it takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._news.wait()
        return False

    async def whole(self) -> None:
        """Wait until it has ended, where nobody reads it."""
        while not self.is_ended:
            self._news.clear()
            await self._news.wait()

    def primer(self, after: int | None) -> bytes:
        """Return an event that has an id and no message, so that the client can ask again at once.

        `after` is where the stream goes on.
        """
        number = self._position if after is None else after
        return b"retry: %d\n%bdata:\n\n" % (RETRY_MS, self._id(number))

    async def serve(
        self,
        request: Request,
        *,
        after: int | None = None,
        headers: Headers = (),
        first: bytes = b"",
        until: float | None = None,
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send the stream to a client from behind a message on, by default from what is unsent.

        It ends when all of it was sent, when the client has left, when another one asks for it, at
        the time `until` (in seconds since the epoch), and when something is to be sent and it is
        not `allowed` any more. `first` is an event that is no message.
        """
        # Not in the task, which may be cut before its first step.
        request.exchange.begin([*_HEADERS, *headers])
        gone = asyncio.ensure_future(request.gone())
        end = math.inf if until is None else until
        reading = asyncio.ensure_future(self._serve(request.exchange, after, first, end, allowed))
        self.cut()
        self._reader = reading
        self._look_for_room()
        try:
            await asyncio.wait((gone, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            reading.cancel()
            if self._reader is reading:
                self._reader = None
                self._look_for_room()
            await asyncio.gather(gone, reading, return_exceptions=True)
        if not reading.cancelled():
            reading.result()
            if self.answer is not None:
                request.exchange.code = error_mapping.code_of(self.answer)

    async def _serve(
        self,
        exchange: Exchange,
        after: int | None,
        first: bytes,
        until: float,
        allowed: Callable[[], bool],
    ) -> None:
        if after is not None:
            self._position = after
        frames = [first]
        while True:
            self._news.clear()
            is_over = time.time() >= until or not allowed()
            unsent = [] if is_over else [n for n in self._messages if n > self._position]
            frames += [self._frame(number) for number in unsent]
            is_last = self.is_ended or is_over
            await exchange.send(b"".join(frames), is_last=is_last)
            # Not before: what could not be sent is still unsent.
            self._read_to(unsent[-1] if unsent else self._position)
            if is_last:
                return
            left = max(until - time.time(), 0.0)
            frames = [] if await self.wait(min(left, KEEP_ALIVE_S)) else [b": \n\n"]

    def _id(self, number: int) -> bytes:
        return b"" if self.name is None else b"id: %b-%d\n" % (self.name, number)

    def _frame(self, number: int) -> bytes:
        return b"%bevent: message\ndata: %b\n\n" % (self._id(number), self._messages[number])
