"""Request bodies: JSON only, each bounded, and all together bounded."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from resource_server.transports.http.app.request import (
    CLOSE,
    EVENT_STREAM,
    JSON,
    ClientDisconnected,
    Exchange,
    HttpError,
    HttpRequest,
    shutting_down,
)

MAX_TOTAL_BYTES = 256 * 1024 * 1024
"""Maximum bytes of all bodies being read or answered at one time."""
UNCOUNTED_BYTES = 64 * 1024
"""Bodies up to this size are not counted: a connection may buffer as much in any case."""


class BodyTooLarge(HttpError):
    """A body over the limit.

    The rest is read and dropped: a client that is disconnected sees no response.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(413, f"the body is longer than {max_bytes} bytes")


class Bodies:
    """Reads bodies of at most `max_bytes`, and counts those that are held."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._is_closed = False

    async def read_message(self, request: HttpRequest) -> bytes:
        """Return the body of a POST, decoded into the request's exchange.

        The body is counted until `release`, or until `keep` lets go of it.

        Raises:
            BodyTooLarge: it is too large.
            HttpError: it is not JSON, all bodies together are too large, the server shuts down, or
                the client accepts none of our responses.
            ClientDisconnected: the client has left, or took too long.
        """
        _check_media_types(request)
        body = await self.read(request)
        request.exchange.receive_body(request, body)
        return body

    async def read(self, request: HttpRequest) -> bytes:
        """Return the body of a request, counted as by `read_message`.

        Raises:
            BodyTooLarge: it is too large.
            HttpError: all bodies together are too large, or the server shuts down.
            ClientDisconnected: the client has left, or took too long.
        """
        body = await self._read(request)
        if self._is_closed:
            raise shutting_down()
        return body

    async def _read(self, request: HttpRequest) -> bytes:
        if int(request.headers.get(b"content-length", b"0")) > self._max_bytes:
            raise BodyTooLarge(self._max_bytes)
        whole: bytes | bytearray = b""  # usually the first part is the whole body
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            part: bytes = message.get("body", b"")
            length = len(whole) + len(part)
            if length > self._max_bytes:
                raise BodyTooLarge(self._max_bytes)
            if length > UNCOUNTED_BYTES:
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
        held = self._held_bytes + length - exchange.held_bytes
        if held > MAX_TOTAL_BYTES:
            reason = "too much is being sent concurrently"
            raise HttpError(503, reason, [(b"retry-after", b"1"), CLOSE])
        self._held_bytes, exchange.held_bytes = held, length

    def release(self, exchange: Exchange) -> None:
        """Stop counting a request's body."""
        self._held_bytes -= exchange.held_bytes
        exchange.held_bytes = 0

    def keep(self, exchange: Exchange, answering: asyncio.Future[Any]) -> None:
        """Count a body until its messages are answered, even if the client leaves before."""
        held, exchange.held_bytes = exchange.held_bytes, 0
        if held:
            answering.add_done_callback(lambda _: self._forget(held))

    def _forget(self, held: int) -> None:
        self._held_bytes -= held

    def close(self) -> None:
        """Accept no more bodies, not even the rest of those being read."""
        self._is_closed = True


def _check_media_types(request: HttpRequest) -> None:
    headers = request.headers
    refusal = _refusal(
        headers.get(b"content-type", b""),
        headers.get(b"content-encoding"),
        accepts_any=request.accepts(JSON) or request.accepts(EVENT_STREAM),
    )
    if refusal is not None:
        raise HttpError(*refusal)


# Most clients send the same headers with every request.
@functools.lru_cache(maxsize=256)
def _refusal(
    content_type: bytes, encoding: bytes | None, *, accepts_any: bool
) -> tuple[int, str] | None:
    if not _is_json(content_type):
        return 415, "the body must be application/json in UTF-8"
    if encoding not in (None, b"identity"):
        return 415, "the body must have no Content-Encoding"
    if not accepts_any:
        return 406, "responses are application/json or text/event-stream"
    return None


def _is_json(content_type: bytes) -> bool:
    media_type, _, parameters = content_type.decode("latin-1").lower().partition(";")
    return media_type.strip() == JSON and _charset(parameters) in ("", "utf-8", "utf8")


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""
