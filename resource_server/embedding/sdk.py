"""Handlers for the low-level server of the official SDK (`mcp`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, NotRequired, TypeAlias, TypedDict, TypeVar

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from resource_server.access import EVERYBODY, Caller, acting
from resource_server.embedding.callers import caller_of_token, named
from resource_server.embedding.embedded_server import EmbeddedServer, Source, SourceServers
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.serving.reload import ReloadingServer

P = TypeVar("P")
R = TypeVar("R", bound=BaseModel)

Json: TypeAlias = dict[str, Any]
"""A message, as received."""

Context: TypeAlias = ServerRequestContext[Any, Any]
Handler: TypeAlias = Callable[[Context, P], Awaitable[R]]
Page: TypeAlias = types.PaginatedRequestParams | None

MAX_SUBSCRIBERS = 1000
"""Maximum connections with subscriptions; the SDK tells nobody when one ends."""

_NOTIFICATIONS: TypeAdapter[Any] = TypeAdapter(types.ServerNotification)


class Handlers(TypedDict):
    """The handlers by the names of the arguments of `mcp.server.Server`."""

    on_list_resources: Handler[Page, types.ListResourcesResult]
    on_list_resource_templates: Handler[Page, types.ListResourceTemplatesResult]
    on_read_resource: Handler[types.ReadResourceRequestParams, types.ReadResourceResult]
    on_subscribe_resource: Handler[types.SubscribeRequestParams, types.EmptyResult]
    on_unsubscribe_resource: Handler[types.UnsubscribeRequestParams, types.EmptyResult]
    on_subscriptions_listen: Handler[
        types.SubscriptionsListenRequestParams, types.SubscriptionsListenResult
    ]
    on_completion: Handler[types.CompleteRequestParams, types.CompleteResult]
    on_list_tools: NotRequired[Handler[Page, types.ListToolsResult]]
    on_call_tool: NotRequired[Handler[types.CallToolRequestParams, types.CallToolResult]]
    on_list_prompts: NotRequired[Handler[Page, types.ListPromptsResult]]
    on_get_prompt: NotRequired[Handler[types.GetPromptRequestParams, types.GetPromptResult]]


def handlers(
    source: Source,
    *,
    caller: Callable[[Context], Caller] | None = None,
    plugins: bool = True,
    timing: Timing = DEFAULT_TIMING,
) -> Handlers:
    """Return handlers for `mcp.server.Server(name, **handlers)`, which serve a source.

    The source is started with the first request of an event loop, and ends with the loop. There
    are handlers of tools if the manifest has tools, and of prompts if it has prompts.

    Args:
        source: a manifest, folder, database or URL, or a manifest as a mapping.
        caller: returns the caller of a request; by default that of the access token, or without
            one a caller to whom everything is visible that the manifest exposes.
        plugins: whether plugin providers may run.
        timing: times that tests shorten.

    Raises:
        ManifestError: the source cannot be served; the text is that of the command line.
    """
    servers = SourceServers(source, plugins=plugins, shows_activity=False, timing=timing)
    bridge = _Bridge(servers, caller or _caller_of_request)
    made: Handlers = {
        "on_list_resources": bridge.answer("resources/list", types.ListResourcesResult),
        "on_list_resource_templates": bridge.answer(
            "resources/templates/list", types.ListResourceTemplatesResult
        ),
        "on_read_resource": bridge.answer("resources/read", types.ReadResourceResult),
        "on_subscribe_resource": bridge.subscribe,
        "on_unsubscribe_resource": bridge.unsubscribe,
        "on_subscriptions_listen": bridge.listen,
        "on_completion": bridge.answer("completion/complete", types.CompleteResult),
    }
    if servers.manifest.tools.enabled:
        made["on_list_tools"] = bridge.answer("tools/list", types.ListToolsResult)
        made["on_call_tool"] = bridge.answer("tools/call", types.CallToolResult)
    if servers.manifest.prompts:
        made["on_list_prompts"] = bridge.answer("prompts/list", types.ListPromptsResult)
        made["on_get_prompt"] = bridge.answer("prompts/get", types.GetPromptResult)
    return made


def _caller_of_request(_: Context) -> Caller:
    token = get_access_token()
    return EVERYBODY if token is None else caller_of_token(token)


class _SdkSubscriber:
    """The subscriptions of one connection of a handshake revision."""

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        # Of the handshake: each connection has its own, by which it is known again.
        self.connection = session.client_params
        self.changed: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.ready: asyncio.Future[LocalClient] = asyncio.get_running_loop().create_future()


class _OpenServer:
    """What is open in one event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.subscribers: dict[int, _SdkSubscriber] = {}


class _Bridge:
    """Passes requests of the SDK's server to a client in the process, and results back."""

    def __init__(self, servers: SourceServers, caller_of: Callable[[Context], Caller]) -> None:
        self._embedded = EmbeddedServer(servers, self._opened)
        self._caller_of = caller_of

    @asynccontextmanager
    async def _opened(self, _: ReloadingServer, server: Server) -> AsyncGenerator[_OpenServer]:
        opened = _OpenServer(server)
        try:
            yield opened
        finally:
            for each in opened.subscribers.values():
                if each.task is not None:
                    each.task.cancel()

    def answer(self, method: str, kind: type[R]) -> Handler[Any, R]:
        """Return the handler of a method, with results of a type."""

        async def handle(context: Context, params: BaseModel | None) -> R:
            opened = await self._embedded.running()
            caller = named(self._caller_of(context))
            sent = _plain(params)
            async with AsyncExitStack() as lifetime:
                forward = _ignore
                if method == "tools/call":
                    forward = await lifetime.enter_async_context(self._progress(context))
                    # The SDK knows whether its client wants to know.
                    sent["_meta"] = {**sent.get("_meta", {}), "progressToken": method}
                client = LocalClient(
                    opened.server,
                    _revision(context),
                    on_notification=forward,
                    owner=caller.subject,
                )
                with acting(caller), _protocol_errors():
                    await lifetime.enter_async_context(client)
                    result = await client.request(method, sent)
            # The server that the client speaks to is the SDK's.
            result.get("_meta", {}).pop(revisions.SERVER_INFO, None)
            return kind.model_validate(result)

        return handle

    @asynccontextmanager
    async def _progress(self, context: Context) -> AsyncGenerator[Callable[[Json], None]]:
        """Yield a function that takes notifications, and passes on the progress of a request."""
        waiting: asyncio.Queue[Json | None] = asyncio.Queue()

        async def send() -> None:
            while (message := await waiting.get()) is not None:
                if message["method"] == "notifications/progress":
                    told = message["params"]
                    await context.session.report_progress(
                        told["progress"], told.get("total"), told.get("message")
                    )

        # No task group: it would wrap the error of a request.
        sending = asyncio.create_task(send())
        try:
            yield waiting.put_nowait
            waiting.put_nowait(None)
            await sending
        finally:
            sending.cancel()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Pass on notifications until the client or the server ends."""
        opened = await self._embedded.running()
        caller = named(self._caller_of(context))
        found: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        client = LocalClient(
            opened.server,
            _revision(context),
            on_notification=found.put_nowait,
            owner=caller.subject,
        )
        mark = {SUBSCRIPTION_ID_META_KEY: context.request_id}

        async def send() -> None:
            while True:
                message = await found.get()
                params = {**message.get("params", {}), "_meta": mark}
                await _send(context, {**message, "params": params})

        async with client:
            sending = asyncio.create_task(send())
            try:
                with acting(caller), _protocol_errors(), anyio.move_on_after(_left_s(caller)):
                    await client.request("subscriptions/listen", _plain(params))
            finally:
                sending.cancel()
        return types.SubscriptionsListenResult.model_validate({"_meta": mark})

    async def subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify the connection of changes of a resource."""
        opened = await self._embedded.running()
        key = id(context.session.client_params)
        subscriber = opened.subscribers.get(key)
        if subscriber is None:
            subscriber = opened.subscribers[key] = _SdkSubscriber(context.session)
            caller = named(self._caller_of(context))
            subscriber.task = asyncio.create_task(self._follow(opened, key, subscriber, caller))
            if len(opened.subscribers) > MAX_SUBSCRIBERS:
                oldest = next(iter(opened.subscribers.values()))
                if oldest.task is not None:
                    oldest.task.cancel()
        client = await asyncio.shield(subscriber.ready)
        with acting(named(self._caller_of(context))), _protocol_errors():
            await client.request("resources/subscribe", {"uri": params.uri})
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End the notifications of a resource."""
        opened = await self._embedded.running()
        subscriber = opened.subscribers.get(id(context.session.client_params))
        if subscriber is not None:
            client = await asyncio.shield(subscriber.ready)
            with acting(named(self._caller_of(context))), _protocol_errors():
                await client.request("resources/unsubscribe", {"uri": params.uri})
        return types.EmptyResult()

    async def _follow(
        self, opened: _OpenServer, key: int, subscriber: _SdkSubscriber, caller: Caller
    ) -> None:
        """Send what changes until the connection, or the caller's token, ends."""
        client = LocalClient(
            opened.server, on_notification=subscriber.changed.put_nowait, owner=caller.subject
        )
        try:
            with acting(caller), anyio.move_on_after(_left_s(caller)):
                async with client:
                    subscriber.ready.set_result(client)
                    while True:
                        message = await subscriber.changed.get()
                        if message["method"] == "notifications/resources/updated":
                            await subscriber.session.send_resource_updated(message["params"]["uri"])
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, MCPError):
            pass  # the connection has ended
        finally:
            del opened.subscribers[key]
            if not subscriber.ready.done():
                subscriber.ready.set_exception(MCPError(revisions.BUSY, "too many subscribers"))
                subscriber.ready.exception()  # perhaps nobody waits any more


def _revision(context: Context) -> str:
    """Return the revision of a request, or the latest of its era that is known here."""
    version = context.protocol_version
    if version in revisions.MODERN or version in revisions.HANDSHAKE:
        return version
    latest = revisions.LATEST_HANDSHAKE
    return (revisions.LATEST_MODERN if version in MODERN_PROTOCOL_VERSIONS else latest).name


def _plain(params: BaseModel | None) -> dict[str, Any]:
    return (
        {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
    )


def _left_s(caller: Caller) -> float | None:
    return None if caller.expires is None else max(caller.expires - time.time(), 0)


async def _send(context: Context, message: Mapping[str, Any]) -> None:
    found = {"method": message["method"], "params": message.get("params")}
    notification = _NOTIFICATIONS.validate_python(found)
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await context.session.send_notification(notification, context.request_id)


def _ignore(_: Json) -> None:
    pass


@contextmanager
def _protocol_errors() -> Generator[None]:
    """Raise error responses as the SDK's."""
    try:
        yield
    except ErrorReply as error:
        raise MCPError(error.code, str(error), error.data) from None
