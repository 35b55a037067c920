"""What the manifest says of tools."""

from __future__ import annotations

from collections.abc import Set

import msgspec


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools there are, and what their names begin with."""

    enabled: bool = True
    search: bool = True
    """Whether one of them searches."""
    prefix: str = ""
    without: Set[str] = frozenset()
    """The mounts whose own tools are left out."""
