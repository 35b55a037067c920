"""One HTTP request and what becomes of it, for those who count it, write it down or trace it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from resource_server.access import EVERYBODY, Caller
from resource_server.protocol import faults, revisions
from resource_server.protocol.methods import METHODS
from resource_server.transports.http.request import Message, Request, Scope, Send

OTHER = "other"
"""A method that is none of the protocol's: clients can think of as many as they like."""
BATCH = "batch"

_METHODS = frozenset(METHODS) | {"notifications/initialized", "notifications/cancelled"}
_VERBS = frozenset(("GET", "POST", "DELETE", "OPTIONS"))
_HANDSHAKE = frozenset(name.encode() for name in revisions.HANDSHAKE)
_RESULT = b'"result":{'
_ERROR = b'"error":{'


class Volume:
    """How much is sent; counted as it is, since streams last for long."""

    bytes = 0
    """Of answers, without their headers."""
    events = 0
    """Messages on streams."""


class _Asked(msgspec.Struct):
    method: str = OTHER


_decode_asked = msgspec.json.Decoder(_Asked).decode


class Exchange:
    """One request and what becomes of it; what is sent is counted in `volume` before it is."""

    is_mcp = False
    """Whether it came to an endpoint of the protocol."""
    is_stateless = False
    caller: Caller = EVERYBODY
    """Who asks, once that is known."""
    status = 0
    """0 until an answer has begun."""
    code: int | None = None
    """Of the error that the answer is."""
    sent = 0
    """Bytes of the answer so far, without its headers."""
    is_over = False
    mount: str | None = None
    """Which one it asks, if a witness wants to know."""

    def __init__(
        self, scope: Scope, send: Send, volume: Volume, witnesses: Sequence[Witness] = ()
    ) -> None:
        scope["exchange"] = self
        self.begun = time.perf_counter()
        self.method: str = scope["method"] if scope["method"] in _VERBS else OTHER
        """Of the protocol; that of HTTP where nothing else was read."""
        self._send = send
        self._volume = volume
        self._witnesses = witnesses

    def asked(self, request: Request, body: bytes) -> None:
        """Take note of a message, or of several."""
        version = request.headers.get(b"mcp-protocol-version")
        self.is_stateless = version is not None and version not in _HANDSHAKE
        self.method = _method(body)
        for witness in self._witnesses:
            witness.asked(self, request, body)

    def end(self, scope: Scope) -> None:
        """Take note that nothing more is sent, and let go: it refers to what has the scope."""
        del scope["exchange"]
        for witness in self._witnesses:
            witness.ended(self, scope)

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            body: bytes = message["body"]
            self._volume.bytes += len(body)
            self.sent += len(body)
            more = message.get("more_body")
            if more is None:
                # All of it at once, and then no stream. Most are results: these are seen soonest.
                if _RESULT not in body[:64] and _ERROR in body[:1024]:
                    self.code = faults.code_of(body)
            else:
                # No line of a message begins so: JSON has no line ends.
                self._volume.events += body.count(b"event: message\n")
                if _ERROR in body:
                    self.code = faults.code_of(body.rpartition(b"\ndata: ")[2])
            self.is_over = not more
        await self._send(message)


class Witness(Protocol):
    """Is told of each request."""

    def asked(self, exchange: Exchange, request: Request, body: bytes) -> None:
        """See a message, or several; of a request that was refused before there is none."""
        ...

    def ended(self, exchange: Exchange, scope: Scope) -> None:
        """See the end; `asked` was called in the same task."""
        ...


def exchange_of(request: Request) -> Exchange:
    """Return what is known of a request."""
    exchange: Exchange = request.scope["exchange"]
    return exchange


def _method(body: bytes) -> str:
    try:
        name = _decode_asked(body).method
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BATCH if body.lstrip()[:1] == b"[" else OTHER
    return name if name in _METHODS else OTHER
