"""A resource that somebody subscribes to, and what was told of it last."""

from __future__ import annotations

import asyncio
from typing import Protocol

from resource_server.present import INDISTINCT, Present
from resource_server.provider import Path
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


class Topic:
    """A resource that somebody subscribes to, and what was told of it last."""

    __slots__ = (
        "again",
        "certain",
        "cut",
        "given",
        "has_failed",
        "is_looking",
        "listeners",
        "misread",
        "misreads",
        "missing",
        "path",
        "rests_until",
        "retry_after",
        "timer",
        "token",
        "uri",
        "watching",
    )

    def __init__(self, uri: str, present: Present) -> None:
        self.uri = uri
        """Canonical, without a query."""
        self.token, self.given, self.cut = present
        """As it was told last."""
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
        self.misread = False
        """Whether a client was given something else than what was told."""
        self.misreads = 0
        """How often that was so since the last sweep."""
        self.missing = False
        """Whether it has been absent for less than the grace."""
        self.retry_after = FIRST_RETRY_S
        self.has_failed = False
        """Whether the timer runs because it could not be looked at."""

    @property
    def is_vague(self) -> bool:
        """Whether a comparison may find nothing though something has changed."""
        return self.cut or self.token == INDISTINCT
