"""The methods: parameters in, members of the result out. The catalog does the work."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter, ResourceNotFound, ResourceServerError
from resource_server.protocol import params, revisions, serialization
from resource_server.protocol.call import Call, Handler, Result, interactive
from resource_server.protocol.prompts.argument_completion import complete
from resource_server.protocol.prompts.listing import list_prompts, prompt_named
from resource_server.protocol.prompts.messages import get_prompt
from resource_server.protocol.tools.handlers import call_tool, list_tools
from resource_server.subscriptions.snapshot import ABSENT

MAX_LISTEN_ID = 1024
"""Characters: it is kept for as long as the listen lasts."""

_encode = msgspec.json.Encoder().encode


async def _discover(call: Call, _: params.RequestParams) -> Result:
    supported = _encode(list(revisions.MODERN))
    described = b'"supportedVersions":' + supported + b"," + _described(call)
    return Result(described, ttl_ms=0)


async def _initialize(call: Call, _: params.Initialize) -> Result:
    chosen = b'"protocolVersion":' + _encode(call.revision.name)
    info = b',"serverInfo":' + _encode(call.server.info) + b","
    return Result(chosen + info + _described(call))


def _described(call: Call) -> bytes:
    capabilities = call.server.capabilities(completions=call.revision.completions_capability)
    members = b'"capabilities":' + _encode(capabilities)
    if call.server.instructions:
        members += b',"instructions":' + _encode(call.server.instructions)
    return members


async def _nothing(_call: Call, _params: params.RequestParams) -> Result:
    return Result()


async def _list(call: Call, asked: params.ListResources) -> Result:
    page = await call.server.catalog.list(asked.uri, asked.cursor, call.progress)
    members = (
        b'"resources":['
        + b",".join(serialization.each(serialization.resource, page.entries))
        + b"]"
    )
    meta = {serialization.META_UNAVAILABLE: page.unavailable} if page.unavailable else None
    # Always 0: a widely used client caches listings under a key that ignores `uri`.
    return Result(members + _next_cursor(page.next_cursor), meta, ttl_ms=0)


async def _list_templates(call: Call, asked: params.ListTemplates) -> Result:
    page = await call.server.catalog.templates(asked.cursor)
    shapes = b",".join(serialization.each(serialization.template, page.templates))
    members = b'"resourceTemplates":[' + shapes + b"]" + _next_cursor(page.next_cursor)
    return Result(members, ttl_ms=call.server.ttl_ms)


def _next_cursor(cursor: str | None) -> bytes:
    return b"" if cursor is None else b',"nextCursor":' + _encode(cursor)


async def _read(call: Call, asked: params.ReadResource) -> Result:
    try:
        reading = await call.server.catalog.read(asked.uri, call.progress)
    except ResourceNotFound:
        with suppress(ResourceNotFound):
            mount, path, _ = call.server.catalog.route(asked.uri)
            call.subscriber.given(uris.join(mount.base, path), ABSENT)
        raise
    contents = serialization.each(serialization.body, reading.items)
    call.subscriber.read(reading)
    if reading.items and not contents:
        raise ResourceServerError("nothing of this read can be sent")
    members = b'"contents":[' + b",".join(contents) + b"]"
    meta = None
    if not reading.complete:
        meta = {serialization.META_TRUNCATED: {"returned": len(reading.items), "more": True}}
    return Result(members, meta, ttl_ms=call.server.ttl_ms)


async def _metadata(call: Call, asked: params.ResourceMetadata) -> Result:
    entry = await call.server.catalog.metadata(asked.uri)
    return Result(b'"resource":' + serialization.resource(entry), ttl_ms=call.server.ttl_ms)


async def _complete(call: Call, asked: params.Complete) -> Result:
    given = (asked.context.arguments if asked.context else None) or {}
    name, value = asked.argument.name, asked.argument.value
    catalog = call.server.catalog
    if isinstance(asked.ref, params.PromptReference):
        prompt = prompt_named(call.server, asked.ref.name)
        completion = await complete(catalog, prompt, name, value, given)
    else:
        completion = await catalog.complete(asked.ref.uri, name, value, given)
    more = completion.total > len(completion.values)
    found = {"values": completion.values, "total": completion.total, "hasMore": more}
    return Result(b'"completion":' + _encode(found))


async def _subscribe(call: Call, asked: params.Subscribe) -> Result:
    await call.subscriber.own.subscribe(asked.uri)
    return Result()


async def _unsubscribe(call: Call, asked: params.Subscribe) -> Result:
    call.subscriber.own.unsubscribe(asked.uri)
    return Result()


async def _listen(call: Call, asked: params.Listen) -> Result:
    if isinstance(call.id, str) and len(call.id) > MAX_LISTEN_ID:
        raise InvalidParameter(f"the id of a listen has at most {MAX_LISTEN_ID} characters")
    wanted = asked.notifications
    meta = {revisions.SUBSCRIPTION_ID: call.id}
    stream = call.subscriber.stream(call.notify, b'"_meta":' + _encode(meta))
    honoured: dict[str, Any] = {}
    try:
        if wanted.resources_list_changed and call.server.tells_list_changes:
            stream.follow_list()
            honoured["resourcesListChanged"] = True
        if wanted.tools_list_changed and call.server.reloads and call.server.toolbox.offer.enabled:
            stream.follow_list("tools")
            honoured["toolsListChanged"] = True
        if wanted.prompts_list_changed and call.server.reloads:
            stream.follow_list("prompts")
            honoured["promptsListChanged"] = True
        if wanted.resource_subscriptions:
            seen = await stream.subscribe_all(wanted.resource_subscriptions)
            honoured["resourceSubscriptions"] = seen
    except BaseException:
        stream.close()
        raise
    stream.notify("subscriptions/acknowledged", b'"notifications":' + _encode(honoured))
    stream.open()
    return Result(meta=meta, stream=stream)


METHODS: Mapping[str, Handler] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": _nothing,
    "logging/setLevel": _nothing,
    "resources/list": _list,
    "resources/read": _read,
    "resources/metadata": _metadata,
    "resources/templates/list": _list_templates,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "subscriptions/listen": _listen,
    "completion/complete": _complete,
    "tools/list": list_tools,
    "tools/call": interactive(call_tool),
}
