"""A resource that somebody subscribes to, and what tells whether it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from datetime import datetime
from typing import Protocol

import msgspec

from resource_server.provider import Path, Resource
from resource_server.watching import Watching

FIRST_RETRY_S = 1.0
"""After a look that failed, before the next."""


class Listener(Protocol):
    """Who is told. Neither method may block or raise."""

    def updated(self, uri: str) -> None:
        """Take note that the resource with this canonical URI has changed, come or gone."""
        ...

    def list_changed(self) -> None:
        """Take note that other resources are listed than before."""
        ...


class State(msgspec.Struct, frozen=True):
    """What tells whether a document has changed."""

    version: str | None
    size: int | None = None
    last_modified: datetime | float | None = None


INDISTINCT = State(None)
"""Nothing tells, so every change is told."""


class Topic:
    """A resource that somebody subscribes to, and what was told of it last."""

    __slots__ = (
        "again",
        "certain",
        "cut",
        "has_failed",
        "is_looking",
        "listeners",
        "missing",
        "path",
        "rests_until",
        "retry_after",
        "timer",
        "token",
        "uri",
        "watching",
    )

    def __init__(self, uri: str, token: Hashable, *, cut: bool) -> None:
        self.uri = uri
        """Canonical, without a query."""
        self.token = token
        """What was told last; see `version`."""
        self.cut = cut
        """Whether it is a collection with more children than are compared."""
        self.path: Path = ()
        self.watching: Watching | None = None
        """None while no mount has its URI."""
        self.listeners: dict[Listener, None] = {}
        self.rests_until = float("-inf")
        """When it may be looked at again."""
        self.timer: asyncio.TimerHandle | None = None
        self.is_looking = False
        self.again = False
        """Whether something came up during the look that is under way."""
        self.certain = False
        """Whether it is told without a comparison."""
        self.missing = False
        """Whether it has been absent for less than the grace."""
        self.retry_after = FIRST_RETRY_S
        self.has_failed = False
        """Whether the timer runs because it could not be looked at."""

    @property
    def is_vague(self) -> bool:
        """Whether a comparison may find nothing though something has changed."""
        return self.cut or self.token == INDISTINCT

    @property
    def version(self) -> str | int | None:
        """Of the document that was told last, or the digest of the collection; None if unknown."""
        if isinstance(self.token, State):
            return self.token.version
        return self.token if isinstance(self.token, int) and not self.cut else None


def digest(children: Iterable[Resource]) -> int:
    """Return what differs when a collection, read whole, has other children or has them changed."""
    return hash(
        tuple(
            (child.path[-1], child.type if child.type == "collection" else state_of(child))
            for child in children
        )
    )


def state_of(resource: Resource) -> State:
    """Return what tells whether a document has changed."""
    if resource.version is not None:
        return State(resource.version)
    return State(None, resource.size, resource.last_modified)
