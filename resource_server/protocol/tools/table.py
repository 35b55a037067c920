"""Resources as a table for models: a line each, with what it takes to choose among them."""

from __future__ import annotations

from collections.abc import Sequence

from resource_server import uris
from resource_server.catalog.catalog import CatalogEntry


def of(entries: Sequence[CatalogEntry]) -> str:
    """Return type, size and URI of each, and its title where it has one."""
    return "\n".join(["type size uri", *map(_row, entries)])


def _row(entry: CatalogEntry) -> str:
    resource = entry.resource
    size = "-" if resource.size is None else str(resource.size)
    row = f"{resource.type} {size} {entry.uri}"
    if resource.title is None:
        return row
    return f"{row} {' '.join(uris.display(resource.title).split())}"
