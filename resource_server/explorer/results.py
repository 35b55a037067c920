"""MCP results as the pages use them, each read by a client in the process."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import LocalClient

T = TypeVar("T")

NOT_FOUND = revisions.LATEST_HANDSHAKE.resource_not_found
CLOSED = (NOT_FOUND, revisions.UNREADABLE)
"""Error codes of a document that is listed, but that nobody or not the server may read."""

_PREFIX = "resource-server/"


class OtherFormat(msgspec.Struct, frozen=True):
    """Another representation of a document."""

    name: str
    mime_type: str = msgspec.field(name="mimeType")
    uri: str = ""


class ResourceMetadata(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Metadata of a resource."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    annotations: Mapping[str, Any] = {}
    resource_type: str = "document"
    capabilities: Mapping[str, bool] = {}
    meta: Mapping[str, Any] = msgspec.field(name="_meta", default={})

    @property
    def label(self) -> str:
        """The name for people."""
        return self.title or self.name

    @property
    def is_collection(self) -> bool:
        """Whether it has children."""
        return self.resource_type == "collection"

    @property
    def formats(self) -> Sequence[OtherFormat]:
        """Its other representations."""
        return msgspec.convert(self.meta.get(f"{_PREFIX}formats", ()), tuple[OtherFormat, ...])

    @property
    def version(self) -> str:
        """Its version; empty if it has none."""
        return str(self.meta.get(f"{_PREFIX}version", ""))

    @property
    def details(self) -> Mapping[str, Any]:
        """Facts that its provider adds."""
        return self.meta.get(f"{_PREFIX}details", {})

    @property
    def truncated(self) -> Mapping[str, Any]:
        """Why a content is less than the whole, and the URI of the rest; empty for the whole."""
        return self.meta.get(f"{_PREFIX}truncated", {})

    def format(self, name: str) -> OtherFormat | None:
        """Return a representation by its name."""
        return next((each for each in self.formats if each.name == name), None)


class DocumentContent(ResourceMetadata, frozen=True, rename="camel", kw_only=True):
    """A document with its text, or its bytes in base64."""

    text: str | None = None
    blob: str | None = None

    @property
    def data(self) -> bytes:
        """The bytes; of text, in UTF-8."""
        return b64decode(self.blob) if self.blob is not None else (self.text or "").encode()


class Listing(msgspec.Struct, frozen=True, rename="camel"):
    """One page of a collection's children."""

    resources: Sequence[ResourceMetadata]
    next_cursor: str | None = None


async def metadata(client: LocalClient, uri: str) -> ResourceMetadata:
    """Return the metadata of a resource.

    Raises:
        ErrorReply: the caller cannot see it, or it is unavailable.
    """
    result = await client.request("resources/metadata", {"uri": uri})
    return msgspec.convert(result["resource"], ResourceMetadata)


async def contents(client: LocalClient, uri: str) -> Sequence[DocumentContent]:
    """Read a resource.

    Raises:
        ErrorReply: it cannot be read.
    """
    result = await client.request("resources/read", {"uri": uri})
    return msgspec.convert(result["contents"], list[DocumentContent])


async def children(client: LocalClient, uri: str, cursor: str | None = None) -> Listing:
    """Return a page of the children of a collection.

    Raises:
        ErrorReply: it is no collection, or cannot be listed.
    """
    params = {"uri": uri} if cursor is None else {"uri": uri, "cursor": cursor}
    return msgspec.convert(await client.request("resources/directory/read", params), Listing)


def written(value: Any) -> str:
    """Return a value as people write it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
