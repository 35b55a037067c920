"""One HTTP request as ASGI gives it: its headers, each once, and a body that is not too long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

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
        return None if value is None else value.decode("latin-1").strip(" \t")

    @property
    def address(self) -> str:
        """The client's address as the server has it, behind a trusted proxy that of its client."""
        client = self.scope.get("client")
        return client[0] if client else ""

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            Refused: it is longer than `limit` bytes.
            Gone: the client has left, or was sent away because it took too long.
        """
        if int(self.headers.get(b"content-length", b"0")) > limit:
            raise _too_long(limit)
        parts: list[bytes] = []
        length, more = 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            if length > limit:
                raise _too_long(limit)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def gone(self) -> None:
        """Wait until the client has left, which it may do before it is answered."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _too_long(limit: int) -> Refused:
    # What is still sent of it is not read any more.
    return Refused(413, f"the body is longer than {limit} bytes", [(b"connection", b"close")])


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
    start = [*headers] if status == 204 else [(b"content-length", b"%d" % len(body)), *headers]
    if type:
        start.append((b"content-type", type))
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
