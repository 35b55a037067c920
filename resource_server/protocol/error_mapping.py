"""Errors as JSON-RPC error objects: the only place that turns an exception into a code."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from resource_server import uris
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.protocol import revisions
from resource_server.protocol.params import RequestId
from resource_server.protocol.revisions import Revision


class Fault(Exception):
    """A request that is answered by an error object."""

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


class ErrorMessage(bytes):
    """An answer that is an error, as it is sent: so that nobody has to look for its code in it."""

    code: int

    def __new__(cls, data: bytes, code: int) -> Self:
        """Make it of the encoded answer."""
        message = super().__new__(cls, data)
        message.code = code
        return message


def code_of(answer: bytes) -> int | None:
    """Return the code of an answer that is an error; an answer to a batch has none."""
    return answer.code if isinstance(answer, ErrorMessage) else None


def message(request_id: RequestId | None, fault: Fault) -> ErrorMessage:
    """Return the answer to a request; to what has no usable id, with None."""
    parts = msgspec.json.encode(request_id), fault.encode()
    return ErrorMessage(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % parts, fault.code)


def method_not_found(method: str) -> Fault:
    """Return the refusal of a method that the revision does not have."""
    return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": method})


def unsupported(requested: str) -> Fault:
    """Return the refusal of a protocol revision in an envelope."""
    supported = list(revisions.MODERN)
    data = {"supported": supported, "requested": requested}
    return Fault(revisions.UNSUPPORTED_REVISION, "Unsupported protocol version", data)


def header_mismatch(header: str, what: str) -> Fault:
    """Return the refusal of a request whose HTTP header does not repeat its body."""
    return Fault(revisions.HEADER_MISMATCH, f"The header {header} is not {what} of the body")


def from_error(error: BaseException, uri: str | None, revision: Revision) -> Fault | None:
    """Return what a client is told of `error`; None for a defect, of which it is told nothing."""
    about = {} if uri is None else {"uri": uri}
    match error:
        case Fault():
            return error
        case ResourceNotFound():
            return Fault(revision.resource_not_found, _sentence(error), about or None)
        case ResourceTooLarge(size=size, limit=limit, next=query):
            first = {} if uri is None else {"next": uris.with_query(uri.partition("?")[0], query)}
            return Fault(
                revisions.TOO_LARGE,
                _sentence(error),
                {**about, "size": size, "limit": limit, **first},
            )
        case NotACollection() | InvalidParameter():
            return Fault(revisions.INVALID_PARAMS, _sentence(error), about or None)
        case DeadlineExceeded():
            return Fault(
                revisions.DEADLINE_EXCEEDED, _sentence(error), {**about, "retryable": True}
            )
        case ResourceBusy():
            return Fault(revisions.BUSY, _sentence(error), {**about, "retryable": True})
        case MountUnavailable():
            # Its message is the operator's.
            return Fault(revisions.BUSY, "Temporarily unavailable", {**about, "retryable": True})
        case _:
            return None


def _sentence(error: BaseException) -> str:
    text = str(error)
    return uris.display(text[:1].upper() + text[1:])
