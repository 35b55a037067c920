"""`tools/list` and `tools/call`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import msgspec

from resource_server.catalog.mount import FAILURES
from resource_server.protocol import params, revisions, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.tools import (
    builtin,
    describing,
    listing,
    reading,
    results,
    searching,
)
from resource_server.protocol.tools.plugin_calls import call_provided
from resource_server.protocol.tools.registry import Offered
from resource_server.runtime.eager import is_cancelled

_Handler: TypeAlias = Callable[[Call, Any], Coroutine[Any, Any, Result]]
_decoder = msgspec.json.Decoder
_encode = msgspec.json.Encoder().encode

_FIXED: Mapping[str, tuple[Callable[[bytes], Any], _Handler]] = {
    builtin.LIST: (_decoder(listing.Asked).decode, listing.list_resources),
    builtin.READ: (_decoder(reading.Asked).decode, reading.read_resource),
    builtin.METADATA: (_decoder(describing.Asked).decode, describing.resource_metadata),
    builtin.SEARCH: (_decoder(searching.Asked).decode, searching.search_resources),
}


async def list_tools(call: Call, asked: params.ListTools) -> Result:
    """Answer `tools/list`."""
    page = await call.server.toolbox.page(asked.cursor)
    told = [each.definition(call.revision) for each in page.tools]
    members = b'"tools":[' + b",".join(told) + b"]"
    if page.next_cursor is not None:
        members += b',"nextCursor":' + _encode(page.next_cursor)
    meta = {serialization.META_UNAVAILABLE: page.unavailable} if page.unavailable else None
    return Result(members, meta, ttl_ms=call.server.ttl_ms)


async def call_tool(call: Call, asked: params.CallTool) -> Result:
    """Answer `tools/call`; what goes wrong in the tool is a result, for the model to read."""
    raw = bytes(asked.arguments)
    if raw[:1] != b"{":
        reason = "Expected `object` - at `$.arguments`"
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")
    offered = await call.server.toolbox.find(asked.name)
    wait = call.server.tool_rates.take(call.owner)
    if wait:
        return results.failed(f"Too many calls at once. Wait {wait:.1f} s, then call again.")
    try:
        return await _called(call, offered, raw)
    except Fault:
        raise
    except (*FAILURES, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        return results.failure(call, error, _uri(raw))


async def _called(call: Call, offered: Offered, raw: bytes) -> Result:
    if offered.mount is not None:
        return await call_provided(call, offered, offered.mount, raw)
    decode, handle = _FIXED[offered.tool.name]
    try:
        arguments = decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return results.failed(f"Invalid arguments: {error}")
    return await handle(call, arguments)


class _About(msgspec.Struct):
    uri: str | None = None


_decode_about = _decoder(_About).decode


def _uri(raw: bytes) -> str | None:
    """Return what a call is about, where that is a resource."""
    try:
        return _decode_about(raw).uri
    except (msgspec.DecodeError, RecursionError):
        return None
