"""The built-in tools: list, read, describe and search the catalog."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog.federated_search import SearchHit, SearchResults
from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.tools import builtin_schemas
from resource_server.protocol.tools.resource_listing import ListArguments, list_resources
from resource_server.protocol.tools.resource_reading import ReadArguments, read_resource
from resource_server.protocol.tools.results import error_result, tool_result
from resource_server.provider.search import Where
from resource_server.provider.tools import Tool
from resource_server.runtime.near_name import did_you_mean

_SEARCHED: dict[Where, str] = {"names": "by name", "text": "in text"}
_MAX_NAME_CHARACTERS = 64

_encode = msgspec.json.Encoder().encode


class UriArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `resource_metadata`."""

    uri: str


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `search_resources`."""

    query: str
    uri: str | None = None
    where: Literal["names", "text"] | None = msgspec.field(default=None, name="in")
    cursor: str | None = None


# -- describe


async def resource_metadata(call: Call, arguments: UriArguments) -> Result:
    """Describe a resource without reading it."""
    resource = serialization.resource(await call.server.catalog.metadata(arguments.uri))
    return tool_result(
        call, [content_blocks.text_block(resource.decode())], b'{"resource":%b}' % resource
    )


# -- search


async def search_resources(call: Call, arguments: SearchArguments) -> Result:
    """Find resources by name or by lines of their text."""
    page = await call.server.catalog.search(
        arguments.query,
        uri=arguments.uri or None,
        where=arguments.where or None,
        after=arguments.cursor or None,
        progress=call.progress,
    )
    hits = [each for each in page.hits if serialization.each(serialization.resource, [each.entry])]
    content = [content_blocks.text_block(_search_text(hits, page))]
    if call.revision.titles:
        # A resource found both by name and in its text is two hits.
        found_once = {hit.entry.uri: hit.entry for hit in hits}.values()
        content += [content_blocks.link_block(entry, call.revision) for entry in found_once]
    facts: dict[str, Any] = {"stopped": page.stopped, "lookedAt": page.looked_at}
    if page.total is not None:
        facts["total"] = page.total
    if page.skipped:
        facts["skipped"] = page.skipped
    if page.next_cursor is not None:
        facts["nextCursor"] = page.next_cursor
    if page.unavailable:
        facts["unavailable"] = page.unavailable
    structured = b'{"hits":[' + b",".join(map(_hit, hits)) + b"]," + _encode(facts)[1:]
    return tool_result(call, content, structured)


def _hit(hit: SearchHit) -> bytes:
    members = b'{"resource":' + serialization.resource(hit.entry)
    if hit.lines:
        lines = [{"number": each.number, "text": uris.display(each.text)} for each in hit.lines]
        members += b',"lines":' + _encode(lines)
    if hit.has_more_lines:
        members += b',"moreLines":true'
    return members + b"}"


def _search_text(hits: Sequence[SearchHit], page: SearchResults) -> str:
    """Return each URI with its matching lines, and what was not searched."""
    lines: list[str] = []
    for hit in hits:
        lines.append(hit.entry.uri)
        lines += [f"  {line.number}: {uris.display(line.text)}" for line in hit.lines]
        if hit.has_more_lines:
            lines.append(f"  more lines match than these {len(hit.lines)}")
    if not hits:
        lines.append("Nothing was found." if page.next_cursor is None else "Nothing yet.")
    if page.stopped:
        total = "" if page.total is None else f" of {page.total}"
        lines.append(f"Stopped after {page.looked_at}{total} resources {_SEARCHED[page.where]}.")
    if page.skipped:
        lines.append(f"Not searched, as too large, not readable or not text: {page.skipped}")
    if left_out := len(page.hits) - len(hits):
        lines.append(f"Left out, as they cannot be sent: {left_out}")
    if page.next_cursor is not None:
        lines.append(f"There may be more: call again with cursor={page.next_cursor}")
    if page.unavailable:
        lines.append(f"Could not be searched: {', '.join(page.unavailable)}")
    return "\n".join(lines)


# -- calls

_Handler: TypeAlias = Callable[[Call, Any], Coroutine[Any, Any, Result]]
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_HANDLERS: Mapping[str, tuple[type[msgspec.Struct], _Handler]] = {
    builtin_schemas.LIST: (ListArguments, list_resources),
    builtin_schemas.READ: (ReadArguments, read_resource),
    builtin_schemas.METADATA: (UriArguments, resource_metadata),
    builtin_schemas.SEARCH: (SearchArguments, search_resources),
}
_DECODERS = {name: msgspec.json.Decoder(shape) for name, (shape, _) in _HANDLERS.items()}


async def call_builtin(call: Call, tool: Tool, raw_arguments: bytes) -> Result:
    """Call a built-in tool.

    Raises:
        ResourceError: as the catalog does.
    """
    try:
        arguments = _DECODERS[tool.name].decode(raw_arguments)
    except UNPARSABLE as error:
        return error_result(f"Invalid arguments: {_problem(tool, raw_arguments) or error}")
    return await _HANDLERS[tool.name][1](call, arguments)


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
