"""A provider that keeps every rule of the contract, for tests that break one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import (
    Content,
    Format,
    Path,
    Resource,
    ResourceType,
    Template,
    Truncation,
)
from resource_server.provider.tools import ToolRequest as ToolRequest

SHELF: dict[Path, str | bytes | None] = {
    ("a",): None,
    ("a", "b"): None,
    ("a", "b", "deep"): "deep",
    ("a", "empty"): "",
    ("a", "ü\n\udcff"): "Grüße",
    ("hidden",): None,
    ("hidden", "c"): "secret",
    ("long",): "0123456789" * 10,
    ("z",): b"\0\1",
}


@dataclass
class Shelf:
    """A tree in memory that keeps every rule. Each class below breaks one."""

    items: Mapping[Path, str | bytes | None] = field(default_factory=lambda: SHELF)
    calls: int = 0

    @property
    def templates(self) -> Sequence[Template]:
        return (Template("{+path}{?part}", name="item"),)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        self.calls += 1
        if parent and self.find(parent) is not None:
            raise NotACollection
        below = sorted(path for path in self.items if path and path[:-1] == parent)
        return [self.entry(path) for path in below if after is None or path > after][:limit]

    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        rest = sorted(path for path in self.items if path > (after or ()) and path[0] != "hidden")
        level = [self.entry(path) for path in rest if len(path) == depth]
        return [entry for entry in level if entry.type == type][:limit]

    async def metadata(self, path: Path) -> Resource:
        self.calls += 1
        entry = self.entry(path)
        if path == ("long",):
            return msgspec.structs.replace(entry, formats=(Format("upper", "text/plain"),))
        return entry

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        data = self.find(path)
        if data is None or query.keys() - {"part", "format"}:
            raise InvalidParameter("query") if data is not None else ResourceNotFound()
        if path == ("long",) and not query:
            raise ResourceTooLarge(size=100, limit=50, next={"part": "1"})
        if path == ("long",):
            following = {"part": "2"} if query.get("part") == "1" else None
            return [Content(data[:50], truncated=Truncation("requested", "bytes", 100, following))]
        return [Content(data)]

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        tops = [path[0] + "/" * (self.items[path] is None) for path in self.items if not path[1:]]
        return tops if variable == "path" else []

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        entry = await self.metadata(path)
        return entry, () if entry.type == "collection" else await self.read(path, query)

    def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        return [(("cellar",), "never shown"), (("a", "attic"), "never shown")][:limit]

    def explain(self, path: Path) -> str:
        return "shown" if not path or path in self.items else "not there"

    def warnings(self, *, thorough: bool) -> Sequence[tuple[str, str]]:
        return [("", "the shelf may fall")] if thorough else []

    def find(self, path: Path) -> str | bytes | None:
        if path not in self.items:
            raise ResourceNotFound
        return self.items[path]

    def entry(self, path: Path) -> Resource:
        data = self.find(path) if path else None
        if data is None:
            name = path[-1] if path else "shelf"
            return Resource(path=path, name=name, type="collection", listed=name != "hidden")
        size = len(data if isinstance(data, bytes) else data.encode())
        return Resource(path=path, name=path[-1], size=size, version=f"v{size}")


SIGNATURE = "methods return the types declared in resource_server.provider"


def changed(page: Sequence[Resource], which: str, **facts: Any) -> list[Resource]:
    """Return a page whose entry of this name tells other facts."""
    return [
        msgspec.structs.replace(entry, **facts) if entry.name == which else entry for entry in page
    ]


class Misjudges(Shelf):
    def entry(self, path: Path) -> Resource:
        return changed([super().entry(path)], "z", size=3)[0]
