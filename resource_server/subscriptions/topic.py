"""Topics: watched resources with their subscribers and the state last notified.

The first change of a resource is notified immediately, later ones at most every 50 ms; the last one
is always notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Literal, Protocol

from resource_server.access import EVERYBODY, EVERYTHING, Caller, Rights
from resource_server.catalog.mount import Mount
from resource_server.provider import Path
from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.subscriptions.snapshot import ABSENT, INDISTINCT, DocumentState, Snapshot
from resource_server.subscriptions.watch_runner import WatchRunner

_MAX_MISREADS = 8
"""Maximum comparisons in a row, between two sweeps, because a client has read another state. Reads
of some providers never return what `metadata` says."""


class Listener(Protocol):
    """Receives notifications. Neither method may block or raise."""

    def updated(self, uri: str) -> None:
        """Handle a change, the appearance or the removal of the resource with this canonical URI.

        The URI is the topic's, with a query if the topic compares the result of that query.
        """
        ...

    def list_changed(self) -> None:
        """Handle a change of the listing."""
        ...


class Topic:
    """A subscribed resource as callers with the same rights see it, and its comparisons.

    A topic is idle, or comparing, or waiting for a timer to compare (after a notification, or
    while a vanished resource may come back), or retrying after a failed comparison. `compare` is
    called to start a comparison; it must end in `compared`, `failed` or `cancelled`.
    """

    def __init__(
        self,
        uri: str,
        snapshot: Snapshot,
        compare: Callable[[Topic], None],
        *,
        rights: Rights = EVERYTHING,
        query: Mapping[str, str] | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.uri = uri
        """Canonical URI; has a query only if its result is compared."""
        self.query = query
        """The URI parameters of the compared read; None if the document itself is compared."""
        self.rights = rights
        """The rights of all its listeners."""
        self.path: Path = ()
        self.runner: WatchRunner | None = None
        """Watches the topic's mount; None while no mount has its URI."""
        self.listeners: dict[Listener, Caller] = {}
        """The caller of each listener."""
        self._snapshot_state, self.read_digest, self.is_truncated = snapshot
        self._compare = compare
        self._timing = timing
        self._state: Literal["idle", "comparing", "waiting", "retrying"] = "idle"
        self._timer: asyncio.TimerHandle | None = None
        self._rests_until = float("-inf")
        """When the next comparison is allowed, in loop time."""
        self._is_suspected_again = False
        """Whether another comparison became necessary during the running one."""
        self._is_certain = False
        """Whether the next comparison notifies even if it finds no difference."""
        self._is_misread = False
        """Whether a client has read a state other than the one last notified."""
        self._misreads = 0
        """Number of such reads since the last sweep or the last read of the state notified."""
        self._is_missing = False
        """Whether the resource was absent in the last comparison, for less than the grace."""
        self._backoff = Backoff(timing.compare_retry_s, timing.compare_retry_max_s)

    def copy(self, rights: Rights) -> Topic:
        """Return a topic without listeners, for callers with other rights, to be compared anew."""
        state = Snapshot(self._snapshot_state, self.read_digest, self.is_truncated)
        topic = Topic(
            self.uri, state, self._compare, rights=rights, query=self.query, timing=self._timing
        )
        topic.mark_changed()
        return topic

    @property
    def document(self) -> str:
        """The canonical URI without its query; a query may make a URI too long to be parsed."""
        return self.uri.partition("?")[0]

    @property
    def has_state(self) -> bool:
        """Whether the resource has a version, size or time to compare."""
        return self._snapshot_state != INDISTINCT

    @property
    def is_inconclusive(self) -> bool:
        """Whether a comparison may miss a change."""
        return self.is_truncated or not self.has_state

    @property
    def is_busy(self) -> bool:
        """Whether a comparison runs or is scheduled; a retry does not count."""
        return self._state in ("comparing", "waiting")

    def add_listener(self, listener: Listener, caller: Caller = EVERYBODY) -> None:
        """Notify a listener of this caller from now on."""
        self.listeners[listener] = caller

    def remove_listener(self, listener: Listener) -> None:
        """Stop notifying a listener, if it is one."""
        self.listeners.pop(listener, None)

    def close(self) -> None:
        """Remove all listeners and cancel what is scheduled."""
        self.listeners.clear()
        self.unschedule()

    def unschedule(self) -> None:
        """Cancel a scheduled comparison."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._state = "idle"

    # -- reasons to compare

    def mark_changed(self) -> None:
        """Make the next comparison notify, whatever its result."""
        self._is_certain = True

    def suspect(self, *, is_certain: bool = False) -> None:
        """Compare now, or at the end of the interval if subscribers were just notified."""
        self._is_certain = self._is_certain or is_certain
        if self._state == "comparing":
            self._is_suspected_again = True
            return
        if self._state == "retrying":
            self.unschedule()  # a change is a better reason to compare than the end of a delay
        if self._state == "idle":
            if self._rests_until > asyncio.get_running_loop().time():
                self._schedule(self._rests_until, "waiting")
            else:
                self._begin()

    def note_read(self, digest: Hashable) -> None:
        """Record the state that a client has read; compare if it is not the one last notified.

        `digest` is as `Snapshot.read_digest`.
        """
        if digest == self.read_digest:
            self._misreads = 0
            return
        self._is_misread = True
        self._misreads += 1
        if self._misreads <= _MAX_MISREADS:
            self.suspect()

    def sweep(self) -> None:
        """Compare as part of a sweep."""
        self._misreads = 0
        self.suspect()

    # -- outcomes of a comparison

    def compared(self, snapshot: Snapshot) -> bool:
        """End the comparison; notify the listeners if the snapshot differs from the last one.

        Returns whether it notified them.
        """
        self._state = "idle"
        self._backoff.reset()
        state = snapshot.state
        has_vanished = state == ABSENT and self._snapshot_state != ABSENT
        if has_vanished and not self._is_missing:
            self._is_missing = True
            self._compare_in(self._timing.vanish_grace_s, "waiting")
            return False
        self._is_missing = False
        self.read_digest, self.is_truncated = snapshot.read_digest, snapshot.is_truncated
        is_change_certain = self._is_certain and state != ABSENT
        notifies = state != self._snapshot_state or self._is_misread or is_change_certain
        if notifies:
            self._snapshot_state = state
            self._is_certain = self._is_misread = False
            self._rest()
            for listener in list(self.listeners):
                listener.updated(self.uri)
        elif not isinstance(state, DocumentState):
            self._rest()  # comparing a thousand children takes a while
        self._suspect_again()
        return notifies

    def failed(self) -> None:
        """End the comparison without an outcome; retry it after an increasing delay."""
        self._state = "idle"
        is_suspected_again = self._is_suspected_again
        self._compare_in(self._backoff.next_s(), "retrying")
        self._rest()
        if is_suspected_again:
            self.suspect()

    def cancelled(self) -> None:
        """End the comparison: its outcome is no longer needed."""
        if self._state == "comparing":
            self._state = "idle"

    # -- transitions

    def _begin(self) -> None:
        self._timer = None
        self._state = "comparing"
        self._compare(self)

    def _suspect_again(self) -> None:
        if self._is_suspected_again:
            self._is_suspected_again = False
            self.suspect()

    def _rest(self) -> None:
        self._rests_until = asyncio.get_running_loop().time() + self._timing.notify_interval_s

    def _compare_in(self, seconds: float, state: Literal["waiting", "retrying"]) -> None:
        self._is_suspected_again = False
        if self.listeners:
            self._schedule(asyncio.get_running_loop().time() + seconds, state)

    def _schedule(self, at: float, state: Literal["waiting", "retrying"]) -> None:
        self._state = state
        self._timer = asyncio.get_running_loop().call_at(at, self._begin)


class Topics:
    """All topics, by URI and by mount and path."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, Rights], Topic] = {}
        self._by_path: dict[Mount, dict[Path, dict[Topic, None]]] = {}

    def get(self, uri: str, rights: Rights) -> Topic | None:
        """Return the topic of callers with these rights, by its canonical URI."""
        return self._topics.get((uri, rights))

    def of_listener(self, uri: str, listener: Listener) -> Topic | None:
        """Return the topic of a listener, whatever its rights."""
        for topic in self._topics.values():
            if topic.uri == uri and listener in topic.listeners:
                return topic
        return None

    def add(self, topic: Topic) -> None:
        """Add a topic that is not attached to a mount yet."""
        self._topics[topic.uri, topic.rights] = topic

    def remove(self, topic: Topic) -> None:
        """Remove a topic."""
        self.detach(topic)
        del self._topics[topic.uri, topic.rights]

    def clear(self) -> Sequence[Topic]:
        """Remove and return all topics."""
        topics = self.all()
        self._topics.clear()
        self._by_path.clear()
        return topics

    def all(self) -> Sequence[Topic]:
        """Return all topics."""
        return list(self._topics.values())

    def at(self, mount: Mount, path: Path) -> Sequence[Topic]:
        """Return the topics at a path."""
        return list(self._by_path.get(mount, {}).get(path, ()))

    def in_mount(self, mount: Mount) -> Sequence[Topic]:
        """Return the topics of a mount."""
        return list(chain.from_iterable(self._by_path.get(mount, {}).values()))

    def has_any(self, mount: Mount) -> bool:
        """Return whether a mount has topics."""
        return bool(self._by_path.get(mount))

    @property
    def mounts(self) -> Sequence[Mount]:
        """The mounts that have or had topics."""
        return list(self._by_path)

    def forget_mount(self, mount: Mount) -> None:
        """Forget the paths of a mount's topics: it is no longer watched."""
        self._by_path.pop(mount, None)

    def attach(self, topic: Topic, runner: WatchRunner, path: Path) -> bool:
        """Watch a topic at a path; return whether it is the first one there."""
        topic.runner, topic.path = runner, path
        runner.interest.add(path)
        topics = self._by_path.setdefault(runner.mount, {}).setdefault(path, {})
        topics[topic] = None
        return len(topics) == 1

    def detach(self, topic: Topic) -> None:
        """Stop watching a topic."""
        runner, topic.runner = topic.runner, None
        if runner is None:
            return
        by_path = self._by_path.get(runner.mount, {})
        topics = by_path.get(topic.path, {})
        topics.pop(topic, None)
        if not topics:
            by_path.pop(topic.path, None)
            runner.interest.remove(topic.path)
