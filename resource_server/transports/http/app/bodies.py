"""Bodies of requests: each not too long, and all together not too much to keep."""

from __future__ import annotations

import asyncio
from typing import Any

from resource_server.transports.http.app.exchange import Exchange
from resource_server.transports.http.app.request import CLOSE, Gone, Refused, Request, closing

MAX_BYTES = 256 * 1024 * 1024
"""Of all bodies that are read or answered at one time."""
SMALL_BYTES = 64 * 1024
"""A body that is no longer counts for nothing: its connection may hold as much in any case."""


class Bodies:
    """Reads bodies of at most `longest` bytes, and counts those that are held."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._held = 0
        self._is_closed = False

    async def read(self, request: Request) -> bytes:
        """Return a whole body, which counts as held until it is given to `release`.

        Raises:
            Refused: it is too long, or all that are held are, or no more are taken.
            Gone: the client has left, or was sent away because it took too long.
        """
        body = request.exchange.body
        if body is None:
            body = await self._received(request)
            request.exchange.body = body
        elif len(body) > self._longest:
            raise self._too_long()
        elif len(body) > SMALL_BYTES:
            self._hold(request.exchange, len(body))
        if self._is_closed:
            raise closing()
        return body

    async def _received(self, request: Request) -> bytes:
        if int(request.headers.get(b"content-length", b"0")) > self._longest:
            raise self._too_long()
        whole: bytes | bytearray = b""  # in most cases the first part is all of it
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part: bytes = message.get("body", b"")
            length = len(whole) + len(part)
            if length > self._longest:
                raise self._too_long()
            if length > SMALL_BYTES:
                self._hold(request.exchange, length)
            is_last = not message.get("more_body", False)
            if not whole:
                if is_last:
                    return part
                whole = bytearray(part)
                continue
            whole += part
            if is_last:
                return bytes(whole)

    def _hold(self, exchange: Exchange, length: int) -> None:
        held = self._held + length - exchange.held
        if held > MAX_BYTES:
            reason = "too much is being sent at once"
            raise Refused(503, reason, [(b"retry-after", b"1"), CLOSE])
        self._held, exchange.held = held, length

    def release(self, exchange: Exchange) -> None:
        """Hold the body of a request no longer."""
        self._held -= exchange.held
        exchange.held = 0

    def close(self) -> None:
        """Take no more, not even the rest of those that are being read."""
        self._is_closed = True

    def keep(self, exchange: Exchange, answering: asyncio.Future[Any]) -> None:
        """Hold a body until its messages are answered, which may be after the client has left."""
        held, exchange.held = exchange.held, 0
        if held:
            answering.add_done_callback(lambda _: self._forget(held))

    def _forget(self, held: int) -> None:
        self._held -= held

    def _too_long(self) -> Refused:
        # What is still sent of it is read and thrown away: who is cut off sees no answer.
        return Refused(413, f"the body is longer than {self._longest} bytes")
