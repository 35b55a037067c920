"""The `tools` section of the manifest: which tools clients may call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Which tools clients may call; `false` in its place: none."""

    enabled: bool = True
    """Whether there are tools at all."""
    search: bool = True
    """Whether one of them searches."""
    queries: bool = True
    """Whether what databases declare are tools as well."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{0,64}$")] = ""
    """What all their names begin with: `acme_`."""
