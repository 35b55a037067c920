"""Provider references: a built-in name, an entry point of a package, or a `.py` file."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from resource_server.manifest.wording import printable
from resource_server.runtime import extras
from resource_server.runtime.near_name import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "resource_server.providers"
"""Entry point group for providers of installed packages."""

FILE = re.compile(r"(.+\.py)(?::([A-Za-z_][A-Za-z0-9_]*))?", re.DOTALL)
"""A Python file, optionally with the name of a class in it."""

_BUILT_IN = {
    "filesystem": "resource_server.providers.filesystem:Filesystem",
    "database": "resource_server.providers.database.provider:Database",
    "object_storage": "resource_server.providers.object_storage.provider:ObjectStorage",
}


def built_in(reference: str) -> type | None:
    """Return the class of a built-in provider; None for any other reference."""
    place = _BUILT_IN.get(reference)
    if place is None:
        return None
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def check_reference(reference: str) -> None:
    """Check that a reference is a known name or a `.py` file, without importing it.

    Raises:
        ValueError: it is neither; the message names the likely one, or all known names.
    """
    names = [*_BUILT_IN, *installed()]
    if not FILE.fullmatch(reference) and reference not in names:
        hint = did_you_mean(reference, names) or f"; known: {', '.join(names)}, or a .py file"
        raise ValueError(f"unknown provider '{printable(reference)}'{hint}")


def built_in_names() -> list[str]:
    """Return the names of the built-in providers."""
    return list(_BUILT_IN)


def installed() -> dict[str, EntryPoint]:
    """Return the entry points of installed providers by name; built-in names take precedence."""
    found = {entry.name: entry for entry in extras.entry_points(GROUP)}
    return {name: found[name] for name in sorted(found) if name not in _BUILT_IN}
