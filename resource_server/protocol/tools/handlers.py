"""Handlers of `tools/list` and `tools/call`."""

from __future__ import annotations

import msgspec

from resource_server.catalog.near_resources import near_resources
from resource_server.errors import ResourceNotFound
from resource_server.protocol import params, revisions, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.tools.builtin import call_builtin
from resource_server.protocol.tools.plugin_calls import call_plugin_tool
from resource_server.protocol.tools.results import error_result, failure_result

_encode = msgspec.json.Encoder().encode


async def list_tools(call: Call, given: params.PageParams) -> Result:
    """Answer `tools/list`."""
    page = await call.server.toolbox.page(given.cursor)
    definitions = [each.definition(call.revision) for each in page.tools]
    members = b'"tools":[' + b",".join(definitions) + b"]"
    if page.next_cursor is not None:
        members += b',"nextCursor":' + _encode(page.next_cursor)
    meta = {serialization.META_UNAVAILABLE: page.unavailable} if page.unavailable else None
    return Result(members, meta, ttl_ms=call.server.ttl_ms)


async def call_tool(call: Call, given: params.CallToolParams) -> Result:
    """Answer `tools/call`; a failed tool is a result too, for the model to read."""
    raw_arguments = bytes(given.arguments)
    if raw_arguments[:1] != b"{":
        reason = "Expected `object` - at `$.arguments`"
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")
    offered = await call.server.toolbox.find(given.name)
    wait_s = call.server.tool_rates.take(call.owner)
    if wait_s:
        return error_result(f"Too many calls. Wait {max(wait_s, 0.1):.1f} s, then call again.")
    try:
        if offered.mount is None:
            return await call_builtin(call, offered.tool, raw_arguments)
        return await call_plugin_tool(call, offered, offered.mount, raw_arguments)
    except Fault:
        raise
    except Exception as error:
        uri = _uri(raw_arguments)
        if type(error) is ResourceNotFound and uri is not None:
            error.suggestions = await near_resources(call.server.catalog, uri, elsewhere=True)
        return failure_result(call, error, uri)


class _UriArgument(msgspec.Struct):
    uri: str | None = None


_decode_uri = msgspec.json.Decoder(_UriArgument).decode


def _uri(raw_arguments: bytes) -> str | None:
    """Return the URI that a call is about, if it names one."""
    try:
        return _decode_uri(raw_arguments).uri
    except UNPARSABLE:
        return None
