"""Requests before their method is called: what is admitted, and in which revision."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import UNSET

from resource_server.protocol import error_mapping, params, revisions
from resource_server.protocol.batch import Batch
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.outbox import Send
from resource_server.protocol.revisions import Revision

UNPARSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Header: TypeAlias = Callable[[bytes], str | None]
"""What an HTTP header says, by its name in lower case; None where it is not there."""

_HALF = re.compile(
    rb"""(?<!\\)  # after a backslash that is escaped itself it would be plain text
    \\u[dD](?:
        [89abAB][0-9a-fA-F]{2} (?! \\u[dD][c-fC-F][0-9a-fA-F]{2} )
      | [c-fC-F][0-9a-fA-F]{2} (?<! \\u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} )
    )""",
    re.VERBOSE,
)
"""The escape of one surrogate alone."""
_UNKNOWN = "\ufffd"

_decode_message = msgspec.json.Decoder(params.Message).decode
_decode_version = msgspec.json.Decoder(params.Versioned).decode
_decode_params = msgspec.json.Decoder(params.Params).decode


class Request(msgspec.Struct, eq=False):
    """One request on its way to its answer."""

    id: params.RequestId
    method: str
    raw: msgspec.Raw
    reply: Send
    notify: Send
    asks: bool
    """Whether the client hears what it is asked by `notify`."""
    batch: Batch | None
    size: int
    """Bytes of the whole message."""
    header: Header | None = None
    """None where no header repeats what the message says."""
    params: params.Params | None = None
    """None until they have been decoded."""
    task: asyncio.Task[None] | None = None
    """What will answer it, where that has to wait."""
    is_cancelled: bool = False
    """Not what its task says: a task group that failed has cancelled that as well."""

    def cancel(self) -> None:
        """Never answer it, even where its provider takes no notice."""
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()


def decoded(decode: Callable[[msgspec.Raw], params.Params], raw: msgspec.Raw) -> params.Params:
    """Return decoded parameters.

    Raises:
        Fault: they are not those of the method.
    """
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {error}") from None
    except UNPARSABLE:
        raise Fault(revisions.PARSE_ERROR, "Parse error") from None


def mended(data: bytes) -> params.Message | None:
    """Return what cannot be decoded with U+FFFD for each half of a character alone.

    JSON has escapes of halves by its grammar, but no text has them. None where that is not all
    that is wrong, or where the id has one.
    """
    whole, count = _HALF.subn(rb"\\ufffd", data)
    if not count:
        return None
    try:
        message = _decode_message(whole)
    except UNPARSABLE:
        return None
    return None if isinstance(message.id, str) and _UNKNOWN in message.id else message


def unknown(method: str) -> Fault:
    """Return the refusal of a method that the revision does not have."""
    return Fault(revisions.METHOD_NOT_FOUND, "Method not found", {"method": method})


def opening(request: Request) -> Revision:
    """Return the revision whose era the first request of a connection belongs to."""
    if request.method == "initialize":
        return revisions.LATEST_HANDSHAKE
    meta = decoded(_decode_params, request.raw).meta
    if meta is not None and meta.protocol_version is not UNSET:
        return revisions.LATEST_MODERN
    if request.method == "ping":
        return revisions.LATEST_HANDSHAKE
    if request.method not in revisions.LATEST_HANDSHAKE.methods:
        raise unknown(request.method)
    raise Fault(revisions.INVALID_REQUEST, "Invalid request: initialize comes first")


def check_envelope(meta: params.Meta | None, revision: Revision) -> None:
    """Refuse a request whose envelope does not fit the era of its connection."""
    version = UNSET if meta is None else meta.protocol_version
    if not revision.modern:
        if version is not UNSET:
            reason = "this connection was opened by initialize"
            raise Fault(revisions.INVALID_REQUEST, f"Invalid request: {reason}")
        return
    missing: list[str] = []
    if version is UNSET:
        missing.append(revisions.PROTOCOL_VERSION)
    elif version not in revisions.MODERN:
        raise error_mapping.unsupported(version)
    if meta is None or meta.client_capabilities is UNSET:
        missing.append(revisions.CLIENT_CAPABILITIES)
    if missing:
        reason = f"_meta lacks {' and '.join(missing)}"
        raise Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


def chosen(revision: Revision, asked: params.Params) -> Revision:
    """Return the revision that the connection is in from this request on."""
    if isinstance(asked, params.Initialize):
        return revisions.HANDSHAKE.get(asked.protocol_version, revisions.LATEST_HANDSHAKE)
    return revision


def requested(request: Request) -> str:
    """Return the revision that an `initialize` on a modern connection asked for."""
    try:
        version = _decode_version(request.raw).protocol_version
    except UNPARSABLE:
        return ""
    return version
