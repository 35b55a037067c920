"""The explorer's ASGI application: addresses of its pages, their headers, and errors as pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from resource_server import uris
from resource_server.access import acting
from resource_server.errors import InvalidParameter, ResourceError
from resource_server.explorer import page as pages
from resource_server.explorer import results
from resource_server.explorer.addresses import (
    ASSETS,
    LIVE,
    ROOT,
    page_address,
    resource_uri,
    with_parameters,
)
from resource_server.explorer.document_page import raw_document
from resource_server.explorer.hidden_page import show_hidden
from resource_server.explorer.live_updates import LiveUpdates
from resource_server.explorer.model_page import show_as_model
from resource_server.explorer.page import Page, Visit, rendered
from resource_server.explorer.resource_page import show_resource, show_source
from resource_server.explorer.search_page import show_search
from resource_server.explorer.start_page import Surveys, show_start
from resource_server.explorer.table_page import OPERATORS, listed, with_filter
from resource_server.explorer.tool_pages import show_prompt, show_tool, show_tools
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types explorer"
)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # With `no-referrer`, browsers send the forms of our own pages with `Origin: null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
_ASSET_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STATUSES = {
    results.NOT_FOUND: 404,
    revisions.BUSY: 503,
    revisions.DEADLINE_EXCEEDED: 503,
    revisions.INTERNAL_ERROR: 500,
}
_MESSAGES = {
    404: "There is nothing here, or it is hidden from you.",
    405: "This page cannot be asked for in that way.",
    500: "The server failed. Its log has the reason.",
}

_Show: TypeAlias = Callable[[Page], Awaitable[Response]]


class PublicPage(NamedTuple):
    """A page for any caller: nothing of the manifest is on it but its issuer."""

    body: bytes
    headers: Sequence[tuple[bytes, bytes]]


class Explorer:
    """Answers browsers with pages. An ASGI application for authenticated requests.

    `prefix` is the path that a proxy adds before the paths of this server.
    """

    def __init__(self, server: Server, prefix: str = "") -> None:
        self._server = server
        self._prefix = prefix
        self._surveys = Surveys()
        start = self._page(lambda page: show_start(page, self._surveys))
        rest = "{path:path}"
        routes = [
            Route("/", start),
            Route(ROOT, start),
            Route(ROOT.removesuffix("/"), self._start),
            Route(f"{ASSETS}{{name}}", _asset),
            Route(f"{ROOT}search", self._page(show_search)),
            Route(f"{ROOT}filter", self._filter),
            Route(f"{ROOT}columns", self._columns),
            Route(f"{ROOT}expand", self._expand),
            Route(f"{ROOT}tools", self._page(show_tools)),
            Route(f"{ROOT}tools/{rest}", self._form(show_tool), methods=["GET", "POST"]),
            Route(f"{ROOT}prompts/{rest}", self._form(show_prompt), methods=["GET", "POST"]),
            Route(f"{ROOT}model/{rest}", self._page(show_as_model)),
            Route(f"{ROOT}hidden/{rest}", self._page(show_hidden)),
            Route(f"{ROOT}source/{rest}", self._page(show_source)),
            Route(f"{ROOT}raw/{rest}", self._page(raw_document)),
            Route(f"{LIVE}{rest}", self._live),
            Route(f"{ROOT}{rest}", self._page(show_resource)),
        ]
        errors: Mapping[Any, Any] = dict.fromkeys(
            (HTTPException, ErrorReply, ResourceError, Exception), self._failed
        )
        self._application = Starlette(routes=routes, exception_handlers=errors)
        self._application.router.redirect_slashes = False

    async def __call__(self, scope: Any, receive: Any, send: Any, visit: Visit) -> None:
        """Answer one request."""
        # Its routes have no root path: links begin with that of the visit.
        path = self.path_of(scope["path"])
        scope = {**scope, "path": path, "root_path": "", "visit": visit}
        with acting(visit.caller):
            await self._application(scope, receive, send)

    def close(self) -> None:
        """End what runs beside requests."""
        self._surveys.close()

    def root_below(self, prefix: str) -> str:
        """Return the path of the start page for browsers that come by a parent's `prefix`."""
        return f"{self._prefix or prefix}{ROOT}"

    def path_of(self, path: str) -> str:
        """Return the path of a request without the proxy's, which it may have kept.

        The proxy's may begin as the explorer's own.
        """
        inner = path.removeprefix(self._prefix)
        return inner if f"{inner}/".startswith(ROOT) else path

    def sign_in_page(
        self, root: str, message: str, *, takes_tokens: bool, issuer: str | None, to: str
    ) -> PublicPage:
        """Return the page for signing in."""
        values = {"message": message, "takes_tokens": takes_tokens, "issuer": issuer, "to": to}
        return self._public_page("sign_in.html", root, **values)

    def refusal_page(self, root: str, message: str) -> PublicPage:
        """Return the page of a refused request, with the reason."""
        return self._public_page("error.html", root, message=message, why=None)

    def _public_page(self, template: str, root: str, **values: Any) -> PublicPage:
        body = rendered(template, root, "resource-server", visit=None, **values)
        return PublicPage(body.encode(), [(k.encode(), v.encode()) for k, v in _HEADERS.items()])

    def _page(self, show: _Show) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            async with self._client(request) as client:
                return _secured(await show(self._asked(request, client)))

        return answer

    @asynccontextmanager
    async def _client(self, request: Request) -> AsyncGenerator[LocalClient]:
        visit: Visit = request.scope["visit"]
        async with LocalClient(
            self._server, owner=visit.owner, name=pages.CLIENT, address=visit.address
        ) as client:
            try:
                yield client
            finally:
                # Neither `initialize` nor the first, which the request for the page counts as.
                visit.charge(max(client.sent - 2, 0))

    def _asked(self, request: Request, client: LocalClient) -> Page:
        path = request.path_params.get("path", "")
        query = request.scope["query_string"].decode("ascii", "replace")
        visit: Visit = request.scope["visit"]
        return Page(self._server, client, visit.root, path, query, visit)

    def _form(
        self, show: Callable[[Page, bytes | None], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            body = await request.body() if request.method == "POST" else None
            return await self._page(lambda page: show(page, body))(request)

        return answer

    async def _live(self, request: Request) -> Response:
        query = request.scope["query_string"].decode("ascii", "replace")
        uri = resource_uri(request.path_params["path"], query)
        return _secured(LiveUpdates(self._server, uri, request.scope["visit"]))

    async def _start(self, request: Request) -> Response:
        return _secured(RedirectResponse(request.scope["visit"].root, 303))

    async def _filter(self, request: Request) -> Response:
        """Redirect to the page of a table with one filter more."""
        given = request.query_params
        column, operator = given.get("column", ""), given.get("operator", "eq")
        if not column or operator not in OPERATORS:
            raise HTTPException(404)
        value = given.get("value", "")
        return _redirect(request, with_filter(given.get("uri", ""), column, operator, value))

    async def _columns(self, request: Request) -> Response:
        """Redirect to the page of a table with the chosen columns; all without one."""
        names = listed(request.query_params.getlist("column")) or None
        uri = request.query_params.get("uri", "")
        return _redirect(request, with_parameters(uri, {"columns": names}))

    async def _expand(self, request: Request) -> Response:
        """Redirect to the page of the resource that a template and values for it name."""
        given = dict(request.query_params)
        return _redirect(request, uris.expand(given.pop("~template", ""), given))

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Answer with a page that says what is wrong."""
        message = str(error)
        match error:
            case ErrorReply():
                status = _STATUSES.get(error.code, 400)
            case HTTPException():
                status, message = error.status_code, error.detail
            case InvalidParameter():
                status = 400
            case ResourceError():
                status = 404  # a malformed URI is nobody's
            case _:
                status = 500  # logged by the transport
        message = _MESSAGES.get(status, message)
        async with self._client(request) as client:
            page = self._asked(request, client)
            mount = None if isinstance(error, HTTPException) else page.mount
            has_reason = status == 404 or (status == 503 and mount and not mount.is_available)
            why = page.uri if mount and has_reason else None
            return _secured(page.render("error.html", status=status, message=message, why=why))


def _redirect(request: Request, uri: str) -> Response:
    """Return the way to the page of a resource."""
    uris.parse(uri)
    visit: Visit = request.scope["visit"]
    return _secured(RedirectResponse(f"{visit.root}{page_address(uri)}", 303))


def _secured(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in pages.ASSETS:
        raise HTTPException(404)
    media_type = _ASSET_TYPES[name[name.rindex(".") :]]
    response = _secured(Response(pages.asset(name), media_type=media_type))
    if request.query_params.get("v") == pages.asset_version(name):
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
    return response
