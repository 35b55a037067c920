"""Resources that somebody subscribes to, and what was told of each last."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

from resource_server.access import Scopes
from resource_server.catalog.mount import Mount
from resource_server.provider import Path
from resource_server.subscriptions.snapshot import INDISTINCT, Snapshot
from resource_server.subscriptions.watch_runner import WatchRunner

FIRST_RETRY_S = 1.0
"""After a look that failed, before the next."""


class Listener(Protocol):
    """Who is told. Neither method may block or raise."""

    def updated(self, uri: str) -> None:
        """Take note that the resource with this canonical URI has changed, come or gone.

        The URI is that of its topic: with a query where what is read with it is compared.
        """
        ...

    def list_changed(self) -> None:
        """Take note that other resources are listed than before."""
        ...


class Topic:
    """A resource that somebody subscribes to, and what was told of it last.

    Those who have other scopes may see something else: their topic is another one.
    """

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
        "query",
        "rests_until",
        "retry_after",
        "scopes",
        "timer",
        "token",
        "uri",
        "watching",
    )

    def __init__(
        self,
        uri: str,
        present: Snapshot,
        scopes: Scopes = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self.uri = uri
        """Canonical; without a query unless what is read with it is compared."""
        self.query = query
        """With which it is read to be compared; None where the document itself is compared."""
        self.scopes = scopes
        """Of those who listen."""
        self.token, self.given, self.cut = present
        """As it was told last."""
        self.path: Path = ()
        self.watching: WatchRunner | None = None
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
    def document(self) -> str:
        """The canonical URI without the query, which may make it longer than is parsed."""
        return self.uri.partition("?")[0]

    @property
    def is_vague(self) -> bool:
        """Whether a comparison may find nothing though something has changed."""
        return self.cut or self.token == INDISTINCT


class Topics:
    """All topics, by their URIs and by where these lead."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, Scopes], Topic] = {}
        self._places: dict[Mount, dict[Path, dict[Topic, None]]] = {}

    def get(self, uri: str, scopes: Scopes) -> Topic | None:
        """Return the topic of those who have these scopes, by its canonical URI."""
        return self._topics.get((uri, scopes))

    def add(self, topic: Topic) -> None:
        """Take in a topic, which is nowhere yet."""
        self._topics[topic.uri, topic.scopes] = topic

    def remove(self, topic: Topic) -> None:
        """Forget a topic."""
        self.displace(topic)
        del self._topics[topic.uri, topic.scopes]

    def clear(self) -> Sequence[Topic]:
        """Forget and return all topics."""
        every = self.all()
        self._topics.clear()
        self._places.clear()
        return every

    def all(self) -> Sequence[Topic]:
        """Return all topics."""
        return list(self._topics.values())

    def at(self, mount: Mount, path: Path) -> Sequence[Topic]:
        """Return the topics at a path."""
        return list(self._places.get(mount, {}).get(path, ()))

    def of(self, mount: Mount) -> Sequence[Topic]:
        """Return the topics of a mount."""
        return list(chain.from_iterable(self._places.get(mount, {}).values()))

    def has(self, mount: Mount) -> bool:
        """Tell whether a mount has topics."""
        return bool(self._places.get(mount))

    @property
    def mounts(self) -> Sequence[Mount]:
        """The mounts that have or had topics."""
        return list(self._places)

    def close(self, mount: Mount) -> None:
        """Forget where topics of a mount are: it is watched no longer."""
        self._places.pop(mount, None)

    def place(self, topic: Topic, watching: WatchRunner, path: Path) -> bool:
        """Note where a topic is, and watch it there; tell whether it is the first one."""
        topic.watching, topic.path = watching, path
        watching.interest.add(path)
        topics = self._places.setdefault(watching.mount, {}).setdefault(path, {})
        topics[topic] = None
        return len(topics) == 1

    def displace(self, topic: Topic) -> None:
        """Watch a topic no longer."""
        watching, topic.watching = topic.watching, None
        if watching is None:
            return
        places = self._places.get(watching.mount, {})
        topics = places.get(topic.path, {})
        topics.pop(topic, None)
        if not topics:
            places.pop(topic.path, None)
            watching.interest.remove(topic.path)
