"""One HTTP request as ASGI gives it: its headers, each once, and a body that ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

BODY_TIMEOUT_S = 30.0
"""So long a client may take to send a body."""

_SINGLE = frozenset(
    b"""
    accept authorization content-length content-type host last-event-id mcp-method mcp-name
    mcp-protocol-version mcp-session-id origin
    """.split()
)
"""Who reads the first of two is at odds with who reads the last."""
_JOINED = frozenset((b"accept",))


class Refused(Exception):
    """A request that is answered with a status alone, and a word for people."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Gone(Exception):
    """The client is not there any more."""


class Request:
    """One request; everything in it is as the client has sent it.

    Raises:
        Refused: a header is given twice that must not be.
    """

    __slots__ = ("headers", "method", "path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        given: Sequence[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(given)
        if len(headers) != len(given):
            headers = _once(given)
        self.headers: Mapping[bytes, bytes] = headers

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, by its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    @property
    def address(self) -> str:
        """The client's address as the server has it, behind a trusted proxy that of its client."""
        client = self.scope.get("client")
        return client[0] if client else ""

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            Refused: it is longer than `limit` bytes, or takes too long.
            Gone: the client has left.
        """
        length = self.headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            raise Refused(
                413, f"the body is longer than {limit} bytes", [(b"connection", b"close")]
            )
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Gone
        if not message.get("more_body"):
            return _within(message.get("body", b""), limit)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await self._rest(message.get("body", b""), limit)
        except TimeoutError:
            raise Refused(408, "the body took too long", [(b"connection", b"close")]) from None

    async def _rest(self, first: bytes, limit: int) -> bytes:
        parts, length = [first], len(first)
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            parts.append(part)
            length += len(part)
            if length > limit:
                _within(part, 0)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def gone(self) -> None:
        """Wait until the client has left, which it may do before it is answered."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise Refused(413, f"the body is longer than {limit} bytes", [(b"connection", b"close")])
    return body


def _once(given: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in given:
        if name not in headers:
            headers[name] = value
        elif name in _JOINED:
            headers[name] += b", " + value
        elif name in _SINGLE:
            raise Refused(400, f"the header {name.decode('latin-1')} is given twice")
    return headers


async def answer(
    send: Send, status: int, body: bytes = b"", *, headers: Headers = (), type: bytes = b""
) -> None:
    """Answer a request with a whole body."""
    start = [(b"content-length", b"%d" % len(body)), *headers]
    if type:
        start.append((b"content-type", type))
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
