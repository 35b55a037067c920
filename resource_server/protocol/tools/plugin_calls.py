"""Calls of a provider's tool: with arguments that fit, within a time, for blocks of its mount."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import ReadItem
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    DeadlineExceeded,
    ResourceServerError,
    ToolFailed,
)
from resource_server.protocol import content_blocks
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import results
from resource_server.protocol.tools.asked import AskedCall
from resource_server.protocol.tools.missing import completed
from resource_server.protocol.tools.registry import Offered
from resource_server.protocol.tools.validation import Arguments
from resource_server.provider import Content
from resource_server.provider.tools import (
    Block,
    EmbeddedBlock,
    LinkBlock,
    MediaBlock,
    SupportsTools,
    TextBlock,
    ToolResult,
)
from resource_server.runtime.eager import settle

DEADLINE_S = 60.0
"""Without the time in which a person is asked."""
MAX_ARGUMENT_BYTES = 256 * 1024
_LARGE = 4096
"""Bytes of arguments; more are checked off the loop."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def call_provided(call: Call, offered: Offered, mount: Mount, raw: bytes) -> Result:
    """Call the tool of a provider.

    Raises:
        ResourceError: the arguments do not fit, or what the provider raises.
    """
    checks = cast("Arguments", offered.arguments)
    arguments = await _arguments(call, offered, checks, raw)
    if mount.problem is not None:
        await mount.start()
    found = await settle(_within(call, offered, mount, arguments))
    if not isinstance(cast("object", found), ToolResult):
        raise ResourceServerError("call_tool() returned no ToolResult")
    structured = None
    if found.structured is not None:
        structured = _encode(found.structured)
        if structured[:1] != b"{":
            raise ResourceServerError("the structured result is no object")
    elif offered.tool.output_schema is not None:
        raise ResourceServerError("a tool with an output schema returned no structured result")
    content = await _content(call, mount, found.content)
    if not content and structured is not None:
        content = [content_blocks.text(structured.decode())]
    return results.result(call, content, structured)


async def _arguments(
    call: Call, offered: Offered, checks: Arguments, raw: bytes
) -> Mapping[str, Any]:
    if len(raw) > MAX_ARGUMENT_BYTES:
        raise ToolFailed(f"Invalid arguments: longer than {MAX_ARGUMENT_BYTES} bytes")
    try:
        arguments: Mapping[str, Any] = _decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolFailed(f"Invalid arguments: {error}") from None
    if call.header is not None:
        checks.mirrored.check(arguments, call.header)
    missing = checks.missing(arguments)
    if missing:
        # Before anybody is asked: their answer would be lost with the call.
        await _check(checks, arguments, len(raw), are_all=False)
        arguments = await completed(call, offered, missing, arguments)
    await _check(checks, arguments, len(raw))
    return arguments


async def _check(
    checks: Arguments, arguments: Mapping[str, Any], size: int, *, are_all: bool = True
) -> None:
    if size <= _LARGE:
        checks.check(arguments, are_all=are_all)
        return
    from anyio import to_thread  # not at every start

    await settle(to_thread.run_sync(partial(checks.check, arguments, are_all=are_all)))


async def _within(
    call: Call, offered: Offered, mount: Mount, arguments: Mapping[str, Any]
) -> ToolResult:
    provider = cast("SupportsTools", mount.tools)
    limit = asyncio.timeout(DEADLINE_S)
    try:
        async with limit:
            asked = AskedCall(call, limit)
            return await settle(provider.call_tool(offered.tool.name, arguments, asked))
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"the tool took longer than {DEADLINE_S:g} s") from None


async def _content(call: Call, mount: Mount, given: Sequence[Block]) -> list[bytes]:
    """Return the blocks of a result; what they embed counts before it is encoded."""
    content: list[bytes] = []
    size = 0
    for block in given:
        content.append(await _block(call, mount, block))
        size += len(content[-1])
        if size > results.MAX_RESULT_BYTES:
            raise ToolFailed(
                f"The result is longer than {results.MAX_RESULT_BYTES} bytes. Ask for less."
            )
    return content


async def _block(call: Call, mount: Mount, block: Block) -> bytes:
    revision = call.revision
    match block:
        case TextBlock(text=str() as words):
            return content_blocks.text(words)
        case MediaBlock(data=bytes() as data, mime_type=str() as mime_type):
            found = content_blocks.media(data, mime_type, revision)
            if found is not None:
                return found
            return content_blocks.text(
                f"[{mime_type}, {len(data)} bytes: not shown by this client]"
            )
        case LinkBlock(path=path):
            return content_blocks.link(
                await call.server.catalog.metadata(mount.uri(path)), revision
            )
        case EmbeddedBlock(path=path, content=content):
            return await _embedded(call, mount.uri(path), content)
    raise ResourceServerError(f"a {type(block).__name__} is no block of a result")


async def _embedded(call: Call, uri: str, content: Content | None) -> bytes:
    catalog = call.server.catalog
    if content is not None:
        # Whether it may be seen is up to its provider, as for all others.
        body = ReadItem(uri, await catalog.metadata(uri), content)
        return content_blocks.document(body, call.revision)
    reading = await catalog.read(uri)
    if reading.collection is not None:
        raise ResourceServerError(f"a collection cannot be embedded: {uris.display(uri)}")
    return content_blocks.document(reading.items[0], call.revision)
