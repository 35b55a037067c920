"""The MCP endpoint: messages of every revision, by POST, GET and DELETE.

A request of 2026-07-28 stands for itself; those of the handshake revisions belong to a session.
What is answered at once is answered as JSON; what tells something before, or takes long, as a
stream of server-sent events.
"""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from resource_server.access import Caller, acting
from resource_server.protocol import faults, revisions
from resource_server.protocol.engine import Connection
from resource_server.protocol.faults import Fault
from resource_server.protocol.params import RequestId
from resource_server.protocol.server import Server
from resource_server.transports.http.channel import KEEP_ALIVE_S, Channel
from resource_server.transports.http.request import Gone, Headers, Refused, Request, Send, answer
from resource_server.transports.http.sessions import Session, Sessions

HEADER_MISMATCH = -32020
SESSION_NOT_FOUND = -32001

_JSON = b"application/json"
_STREAM = "text/event-stream"
_ASSUMED = "2025-03-26"
"""The revision of who says none."""
_PRIMED_SINCE = "2025-11-25"
_NAMED_BY: Mapping[str, str] = {
    "resources/read": "uri",
    "prompts/get": "name",
    "tools/call": "name",
}
_STATUS = {
    revisions.PARSE_ERROR: 400,
    revisions.INVALID_REQUEST: 400,
    revisions.INVALID_PARAMS: 400,
    revisions.METHOD_NOT_FOUND: 404,
    revisions.UNSUPPORTED_REVISION: 400,
    HEADER_MISMATCH: 400,
    -32021: 400,
}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class _Meta(msgspec.Struct, rename={"version": revisions.PROTOCOL_VERSION}):
    version: Any = UNSET


class _Params(msgspec.Struct):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    uri: Any = UNSET
    name: Any = UNSET


class _Message(msgspec.Struct):
    """As much of a message as decides where it goes; whether it is valid is up to the engine."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_request(self) -> bool:
        return self.id is not UNSET and self.method is not UNSET


class _Answer(msgspec.Struct):
    error: _Error | UnsetType = UNSET


class _Error(msgspec.Struct):
    code: int


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_batch = msgspec.json.Decoder(list[_Message]).decode
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode
_UNPARSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Endpoint:
    """Answers requests to the MCP endpoint; who may ask has been decided before."""

    def __init__(self, server: Server, sessions: Sessions, *, max_body: int) -> None:
        self._server = server
        self._sessions = sessions
        self._max_body = max_body
        self._open = set[Connection]()
        """Of requests that wait, of the stateless revision."""

    async def __call__(self, request: Request, send: Send, caller: Caller) -> None:
        """Answer one request.

        Raises:
            Refused: it is answered with a status alone.
            Gone: nobody waits for the answer.
        """
        version = request.header(b"mcp-protocol-version")
        modern = version in revisions.MODERN
        if request.method == "POST":
            body = await self._posted(request)
            if modern or (version is not None and version not in revisions.HANDSHAKE):
                await self._post_modern(request, send, body, version, caller)
            else:
                await self._post(request, send, body, caller)
        elif request.method == "GET" and not modern:
            await self._get(request, send, caller)
        elif request.method == "DELETE" and not modern:
            self._sessions.end(self._session(request, caller))
            await answer(send, 204)
        else:
            allowed = b"POST" if modern else b"GET, POST, DELETE"
            raise Refused(405, "the method is not allowed here", [(b"allow", allowed)])

    async def close(self) -> None:
        """End all streams; what is in flight is cancelled."""
        await asyncio.gather(*(connection.drain(2.0) for connection in self._open))
        await asyncio.gather(*(connection.close() for connection in self._open))

    async def _posted(self, request: Request) -> bytes:
        kind, _, parameters = (request.header(b"content-type") or "").lower().partition(";")
        if kind.strip() != "application/json" or _charset(parameters) not in ("", "utf-8", "utf8"):
            raise Refused(415, "the body has to be application/json in UTF-8")
        if not (_accepts(request, "application/json") or _accepts(request, _STREAM)):
            raise Refused(406, "answers are application/json or text/event-stream")
        return await request.body(self._max_body)

    # -- 2026-07-28

    async def _post_modern(
        self, request: Request, send: Send, body: bytes, version: str | None, caller: Caller
    ) -> None:
        try:
            message = _decode_message(body)
        except msgspec.ValidationError:
            await _fail(send, Fault(revisions.INVALID_REQUEST, "Invalid request"))
            return
        except _UNPARSABLE:
            await _fail(send, Fault(revisions.PARSE_ERROR, "Parse error"))
            return
        if not message.is_request and message.method is not UNSET:
            # Nothing is told by a notification in this revision: to leave is to cancel.
            if version not in revisions.MODERN:
                await _fail(send, faults.unsupported(version or ""))
                return
            await answer(send, 202)
            return
        fault = _contradiction(request, message, version)
        if fault is not None:
            await _fail(send, fault, None if message.id is UNSET else message.id)
            return
        if message.method == "initialize":
            # Over HTTP the header has told already which revision is meant.
            fault = Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": "initialize"})
            await _fail(send, fault, None if message.id is UNSET else message.id)
            return
        if message.method == "subscriptions/listen" and not _accepts(request, _STREAM):
            raise Refused(406, "the answer is text/event-stream")
        channel = Channel()
        connection = Connection(
            self._server, revisions.LATEST_MODERN, push=channel.put, push_room=channel.room
        )
        with acting(caller):
            connection.receive(body, channel.reply, channel.put)
        if channel.answer is not None and channel.is_empty:
            # Nothing is left to close: it was answered on the spot.
            await _send(send, channel.answer, modern=True)
            return
        self._open.add(connection)
        try:
            await self._stream(request, send, channel, modern=True)
        finally:
            self._open.discard(connection)
            await connection.close()

    # -- handshake revisions

    async def _post(self, request: Request, send: Send, body: bytes, caller: Caller) -> None:
        try:
            messages = [_decode_message(body)] if body.lstrip()[:1] != b"[" else _decode_batch(body)
        except msgspec.ValidationError:
            messages = []
        except _UNPARSABLE:
            await _fail(send, Fault(revisions.PARSE_ERROR, "Parse error"))
            return
        headers: Headers = ()
        if request.header(b"mcp-session-id") is None:
            if not messages or messages[0].method != "initialize":
                fault = _stray(request, messages)
                await _fail(send, fault)
                return
            session = self._sessions.open(caller)
            headers = [(b"mcp-session-id", session.id.encode())]
        else:
            session = self._session(request, caller)
        session.requests += 1
        try:
            await self._exchange(
                request,
                send,
                session,
                body,
                headers=headers,
                caller=caller,
            )
        finally:
            session.requests -= 1
            if session.connection.revision is None:
                # What opened it was no `initialize` that could be answered.
                self._sessions.end(session)

    async def _exchange(
        self,
        request: Request,
        send: Send,
        session: Session,
        body: bytes,
        *,
        headers: Headers,
        caller: Caller,
    ) -> None:
        channel = session.channel()
        with acting(caller):
            pending = session.connection.receive(body, channel.reply, channel.put)
        if channel.answer is not None and channel.is_empty:
            await _send(send, channel.answer, headers=headers)
            return
        if pending is None and channel.is_empty and channel.answer is None:
            await answer(send, 202, headers=headers)
            return
        if pending is not None:
            # What is cancelled is never answered.
            pending.add_done_callback(lambda _: channel.end())
        revision = session.connection.revision
        primed = revision is not None and revision.name >= _PRIMED_SINCE
        whole = await self._stream(
            request, send, channel, modern=False, headers=headers, primed=primed
        )
        if not whole:
            session.keep(channel)

    async def _get(self, request: Request, send: Send, caller: Caller) -> None:
        if not _accepts(request, _STREAM):
            raise Refused(406, "the answer is text/event-stream")
        session = self._session(request, caller)
        last = request.header(b"last-event-id")
        channel, after = (session.told, None) if last is None else session.resumed(last)
        if channel is session.told and channel.is_read and after is None:
            raise Refused(409, "this session has a stream already")
        revision = session.connection.revision
        primed = revision is not None and revision.name >= _PRIMED_SINCE
        await channel.serve(request, send, after=after, primed=primed)

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

    # -- answers

    async def _stream(
        self,
        request: Request,
        send: Send,
        channel: Channel,
        *,
        modern: bool,
        headers: Headers = (),
        primed: bool = False,
    ) -> bool:
        """Answer with JSON if nothing has to be told before, else with a stream.

        Returns whether all was sent.
        """
        if _accepts(request, "application/json"):
            gone = asyncio.ensure_future(request.gone())
            waiting = asyncio.ensure_future(channel.wait(KEEP_ALIVE_S))
            try:
                await asyncio.wait((gone, waiting), return_when=asyncio.FIRST_COMPLETED)
                left = gone.done()
            finally:
                gone.cancel()
                waiting.cancel()
                await asyncio.gather(gone, waiting, return_exceptions=True)
            if left:
                raise Gone
            if channel.is_empty and channel.is_ended:
                if channel.answer is None:
                    await answer(send, 202, headers=headers)
                else:
                    await _send(send, channel.answer, modern=modern, headers=headers)
                return True
        if not _accepts(request, _STREAM):
            raise Refused(406, "the answer is text/event-stream")
        return await channel.serve(request, send, headers=headers, primed=primed)


def _contradiction(request: Request, message: _Message, version: str | None) -> Fault | None:
    """Return what is wrong with the headers of a request, which have to say what its body says."""
    try:
        params = _decode_params(message.params)
    except _UNPARSABLE:
        return None  # The engine says what is wrong with it.
    said = UNSET if params.meta is UNSET else params.meta.version
    if said is UNSET:
        return None
    if said != version:
        return _mismatch("MCP-Protocol-Version", "the protocol version in _meta")
    if version not in revisions.MODERN:
        return faults.unsupported(version or "")
    if request.header(b"mcp-method") != message.method:
        return _mismatch("Mcp-Method", "the method")
    member = _NAMED_BY.get(message.method if isinstance(message.method, str) else "")
    if member is not None:
        named = getattr(params, member)
        if named is not UNSET and _decoded(request.header(b"mcp-name")) != named:
            return _mismatch("Mcp-Name", f"params.{member}")
    return None


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


def _stray(request: Request, messages: list[_Message]) -> Fault:
    """Return what is wrong with a message that belongs to no session and does not begin one."""
    for message in messages[:1]:
        try:
            meta = _decode_params(message.params).meta
        except _UNPARSABLE:
            continue
        if meta is not UNSET and meta.version is not UNSET:
            return _mismatch("MCP-Protocol-Version", "the protocol version in _meta")
    reason = "begin with initialize; after it the header Mcp-Session-Id is required"
    return Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""


def _accepts(request: Request, wanted: str) -> bool:
    """Tell whether a client takes answers of a type; one that does not say takes all."""
    given = request.header(b"accept")
    if given is None:
        return True
    kind = wanted.partition("/")[0]
    for each in given.lower().split(","):
        name, _, parameters = each.partition(";")
        if name.strip() in (wanted, f"{kind}/*", "*/*"):
            return not re.search(r"(^|;)\s*q=0(\.0*)?\s*(;|$)", parameters)
    return False


async def _send(send: Send, data: bytes, *, modern: bool = False, headers: Headers = ()) -> None:
    await answer(send, _status(data, modern), data, headers=headers, type=_JSON)


def _status(data: bytes, modern: bool) -> int:
    if b'"error":{' not in data[:1024]:
        return 200
    error = _decode_answer(data).error if data[:1] == b"{" else UNSET
    if error is UNSET:
        return 200
    if modern:
        return _STATUS.get(error.code, 200)
    return 400 if error.code in (revisions.PARSE_ERROR, revisions.INVALID_REQUEST) else 200


async def _fail(send: Send, fault: Fault, request_id: RequestId | None = None) -> None:
    await answer(
        send,
        _STATUS.get(fault.code, 400),
        faults.message(request_id, fault),
        type=_JSON,
    )
