"""The server as an ASGI application, for Starlette, FastAPI and others to mount."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, Literal, Self, TypeAlias

from resource_server.access import Caller
from resource_server.embedding.callers import caller_of_scope, named
from resource_server.embedding.embedded_server import (
    EmbeddedServer,
    ServerEnded,
    Source,
    SourceServers,
)
from resource_server.errors import ManifestError
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.runtime import extras
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.serving.reload import ReloadingServer
from resource_server.transports.http.app.application import Application
from resource_server.transports.http.app.application_builder import (
    ParentApplication,
    application_of,
)
from resource_server.transports.http.app.request import (
    AsgiMessage,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    HttpError,
    HttpRequest,
)

logger = logging.getLogger(__name__)

CallerOf: TypeAlias = Callable[[Mapping[str, Any]], Caller | Awaitable[Caller | None] | None]
"""Returns the caller of a request by its ASGI scope; None for one who is not signed in."""

_PARENT_STOPS_S = 0.25
"""Interval of looks at a parent server that is about to stop."""


def asgi_app(
    source: Source,
    *,
    caller: Literal["scope"] | CallerOf | None = None,
    allowed_hosts: Sequence[str] = (),
    legacy_sse: bool = False,
    access_log: bool = False,
    plugins: bool = True,
    timing: Timing = DEFAULT_TIMING,
) -> AsgiApplication:
    """Return an ASGI application that serves a source, to be mounted in another.

    The endpoint is `/mcp` below the path of the mount. It starts with its first request, or with
    its lifespan if one is run, and ends with the event loop or that lifespan.

    Args:
        source: a manifest, folder, database or URL, or a manifest as a mapping.
        caller: how the caller of a request is known, in place of `http.auth`: `"scope"` takes
            `scope["user"]` and the scopes of `scope["auth"]`, as Starlette's authentication
            middleware sets them; a function is given the scope.
        allowed_hosts: accepted `Host` headers, besides `http.allowed_hosts` and that of `http.url`;
            `*` accepts any, where the parent application checks them.
        legacy_sse: whether clients of 2024-11-05 are served, at `/sse`.
        access_log: whether each request is logged as JSON.
        plugins: whether plugin providers may run.
        timing: times that tests shorten.

    Raises:
        ManifestError: the source cannot be served; the text is that of the command line.
        ValueError: what the options of `http` need is not installed.
    """
    servers = SourceServers(source, plugins=plugins, over_http=True, timing=timing)
    if servers.manifest.published_secrets:
        # The parent may listen anywhere.
        raise ManifestError(servers.manifest.published_secrets)
    _require_packages(servers.manifest.http)
    auth = servers.manifest.http.auth
    required = frozenset(auth.scopes) if auth else frozenset[str]()
    caller_of = caller_of_scope if caller == "scope" else caller
    authenticate = None if caller_of is None else _ParentsCaller(caller_of, required)
    place = ParentApplication(allowed_hosts, authenticate)

    def made(served: ReloadingServer, server: Server) -> Application:
        return application_of(
            server,
            served.manifest.http,
            place,
            legacy=legacy_sse,
            logs_access=access_log,
            key=served.manifest.server.secret,
            timing=timing,
        )

    return AsgiApplication(servers, made)


class AsgiApplication:
    """Serves a source below a parent application.

    As an async context manager, it starts at once and has ended after the block.
    """

    def __init__(
        self, servers: SourceServers, made: Callable[[ReloadingServer, Server], Application]
    ) -> None:
        self._made = made
        self._embedded = EmbeddedServer(servers, self._opened)
        self._requests = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def _opened(self, served: ReloadingServer, server: Server) -> AsyncGenerator[Application]:
        served.takes_samples = False
        application = self._made(served, server)
        # Its handlers of signals are methods of the server; it tells no application otherwise.
        parent = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
        watching = asyncio.create_task(self._end_streams(parent, application))
        try:
            yield application
        finally:
            watching.cancel()
            await application.close()

    async def _end_streams(self, parent: object, application: Application) -> None:
        """End the streams once a parent such as uvicorn stops: it waits for them, without limit."""
        if not isinstance(getattr(parent, "should_exit", None), bool):
            return
        while not getattr(parent, "should_exit", True):  # noqa: ASYNC110 (a plain attribute)
            await asyncio.sleep(_PARENT_STOPS_S)
        self._embedded.refuse()
        await application.close()

    async def __aenter__(self) -> Self:
        await self._embedded.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._embedded.close()

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request, or run the lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            try:
                application = await self._embedded.running()
            except ServerEnded:
                await _refuse(send, 503, b"the server is shutting down\n")
                return
            except Exception:
                logger.exception("starting a server failed")
                await _refuse(send, 500, b"the server cannot start; see its log\n")
                return
            await self._run(application({**scope, "path": _path(scope)}, receive, send))

    async def _run(self, answering: Awaitable[None]) -> None:
        """Run a request in a task of its own.

        A parent may cancel over and over until a request ends, so that its own end would fail.
        """
        task = asyncio.ensure_future(answering)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        while True:
            message = await receive()
            answer: AsgiMessage = {"type": f"{message['type']}.complete"}
            if message["type"] == "lifespan.shutdown":
                await self._embedded.close()
                await send(answer)
                return
            try:
                await self._embedded.start()
            except Exception as error:
                answer = {"type": "lifespan.startup.failed", "message": str(error)}
            await send(answer)


def _require_packages(http: Http) -> None:
    """Raise an error that names the extra if the options of `http` need one."""
    if http.auth and http.auth.issuers:
        extras.require_packages("auth", "http.auth.issuer")
    if http.explorer:
        extras.require_packages("explorer", "http.explorer")
    if http.fleet:
        extras.require_packages("fleet", "http.fleet")


def _path(scope: AsgiScope) -> str:
    """Return the path below the mount; `path` has all of it, or what a proxy or parent left."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    # A proxy may have removed the beginning of the root path.
    starts = [index for index, character in enumerate(root) if character == "/"]
    for start in starts:
        if path == root[start:] or path.startswith(f"{root[start:]}/"):
            return path[len(root) - start :] or "/"
    return path or "/"


async def _refuse(send: AsgiSend, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _ParentsCaller:
    """Returns the caller whom the parent application has authenticated."""

    def __init__(self, caller_of: CallerOf, required: frozenset[str]) -> None:
        self._caller_of = caller_of
        self._required = required

    async def __call__(self, request: HttpRequest) -> Caller:
        found = self._caller_of(request.scope)
        caller = await found if isawaitable(found) else found
        if caller is None:
            raise HttpError(401, "sign in first: the application above knows no user")
        caller = named(caller)
        if not caller.may(self._required):
            raise HttpError(403, "the user lacks a scope")
        return caller
