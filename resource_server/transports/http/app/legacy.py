"""The HTTP+SSE transport of 2024-11-05, for clients without any later one.

`GET /sse` opens a stream whose first event, `endpoint`, names the address for POSTs; all responses
come on the stream. A client ends with its stream.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from resource_server.access import Caller, acting
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.bodies import Bodies, BodyTooLarge
from resource_server.transports.http.app.request import EVENT_STREAM, HttpError, HttpRequest
from resource_server.transports.http.app.sessions import is_same_caller
from resource_server.transports.http.sse.event_stream import EventStream
from resource_server.transports.http.sse.stream_limits import StreamLimiter

STREAM_PATH = "/sse"
POST_PATH = "/messages"


class LegacyClient:
    """One client: its connection and its stream."""

    def __init__(self, server: Server, caller: Caller, owner: str) -> None:
        self.id = ""
        self.caller = caller
        """The caller that opened the stream; see `is_same_caller`."""
        self.stream = EventStream()
        self.connection = ClientConnection(server, push=self.stream.put_once, room=self.stream.room)
        self.connection.owner = owner

    async def close(self) -> None:
        """Cancel the requests in flight, and release waiting POSTs."""
        await self.connection.close()
        self.stream.end()
        self.stream.clear()
        self.stream.room.set()


class LegacyTransport:
    """Answers clients of the deprecated transport; their callers are already authenticated.

    `prefix` is the path in front of the addresses that clients are given.
    """

    def __init__(
        self,
        server: Server,
        streams: StreamLimiter,
        bodies: Bodies,
        timing: Timing,
        prefix: str,
        *,
        is_home: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._server = server
        self._is_home = is_home
        """Returns whether a client with this id is one of this process."""
        self._streams = streams
        self._bodies = bodies
        self._timing = timing
        self._prefix = prefix
        self._clients: dict[str, LegacyClient] = {}

    async def stream(self, request: HttpRequest, caller: Caller) -> None:
        """Answer `GET /sse`.

        Raises:
            HttpError: the request is refused.
        """
        if request.method != "GET":
            raise HttpError(405, "the method is not allowed here", [(b"allow", b"GET")])
        if not request.accepts(EVENT_STREAM):
            raise HttpError(406, "the response is text/event-stream")
        client = LegacyClient(self._server, caller, request.owner(caller))
        while not client.id or not self._is_home(client.id):
            client.id = secrets.token_urlsafe(16)
        with self._streams.slot(request.owner(caller), client.stream.disconnect):
            self._clients[client.id] = client
            address = f"{self._prefix or request.prefix}{POST_PATH}?session={client.id}"
            try:
                await client.stream.serve(
                    request,
                    first=b"event: endpoint\ndata: %b\n\n" % address.encode(),
                    until=caller.expires,
                    keep_alive_s=self._timing.sse_keep_alive_s,
                )
            finally:
                del self._clients[client.id]
                await client.close()

    async def post(self, request: HttpRequest, caller: Caller) -> None:
        """Answer `POST /messages` with 202; the response to the message comes on the stream.

        Raises:
            HttpError: the request is refused.
            ClientDisconnected: the client has left.
        """
        if request.method != "POST":
            raise HttpError(405, "the method is not allowed here", [(b"allow", b"POST")])
        client = self._client(request, caller)
        try:
            body = await self._bodies.read_message(request)
        except BodyTooLarge:
            client.connection.miss()
            raise
        stream = client.stream
        client.connection.address = request.address
        # Several POSTs may wait, and the first of them may fill the stream again.
        while not stream.room.is_set():
            await request.unless_disconnected(stream.room.wait())
        if stream.is_ended:
            raise HttpError(404, "there is no such session")
        with acting(caller):
            message = request.exchange.decoded
            pending = client.connection.receive(body, stream.put, stream.put, message=message)
        if pending is not None:
            self._bodies.keep(request.exchange, pending)
        await request.exchange.respond(202)

    def _client(self, request: HttpRequest, caller: Caller) -> LegacyClient:
        query = request.scope["query_string"].decode("latin-1")
        client_id, *_ = parse_qs(query).get("session", [""])
        client = self._clients.get(client_id)
        if client is None or not is_same_caller(self._server, client.caller, caller):
            raise HttpError(404, "there is no such session")
        return client

    async def close(self) -> None:
        """End all streams; requests in flight have a moment to be answered."""
        clients = list(self._clients.values())
        drain_s = self._timing.http_drain_s
        await asyncio.gather(*(client.connection.drain(drain_s) for client in clients))
        await asyncio.gather(*(client.close() for client in clients))
