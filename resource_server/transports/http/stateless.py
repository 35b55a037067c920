"""Requests of 2026-07-28: each stands for itself, and says in its headers what its body says."""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from resource_server.access import Caller, acting
from resource_server.protocol import faults, revisions
from resource_server.protocol.engine import Connection
from resource_server.protocol.faults import Fault
from resource_server.protocol.params import RequestId
from resource_server.protocol.server import Server
from resource_server.transports.http.answers import (
    HEADER_MISMATCH,
    is_whole,
    send_fault,
    send_json,
)
from resource_server.transports.http.channel import Channel
from resource_server.transports.http.media import STREAM, accepts
from resource_server.transports.http.request import Refused, Request, Send, answer
from resource_server.transports.http.sessions import DRAIN_S
from resource_server.transports.http.streams import Streams

UNPARSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_NAMED_BY: Mapping[str, str] = {
    "resources/read": "uri",
    "prompts/get": "name",
    "tools/call": "name",
}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class _Meta(msgspec.Struct, rename={"version": revisions.PROTOCOL_VERSION}):
    version: Any = UNSET


class _Params(msgspec.Struct):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    uri: Any = UNSET
    name: Any = UNSET


class Message(msgspec.Struct):
    """As much of a message as decides where it goes; whether it is valid is up to the engine."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


decode_message = msgspec.json.Decoder(Message).decode
_decode_params = msgspec.json.Decoder(_Params).decode


class Stateless:
    """Answers requests that belong to no session."""

    def __init__(self, server: Server, streams: Streams) -> None:
        self._server = server
        self._streams = streams
        self._waiting: dict[Connection, Channel] = {}

    async def post(
        self, request: Request, send: Send, body: bytes, version: str, caller: Caller
    ) -> None:
        """Answer one message; `version` is that of the header.

        Raises:
            Refused: it is answered with a status alone.
            Gone: nobody waits for the answer.
        """
        try:
            message = decode_message(body)
        except msgspec.ValidationError:
            await send_fault(send, Fault(revisions.INVALID_REQUEST, "Invalid request"))
            return
        except UNPARSABLE:
            await send_fault(send, Fault(revisions.PARSE_ERROR, "Parse error"))
            return
        request_id = None if message.id is UNSET else message.id
        fault = _refusal(request, message, version)
        if fault is not None:
            await send_fault(send, fault, request_id)
        elif message.id is UNSET:
            # Nothing is told by a notification in this revision: to leave is to cancel.
            await answer(send, 202)
        else:
            await self._answer(request, send, body, message, caller)

    async def _answer(
        self, request: Request, send: Send, body: bytes, message: Message, caller: Caller
    ) -> None:
        listens = message.method == "subscriptions/listen"
        if listens and not accepts(request, STREAM):
            raise Refused(406, "the answer is text/event-stream")
        channel = Channel()
        connection = Connection(
            self._server, revisions.LATEST_MODERN, push=channel.put, push_room=channel.room
        )
        try:
            with self._streams if listens else nullcontext():
                with acting(caller):
                    connection.receive(body, channel.reply, channel.put)
                if channel.answer is not None and channel.is_empty:
                    # Nothing is left to close: it was answered on the spot.
                    await send_json(send, channel.answer, modern=True)
                else:
                    await self._wait(request, send, channel, connection, caller)
        finally:
            channel.clear()

    async def _wait(
        self,
        request: Request,
        send: Send,
        channel: Channel,
        connection: Connection,
        caller: Caller,
    ) -> None:
        self._waiting[connection] = channel
        try:
            if not await is_whole(request, channel):
                await channel.serve(request, send, until=caller.expires)
            elif channel.answer is not None:
                await send_json(send, channel.answer, modern=True)
            else:
                raise Refused(503, "the server is shutting down", [(b"retry-after", b"1")])
        finally:
            del self._waiting[connection]
            await connection.close()

    async def close(self) -> None:
        """End all streams; what is in flight may be answered for a moment, and is then cancelled.

        Nothing may be asked any more.
        """
        await asyncio.gather(*(connection.drain(DRAIN_S) for connection in self._waiting))
        await asyncio.gather(*(connection.close() for connection in self._waiting))
        for channel in self._waiting.values():
            channel.end()


def _refusal(request: Request, message: Message, version: str) -> Fault | None:
    """Return what is wrong with a message, as far as that can be told by its headers."""
    if message.method is UNSET:
        # An answer, say: nothing was asked of this client.
        return Fault(revisions.INVALID_REQUEST, "Invalid request: no method")
    fault = None if message.id is UNSET else _contradiction(request, message, version)
    if fault is not None:
        return fault
    if version not in revisions.MODERN:
        return faults.unsupported(version)
    if message.method == "initialize":
        # The header has told already which revision is meant.
        return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": "initialize"})
    return None


def _contradiction(request: Request, message: Message, version: str) -> Fault | None:
    """Return which header of a request does not say what its body says."""
    try:
        params = _decode_params(message.params)
    except UNPARSABLE:
        return None  # The engine says what is wrong with it.
    said = UNSET if params.meta is UNSET else params.meta.version
    if said is UNSET:
        return None
    if said != version:
        return version_mismatch()
    if version not in revisions.MODERN:
        return None
    if request.header(b"mcp-method") != message.method:
        return _mismatch("Mcp-Method", "the method")
    member = _NAMED_BY.get(message.method if isinstance(message.method, str) else "")
    if member is not None:
        named = getattr(params, member)
        if named is not UNSET and _decoded(request.header(b"mcp-name")) != named:
            return _mismatch("Mcp-Name", f"params.{member}")
    return None


def envelope_version(message: Message) -> Any:
    """Return the revision in the envelope of a message; UNSET where it has none."""
    try:
        meta = _decode_params(message.params).meta
    except UNPARSABLE:
        return UNSET
    return UNSET if meta is UNSET else meta.version


def version_mismatch() -> Fault:
    """Return the refusal of a request whose header says another revision than its envelope."""
    return _mismatch("MCP-Protocol-Version", "the protocol version in _meta")


def _mismatch(header: str, what: str) -> Fault:
    return Fault(HEADER_MISMATCH, f"The header {header} is not {what} of the body")


def _decoded(value: str | None) -> str | None:
    """Return what a header says that may be written in base64; None where that is not right."""
    match = None if value is None else _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        decoded = b64decode(match[1], validate=True)
        return decoded.decode() if b64encode(decoded).decode() == match[1] else None
    except (binascii.Error, ValueError):
        return None
