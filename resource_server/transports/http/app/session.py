"""One session of a handshake revision: its connection, and its streams."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import OrderedDict

from resource_server.access import Caller
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from resource_server.transports.http.app.request import HttpError
from resource_server.transports.http.sse.event_stream import EventStream

_MAX_RESUMABLE_STREAMS = 64
_MAX_RESUMABLE_BYTES = 256 * 1024
"""Maximum bytes of the responses that one session keeps for clients that reconnect."""


class Session:
    """One client: its connection, its stream of notifications, and responses it may resume."""

    def __init__(
        self, server: Server, caller: Caller, owner: str, *, is_shared: bool = False
    ) -> None:
        self.id = ""
        """Empty until the session has begun."""
        self.is_continued = False
        """Whether it has begun at another server, or before a restart."""
        self.owner = owner
        """The key by which limits count the session."""
        self.caller = caller
        """The caller that opened it; see `Sessions.is_open_to`."""
        self.expires_at = expiry_of(caller)
        """When the last of its tokens expires, in seconds since the epoch."""
        self.expiry_timer: asyncio.TimerHandle | None = None
        # Where several servers answer, the names of their streams must differ.
        self._suffix = f".{secrets.token_hex(6)}".encode() if is_shared else b""
        self.notifications = EventStream(b"0" + self._suffix)
        """Notifications and requests that belong to no request of the client."""
        self.connection = ClientConnection(
            server, push=self.notifications.put_once, push_room=self.notifications.room
        )
        self.connection.owner = owner
        self.last_used = time.monotonic()
        self.requests = 0
        """Requests being answered, streams included."""
        self.is_ended = False
        self._streams = OrderedDict[bytes, EventStream]()
        self._stream_count = 0

    def new_stream(self) -> EventStream:
        """Return a stream for the response to one request."""
        self._stream_count += 1
        return EventStream(b"%d%b" % (self._stream_count, self._suffix))

    def keep(self, stream: EventStream) -> None:
        """Keep a stream for a disconnected client, dropping the oldest to make room."""
        if stream.name is not None and stream.kept_bytes <= _MAX_RESUMABLE_BYTES:
            self._streams[stream.name] = stream
            self._drop_oldest()

    def end_stream(self, stream: EventStream) -> None:
        """End a stream whose request is answered, now that its length is known."""
        stream.end()
        if stream.kept_bytes > _MAX_RESUMABLE_BYTES and stream.name is not None:
            self._streams.pop(stream.name, None)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        size = sum(each.kept_bytes for each in self._streams.values())
        while size > _MAX_RESUMABLE_BYTES or len(self._streams) > _MAX_RESUMABLE_STREAMS:
            _, dropped = self._streams.popitem(last=False)
            size -= dropped.kept_bytes

    def resume(self, event_id: str) -> tuple[EventStream, int]:
        """Return the stream of an event, and the event's number there.

        Raises:
            HttpError: later messages are no longer kept.
        """
        name, _, number = event_id.partition("-")
        encoded = name.encode("latin-1")
        is_notified = encoded == self.notifications.name
        stream = self.notifications if is_notified else self._streams.get(encoded)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise HttpError(400, "there is no such event in this session")
        if not stream.can_resume(int(number)):
            raise HttpError(400, "what came after this event is not kept any more")
        return stream, int(number)

    async def close(self) -> None:
        """End its streams and cancel its requests in flight."""
        self.is_ended = True
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
        await self.connection.close()
        for stream in (self.notifications, *self._streams.values()):
            stream.end()

    async def drain(self, timeout_s: float) -> None:
        """Give requests in flight a moment to be answered, then close."""
        await self.connection.drain(timeout_s)
        await self.close()


def expiry_of(caller: Caller) -> float:
    """Return when the token of a caller expires, in seconds since the epoch."""
    return math.inf if caller.expires is None else caller.expires
