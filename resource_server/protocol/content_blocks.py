"""Content blocks: what messages of prompts and results of tools are made of, as JSON.

What a document holds is given as what it is: text and most binary data as an embedded resource with
all its metadata, a picture or a sound as a block of its own, which hosts show. Such a block has no
place for a resource; its metadata is in `_meta`, and annotations are on the block.
"""

from __future__ import annotations

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import CatalogEntry, ReadItem
from resource_server.protocol import serialization
from resource_server.protocol.revisions import Revision

_encode = msgspec.json.Encoder().encode


def text(words: str) -> bytes:
    """Return the block of words."""
    return b'{"type":"text","text":%b}' % _encode(uris.display(words))


def document(item: ReadItem, revision: Revision) -> bytes:
    """Return the block of one item of a read.

    Part of a picture or sound is no picture: it is embedded, and says what is missing.
    """
    content = item.content
    annotations = serialization.annotations_of(item.entry)
    marks = b"" if annotations is None else b',"annotations":' + annotations
    if content is not None and content.truncated is None and isinstance(content.data, bytes):
        mime_type = content.mime_type or item.entry.resource.mime_type or ""
        block = media(content.data, mime_type, revision)
        if block is not None:
            described = serialization.head(item, content)
            meta = b',"_meta":{"%b":%b}' % (serialization.META_RESOURCE.encode(), described)
            return b"%b%b%b}" % (block[:-1], marks, meta)
    if not revision.block_annotations:
        marks = b""
    return b'{"type":"resource","resource":%b%b}' % (serialization.body(item), marks)


def media(data: bytes, mime_type: str, revision: Revision) -> bytes | None:
    """Return the block of a picture or a sound; None where the revision has none for its type."""
    kind = mime_type.partition("/")[0].lower()
    if kind != "image" and (kind != "audio" or not revision.audio_blocks):
        return None
    return b'{"type":"%b","data":"%b","mimeType":%b}' % (
        kind.encode(),
        serialization.base64(data),
        _encode(mime_type),
    )


def link(entry: CatalogEntry, revision: Revision) -> bytes:
    """Return the block of a resource's metadata: a link, or its URI where there are no links."""
    if not revision.titles:
        return text(entry.uri)
    return b'{"type":"resource_link",%b' % serialization.resource(entry)[1:]
