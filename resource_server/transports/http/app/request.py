"""One HTTP request as ASGI gives it, its headers each once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from resource_server.access import Caller

if TYPE_CHECKING:
    from resource_server.transports.http.app.exchange import Exchange

T = TypeVar("T")

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CLOSE = (b"connection", b"close")

_SINGLE = frozenset(
    b"""
    accept authorization content-length content-type host last-event-id mcp-method mcp-name
    mcp-protocol-version mcp-session-id origin
    """.split()
)
"""Who reads the first of two is at odds with who reads the last."""
_REPEATING = b"mcp-param-"
"""The same holds for all that begin so."""
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

    __slots__ = ("exchange", "headers", "method", "path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        self.scope = scope
        self.receive = receive
        self.exchange = exchange
        """What becomes of it: the way to answer."""
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

    def owner(self, caller: Caller) -> str:
        """Return who has what the request takes: the subject of a token, or else the address."""
        return caller.subject or self.address

    async def gone(self) -> None:
        """Wait until the client has left, which it may do before it is answered."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def unless_gone(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine does, as long as the client waits for it; its body was read.

        Raises:
            Gone: the client has left.
        """
        gone = asyncio.ensure_future(self.gone())
        waiting = asyncio.ensure_future(coroutine)
        try:
            await asyncio.wait((gone, waiting), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise Gone
            return waiting.result()
        finally:
            gone.cancel()
            waiting.cancel()
            await asyncio.gather(gone, waiting, return_exceptions=True)


def _once(given: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in given:
        if name not in headers:
            headers[name] = value
        elif name in _JOINED:
            headers[name] += b", " + value
        elif name in _SINGLE or name.startswith(_REPEATING):
            raise Refused(400, f"the header {name.decode('latin-1')} is given twice")
    return headers


def too_often(wait_s: float) -> Refused:
    """Return the refusal of who asks too often, and when to come back."""
    return Refused(429, "too many requests", [(b"retry-after", b"%d" % (wait_s + 1))])


def closing() -> Refused:
    """Return the refusal of what comes when the server is about to end."""
    return Refused(503, "the server is shutting down", [(b"retry-after", b"1"), CLOSE])
