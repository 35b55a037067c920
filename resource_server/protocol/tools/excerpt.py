"""Documents that are longer than a model can take: their beginning, and where it goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog, Progress, ReadItem, ReadResult, content_size
from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.provider import Content, Truncation

MAX_TEXT_BYTES = 64 * 1024
"""Of one document, sounds and pictures aside: some 16,000 tokens, and hosts give up at 25,000."""

_INTERVAL = re.compile(r"([0-9]{1,15})-([0-9]{0,15})")


async def read(catalog: Catalog, uri: str, progress: Progress | None) -> ReadResult:
    """Read a resource; of a document that is too long, the beginning.

    Raises:
        ResourceError: as `Catalog.read`.
    """
    try:
        reading = await catalog.read(uri, progress)
    except ResourceTooLarge:
        shorter = await _range(catalog, uri, progress)
        if shorter is None:
            raise
        return shorter
    if reading.collection is not None or not any(map(_is_long, reading.items)):
        return reading
    shorter = await _range(catalog, uri, progress)
    if shorter is not None and not any(map(_is_long, shorter.items)):
        return shorter
    query = catalog.route(uri)[2]
    bodies = [_cut(body, query) if _is_long(body) else body for body in reading.items]
    return msgspec.structs.replace(reading, items=bodies)


def _is_long(body: ReadItem) -> bool:
    content = body.content
    if content is None or content_size(content) <= MAX_TEXT_BYTES:
        return False
    mime_type = content.mime_type or body.entry.resource.mime_type or ""
    return isinstance(content.data, str) or not mime_type.startswith(("image/", "audio/"))


async def _range(catalog: Catalog, uri: str, progress: Progress | None) -> ReadResult | None:
    """Read the first bytes of what is asked for, where the document can be read so."""
    query = catalog.route(uri)[2]
    if set(query) - {"bytes"}:
        return None
    begins = _INTERVAL.fullmatch(query.get("bytes", "0-"))
    if begins is None:
        return None
    first = int(begins[1])
    part = {"bytes": f"{first}-{first + MAX_TEXT_BYTES - 1}"}
    with suppress(InvalidParameter):
        reading = await catalog.read(uris.with_query(uri.partition("?")[0], part), progress)
        return msgspec.structs.replace(reading, items=[_as_asked(b, uri) for b in reading.items])
    return None


def _as_asked(body: ReadItem, uri: str) -> ReadItem:
    """Return a part as what is left of what was asked for."""
    content = body.content
    if content is None or content.truncated is None:
        return body
    cut = msgspec.structs.replace(content.truncated, reason="limit")
    return msgspec.structs.replace(
        body, uri=uri, content=msgspec.structs.replace(content, truncated=cut)
    )


def _cut(body: ReadItem, query: Mapping[str, str]) -> ReadItem:
    """Cut a text at the end of a line; say where it goes on if it was asked for by lines."""
    content = body.content
    if content is None:
        return body
    if isinstance(content.data, bytes):
        shorter = Truncation("limit", "bytes", len(content.data))
        return ReadItem(
            body.uri,
            body.entry,
            Content(content.data[:MAX_TEXT_BYTES], content.mime_type, shorter),
        )
    whole = content.data.encode("utf-8", "surrogatepass")
    kept = whole[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    end = kept.rfind("\n") + 1
    lines = _INTERVAL.fullmatch(query.get("lines", "")) if set(query) == {"lines"} else None
    kept = kept[:end] if end else kept
    shorter = Truncation("limit", "bytes", len(whole))
    next_uri = None
    if lines is not None and end:
        first = int(lines[1]) + kept.count("\n")
        shorter = Truncation("limit", "lines", content.truncated and content.truncated.total)
        next_uri = uris.with_query(body.entry.uri, {"lines": f"{first}-{lines[2]}"})
    return ReadItem(body.uri, body.entry, Content(kept, content.mime_type, shorter), next_uri)
