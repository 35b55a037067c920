"""What the official conformance suite asks, in a place where it may change."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).parent


def copied(place: Path) -> Path:
    """Return the manifest, copied with its providers: one of the tools changes it."""
    for name in ("documents.py", "tools.py"):
        shutil.copy(HERE / name, place)
    return Path(shutil.copy(HERE / "mcp-resources.yaml", place))
