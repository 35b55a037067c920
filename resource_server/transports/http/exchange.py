"""One HTTP request and what becomes of it, for those who count it, write it down or trace it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import UNSET

from resource_server.access import EVERYBODY, Caller
from resource_server.protocol import faults, revisions
from resource_server.protocol.faults import Fault
from resource_server.protocol.methods import METHODS
from resource_server.transports.http import message as messages
from resource_server.transports.http.message import Message
from resource_server.transports.http.request import WHOLE, Request, Scope, Send
from resource_server.transports.http.request import Message as Event

OTHER = "other"
"""A method that is none of the protocol's: clients can think of as many as they like."""
BATCH = "batch"

_METHODS = frozenset(METHODS) | {"notifications/initialized", "notifications/cancelled"}
_VERBS = frozenset(("GET", "POST", "DELETE", "OPTIONS"))
_HANDSHAKE = frozenset(name.encode() for name in revisions.HANDSHAKE)


SendWhole: TypeAlias = Callable[[Event, bytes], bool]


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
    message: Message | None = None
    """What it asks, where that is one message."""
    messages = 0
    """In a batch; 0 where it is none."""
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
        self._whole: SendWhole | None = scope.get("extensions", {}).get(WHOLE, {}).get("send")
        self._start: Event | None = None
        self._volume = volume
        self._witnesses = witnesses

    def asked(self, request: Request, body: bytes) -> None:
        """Take note of a message, or of several."""
        version = request.headers.get(b"mcp-protocol-version")
        self.is_stateless = version is not None and version not in _HANDSHAKE
        try:
            self.message = messages.parsed(body)
        except Fault:
            self.messages = messages.count(body)
            self.method = BATCH if self.messages else OTHER
        else:
            name = self.message.method
            self.method = name if name is not UNSET and name in _METHODS else OTHER
        for witness in self._witnesses:
            witness.asked(self, request, body)

    def end(self, scope: Scope) -> None:
        """Take note that nothing more is sent, and let go: it refers to what has the scope."""
        del scope["exchange"]
        for witness in self._witnesses:
            witness.ended(self, scope)

    async def send(self, message: Event) -> None:
        """Send a part of the answer; its start together with what follows."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._start = message
            return
        body: bytes = message["body"]
        self._volume.bytes += len(body)
        self.sent += len(body)
        more = message.get("more_body")
        if more is None:
            # All of it at once, and then no stream.
            if type(body) is not bytes:
                self.code = faults.code_of(body)
        else:
            # No line of a message begins so: JSON has no line ends.
            self._volume.events += body.count(b"event: message\n")
        self.is_over = not more
        start, self._start = self._start, None
        if start is not None:
            if more is None and self._whole is not None and self._whole(start, body):
                return
            await self._send(start)
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
