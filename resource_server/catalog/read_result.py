"""What a read returns: contents with the metadata of their resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from resource_server import media_types, uris
from resource_server.catalog.mount import CatalogEntry
from resource_server.provider import Content, Format, Resource

NO_PARAMETERS = "a collection takes no query parameters"


class ReadItem(msgspec.Struct, frozen=True):
    """One item of a read: a document's content, or a collection (`content` is None).

    `uri` is as requested; `next_uri` reads the rest of a truncated content.
    """

    uri: str
    entry: CatalogEntry
    content: Content | None
    next_uri: str | None = None


class ReadResult(msgspec.Struct, frozen=True):
    """The result of a read; `complete` is False if children of a collection were left out.

    For a collection, `collection` is its canonical URI, `itself` the item for the collection,
    `children` its first children, one more than a read returns, and `total` their number, if these
    are all; for a document they are None and empty. Of a table, only listed children are read and
    counted: its rows are in one of them.
    """

    items: Sequence[ReadItem]
    complete: bool = True
    collection: str | None = None
    children: Sequence[Resource] = ()
    total: int | None = None
    itself: ReadItem | None = None

    @property
    def is_shortened(self) -> bool:
        """Whether any document of a collection is truncated."""
        contents = (item.content for item in self.items if self.collection is not None)
        return any(content is not None and content.truncated is not None for content in contents)


def next_uri(entry: CatalogEntry, query: Mapping[str, str], content: Content) -> str | None:
    """Return the URI of what follows a truncated content, in the same format."""
    if content.truncated is None or content.truncated.next is None:
        return None
    kept = {name: value for name, value in query.items() if name == "format"}
    return uris.with_query(entry.uri, {**kept, **content.truncated.next})


def table_facts(resource: Resource) -> Mapping[str, Any] | None:
    """Return what is known of a table, such as its key; None for any other resource."""
    return (resource.details or {}).get("table")


def text_format(resource: Resource) -> Format | None:
    """Return the format that a document which does not read as text has as text, if any."""
    if resource.mime_type is None or not media_types.is_encoded(resource.mime_type):
        return None
    return next((f for f in resource.formats if not media_types.is_binary(f.mime_type)), None)


def content_size(content: Content | None) -> int:
    """Return the size of a content in bytes, as UTF-8 or before base64."""
    if content is None:
        return 0
    data = content.data
    return len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode())
