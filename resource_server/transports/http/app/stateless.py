"""Requests of 2026-07-28, each on its own, with headers that repeat its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import UNSET

from resource_server.access import Caller, acting
from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import JsonRpcMessage
from resource_server.protocol.server import Server
from resource_server.protocol.tools.header_arguments import decode_header
from resource_server.runtime.timing import Timing
from resource_server.transports.http.app.bodies import Bodies
from resource_server.transports.http.app.request import (
    EVENT_STREAM,
    HttpError,
    HttpRequest,
    shutting_down,
)
from resource_server.transports.http.app.responses import fits_json, refuse, respond
from resource_server.transports.http.sse.event_stream import EventStream
from resource_server.transports.http.sse.stream_limits import StreamLimiter

_NAMED_BY: Mapping[str, Literal["uri", "name"]] = {
    "resources/read": "uri",
    "prompts/get": "name",
    "tools/call": "name",
}
"""The parameter that the header `Mcp-Name` repeats, by method."""


class _Responder:
    """The response to one request; a stream only if it needs one."""

    __slots__ = ("response", "stream")

    def __init__(self) -> None:
        self.response: bytes | None = None
        self.stream: EventStream | None = None

    def open_stream(self) -> EventStream:
        if self.stream is None:
            self.stream = EventStream()
        return self.stream

    def put(self, data: bytes) -> None:
        self.open_stream().put(data)

    def put_response(self, data: bytes) -> None:
        if self.stream is None:
            self.response = data
        else:
            self.stream.put_response(data)


class StatelessRequests:
    """Answers requests that belong to no session."""

    def __init__(
        self, server: Server, streams: StreamLimiter, bodies: Bodies, timing: Timing
    ) -> None:
        self._server = server
        self._streams = streams
        self._bodies = bodies
        self._timing = timing
        self._waiting: dict[ClientConnection, EventStream] = {}

    async def post(self, request: HttpRequest, version: str, caller: Caller) -> None:
        """Answer one message; `version` is the revision that its header names.

        Raises:
            HttpError: the request is refused.
            ClientDisconnected: the client has left.
        """
        body = await self._bodies.read_message(request)
        message = request.exchange.message
        if isinstance(message, Fault):
            await refuse(request, message)
            return
        fault = _fault(request, message, version)
        if fault is not None:
            await refuse(request, fault, request.exchange.request_id)
        elif message.id is UNSET:
            # Notifications have no effect in this revision: a client cancels by disconnecting.
            await request.exchange.respond(202)
        elif message.method == "subscriptions/listen":
            await self._listen(request, body, caller)
        else:
            await self._answer(request, body, caller)

    async def _answer(self, request: HttpRequest, body: bytes, caller: Caller) -> None:
        responder = _Responder()
        connection = ClientConnection(self._server, revisions.LATEST_MODERN, push=responder.put)
        connection.owner = request.owner(caller)
        connection.address = request.address
        with acting(caller):
            connection.receive(
                body,
                responder.put_response,
                responder.put,
                header=request.header,
                message=request.exchange.decoded,
            )
        if responder.response is not None:
            await respond(request, responder.response, modern=True)
        else:
            await self._wait(request, responder.open_stream(), connection, caller)

    async def _listen(self, request: HttpRequest, body: bytes, caller: Caller) -> None:
        if not request.accepts(EVENT_STREAM):
            raise HttpError(406, "the response is text/event-stream")
        stream = EventStream()
        connection = ClientConnection(
            self._server, revisions.LATEST_MODERN, push=stream.put, push_room=stream.room
        )
        connection.address = request.address
        with self._streams.slot(request.owner(caller), stream.end):
            with acting(caller):
                message = request.exchange.decoded
                connection.receive(body, stream.put_response, stream.put, message=message)
            await self._wait(request, stream, connection, caller)

    async def _wait(
        self,
        request: HttpRequest,
        stream: EventStream,
        connection: ClientConnection,
        caller: Caller,
    ) -> None:
        self._waiting[connection] = stream
        keep_alive_s = self._timing.sse_keep_alive_s
        try:
            if not await fits_json(request, stream, keep_alive_s):
                await stream.serve(request, until=caller.expires, keep_alive_s=keep_alive_s)
            elif stream.response is not None:
                await respond(request, stream.response, modern=True)
            else:
                raise shutting_down()
        finally:
            del self._waiting[connection]
            await connection.close()
            stream.clear()

    async def close(self) -> None:
        """End all streams; what is in flight may be answered for a moment.

        No request may come any more.
        """
        drain_s = self._timing.http_drain_s
        await asyncio.gather(*(connection.drain(drain_s) for connection in self._waiting))
        await asyncio.gather(*(connection.close() for connection in self._waiting))
        for stream in self._waiting.values():
            stream.end()


def _fault(request: HttpRequest, message: JsonRpcMessage, version: str) -> Fault | None:
    """Return the fault of a message that its method and headers already show."""
    if message.method is UNSET:
        # A response, for example: this client was sent no request.
        return Fault(revisions.INVALID_REQUEST, "Invalid request: no method")
    fault = None if message.id is UNSET else _header_mismatch(request, message, version)
    if fault is not None:
        return fault
    if version not in revisions.MODERN:
        return error_mapping.unsupported_version(version)
    if message.method == "initialize":
        # The header has already named the revision.
        return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": "initialize"})
    return None


def _header_mismatch(request: HttpRequest, message: JsonRpcMessage, version: str) -> Fault | None:
    """Return the fault of a request with a header that differs from its body."""
    named_version = message.version
    if named_version is UNSET:
        return None
    if named_version != version:
        return version_mismatch()
    if version not in revisions.MODERN:
        return None
    if not _repeats(request, b"mcp-method", message.method):
        return error_mapping.header_mismatch("Mcp-Method", "the method")
    member = _NAMED_BY.get(message.method if isinstance(message.method, str) else "")
    if member is not None:
        named = message.param(member)
        if named is not UNSET and not _repeats(request, b"mcp-name", named, decode=_decoded):
            return error_mapping.header_mismatch("Mcp-Name", f"params.{member}")
    return None


def _repeats(
    request: HttpRequest,
    name: bytes,
    value: object,
    *,
    decode: Callable[[str | None], str | None] | None = None,
) -> bool:
    """Return whether a header equals a value of the body; the header may be encoded."""
    if not isinstance(value, str):
        return False
    # Usually the bytes are equal and need no decoding.
    is_plain = value.isascii() and value.isprintable() and value[:2] != "=?"
    if is_plain and request.headers.get(name) == value.encode():
        return True
    header = request.header(name)
    return (header if decode is None else decode(header)) == value


def version_mismatch() -> Fault:
    """Return the fault of a request whose header and envelope name different revisions."""
    return error_mapping.header_mismatch("MCP-Protocol-Version", "the protocol version in _meta")


def _decoded(header: str | None) -> str | None:
    """Return the text of a header that may be in base64; None if it is missing or malformed."""
    try:
        return None if header is None else decode_header(header)
    except ValueError:
        return None
