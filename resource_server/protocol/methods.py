"""The handlers of all methods: parameters in, the members of a result out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec

from resource_server import uris
from resource_server.catalog.global_listing import ListPage
from resource_server.catalog.near_resources import near_resources
from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceServerError,
    ResourceUnreadable,
)
from resource_server.protocol import params, revisions, serialization
from resource_server.protocol.call import Call, Handler, Result, interactive
from resource_server.protocol.error_mapping import method_not_found
from resource_server.protocol.prompts.argument_completion import complete
from resource_server.protocol.prompts.listing import list_prompts, prompt_named
from resource_server.protocol.prompts.rendering import get_prompt
from resource_server.protocol.tools.handlers import call_tool, list_tools
from resource_server.subscriptions.snapshot import ABSENT

MAX_LISTEN_ID_CHARACTERS = 1024
"""Maximum characters of the id of a listen, which is stored until the listen ends."""

_encode = msgspec.json.Encoder().encode


async def _discover(call: Call, _: params.RequestParams) -> Result:
    versions = b'"supportedVersions":' + _encode(list(revisions.MODERN))
    return Result(versions + b"," + _description(call), ttl_ms=0)


async def _initialize(call: Call, _: params.InitializeParams) -> Result:
    version = b'"protocolVersion":' + _encode(call.revision.name)
    info = b',"serverInfo":' + _encode(call.server.info) + b","
    return Result(version + info + _description(call))


def _description(call: Call) -> bytes:
    """Return the capabilities and instructions of the server."""
    capabilities = call.server.capabilities(call.revision)
    members = b'"capabilities":' + _encode(capabilities)
    if call.server.instructions:
        members += b',"instructions":' + _encode(call.server.instructions)
    return members


async def _empty(_call: Call, _params: params.RequestParams) -> Result:
    return Result()


async def _list(call: Call, given: params.ListResourcesParams) -> Result:
    page = await call.server.catalog.list(given.uri, given.cursor, call.progress)
    meta: dict[str, Any] = {}
    if page.unavailable:
        meta[serialization.META_UNAVAILABLE] = page.unavailable
        call.server.broker.note_unlisted(page.failed)
    if (listed := page.left_out_after) is not None:
        meta[serialization.META_TRUNCATED] = {"returned": listed, "more": True}
    # A widely used client caches listings under a key without `uri`, so never let it.
    return Result(_resources(page), meta or None, ttl_ms=0)


def _resources(page: ListPage) -> bytes:
    if page.left_out_after is None:
        resources = serialization.resources(page.entries)
    else:
        resources = serialization.resources(page.entries[:-1])
        noted = partial(serialization.last_listed, listed=page.left_out_after)
        resources += serialization.each(noted, page.entries[-1:])
    return b'"resources":[%b]%b' % (b",".join(resources), _next_cursor(page.next_cursor))


async def _read_directory(call: Call, given: params.DirectoryParams) -> Result:
    try:
        page = await call.server.catalog.list(given.uri, given.cursor, call.progress)
    except (ResourceNotFound, NotACollection):
        # One code in every revision (SEP-2640).
        raise InvalidParameter("no directory is served at this URI") from None
    return Result(_resources(page), ttl_ms=0)


async def _list_skills(call: Call, given: params.PageParams) -> Result:
    page = await call.server.catalog.skills(given.cursor)
    skills = serialization.each(serialization.skill, page.entries)
    members = b'"skills":[' + b",".join(skills) + b"]" + _next_cursor(page.next_cursor)
    meta = {serialization.META_UNAVAILABLE: page.unavailable} if page.unavailable else None
    return Result(members, meta, ttl_ms=call.server.ttl_ms)


async def _get_skill(call: Call, given: params.UriParams) -> Result:
    try:
        entry = await call.server.catalog.skill(given.uri)
    except ResourceNotFound:
        raise InvalidParameter("no skill is served at this URI") from None
    return Result(b'"skill":' + serialization.skill(entry), ttl_ms=call.server.ttl_ms)


async def _list_templates(call: Call, given: params.PageParams) -> Result:
    page = await call.server.catalog.templates(given.cursor)
    shapes = b",".join(serialization.each(serialization.wire_template, page.templates))
    members = b'"resourceTemplates":[' + shapes + b"]" + _next_cursor(page.next_cursor)
    return Result(members, ttl_ms=call.server.ttl_ms)


def _next_cursor(cursor: str | None) -> bytes:
    return b"" if cursor is None else b',"nextCursor":' + _encode(cursor)


async def _read(call: Call, given: params.ReadResourceParams) -> Result:
    try:
        reading = await call.server.catalog.read(given.uri, call.progress)
    except ResourceNotFound as error:
        with suppress(ResourceNotFound):
            mount, path, _ = call.server.catalog.route(given.uri)
            call.subscriber().given(uris.join(mount.base, path), ABSENT)
        await _suggest(call, given.uri, error)
        raise
    items = reading.items
    if not items and reading.itself is not None:
        items = [reading.itself]  # hosts take a read without contents for a missing resource
    contents = serialization.each(serialization.body, items)
    call.note_read(reading)
    if items and not contents:
        raise ResourceServerError("nothing of this read can be sent")
    members = b'"contents":[' + b",".join(contents) + b"]"
    meta = None
    if not reading.complete:
        meta = {serialization.META_TRUNCATED: serialization.partial(reading)}
    return Result(members, meta, ttl_ms=call.server.ttl_ms)


async def _metadata(call: Call, given: params.UriParams) -> Result:
    entry = await call.server.catalog.metadata(given.uri)
    return Result(b'"resource":' + serialization.resource(entry), ttl_ms=call.server.ttl_ms)


async def _complete(call: Call, given: params.CompleteParams) -> Result:
    others = (given.context.arguments if given.context else None) or {}
    name, value = given.argument.name, given.argument.value
    catalog = call.server.catalog
    if isinstance(given.ref, params.PromptReference):
        prompt = prompt_named(call.server, given.ref.name)
        completion = await complete(catalog, prompt, name, value, others)
    else:
        completion = await catalog.complete(given.ref.uri, name, value, others)
    has_more = completion.total > len(completion.values)
    members = {"values": completion.values, "total": completion.total, "hasMore": has_more}
    return Result(b'"completion":' + _encode(members))


async def _subscribe(call: Call, given: params.UriParams) -> Result:
    own = call.subscriber().own
    is_new = given.uri not in own.uris
    await own.subscribe(given.uri)
    if own.shared is not None:
        try:
            await own.shared.subscribed(given.uri)
        except ResourceBusy:
            if is_new:
                own.unsubscribe(given.uri)
            raise
    return Result()


async def _unsubscribe(call: Call, given: params.UriParams) -> Result:
    own = call.subscriber().own
    if own.shared is not None:
        await own.shared.unsubscribed(given.uri)
    own.unsubscribe(given.uri)
    return Result()


async def _listen(call: Call, given: params.ListenParams) -> Result:
    if isinstance(call.id, str) and len(call.id) > MAX_LISTEN_ID_CHARACTERS:
        raise InvalidParameter(
            f"the id of a listen has at most {MAX_LISTEN_ID_CHARACTERS} characters"
        )
    wanted = given.notifications
    meta = {revisions.SUBSCRIPTION_ID: call.id}
    stream = call.subscriber().stream(call.notify, b'"_meta":' + _encode(meta))
    honoured: dict[str, Any] = {}
    try:
        if wanted.resources_list_changed and call.server.notifies_list_changes:
            stream.follow_list()
            honoured["resourcesListChanged"] = True
        if (
            wanted.tools_list_changed
            and call.server.reloads
            and call.server.toolbox.settings.enabled
        ):
            stream.follow_list("tools")
            honoured["toolsListChanged"] = True
        if wanted.prompts_list_changed and call.server.reloads:
            stream.follow_list("prompts")
            honoured["promptsListChanged"] = True
        if wanted.resource_subscriptions:
            seen = await stream.subscribe_all(wanted.resource_subscriptions)
            honoured["resourceSubscriptions"] = seen
            if call.record is not None:
                call.record.subscribed(seen)
    except BaseException:
        stream.close()
        raise
    stream.notify("subscriptions/acknowledged", b'"notifications":' + _encode(honoured))
    stream.open()
    return Result(meta=meta, stream=stream)


def _of(capability: Literal["prompts", "tools"], method: str, handler: Handler) -> Handler:
    """Return the handler of a method that does not exist without its capability (2026-07-28)."""

    async def handle(call: Call, given: Any) -> Result:
        if call.revision.modern and not call.server.has(capability):
            raise method_not_found(method)
        return await handler(call, given)

    return handle


def _suggesting(handler: Handler) -> Handler:
    """Return the handler of a method whose error names resources similar to a missing one."""

    async def handle(call: Call, given: Any) -> Result:
        try:
            return await handler(call, given)
        except ResourceNotFound as error:
            await _suggest(call, given.uri, error)
            raise

    return handle


async def _suggest(call: Call, uri: str | None, error: ResourceNotFound) -> None:
    if uri is not None and not isinstance(error, ResourceUnreadable):
        error.suggestions = await near_resources(call.server.catalog, uri)


METHODS: Mapping[str, Handler] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": _empty,
    "logging/setLevel": _empty,
    "resources/list": _suggesting(_list),
    "resources/read": _read,
    "resources/metadata": _suggesting(_metadata),
    "resources/directory/read": _suggesting(_read_directory),
    "resources/templates/list": _list_templates,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "skills/list": _list_skills,
    "skills/get": _get_skill,
    "prompts/list": _of("prompts", "prompts/list", list_prompts),
    "prompts/get": _of("prompts", "prompts/get", interactive(get_prompt)),
    "subscriptions/listen": _listen,
    "completion/complete": _complete,
    "tools/list": _of("tools", "tools/list", list_tools),
    "tools/call": _of("tools", "tools/call", interactive(call_tool)),
}
