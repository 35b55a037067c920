"""The ASGI application: which request goes where, and which goes nowhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from resource_server.access import EVERYBODY, Caller
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.transports.http.endpoint import Endpoint
from resource_server.transports.http.names import LOOPBACK_HOSTS, LOOPBACK_ORIGINS, Names
from resource_server.transports.http.rates import Rates
from resource_server.transports.http.request import (
    Gone,
    Headers,
    Message,
    Receive,
    Refused,
    Request,
    Scope,
    Send,
    answer,
)
from resource_server.transports.http.sessions import Sessions

logger = logging.getLogger(__name__)

PATH = "/mcp"

Authenticate: TypeAlias = Callable[[Request], Awaitable[Caller]]
"""Returns who asks, by the token of a request; raises `Refused` where there is none that counts."""

_PREFLIGHT: Headers = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, "
        b"mcp-protocol-version, mcp-session-id",
    ),
    (b"access-control-max-age", b"600"),
)
_EXPOSED = (b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after")
_VARY = (b"vary", b"Origin")


class Application:
    """Serves one catalog to many clients. An ASGI application."""

    def __init__(
        self, server: Server, options: Http, *, authenticate: Authenticate | None = None
    ) -> None:
        limits = options.limits
        self._server = server
        self._authenticate = authenticate
        self._hosts = Names((*LOOPBACK_HOSTS, *options.allowed_hosts))
        self._origins = Names((*LOOPBACK_ORIGINS, *options.allowed_origins))
        self._rates = None if limits.rate is None else Rates(limits.rate, limits.burst)
        self._sessions = Sessions(server, most=limits.sessions, idle=limits.session_idle)
        self._endpoint = Endpoint(server, self._sessions, max_body=limits.body)
        self._routes: dict[str, Callable[[Request, Send], Awaitable[None]]] = {
            PATH: self._mcp,
            "/healthz": self._healthy,
            "/readyz": self._ready,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket that is refused."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def close(self) -> None:
        """End all streams and sessions; requests in flight may be answered for a moment."""
        await asyncio.gather(self._endpoint.close(), self._sessions.close())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            request = Request(scope, receive)
            route = self._routes.get(request.path)
            if route is None:
                raise Refused(404, "not found")
            await route(request, sent)
        except Refused as refused:
            if not begun:
                await _refuse(send, refused)
        except Gone:
            pass
        except Exception:
            logger.exception("a request failed")
            if not begun:
                await _refuse(send, Refused(500, "internal error"))

    async def _mcp(self, request: Request, send: Send) -> None:
        headers = self._admitted(request)
        if headers:
            send = _adding(send, headers)
        if request.method == "OPTIONS":
            await answer(send, 204, headers=_PREFLIGHT if headers else ())
            return
        caller = EVERYBODY if self._authenticate is None else await self._authenticate(request)
        if self._rates is not None:
            self._rates.take(caller.subject or request.address)
        await self._endpoint(request, send, caller)

    def _admitted(self, request: Request) -> Headers:
        """Refuse what was not meant for this server; return what a web page has to be told."""
        host = request.header(b"host")
        if host is None or host not in self._hosts:
            raise Refused(421, "this server is not known by that name; see http.allowed_hosts")
        origin = request.header(b"origin")
        if origin is None:
            return ()
        if origin not in self._origins:
            raise Refused(403, "web pages of this origin are not allowed; see http.allowed_origins")
        return ((b"access-control-allow-origin", origin.encode("latin-1")), _EXPOSED, _VARY)

    async def _healthy(self, request: Request, send: Send) -> None:
        await answer(send, 200, b"ok\n", type=b"text/plain")

    async def _ready(self, request: Request, send: Send) -> None:
        problems = await self._server.catalog.start()
        body = msgspec.json.encode({"ready": not problems, "unavailable": list(problems)})
        await answer(send, 503 if problems else 200, body, type=b"application/json")


def _adding(send: Send, headers: Headers) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return adding


async def _refuse(send: Send, refused: Refused) -> None:
    body = msgspec.json.encode({"error": refused.message})
    await answer(send, refused.status, body, headers=refused.headers, type=b"application/json")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
