"""Key types: how the values of one kind of column are written, read, bound and compared.

Each engine chooses the type of a column from its table (`engines/*/key_types.py`), with what the
engine can do with its values; without one, a filter only tells NULL. A value is read as
pages show it. In a path, it has one canonical segment: plain text where the column's type is
unambiguous (`5`, `DE`, `2026-11-20`), and a typed form otherwise:

| form | value |
|---|---|
| `~i5` | an integer |
| `~r5.5`, `~r1e+300`, `~rinf`, `~rnan` | a floating-point number, in Python's `repr` |
| `~tabc`, `~bAP8` | text and bytes; see `segments` |
"""

from __future__ import annotations

import binascii
import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct
from typing_extensions import override

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing import segments
from resource_server.runtime.json_numbers import inexact_json

Order: TypeAlias = Any
"""A value that Python compares as the engine compares keys; None if only the engine knows."""

_FEW_DIGITS = 19
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[Ee][+-]?[0-9]{1,6})?")
_DIGITS = re.compile(r"(-?)(0|[1-9][0-9]{0,18})")
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_SHOWN_INFINITE = {shown: spelled for spelled, shown in _NOT_FINITE.items()}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d(?::\d\d)?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_DATETIME = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}", re.ASCII)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-?)[0-9A-Fa-f]{4}(?:\1[0-9A-Fa-f]{4}){2}\1[0-9A-Fa-f]{12}")


EXTREMES: Final = ("min", "max")
NUMERIC: Final = ("sum", "min", "max", "avg")


class KeyType(Struct, frozen=True, kw_only=True):
    """One kind of column.

    Values are the driver's. Every method but `decode` raises `ValueError` for a value or text that
    the column cannot hold, so nothing else is ever bound.
    """

    functions: Sequence[str] = EXTREMES
    """The aggregates that the engine has for it."""
    is_compared: bool = True
    """Whether its values have an equality and an order, and can be bound."""
    is_key: bool = True
    """Whether its values address rows."""
    has_text: bool = True
    """Whether the engine casts its values to the text that pages show, so that LIKE compares it."""
    sql_type: str = ""
    """The type that a bound text is cast to; empty where the driver binds values as they are."""

    @property
    def ranks(self) -> Sequence[str]:
        """The values by position from 0, if SQL has to order by position; else empty."""
        return ()

    @property
    def is_ranked(self) -> bool:
        """Whether SQL orders by a number, the `rank`."""
        return bool(self.ranks)

    def rank(self, value: object) -> int:
        """Return the number by which SQL orders a bound value."""
        return self.ranks.index(str(value))

    def encode(self, value: Any) -> str:
        """Return the canonical segment of a value, of any length: that of its text."""
        return uris.encode_text(str(value))

    def parse(self, tag: str, body: str) -> object:
        """Return the value of a segment, canonical or not; the tag is empty for plain text."""
        raise NotImplementedError

    def shown(self, text: str) -> object:
        """Return the value that pages show as this text. Raises as `parse`."""
        return self.parse("", text)

    def meanings(self, text: str) -> Sequence[object]:
        """Return the values that a filter may mean, the likeliest first. Raises as `parse`.

        A date in a column of dates and times is the start of its day.
        """
        for read in (self.shown, self._start_of_day, self._typed):
            with contextlib.suppress(ValueError, LookupError, ArithmeticError):
                return (read(text),)
        raise ValueError("no value of this column")

    def _start_of_day(self, text: str) -> object:
        return self.parse("", start_of_day(text))

    def _typed(self, text: str) -> object:
        require(text[:1] == "~", "no typed form")
        return self.parse(text[1:2], text[2:])

    def bind(self, value: Any) -> object:
        """Return a value in the form that the driver binds."""
        return value

    def order(self, value: Any) -> Order:
        """Return the position of a value in the engine's order, if Python can tell."""
        return None

    def prefix_bounds(self, begun: str) -> Iterator[object]:
        """Yield the lower bounds, in order, of values whose spelling begins with `begun`.

        None is the start of the column. Where spellings sort like values, there is one bound.
        """
        try:
            yield self.decode(begun) if begun else None
        except ResourceNotFound:
            yield None

    def decode(self, segment: str) -> object:
        """Return the value of a segment, canonical or not.

        Raises:
            ResourceNotFound: no value of this column is spelled this way.
        """
        if len(segment) > segments.MAX_LENGTH:
            raise ResourceNotFound
        tag, body = segments.split(segment)
        with contextlib.suppress(ValueError, LookupError, ArithmeticError):
            return self.parse(tag, body)
        try:
            require(not tag, "no shown value")
            return self.shown(body)
        except (ValueError, LookupError, ArithmeticError):
            raise ResourceNotFound from None

    def readings(self, segment: str) -> Iterator[object]:
        """Yield the values that a segment may spell: as `decode`, then others shown as its text.

        Raises as `decode`.
        """
        value = self.decode(segment)
        yield value
        tag, text = segments.split(segment)
        with contextlib.suppress(ValueError):
            yield from [each for each in self.meanings(text) if not tag and each != value]

    def segment(self, value: Any) -> str:
        """Return the canonical segment of a value, if a URI can carry it."""
        if isinstance(value, str | bytes) and len(value) > segments.MAX_LENGTH:
            raise ValueError("the key is too long for a URI")
        segment = self.encode(value)
        if len(segment) > segments.SHORT and not segments.fits_uri(segment):
            raise ValueError("the key is too long for a URI")
        return segment


def comes_after(key: Sequence[object], other: Sequence[object], types: Sequence[KeyType]) -> bool:
    """Return whether a key comes after another; assumes so if only the engine can tell."""
    for value, before, type in zip(key, other, types, strict=True):
        place, place_before = type.order(value), type.order(before)
        if place is None or place_before is None:
            if type.encode(value) != type.encode(before):
                return True
        elif place != place_before:
            return bool(place > place_before)
    return False


class Direction(NamedTuple):
    """The direction of one column of an order."""

    is_descending: bool
    nulls_first: bool


def follows(
    key: Sequence[object],
    other: Sequence[object],
    types: Sequence[KeyType],
    directions: Sequence[Direction],
) -> bool:
    """Return whether a key comes after another in these directions, as `comes_after`."""
    for value, before, type, (is_descending, nulls_first) in zip(
        key, other, types, directions, strict=True
    ):
        if value is None or before is None:
            if value is not before:
                return (before is None) == nulls_first
            continue
        place, place_before = type.order(value), type.order(before)
        if place is None or place_before is None:
            if type.encode(value) != type.encode(before):
                return True
        elif place > place_before:
            return not is_descending
        elif place_before > place:
            return is_descending
    return False


class Integers(KeyType, frozen=True):
    """Integers of a range: `5`."""

    least: int = -(2**63)
    most: int = 2**63 - 1

    def encode(self, value: Any) -> str:
        """Return the digits."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise ValueError("not an integer of this column")
        return str(value)

    def decode(self, segment: str) -> object:
        """Return the value of a segment, canonical or not. Raises as `KeyType.decode`."""
        if is_small_number(segment):
            value = int(segment)
            if self.least <= value <= self.most:
                return value
        return super().decode(segment)

    def parse(self, tag: str, body: str) -> object:
        """Read `5` or `~i5`."""
        if tag not in ("", "i"):
            raise ValueError
        value = parse_integer(body)
        if not self.least <= value <= self.most:
            raise ValueError
        return value

    def order(self, value: Any) -> Order:
        """Return the number itself."""
        return value

    def prefix_bounds(self, begun: str) -> Iterator[object]:
        """Yield one bound for each number of digits."""
        match = _DIGITS.fullmatch(begun)
        if match is None:
            yield from super().prefix_bounds(begun)
            return
        sign, digits = match.groups()
        number = int(digits)
        for more in range(1 if digits == "0" else 19):
            first = -(number + 1) * 10**more + 1 if sign else number * 10**more
            last = -number * 10**more if sign else first
            if self.least <= last <= self.most:
                yield max(first, self.least)


class Reals(KeyType, frozen=True):
    """Floating-point numbers of 64 bits: `5.5`, and `~rinf` if not finite."""

    finite: bool
    """Whether the column holds no infinity and no NaN."""

    def encode(self, value: Any) -> str:
        """Return Python's `repr`, typed if not finite."""
        if type(value) is int:
            value = float(value)  # of a column that refers to this one
        require(type(value) is float, "not a number of this column")
        return repr(value) if math.isfinite(value) else f"~r{value!r}"

    def shown(self, text: str) -> object:
        """Read `5.5` or `Infinity`."""
        return self.parse("r", _SHOWN_INFINITE.get(text, text))

    def parse(self, tag: str, body: str) -> object:
        """Read `5.5`, `~r5.5` or `~i5`."""
        if tag == "r" and body in _NOT_FINITE and not self.finite:
            return float(body)
        if tag not in ("", "r", "i"):
            raise ValueError
        return float(parse_integer(body)) if tag == "i" else parse_real(body)

    def order(self, value: Any) -> Order:
        """Return the number, after which NaN comes."""
        return (1, 0.0) if math.isnan(value) else (0, value)


class Decimals(KeyType, frozen=True):
    """Exact numbers, spelled with their scale: `1.10`, and `~rnan` if not finite."""

    finite: bool
    """Whether the column holds no infinity and no NaN."""

    def encode(self, value: Any) -> str:
        """Return the digits, never with an exponent."""
        if type(value) is int:
            value = Decimal(value)  # of a column that refers to this one
        require(isinstance(value, Decimal), "not a number of this column")
        return decimal_text(value) if value.is_finite() else f"~r{float(value)!r}"

    def shown(self, text: str) -> object:
        """Read `1.10` or `NaN`."""
        return self.parse("r", _SHOWN_INFINITE.get(text, text))

    def parse(self, tag: str, body: str) -> object:
        """Read `1.10`, `~r1.10` or `~i1`."""
        if tag == "r" and body in _NOT_FINITE and not self.finite:
            return Decimal(_NOT_FINITE[body])
        if tag not in ("", "r", "i"):
            raise ValueError
        return parse_decimal(str(parse_integer(body)) if tag == "i" else body)

    def order(self, value: Any) -> Order:
        """Return the number, after which NaN comes."""
        return (1, Decimal(0)) if value.is_nan() else (0, value)


class Texts(KeyType, frozen=True):
    """Unicode text, in an order that only the engine knows."""

    most: int | None = None
    """Maximum bytes in UTF-8."""
    is_padded: bool = False
    """Whether spaces at the end are shown, but do not count."""

    def encode(self, value: Any) -> str:
        """Return the text, typed where a URI needs it."""
        require(isinstance(value, str), "not a text")
        return uris.encode_text(value)

    def parse(self, tag: str, body: str) -> object:
        """Read `abc` or `~tabc`."""
        text = parse_text(tag, body)
        data = text.encode()  # no bytes that are not UTF-8
        if self.most is not None and len(data) > self.most:
            raise ValueError
        return text


class JsonTexts(Texts, frozen=True):
    """JSON as text; a string of JSON is shown as what it holds."""

    def meanings(self, text: str) -> Sequence[object]:
        """Return the JSON of a shown value: the text, one with other numbers, or a string of it."""
        if text.startswith(SHOWN_JSON_START):
            with contextlib.suppress(ValueError):
                return (self.parse("", _decode_json(text).json),)
        found: list[object] = []
        for each in (text, *inexact_json(text), msgspec.json.encode(text).decode()):
            with contextlib.suppress(ValueError):
                found.append(self.parse("", each))
        if not found:
            raise ValueError("no JSON")
        return found

    def shown(self, text: str) -> object:
        """Return the JSON of a shown value."""
        return self.meanings(text)[0]


class ValidJson(JsonTexts, frozen=True):
    """JSON, in a column that refuses to be compared with anything else."""

    def parse(self, tag: str, body: str) -> object:
        """Read `{"a": 1}` or `~t{"a": 1}`."""
        text = str(super().parse(tag, body))
        _check_json(text)
        return text


class Enumerated(Texts, frozen=True):
    """Values of an enumeration, in the order of its declaration."""

    values: tuple[str, ...] = ()

    def parse(self, tag: str, body: str) -> object:
        """Read `abc` or `~tabc`, if it is a value of the enumeration."""
        text = parse_text(tag, body)
        if text not in self.values:
            raise ValueError
        return text

    def order(self, value: Any) -> Order:
        """Return the position in the enumeration."""
        return self.values.index(value) if value in self.values else None

    def prefix_bounds(self, begun: str) -> Iterator[object]:
        """Yield the start: a prefix need not be a value, and enumerations are short."""
        yield None


class Binary(KeyType, frozen=True):
    """Bytes: `~bAP8`, shown as `{"$blob": "AP8=", "bytes": 2}` or, in CSV, as `AP8=`."""

    def shown(self, text: str) -> object:
        """Read both shown forms."""
        return parse_blob(text) if text[:1] == "{" else parse_base64(text)

    def encode(self, value: Any) -> str:
        """Return base64url."""
        require(isinstance(value, bytes), "not bytes")
        return segments.encode_bytes(value)

    def parse(self, tag: str, body: str) -> object:
        """Read `~bAP8`."""
        if tag != "b":
            raise ValueError
        return segments.decode_bytes(body)

    def order(self, value: Any) -> Order:
        """Return the bytes."""
        return value


class Booleans(KeyType, frozen=True):
    """Booleans: `true`, `false`."""

    @override
    def encode(self, value: Any) -> str:
        require(isinstance(value, bool), "not a boolean")
        return "true" if value else "false"

    @override
    def parse(self, tag: str, body: str) -> object:
        if tag not in ("", "i") or body not in _BOOLEANS:
            raise ValueError
        return _BOOLEANS[body]

    @override
    def order(self, value: Any) -> Order:
        return value


class Uuids(KeyType, frozen=True):
    """UUIDs, compared by their bytes."""

    @override
    def parse(self, tag: str, body: str) -> object:
        return parse_uuid(parse_text(tag, body))

    @override
    def order(self, value: Any) -> Order:
        return value.bytes


class Written(KeyType, frozen=True):
    """Values that are shown as the engine writes them, and that it reads from such a text."""

    pattern: str

    @override
    def parse(self, tag: str, body: str) -> object:
        return _matched(re.compile(self.pattern, re.ASCII | re.IGNORECASE), parse_text(tag, body))

    @override
    def bind(self, value: Any) -> object:
        return str(value)


# -- texts of numbers, dates and UUIDs


def real_text(value: float) -> str:
    """Return a floating-point number as pages show it: `1.5`, `1e+300`, `Infinity`."""
    return repr(value) if math.isfinite(value) else _NOT_FINITE[repr(value)]


def char_text(data: bytes) -> str:
    r"""Return the text of PostgreSQL's type "char", as its version 16 writes it: `a`, `\303`."""
    (byte,) = data
    return f"\\{byte:03o}" if byte > 127 else chr(byte) if byte else ""


SHOWN_JSON_START = '{"$json":'
"""Start of the form of JSON texts that would look like another form."""


class _ShownJson(Struct, forbid_unknown_fields=True):
    json: str = msgspec.field(name="$json")


class _ShownBlob(Struct, forbid_unknown_fields=True):
    base64: str = msgspec.field(name="$blob")
    bytes: int | None = None


_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_decode_json = msgspec.json.Decoder(_ShownJson).decode
_decode_blob = msgspec.json.Decoder(_ShownBlob).decode


def parse_blob(text: str) -> bytes:
    """Return the bytes that pages show as this JSON object."""
    found = _decode_blob(text)  # its errors are ValueErrors
    data = parse_base64(found.base64)
    require(found.bytes in (None, len(data)), "not the whole blob")
    return data


def parse_base64(text: str) -> bytes:
    """Return bytes from base64 with its padding."""
    return binascii.a2b_base64(text.encode("ascii"), strict_mode=True) if text else b""


def require(holds: bool, message: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not holds:
        raise ValueError(message)


def is_small_number(text: str) -> bool:
    """Return whether a text is an integer of 64 bits, by its digits alone."""
    return len(text) < _FEW_DIGITS and text.isascii() and text.isdecimal()


def parse_text(tag: str, body: str) -> str:
    """Return the text of a segment; raises ValueError for another typed form."""
    if tag not in ("", "t"):
        raise ValueError
    return segments.untyped_text(body) if tag else body


def parse_integer(text: str) -> int:
    """Return an integer of at most 20 digits."""
    return int(_matched(_INTEGER, text))


def parse_real(text: str) -> float:
    """Return a finite floating-point number."""
    value = float(_matched(_NUMBER, text))
    if math.isinf(value):
        raise ValueError
    return value


def parse_decimal(text: str) -> Decimal:
    """Return an exact number whose digits fit in a URI."""
    value = Decimal(_matched(_NUMBER, text))
    decimal_text(value)
    return value


def decimal_text(value: Decimal) -> str:
    """Return the digits of a finite number, never with an exponent.

    Raises:
        ValueError: they are too many for a URI.
    """
    exponent = value.as_tuple().exponent
    too_long = segments.MAX_LENGTH
    if not isinstance(exponent, int) or exponent < -too_long or value.adjusted() > too_long:
        raise ValueError("the number is too long for a URI")
    return format(value, "f")


def parse_date(text: str) -> date:
    """Return an ISO 8601 date."""
    return date.fromisoformat(_matched(_DATE, text))


def start_of_day(text: str) -> str:
    """Return the first moment of an ISO 8601 date, as text."""
    return f"{_matched(_DATE, text)}T00:00:00"


def parse_time(text: str) -> time:
    """Return an ISO 8601 time of day, perhaps with an offset."""
    return time.fromisoformat(_matched(_TIME, text))


def parse_datetime(text: str) -> datetime:
    """Return an ISO 8601 date and time; in UTC if it has an offset."""
    value = datetime.fromisoformat(_matched(_DATETIME, text))
    return value if value.tzinfo is None else value.astimezone(UTC)


def parse_uuid(text: str) -> UUID:
    """Return a UUID, with or without hyphens."""
    return UUID(_matched(_UUID, text))


def datetime_text(value: datetime) -> str:
    """Return ISO 8601; in UTC, with `Z`, if the value has an offset."""
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError
    return text
