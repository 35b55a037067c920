"""`read_resource`: what a document holds, or what lies in a collection, in blocks for a model."""

from __future__ import annotations

from typing import Any

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import ReadItem, ReadResult, content_size
from resource_server.errors import ResourceServerError
from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import excerpt, results, table

MAX_MEDIA_BYTES = 4 * 1024 * 1024
"""Of a picture or sound; no host takes more, and part of one is of no use."""

_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its arguments."""

    uri: str


async def read_resource(call: Call, asked: Asked) -> Result:
    """Read a resource, or as much of it as a model can take."""
    reading = await excerpt.read(call.server.catalog, asked.uri, call.progress)
    call.subscriber.read(reading)
    described = serialization.each(_described, reading.items)
    if reading.items and not described:
        raise ResourceServerError("nothing of this read can be sent")
    cut = _cut(reading)
    content = _children(call, reading) if reading.collection else _document(call, reading)
    if cut is not None:
        content.append(content_blocks.text(_notice(cut, reading)))
    structured = b'"contents":[' + b",".join(described) + b"]"
    if cut is not None:
        structured += b',"truncated":' + _encode(cut)
    return results.result(call, content, b"{%b}" % structured)


def _described(body: ReadItem) -> bytes:
    """Return one item of the structured form: hosts that read nothing else find the text there."""
    if body.content is None:
        return serialization.resource(body.entry)
    if isinstance(body.content.data, str):
        return serialization.body(body)
    return serialization.head(body, body.content)


def _document(call: Call, reading: ReadResult) -> list[bytes]:
    content: list[bytes] = []
    for body in reading.items:
        if body.content is not None and isinstance(body.content.data, str):
            content.append(content_blocks.text(body.content.data))
        elif (size := content_size(body.content)) > MAX_MEDIA_BYTES:
            content.append(content_blocks.text(f"[{size} bytes, too long to be shown by a tool]"))
        else:
            content += serialization.each(
                lambda item: content_blocks.document(item, call.revision), [body]
            )
    return content


def _children(call: Call, reading: ReadResult) -> list[bytes]:
    """Return a table of the children that were read, and each document among them."""
    entries = [body.entry for body in reading.items]
    words = table.of(entries)
    if not entries:
        uri = uris.display(reading.collection or "")
        words = "There is nothing in this collection."
        if reading.children:
            words = f"Nothing in this collection can be read here. List it: uri={uri}"
    documents = [body for body in reading.items if body.content is not None]
    encoded = serialization.each(
        lambda item: content_blocks.document(item, call.revision), documents
    )
    return [content_blocks.text(words), *encoded]


def _cut(reading: ReadResult) -> dict[str, Any] | None:
    """Return what is missing; None where nothing is."""
    if not reading.complete:
        return {"returned": len(reading.items), "more": True}
    if reading.collection is not None:
        return None  # what was cut of a child is said of it
    for body in reading.items:
        if body.content is not None and body.content.truncated is not None:
            return serialization.truncated(body.content.truncated, body.next_uri)
    return None


def _notice(cut: dict[str, Any], reading: ReadResult) -> str:
    if reading.collection is not None:
        uri = uris.display(reading.collection)
        return f"Not all of it was read. List its children: uri={uri}"
    total = f" of {cut['total']} {cut['unit']}" if "total" in cut else ""
    if "next" in cut:
        return f"This is a part{total}. Read on: uri={cut['next']}"
    return f"This is a part{total}; the end of what can be read this way."
