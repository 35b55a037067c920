"""The codec of key values: as segments of a path, and as opaque page cursors.

A value of a column has one canonical segment: plain text where the column's kind is unambiguous
(`5`, `DE`, `2026-11-20`), and a typed form otherwise:

| form | value |
|---|---|
| `~n` | NULL |
| `~i5` | an integer |
| `~r5.5`, `~r1e+300`, `~rinf`, `~rnan` | a floating-point number, in Python's `repr` |
| `~tabc`, `~ta~2Fb`, `~t` | text; `~`, `/` and NUL become `~HH`; `~t` alone is the empty string |
| `~bAP8` | bytes, as base64url without padding |

No segment is empty, a dot segment, or contains `/` or NUL, which URIs cannot carry. Text that is
not UTF-8 carries its bytes as lone surrogates (`surrogateescape`) on both sides. Case and Unicode
normal forms are preserved.

A cursor holds the key of the last row of a page. It needs no state on the server and survives
restarts. It is not signed: a forged cursor only reaches another page of the same table, which its
author may read anyway. Decoding accepts only values to bind, one for each column of the key.
"""

from __future__ import annotations

import math
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.engines.reflection import Column, ColumnKind

Temporal = TypeVar("Temporal", date, datetime, time)
KeyValue: TypeAlias = bool | int | float | str | bytes | Decimal | date | time | UUID | None
"""A key value decoded from a URI, ready to bind. `datetime` is a subclass of `date`."""


class RawText(bytes):
    """SQLite text that is not UTF-8, bound as its bytes; see `Statements`."""


MAX_LENGTH = uris.MAX_URI_LENGTH - 1024
"""Maximum characters of a percent-encoded key or path; leaves room for the base and a query."""
MAX_CURSOR_LENGTH = 12 * 1024
"""Maximum characters of a cursor; leaves room for the path and other URI parameters."""

INVALID_CURSOR = "cursor is not one that this table gave; begin again without a cursor"
EXPIRED_CURSOR = "cursor expired, since the table has been changed; begin again without a cursor"

_MAX_QUOTED = 12
# A character may be four bytes, each written `%HH`.
_MAX_DIGITS = 4000
# Python converts at most 4,300 digits to an integer; no database has numbers that long.
_CURSOR_VERSION = 1

_TEXTUAL: frozenset[ColumnKind] = frozenset(("text", "json", "other"))
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[Ee][+-]?[0-9]{1,6})?")
_DIGITS = re.compile(r"(-?)(0|[1-9][0-9]{0,18})")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d(?::\d\d)?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_DATETIME = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}", re.ASCII)
_SPAN = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.\d{6})?", re.ASCII)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-?)[0-9A-Fa-f]{4}(?:\1[0-9A-Fa-f]{4}){2}\1[0-9A-Fa-f]{12}")
_SPECIAL = re.compile("[~/\0]")
_ESCAPE = re.compile(rb"~(?:([0-9A-Fa-f]{2})|)")
# No zone on purpose: asyncpg represents infinity so, even in columns with zones.
_INFINITIES = (datetime.min, datetime.max)  # noqa: DTZ901
_CLASSES: Mapping[ColumnKind, tuple[type, ...]] = {
    "integer": (int,),
    "boolean": (int,),
    "real": (int, float),
    "numeric": (int, float, Decimal),
    "blob": (bytes,),
}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_CURSOR_TEXT = re.compile(r"[A-Za-z0-9_-]+")
_CURSOR_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))


def encode_key(value: object, column: Column) -> str:
    """Return the canonical segment of a value from the driver.

    Raises:
        ValueError: the value is too long for a URI, or its class cannot be a key.
    """
    if type(value) is int and column.kind == "integer" and -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, (str, bytes)) and len(value) > MAX_LENGTH:
        raise ValueError("the key is too long for a URI")
    segment = _encode(value, column)
    if len(segment) * _MAX_QUOTED > MAX_LENGTH and len(uris.quote_segment(segment)) > MAX_LENGTH:
        raise ValueError("the key is too long for a URI")
    return segment


def decode_key(segment: str, column: Column) -> KeyValue:
    """Return the value of a segment, canonical or not, in this column.

    Plain text decodes to the class of the column's kind; a MySQL time beyond 24 hours stays text.
    A typed form decodes to its own class, whatever the column.

    Raises:
        ResourceNotFound: no key is spelled this way.
    """
    if len(segment) > MAX_LENGTH or not _is_text_segment(segment):
        raise ResourceNotFound
    try:
        if segment[0] != "~":
            return _PLAIN[column.kind](segment, column)
        typed = _TYPED.get(segment[1:2])
        if typed is None:
            raise ResourceNotFound
        return typed(segment[2:], column)
    except (ValueError, OverflowError):
        raise ResourceNotFound from None


def fits_column(value: KeyValue, column: Column) -> bool:
    """Return whether a column of a server (not SQLite) can hold a decoded value.

    Servers refuse a value of another class, or compare it as something else.
    """
    if value is None:
        return True
    classes = _CLASSES.get(column.kind)
    if classes is None:
        return not isinstance(value, (int, float, bytes))
    return isinstance(value, classes)


def prefix_bounds(begun: str, column: Column) -> Iterator[KeyValue]:
    """Yield the lower bounds, in column order, of keys whose spelling begins with `begun`.

    None is the start of the column. Text, and every kind whose spelling sorts like its values, has
    one bound; integers have one for each number of digits.
    """
    if column.kind == "integer" and (match := _DIGITS.fullmatch(begun)):
        sign, digits = match.groups()
        number = int(digits)
        for more in range(1 if digits == "0" else 19):
            least = -(number + 1) * 10**more + 1 if sign else number * 10**more
            if _in_range(number * 10**more, column):
                yield max(least, -(2**63))
        return
    try:
        # A prefix may not be a value of an enumeration, and enumerations are short anyway.
        yield None if column.values or not begun else decode_key(begun, column)
    except ResourceNotFound:
        yield None


def storage_value(value: object) -> object:
    """Return a decoded value in one of SQLite's five storage classes.

    Decimals and integers beyond 64 bits become the nearest floating-point number, as in SQLite
    itself; booleans become 0 and 1; dates, times and UUIDs become text. Text that is not UTF-8
    becomes `RawText`, because the driver cannot bind it as `str`.
    """
    if isinstance(value, str):
        return value if value.isascii() else _bound_text(value)
    if value is None or isinstance(value, (bytes, float)):
        return value
    if isinstance(value, int):
        # Through a decimal, which overflows to infinity instead of raising.
        return int(value) if -(2**63) <= value < 2**63 else float(Decimal(value))
    if isinstance(value, Decimal):
        return float(value)
    try:
        return _text_of(value)
    except ValueError:
        return str(value)  # matches no row


def _bound_text(text: str) -> str | RawText:
    try:
        text.encode()
    except UnicodeEncodeError:
        return RawText(text.encode("utf-8", "surrogateescape"))
    return text


def encode_text(text: str) -> str:
    """Return the canonical segment of a text or name: plain if a URI can carry it.

    Raises:
        ValueError: the text has surrogates that `surrogateescape` does not produce.
    """
    _text_bytes(text)
    plain = uris.is_segment(text) and text[0] != "~"
    return text if plain else _typed_text(text)


def decode_text(segment: str) -> str:
    """Return the text of a segment: the segment itself, or the content of its `~t` form.

    Raises:
        ResourceNotFound: the segment has another typed form, or cannot occur in a URI.
    """
    if not _is_text_segment(segment) or (segment[0] == "~" and segment[1:2] != "t"):
        raise ResourceNotFound
    if segment[0] != "~":
        return segment
    try:
        return _untyped_text(segment[2:])
    except ValueError:
        raise ResourceNotFound from None


def _encode(value: object, column: Column) -> str:
    kind = column.kind
    if value is None:
        return "~n"
    if isinstance(value, int):
        return _integer(value, column)
    if isinstance(value, float):
        plain = kind in ("real", "numeric") and math.isfinite(value)
        return repr(value) if plain else f"~r{value!r}"
    if isinstance(value, bytes):
        return "~b" + _base64(value)
    if isinstance(value, str):
        if kind in _TEXTUAL:
            return encode_text(value)
        return value if _is_own_text(value, column) else _typed_text(value)
    if isinstance(value, Decimal) and not value.is_finite():
        return f"~r{float(value)!r}"
    if isinstance(value, timedelta) and kind != "time":
        # A PostgreSQL interval: its text distinguishes days from hours, a timedelta does not.
        raise ValueError("an interval cannot be a key in a URI")
    text = _text_of(value)
    if kind in _TEXTUAL:
        return encode_text(text)
    return text if kind == _kind_of(value) else _typed_text(text)


def _integer(value: int, column: Column) -> str:
    """Return the segment of an integer or boolean."""
    if column.kind == "boolean" and value in (0, 1):
        return "true" if value else "false"
    if column.kind == "numeric":
        return str(int(value))
    if not _in_range(value, column):
        raise ValueError("the integer exceeds 64 bits")
    return str(int(value)) if column.kind == "integer" else f"~i{int(value)}"


def _in_range(value: int, column: Column) -> bool:
    unsigned = "unsigned" in column.type.lower()
    return -(2**63) <= value < (2**64 if unsigned else 2**63)


def _is_own_text(text: str, column: Column) -> bool:
    """Return whether a text in a date, time or UUID column is the canonical text of its value.

    SQLite stores dates as text, so binding the text of the decoded date finds the row again.
    """
    if column.kind not in ("date", "time", "datetime", "uuid") or not text.isascii():
        return False
    try:
        return _text_of(decode_key(text, column)) == text
    except (ResourceNotFound, ValueError):
        return False


def _kind_of(value: object) -> ColumnKind | None:
    if isinstance(value, Decimal):
        return "numeric"
    if isinstance(value, datetime):
        return "datetime"
    if isinstance(value, date):
        return "date"
    if isinstance(value, (time, timedelta)):
        return "time"
    return "uuid" if isinstance(value, UUID) else None


def _text_of(value: object) -> str:
    """Return the canonical text of a value that SQLite has no storage class for.

    Raises:
        ValueError: the class cannot be a key.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        _check_size(value)
        return format(value, "f")
    if isinstance(value, datetime):
        return _datetime_text(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _span_text(value)
    # PostgreSQL's inet and cidr: six classes of one module.
    if isinstance(value, UUID) or type(value).__module__ == "ipaddress":
        return str(value)
    raise ValueError(f"a {type(value).__name__} cannot be a key in a URI")


def _check_size(value: Decimal) -> None:
    """Refuse a number with more digits than fit in a URI."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MAX_LENGTH or value.adjusted() > MAX_LENGTH:
        raise ValueError("the number is too long for a URI")


def _datetime_text(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise ValueError("the time is outside the calendar in UTC") from None


def _span_text(value: timedelta) -> str:
    """Return a MySQL TIME, from -838 to 838 hours, as MySQL writes it."""
    microseconds = abs(value) // timedelta(microseconds=1)
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        text += f".{fraction:06}"
    if seconds >= 839 * 3600:
        raise ValueError("the time is longer than any database can store")
    return f"-{text}" if value < timedelta(0) else text


def _typed_text(text: str) -> str:
    _text_bytes(text)
    return "~t" + _SPECIAL.sub(lambda found: f"~{ord(found[0]):02X}", text)


def _untyped_text(body: str) -> str:
    if "~" not in body:
        return body

    def byte(found: re.Match[bytes]) -> bytes:
        # A bare `~` is no escape, and `bytes.fromhex` would not raise for it.
        if found[1] is None:
            raise ValueError
        return bytes.fromhex(found[1].decode())

    data = _ESCAPE.sub(byte, body.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _text_bytes(text: str) -> bytes:
    """Return UTF-8, with the bytes that `surrogateescape` has put into the text.

    Raises:
        ValueError: the text has other lone surrogates.
    """
    data = text.encode("utf-8", "surrogateescape")
    if not text.isascii() and data.decode("utf-8", "surrogateescape") != text:
        raise ValueError("the text contains surrogates that are not bytes")
    return data


def _is_text_segment(segment: str) -> bool:
    if not uris.is_segment(segment):
        return False
    try:
        _text_bytes(segment)
    except ValueError:
        return False
    return True


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _match(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError
    return text


def _decode_integer(text: str, column: Column) -> KeyValue:
    if column.kind == "numeric":
        return _decode_numeric(_match(_WHOLE, text), column)
    value = int(_match(_INTEGER, text))
    if not _in_range(value, column):
        raise ValueError
    return value


def _decode_real(text: str, column: Column) -> KeyValue:
    if text in ("nan", "inf", "-inf"):
        raise ValueError
    return _decode_float(text, column)


def _decode_float(text: str, column: Column) -> KeyValue:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    if column.kind == "numeric":
        return _decode_numeric(text, column)
    value = float(_match(_NUMBER, text))
    if math.isinf(value):
        raise ValueError
    return value


def _decode_numeric(text: str, column: Column) -> KeyValue:
    """Return an integer if it fits in 64 bits, otherwise a decimal, which servers keep exact."""
    value = Decimal(_match(_NUMBER, text))
    _check_size(value)
    if _WHOLE.fullmatch(text) and -(2**63) <= value < 2**63:
        return int(value)
    return value


def _decode_boolean(text: str, column: Column) -> KeyValue:
    if text not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[text]


def _decode_date(text: str, column: Column) -> KeyValue:
    return date.fromisoformat(_match(_DATE, text))


def _decode_time(text: str, column: Column) -> KeyValue:
    try:
        return time.fromisoformat(_match(_TIME, text))
    except ValueError:
        return _match(_SPAN, text)


def _decode_datetime(text: str, column: Column) -> KeyValue:
    """Return a datetime; in UTC if it has a zone or the column's type has zones."""
    value = datetime.fromisoformat(_match(_DATETIME, text))
    declared = column.type.lower()
    if value.tzinfo is not None:
        if "without time zone" in declared:
            raise ValueError
        return value.astimezone(UTC)
    zoned = "with time zone" in declared or "timestamptz" in declared
    if zoned and value not in _INFINITIES:
        return value.replace(tzinfo=UTC)
    return value


def _decode_uuid(text: str, column: Column) -> KeyValue:
    return UUID(_match(_UUID, text))


def _decode_bytes(text: str, column: Column) -> KeyValue:
    return _unbase64(_match(_BASE64, text))


def _decode_null(text: str, column: Column) -> KeyValue:
    if text:
        raise ValueError
    return None


def _ambiguous(text: str, column: Column) -> KeyValue:
    raise ValueError


_Decoder: TypeAlias = Callable[[str, Column], KeyValue]

_TYPED: Mapping[str, _Decoder] = {
    "n": _decode_null,
    "i": _decode_integer,
    "r": _decode_float,
    "t": lambda text, column: _untyped_text(text),
    "b": _decode_bytes,
}
_PLAIN: Mapping[ColumnKind, _Decoder] = {
    "integer": _decode_integer,
    "real": _decode_real,
    "numeric": _decode_numeric,
    "text": lambda text, column: text,
    "json": lambda text, column: text,
    "other": lambda text, column: text,
    "boolean": _decode_boolean,
    "date": _decode_date,
    "time": _decode_time,
    "datetime": _decode_datetime,
    "uuid": _decode_uuid,
    "blob": _ambiguous,
    "any": _ambiguous,
}


# -- page cursors


class PageCursor(msgspec.Struct, frozen=True):
    """The position after a row: its key and the direction of the order."""

    fingerprint: str
    """Digest of the table's columns and key; differs after they change."""
    key: tuple[object, ...]
    """Values of the driver; decoding returns the same classes."""
    descending: bool = False


class _CursorFields(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    fingerprint: str
    descending: bool
    # Each value with the letter of its class. Flat, so that no input can nest deeply.
    key: tuple[tuple[str, bytes], ...]


_cursor_decoder = msgspec.msgpack.Decoder(_CursorFields)


def encode_cursor(cursor: PageCursor) -> str:
    """Return the cursor as text of unreserved characters.

    Raises:
        ValueError: the text would be too long, or the class of a value (such as NULL) cannot be a
            key.
    """
    key = tuple(_pack(value) for value in cursor.key)
    if sum(len(data) for _, data in key) > MAX_CURSOR_LENGTH:
        raise ValueError("the key is too long for a cursor")
    wire = _CursorFields(_CURSOR_VERSION, cursor.fingerprint, cursor.descending, key)
    text = _base64(msgspec.msgpack.encode(wire))
    if len(text) > MAX_CURSOR_LENGTH:
        raise ValueError("the key is too long for a cursor")
    return text


def decode_cursor(text: str, *, fingerprint: str, columns: int) -> PageCursor:
    """Return the cursor of `text`, for a table with `columns` columns in its key.

    Raises:
        InvalidParameter: not a cursor, or a cursor of another table or of an earlier schema.
    """
    try:
        if len(text) > MAX_CURSOR_LENGTH or not _CURSOR_TEXT.fullmatch(text):
            raise InvalidParameter(INVALID_CURSOR)
        wire = _cursor_decoder.decode(_unbase64(text))
        if wire.version != _CURSOR_VERSION:
            raise InvalidParameter(INVALID_CURSOR)
        if wire.fingerprint != fingerprint:
            raise InvalidParameter(EXPIRED_CURSOR)
        if len(wire.key) != columns:
            raise InvalidParameter(INVALID_CURSOR)
        key = tuple([_UNPACK[letter](data) for letter, data in wire.key])
    except (ValueError, KeyError, ArithmeticError):
        raise InvalidParameter(INVALID_CURSOR) from None
    return PageCursor(wire.fingerprint, key, wire.descending)


def _pack(value: object) -> tuple[str, bytes]:
    """Return the letter of a value's class and the value as bytes."""
    for kind, letter, pack in _PACK:
        if isinstance(value, kind):
            return letter, pack(value)
    if type(value).__module__ == "ipaddress":
        # PostgreSQL's inet and cidr: asyncpg accepts their text, too.
        return "t", str(value).encode()
    raise ValueError(f"a {type(value).__name__} cannot be in a cursor")


def _digits(value: int) -> bytes:
    if value.bit_length() > 3 * _MAX_DIGITS:
        raise ValueError("the number is too long for a cursor")
    return str(int(value)).encode()


def _decimal_text(value: Decimal) -> str:
    """Return the text of a decimal within the size that databases support."""
    text = str(value)
    if value.is_finite():
        exponent = value.as_tuple().exponent
        # PostgreSQL allows 131,072 digits before the decimal point and 16,383 after it.
        if not isinstance(exponent, int) or exponent < -20_000 or value.adjusted() > 140_000:
            raise ValueError("the number is too long for a cursor")
    elif text not in _NOT_FINITE:
        raise ValueError("not a number that a database can store")
    return text


def _iso(value: date | time) -> bytes:
    return value.isoformat().encode()


# The first match counts: `bool` is a subclass of `int`, and `datetime` of `date`.
_PACK: Sequence[tuple[type, str, Callable[[Any], bytes]]] = (
    (bool, "o", lambda value: b"1" if value else b"0"),
    (int, "i", _digits),
    (float, "r", struct.Struct(">d").pack),
    (str, "t", _text_bytes),
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
    if len(text) > _MAX_DIGITS or not _CURSOR_INTEGER.fullmatch(text):
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
    """Return a decoder of the one ISO 8601 form that Python writes."""

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
