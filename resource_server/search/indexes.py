"""Search indexes of providers, as operators see them: their state, and how they are built."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class IndexState(msgspec.Struct, frozen=True):
    """State of an index, for operators."""

    documents: int = 0
    """Documents that are in it, as they are now."""
    waiting: int = 0
    """Documents that are not, or not yet: a search looks into them."""
    size: int = 0
    """Bytes on disk."""
    is_complete: bool = False
    """Whether all documents were compared with it once."""
    problem: str | None = None
    """Why there is none; searches look into all documents."""


class MountIndex(Protocol):
    """The index of one mount. Its methods block."""

    state: IndexState

    def build(self) -> bool:
        """Build or update it in this thread; return False if another process keeps it current.

        Raises:
            OSError, sqlite3.Error: it cannot be kept in its folder.
            ResourceError: the mount is not accessible.
        """
        ...

    def drop(self) -> bool:
        """Delete it; return whether there was one. A server that uses it makes another."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@runtime_checkable
class HasIndex(Protocol):
    """A provider whose options may give its searches an index."""

    @property
    def search_index(self) -> MountIndex | None:
        """The index, or None."""
        ...
