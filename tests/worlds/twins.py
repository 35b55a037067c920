"""Twins: two worlds that differ only in hidden parts, and the requests that compare them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resource_server import uris
from tests.worlds import twin_databases
from tests.worlds.callers import CallerKind
from tests.worlds.folders import FolderTwins
from tests.worlds.requests import Step
from tests.worlds.twin_databases import DatabaseTwins


@dataclass(frozen=True)
class Twins:
    """Two worlds, and the requests that compare them."""

    folder: FolderTwins | None
    database: DatabaseTwins | None
    caller: CallerKind
    server: dict[str, Any]
    """The section `server` of the manifest."""
    words: tuple[str, ...] = ("apple",)
    """Words to search for, to complete and to give to tools."""
    steps: tuple[Step, ...] = ()
    listens: bool = False
    """Whether the caller subscribes to everything while the worlds change."""
    restarts: bool = False
    """Whether the second world gets a server of its own."""
    over_http: bool = False
    """Whether the requests are sent over HTTP, with a token."""
    indexed: tuple[bool, bool] = (False, False)
    """Whether the folder is searched with an index: in the first world, and in the second."""
    opens_pages: bool = True
    """Whether each request is followed by the explorer's pages about it."""

    @property
    def guesses(self) -> list[str]:
        """URIs of what is hidden."""
        found: list[str] = []
        if self.folder is not None:
            found += [uris.join("file:///r/", path.split("/")) for path in self.folder.hidden_paths]
            found += ["file:///vault/plan.txt", "file:///vault/"]
        if self.database is not None:
            found += [self.database.base + path for path in twin_databases.GUESSES]
        return found

    @property
    def values(self) -> tuple[str, ...]:
        """Arguments of queries and prompts."""
        values = twin_databases.VALUES if self.database else ()
        return (*values, *(self.folder.hidden_paths if self.folder else ()))
