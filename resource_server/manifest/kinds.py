"""The providers known by name: those built in, and those that installed packages offer."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

GROUP = "resource_server.providers"
"""The entry point group in which packages offer providers."""

_BUILT_IN = {"filesystem": "resource_server.providers.filesystem:Filesystem"}


def built_in(reference: str) -> type | None:
    """Return the class of a built-in provider; None for any other reference."""
    place = _BUILT_IN.get(reference)
    if place is None:
        return None
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def built_in_names() -> list[str]:
    """Return the names of the built-in providers."""
    return list(_BUILT_IN)


def installed() -> dict[str, EntryPoint]:
    """Return the entry points of installed providers by name; a built-in name cannot be taken."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in _BUILT_IN}
