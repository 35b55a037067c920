"""The ASGI application: which request goes where, and which goes nowhere."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from resource_server.access import EVERYBODY, Caller
from resource_server.manifest.http import Http
from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.server import Server
from resource_server.runtime.rate_limit import RateLimiter
from resource_server.transports.http.app.bodies import Bodies
from resource_server.transports.http.app.endpoint import Endpoint
from resource_server.transports.http.app.exchange import Exchange, Witness
from resource_server.transports.http.app.host_allowlist import (
    LOOPBACK_HOSTS,
    LOOPBACK_ORIGINS,
    Names,
)
from resource_server.transports.http.app.legacy import POST_PATH, STREAM_PATH, Legacy
from resource_server.transports.http.app.request import (
    CLOSE,
    Gone,
    Headers,
    Receive,
    Refused,
    Request,
    Scope,
    Send,
    too_often,
)
from resource_server.transports.http.app.sessions import Sessions
from resource_server.transports.http.auth.protected_resource import ProtectedResource
from resource_server.transports.http.observability.health import Authenticate, Operation
from resource_server.transports.http.sse.stream_limits import Streams

logger = logging.getLogger(__name__)

PATH = "/mcp"

Handle: TypeAlias = Callable[[Request, Caller], Awaitable[None]]
"""Answers a request of who may ask."""

_ASKED_WITH = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, "
    b"mcp-protocol-version, mcp-session-id"
)
_REPEATING = re.compile(rb"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+")
"""Which of these there are is up to the tools."""
_EXPOSED = (b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after")
_VARY = (b"vary", b"Origin")
_CODES = {
    429: revisions.BUSY,
    500: revisions.INTERNAL_ERROR,
    503: revisions.BUSY,
}


class Application:
    """Serves one catalog to many clients. An ASGI application."""

    def __init__(
        self,
        server: Server,
        options: Http,
        *,
        authenticate: Authenticate | None = None,
        resource: ProtectedResource | None = None,
        hosts: Iterable[str] = (),
        legacy: bool = False,
        witnesses: Sequence[Witness] = (),
    ) -> None:
        limits = options.limits
        self._authenticate = authenticate
        self._hosts = Names((*LOOPBACK_HOSTS, *hosts, *options.allowed_hosts))
        self._origins = Names((*LOOPBACK_ORIGINS, *options.allowed_origins))
        self._rates = None if limits.rate is None else RateLimiter(limits.rate, limits.burst)
        self._sessions = Sessions(server, most=limits.sessions, idle=limits.session_idle)
        self._streams = streams = Streams(limits.streams)
        self._bodies = Bodies(limits.body)
        self._endpoint = Endpoint(server, self._sessions, streams, self._bodies)
        self._operation = Operation(
            server,
            self._sessions,
            streams,
            check=self._admitted,
            authenticate=authenticate or _everybody,
            tells_others=options.metrics,
        )
        self._tallies = self._operation.tallies
        self._witnesses = witnesses
        self._routes: dict[str, Callable[[Request], Awaitable[None]]] = {
            PATH: partial(self._admit, self._endpoint),
            "/healthz": self._operation.healthy,
            "/readyz": self._operation.ready,
            "/metrics": self._operation.measured,
        }
        self._legacy = Legacy(server, streams, self._bodies)
        if legacy:
            self._routes[STREAM_PATH] = partial(self._admit, self._legacy.stream)
            self._routes[POST_PATH] = partial(self._admit, self._legacy.post)
        if resource is not None:
            self._routes |= dict.fromkeys(resource.paths, resource.describe)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket that is refused."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    async def close(self) -> None:
        """End all streams and sessions; requests in flight may be answered for a moment."""
        self._bodies.close()
        self._streams.close()
        await asyncio.gather(
            self._endpoint.close(),
            self._sessions.close(),
            self._legacy.close(),
            self._operation.close(),
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, send, self._tallies.volume, self._witnesses)
        try:
            request = Request(scope, receive, exchange)
            route = self._routes.get(request.path)
            if route is None:
                raise Refused(404, "not found")
            await route(request)
            if exchange.status and not exchange.is_over:
                # A stream that goes on elsewhere, or later.
                await exchange.send(b"", is_last=True)
        except Refused as refused:
            if not exchange.status:
                await _refuse(exchange, refused, waits=_waits(scope, exchange))
        except Gone:
            pass
        except Exception:
            logger.exception("a request failed")
            if not exchange.status:
                await _refuse(exchange, Refused(500, "internal error"))
        finally:
            if exchange.held:
                self._bodies.release(exchange)
            self._tallies.add(exchange)
            exchange.end(scope)

    async def _admit(self, handle: Handle, request: Request) -> None:
        exchange = request.exchange
        exchange.is_mcp = True
        exchange.more_headers = self._admitted(request)
        if request.method == "OPTIONS":
            is_asked = bool(exchange.more_headers)
            await exchange.answer(204, headers=_preflight(request) if is_asked else ())
            return
        try:
            caller = EVERYBODY
            if self._authenticate is not None:
                exchange.caller = caller = await self._authenticate(request)
            if self._rates and (wait := self._rates.take(request.owner(caller))):
                raise too_often(wait)
            await handle(request, caller)
        finally:
            if exchange.messages > 1 and self._rates:
                self._rates.charge(request.owner(exchange.caller), exchange.messages - 1)

    def _admitted(self, request: Request) -> Headers:
        """Refuse what was not meant for this server; return what a web page has to be told."""
        host = request.headers.get(b"host")
        if host is None or host not in self._hosts:
            raise Refused(421, "this server is not known by that name; see http.allowed_hosts")
        origin = request.headers.get(b"origin")
        if origin is None:
            return ()
        if origin not in self._origins:
            raise Refused(403, "web pages of this origin are not allowed; see http.allowed_origins")
        return ((b"access-control-allow-origin", origin.strip(b" \t")), _EXPOSED, _VARY)


def _preflight(request: Request) -> Headers:
    """Return what a web page may ask, and with which headers."""
    wanted = request.headers.get(b"access-control-request-headers", b"").lower()
    return (
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", b", ".join([_ASKED_WITH, *_REPEATING.findall(wanted)])),
        (b"access-control-max-age", b"600"),
    )


async def _everybody(_: Request) -> Caller:
    return EVERYBODY


def _waits(scope: Scope, exchange: Exchange) -> bool:
    """Tell whether a client waits for leave to send its body."""
    return exchange.body is None and any(name == b"expect" for name, _ in scope["headers"])


async def _refuse(exchange: Exchange, refused: Refused, *, waits: bool = False) -> None:
    code = _CODES.get(refused.status, revisions.INVALID_REQUEST)
    body = error_mapping.message(None, Fault(code, refused.message))
    headers = refused.headers
    if waits and CLOSE not in headers:
        # It sends no body any more, and what comes next would be taken for it.
        headers = [*headers, CLOSE]
    await exchange.answer(refused.status, body, headers=headers, type=b"application/json")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
