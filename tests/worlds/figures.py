"""The last long search of each property that found nothing, kept in figures.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

FILE = Path(__file__).parent / "figures.json"


def record(name: str, seeds: str, cases: int, counts: Mapping[str, int], file: Path = FILE) -> None:
    """Replace the figures of one property by those of a search that has just ended."""
    kept = json.loads(file.read_text("utf-8"))
    day = datetime.now(UTC).date().isoformat()
    kept[name] = {"date": day, "seeds": seeds, "cases": cases, **counts}
    file.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")


def figures(name: str, file: Path = FILE) -> str:
    """Return the figures of one property in a line."""
    kept = json.loads(file.read_text("utf-8"))[name]
    day, seeds = kept.pop("date"), kept.pop("seeds")
    note = kept.pop("note", "")
    counts = ", ".join(f"{number:,} {what}" for what, number in kept.items())
    return f"`{name}`, {day}: seeds {seeds}, {counts}{note and f'; {note}'}"
