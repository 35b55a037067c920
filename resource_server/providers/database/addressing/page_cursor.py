"""Page cursors: the position after a row, as opaque text.

A cursor holds the segments of a row's key, after those of the columns that the page is ordered by,
or the number of rows that were returned: of those without a key, in an order of all columns, or of
groups. It needs no state on the server and survives restarts. It is not signed: a forged cursor
only reaches another page of the same table, which its author may read anyway. Its segments are
decoded and checked as those of a row's address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.addressing import segments
from resource_server.providers.database.addressing.key_types import KeyType

MAX_CURSOR_LENGTH = 12 * 1024
"""Maximum characters of a cursor; leaves room for the path and other URI parameters."""

INVALID_CURSOR = "invalid cursor for this table; begin again without a cursor"
EXPIRED_CURSOR = "cursor expired, since the table has been changed; begin again without a cursor"

_VERSION = 2
_MAX_ROWS = 2**53
_TEXT = re.compile(r"[A-Za-z0-9_-]+")


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    fingerprint: str
    # As bytes, because text that is not UTF-8 is no text of MessagePack.
    key: tuple[bytes | None, ...]
    rows: Annotated[int, msgspec.Meta(ge=0, le=_MAX_ROWS)] = 0
    """Rows without a key that were returned; 0 in a cursor that holds a key."""


_decode = msgspec.msgpack.Decoder(_Cursor).decode
_encode = msgspec.msgpack.Encoder().encode


def encode_cursor(
    key: Sequence[object], types: Sequence[KeyType], *, fingerprint: str, nullable: int = 0
) -> str:
    """Return the cursor after a key of the driver, in unreserved characters.

    `fingerprint` is a digest of the table's columns and key; it differs after they change. The
    first `nullable` values may be NULL.

    Raises:
        ValueError: the text would be too long, or a value (such as NULL) cannot be part of a key.
    """
    held: list[bytes | None] = []
    for place, (value, type) in enumerate(zip(key, types, strict=True)):
        if value is None and place < nullable:
            held.append(None)
            continue
        if isinstance(value, str | bytes) and len(value) > MAX_CURSOR_LENGTH:
            raise ValueError("the key is too long for a cursor")
        held.append(type.encode(value).encode("utf-8", "surrogateescape"))
    text = segments.base64url(_encode(_Cursor(_VERSION, fingerprint, tuple(held))))
    if len(text) > MAX_CURSOR_LENGTH:
        raise ValueError("the key is too long for a cursor")
    return text


def decode_cursor(
    text: str, types: Sequence[KeyType], *, fingerprint: str, nullable: int = 0
) -> tuple[object, ...]:
    """Return the key in a cursor, in the driver's classes; as `encode_cursor` was given it.

    Raises:
        InvalidParameter: not a cursor, or a cursor of another table or of an earlier schema.
    """
    return _key(_held(text, fingerprint), types, nullable)


def decode_position(
    text: str, types: Sequence[KeyType], *, fingerprint: str, nullable: int = 0
) -> tuple[object, ...] | int:
    """Return the key in a cursor, as `decode_cursor`, or the number, as `decode_row_count`."""
    held = _held(text, fingerprint)
    passed = _row_count(held)
    return _key(held, types, nullable) if passed is None else passed


def _key(held: _Cursor, types: Sequence[KeyType], nullable: int) -> tuple[object, ...]:
    if len(held.key) != len(types) or held.rows or None in held.key[nullable:]:
        raise InvalidParameter(INVALID_CURSOR)
    try:
        return tuple(
            [
                None if segment is None else type.decode(segment.decode("utf-8", "surrogateescape"))
                for segment, type in zip(held.key, types, strict=True)
            ]
        )
    except (ValueError, ResourceNotFound):
        raise InvalidParameter(INVALID_CURSOR) from None


def encode_row_count(rows: int, *, fingerprint: str) -> str:
    """Return the cursor after this many rows without a key."""
    return segments.base64url(_encode(_Cursor(_VERSION, fingerprint, (), rows)))


def decode_row_count(text: str, *, fingerprint: str) -> int | None:
    """Return the number in a cursor of `encode_row_count`, or None if the cursor holds a key.

    Raises:
        InvalidParameter: not a cursor, or a cursor of another table or of an earlier schema.
    """
    return _row_count(_held(text, fingerprint))


def _row_count(held: _Cursor) -> int | None:
    if not held.key and not held.rows:
        raise InvalidParameter(INVALID_CURSOR)
    return None if held.key else held.rows


def _held(text: str, fingerprint: str) -> _Cursor:
    try:
        if len(text) > MAX_CURSOR_LENGTH or not _TEXT.fullmatch(text):
            raise InvalidParameter(INVALID_CURSOR)
        held = _decode(segments.decode_bytes(text))
    except ValueError:
        raise InvalidParameter(INVALID_CURSOR) from None
    if held.version != _VERSION:
        raise InvalidParameter(INVALID_CURSOR)
    if held.fingerprint != fingerprint:
        raise InvalidParameter(EXPIRED_CURSOR)
    return held
