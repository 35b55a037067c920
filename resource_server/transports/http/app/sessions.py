"""Sessions of the handshake revisions: one client's connection over many HTTP requests."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import UNSET

from resource_server.access import Caller, Rights, acting
from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.revisions import Revision
from resource_server.protocol.server import Server
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports.http.app.bodies import Bodies, BodyTooLarge
from resource_server.transports.http.app.request import (
    EVENT_STREAM,
    Exchange,
    Headers,
    HttpError,
    HttpRequest,
    shutting_down,
)
from resource_server.transports.http.app.responses import fits_json, refuse, respond
from resource_server.transports.http.app.session import Session, expiry_of
from resource_server.transports.http.app.session_ids import SessionId, SessionIds
from resource_server.transports.http.app.stateless import version_mismatch
from resource_server.transports.http.sse.event_stream import EventStream
from resource_server.transports.http.sse.stream_limits import StreamLimiter, larger_owner

if TYPE_CHECKING:
    from resource_server.transports.http.fleet.shared_sessions import SharedSessions
    from resource_server.transports.http.fleet.store import FleetStore

_DAY_S = 86_400.0
_PRIMED_SINCE = "2025-11-25"


class Sessions:
    """All sessions, at most `max_sessions`, each until it is idle for `idle_s`.

    A session ends with its token, unless a later token was used in it. When there are too many,
    the owner with the most sessions loses one.
    """

    def __init__(
        self,
        server: Server,
        *,
        max_sessions: int,
        idle_s: float,
        store: FleetStore | None = None,
        is_home: Callable[[str], bool] = lambda _: True,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._server = server
        self._is_home = is_home
        """Returns whether a session with this id is one of this process."""
        self._ids = SessionIds(server.key, self._rights)
        self._store = store
        self.fleet = None if store is None else _shared_sessions(store, self.delete, timing)
        """Shares the sessions with other servers; None if this one is alone."""
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._timing = timing
        # The least recently used first.
        self._sessions = OrderedDict[str, Session]()
        self._closing = set[asyncio.Task[None]]()
        self._reaper: asyncio.TimerHandle | None = None
        self.is_closed = False
        """Whether the server ends; its sessions may go on elsewhere."""

    def _rights(self, caller: Caller) -> Rights:
        visibility = self._server.catalog.visibility
        scopes, claims = visibility.rights(caller)
        return Rights(None if scopes is None else scopes & visibility.scopes, claims)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller, owner: str) -> Session:
        """Return a new session, which begins once its client has initialized it.

        Raises:
            HttpError: there are too many.
        """
        self._reap()
        if len(self._sessions) >= self._max_sessions and not self._evict(owner):
            raise HttpError(503, "there are too many sessions", [(b"retry-after", b"60")])
        session = Session(self._server, caller, owner, is_shared=self._store is not None)
        if self._store is not None:
            session.connection.request_name = self._store.request_name
        return session

    def begin(self, session: Session, revision: Revision) -> None:
        """Begin a session whose client has initialized it."""
        issued = self._ids.issued(session.connection, revision, session.caller)
        while not self._is_home(issued.text):
            issued = self._ids.issued(session.connection, revision, session.caller)
        self._add(session, issued)

    def _add(self, session: Session, session_id: SessionId) -> None:
        session.id = session_id.text
        self._sessions[session.id] = session
        if self.fleet is not None:
            self.fleet.add(session, session_id.key)
        if session.expires_at < math.inf:
            self._expire(session)

    def get(self, session_id: str, caller: Caller, owner: str) -> Session:
        """Return a session that the caller may use, continued here if it began elsewhere.

        Raises:
            HttpError: there is none; it has ended, or is another caller's.
        """
        session = self._sessions.get(session_id) or self._continued(session_id, caller, owner)
        if session is None or not self.is_open_to(session, caller):
            raise HttpError(404, "there is no such session")
        session.expires_at = max(session.expires_at, expiry_of(caller))
        return session

    def _continued(self, session_id: str, caller: Caller, owner: str) -> Session | None:
        known = self._ids.opened(session_id, caller)
        if known is None:
            return None
        session = self.open(caller, owner)
        session.is_continued = True
        self._add(session, known)
        session.connection.resume(known.revision, known.capabilities)
        return session

    def is_open_to(self, session: Session, caller: Caller) -> bool:
        """Return whether a caller may use a session now."""
        return is_same_caller(self._server, session.caller, caller)

    @contextmanager
    def in_use(self, session: Session) -> Generator[None]:
        """Count a request; a session with requests is not idle."""
        session.requests += 1
        try:
            yield
        finally:
            session.requests -= 1
            session.last_used = time.monotonic()
            if session.id in self._sessions:
                self._sessions.move_to_end(session.id)

    def delete(self, session: Session) -> None:
        """End a session as its client wishes; it cannot be continued here."""
        self._ids.end(session.id)
        self.end(session)

    def end(self, session: Session) -> None:
        """End a session, if it has not ended."""
        if self.fleet is not None:
            self.fleet.remove(session)
        is_here = self._sessions.get(session.id) is session
        if is_here:
            del self._sessions[session.id]
        if is_here or not session.id:
            task = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _expire(self, session: Session) -> None:
        """End a session whose last token has expired; otherwise check again when it may have."""
        left_s = session.expires_at - time.time()
        if left_s > 0:
            loop = asyncio.get_running_loop()
            session.expiry_timer = loop.call_later(min(left_s, _DAY_S), self._expire, session)
        else:
            self.end(session)

    def _evict(self, owner: str) -> bool:
        """End a session of an owner with far more, or else the one that is idle for longest."""
        largest = larger_owner(owner, (each.owner for each in self._sessions.values()))
        if largest is not None:
            theirs = (each for each in self._sessions.values() if each.owner == largest)
            # The least recently used, if possible one that is not in use now.
            self.end(min(theirs, key=lambda session: session.requests > 0))
            return True
        now = time.monotonic()
        for session in self._sessions.values():
            if now - session.last_used < self._timing.session_evictable_s:
                return False
            if not session.requests:
                self.end(session)
                return True
        return False

    def _reap(self) -> None:
        """End sessions that are idle for too long, and schedule the next such check."""
        if self._reaper is not None:
            self._reaper.cancel()
        limit = time.monotonic() - self._idle_s
        for session in list(self._sessions.values()):
            if session.last_used > limit:
                break
            if not session.requests:
                self.end(session)
        pause_s = max(self._idle_s / 4, 1.0)
        self._reaper = asyncio.get_running_loop().call_later(pause_s, self._reap)

    async def close(self) -> None:
        """End all sessions; requests in flight have a moment to be answered."""
        self.is_closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        drain_s = self._timing.http_drain_s
        await asyncio.gather(*(session.drain(drain_s) for session in sessions), *self._closing)
        if self.fleet is not None:
            await self.fleet.close()


class SessionRequests:
    """Answers POST, GET and DELETE of the handshake revisions, each within a session."""

    def __init__(
        self, sessions: Sessions, streams: StreamLimiter, bodies: Bodies, timing: Timing
    ) -> None:
        self._sessions = sessions
        self._fleet = sessions.fleet
        self._streams = streams
        self._bodies = bodies
        self._timing = timing

    async def handle(self, request: HttpRequest, caller: Caller) -> None:
        """Answer one request.

        Raises:
            HttpError: the request is refused.
            ClientDisconnected: the client has left.
        """
        if request.method == "POST":
            await self._post(request, caller)
        elif request.method == "GET":
            await self._get(request, caller)
        elif request.method == "DELETE":
            session = await self._session(request, caller)
            if self._fleet is not None:
                await self._fleet.delete(session)
            self._sessions.delete(session)
            await request.exchange.respond(204)
        else:
            allowed = [(b"allow", b"GET, POST, DELETE")]
            raise HttpError(405, "the method is not allowed here", allowed)

    async def _post(self, request: HttpRequest, caller: Caller) -> None:
        try:
            body = await self._bodies.read_message(request)
        except BodyTooLarge:
            with suppress(HttpError):
                (await self._session(request, caller)).connection.miss()
            raise
        if request.header(b"mcp-session-id") is None:
            fault = _stray_fault(request.exchange)
            if fault is not None:
                await refuse(request, fault, request.exchange.request_id)
                return
            session = self._sessions.open(caller, request.owner(caller))
        else:
            session = await self._session(request, caller)
        with self._sessions.in_use(session):
            try:
                await self._answer(request, session, body, caller)
            finally:
                if session.connection.revision is None:
                    # Opened by an `initialize` that failed.
                    self._sessions.end(session)

    async def _answer(
        self, request: HttpRequest, session: Session, body: bytes, caller: Caller
    ) -> None:
        exchange = request.exchange
        stream = session.new_stream()
        session.connection.address = request.address
        with acting(caller):
            pending = session.connection.receive(
                body,
                stream.put_response,
                stream.put,
                can_ask=request.accepts(EVENT_STREAM),
                message=exchange.decoded,
            )
        headers: Headers = ()
        if not session.id and session.connection.revision is not None:
            self._sessions.begin(session, session.connection.revision)
            if self._fleet is not None:
                await self._fleet.begin(session)
            headers = [(b"mcp-session-id", session.id.encode())]
        if pending is not None:
            pending.add_done_callback(lambda _: session.end_stream(stream))
            self._bodies.keep(exchange, pending)
        elif stream.response is None:
            await exchange.respond(202, headers=headers)
            return
        is_ready = stream.response is not None and stream.has_only_response
        if not is_ready and not await fits_json(request, stream, self._timing.sse_keep_alive_s):
            session.keep(stream)
            first = _priming_event(session, stream, None)
            await stream.serve(
                request,
                headers=headers,
                first=first,
                until=caller.expires,
                keep_alive_s=self._timing.sse_keep_alive_s,
            )
        elif stream.response is not None:
            await respond(request, stream.response, headers=headers)
        elif session.is_ended:
            if self._sessions.is_closed:
                raise shutting_down()
            raise HttpError(404, "there is no such session any more")
        else:
            # A cancelled request is never answered.
            await exchange.respond(202, headers=headers)

    async def _get(self, request: HttpRequest, caller: Caller) -> None:
        if not request.accepts(EVENT_STREAM):
            raise HttpError(406, "the response is text/event-stream")
        session = await self._session(request, caller)
        last_event = request.header(b"last-event-id")
        if self._fleet is not None:
            if last_event and not self._fleet.resumes(session, last_event):
                last_event = None
        elif session.is_continued:
            raise HttpError(404, "the stream of this session was elsewhere; begin a new session")
        stream, after = session.resume(last_event) if last_event else (session.notifications, None)
        slot = self._streams.slot(request.owner(caller), stream.disconnect)
        with slot, self._sessions.in_use(session):
            if self._fleet is not None and stream is session.notifications:
                await self._fleet.open_stream(session, is_resumed=last_event is not None)
            await stream.serve(
                request,
                after=after,
                first=_priming_event(session, stream, after),
                until=caller.expires,
                # After a reload, one subject may see different mounts with different tokens.
                allowed=lambda: self._sessions.is_open_to(session, caller),
                keep_alive_s=self._timing.sse_keep_alive_s,
            )

    async def _session(self, request: HttpRequest, caller: Caller) -> Session:
        session_id = request.header(b"mcp-session-id")
        if session_id is None:
            raise HttpError(400, "the header Mcp-Session-Id is missing")
        session = self._sessions.get(session_id, caller, request.owner(caller))
        version = request.header(b"mcp-protocol-version")
        revision = session.connection.revision
        if version is not None and revision is not None and version != revision.name:
            raise HttpError(400, f"this session is one of revision {revision.name}")
        if self._fleet is not None:
            await self._fleet.check(session)
        return session


def _priming_event(session: Session, stream: EventStream, after: int | None) -> bytes:
    revision = session.connection.revision
    is_primed = revision is not None and revision.name >= _PRIMED_SINCE
    return stream.priming_event(after) if is_primed else b""


def _stray_fault(exchange: Exchange) -> Fault | None:
    """Return the fault of a message outside any session; None for an `initialize`."""
    message = exchange.message
    if isinstance(message, Fault):
        return message
    if message.method == "initialize" and message.id is not UNSET:
        return None
    if message.fault is not None:
        return message.fault
    if message.version is not UNSET:
        return version_mismatch()
    reason = "begin with initialize; after it the header Mcp-Session-Id is required"
    return Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")


def _shared_sessions(
    store: FleetStore, end: Callable[[Session], None], timing: Timing
) -> SharedSessions:
    # Imported here: most servers are alone.
    from resource_server.transports.http.fleet.shared_sessions import SharedSessions

    return SharedSessions(store, end, timing)


def is_same_caller(server: Server, owner: Caller, caller: Caller) -> bool:
    """Return whether two callers have the same subject and visible mounts."""
    views = server.catalog.visibility
    return caller.subject == owner.subject and views.of(caller).mounts == views.of(owner).mounts
