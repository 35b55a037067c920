"""A plugin that serves notes of a JSON file, which other programs write; `use: board.py`.

It looks at the file as often as its users write it, and reports only the notes that differ. A file
`NOTES.fail` beside it makes the watch fail, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as FilePath

from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Change, Content, Interest, Path, Provider, Resource, Template

_LOOK_S = 0.02


@dataclass
class Board:
    """Notes by name, in one flat collection."""

    notes: str
    """Path of the JSON file: an object of texts."""

    @property
    def templates(self) -> Sequence[Template]:
        """Any note."""
        return (Template("{name}", name="note"),)

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the notes in order of their names."""
        if parent:
            raise NotACollection if parent[0] in self._read() else ResourceNotFound
        notes = self._read()
        names = sorted(name for name in notes if after is None or name > after[-1])
        return [_note(name, notes[name]) for name in names[:limit]]

    def metadata(self, path: Path) -> Resource:
        """Describe the board or a note."""
        if not path:
            return Resource(path=(), name="board", type="collection")
        return _note(path[0], self._text(path))

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return a note."""
        return [Content(self._text(path))]

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Compare the file with what it was at the last look."""
        before = self._read()
        asked = set[Path]()
        while True:
            for path in set(interest.paths) - asked:
                yield Change(path)
            asked = set(interest.paths)
            await asyncio.sleep(_LOOK_S)
            self._fail_once()
            now = self._read()
            for name in sorted(now.keys() | before.keys()):
                if now.get(name) != before.get(name):
                    yield Change((name,))
            if now.keys() != before.keys():
                yield Change((), "children")
            before = now

    def _fail_once(self) -> None:
        failing = FilePath(f"{self.notes}.fail")
        if failing.exists():
            failing.unlink()
            raise OSError("the board fell down")

    def _text(self, path: Path) -> str:
        notes = self._read()
        if len(path) != 1 or path[0] not in notes:
            raise ResourceNotFound
        return notes[path[0]]

    def _read(self) -> Mapping[str, str]:
        with suppress(FileNotFoundError):
            return json.loads(FilePath(self.notes).read_text("utf-8"))
        return {}


def _note(name: str, text: str) -> Resource:
    version = hashlib.sha256(text.encode()).hexdigest()
    return Resource(path=(name,), name=name, type="document", version=version)


_: type[Provider] = Board
