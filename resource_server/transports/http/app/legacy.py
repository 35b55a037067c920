"""The HTTP+SSE transport of 2024-11-05, for clients that know no other.

`GET /sse` opens a stream whose first event, `endpoint`, says where messages are posted; all answers
come by the stream. A client is there as long as its stream is.
"""

from __future__ import annotations

import asyncio
import secrets
from urllib.parse import parse_qs, quote

from resource_server.access import Caller, acting
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from resource_server.transports.http.app.bodies import Bodies
from resource_server.transports.http.app.endpoint import posted
from resource_server.transports.http.app.negotiation import STREAM, accepts
from resource_server.transports.http.app.request import Refused, Request
from resource_server.transports.http.app.sessions import DRAIN_S, is_same
from resource_server.transports.http.sse.event_stream import Channel
from resource_server.transports.http.sse.stream_limits import Streams

STREAM_PATH = "/sse"
POST_PATH = "/messages"


class Client:
    """One client: its connection and its stream."""

    def __init__(self, server: Server, caller: Caller, owner: str) -> None:
        self.id = secrets.token_urlsafe(16)
        self.caller = caller
        """Whose token opened it; see `Session.caller`."""
        self.channel = Channel()
        room = self.channel.room
        self.connection = ClientConnection(server, push=self.channel.tell, room=room)
        self.connection.owner = owner

    async def close(self) -> None:
        """Cancel what is in flight, and let nobody wait any more."""
        await self.connection.close()
        self.channel.end()
        self.channel.clear()
        self.channel.room.set()


class Legacy:
    """Answers clients of the deprecated transport; who may ask has been decided before."""

    def __init__(self, server: Server, streams: Streams, bodies: Bodies) -> None:
        self._server = server
        self._streams = streams
        self._bodies = bodies
        self._clients: dict[str, Client] = {}

    async def stream(self, request: Request, caller: Caller) -> None:
        """Answer `GET /sse`.

        Raises:
            Refused: it is answered with a status alone.
        """
        if request.method != "GET":
            raise Refused(405, "the method is not allowed here", [(b"allow", b"GET")])
        if not accepts(request, STREAM):
            raise Refused(406, "the answer is text/event-stream")
        client = Client(self._server, caller, request.owner(caller))
        with self._streams.using(request.owner(caller), client.channel.cut):
            self._clients[client.id] = client
            place = f"{quote(request.scope.get('root_path', ''))}{POST_PATH}?session={client.id}"
            try:
                await client.channel.serve(
                    request,
                    first=b"event: endpoint\ndata: %b\n\n" % place.encode(),
                    until=caller.expires,
                )
            finally:
                del self._clients[client.id]
                await client.close()

    async def post(self, request: Request, caller: Caller) -> None:
        """Answer `POST /messages`: what the message asks is answered by the stream.

        Raises:
            Refused: it is answered with a status alone.
            Gone: the client has left.
        """
        if request.method != "POST":
            raise Refused(405, "the method is not allowed here", [(b"allow", b"POST")])
        client = self._client(request, caller)
        body = await posted(request, self._bodies)
        channel = client.channel
        while not channel.room.is_set():  # Others wait as well, and it may be full again.
            await request.unless_gone(channel.room.wait())
        if channel.is_ended:
            raise Refused(404, "there is no such session")
        with acting(caller):
            message = request.exchange.decoded
            pending = client.connection.receive(body, channel.put, channel.put, message=message)
        if pending is not None:
            self._bodies.keep(request.exchange, pending)
        await request.exchange.answer(202)

    def _client(self, request: Request, caller: Caller) -> Client:
        (name, *_) = parse_qs(request.scope["query_string"].decode("latin-1")).get("session", [""])
        client = self._clients.get(name)
        if client is None or not is_same(self._server, client.caller, caller):
            raise Refused(404, "there is no such session")
        return client

    async def close(self) -> None:
        """End all streams; what is in flight may be answered for a moment."""
        clients = list(self._clients.values())
        await asyncio.gather(*(client.connection.drain(DRAIN_S) for client in clients))
        await asyncio.gather(*(client.close() for client in clients))
