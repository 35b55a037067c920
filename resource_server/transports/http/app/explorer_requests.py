"""Requests of browsers for pages of the explorer: their callers and deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from resource_server.access import EVERYBODY, Caller
from resource_server.explorer import page
from resource_server.explorer.addresses import ASSETS, LIVE, ROOT
from resource_server.explorer.application import Explorer, PublicPage
from resource_server.explorer.page import Endpoint, Visit
from resource_server.runtime.rates import RateLimiter
from resource_server.transports.http.app.bodies import UNCOUNTED_BYTES, Bodies
from resource_server.transports.http.app.landing_page import (
    HOSTS,
    asks_for_html,
    host_configuration,
    is_of_browser,
)
from resource_server.transports.http.app.request import (
    AsgiMessage,
    Headers,
    HttpError,
    HttpRequest,
    endpoint_url,
    is_same_origin,
    rate_limited,
)
from resource_server.transports.http.auth.page_cookies import OPERATOR, SignInFailed
from resource_server.transports.http.auth.page_sign_in import PageSignIn
from resource_server.transports.http.observability.health import Authenticate
from resource_server.transports.http.sse.stream_limits import StreamLimiter

SIGN_IN = f"{ROOT}sign-in"
BEGIN = f"{SIGN_IN}/begin"
RETURN = f"{SIGN_IN}/return"
SIGN_OUT = f"{ROOT}sign-out"

_READ = ("GET", "HEAD")
_SIGN_IN_METHODS = {
    SIGN_IN: (*_READ, "POST"),
    BEGIN: ("GET",),
    RETURN: ("GET",),
    SIGN_OUT: ("POST",),
}
_PUBLIC = frozenset(f"{ASSETS}{name}" for name in page.ASSETS)
"""Paths that need no sign-in: the explorer's own files."""


class ExplorerRequests:
    """Admits requests for pages, and passes them to the explorer.

    `check` raises `HttpError` for another host or a foreign web page; `sign_in` is None where no
    one needs to sign in, or a parent application has, whose caller `authenticate` returns; `url` is
    the public URL of the endpoint, if it has one.
    """

    def __init__(
        self,
        explorer: Explorer,
        streams: StreamLimiter,
        bodies: Bodies,
        *,
        check: Callable[[HttpRequest], object],
        authenticate: Authenticate | None,
        sign_in: PageSignIn | None,
        url: str | None,
        is_loopback: bool,
        rates: RateLimiter | None,
    ) -> None:
        self._explorer = explorer
        self._streams = streams
        self._bodies = bodies
        # Anybody sends these: they are small enough not to be counted.
        self._forms = Bodies(UNCOUNTED_BYTES)
        self._check = check
        self._authenticate = authenticate
        self._sign_in = sign_in
        self._url = url
        self._is_loopback = is_loopback
        self._rates = rates
        self._live: set[asyncio.Event] = set()

    def has(self, path: str) -> bool:
        """Return whether requests for a path are answered here."""
        return f"{self._explorer.path_of(path)}/".startswith(ROOT)

    async def answer(self, request: HttpRequest) -> None:
        """Answer a request for a page.

        Raises:
            HttpError: it is refused.
            ClientDisconnected: the client has left.
        """
        try:
            await self._answer(request)
        except HttpError as error:
            if request.exchange.status or not asks_for_html(request):
                raise
            page = self._explorer.refusal_page(self._root(request), error.message)
            await _show(request, page, error.status, error.headers)

    async def _answer(self, request: HttpRequest) -> None:
        if request.path == "/" and not is_of_browser(request):
            raise HttpError(404, "not found")
        self._check(request)
        if request.method == "POST" and not _is_of_own_page(request):
            raise HttpError(403, "only pages of this server may send this")
        path = self._explorer.path_of(request.path)
        if self._sign_in is not None and path in _SIGN_IN_METHODS:
            await self._change_sign_in(request, self._sign_in, path)
            return
        caller = EVERYBODY if path in _PUBLIC else await self._caller(request)
        if caller is None:
            await self._ask_to_sign_in(request)
            return
        is_live = path.startswith(LIVE)
        if is_live and request.method == "HEAD":
            raise _not_allowed("GET")
        request.exchange.caller = caller
        owner = request.owner(caller)
        if self._rates and (wait_s := self._rates.take(owner)):
            raise rate_limited(wait_s)
        body = await self._bodies.read(request)
        ended = asyncio.Event()
        with ExitStack() as stack:
            if is_live:
                stack.enter_context(self._streams.slot(owner, ended.set))
                self._live.add(ended)
                stack.callback(self._live.discard, ended)
                if caller.expires is not None:
                    left_s = caller.expires - time.time()
                    timer = asyncio.get_running_loop().call_later(left_s, ended.set)
                    stack.callback(timer.cancel)
            url = endpoint_url(request, self._url)
            needs_token = self._sign_in is not None
            endpoint = Endpoint(url, HOSTS, host_configuration(url, needs_token=needs_token))
            visit = Visit(
                caller,
                owner,
                partial(self._rates.charge, owner) if self._rates else _count_nothing,
                ended,
                endpoint,
                address=request.address,
                may_sign_out=needs_token,
                is_operator=self._is_operator(request, caller),
                root=self._root(request),
            )
            receive, send = _BufferedBody(body).receive, request.exchange.relay
            answering = self._explorer(request.scope, receive, send, visit)
            await request.unless_disconnected(answering)

    async def _caller(self, request: HttpRequest) -> Caller | None:
        """Return the caller of a request for a page; None for a person who is not signed in."""
        if self._sign_in is not None:
            return self._sign_in.cookie.contents(request)
        return EVERYBODY if self._authenticate is None else await self._authenticate(request)

    def _is_operator(self, request: HttpRequest, caller: Caller) -> bool:
        """Return whether the caller may know what is hidden."""
        if self._sign_in is None and self._authenticate is None:
            return self._is_loopback and self._url is None and request.is_local
        return caller.may(frozenset((OPERATOR,)))

    async def _ask_to_sign_in(self, request: HttpRequest) -> None:
        if request.method not in _READ:
            raise HttpError(401, "sign in first")
        query: bytes = request.scope.get("query_string", b"")
        raw: bytes = request.scope.get("raw_path") or quote(request.path).encode()
        wanted = raw + (b"?" + query if query else b"")
        address = f"{self._root(request)}sign-in?to={quote(wanted, safe='')}"
        await request.exchange.respond(303, headers=[(b"location", address.encode())])

    async def _change_sign_in(self, request: HttpRequest, sign_in: PageSignIn, path: str) -> None:
        if request.method not in (allowed := _SIGN_IN_METHODS[path]):
            raise _not_allowed(*allowed)
        if self._rates and (wait_s := self._rates.take(request.address)):
            raise rate_limited(wait_s)
        body = await self._forms.read(request)
        given: bytes = request.scope.get("query_string", b"")
        query = dict(parse_qsl(given.decode("latin-1"), keep_blank_values=True))
        message, status, led_to = "", 200, None
        try:
            led_to = await self._step(request, sign_in, path, query, body)
        except SignInFailed as error:
            message, status = str(error), error.status
        if led_to is not None:
            url, cookies = led_to
            headers = [(b"location", url.encode()), *cookies, (b"cache-control", b"no-store")]
            await request.exchange.respond(303, headers=headers)
            return
        form = self._explorer.sign_in_page(
            self._root(request),
            message,
            takes_tokens=sign_in.takes_tokens,
            issuer=sign_in.at_issuer and sign_in.at_issuer.issuer,
            to=query.get("to", ""),
        )
        await _show(request, form, status)

    async def _step(
        self,
        request: HttpRequest,
        sign_in: PageSignIn,
        path: str,
        query: Mapping[str, str],
        body: bytes,
    ) -> tuple[str, Headers] | None:
        """Return where a step of signing in or out leads, with cookies; None: to the form.

        Raises:
            SignInFailed: nobody is signed in.
        """
        to, caller, at_issuer = query.get("to", ""), None, sign_in.at_issuer
        if path == SIGN_OUT:
            return self._root(request), sign_in.cookie.cleared(request)
        cleared: Headers = ()
        if at_issuer is not None and path == BEGIN:
            return await at_issuer.begin(request, to, self._return_url(request))
        if at_issuer is not None and path == RETURN:
            caller, to = await at_issuer.finish(request, query, self._return_url(request))
            cleared = at_issuer.cookie.cleared(request)
        elif request.method == "POST":
            sent = dict(parse_qsl(body.decode("utf-8", "replace")))
            caller = await sign_in.verified(sent.get("token", "").strip(), request.address)
        elif request.method == "GET" and "code" in query:
            caller = sign_in.redeem(query["code"])
        if caller is None:
            return None
        return self._destination(request, to), (*sign_in.issued(request, caller), *cleared)

    def _return_url(self, request: HttpRequest) -> str:
        """Return the address to which an issuer sends a person back."""
        parts = urlsplit(endpoint_url(request, self._url))
        return f"{parts.scheme}://{parts.netloc}{self._root(request)}sign-in/return"

    def _root(self, request: HttpRequest) -> str:
        return self._explorer.root_below(request.prefix)

    def _destination(self, request: HttpRequest, to: str) -> str:
        """Return where a person goes after signing in: a page of the explorer, and none else."""
        root = self._root(request)
        is_own = to.startswith(root) and to.isprintable() and "\\" not in to
        # Browsers resolve dot segments, also encoded ones, which lead to other places.
        names = to.partition("?")[0].split("/")
        is_own = is_own and not any(unquote(each) in (".", "..") for each in names)
        return quote(to, safe="/?=&%:+~@!$'()*,;") if is_own else root

    def close(self) -> None:
        """End all live pages, and what the explorer does beside requests."""
        self._explorer.close()
        for ended in self._live:
            ended.set()


def _count_nothing(_: int) -> None:
    pass


class _BufferedBody:
    """A body that has been read, as an ASGI application receives it."""

    def __init__(self, body: bytes) -> None:
        self._message: AsgiMessage | None = {"type": "http.request", "body": body}

    async def receive(self) -> AsgiMessage:
        message, self._message = self._message, None
        if message is None:
            # `unless_disconnected` notices when the client leaves.
            await asyncio.Event().wait()
            raise AssertionError
        return message


async def _show(request: HttpRequest, page: PublicPage, status: int, headers: Headers = ()) -> None:
    media_type = b"text/html; charset=utf-8"
    all_headers = (*page.headers, *headers)
    await request.exchange.respond(status, page.body, headers=all_headers, media_type=media_type)


def _not_allowed(*allowed: str) -> HttpError:
    names = ", ".join(allowed).encode()
    return HttpError(405, "the method is not allowed here", [(b"allow", names)])


def _is_of_own_page(request: HttpRequest) -> bool:
    """Return whether a browser sent the request from a page of this server."""
    site = request.header(b"sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = request.headers.get(b"origin"), request.headers.get(b"host", b"")
    return origin is not None and is_same_origin(origin, host)
