"""Wire format of resources, contents and templates, in every revision and SEP-2093.

`resourceType` follows the text of SEP-2093 in this project's specification, `capabilities` its
later revision. Typed clients drop unknown members but keep `_meta`, which therefore repeats them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from resource_server import media_types, uris
from resource_server.catalog.catalog import TemplateEntry
from resource_server.catalog.mount import CatalogEntry, log_failure
from resource_server.catalog.read_result import ReadItem, ReadResult, content_size
from resource_server.catalog.skill_catalog import SkillEntry
from resource_server.provider import Annotations, Content, Format, Truncation

META_TYPE = "resource-server/resourceType"
META_VERSION = "resource-server/version"
META_FORMATS = "resource-server/formats"
META_DETAILS = "resource-server/details"
META_TRUNCATED = "resource-server/truncated"
META_UNAVAILABLE = "resource-server/unavailable"
META_RESOURCE = "resource-server/resource"

COLLECTION_MIME_TYPE = "inode/directory"

T = TypeVar("T")


def _plain(value: object) -> object:
    """Return what an instance of a subclass is, such as an option that a provider repeats."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise NotImplementedError


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


class _WireAnnotations(Struct, omit_defaults=True, rename="camel"):
    audience: tuple[str, ...] | None = None
    priority: float | None = None
    last_modified: str | None = None


class _ResourceCapabilities(Struct, frozen=True):
    list: bool
    subscribe: bool


class _WireResource(Struct, omit_defaults=True, rename="camel", kw_only=True):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: _WireAnnotations | None = None
    resource_type: str
    capabilities: _ResourceCapabilities
    meta: dict[str, Any] = msgspec.field(name="_meta")


class _WireTemplate(Struct, omit_defaults=True, rename="camel", kw_only=True):
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: _WireAnnotations | None = None
    resource_type: str | None = None
    capabilities: _ResourceCapabilities


_CAPABILITIES = {
    (collection, subscribable): _ResourceCapabilities(list=collection, subscribe=subscribable)
    for collection in (False, True)
    for subscribable in (False, True)
}


def resource(entry: CatalogEntry) -> bytes:
    """Return the JSON object of a resource, encoded once per entry."""
    encoded = entry.encoded
    if encoded is None:
        encoded = entry.encoded = _encode(_wire(entry))
    return encoded


def resources(entries: Sequence[CatalogEntry]) -> list[bytes]:
    """Return resources as JSON; most are encoded already. Leaves out what `each` does."""
    try:
        return [entry.encoded or resource(entry) for entry in entries]
    except Exception:
        return each(resource, entries)


def last_listed(entry: CatalogEntry, listed: int) -> bytes:
    """Return the last resource of a bounded listing, with a note of the bound.

    Its description is where hosts show it; `_meta` of a result reaches neither people nor models.
    """
    wire = _wire(entry)
    note = (
        f"The listing ends here, after {listed} resources. More are below the listed collections; "
        "read or list these."
    )
    wire.description = note if wire.description is None else f"{wire.description} ({note})"
    return _encode(wire)


def _wire(entry: CatalogEntry) -> _WireResource:
    uri, resource = entry.uri, entry.resource
    if entry.query:
        uri = uris.with_query(uri, entry.query)
    collection = resource.type == "collection"
    meta: dict[str, Any] = {META_TYPE: resource.type}
    if resource.version is not None:
        meta[META_VERSION] = resource.version
    if resource.formats:
        meta[META_FORMATS] = _formats_of(entry)
    if resource.details:
        meta[META_DETAILS] = resource.details
    return _WireResource(
        uri=uri,
        name=uris.display(resource.name),
        title=_displayed(resource.title),
        description=_displayed(resource.description),
        mime_type=resource.mime_type or (COLLECTION_MIME_TYPE if collection else None),
        size=resource.size,
        annotations=_annotations(resource.annotations, resource.last_modified),
        resource_type=resource.type,
        capabilities=_CAPABILITIES[collection, entry.subscribable],
        meta=meta,
    )


def _displayed(text: str | None) -> str | None:
    return text if text is None else uris.display(text)


@functools.lru_cache(maxsize=256)
def _formats(uri: str, formats: tuple[Format, ...]) -> Sequence[Mapping[str, str]]:
    return [_format(uri, format, {}) for format in formats]


def _formats_of(entry: CatalogEntry) -> Sequence[Mapping[str, str]]:
    """Return the other formats of a resource, or of what a query selects of it, by address.

    A selection has only formats of text: a picture takes no lines and no range of pages.
    """
    query, formats = entry.query, entry.resource.formats
    if not query:
        return _formats(entry.uri, formats)
    is_part = bool(query.keys() - {"format"})
    return [
        _format(entry.uri, format, query)
        for format in formats
        if not (is_part and media_types.is_binary(format.mime_type))
    ]


def _format(uri: str, format: Format, query: Mapping[str, str]) -> Mapping[str, str]:
    address = uris.with_query(uri, {**query, "format": format.name})
    return {"name": format.name, "mimeType": format.mime_type, "uri": address}


def _annotations(
    hints: Annotations | None, modified: datetime | float | None
) -> _WireAnnotations | None:
    last_modified = None if modified is None else _timestamp(modified)
    if hints is None and last_modified is None:
        return None
    return _WireAnnotations(
        audience=hints.audience if hints else None,
        priority=hints.priority if hints else None,
        last_modified=last_modified,
    )


def _timestamp(moment: datetime | float) -> str | None:
    """Return a time in UTC by RFC 3339; None if it is out of range."""
    try:
        if not isinstance(moment, datetime):
            moment = datetime.fromtimestamp(moment, UTC)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (OverflowError, ValueError, OSError):
        return None


def body(item: ReadItem) -> bytes:
    """Return the JSON object of one content: the resource, then `text` or `blob`."""
    content = item.content
    if content is None:
        shown = resource(item.entry)
        if item.uri != item.entry.uri:
            wire = _wire(item.entry)
            wire.uri = item.uri
            shown = _encode(wire)
        return shown[:-1] + b',"text":""}'
    return b"%b,%b}" % (head(item, content)[:-1], _data(content.data))


def head(item: ReadItem, content: Content) -> bytes:
    """Return the JSON object of a resource, adapted to one of its contents."""
    entry = item.entry
    described = entry.resource
    mime_type = content.mime_type or described.mime_type
    size = described.size
    if content.truncated is None:
        # As stored: text in UTF-16 has as many bytes in a read as in a listing.
        size = content.size
        if size is None:
            is_short = isinstance(content.data, bytes) or content.data.isascii()
            size = len(content.data) if is_short else content_size(content)
    if (
        size == described.size
        and mime_type == described.mime_type
        and item.uri == entry.uri
        and content.truncated is None
    ):
        return resource(entry)
    wire = _wire(entry)
    wire.uri, wire.size, wire.mime_type = item.uri, size, mime_type
    if content.truncated is not None:
        wire.meta[META_TRUNCATED] = truncated(content.truncated, item.next_uri)
    return _encode(wire)


def truncated(truncation: Truncation, next_uri: str | None) -> dict[str, Any]:
    """Return the notice of a truncated content, with the URI to read on."""
    notice: dict[str, Any] = {"reason": truncation.reason, "unit": truncation.unit}
    if truncation.total is not None:
        notice["total"] = truncation.total
    if next_uri is not None:
        notice["next"] = next_uri
    return notice


def partial(reading: ReadResult) -> dict[str, Any]:
    """Return the notice of a collection of which not all children were read."""
    notice: dict[str, Any] = {"returned": len(reading.items), "more": True}
    if reading.total is not None:
        notice["total"] = reading.total
    return notice


def _data(data: str | bytes) -> bytes:
    if isinstance(data, str):
        return b'"text":' + _encode(data)
    return b'"blob":"' + base64(data) + b'"'


def base64(data: bytes) -> bytes:
    """Return bytes in base64."""
    # Imported here: only reads of binary documents need it.
    import pybase64

    return pybase64.b64encode(data)


def skill(entry: SkillEntry) -> bytes:
    """Return the JSON object of a skill (SEP-2640)."""
    uri, found = entry.mount.uri, entry.skill
    files: Sequence[Mapping[str, object]] | str = "dynamic"
    if found.files is not None:
        files = [{"uri": uri(f.path), "digest": f.digest, "size": f.size} for f in found.files]
    return _encode({"uri": uri(found.path), "frontmatter": found.frontmatter, "resources": files})


def annotations_of(entry: CatalogEntry) -> bytes | None:
    """Return the JSON object of a resource's annotations, if it has any."""
    found = _annotations(entry.resource.annotations, entry.resource.last_modified)
    return None if found is None else _encode(found)


def wire_template(entry: TemplateEntry) -> bytes:
    """Return the JSON object of a template, whose `capabilities` are an upper bound."""
    shape = entry.template
    wire = _WireTemplate(
        uri_template=entry.uri_template,
        name=shape.name,
        title=shape.title,
        description=shape.description,
        mime_type=shape.mime_type,
        annotations=_annotations(entry.mount.annotations, None),
        resource_type=shape.type,
        capabilities=_CAPABILITIES[shape.type != "document", entry.mount.can_watch],
    )
    return _encode(wire)


def each(encoder: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
    """Return items as JSON, without those of a faulty plugin that cannot be encoded."""
    try:
        return [encoder(item) for item in items]
    except Exception:
        encoded: list[bytes] = []
    for item in items:
        try:
            encoded.append(encoder(item))
        except Exception as error:
            log_failure(error, "an item that cannot be sent was left out")
    return encoded
