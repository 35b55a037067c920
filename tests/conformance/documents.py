"""What the official conformance suite reads: resources by the names that it knows.

These are URIs without a path, so each is a mount of its own, and the mount a document. That is no
example to follow: a mount is a collection, and `check_provider` demands it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from resource_server.provider import (
    Change,
    Content,
    Interest,
    Path,
    Provider,
    Resource,
    ResourceNotFound,
    SupportsWatch,
    Template,
)

_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Conformance:
    """One resource, which is the whole mount; or all below it that have the name `data`."""

    kind: str

    @property
    def templates(self) -> Sequence[Template]:
        """Return the template of what is below the mount."""
        return [Template("{id}/data", name="template")] if self.kind == "template" else []

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return nothing: what is below is found by its template."""
        return []

    def metadata(self, path: Path) -> Resource:
        """Describe one."""
        if path and (self.kind != "template" or path[1:] != ("data",)):
            raise ResourceNotFound
        if self.kind == "template" and not path:
            return Resource(path=(), name="template", type="collection")
        mime_type = "image/png" if self.kind == "static-binary" else "text/plain"
        return Resource(path=path, name=self.kind, type="document", mime_type=mime_type)

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Read one."""
        self.metadata(path)
        return [Content(_PNG if self.kind == "static-binary" else f"{self.kind} {'/'.join(path)}")]

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """See none."""
        while True:
            await interest.next()
            for change in ():
                yield change


_: tuple[type[Provider], type[SupportsWatch]] = (Conformance, Conformance)
