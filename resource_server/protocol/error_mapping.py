"""JSON-RPC error objects: the only place that turns exceptions into error codes."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from resource_server import uris
from resource_server.errors import (
    ConversionError,
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
    ResourceUnreadable,
)
from resource_server.protocol import revisions
from resource_server.protocol.params import RequestId
from resource_server.protocol.revisions import Revision


class Fault(Exception):
    """Ends a request with a JSON-RPC error object."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def encode(self) -> bytes:
        """Return the JSON-RPC error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return msgspec.json.encode(error)


class ErrorResponse(bytes):
    """An encoded error response that remembers its code."""

    code: int

    def __new__(cls, data: bytes, code: int) -> Self:
        """Wrap an encoded response."""
        response = super().__new__(cls, data)
        response.code = code
        return response


def code_of(response: bytes) -> int | None:
    """Return the code of an error response; None for a result or the responses of a batch."""
    return response.code if isinstance(response, ErrorResponse) else None


def error_response(request_id: RequestId | None, fault: Fault) -> ErrorResponse:
    """Return an error response; without a usable id, its id is null."""
    parts = msgspec.json.encode(request_id), fault.encode()
    return ErrorResponse(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % parts, fault.code)


def method_not_found(method: str) -> Fault:
    """Return the error for a method that the revision does not have."""
    return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": method})


def unsupported_version(requested: str) -> Fault:
    """Return the error for a protocol version that no envelope may have."""
    supported = list(revisions.MODERN)
    data = {"supported": supported, "requested": requested}
    return Fault(revisions.UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def header_mismatch(header: str, what: str) -> Fault:
    """Return the error for an HTTP header that does not repeat the body."""
    return Fault(revisions.HEADER_MISMATCH, f"The header {header} is not {what} of the body")


def from_error(error: BaseException, uri: str | None, revision: Revision) -> Fault | None:
    """Return the fault for an expected error; None for any other, which is not disclosed."""
    about = {} if uri is None else {"uri": uri}
    match error:
        case Fault():
            return error
        case ResourceUnreadable():
            return Fault(revisions.UNREADABLE, _sentence(error), {**about, "retryable": False})
        case ResourceNotFound(suggestions=near):
            suggested = {"suggestions": near} if near else {}
            return Fault(
                revision.resource_not_found, _sentence(error), {**about, **suggested} or None
            )
        case ResourceTooLarge(size=size, limit=limit, next=query):
            first = {} if uri is None else {"next": uris.with_query(uri.partition("?")[0], query)}
            return Fault(
                revisions.TOO_LARGE,
                _sentence(error),
                {**about, "size": size, "limit": limit, **first},
            )
        case NotACollection() | InvalidParameter() | ConversionError():
            return Fault(revisions.INVALID_PARAMS, _sentence(error), about or None)
        case DeadlineExceeded():
            return Fault(
                revisions.DEADLINE_EXCEEDED, _sentence(error), {**about, "retryable": True}
            )
        case ResourceBusy(is_temporary=again):
            return Fault(revisions.BUSY, _sentence(error), {**about, "retryable": again})
        case MountUnavailable(told=told, is_temporary=again):
            # Its message is for the operator only.
            return Fault(revisions.BUSY, _sentence(told), {**about, "retryable": again})
        case _:
            return None


def _sentence(error: object) -> str:
    text = str(error)
    if text.partition(" ")[0].isalpha():  # no name, such as `where.total` or `sort:`
        text = text[:1].upper() + text[1:]
    return uris.display(text)
