"""Handlers of `tools/list` and `tools/call`, and the built-in tools: those of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog.mount import CatalogEntry
from resource_server.catalog.near_resources import meant_uri, near_resources
from resource_server.errors import ResourceNotFound
from resource_server.protocol import content_blocks, params, revisions, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.serialization import META_DETAILS
from resource_server.protocol.tools import builtin_schemas
from resource_server.protocol.tools.budget import characters
from resource_server.protocol.tools.plugin_calls import call_plugin_tool
from resource_server.protocol.tools.resource_listing import ListArguments, list_resources
from resource_server.protocol.tools.resource_reading import ReadArguments, read_resource
from resource_server.protocol.tools.resource_search import SearchArguments, search_resources
from resource_server.protocol.tools.results import error_result, failure_result, tool_result
from resource_server.protocol.tools.table_query import TableQueryArguments, query_table
from resource_server.provider.tools import Tool
from resource_server.runtime.near_name import did_you_mean

_MAX_NAME_CHARACTERS = 64

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


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
            return await _call_builtin(call, offered.tool, raw_arguments)
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


class _UriArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `resource_metadata`."""

    uri: str


async def _resource_metadata(call: Call, arguments: _UriArguments) -> Result:
    """Describe a resource without reading it; what is over the budget is left out."""
    described = _description(await call.server.catalog.metadata(arguments.uri))
    resource = _encode(described)
    for member in ("details", "description"):
        is_too_long = characters(resource) > call.server.toolbox.settings.budget
        if is_too_long and member in described:
            described[member] = "[Truncated: too long for a tool]"
            resource = _encode(described)
    text = content_blocks.text_block(resource.decode())
    return tool_result(call, [text], b'{"resource":%b}' % resource)


def _description(entry: CatalogEntry) -> dict[str, Any]:
    """Return the protocol's facts about a resource, each once."""
    wire: dict[str, Any] = _decode(serialization.resource(entry))
    meta = wire.pop("_meta")
    uri, kind = wire.pop("uri"), wire.pop("resourceType")
    described = {"uri": uri, "type": kind, **wire, **wire.get("annotations", {})}
    for repeated in ("capabilities", "annotations"):
        described.pop(repeated, None)
    if described["name"] == uris.unquote_path(uri.rpartition("/")[2]):
        del described["name"]
    for key, member in ((serialization.META_VERSION, "version"), (META_DETAILS, "details")):
        if key in meta:
            described[member] = meta[key]
    if entry.resource.formats:
        described["formats"] = [each.name for each in entry.resource.formats]
    return described


_Handler: TypeAlias = Callable[[Call, Any], Coroutine[Any, Any, Result]]
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_HANDLERS: Mapping[str, tuple[type[msgspec.Struct], _Handler]] = {
    builtin_schemas.LIST: (ListArguments, list_resources),
    builtin_schemas.READ: (ReadArguments, read_resource),
    builtin_schemas.METADATA: (_UriArguments, _resource_metadata),
    builtin_schemas.SEARCH: (SearchArguments, search_resources),
    builtin_schemas.QUERY_TABLE: (TableQueryArguments, query_table),
}
_DECODERS = {name: msgspec.json.Decoder(shape) for name, (shape, _) in _HANDLERS.items()}


async def _call_builtin(call: Call, tool: Tool, raw_arguments: bytes) -> Result:
    """Call a built-in tool.

    Raises:
        ResourceError: as the catalog does.
    """
    try:
        arguments = _DECODERS[tool.name].decode(raw_arguments)
    except UNPARSABLE as error:
        return error_result(f"Invalid arguments: {_problem(tool, raw_arguments) or error}")
    handler, uri = _HANDLERS[tool.name][1], getattr(arguments, "uri", None)
    try:
        return await handler(call, arguments)
    except ResourceNotFound as error:
        if type(error) is not ResourceNotFound or not uri:
            raise
        meant = await meant_uri(call.server.catalog, uri)
        if meant is None:
            raise
    try:
        return await handler(call, msgspec.structs.replace(arguments, uri=meant))
    except ResourceNotFound as error:  # listed but not readable: nothing else was meant
        return failure_result(call, error, meant)


def _problem(tool: Tool, raw_arguments: bytes) -> str | None:
    """Return what is wrong with the names of arguments, if anything is."""
    with suppress(*UNPARSABLE):
        given = _decode_names(raw_arguments)
        shape, known = _HANDLERS[tool.name][0], [*tool.input_schema["properties"]]
        taken = {field.encode_name for field in msgspec.structs.fields(shape)}
        for name in given:
            if name not in taken:
                near = did_you_mean(name, known)
                shown = uris.display(name[:_MAX_NAME_CHARACTERS])
                return f"unknown argument {shown!r}{near}; known: {', '.join(known)}"
    return None
