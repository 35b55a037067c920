"""Answers to messages: JSON that is sent at once, or a stream where it has to wait."""

from __future__ import annotations

from collections.abc import Awaitable

from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.params import RequestId
from resource_server.transports.http.app.negotiation import JSON, STREAM, accepts
from resource_server.transports.http.app.request import Headers, Request
from resource_server.transports.http.sse.event_stream import KEEP_ALIVE_S, Channel

_JSON = JSON.encode()
_STATUS = {
    revisions.PARSE_ERROR: 400,
    revisions.INVALID_REQUEST: 400,
    revisions.INVALID_PARAMS: 400,
    revisions.METHOD_NOT_FOUND: 404,
    revisions.UNSUPPORTED_REVISION: 400,
    revisions.HEADER_MISMATCH: 400,
    revisions.MISSING_CAPABILITY: 400,
}


async def is_whole(request: Request, channel: Channel) -> bool:
    """Wait until an answer begins; tell whether that is all of it, so that JSON can hold it.

    Where the client takes no stream it is awaited to its end.

    Raises:
        Gone: the client has left.
    """
    if not accepts(request, JSON):
        return False
    streams = accepts(request, STREAM)
    if streams:
        await request.unless_gone(channel.wait(KEEP_ALIVE_S))
    else:
        await request.unless_gone(channel.whole())
    return channel.is_ended and (channel.is_empty or not streams)


def answered(
    request: Request, data: bytes, *, modern: bool = False, headers: Headers = ()
) -> Awaitable[None]:
    """Send a JSON-RPC answer, with the HTTP status that its error has."""
    return request.exchange.answer(_status(data, modern), data, headers=headers, type=_JSON)


def refused(request: Request, fault: Fault, request_id: RequestId | None = None) -> Awaitable[None]:
    """Refuse a message before it has come to the engine."""
    data = error_mapping.message(request_id, fault)
    return request.exchange.answer(_STATUS.get(fault.code, 400), data, type=_JSON)


def _status(data: bytes, modern: bool) -> int:
    code = error_mapping.code_of(data)
    if code is None:
        return 200
    if modern:
        return _STATUS.get(code, 200)
    return 400 if code in (revisions.PARSE_ERROR, revisions.INVALID_REQUEST) else 200
