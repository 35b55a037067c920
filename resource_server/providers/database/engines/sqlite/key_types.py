"""Key types of SQLite: any column may hold values of every storage class.

The declared type only decides which values are spelled plainly; all others have a typed form. Dates
and UUIDs are stored as text; the canonical text of such a value is plain.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from resource_server import uris
from resource_server.providers.database.addressing import key_types, segments
from resource_server.providers.database.addressing.key_types import KeyType, Order
from resource_server.providers.database.engines.contract import RawText
from resource_server.providers.database.engines.reflection import ColumnKind

Collation: TypeAlias = Literal["BINARY", "NOCASE", "RTRIM"]
"""SQLite's own collations. A program may add others, which this connection does not know."""

_SPAN = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.\d{6})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {"true": 1, "false": 0, "1": 1, "0": 0}
_TEXTUAL = frozenset(("text", "json", "other"))
_SHOWN_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}
_NOT_FINITE = frozenset(("nan", "inf", "-inf"))


class StoredValues(KeyType, frozen=True):
    """The values of a column: integers, floating-point numbers, text and bytes."""

    kind: ColumnKind
    collation: Collation | None = None
    """The collation of its text; None if not known to be compared as in Python."""
    is_strict: bool = False
    """Whether the table is STRICT, so that its values are of the declared type."""

    def encode(self, value: Any) -> str:
        """Return the plain form of a value of the column's kind, else its typed form."""
        if value.__class__ is int:
            return self._integer(value)
        match value:
            case float():
                plain = self.kind in ("real", "numeric") and math.isfinite(value)
                return repr(value) if plain else f"~r{value!r}"
            case str() if self.kind in _TEXTUAL:
                return uris.encode_text(value)
            case str():
                return value if self._is_canonical(value) else uris.typed_text(value)
            case bytes():
                return segments.encode_bytes(value)
            case _:
                raise ValueError("not a value of SQLite")

    def decode(self, segment: str) -> object:
        """Return the value of a segment, canonical or not. Raises as `KeyType.decode`."""
        if self.kind == "integer" and key_types.is_small_number(segment):
            return int(segment)
        return super().decode(segment)

    def parse(self, tag: str, body: str) -> object:
        """Read plain text as a value of the column's kind, a typed form as its own class."""
        match tag:
            case "":
                return self._plain(body)
            case "i" if self.kind == "numeric":
                return _numeric(body, whole=True)
            case "i":
                return _integer(body)
            case "r" if body in _NOT_FINITE:
                return float(body)
            case "r":
                return _numeric(body) if self.kind == "numeric" else key_types.parse_real(body)
            case "t":
                return segments.untyped_text(body)
            case "b":
                return segments.decode_bytes(body)
            case _:
                raise ValueError

    def meanings(self, text: str) -> Sequence[object]:
        """Return the values that are shown as this text, of every storage class, likeliest first.

        In a column of numbers, dates or UUIDs, also what the text means there.
        """
        found: list[object] = []
        for read in (self._number, self._blob, self._meanings_of_text, self._plain_text):
            with contextlib.suppress(ValueError, LookupError, ArithmeticError):
                found.extend(read(text))
        if not found:
            raise ValueError("not a value of this kind")
        return tuple(dict.fromkeys(found))

    def shown(self, text: str) -> object:
        """Return the likeliest of the values that are shown as this text."""
        return self.meanings(text)[0]

    def _number(self, text: str) -> Iterator[object]:
        if self.kind in ("integer", "real", "numeric", "boolean"):
            with contextlib.suppress(ValueError, LookupError):
                yield self._plain(text)
        if self.kind == "text" or (self.is_strict and self.kind == "blob"):
            return
        if text in _SHOWN_INFINITE:
            yield _SHOWN_INFINITE[text]
            return
        number = _numeric(text)
        # In a column of any type, `05` is a text.
        shown = (str(number), msgspec.json.encode(number).decode())
        if self.kind not in ("any", "blob") or text in shown:
            yield number

    def _meanings_of_text(self, text: str) -> Iterator[object]:
        if self.is_strict and self.kind not in ("text", "any"):
            return
        if self.kind == "json":
            yield from _JSON.meanings(text)
        yield text

    def _plain_text(self, text: str) -> Iterator[object]:
        """Yield the canonical text of a date, a time or a UUID; a date is the start of its day."""
        if self.kind not in ("date", "time", "datetime", "uuid"):
            return
        try:
            yield self._plain(text)
        except ValueError:
            yield self._plain(key_types.start_of_day(text))

    def _blob(self, text: str) -> Iterator[object]:
        if text[:1] != "{":
            if self.kind == "blob":
                yield key_types.parse_base64(text)
            return
        data = key_types.parse_blob(text)
        yield data
        shown = data.decode("utf-8", "surrogateescape")
        if not shown.isprintable():  # a text that is not UTF-8 is shown by its bytes
            yield shown

    def bind(self, value: Any) -> object:
        """Return the value; text that is not UTF-8 as `RawText`, which the driver cannot bind."""
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return RawText(value.encode("utf-8", "surrogateescape"))
        return value

    def order(self, value: Any) -> Order:
        """Return the storage class, which comes first, and the value in it."""
        if isinstance(value, int | float):
            return None if isinstance(value, float) and math.isnan(value) else (0, value)
        if isinstance(value, bytes):
            return 2, value
        compared = self._compared(value)
        return None if compared is None else (1, compared)

    def prefix_bounds(self, begun: str) -> Any:
        """Yield one bound for each number of digits of an integer, else one."""
        if self.kind == "integer":
            return _integers.prefix_bounds(begun)
        return super().prefix_bounds(begun)

    def _integer(self, value: int) -> str:
        if self.kind == "boolean" and value in (0, 1):
            return "true" if value else "false"
        return str(value) if self.kind in ("integer", "numeric") else f"~i{value}"

    def _plain(self, text: str) -> object:
        if self.kind in _TEXTUAL:
            return text
        read = _PLAIN.get(self.kind)
        if read is None:
            raise ValueError("ambiguous")
        return read(text)

    def _is_canonical(self, text: str) -> bool:
        """Return whether a text in a date, time or UUID column is canonical."""
        if self.kind not in ("date", "time", "datetime", "uuid") or not text.isascii():
            return False
        try:
            return self._plain(text) == text
        except (ValueError, ArithmeticError):
            return False

    def _compared(self, text: str) -> bytes | None:
        data = text.encode("utf-8", "surrogateescape")
        match self.collation:
            case "BINARY":
                return data
            case "NOCASE" if b"\0" not in data:
                return data.lower()  # ASCII letters only, as in SQLite
            case "RTRIM":
                return data.rstrip(b" ")
            case _:
                return None


_integers = key_types.Integers()
_JSON = key_types.JsonTexts()


def _integer(text: str) -> int:
    value = key_types.parse_integer(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _numeric(text: str, *, whole: bool = False) -> int | float:
    """Return an integer if it fits in 64 bits, else the nearest floating-point number."""
    if whole and not _WHOLE.fullmatch(text):
        raise ValueError
    value = key_types.parse_decimal(text)
    if _WHOLE.fullmatch(text) and -(2**63) <= value < 2**63:
        return int(value)
    return float(value)


def _time_text(text: str) -> str:
    """Return the canonical text of a time of day, or of a duration in hours."""
    try:
        return key_types.parse_time(text).isoformat()
    except ValueError:
        if _SPAN.fullmatch(text):
            return text
        raise


_PLAIN: Mapping[ColumnKind, Callable[[str], object]] = {
    "integer": _integer,
    "real": key_types.parse_real,
    "numeric": _numeric,
    "boolean": _BOOLEANS.__getitem__,
    "date": lambda text: key_types.parse_date(text).isoformat(),
    "time": _time_text,
    "datetime": lambda text: key_types.datetime_text(key_types.parse_datetime(text)),
    "uuid": lambda text: str(key_types.parse_uuid(text)),
}
