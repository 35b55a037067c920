"""Sessions that any server of a fleet answers.

The store has the subscriptions of a session. The server that has its stream observes the sources
itself, and compares its subscriptions with the store's at every change, whenever the stream is
opened, and now and then: a lost message delays, and loses nothing. A stream that continues at
another server notifies of every resource whose present state the client may not know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from resource_server.access import acting
from resource_server.errors import ResourceBusy
from resource_server.protocol.client_connection import LISTS
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.params import LoggingLevel
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.snapshot import ABSENT, INDISTINCT, DocumentState
from resource_server.transports.http.app.request import HttpError
from resource_server.transports.http.app.session import Session
from resource_server.transports.http.fleet.store import Delivery, FleetStore, StoreUnavailable

_MAX_SYNCS = 16
"""Maximum sessions that are compared with the store at a time."""
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_DIGEST_BYTES = 8
_AGAIN = "the servers of this fleet cannot agree on subscriptions now; try again"

_encode = msgspec.json.Encoder().encode


class _Event(NamedTuple):
    """The last event of a stream that a client has received."""

    stream: str
    number: int


class SharedSession:
    """One session as this server has it, and what the others must know of it."""

    def __init__(self, fleet: SharedSessions, session: Session, key: bytes) -> None:
        self.session = session
        self.key = key
        self.is_stale = session.is_continued
        """Whether the store may know of changes that are unknown here."""
        self.told: dict[str, Delivery] = {}
        """Notifications that the store does not know of yet."""
        self._fleet = fleet
        self._own = session.connection.subscriptions
        self._change = -1
        """The state of the store that the subscriptions here have; -1 for none."""
        self._last_event: _Event | None = None
        """Where the client has opened the stream."""
        self._missing = frozenset[str]()
        """Subscriptions to resources that do not exist now."""
        self._unread_since: float | None = None
        self._lock = asyncio.Lock()

    @property
    def has_stream(self) -> bool:
        """Whether the client reads its stream of notifications here."""
        return self.session.notifications.is_read

    # -- told by the connection

    async def subscribed(self, uri: str) -> None:
        """Record a subscription, with the state that the client has read here."""
        read = _digest(self._own.read_state(uri))
        told = {uri: Delivery("", 0, read)} if read else {}
        await self._record(self._fleet.store.subscribe(self.key, [uri], told))
        if not self.has_stream:
            self._own.unsubscribe(uri)
        elif not read:
            self._own.updated(uri)  # the client may have read an older state elsewhere

    async def unsubscribed(self, uri: str) -> None:
        """Record the end of a subscription."""
        await self._record(self._fleet.store.unsubscribe(self.key, uri))

    async def _record(self, change: Coroutine[Any, Any, None]) -> None:
        try:
            await change
        except StoreUnavailable:
            raise ResourceBusy(_AGAIN) from None

    def notified(self, uri: str) -> None:
        """Note the event of a notification, for the store."""
        stream = self.session.notifications
        self.told[uri] = Delivery(self._stream, stream.last, _digest(self._own.state(uri)))
        self._fleet.tell_later(self)

    def level_set(self, level: LoggingLevel) -> None:
        """Record the level of log messages."""
        self._fleet.run(self._fleet.store.set_level(self.key, level))

    def responded(self, response: JsonRpcMessage) -> None:
        """Send a response to the server that waits for it."""
        members = {"result": response.result, "error": response.error}
        given = {name: value for name, value in members.items() if value is not UNSET}
        encoded = _encode({"jsonrpc": "2.0", "id": response.id, **given})
        if len(encoded) <= _MAX_RESPONSE_BYTES:
            self._fleet.run(self._fleet.store.respond(response.id, self.key, encoded))

    # -- compared with the store

    async def open_stream(self, last_event: str | None) -> None:
        """Prepare for a client that opens the stream, after the event that it received last."""
        stream, _, number = (last_event or "").rpartition("-")
        is_event = number.isascii() and number.isdigit() and len(number) < 16
        self._last_event = _Event(stream, int(number)) if is_event else None
        self._unread_since = None
        is_new = self.session.connection.follow_lists()
        if is_new and self.session.is_continued:
            for name in LISTS:
                self._own.list_changed(name)
        with suppress(StoreUnavailable):
            await self.sync(is_opening=True)

    async def sync(self, *, is_opening: bool = False) -> None:
        """Take over what the store has, or give it what it has lost.

        Raises:
            HttpError: the session has ended, or its subscriptions are lost.
            StoreUnavailable: the store does not answer.
        """
        async with self._lock:
            self.is_stale = False
            try:
                await self._sync(is_opening=is_opening)
            except StoreUnavailable:
                self.is_stale = True
                raise

    async def _sync(self, *, is_opening: bool) -> None:
        store = self._fleet.store
        state = await store.load(self.key)
        if state is None:
            if is_opening and self.session.is_continued and self._change < 0:
                raise HttpError(404, "the subscriptions of this session are lost; begin a new one")
            if self.has_stream or not self.session.is_continued:
                await store.subscribe(self.key, self._own.uris, {})
                self._change = 0
            return
        if state.is_ended:
            self._fleet.end(self.session)
            raise HttpError(404, "there is no such session")
        if state.level is not None:
            self.session.connection.set_log_level(state.level)
        if is_opening or self.has_stream:
            self._unread_since = None
            if state.change != self._change or self._missing:
                await self._take(await store.subscriptions(self.key))
                self._change = state.change
        elif self._own.uris:
            self._release()

    def _release(self) -> None:
        """Stop observing for a client that has left for longer than a comparison's interval."""
        if self._unread_since is None:
            self._unread_since = time.monotonic()
        elif time.monotonic() - self._unread_since > self._fleet.timing.fleet_sync_s:
            self._change = -1
            for uri in self._own.uris:
                self._own.unsubscribe(uri)

    async def _take(self, wanted: Mapping[str, Delivery | None]) -> None:
        """Have the subscriptions of the store; notify of those whose state may be unknown."""
        for uri in self._own.uris - wanted.keys():
            self._own.unsubscribe(uri)
        new = sorted(wanted.keys() - self._own.uris)
        with acting(self.session.caller):
            honoured = set(await self._own.subscribe_all(new))
        missing = frozenset(new) - honoured
        for uri in new:
            state = self._own.state(uri) if uri in honoured else ABSENT
            digest = _digest(state)
            if uri in self._missing & missing:
                continue
            if self._knows(wanted[uri], digest):
                # From now on, this stream's events tell what the client has received.
                self.told[uri] = Delivery(self._stream, self.session.notifications.last, digest)
                self._fleet.tell_later(self)
            else:
                self._own.updated(uri)
        self._missing = missing

    def _knows(self, told: Delivery | None, digest: str) -> bool:
        """Return whether the client has certainly received this state, or its notification."""
        if told is None or not digest or told.digest != digest:
            return False
        last = self._last_event
        return (
            not told.stream
            or (told.stream == self._stream and self.has_stream)
            or (last is not None and told.stream == last.stream and told.number <= last.number)
        )

    @property
    def _stream(self) -> str:
        return (self.session.notifications.name or b"").decode()


class SharedSessions:
    """The sessions that this server answers, of all of its fleet.

    `end` ends a session here that its client has ended elsewhere.
    """

    def __init__(self, store: FleetStore, end: Callable[[Session], None], timing: Timing) -> None:
        self.store = store
        self.end = end
        self.timing = timing
        self._sessions: dict[bytes, SharedSession] = {}
        self._by_id: dict[Session, SharedSession] = {}
        self._untold: dict[SharedSession, None] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._syncing = set[SharedSession]()
        self._slots = asyncio.Semaphore(_MAX_SYNCS)
        self._keepers: Iterable[asyncio.Task[None]] = ()

    def add(self, session: Session, key: bytes) -> None:
        """Share a session that begins, or is continued here."""
        if not self._keepers:
            loop = asyncio.get_running_loop()
            listening = self.store.listen(self._changed, self._responded, self._returned)
            self._keepers = [
                loop.create_task(each) for each in (listening, self._compare(), self._tell())
            ]
        shared = SharedSession(self, session, key)
        session.connection.shared = session.connection.subscriptions.shared = shared
        self._sessions[key] = self._by_id[session] = shared

    def remove(self, session: Session) -> None:
        """Forget a session that has ended here."""
        shared = self._by_id.pop(session, None)
        if shared is not None:
            self._untold.pop(shared, None)
            self._sessions.pop(shared.key, None)

    async def begin(self, session: Session) -> None:
        """Record a session that begins."""
        with suppress(StoreUnavailable):
            await self.store.begin(self._by_id[session].key)

    async def check(self, session: Session) -> None:
        """Learn what other servers have changed, before a request.

        Raises:
            HttpError: the client has ended the session.
        """
        shared = self._by_id.get(session)
        if shared is not None and shared.is_stale:
            with suppress(StoreUnavailable):
                await shared.sync()

    async def open_stream(self, session: Session, last_event: str | None) -> None:
        """Prepare for a client that opens the stream of notifications.

        Raises:
            HttpError: the session has ended, or its subscriptions are lost.
        """
        if shared := self._by_id.get(session):
            await shared.open_stream(last_event)

    def has_sent(self, session: Session, event_id: str) -> bool:
        """Return whether an event is not one of a stream of notifications elsewhere."""
        stream = event_id.rpartition("-")[0].encode("latin-1")
        return not stream.startswith(b"0.") or stream == session.notifications.name

    async def delete(self, session: Session) -> None:
        """Record that a client has ended its session."""
        if shared := self._by_id.get(session):
            with suppress(StoreUnavailable):
                await self.store.end(shared.key)

    async def close(self) -> None:
        """Tell the store of the last notifications, and end."""
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._tell_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    # -- in the background

    def run(self, call: Coroutine[Any, Any, None]) -> None:
        """Run a call whose failure changes nothing here."""

        async def run() -> None:
            with suppress(StoreUnavailable):
                await call

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell_later(self, shared: SharedSession) -> None:
        """Tell the store soon what a session was notified of."""
        self._untold[shared] = None

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(self.timing.fleet_tell_s)
            await self._tell_all()

    async def _tell_all(self) -> None:
        for shared in list(self._untold):
            told, shared.told = shared.told, {}
            try:
                if told:
                    await self.store.tell(shared.key, told)
            except StoreUnavailable:
                shared.told = {**told, **shared.told}
                return
            if not shared.told:
                self._untold.pop(shared, None)

    async def _compare(self) -> None:
        while True:
            with suppress(StoreUnavailable):
                await self.store.beat()
            await asyncio.sleep(self.timing.fleet_sync_s)
            self._sync_all()

    def _sync_all(self) -> None:
        for shared in list(self._sessions.values()):
            if shared.has_stream or shared.session.connection.subscriptions.uris:
                self._sync_soon(shared)

    def _sync_soon(self, shared: SharedSession) -> None:
        if shared not in self._syncing:
            self._syncing.add(shared)
            self.run(self._sync(shared))

    async def _sync(self, shared: SharedSession) -> None:
        async with self._slots:
            self._syncing.discard(shared)
            with suppress(HttpError):
                await shared.sync()

    # -- told by the store

    def _changed(self, key: bytes) -> None:
        if shared := self._sessions.get(key):
            shared.is_stale = True
            if shared.has_stream:
                self._sync_soon(shared)

    def _responded(self, key: bytes, response: bytes) -> None:
        if shared := self._sessions.get(key):
            with acting(shared.session.caller):
                shared.session.connection.receive(response, _ignore, _ignore)

    def _returned(self) -> None:
        for shared in self._sessions.values():
            shared.is_stale = True
        self._sync_all()


def _ignore(_: bytes) -> None:
    """Drop a reply to what another server has sent."""


def _digest(state: Hashable) -> str:
    """Return a digest of a state that all servers compute alike; empty for another one."""
    if not isinstance(state, DocumentState) or state == INDISTINCT:
        return ""
    return blake2b(_encode(state), digest_size=_DIGEST_BYTES).hexdigest()
