"""What a resource is at one moment, in short: the same as long as nothing has to be told of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from resource_server.catalog import contract_guard
from resource_server.catalog.catalog import CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import Content, Path, Resource
from resource_server.runtime.eager import settle

_MAX_CHILDREN = 1000
"""Children of a collection that are compared. In a larger one every change of a child that its
provider tells of is told."""


class DocumentState(msgspec.Struct, frozen=True):
    """What tells whether a document has changed."""

    version: str | None
    size: int | None = None
    last_modified: datetime | float | None = None


INDISTINCT = DocumentState(None)
"""Nothing tells, so every change is told."""
ABSENT = DocumentState("", -1)
"""There is nothing to be read."""


class Snapshot(NamedTuple):
    """What a resource is at one moment."""

    token: Hashable
    """What differs when it is told of: the state of a document, the digest of a collection."""
    given: Hashable
    """What differs when a read returns something else: of a collection its first children."""
    is_cut: bool = False
    """Whether it is a collection with more children than are compared."""


NOTHING = Snapshot(ABSENT, ABSENT)


async def snapshot_at(
    mount: Mount, path: Path, limits: CatalogLimits, query: Mapping[str, str] | None = None
) -> Snapshot:
    """Return what is at a path now, or is read there with a query of its own (`part`).

    Raises as `present_of`, and `ResourceBusy`.
    """
    try:
        if mount.problem is not None:
            await mount.start()
        if query:
            found = await part(mount, path, query)
            if found is not None:
                return found
        resource = await settle(mount.provider.metadata(path))
        return await snapshot_of(mount, resource, limits)
    except (ResourceNotFound, NotACollection):
        return NOTHING
    except InvalidParameter:
        if not query:
            raise
        return NOTHING  # no longer to be read so


async def part(mount: Mount, path: Path, query: Mapping[str, str]) -> Snapshot | None:
    """Return what a read with this query returns now; None where only the document tells.

    Of a range of a file that does. A result with parameters is another one than that without them.

    Raises:
        ResourceError: as a read; `InvalidParameter` for a collection, too.
    """
    try:
        resource, contents = await contract_guard.fetch(mount, path, query)
    except ResourceTooLarge:
        return None
    if resource.type == "collection":
        raise InvalidParameter("a collection takes no query parameters")
    if state_of(resource) != INDISTINCT:
        return None
    # No `State`: after a look that takes as long as a read a topic rests.
    read = read_of(contents[0]) if contents else ABSENT
    return Snapshot(read, read)


def read_of(content: Content) -> int:
    """Return what differs when a read with a query returns something else."""
    return hash((content.data, content.mime_type, repr(content.truncated)))


async def snapshot_of(mount: Mount, resource: Resource, limits: CatalogLimits) -> Snapshot:
    """Return what a resource is now; what is below its children is no part of a collection.

    Raises:
        ResourceError: it cannot be listed.
    """
    if resource.type == "document":
        state = state_of(resource) if resource.readable else ABSENT
        return Snapshot(state, state)
    children = await settle(mount.provider.list(resource.path, after=None, limit=_MAX_CHILDREN))
    # A read looks at one more than it returns.
    given = digest_children(children[: limits.collection_children + 1])
    return Snapshot(digest_children(children), given, len(children) == _MAX_CHILDREN)


def digest_children(children: Iterable[Resource]) -> int:
    """Return what differs when a collection, read whole, has other children or has them changed."""
    return hash(
        tuple(
            (child.path[-1], child.type if child.type == "collection" else state_of(child))
            for child in children
        )
    )


def state_of(resource: Resource) -> DocumentState:
    """Return what tells whether a document has changed."""
    if resource.version is not None:
        return DocumentState(resource.version)
    return DocumentState(None, resource.size, resource.last_modified)
