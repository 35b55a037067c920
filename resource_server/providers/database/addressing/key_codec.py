"""Key values as path segments and back: one canonical spelling for each value of a column.

Plain text where the column's kind leaves no doubt (`5`, `DE`, `2026-11-20`), else a typed form:

| form | value |
|---|---|
| `~n` | NULL |
| `~i5` | an integer |
| `~r5.5`, `~r1e+300`, `~rinf`, `~rnan` | a floating-point number, as Python's `repr` has it |
| `~tabc`, `~ta~2Fb`, `~t` | text; `~`, `/` and NUL are `~HH`, and `~t` alone is the empty text |
| `~bAP8` | bytes, as base64url without padding |

So no segment is ever empty, `.` or `..`, or holds `/` or NUL: URIs cannot carry these. Text that is
not UTF-8 has lone surrogates for its bytes (`surrogateescape`) on both sides. Upper and lower case
and Unicode normal forms are left as they are.
"""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import Column, Kind

KeyValue: TypeAlias = bool | int | float | str | bytes | Decimal | date | time | UUID | None
"""What a key in a URI can be: a value to bind. `datetime` is a `date` to Python."""


class RawText(bytes):
    """A text of SQLite that is not UTF-8, to be bound as its bytes; see `Statements`."""


MAX_LENGTH = uris.MAX_URI_LENGTH - 1024
"""Characters of a percent-encoded key or path; the rest is for the mount's base and a query."""

_MAX_QUOTED = 12
# Four bytes, each `%HH`.

_TEXTUAL: frozenset[Kind] = frozenset(("text", "json", "other"))
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
_NEVER = frozenset(("", ".", ".."))
# Without a zone on purpose: so PostgreSQL's driver has them, in columns with zones too.
_INFINITIES = (datetime.min, datetime.max)  # noqa: DTZ901
_CLASSES: Mapping[Kind, tuple[type, ...]] = {
    "integer": (int,),
    "boolean": (int,),
    "real": (int, float),
    "numeric": (int, float, Decimal),
    "blob": (bytes,),
}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def encode_key(value: object, column: Column) -> str:
    """Return the canonical segment of a value as the driver gave it.

    Raises:
        ValueError: it cannot be addressed: too long for a URI, or of a class that is no key's.
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
    """Return the value that any spelling of a key means in this column.

    It is of the class that the kind of the column suggests, a time outside of the day (MySQL has
    such) its text; a typed form is of its own class, whatever the column.

    Raises:
        ResourceNotFound: no key has this spelling.
    """
    if len(segment) > MAX_LENGTH or not _is_segment(segment):
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
    """Tell whether a decoded value is of a class that a column of a server may hold.

    There columns have types: one of another class is refused, or compared as something else.
    """
    if value is None:
        return True
    classes = _CLASSES.get(column.kind)
    if classes is None:
        return not isinstance(value, (int, float, bytes))
    return isinstance(value, classes)


def prefix_bounds(begun: str, column: Column) -> Iterator[KeyValue]:
    """Yield where in the order of a column those keys stand whose spelling begins so.

    From each of these values on there are some, if there are any; None is the beginning. Of text,
    and of all that is written in the order of its values, that is one place; of integers one for
    each number of digits.
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
        # A part of a word may be no value of an enumeration, which has but a few.
        yield None if column.values or not begun else decode_key(begun, column)
    except ResourceNotFound:
        yield None


def storage_value(value: object) -> object:
    """Return a decoded value as one of the five storage classes of SQLite, which has no others.

    Decimals are the nearest floating-point number, integers beyond 64 bit as well (as SQLite takes
    them itself), truth values 0 and 1, dates, times and UUIDs their text. Text that is not UTF-8 is
    a `RawText`, since the driver binds none.
    """
    if isinstance(value, str):
        return value if value.isascii() else _bound_text(value)
    if value is None or isinstance(value, (bytes, float)):
        return value
    if isinstance(value, int):
        # By way of a decimal, which makes infinity of what is too great.
        return int(value) if -(2**63) <= value < 2**63 else float(Decimal(value))
    if isinstance(value, Decimal):
        return float(value)
    try:
        return _text_of(value)
    except ValueError:
        return str(value)  # is in no row


def _bound_text(text: str) -> str | RawText:
    try:
        text.encode()
    except UnicodeEncodeError:
        return RawText(text.encode("utf-8", "surrogateescape"))
    return text


def encode_text(text: str) -> str:
    """Return the canonical segment of a text, or of a name: plain where a URI can carry it.

    Raises:
        ValueError: not Unicode, and not bytes as `surrogateescape` gives them.
    """
    if not _is_text(text):
        raise ValueError("the text holds surrogates that are no bytes")
    plain = text not in _NEVER and text[0] != "~" and "/" not in text and "\0" not in text
    return text if plain else _typed_text(text)


def decode_text(segment: str) -> str:
    """Return the text that a segment means: itself, or what its typed form holds.

    Raises:
        ResourceNotFound: the segment is of another typed form, or none that a URI can have.
    """
    if not _is_segment(segment) or (segment[0] == "~" and segment[1:2] != "t"):
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
        return "~b" + urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, str):
        if kind in _TEXTUAL:
            return encode_text(value)
        return value if _is_own_text(value, column) else _typed_text(value)
    if isinstance(value, Decimal) and not value.is_finite():
        return f"~r{float(value)!r}"
    if isinstance(value, timedelta) and kind != "time":
        # An interval of PostgreSQL, whose text tells days from hours.
        raise ValueError("an interval cannot be a key in a URI")
    text = _text_of(value)
    if kind in _TEXTUAL:
        return encode_text(text)
    return text if kind == _kind_of(value) else _typed_text(text)


def _integer(value: int, column: Column) -> str:
    """Spell an integer or a truth value."""
    if column.kind == "boolean" and value in (0, 1):
        return "true" if value else "false"
    if column.kind == "numeric":
        return str(int(value))
    if not _in_range(value, column):
        raise ValueError("the integer is beyond 64 bit")
    return str(int(value)) if column.kind == "integer" else f"~i{int(value)}"


def _in_range(value: int, column: Column) -> bool:
    unsigned = "unsigned" in column.type.lower()
    return -(2**63) <= value < (2**64 if unsigned else 2**63)


def _is_own_text(text: str, column: Column) -> bool:
    """Return whether a text in a column of another kind is the very text of a value of this kind.

    SQLite keeps dates as text: what binds the text of the decoded date finds it again.
    """
    if column.kind not in ("date", "time", "datetime", "uuid") or not text.isascii():
        return False
    try:
        return _text_of(decode_key(text, column)) == text
    except (ResourceNotFound, ValueError):
        return False


def _kind_of(value: object) -> Kind | None:
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
    """Return the one text of a value that is of no storage class; a text is its own.

    Raises:
        ValueError: it has none.
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
    """Refuse what would take more digits than a URI has room for."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MAX_LENGTH or value.adjusted() > MAX_LENGTH:
        raise ValueError("the number is too long for a URI")


def _datetime_text(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise ValueError("the time is outside of the calendar in UTC") from None


def _span_text(value: timedelta) -> str:
    """Return a TIME of MySQL as it writes it; it goes from -838 to 838 hours."""
    microseconds = abs(value) // timedelta(microseconds=1)
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        text += f".{fraction:06}"
    if seconds >= 839 * 3600:
        raise ValueError("the time is longer than any database has it")
    return f"-{text}" if value < timedelta(0) else text


def _typed_text(text: str) -> str:
    if not _is_text(text):
        raise ValueError("the text holds surrogates that are no bytes")
    return "~t" + _SPECIAL.sub(lambda found: f"~{ord(found[0]):02X}", text)


def _untyped_text(body: str) -> str:
    if "~" not in body:
        return body

    def byte(found: re.Match[bytes]) -> bytes:
        # Without digits this is no escape, and no ValueError of `bytes.fromhex` either.
        if found[1] is None:
            raise ValueError
        return bytes.fromhex(found[1].decode())

    data = _ESCAPE.sub(byte, body.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _is_text(text: str) -> bool:
    """Return whether a text is Unicode, or bytes as `surrogateescape` gives them."""
    if text.isascii():
        return True
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return data.decode("utf-8", "surrogateescape") == text


def _is_segment(segment: str) -> bool:
    if segment in _NEVER or "/" in segment or "\0" in segment:
        return False
    return _is_text(segment)


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
    """Return an integer where it is one of 64 bit, else a decimal, which is exact on servers."""
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
    """Return a date with time, in UTC where it has a zone; in a column with zones it has one."""
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
    return urlsafe_b64decode(_match(_BASE64, text) + "=" * (-len(text) % 4))


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
_PLAIN: Mapping[Kind, _Decoder] = {
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
