"""The properties by name, each the `PROPERTY` of its module."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tests.worlds.harness import Property

NAMES = tuple(
    name
    for name in (
        "noninterference",
        "rows",
        "spelling",
        "updates",
        "messages",
        "conversions",
        "files",
        "fleet",
        "soak",
        "tenants",
    )
    if importlib.util.find_spec(f"tests.worlds.{name}")
)


def property_named(name: str) -> Property[Any]:
    """Return a property; its module is imported only now, with the drivers it needs."""
    found: Property[Any] = importlib.import_module(f"tests.worlds.{name}").PROPERTY
    assert found.name == name
    return found
