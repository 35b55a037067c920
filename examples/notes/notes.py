"""A folder of notes as a provider."""

from collections.abc import Iterator
from pathlib import Path

from resource_server.provider.simple import documents


@documents(refresh=30)
def notes(folder: Path, limit: int = 100) -> Iterator[tuple[str, str]]:
    """Notes by year."""
    for file in sorted(folder.glob("*.md"))[-limit:]:
        yield f"{file.name[:4]}/{file.name[5:]}", file.read_text("utf-8")
