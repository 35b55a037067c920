"""Content blocks of prompt messages and tool results, as JSON.

A document becomes an embedded resource with all its metadata; an image or a sound becomes a block
of its own, which hosts show. Such a block has no place for a resource, so its metadata goes into
`_meta` and its annotations onto the block.
"""

from __future__ import annotations

import msgspec

from resource_server import uris
from resource_server.catalog.mount import CatalogEntry
from resource_server.catalog.read_result import ReadItem
from resource_server.protocol import serialization
from resource_server.protocol.revisions import Revision
from resource_server.provider import Content

_SVG = "image/svg+xml"
"""Text to models: no host shows it as an image block."""

_encode = msgspec.json.Encoder().encode


def text_block(text: str) -> bytes:
    """Return a text block."""
    return b'{"type":"text","text":%b}' % _encode(uris.display(text))


def document_block(item: ReadItem, revision: Revision) -> bytes:
    """Return the block of one item of a read.

    A truncated image or sound cannot be shown: it is embedded, marked as truncated. A chart of some
    of the rows is whole.
    """
    content = item.content
    annotations = serialization.annotations_of(item.entry)
    marks = b"" if annotations is None else b',"annotations":' + annotations
    if content is not None and not is_cut(content) and isinstance(content.data, bytes):
        mime_type = content.mime_type or item.entry.resource.mime_type or ""
        block = media_block(content.data, mime_type, revision)
        if block is not None:
            head = serialization.head(item, content)
            meta = b',"_meta":{"%b":%b}' % (serialization.META_RESOURCE.encode(), head)
            return b"%b%b%b}" % (block[:-1], marks, meta)
    if not revision.block_annotations:
        marks = b""
    return b'{"type":"resource","resource":%b%b}' % (serialization.body(item), marks)


def is_cut(content: Content) -> bool:
    """Return whether the data is only a part: a chart of some of the rows is a whole picture."""
    return content.truncated is not None and content.truncated.unit != "rows"


def is_media(mime_type: str, revision: Revision) -> bool:
    """Return whether a revision has blocks for data of a media type."""
    kind = mime_type.partition("/")[0].lower()
    if mime_type.lower().startswith(_SVG):
        return False
    return kind == "image" or (kind == "audio" and revision.audio_blocks)


def is_media_block(block: bytes) -> bool:
    """Return whether hosts show a block to their model as an image or a sound, not as text."""
    return block.startswith((b'{"type":"image"', b'{"type":"audio"'))


def media_block(data: bytes, mime_type: str, revision: Revision) -> bytes | None:
    """Return an image or audio block; None if the revision has none for this media type."""
    if not is_media(mime_type, revision):
        return None
    return b'{"type":"%b","data":"%b","mimeType":%b}' % (
        mime_type.partition("/")[0].lower().encode(),
        serialization.base64(data),
        _encode(mime_type),
    )


def link_block(entry: CatalogEntry, revision: Revision) -> bytes:
    """Return a link to a resource; its URI as text in revisions without links."""
    if not revision.titles:
        return text_block(entry.uri)
    return b'{"type":"resource_link",%b' % serialization.resource(entry)[1:]
