"""Requests of 2026-07-28: each stands for itself, and says in its headers what its body says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import UNSET

from resource_server.access import EVERYBODY, Caller, acting
from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.server import Server
from resource_server.protocol.tools.header_arguments import decoded
from resource_server.transports.http.app.negotiation import STREAM, accepts
from resource_server.transports.http.app.request import Refused, Request, closing
from resource_server.transports.http.app.responses import answered, is_whole, refused
from resource_server.transports.http.app.sessions import DRAIN_S
from resource_server.transports.http.sse.event_stream import Channel
from resource_server.transports.http.sse.stream_limits import Streams

_NAMED_BY: Mapping[str, Literal["uri", "name"]] = {
    "resources/read": "uri",
    "prompts/get": "name",
    "tools/call": "name",
}


class _Turn:
    """A connection for one request at a time, and the answer: a stream only where it takes one.

    It may take the next request once it has given an answer on the spot: nothing is left of it.
    """

    __slots__ = ("answer", "channel", "connection")

    def __init__(self, server: Server) -> None:
        self.answer: bytes | None = None
        self.channel: Channel | None = None
        self.connection = ClientConnection(server, revisions.LATEST_MODERN, push=self.put)

    def receive(self, request: Request, body: bytes) -> None:
        message = request.exchange.decoded
        header = request.header
        self.connection.receive(body, self.reply, self.put, header=header, message=message)

    def reply(self, data: bytes) -> None:
        if self.channel is None:
            self.answer = data
        else:
            self.channel.reply(data)

    def put(self, data: bytes) -> None:
        self.stream().put(data)

    def stream(self) -> Channel:
        if self.channel is None:
            self.channel = Channel()
        return self.channel


class Stateless:
    """Answers requests that belong to no session."""

    def __init__(self, server: Server, streams: Streams) -> None:
        self._server = server
        self._streams = streams
        self._waiting: dict[ClientConnection, Channel] = {}
        self._spare: _Turn | None = None
        """For what is answered on the spot: to begin with nothing takes as long as the answer."""

    async def post(self, request: Request, body: bytes, version: str, caller: Caller) -> None:
        """Answer one message; `version` is that of the header.

        Raises:
            Refused: it is answered with a status alone.
            Gone: nobody waits for the answer.
        """
        message = request.exchange.message
        if isinstance(message, Fault):
            await refused(request, message)
            return
        request_id = None if message.id is UNSET else message.id
        fault = _refusal(request, message, version)
        if fault is not None:
            await refused(request, fault, request_id)
        elif message.id is UNSET:
            # Nothing is told by a notification in this revision: to leave is to cancel.
            await request.exchange.answer(202)
        else:
            await self._answer(request, body, message, caller)

    async def _answer(
        self, request: Request, body: bytes, message: JsonRpcMessage, caller: Caller
    ) -> None:
        if message.method == "subscriptions/listen":
            await self._listen(request, body, caller)
            return
        turn = self._spare or _Turn(self._server)
        self._spare = None
        turn.connection.owner = request.owner(caller)
        if caller is EVERYBODY:
            turn.receive(request, body)
        else:
            with acting(caller):
                turn.receive(request, body)
        data, turn.answer = turn.answer, None
        if data is None:
            await self._wait(request, turn.stream(), turn.connection, caller)
        else:
            self._spare = turn
            await answered(request, data, modern=True)

    async def _listen(self, request: Request, body: bytes, caller: Caller) -> None:
        if not accepts(request, STREAM):
            raise Refused(406, "the answer is text/event-stream")
        channel = Channel()
        connection = ClientConnection(
            self._server, revisions.LATEST_MODERN, push=channel.put, push_room=channel.room
        )
        with self._streams.using(request.owner(caller), channel.end):
            with acting(caller):
                message = request.exchange.decoded
                connection.receive(body, channel.reply, channel.put, message=message)
            await self._wait(request, channel, connection, caller)

    async def _wait(
        self,
        request: Request,
        channel: Channel,
        connection: ClientConnection,
        caller: Caller,
    ) -> None:
        self._waiting[connection] = channel
        try:
            if not await is_whole(request, channel):
                await channel.serve(request, until=caller.expires)
            elif channel.answer is not None:
                await answered(request, channel.answer, modern=True)
            else:
                raise closing()
        finally:
            del self._waiting[connection]
            await connection.close()
            channel.clear()

    async def close(self) -> None:
        """End all streams; what is in flight may be answered for a moment, and is then cancelled.

        Nothing may be asked any more.
        """
        await asyncio.gather(*(connection.drain(DRAIN_S) for connection in self._waiting))
        await asyncio.gather(*(connection.close() for connection in self._waiting))
        for channel in self._waiting.values():
            channel.end()


def _refusal(request: Request, message: JsonRpcMessage, version: str) -> Fault | None:
    """Return what is wrong with a message, as far as that can be told by its headers."""
    if message.method is UNSET:
        # An answer, say: nothing was asked of this client.
        return Fault(revisions.INVALID_REQUEST, "Invalid request: no method")
    fault = None if message.id is UNSET else _contradiction(request, message, version)
    if fault is not None:
        return fault
    if version not in revisions.MODERN:
        return error_mapping.unsupported(version)
    if message.method == "initialize":
        # The header has told already which revision is meant.
        return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": "initialize"})
    return None


def _contradiction(request: Request, message: JsonRpcMessage, version: str) -> Fault | None:
    """Return which header of a request does not say what its body says."""
    said = message.version
    if said is UNSET:
        return None
    if said != version:
        return version_mismatch()
    if version not in revisions.MODERN:
        return None
    if not _repeats(request, b"mcp-method", message.method):
        return error_mapping.header_mismatch("Mcp-Method", "the method")
    member = _NAMED_BY.get(message.method if isinstance(message.method, str) else "")
    if member is not None:
        named = message.param(member)
        if named is not UNSET and not _repeats(request, b"mcp-name", named, decoded=_decoded):
            return error_mapping.header_mismatch("Mcp-Name", f"params.{member}")
    return None


def _repeats(
    request: Request,
    header: bytes,
    value: object,
    *,
    decoded: Callable[[str | None], str | None] | None = None,
) -> bool:
    """Tell whether a header says a value of the body, which may be encoded in it."""
    # In most cases the same bytes, which need no decoding.
    if not isinstance(value, str):
        return False
    is_plain = value.isascii() and value.isprintable() and value[:2] != "=?"
    if is_plain and request.headers.get(header) == value.encode():
        return True
    said = request.header(header)
    return (said if decoded is None else decoded(said)) == value


def version_mismatch() -> Fault:
    """Return the refusal of a request whose header says another revision than its envelope."""
    return error_mapping.header_mismatch("MCP-Protocol-Version", "the protocol version in _meta")


def _decoded(value: str | None) -> str | None:
    """Return what a header says; None where that is nothing, or not written right."""
    try:
        return None if value is None else decoded(value)
    except ValueError:
        return None
