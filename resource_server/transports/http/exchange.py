"""One HTTP request and what becomes of it, for those who count it, write it down or trace it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from resource_server.access import EVERYBODY, Caller
from resource_server.protocol import revisions
from resource_server.protocol.methods import METHODS
from resource_server.transports.http.request import Message, Request, Scope, Send

OTHER = "other"
"""A method that is none of the protocol's: clients can think of as many as they like."""
BATCH = "batch"

_METHODS = frozenset(METHODS) | {"notifications/initialized", "notifications/cancelled"}
_VERBS = frozenset(("GET", "POST", "DELETE", "OPTIONS"))
_STREAM = (b"content-type", b"text/event-stream")
_ERROR = b'"error":{'


class _Asked(msgspec.Struct):
    method: str = OTHER


class _Error(msgspec.Struct):
    code: int


class _Answered(msgspec.Struct):
    error: _Error | UnsetType = UNSET


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_answered = msgspec.json.Decoder(_Answered).decode


class Exchange:
    """One request and what becomes of it. `observe` is told what is sent, when it is."""

    __slots__ = (
        "_observe",
        "_send",
        "begun",
        "body",
        "caller",
        "code",
        "is_mcp",
        "is_over",
        "is_stateless",
        "is_stream",
        "method",
        "scope",
        "sent",
        "status",
    )

    def __init__(self, scope: Scope, send: Send, observe: Observe) -> None:
        scope["exchange"] = self
        self.scope = scope
        self.begun = time.perf_counter()
        self.is_mcp = False
        """Whether it came to an endpoint of the protocol."""
        self.is_stateless = False
        self.method: str = scope["method"] if scope["method"] in _VERBS else OTHER
        """Of the protocol; that of HTTP where nothing else was read."""
        self.body = b""
        self.caller: Caller = EVERYBODY
        """Who asks, once that is known."""
        self.status = 0
        """0 until an answer has begun."""
        self.code: int | None = None
        """Of the error that the answer is."""
        self.sent = 0
        """Bytes of the answer so far, without its headers."""
        self.is_stream = False
        self.is_over = False
        self._send = send
        self._observe = observe

    @property
    def outcome(self) -> str:
        """`ok`, `error`, or `gone` where nobody waited for the answer."""
        if not self.is_over:
            return "gone"
        return "ok" if self.code is None and self.status < 400 else "error"

    def asked(self, request: Request, body: bytes) -> None:
        """Take note of a message, or of several."""
        version = request.header(b"mcp-protocol-version")
        self.is_stateless = version is not None and version not in revisions.HANDSHAKE
        self.method = _method(body)
        self.body = body

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.is_stream = _STREAM in message["headers"]
        else:
            body = message["body"]
            events = 0
            if self.is_stream:
                # No line of a message begins so: JSON has no line ends.
                events = body.count(b"event: message\n")
                if _ERROR in body:
                    self.code = _code(body.rpartition(b"\ndata: ")[2])
            elif _ERROR in body[:1024]:
                self.code = _code(body)
            self.sent += len(body)
            self.is_over = not message.get("more_body")
            self._observe(len(body), events)
        await self._send(message)


Observe: TypeAlias = Callable[[int, int], None]
"""Called with how many bytes, and how many messages of a stream, are about to be sent."""


def exchange_of(request: Request) -> Exchange:
    """Return what is known of a request."""
    exchange: Exchange = request.scope["exchange"]
    return exchange


def _method(body: bytes) -> str:
    if body.lstrip()[:1] == b"[":
        return BATCH
    try:
        name = _decode_asked(body).method
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return OTHER
    return name if name in _METHODS else OTHER


def _code(answer: Any) -> int | None:
    """Return the code of an answer that is an error; an answer to a batch has none."""
    try:
        error = _decode_answered(answer).error
    except msgspec.DecodeError:
        return None
    return None if error is UNSET else error.code
