"""HTTP responses to JSON-RPC messages: a JSON body, or an event stream for slow ones."""

from __future__ import annotations

from collections.abc import Awaitable

from resource_server.protocol import error_mapping, revisions
from resource_server.protocol.error_mapping import ErrorResponse, Fault
from resource_server.protocol.params import RequestId
from resource_server.transports.http.app.request import EVENT_STREAM, JSON, Headers, HttpRequest
from resource_server.transports.http.sse.event_stream import EventStream

_STATUSES = {
    revisions.PARSE_ERROR: 400,
    revisions.INVALID_REQUEST: 400,
    revisions.INVALID_PARAMS: 400,
    revisions.METHOD_NOT_FOUND: 404,
    revisions.UNSUPPORTED_REVISION: 400,
    revisions.HEADER_MISMATCH: 400,
    revisions.MISSING_CAPABILITY: 400,
}


async def fits_json(request: HttpRequest, stream: EventStream, wait_s: float) -> bool:
    """Wait for the first message; return whether it is the only one, to be sent as plain JSON.

    If the client does not accept an event stream, wait for the last message instead.

    Raises:
        ClientDisconnected: the client has left.
    """
    if not request.accepts(JSON):
        return False
    accepts_stream = request.accepts(EVENT_STREAM)
    if accepts_stream:
        await request.unless_disconnected(stream.wait(wait_s))
    else:
        await request.unless_disconnected(stream.wait_ended())
    return stream.is_ended and (stream.has_only_response or not accepts_stream)


def respond(
    request: HttpRequest, data: bytes, *, modern: bool = False, headers: Headers = ()
) -> Awaitable[None]:
    """Send a JSON-RPC response, with the HTTP status of its error."""
    status = _status(data, modern)
    return request.exchange.respond(status, data, headers=headers, media_type=JSON.encode())


def refuse(
    request: HttpRequest, fault: Fault, request_id: RequestId | None = None
) -> Awaitable[None]:
    """Send an error for a message that the protocol engine has not seen."""
    data = error_mapping.error_response(request_id, fault)
    status = _STATUSES.get(fault.code, 400)
    return request.exchange.respond(status, data, media_type=JSON.encode())


def _status(data: bytes, modern: bool) -> int:
    if not isinstance(data, ErrorResponse):
        return 200
    if modern:
        return _STATUSES.get(data.code, 200)
    return 400 if data.code in (revisions.PARSE_ERROR, revisions.INVALID_REQUEST) else 200
