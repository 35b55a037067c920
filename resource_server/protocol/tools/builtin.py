"""The built-in tools: list, read, describe and search the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import (
    Catalog,
    CatalogEntry,
    Progress,
    ReadItem,
    ReadResult,
    content_size,
)
from resource_server.catalog.federated_search import SearchHit, SearchResults
from resource_server.errors import InvalidParameter, ResourceServerError, ResourceTooLarge
from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.tools import builtin_schemas
from resource_server.protocol.tools.resource_listing import ListArguments, list_resources
from resource_server.protocol.tools.results import error_result, tool_result
from resource_server.provider import Content, Truncation
from resource_server.provider.search import Where

_SEARCHED: dict[Where, str] = {"names": "by name", "text": "in text"}
_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{0,15})")

_encode = msgspec.json.Encoder().encode


class UriArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `read_resource` and `resource_metadata`."""

    uri: str


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `search_resources`."""

    query: str
    uri: str | None = None
    where: Literal["names", "text"] | None = msgspec.field(default=None, name="in")
    cursor: str | None = None


# -- read


def _table(entries: Sequence[CatalogEntry]) -> str:
    """Return a line with the type, size, URI and title of each resource."""
    return "\n".join(["type size uri", *map(_row, entries)])


def _row(entry: CatalogEntry) -> str:
    resource = entry.resource
    size = "-" if resource.size is None else str(resource.size)
    row = f"{resource.type} {size} {entry.uri}"
    if resource.title is None:
        return row
    return f"{row} {' '.join(uris.display(resource.title).split())}"


async def read_resource(call: Call, arguments: UriArguments) -> Result:
    """Read a resource, or an excerpt of one that is too long for a model."""
    limit = call.server.limits.tool_text_bytes
    reading = await _read_excerpt(call.server.catalog, arguments.uri, limit, call.progress)
    call.subscriber.read(reading)
    contents = serialization.each(_structured_content, reading.items)
    if reading.items and not contents:
        raise ResourceServerError("nothing of this read can be sent")
    truncated = _truncated(reading)
    content = _child_blocks(call, reading) if reading.collection else _document(call, reading)
    structured = b'"contents":[' + b",".join(contents) + b"]"
    if truncated is not None:
        content.append(content_blocks.text_block(_truncation_notice(truncated, reading)))
        structured += b',"truncated":' + _encode(truncated)
    return tool_result(call, content, b"{%b}" % structured)


def _structured_content(body: ReadItem) -> bytes:
    """Return one item of the structured result, with its text for hosts that read only text."""
    if body.content is None:
        return serialization.resource(body.entry)
    if isinstance(body.content.data, str):
        return serialization.body(body)
    return serialization.head(body, body.content)


def _document(call: Call, reading: ReadResult) -> list[bytes]:
    content: list[bytes] = []
    for body in reading.items:
        if body.content is not None and isinstance(body.content.data, str):
            content.append(content_blocks.text_block(body.content.data))
        elif (size := content_size(body.content)) > call.server.limits.tool_media_bytes:
            content.append(
                content_blocks.text_block(f"[{size} bytes, too long to be shown by a tool]")
            )
        else:
            content += serialization.each(
                lambda item: content_blocks.document_block(item, call.revision), [body]
            )
    return content


def _child_blocks(call: Call, reading: ReadResult) -> list[bytes]:
    """Return a table of the children that were read, then each document among them."""
    entries = [body.entry for body in reading.items]
    text = _table(entries)
    if not entries:
        text = "There is nothing in this collection."
        if reading.children:
            text = "Nothing in this collection can be read here."
    documents = [body for body in reading.items if body.content is not None]
    encoded = serialization.each(
        lambda item: content_blocks.document_block(item, call.revision), documents
    )
    return [content_blocks.text_block(text), *encoded]


def _truncated(reading: ReadResult) -> dict[str, Any] | None:
    """Return a note on the truncated parts of a read; None if it is complete."""
    if not reading.complete:
        return serialization.partial(reading)
    if reading.collection is not None:
        return None  # each child describes its own truncation
    for body in reading.items:
        if body.content is not None and body.content.truncated is not None:
            return serialization.truncated(body.content.truncated, body.next_uri)
    return None


def _truncation_notice(truncated: dict[str, Any], reading: ReadResult) -> str:
    if reading.collection is not None:
        uri = uris.display(reading.collection)
        total = f" of {truncated['total']}" if "total" in truncated else ""
        read = f"{truncated['returned']}{total} children were read"
        return f"Not all of it: {read}. List them: uri={uri}"
    total = f" of {truncated['total']} {truncated['unit']}" if "total" in truncated else ""
    if "next" in truncated:
        return f"This is a part{total}. Read on: uri={truncated['next']}"
    return f"This is a part{total}; the end of what can be read this way."


# -- excerpts


async def _read_excerpt(
    catalog: Catalog, uri: str, limit: int, progress: Progress | None
) -> ReadResult:
    """Read a resource; of a document with more than `limit` bytes, only its beginning.

    Images and sounds are never shortened.

    Raises:
        ResourceError: as `Catalog.read`.
    """
    try:
        reading = await catalog.read(uri, progress)
    except ResourceTooLarge:
        excerpt = await _read_range(catalog, uri, limit, progress)
        if excerpt is None:
            raise
        return excerpt
    if reading.collection is not None or not any(_is_long(body, limit) for body in reading.items):
        return reading
    excerpt = await _read_range(catalog, uri, limit, progress)
    if excerpt is not None and not any(_is_long(body, limit) for body in excerpt.items):
        return excerpt
    query = catalog.route(uri)[2]
    bodies = [
        _shortened(body, query, limit) if _is_long(body, limit) else body for body in reading.items
    ]
    return msgspec.structs.replace(reading, items=bodies)


def _is_long(body: ReadItem, limit: int) -> bool:
    content = body.content
    if content is None or content_size(content) <= limit:
        return False
    mime_type = content.mime_type or body.entry.resource.mime_type or ""
    return isinstance(content.data, str) or not mime_type.startswith(("image/", "audio/"))


async def _read_range(
    catalog: Catalog, uri: str, limit: int, progress: Progress | None
) -> ReadResult | None:
    """Read the first bytes that `uri` addresses; None if it takes no byte range."""
    query = catalog.route(uri)[2]
    if set(query) - {"bytes"}:
        return None
    given = _RANGE.fullmatch(query.get("bytes", "0-"))
    if given is None:
        return None
    first = int(given[1])
    part = {"bytes": f"{first}-{first + limit - 1}"}
    with suppress(InvalidParameter):
        reading = await catalog.read(uris.with_query(uri.partition("?")[0], part), progress)
        bodies = [_as_part_of(uri, body) for body in reading.items]
        return msgspec.structs.replace(reading, items=bodies)
    return None


def _as_part_of(uri: str, body: ReadItem) -> ReadItem:
    """Return a range as the truncated content of the requested URI."""
    content = body.content
    if content is None or content.truncated is None:
        return body
    truncated = msgspec.structs.replace(content.truncated, reason="limit")
    return msgspec.structs.replace(
        body, uri=uri, content=msgspec.structs.replace(content, truncated=truncated)
    )


def _shortened(body: ReadItem, query: Mapping[str, str], limit: int) -> ReadItem:
    """Return the beginning of a content; text ends with a whole line.

    Text that was requested by lines names the lines that follow.
    """
    content = body.content
    if content is None:
        return body
    if isinstance(content.data, bytes):
        truncated = Truncation("limit", "bytes", len(content.data))
        beginning = Content(content.data[:limit], content.mime_type, truncated)
        return ReadItem(body.uri, body.entry, beginning)
    whole = content.data.encode("utf-8", "surrogatepass")
    text = whole[:limit].decode("utf-8", "ignore")
    end = text.rfind("\n") + 1
    lines = _RANGE.fullmatch(query.get("lines", "")) if set(query) == {"lines"} else None
    text = text[:end] if end else text
    truncated = Truncation("limit", "bytes", len(whole))
    next_uri = None
    if lines is not None and end:
        first = int(lines[1]) + text.count("\n")
        truncated = Truncation("limit", "lines", content.truncated and content.truncated.total)
        next_uri = uris.with_query(body.entry.uri, {"lines": f"{first}-{lines[2]}"})
    return ReadItem(body.uri, body.entry, Content(text, content.mime_type, truncated), next_uri)


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
_decoder = msgspec.json.Decoder

_HANDLERS: Mapping[str, tuple[Callable[[bytes], Any], _Handler]] = {
    builtin_schemas.LIST: (_decoder(ListArguments).decode, list_resources),
    builtin_schemas.READ: (_decoder(UriArguments).decode, read_resource),
    builtin_schemas.METADATA: (_decoder(UriArguments).decode, resource_metadata),
    builtin_schemas.SEARCH: (_decoder(SearchArguments).decode, search_resources),
}


async def call_builtin(call: Call, name: str, raw_arguments: bytes) -> Result:
    """Call a built-in tool.

    Raises:
        ResourceError: as the catalog does.
    """
    decode, handle = _HANDLERS[name]
    try:
        arguments = decode(raw_arguments)
    except UNPARSABLE as error:
        return error_result(f"Invalid arguments: {error}")
    return await handle(call, arguments)
