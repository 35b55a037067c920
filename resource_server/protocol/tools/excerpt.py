"""Excerpts of documents that are too long for a model, with the URI to read on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog, Progress, ReadItem, ReadResult, content_size
from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.provider import Content, Truncation

_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{0,15})")


async def read_excerpt(
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
