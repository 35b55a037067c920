"""Page cursors: the position after a row, as opaque text.

A cursor holds the segments of a row's key. It needs no state on the server and survives restarts.
It is not signed: a forged cursor only reaches another page of the same table, which its author may
read anyway. Its segments are decoded and checked as those of a row's address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.addressing import segments
from resource_server.providers.database.addressing.key_types import KeyType

MAX_CURSOR_LENGTH = 12 * 1024
"""Maximum characters of a cursor; leaves room for the path and other URI parameters."""

INVALID_CURSOR = "cursor is not one that this table gave; begin again without a cursor"
EXPIRED_CURSOR = "cursor expired, since the table has been changed; begin again without a cursor"

_VERSION = 2
_TEXT = re.compile(r"[A-Za-z0-9_-]+")


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    fingerprint: str
    # As bytes, because text that is not UTF-8 is no text of MessagePack.
    key: tuple[bytes, ...]


_decode = msgspec.msgpack.Decoder(_Cursor).decode
_encode = msgspec.msgpack.Encoder().encode


def encode_cursor(key: Sequence[object], types: Sequence[KeyType], *, fingerprint: str) -> str:
    """Return the cursor after a key of the driver, in unreserved characters.

    `fingerprint` is a digest of the table's columns and key; it differs after they change.

    Raises:
        ValueError: the text would be too long, or a value (such as NULL) cannot be part of a key.
    """
    held: list[bytes] = []
    for value, type in zip(key, types, strict=True):
        if isinstance(value, str | bytes) and len(value) > MAX_CURSOR_LENGTH:
            raise ValueError("the key is too long for a cursor")
        held.append(type.encode(value).encode("utf-8", "surrogateescape"))
    text = segments.base64url(_encode(_Cursor(_VERSION, fingerprint, tuple(held))))
    if len(text) > MAX_CURSOR_LENGTH:
        raise ValueError("the key is too long for a cursor")
    return text


def decode_cursor(text: str, types: Sequence[KeyType], *, fingerprint: str) -> tuple[object, ...]:
    """Return the key in a cursor, in the driver's classes.

    Raises:
        InvalidParameter: not a cursor, or a cursor of another table or of an earlier schema.
    """
    try:
        if len(text) > MAX_CURSOR_LENGTH or not _TEXT.fullmatch(text):
            raise InvalidParameter(INVALID_CURSOR)
        held = _decode(segments.decode_bytes(text))
        if held.version != _VERSION:
            raise InvalidParameter(INVALID_CURSOR)
        if held.fingerprint != fingerprint:
            raise InvalidParameter(EXPIRED_CURSOR)
        if len(held.key) != len(types):
            raise InvalidParameter(INVALID_CURSOR)
        return tuple(
            [
                type.decode(segment.decode("utf-8", "surrogateescape"))
                for segment, type in zip(held.key, types, strict=True)
            ]
        )
    except (ValueError, ResourceNotFound):
        raise InvalidParameter(INVALID_CURSOR) from None
