"""One HTTP request and what becomes of it: its answer, and what is counted, logged and traced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import UNSET

from resource_server.access import EVERYBODY, Caller
from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import (
    MAX_BATCH,
    JsonRpcMessage,
    Unreadable,
    decode,
    decode_batch,
    is_batch,
)
from resource_server.protocol.params import PARAMS
from resource_server.transports.http.app.request import Headers, Request, Scope, Send
from resource_server.transports.http.app.request import Message as Event

OTHER = "other"
"""A method that is none of the protocol's: clients can think of as many as they like."""
BATCH = "batch"

_METHODS = frozenset(PARAMS) | {"notifications/initialized", "notifications/cancelled"}
_VERBS = frozenset(("GET", "POST", "DELETE", "OPTIONS"))
_HANDSHAKE = frozenset(name.encode() for name in revisions.HANDSHAKE)


WHOLE = "resource_server.whole"
"""An extension that a web server may have: `body`, the whole body of the request, and `send`.

That takes headers and body of an answer with status 200, and sends it; it returns False, having
sent nothing, where the answer has to be sent in two messages.
"""
SendWhole: TypeAlias = Callable[[Headers, bytes], bool]


class Volume:
    """How much is sent; counted as it is, since streams last for long."""

    bytes = 0
    """Of answers, without their headers."""
    events = 0
    """Messages on streams."""


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
    held = 0
    """Bytes of its body that count as held; see `bodies.py`."""
    message: JsonRpcMessage | Fault
    """What it asks, or why that is not one message."""
    messages = 0
    """In a batch; 0 where it is none."""
    mount: str | None = None
    """Which one it asks, if a witness wants to know."""
    body: bytes | None = None
    """Of the request, where it has come already."""
    more_headers: Headers = ()
    """What a web page has to be told with any answer."""

    def __init__(
        self, scope: Scope, send: Send, volume: Volume, witnesses: Sequence[Witness] = ()
    ) -> None:
        self.begun = time.perf_counter()
        self.method: str = scope["method"] if scope["method"] in _VERBS else OTHER
        """Of the protocol; that of HTTP where nothing else was read."""
        self._send = send
        self._send_whole: SendWhole | None = None
        # Not kept in the scope, to which it refers.
        whole = scope.pop("extensions", {}).get(WHOLE)
        if whole is not None:
            self.body, self._send_whole = whole["body"], whole["send"]
        self._start: Event | None = None
        self._volume = volume
        self._witnesses = witnesses

    def asked(self, request: Request, body: bytes) -> None:
        """Take note of a message, or of several."""
        version = request.headers.get(b"mcp-protocol-version")
        self.is_stateless = version is not None and version not in _HANDSHAKE
        try:
            self.message = message = decode(body)
        except Unreadable as fault:
            # Its traceback refers to what refers to it.
            self.message = fault.with_traceback(None)
            self.messages = _batch_size(body)
            self.method = BATCH if self.messages else OTHER
        else:
            name = message.method
            self.method = name if name is not UNSET and name in _METHODS else OTHER
        for witness in self._witnesses:
            witness.asked(self, request, body)

    @property
    def decoded(self) -> JsonRpcMessage | None:
        """The decoded message; None where the body holds a batch, or no message."""
        return self.message if isinstance(self.message, JsonRpcMessage) else None

    def end(self, scope: Scope) -> None:
        """Take note that nothing more is sent."""
        for witness in self._witnesses:
            witness.ended(self, scope)

    async def answer(
        self, status: int, body: bytes = b"", *, headers: Headers = (), type: bytes = b""
    ) -> None:
        """Answer with a whole body."""
        told = [*headers] if status == 204 else [(b"content-length", b"%d" % len(body)), *headers]
        if type:
            told.append((b"content-type", type))
        told += self.more_headers
        self.status, self.is_over = status, True
        self.code = error_mapping.code_of(body)
        self._count(body)
        if status == 200 and self._send_whole is not None and self._send_whole(told, body):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": told})
        await self._send({"type": "http.response.body", "body": body})

    def begin(self, headers: Headers) -> None:
        """Begin a stream, which is sent with its first part."""
        told = [*headers, *self.more_headers]
        self.status = 200
        self._start = {"type": "http.response.start", "status": 200, "headers": told}

    async def send(self, part: bytes, *, is_last: bool) -> None:
        """Send a part of a stream."""
        # No line of a message begins so: JSON has no line ends.
        self._volume.events += part.count(b"event: message\n")
        self._count(part)
        self.is_over = is_last
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})

    def _count(self, body: bytes) -> None:
        self._volume.bytes += len(body)
        self.sent += len(body)


class Witness(Protocol):
    """Is told of each request."""

    def asked(self, exchange: Exchange, request: Request, body: bytes) -> None:
        """See a message, or several; of a request that was refused before there is none."""
        ...

    def ended(self, exchange: Exchange, scope: Scope) -> None:
        """See the end; `asked` was called in the same task."""
        ...


def _batch_size(body: bytes) -> int:
    """Return the number of messages of a batch that may be answered; 0 for any other body."""
    if not is_batch(body):
        return 0
    try:
        return min(max(len(decode_batch(body)), 1), MAX_BATCH)
    except Unreadable:
        return 1
