"""HTTP requests and their responses, as ASGI has them."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from msgspec import UNSET

from resource_server.access import EVERYBODY, Caller
from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import ErrorResponse, Fault
from resource_server.protocol.message import (
    MAX_BATCH,
    JsonRpcMessage,
    Unreadable,
    decode_batch,
    decode_message,
    is_batch,
)
from resource_server.protocol.params import PARAMS, RequestId

T = TypeVar("T")

AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

PATH = "/mcp"
"""The endpoint of the protocol."""
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
CLOSE = (b"connection", b"close")
OTHER = "other"
"""Counts, logs and traces have one name for all unknown methods: clients can invent any number."""
BATCH = "batch"

_METHODS = frozenset(PARAMS) | {"notifications/initialized", "notifications/cancelled"}
_VERBS = frozenset(("GET", "POST", "DELETE", "OPTIONS"))
_HANDSHAKE = frozenset(name.encode() for name in revisions.HANDSHAKE)
_SINGLE = frozenset(
    b"""
    accept authorization content-length content-type host last-event-id mcp-method mcp-name
    mcp-protocol-version mcp-session-id origin
    """.split()
)
"""Headers refused when repeated: programs that read the first would differ from us."""
_SINGLE_PREFIX = b"mcp-param-"
_PROXY_HEADERS = (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via")
_JOINED = frozenset((b"accept",))
_ZERO_QUALITY = re.compile(r"(?:^|;)[ \t]*q[ \t]*=[ \t]*0(?:\.0*)?[ \t]*(?:;|$)")


class HttpError(Exception):
    """A request that is refused with an HTTP status and a message for people."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class ClientDisconnected(Exception):
    """The client disconnected before its response was complete."""


class SentTotals:
    """Totals over all responses, counted while they are sent, because streams last long."""

    bytes = 0
    """Bytes of response bodies."""
    events = 0
    """Messages on event streams."""


class Exchange:
    """One request's response, and what observers record of both."""

    is_mcp = False
    """Whether the request came to an endpoint of the protocol."""
    is_stateless = False
    caller: Caller = EVERYBODY
    """The authenticated caller, once known."""
    status = 0
    """HTTP status; 0 until the response has begun."""
    error_code: int | None = None
    """The JSON-RPC error code of the response."""
    sent_bytes = 0
    """Bytes of the response body so far."""
    is_complete = False
    held_bytes = 0
    """Bytes of the request's body counted by `Bodies`."""
    message: JsonRpcMessage | Fault
    """The decoded JSON-RPC message, or why the body is not one message."""
    batch_size = 0
    """Messages in a batch; 0 if the body is none."""
    mount: str | None = None
    """The requested mount, if an observer looked it up."""
    tool: str | None = None
    """The called tool, likewise."""
    cors_headers: Headers = ()
    """Headers added to any response to a web page."""

    def __init__(
        self,
        scope: AsgiScope,
        send: AsgiSend,
        totals: SentTotals,
        observers: Sequence[RequestObserver] = (),
    ) -> None:
        self.started_at = time.perf_counter()
        self.method: str = scope["method"] if scope["method"] in _VERBS else OTHER
        """The protocol's method; HTTP's until a message has been decoded."""
        self._send = send
        self._start: AsgiMessage | None = None
        self._totals = totals
        self._observers = observers

    def receive_body(self, request: HttpRequest, body: bytes) -> None:
        """Decode the request's message or batch, and show it to the observers."""
        version = request.headers.get(b"mcp-protocol-version")
        self.is_stateless = version is not None and version not in _HANDSHAKE
        try:
            self.message = message = decode_message(body)
        except Unreadable as fault:
            # The traceback would keep this exchange alive until the garbage is collected.
            self.message = fault.with_traceback(None)
            self.batch_size = _batch_size(body)
            self.method = BATCH if self.batch_size else OTHER
        else:
            name = message.method
            self.method = name if name is not UNSET and name in _METHODS else OTHER
        for observer in self._observers:
            observer.received(self, request, body)

    @property
    def decoded(self) -> JsonRpcMessage | None:
        """The decoded message; None if the body holds a batch, or no message."""
        return self.message if isinstance(self.message, JsonRpcMessage) else None

    @property
    def request_id(self) -> RequestId | None:
        """The id of the decoded message; None if it has none."""
        message = self.decoded
        return None if message is None or message.id is UNSET else message.id

    def finish(self, scope: AsgiScope) -> None:
        """Notify the observers that the response has ended."""
        for observer in self._observers:
            observer.finished(self, scope)

    async def respond(
        self, status: int, body: bytes = b"", *, headers: Headers = (), media_type: bytes = b""
    ) -> None:
        """Send a whole response."""
        all_headers = [*headers]
        if status != 204:
            all_headers.insert(0, (b"content-length", b"%d" % len(body)))
        if media_type:
            all_headers.append((b"content-type", media_type))
        all_headers += self.cors_headers
        self.status, self.is_complete = status, True
        self.error_code = body.code if isinstance(body, ErrorResponse) else None
        self._count(body)
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self._send({"type": "http.response.body", "body": body})

    def begin_stream(self, headers: Headers) -> None:
        """Begin a response whose headers are sent with its first part."""
        all_headers = [*headers, *self.cors_headers]
        self.status = 200
        self._start = {"type": "http.response.start", "status": 200, "headers": all_headers}

    async def relay(self, message: AsgiMessage) -> None:
        """Send a message of an application that answers by itself."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self._count(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        await self._send(message)

    async def send_part(self, part: bytes, *, is_last: bool) -> None:
        """Send a part of a stream."""
        # No line of a message begins so: its JSON has no line ends.
        self._totals.events += part.count(b"event: message\n")
        self._count(part)
        self.is_complete = is_last
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})

    def _count(self, body: bytes) -> None:
        self._totals.bytes += len(body)
        self.sent_bytes += len(body)


def _batch_size(body: bytes) -> int:
    """Return the number of messages of a batch that may be answered; 0 for any other body."""
    if not is_batch(body):
        return 0
    try:
        return min(max(len(decode_batch(body)), 1), MAX_BATCH)
    except Unreadable:
        return 1


class RequestObserver(Protocol):
    """Records each request: the access log and the tracing."""

    def received(self, exchange: Exchange, request: HttpRequest, body: bytes) -> None:
        """Observe a message or batch; not called for a request refused before its body was read."""
        ...

    def finished(self, exchange: Exchange, scope: AsgiScope) -> None:
        """Observe the end of the response, in the same task as `received`."""
        ...


class HttpRequest:
    """One request, exactly as the client sent it.

    Raises:
        HttpError: a header is repeated that must not be.
    """

    __slots__ = ("exchange", "headers", "method", "path", "receive", "scope")

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, exchange: Exchange) -> None:
        self.scope = scope
        self.receive = receive
        self.exchange = exchange
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(pairs)
        if len(headers) != len(pairs):
            headers = _merged(pairs)
        self.headers: Mapping[bytes, bytes] = headers

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, by its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")

    def accepts(self, media_type: str) -> bool:
        """Return whether `Accept` allows a media type; without the header it allows all."""
        return _accepts(self.headers.get(b"accept", b""), media_type)

    @property
    def prefix(self) -> str:
        """The encoded path under which a parent application passes requests on; usually empty."""
        return quote(self.scope.get("root_path", "")).rstrip("/")

    @property
    def address(self) -> str:
        """The client's address; behind a trusted proxy, that of the proxy's client."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def is_local(self) -> bool:
        """Whether a program on this machine sent it, and not visibly as a proxy."""
        if any(name in self.headers for name in _PROXY_HEADERS):
            return False
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False

    @property
    def is_remote(self) -> bool:
        """Whether it came from another machine over the network."""
        try:
            return not ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False  # a socket file, or a client in this process

    def owner(self, caller: Caller) -> str:
        """Return the key by which limits count: the caller's subject, or else the address."""
        return caller.subject or self.address

    async def disconnected(self) -> None:
        """Wait until the client has left."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def unless_disconnected(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return a coroutine's result; cancel it if the client leaves. The body has been read.

        Raises:
            ClientDisconnected: the client has left.
        """
        leaving = asyncio.ensure_future(self.disconnected())
        waiting = asyncio.ensure_future(coroutine)
        try:
            await asyncio.wait((leaving, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise ClientDisconnected
            return waiting.result()
        finally:
            leaving.cancel()
            waiting.cancel()
            await asyncio.gather(leaving, waiting, return_exceptions=True)


def _merged(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif name in _JOINED:
            headers[name] += b", " + value
        elif name in _SINGLE or name.startswith(_SINGLE_PREFIX):
            raise HttpError(400, f"the header {name.decode('latin-1')} is given twice")
    return headers


# Most clients send the same header with every request.
@functools.lru_cache(maxsize=256)
def _accepts(header: bytes, media_type: str) -> bool:
    accepted = header.decode("latin-1").strip(" \t").lower()
    if not accepted:
        return True
    ranges: dict[str, bool] = {}
    for each in accepted.split(","):
        name, _, parameters = each.partition(";")
        ranges[name.strip()] = not _ZERO_QUALITY.search(parameters)
    any_subtype = f"{media_type.partition('/')[0]}/*"
    names = (media_type, any_subtype, "*/*")
    return next((ranges[name] for name in names if name in ranges), False)


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """Return whether an `Origin` is that of a `Host`, whatever its scheme."""
    # A proxy may have ended TLS, so the scheme is unknown here.
    scheme, _, authority = origin.strip(b" \t").lower().partition(b"://")
    return scheme in (b"http", b"https") and authority == host.strip(b" \t").lower()


def public_prefix(url: str | None) -> str:
    """Return the path before `/mcp` in the public URL, which a proxy may or may not strip."""
    path = "" if url is None else urlsplit(url).path.removesuffix("/")
    return path.removesuffix(PATH) if path.endswith(PATH) else ""


def endpoint_url(request: HttpRequest, public: str | None) -> str:
    """Return the URL of the endpoint: the public one, else as the client addressed the server."""
    here = f"{request.scope['scheme']}://{request.header(b'host')}"
    return public or f"{here}{request.prefix}{PATH}"


def rate_limited(wait_s: float) -> HttpError:
    """Return the refusal of a caller over the rate limit, with the time to wait."""
    return HttpError(429, "too many requests", [(b"retry-after", b"%d" % (wait_s + 1))])


def shutting_down() -> HttpError:
    """Return the refusal of a request that comes while the server shuts down."""
    return HttpError(503, "the server is shutting down", [(b"retry-after", b"1"), CLOSE])
