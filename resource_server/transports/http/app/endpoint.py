"""The MCP endpoint: messages of every revision, by POST, GET and DELETE.

A request of 2026-07-28 stands for itself; those of the handshake revisions belong to a session.
What is answered at once is answered as JSON; what tells something before, or takes long, as a
stream of server-sent events.
"""

from __future__ import annotations

from msgspec import UNSET

from resource_server.access import Caller, acting
from resource_server.protocol import revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.server import Server
from resource_server.transports.http.app.bodies import Bodies
from resource_server.transports.http.app.exchange import Exchange
from resource_server.transports.http.app.negotiation import STREAM, accepts, check_media
from resource_server.transports.http.app.request import Headers, Refused, Request
from resource_server.transports.http.app.responses import answered, is_whole, refused
from resource_server.transports.http.app.sessions import Session, Sessions
from resource_server.transports.http.app.stateless import Stateless, version_mismatch
from resource_server.transports.http.sse.event_stream import Channel
from resource_server.transports.http.sse.stream_limits import Streams

_PRIMED_SINCE = "2025-11-25"


class Endpoint:
    """Answers requests to the MCP endpoint; who may ask has been decided before."""

    def __init__(
        self, server: Server, sessions: Sessions, streams: Streams, bodies: Bodies
    ) -> None:
        self._sessions = sessions
        self._streams = streams
        self._stateless = Stateless(server, streams)
        self._bodies = bodies

    async def __call__(self, request: Request, caller: Caller) -> None:
        """Answer one request.

        Raises:
            Refused: it is answered with a status alone.
            Gone: nobody waits for the answer.
        """
        version = request.header(b"mcp-protocol-version")
        modern = version in revisions.MODERN
        if request.method == "POST":
            body = await posted(request, self._bodies)
            if version is not None and version not in revisions.HANDSHAKE:
                await self._stateless.post(request, body, version, caller)
            else:
                await self._post(request, body, caller)
        elif request.method == "GET" and not modern:
            await self._get(request, caller)
        elif request.method == "DELETE" and not modern:
            self._sessions.end(self._session(request, caller))
            await request.exchange.answer(204)
        else:
            allowed = b"POST" if modern else b"GET, POST, DELETE"
            raise Refused(405, "the method is not allowed here", [(b"allow", allowed)])

    async def close(self) -> None:
        """End what belongs to no session; see `Stateless.close`."""
        await self._stateless.close()

    async def _post(self, request: Request, body: bytes, caller: Caller) -> None:
        if request.header(b"mcp-session-id") is None:
            fault = _stray(request.exchange)
            if fault is not None:
                await refused(request, fault)
                return
            session = self._sessions.open(caller, request.owner(caller))
        else:
            session = self._session(request, caller)
        with self._sessions.using(session):
            try:
                await self._exchange(request, session, body, caller)
            finally:
                if session.connection.revision is None:
                    # What opened it was no `initialize` that could be answered.
                    self._sessions.end(session)

    async def _exchange(
        self, request: Request, session: Session, body: bytes, caller: Caller
    ) -> None:
        channel = session.channel()
        with acting(caller):
            can_ask = accepts(request, STREAM)
            message = request.exchange.decoded
            pending = session.connection.receive(
                body, channel.reply, channel.put, can_ask=can_ask, message=message
            )
        headers: Headers = ()
        if request.header(b"mcp-session-id") is None and session.connection.revision is not None:
            headers = [(b"mcp-session-id", session.id.encode())]
        if pending is not None:
            pending.add_done_callback(lambda _: session.answered(channel))
            self._bodies.keep(request.exchange, pending)
        elif channel.answer is None:
            await request.exchange.answer(202, headers=headers)
            return
        is_there = channel.answer is not None and channel.is_empty
        if not is_there and not await is_whole(request, channel):
            session.keep(channel)
            first = _primer(session, channel, None)
            await channel.serve(request, headers=headers, first=first, until=caller.expires)
        elif channel.answer is not None:
            await answered(request, channel.answer, headers=headers)
        elif session.is_ended:
            raise Refused(404, "there is no such session any more")
        else:
            # What is cancelled is never answered.
            await request.exchange.answer(202, headers=headers)

    async def _get(self, request: Request, caller: Caller) -> None:
        if not accepts(request, STREAM):
            raise Refused(406, "the answer is text/event-stream")
        session = self._session(request, caller)
        last = request.header(b"last-event-id")
        channel, after = session.resumed(last) if last else (session.told, None)
        counted = self._streams.using(request.owner(caller), channel.cut)
        with counted, self._sessions.using(session):
            first = _primer(session, channel, after)
            # A reload may part what one subject sees with one token and with another.
            await channel.serve(
                request,
                after=after,
                first=first,
                until=caller.expires,
                allowed=lambda: self._sessions.is_open_to(session, caller),
            )

    def _session(self, request: Request, caller: Caller) -> Session:
        session_id = request.header(b"mcp-session-id")
        if session_id is None:
            raise Refused(400, "the header Mcp-Session-Id is missing")
        session = self._sessions.get(session_id, caller)
        asked = request.header(b"mcp-protocol-version")
        revision = session.connection.revision
        if asked is not None and revision is not None and asked != revision.name:
            raise Refused(400, f"this session is one of revision {revision.name}")
        return session


async def posted(request: Request, bodies: Bodies) -> bytes:
    """Return the body of a POST.

    Raises:
        Refused: it is not JSON, is too much, or the client takes none of our answers.
        Gone: the client has left.
    """
    check_media(request)
    body = await bodies.read(request)
    request.exchange.asked(request, body)
    return body


def _primer(session: Session, channel: Channel, after: int | None) -> bytes:
    revision = session.connection.revision
    is_primed = revision is not None and revision.name >= _PRIMED_SINCE
    return channel.primer(after) if is_primed else b""


def _stray(exchange: Exchange) -> Fault | None:
    """Return what is wrong with a message that belongs to no session, unless it begins one."""
    message = exchange.message
    if isinstance(message, Fault):
        return message
    if message.method == "initialize" and message.id is not UNSET:
        return None
    if message.version is not UNSET:
        return version_mismatch()
    reason = "begin with initialize; after it the header Mcp-Session-Id is required"
    return Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")
