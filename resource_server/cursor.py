"""Cursors: where a listing goes on, as opaque text that needs no memory on the server.

A cursor holds the listing it belongs to and the path of the last item given, so it survives
restarts and changes. It is not signed: whoever forges one gets what a listing may give anyway.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

import msgspec

from resource_server.errors import InvalidParameter
from resource_server.provider import Path

_VERSION = 1
_MAX_LENGTH = 32 * 1024
INVALID = "cursor is not one that this listing gave; begin again without a cursor"


class Cursor(msgspec.Struct, frozen=True):
    """The last item given: `path` in `mount`, of the listing that `scope` names."""

    scope: str
    mount: str
    path: Path


class _Wire(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    scope: bytes
    mount: str
    path: tuple[bytes, ...]


_decoder = msgspec.msgpack.Decoder(_Wire)


def encode(cursor: Cursor) -> str:
    """Return the cursor as URL-safe text."""
    path = tuple(segment.encode("utf-8", "surrogateescape") for segment in cursor.path)
    packed = msgspec.msgpack.encode(_Wire(_VERSION, _digest(cursor.scope), cursor.mount, path))
    return urlsafe_b64encode(packed).rstrip(b"=").decode()


def decode(text: str, *, scope: str) -> Cursor:
    """Return the cursor that `text` holds.

    Raises:
        InvalidParameter: not a cursor, or one of another listing.
    """
    try:
        if len(text) > _MAX_LENGTH:
            raise InvalidParameter(INVALID)
        wire = _decoder.decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except ValueError:
        raise InvalidParameter(INVALID) from None
    path = tuple(segment.decode("utf-8", "surrogateescape") for segment in wire.path)
    illegal = any(
        segment in ("", ".", "..") or "/" in segment or "\0" in segment for segment in path
    )
    if wire.version != _VERSION or wire.scope != _digest(scope) or illegal:
        raise InvalidParameter(INVALID)
    return Cursor(scope, wire.mount, path)


def _digest(scope: str) -> bytes:
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=6).digest()
