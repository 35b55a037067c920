"""The ASGI application: routes, checks of requests (host, origin, token, rate), and errors."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from resource_server.access import EVERYBODY, Caller
from resource_server.manifest.http import Http, HttpLimits
from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.server import Server
from resource_server.runtime.rates import RateLimiter
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.bodies import Bodies
from resource_server.transports.http.app.landing_page import LandingPage
from resource_server.transports.http.app.legacy import POST_PATH, STREAM_PATH, LegacyTransport
from resource_server.transports.http.app.request import (
    PATH,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    ClientDisconnected,
    Exchange,
    Headers,
    HttpError,
    HttpRequest,
    RequestObserver,
    is_same_origin,
    public_prefix,
    rate_limited,
)
from resource_server.transports.http.app.sessions import SessionRequests, Sessions
from resource_server.transports.http.app.stateless import StatelessRequests
from resource_server.transports.http.auth.protected_resource import ProtectedResource
from resource_server.transports.http.observability.health import Authenticate, OperatorEndpoints
from resource_server.transports.http.sse.stream_limits import StreamLimiter

if TYPE_CHECKING:
    from resource_server.explorer.application import Explorer
    from resource_server.transports.http.app.explorer_requests import ExplorerRequests
    from resource_server.transports.http.auth.page_sign_in import PageSignIn
    from resource_server.transports.http.fleet.store import FleetStore
    from resource_server.transports.http.workers.worker import Worker

logger = logging.getLogger(__name__)

LOOPBACK_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")

Handle: TypeAlias = Callable[[HttpRequest, Caller], Awaitable[None]]
"""Answers a request of an authenticated caller."""

_ERROR_CODES = {
    429: revisions.BUSY,
    500: revisions.INTERNAL_ERROR,
    503: revisions.BUSY,
}
_ANY_PORT = ":*"
_PORT = re.compile(r":\d{1,5}\Z")
_REQUEST_HEADERS = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, "
    b"mcp-protocol-version, mcp-session-id"
)
_ARGUMENT_HEADERS = re.compile(rb"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+")
"""Names of further request headers, which depend on the tools."""
_EXPOSE = (b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after")
_VARY = (b"vary", b"Origin")


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
        explorer: Explorer | None = None,
        sign_in: PageSignIn | None = None,
        is_loopback: bool = False,
        is_mounted: bool = False,
        observers: Sequence[RequestObserver] = (),
        store: FleetStore | None = None,
        worker: Worker | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        limits = options.limits
        is_home = _everything if worker is None else worker.is_home
        self._authenticate = authenticate
        allowed, origins = (*hosts, *options.allowed_hosts), options.allowed_origins
        allowlist = HostAllowlist(allowed, origins)
        # Most requests have the same headers; refusals are not remembered.
        self._allow = lru_cache(maxsize=256)(allowlist.check)
        # A parent may listen anywhere, and other machines can name themselves `localhost`.
        remote = HostAllowlist(allowed, origins, has_own=False)
        self._allow_remote = remote.check if is_mounted and authenticate is None else None
        self._rates = rate_limiter(limits, store, worker, "requests")
        self._bodies = Bodies(limits.body)
        self._streams = streams = StreamLimiter(limits.streams)
        self._sessions = Sessions(
            server,
            max_sessions=limits.sessions,
            idle_s=limits.session_idle,
            store=store,
            is_home=is_home,
            timing=timing,
        )
        self._session_requests = SessionRequests(self._sessions, streams, self._bodies, timing)
        self._stateless_requests = StatelessRequests(server, streams, self._bodies, timing)
        self._operators = OperatorEndpoints(
            server,
            self._sessions,
            streams,
            check=self._cors_headers,
            authenticate=authenticate or _everybody,
            public_metrics=options.metrics,
            worker=worker,
        )
        self._metrics = self._operators.requests
        self._observers = observers
        self._pages: ExplorerRequests | None = None
        self._prefix = public_prefix(options.url)
        self._legacy = LegacyTransport(
            server, streams, self._bodies, timing, self._prefix, is_home=is_home
        )
        self._routes = self._endpoints(resource, legacy=legacy)
        if explorer is not None:
            self._pages = self._explorer_requests(explorer, options, sign_in, is_loopback)
            self._has_pages_for_all = not is_mounted or options.explorer is not None
        page = LandingPage(server, options.url, self._cors_headers, authenticate)
        self._routes["/"] = page.show

    def _endpoints(
        self, resource: ProtectedResource | None, *, legacy: bool
    ) -> dict[str, Callable[[HttpRequest], Awaitable[None]]]:
        """Return the handlers of all paths but the page at `/`."""
        endpoints: dict[str, Callable[[HttpRequest], Awaitable[None]]] = {
            PATH: partial(self._admit, self._handle),
            "/healthz": self._operators.healthz,
            "/readyz": self._operators.readyz,
            "/metrics": self._operators.metrics,
        }
        if legacy:
            endpoints[STREAM_PATH] = partial(self._admit, self._legacy.stream)
            endpoints[POST_PATH] = partial(self._admit, self._legacy.post)
        if resource is not None:
            endpoints |= dict.fromkeys(resource.paths, resource.describe)
        return endpoints

    def _explorer_requests(
        self, explorer: Explorer, options: Http, sign_in: PageSignIn | None, is_loopback: bool
    ) -> ExplorerRequests:
        # Imported here: the explorer's packages are optional.
        from resource_server.transports.http.app.explorer_requests import ExplorerRequests

        return ExplorerRequests(
            explorer,
            self._streams,
            self._bodies,
            check=self._cors_headers,
            authenticate=self._authenticate,
            sign_in=sign_in,
            url=options.url,
            is_loopback=is_loopback,
            rates=self._rates,
        )

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one HTTP request; WebSockets are refused by the web server."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)

    async def _respond(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        exchange = Exchange(scope, send, self._metrics.sent, self._observers)
        try:
            request = HttpRequest(scope, receive, exchange)
            await self._route(request)(request)
            if exchange.status and not exchange.is_complete:
                # A stream that continues in another request, or later.
                await exchange.send_part(b"", is_last=True)
        except HttpError as error:
            if not exchange.status:
                await _respond_error(exchange, error)
        except ClientDisconnected:
            pass
        except Exception:
            logger.exception("a request failed")
            if not exchange.status:
                await _respond_error(exchange, HttpError(500, "internal error"))
        finally:
            if exchange.held_bytes:
                self._bodies.release(exchange)
            self._metrics.add(exchange)
            exchange.finish(scope)

    def _route(self, request: HttpRequest) -> Callable[[HttpRequest], Awaitable[None]]:
        """Return the route of a path, which may end in a slash or keep the public prefix."""
        path = request.path
        route = self._routes.get(path)
        if route is None:
            route = self._routes.get(path.removeprefix(self._prefix).removesuffix("/"))
        is_page = path == "/" if route is not None else self._pages and self._pages.has(path)
        if is_page and self._pages and (self._has_pages_for_all or request.is_local):
            route = self._pages.answer
        if route is None:
            raise HttpError(404, "not found")
        return route

    async def publish(self) -> None:
        """Show other workers what this one has counted."""
        self._operators.publish()

    async def close(self) -> None:
        """End all streams and sessions; requests in flight have a moment to be answered."""
        self._bodies.close()
        self._streams.close()
        if self._pages is not None:
            self._pages.close()
        await asyncio.gather(
            self._stateless_requests.close(),
            self._sessions.close(),
            self._legacy.close(),
        )

    async def _admit(self, handle: Handle, request: HttpRequest) -> None:
        """Check host, origin, token and rate of a request before it is handled."""
        exchange = request.exchange
        exchange.is_mcp = True
        exchange.cors_headers = self._cors_headers(request)
        if request.method == "OPTIONS":
            is_preflight = bool(exchange.cors_headers)
            headers = preflight_headers(request) if is_preflight else ()
            await exchange.respond(204, headers=headers)
            return
        try:
            caller = EVERYBODY
            if self._authenticate is not None:
                exchange.caller = caller = await self._authenticate(request)
            if self._rates and (wait_s := self._rates.take(request.owner(caller))):
                raise rate_limited(wait_s)
            await handle(request, caller)
        finally:
            if exchange.batch_size > 1 and self._rates:
                self._rates.charge(request.owner(exchange.caller), exchange.batch_size - 1)

    def _cors_headers(self, request: HttpRequest) -> Headers:
        allow = self._allow
        if self._allow_remote is not None and request.is_remote:
            allow = self._allow_remote
        return allow(request.headers.get(b"host"), request.headers.get(b"origin"))

    async def _handle(self, request: HttpRequest, caller: Caller) -> None:
        """Handle a request to the MCP endpoint in the era that its headers name."""
        version = request.header(b"mcp-protocol-version")
        if version is None or version in revisions.HANDSHAKE:
            await self._session_requests.handle(request, caller)
        elif request.method == "POST":
            await self._stateless_requests.post(request, version, caller)
        elif version in revisions.MODERN:
            raise HttpError(405, "the method is not allowed here", [(b"allow", b"POST")])
        else:
            await self._session_requests.handle(request, caller)


def _everything(_: str) -> bool:
    return True


async def _everybody(_: HttpRequest) -> Caller:
    return EVERYBODY


async def _respond_error(exchange: Exchange, error: HttpError) -> None:
    code = _ERROR_CODES.get(error.status, revisions.INVALID_REQUEST)
    body = error_mapping.error_response(None, Fault(code, error.message))
    await exchange.respond(
        error.status, body, headers=error.headers, media_type=b"application/json"
    )


async def _lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def rate_limiter(
    limits: HttpLimits, store: FleetStore | None, worker: Worker | None, name: str
) -> RateLimiter | None:
    """Return the limiter of these limits, shared if there are others; None without a limit."""
    if limits.rate is None:
        return None
    if store is None and worker is not None:
        return worker.workers.memory.rate_limiter(name, limits.rate, limits.burst)
    if store is None:
        return RateLimiter(limits.rate, limits.burst)
    # Imported here: most servers are alone.
    from resource_server.transports.http.fleet.shared_rates import SharedRateLimiter

    return SharedRateLimiter(limits.rate, limits.burst, store, name)


class HostAllowlist:
    """Refuses requests for foreign hosts, and from web pages that are not allowed.

    A web page can make a browser send requests to this machine under a host name of its own (DNS
    rebinding), but cannot make the browser leave that name out of the headers. Pages of this server
    itself are allowed; those of another port are another program's.

    A host is written `files.example.org`, an origin `https://files.example.org`; with `:*` any
    port is allowed, or none. `*` allows any. Unless `has_own` is false, the loopback names of this
    machine are allowed.
    """

    def __init__(
        self, hosts: Iterable[str], origins: Iterable[str], *, has_own: bool = True
    ) -> None:
        self._hosts = _Names((*LOOPBACK_HOSTS, *hosts) if has_own else hosts)
        self._origins = _Names(origins)

    def check(self, host: bytes | None, origin: bytes | None) -> Headers:
        """Return the CORS headers for the response to a web page; none for other clients.

        Raises:
            HttpError: 421 for another host, 403 for another origin.
        """
        if host is None or host not in self._hosts:
            raise HttpError(421, "this server is not known by that name; see http.allowed_hosts")
        if origin is None:
            return ()
        if origin not in self._origins and not is_same_origin(origin, host):
            reason = "web pages of this origin are not allowed; see http.allowed_origins"
            raise HttpError(403, reason)
        return ((b"access-control-allow-origin", origin.strip(b" \t")), _EXPOSE, _VARY)


class _Names:
    def __init__(self, allowed: Iterable[str]) -> None:
        names = [name.lower() for name in allowed]
        self._any = "*" in names
        self._exact = frozenset(name for name in names if not name.endswith(_ANY_PORT))
        self._any_port = frozenset(
            name.removesuffix(_ANY_PORT) for name in names if name.endswith(_ANY_PORT)
        )

    def __contains__(self, header: bytes) -> bool:
        name = header.decode("latin-1").strip(" \t").lower()
        return self._any or name in self._exact or _PORT.sub("", name) in self._any_port


def preflight_headers(request: HttpRequest) -> Headers:
    """Return the methods and headers a web page may use, for the response to `OPTIONS`."""
    requested = request.headers.get(b"access-control-request-headers", b"").lower()
    allowed = b", ".join([_REQUEST_HEADERS, *_ARGUMENT_HEADERS.findall(requested)])
    return (
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", b"600"),
    )
