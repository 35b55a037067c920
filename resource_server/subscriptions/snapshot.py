"""Snapshots of resources, for change detection."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from resource_server.catalog.catalog import CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.catalog.read_result import NO_PARAMETERS
from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Content, Path, Resource

MAX_CHILDREN = 1000
"""Maximum children of a collection that are compared. In a larger one, every change of a child that
the provider reports is notified; of a child with subscribers, only the changes that they see."""


class DocumentState(msgspec.Struct, frozen=True):
    """The version of a document, or its size and time if it has no version."""

    version: str | None
    size: int | None = None
    last_modified: datetime | float | None = None


INDISTINCT = DocumentState(None)
"""A document without version, size and time: every change is notified."""
ABSENT = DocumentState("", -1)
"""No readable resource."""


class Snapshot(NamedTuple):
    """A resource at one moment, for comparison."""

    state: Hashable
    """Differs if subscribers must be notified: a document's state, or a digest of children."""
    read_digest: Hashable
    """Differs if a read returns something else; only a collection's first children count."""
    is_truncated: bool = False
    """Whether it is a collection with more children than are compared."""


NOTHING = Snapshot(ABSENT, ABSENT)


async def snapshot_at(
    mount: Mount, path: Path, limits: CatalogLimits, query: Mapping[str, str] | None = None
) -> Snapshot:
    """Return a snapshot of the resource at a path, or of a read with `query`.

    Raises:
        ResourceError: the mount cannot serve, or the resource cannot be listed.
    """
    try:
        await mount.start()
        if query:
            found = await snapshot_of_query(mount, path, query)
            if found is not None:
                return found
        resource = await mount.provider.metadata(path)
        return await snapshot_of(mount, resource, limits)
    except (ResourceNotFound, NotACollection, InvalidParameter):
        # Refused until something changes: parameters it does not take, a query without its table.
        return NOTHING


async def snapshot_of_query(mount: Mount, path: Path, query: Mapping[str, str]) -> Snapshot | None:
    """Return a snapshot of a read with URI parameters; None if the document's own state covers it.

    The state of a file covers its ranges. The result of a query with parameters has no other state.

    Raises:
        ResourceError: as a read; `InvalidParameter` also for a collection.
    """
    try:
        resource, contents = await mount.provider.fetch(path, query)
    except ResourceTooLarge:
        return None
    if resource.type == "collection":
        raise InvalidParameter(NO_PARAMETERS)
    if state_of(resource) != INDISTINCT:
        return None
    # Not a `DocumentState`: topics rest after each comparison, which costs a whole read.
    digest = digest_content(contents[0]) if contents else ABSENT
    return Snapshot(digest, digest)


def digest_content(content: Content) -> int:
    """Return a digest of what a read with URI parameters returned."""
    is_text = isinstance(content.data, str)  # text and its bytes have the same hash
    return hash((is_text, content.data, content.mime_type, repr(content.truncated)))


async def snapshot_of(mount: Mount, resource: Resource, limits: CatalogLimits) -> Snapshot:
    """Return a snapshot of a resource.

    A collection's covers its version, if it has one, and its children, not their children.

    Raises:
        ResourceError: the collection cannot be listed.
    """
    if resource.type == "document":
        state = state_of(resource) if resource.readable else ABSENT
        return Snapshot(state, state)
    # A read lists one child more than it returns.
    read_children = limits.collection_children + 1
    most = max(MAX_CHILDREN, read_children)
    children = await mount.provider.list(resource.path, after=None, limit=most)
    read = digest_children(children[:read_children])
    state = (digest_children(children[:MAX_CHILDREN]), resource.version)
    return Snapshot(state, read, len(children) >= MAX_CHILDREN)


def digest_children(children: Iterable[Resource]) -> int:
    """Return a digest of a collection's children and of the states of documents among them."""
    return hash(
        tuple(
            (child.path[-1], child.type if child.type == "collection" else state_of(child))
            for child in children
        )
    )


def state_of(resource: Resource) -> DocumentState:
    """Return the state of a document, for comparison."""
    if resource.version is not None:
        return DocumentState(resource.version)
    return DocumentState(None, resource.size, resource.last_modified)
