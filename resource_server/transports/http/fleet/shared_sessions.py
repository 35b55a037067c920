"""Sessions that any server of a fleet answers.

The store has the subscriptions of a session. The server that has its stream observes the sources
itself, and compares its subscriptions with the store's at every change, whenever the stream is
opened, and now and then: a lost message delays, and loses nothing. A stream that continues at
another server begins with a notification of everything that the client is subscribed to.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from resource_server.access import acting
from resource_server.errors import ResourceBusy
from resource_server.protocol.client_connection import LISTS
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.params import LoggingLevel
from resource_server.runtime.eager import settle
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.request import HttpError
from resource_server.transports.http.app.session import Session
from resource_server.transports.http.fleet.store import FleetStore, StoreUnavailable

logger = logging.getLogger(__name__)

_MAX_SYNCS = 16
"""Maximum sessions that are compared with the store at a time."""
_MAX_RESPONSES = 256
"""Maximum responses on their way to other servers."""
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_MAX_UNRECORDED_ENDS = 10_000
_OPENING_S = 5.0
"""A stream that is being opened counts as read for this time."""
_AGAIN = "the servers of this fleet cannot agree on subscriptions now; try again"

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class SharedSession:
    """One session as this server has it, and what the others must know of it."""

    def __init__(self, fleet: SharedSessions, session: Session, key: bytes) -> None:
        self.session = session
        self.key = key
        self.is_stale = session.is_continued
        """Whether the store may know of changes that are unknown here."""
        self.unrecorded_level: LoggingLevel | None = None
        """The level of log messages that the store does not know of yet."""
        self._is_unrecorded = False
        """Whether it began while the store could not record that, and is not recorded yet."""
        self._fleet = fleet
        self._own = session.connection.subscriptions
        self._seen: tuple[str | None, int] | None = None
        """The record of the store, and its change, that the subscriptions here have."""
        self._missing = frozenset[str]()
        """Subscriptions to resources that do not exist now."""
        self._recorded = set[str]()
        """Subscriptions that were recorded from here: the store may lose them."""
        self._epoch: str | None = ""
        """The record that had them, at the last look; none has this name before."""
        self._unread_since: float | None = None
        self._is_released = False
        """Whether the sources were not observed since the stream was read."""
        self._opening_until = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def has_stream(self) -> bool:
        """Whether the client reads its stream of notifications here."""
        return self.session.notifications.is_read or time.monotonic() < self._opening_until

    @property
    def must_follow(self) -> bool:
        """Whether this server has something to compare with the store now and then."""
        return self.has_stream or bool(self._recorded or self._own.uris)

    # -- told by the connection

    async def subscribed(self, uri: str) -> None:
        """Record a subscription."""
        await settle(self._record_subscription(uri))

    async def _record_subscription(self, uri: str) -> None:
        async with self._lock:
            await _recorded(self.begin_late())
            number = await _recorded(self._fleet.store.subscribe(self.key, [uri]))
            self._recorded.add(uri)
            if self._seen is not None and self._seen[1] == number - 1:
                self._seen = self._seen[0], number  # nobody else has changed anything
            if not self.has_stream:
                self._own.unsubscribe(uri)
                self._seen = None
            elif self._own.read_state(uri) is None:
                self._own.updated(uri)  # the client may have read an older state elsewhere

    async def unsubscribed(self, uri: str) -> None:
        """Record the end of a subscription."""
        await settle(self._record_end(uri))

    async def _record_end(self, uri: str) -> None:
        await _recorded(self._fleet.store.unsubscribe(self.key, uri))
        self._recorded.discard(uri)

    def level_set(self, level: LoggingLevel) -> None:
        """Record the level of log messages."""
        self.unrecorded_level = level
        self._fleet.record_level(self)

    def responded(self, response: JsonRpcMessage) -> None:
        """Send a response to the server that waits for it."""
        members = {"result": response.result, "error": response.error}
        given = {name: value for name, value in members.items() if value is not UNSET}
        encoded = _encode({"jsonrpc": "2.0", "id": response.id, **given})
        if len(encoded) <= _MAX_RESPONSE_BYTES:
            self._fleet.respond(response.id, self.key, encoded)

    # -- compared with the store

    async def begin(self) -> None:
        """Record a session that begins.

        Raises:
            StoreUnavailable: it is not recorded.
        """
        self._is_unrecorded = True
        self._seen = (await self._fleet.store.begin(self.key), 0)
        self._is_unrecorded = False

    async def begin_late(self) -> None:
        """Record a session whose beginning could not be recorded; otherwise do nothing.

        Raises:
            StoreUnavailable: it is not recorded.
        """
        if self._is_unrecorded:
            # As a change: other servers may have subscriptions of it, or its stream.
            await self._fleet.store.subscribe(self.key, (), is_new_record=True)
            self._seen = None
            self._is_unrecorded = False

    async def open_stream(self, *, is_resumed: bool) -> None:
        """Prepare for a client that opens the stream.

        With `is_resumed`, it has all events of this stream before those that follow.

        Raises:
            HttpError: the session has ended, or its subscriptions are lost.
        """
        is_known = is_resumed and not self._is_released
        self._unread_since = None
        self._is_released = False
        self._missing = frozenset[str]()
        if self.session.connection.follow_lists() or not is_known:
            for name in LISTS:
                self._own.list_changed(name)
        self._opening_until = time.monotonic() + _OPENING_S
        try:
            await self.sync(is_opening=True)
        except StoreUnavailable:
            self._seen = None  # whatever was subscribed to elsewhere is unknown
        if not is_known:
            # What is missing now may have been there when the client read it.
            for uri in self._own.uris | self._missing:
                self._own.updated(uri)

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
        await self.begin_late()
        state = await self._fleet.store.load(self.key)
        if state is not None and state.is_ended:
            self._fleet.end(self.session)
            raise HttpError(404, "there is no such session")
        if state is not None and state.level is not None and self.unrecorded_level is None:
            self.session.connection.set_log_level(state.level)
        if not self.has_stream:
            await self._restore(None if state is None else state.epoch)
            self._release()
            return
        self._unread_since = None
        if state is None or state.epoch is None:
            if is_opening:
                raise HttpError(404, "the subscriptions of this session are lost; begin a new one")
            if self._seen is None:
                self.session.notifications.disconnect()  # so that the client learns of it
                return
            known = self._own.uris | self._recorded | self._missing
            await self._fleet.store.subscribe(self.key, known, is_new_record=True)
        elif (state.epoch, state.change) != self._seen or self._missing or is_opening:
            await self._take(state.epoch)
            self._seen = (state.epoch, state.change)

    async def _take(self, epoch: str) -> None:
        """Have the subscriptions of the store, and record there those that it has lost."""
        wanted, gone = await self._fleet.store.subscriptions(self.key, epoch)
        self._recorded -= gone
        for uri in self._own.uris & gone:
            self._own.unsubscribe(uri)
        if lost := self._own.uris - wanted:
            await self._fleet.store.subscribe(self.key, lost)
        new = sorted(wanted - self._own.uris)
        with acting(self.session.caller):
            honoured = await self._own.subscribe_all(new)
        missing = frozenset(new) - frozenset(honoured)
        for uri in frozenset(new) - (self._missing & missing):
            self._own.updated(uri)  # the client may have read an older version elsewhere
        self._missing = missing

    async def _restore(self, epoch: str | None) -> None:
        """Give another record again what the last one had from here."""
        if self._recorded and epoch != self._epoch:
            wanted, gone = await self._fleet.store.subscriptions(self.key, epoch)
            self._recorded -= gone
            if lost := self._recorded - wanted:
                await self._fleet.store.subscribe(self.key, lost)
        self._epoch = epoch

    def _release(self) -> None:
        """Stop observing for a client that has left for longer than a comparison's interval."""
        if not self._own.uris:
            return
        if self._unread_since is None:
            self._unread_since = time.monotonic()
        elif time.monotonic() - self._unread_since > self._fleet.timing.fleet_sync_s:
            self._seen = None
            self._is_released = True
            for uri in self._own.uris:
                self._own.unsubscribe(uri)


async def _recorded(change: Coroutine[Any, Any, T]) -> T:
    """Wait until the store has a change.

    Raises:
        ResourceBusy: it has not.
    """
    try:
        return await change
    except StoreUnavailable:
        raise ResourceBusy(_AGAIN) from None


class SharedSessions:
    """The sessions that this server answers, of all of its fleet.

    `end` ends a session here for good, which its client has ended elsewhere.
    """

    def __init__(self, store: FleetStore, end: Callable[[Session], None], timing: Timing) -> None:
        self.store = store
        self.end = end
        self.timing = timing
        self._by_key: dict[bytes, SharedSession] = {}
        self._by_session: dict[Session, SharedSession] = {}
        self._begins: dict[SharedSession, None] = {}
        """Sessions whose beginning is not recorded."""
        self._levels: dict[SharedSession, None] = {}
        """Sessions whose level is not recorded."""
        self._ends: dict[bytes, None] = {}
        """Sessions whose end is not recorded."""
        self._unrecorded = asyncio.Event()
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
                loop.create_task(each) for each in (listening, self._compare(), self._record())
            ]
        shared = SharedSession(self, session, key)
        session.connection.shared = session.connection.subscriptions.shared = shared
        self._by_key[key] = self._by_session[session] = shared

    def remove(self, session: Session) -> None:
        """Forget a session that has ended here."""
        shared = self._by_session.pop(session, None)
        if shared is not None:
            self._begins.pop(shared, None)
            self._levels.pop(shared, None)
            if self._by_key.get(shared.key) is shared:
                del self._by_key[shared.key]

    async def begin(self, session: Session) -> None:
        """Record a session that begins."""
        shared = self._by_session[session]
        if not await self._is_recorded(shared.begin()):
            self._begins[shared] = None
            self._unrecorded.set()

    async def check(self, session: Session) -> None:
        """Learn what other servers have changed, before a request.

        Raises:
            HttpError: the client has ended the session.
        """
        shared = self._by_session.get(session)
        if shared is not None and shared.is_stale:
            with suppress(StoreUnavailable):
                await shared.sync()

    def resumes(self, session: Session, event_id: str) -> bool:
        """Return whether a stream goes on here after an event.

        A stream of notifications begins anew after an event of another server, or of long ago.
        """
        stream, _, number = event_id.rpartition("-")
        if not stream.startswith("0."):
            return True
        own = session.notifications
        is_number = number.isascii() and number.isdigit() and len(number) < 16
        is_own = stream.encode("latin-1") == own.name
        return is_own and is_number and own.can_resume(int(number))

    async def open_stream(self, session: Session, *, is_resumed: bool) -> None:
        """Prepare for a client that opens the stream of notifications.

        Raises:
            HttpError: the session has ended, or its subscriptions are lost.
        """
        if shared := self._by_session.get(session):
            await shared.open_stream(is_resumed=is_resumed)

    async def delete(self, session: Session) -> None:
        """Record that a client has ended its session."""
        shared = self._by_session.get(session)
        if shared is None:
            return
        try:
            await self.store.end(shared.key)
        except StoreUnavailable:
            if len(self._ends) < _MAX_UNRECORDED_ENDS:
                self._ends[shared.key] = None
                self._unrecorded.set()

    async def close(self) -> None:
        """End what runs in the background."""
        tasks = [*self._keepers, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.store.close()

    # -- in the background

    def respond(self, request_id: object, key: bytes, response: bytes) -> None:
        """Send a client's response to the server that waits for it; drop it if there are many."""
        if len(self._tasks) < _MAX_RESPONSES:
            self._run(self.store.respond(request_id, key, response))

    def record_level(self, shared: SharedSession) -> None:
        """Record the level of log messages of a session as soon as the store takes it."""
        self._levels[shared] = None
        self._unrecorded.set()

    def _run(self, call: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await call
            except StoreUnavailable:
                pass
            except Exception:
                logger.exception("a session could not be compared with its fleet's")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record(self) -> None:
        """Record what the store has not taken yet, as soon as it does."""
        while True:
            await self._unrecorded.wait()
            self._unrecorded.clear()
            refused = 0
            for shared in list(self._begins):
                if await self._is_recorded(shared.begin_late()):
                    self._begins.pop(shared, None)
                else:
                    refused += 1
            for key in list(self._ends):
                if await self._is_recorded(self.store.end(key)):
                    self._ends.pop(key)
                else:
                    refused += 1
            for shared in list(self._levels):
                level = shared.unrecorded_level
                if level is None or await self._is_recorded(
                    self.store.set_level(shared.key, level)
                ):
                    if shared.unrecorded_level == level:
                        self._levels.pop(shared, None)
                        shared.unrecorded_level = None
                else:
                    refused += 1
            if refused:
                await asyncio.sleep(self.timing.fleet_save_s)
                self._unrecorded.set()

    async def _is_recorded(self, call: Coroutine[Any, Any, None]) -> bool:
        try:
            await call
        except StoreUnavailable:
            return False
        return True

    async def _compare(self) -> None:
        while True:
            with suppress(StoreUnavailable):
                await self.store.beat()
            await asyncio.sleep(self.timing.fleet_sync_s)
            self._sync_all()

    def _sync_all(self) -> None:
        for shared in list(self._by_key.values()):
            if shared.must_follow:
                self._sync_soon(shared)

    def _sync_soon(self, shared: SharedSession) -> None:
        if shared not in self._syncing:
            self._syncing.add(shared)
            self._run(self._sync(shared))

    async def _sync(self, shared: SharedSession) -> None:
        async with self._slots:
            self._syncing.discard(shared)
            with suppress(HttpError):
                await shared.sync()

    # -- told by the store

    def _changed(self, key: bytes) -> None:
        if shared := self._by_key.get(key):
            shared.is_stale = True
            if shared.must_follow:
                self._sync_soon(shared)

    def _responded(self, key: bytes, response: bytes) -> None:
        if shared := self._by_key.get(key):
            with acting(shared.session.caller):
                shared.session.connection.receive(response, _ignore, _ignore)

    def _returned(self) -> None:
        for shared in self._by_key.values():
            shared.is_stale = True
        self._sync_all()


def _ignore(_: bytes) -> None:
    """Drop a reply to what another server has sent."""
