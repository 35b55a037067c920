"""Sessions of the handshake revisions: one client's connection over many requests."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from resource_server.access import Caller
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import Refused
from resource_server.transports.http.sse.event_stream import Channel
from resource_server.transports.http.sse.shares import Shares

DRAIN_S = 2.0
"""So long what is in flight may take to be answered when it is to end."""

_DAY_S = 86_400.0
_MAX_CHANNELS = 64
_MAX_KEPT_BYTES = 256 * 1024
_EVICTED_AFTER_S = 60.0
"""Where there is no place for another session, one that is idle for so long makes room."""


class Session:
    """One client: its connection, the stream of what it subscribed to, answers it may resume."""

    def __init__(self, server: Server, caller: Caller, owner: str) -> None:
        self.owner = owner
        """Of whose share it is."""
        self.until = _end_of(caller)
        """When the last token that it was used with ends, in seconds since the epoch."""
        self.expiry: asyncio.TimerHandle | None = None
        """Looks then."""
        self.id = secrets.token_urlsafe(16)
        self.caller = caller
        """Whose token opened it; nobody else may use it, nor they where they see other things."""
        self.told = Channel(b"0")
        """What belongs to no request."""
        self.connection = ClientConnection(server, push=self.told.tell, push_room=self.told.room)
        self.connection.owner = owner
        self.used = time.monotonic()
        self.requests = 0
        """As many are being answered; streams are among them."""
        self.is_ended = False
        self._channels = OrderedDict[bytes, Channel]()
        self._count = 0

    def channel(self) -> Channel:
        """Return a channel for the answer to one request."""
        self._count += 1
        return Channel(b"%d" % self._count)

    def keep(self, channel: Channel) -> None:
        """Keep a channel for who was cut off and asks for the rest; perhaps others no longer."""
        if channel.name is not None and channel.size <= _MAX_KEPT_BYTES:
            self._channels[channel.name] = channel
            self._forget()

    def answered(self, channel: Channel) -> None:
        """Take note that nothing more will be put in a channel: now its length is known."""
        channel.end()
        if channel.size > _MAX_KEPT_BYTES and channel.name is not None:
            self._channels.pop(channel.name, None)
        self._forget()

    def _forget(self) -> None:
        size = sum(each.size for each in self._channels.values())
        while size > _MAX_KEPT_BYTES or len(self._channels) > _MAX_CHANNELS:
            _, dropped = self._channels.popitem(last=False)
            size -= dropped.size

    def resumed(self, event_id: str) -> tuple[Channel, int | None]:
        """Return the channel that an event was on, and its number there.

        Raises:
            Refused: what came after it is not kept.
        """
        name, _, number = event_id.partition("-")
        channel = self.told if name == "0" else self._channels.get(name.encode("latin-1"))
        if channel is None or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise Refused(400, "there is no such event in this session")
        if not channel.keeps(int(number)):
            raise Refused(400, "what came after this event is not kept any more")
        return channel, int(number)

    async def close(self) -> None:
        """End its streams and cancel what is in flight."""
        self.is_ended = True
        if self.expiry is not None:
            self.expiry.cancel()
        await self.connection.close()
        for channel in (self.told, *self._channels.values()):
            channel.end()

    async def drain(self) -> None:
        """Let what is in flight be answered, for a moment, and then close it."""
        await self.connection.drain(DRAIN_S)
        await self.close()


class Sessions:
    """All sessions, at most `most`, each for as long as it is used every `idle` seconds.

    It ends with its token, unless another one was used. Where there is no place for a session,
    whoever has most loses one.
    """

    def __init__(self, server: Server, *, most: int, idle: float) -> None:
        self._server = server
        self._most = most
        self._idle = idle
        # In the order in which they were used, the least recently used first.
        self._sessions = OrderedDict[str, Session]()
        self._shares = Shares()
        self._closing = set[asyncio.Task[None]]()
        self._reaper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller, owner: str) -> Session:
        """Begin a session, one more of an owner.

        Raises:
            Refused: there are too many.
        """
        self._reap()
        if len(self._sessions) >= self._most and not self._evict(owner):
            raise Refused(503, "there are too many sessions", [(b"retry-after", b"60")])
        session = Session(self._server, caller, owner)
        self._sessions[session.id] = session
        self._shares.add(owner)
        if session.until < math.inf:
            self._expire(session)
        return session

    def get(self, session_id: str, caller: Caller) -> Session:
        """Return a session that the caller has opened.

        Raises:
            Refused: there is none; it has ended, or is somebody else's.
        """
        session = self._sessions.get(session_id)
        if session is None or not self.is_open_to(session, caller):
            raise Refused(404, "there is no such session")
        session.until = max(session.until, _end_of(caller))
        return session

    def is_open_to(self, session: Session, caller: Caller) -> bool:
        """Tell whether a caller may use a session now."""
        return is_same(self._server, session.caller, caller)

    @contextmanager
    def using(self, session: Session) -> Generator[None]:
        """Answer a request in a session, which does not become idle before it is answered."""
        session.requests += 1
        try:
            yield
        finally:
            session.requests -= 1
            session.used = time.monotonic()
            if session.id in self._sessions:
                self._sessions.move_to_end(session.id)

    def end(self, session: Session) -> None:
        """End a session."""
        if self._sessions.pop(session.id, None) is not None:
            self._shares.remove(session.owner)
            task = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _expire(self, session: Session) -> None:
        """End a session if its last token has ended; else look again when that may be so."""
        left = session.until - time.time()
        if left > 0:
            loop = asyncio.get_running_loop()
            session.expiry = loop.call_later(min(left, _DAY_S), self._expire, session)
        else:
            self.end(session)

    def _evict(self, owner: str) -> bool:
        """End a session of who has far more than an owner, or the one that is idle for longest."""
        if (richer := self._shares.richer(owner)) is not None:
            theirs = (each for each in self._sessions.values() if each.owner == richer)
            # The least recently used, rather one that is not in use now.
            self.end(min(theirs, key=lambda session: session.requests > 0))
            return True
        now = time.monotonic()
        for session in self._sessions.values():
            if now - session.used < _EVICTED_AFTER_S:
                return False
            if not session.requests:
                self.end(session)
                return True
        return False

    def _reap(self) -> None:
        """End what was not used for too long, and look again when the next one may be due."""
        if self._reaper is not None:
            self._reaper.cancel()
        limit = time.monotonic() - self._idle
        for session in list(self._sessions.values()):
            if session.used > limit:
                break
            if not session.requests:
                self.end(session)
        pause = max(self._idle / 4, 1.0)
        self._reaper = asyncio.get_running_loop().call_later(pause, self._reap)

    async def close(self) -> None:
        """End all sessions: what is in flight may be answered for a moment."""
        if self._reaper is not None:
            self._reaper.cancel()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._shares = Shares()
        await asyncio.gather(*(session.drain() for session in sessions), *self._closing)


def _end_of(caller: Caller) -> float:
    return math.inf if caller.expires is None else caller.expires


def is_same(server: Server, owner: Caller, caller: Caller) -> bool:
    """Tell whether a caller may use what another opened: who sees the same, under the same name."""
    views = server.catalog.visibility
    seen, before = views.for_scopes(caller.scopes), views.for_scopes(owner.scopes)
    return caller.subject == owner.subject and seen.mounts == before.mounts
