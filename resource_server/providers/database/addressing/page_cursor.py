"""Cursors in a table: the key of the last row given, as opaque URL-safe text.

They need no memory on the server and survive its restarts. They are not signed: whoever forges one
gets another page of the same table, which may be asked for anyway. What one holds is checked
to be no more than values to bind, as many as the key has columns.
"""

from __future__ import annotations

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from resource_server.errors import InvalidParameter

MAX_LENGTH = 12 * 1024
"""Characters; the rest of a URI is for its path and other parameters."""

INVALID = "cursor is not one that this table gave; begin again without a cursor"
EXPIRED = "cursor expired, since the table has been changed; begin again without a cursor"

_VERSION = 1
_MAX_DIGITS = 4000
# Python makes no integers of more than 4,300, and no database has such numbers.

_BASE64 = re.compile(r"[A-Za-z0-9_-]+")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))

Temporal = TypeVar("Temporal", date, datetime, time)


class PageCursor(msgspec.Struct, frozen=True):
    """Where a table is read on: behind the row that has this key, in this order."""

    fingerprint: str
    """Of the table, in short: another one when its columns or its key are others."""
    key: tuple[object, ...]
    """As the driver gave it: of the same classes when it comes back."""
    descending: bool = False


class _CursorFields(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    fingerprint: str
    descending: bool
    # Each value with the letter of its class; nothing is nested, so nothing can be nested deeply.
    key: tuple[tuple[str, bytes], ...]


_decoder = msgspec.msgpack.Decoder(_CursorFields)


def encode_cursor(cursor: PageCursor) -> str:
    """Return the cursor as text of unreserved characters.

    Raises:
        ValueError: it would be too long, or a value is of a class that no key has, as NULL is.
    """
    key = tuple(_pack(value) for value in cursor.key)
    if sum(len(data) for _, data in key) > MAX_LENGTH:
        raise ValueError("the key is too long for a cursor")
    wire = _CursorFields(_VERSION, cursor.fingerprint, cursor.descending, key)
    text = urlsafe_b64encode(msgspec.msgpack.encode(wire)).rstrip(b"=").decode()
    if len(text) > MAX_LENGTH:
        raise ValueError("the key is too long for a cursor")
    return text


def decode_cursor(text: str, *, fingerprint: str, columns: int) -> PageCursor:
    """Return the cursor that `text` holds, for a table whose key has so many columns.

    Raises:
        InvalidParameter: not a cursor, or one of another table, or of this one before it changed.
    """
    try:
        if len(text) > MAX_LENGTH or not _BASE64.fullmatch(text):
            raise InvalidParameter(INVALID)
        wire = _decoder.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if wire.version != _VERSION:
            raise InvalidParameter(INVALID)
        if wire.fingerprint != fingerprint:
            raise InvalidParameter(EXPIRED)
        if len(wire.key) != columns:
            raise InvalidParameter(INVALID)
        key = tuple([_UNPACK[letter](data) for letter, data in wire.key])
    except (ValueError, KeyError, ArithmeticError):
        raise InvalidParameter(INVALID) from None
    return PageCursor(wire.fingerprint, key, wire.descending)


def _pack(value: object) -> tuple[str, bytes]:
    """Return the letter of a value's class, and the value as bytes."""
    for kind, letter, pack in _PACK:
        if isinstance(value, kind):
            return letter, pack(value)
    if type(value).__module__ == "ipaddress":
        # PostgreSQL's inet and cidr, which their driver takes as text too.
        return "t", str(value).encode()
    raise ValueError(f"a {type(value).__name__} cannot be in a cursor")


def _digits(value: int) -> bytes:
    if value.bit_length() > 3 * _MAX_DIGITS:
        raise ValueError("the number is too long for a cursor")
    return str(int(value)).encode()


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    if data.decode("utf-8", "surrogateescape") != value:
        raise ValueError("the text holds surrogates that are no bytes")
    return data


def _decimal_text(value: Decimal) -> str:
    """Return the text of a decimal of a size that a database can have."""
    text = str(value)
    if value.is_finite():
        exponent = value.as_tuple().exponent
        # PostgreSQL's have up to 131,072 digits before the point and 16,383 behind it.
        if not isinstance(exponent, int) or exponent < -20_000 or value.adjusted() > 140_000:
            raise ValueError("the number is too long for a cursor")
    elif text not in _NOT_FINITE:
        raise ValueError("not a number of any database")
    return text


def _iso(value: date | time) -> bytes:
    return value.isoformat().encode()


# The first that fits: `bool` is an `int` as well, and `datetime` a `date`.
_PACK: Sequence[tuple[type, str, Callable[[Any], bytes]]] = (
    (bool, "o", lambda value: b"1" if value else b"0"),
    (int, "i", _digits),
    (float, "r", struct.Struct(">d").pack),
    (str, "t", _text),
    (bytes, "b", bytes),
    (Decimal, "d", lambda value: _decimal_text(value).encode()),
    (datetime, "s", _iso),
    (date, "y", _iso),
    (time, "h", _iso),
    (timedelta, "l", lambda value: _digits(value // timedelta(microseconds=1))),
    (UUID, "u", lambda value: value.bytes),
)


def _unpack_boolean(data: bytes) -> bool:
    return {b"1": True, b"0": False}[data]


def _unpack_integer(data: bytes) -> int:
    text = data.decode("ascii")
    if len(text) > _MAX_DIGITS or not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)


def _unpack_float(data: bytes) -> float:
    if len(data) != 8:
        raise ValueError
    value: float = struct.unpack(">d", data)[0]
    return value


def _unpack_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _unpack_bytes(data: bytes) -> bytes:
    return data


def _unpack_decimal(data: bytes) -> Decimal:
    text = data.decode("ascii")
    value = Decimal(text)
    if _decimal_text(value) != text:
        raise ValueError
    return value


def _temporal(parse: Callable[[str], Temporal]) -> Callable[[bytes], Temporal]:
    """Return what takes the one ISO 8601 form that Python writes."""

    def unpack(data: bytes) -> Temporal:
        text = data.decode("ascii")
        value = parse(text)
        if value.isoformat() != text:
            raise ValueError
        return value

    return unpack


def _unpack_span(data: bytes) -> timedelta:
    return timedelta(microseconds=_unpack_integer(data))


def _unpack_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


_UNPACK: Mapping[str, Callable[[bytes], object]] = {
    "o": _unpack_boolean,
    "i": _unpack_integer,
    "r": _unpack_float,
    "t": _unpack_text,
    "b": _unpack_bytes,
    "d": _unpack_decimal,
    "s": _temporal(datetime.fromisoformat),
    "y": _temporal(date.fromisoformat),
    "h": _temporal(time.fromisoformat),
    "l": _unpack_span,
    "u": _unpack_uuid,
}
