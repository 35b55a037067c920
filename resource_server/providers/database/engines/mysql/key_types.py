"""Key types of MariaDB and MySQL, by `data_type`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from typing_extensions import override

from resource_server import uris
from resource_server.providers.database.addressing import key_types
from resource_server.providers.database.addressing.key_types import (
    NUMERIC,
    Binary,
    Decimals,
    Enumerated,
    Integers,
    JsonTexts,
    KeyType,
    Order,
    Reals,
    Texts,
)

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_LENGTH = re.compile(r"(?:var)?char\((\d+)\)", re.ASCII)
_SORTED_WHOLE = 9
"""Length of texts whose sort keys of three levels are never cut."""
_ZERO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?", re.ASCII)
_SPAN = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{6}))?", re.ASCII)
_LONGEST_SPAN = timedelta(hours=839)


def key_type(
    data_type: str,
    column_type: str,
    values: tuple[str, ...],
    *,
    collation: str = "",
    is_json: bool = False,
) -> KeyType | None:
    """Return the key type of a column, or None if its values are only shown.

    `values` are those of an enumeration or a set, in order.
    """
    if is_json:
        return JsonTexts()
    declared = column_type.lower()
    is_filled = "zerofill" in declared  # with zeros that pages do not show
    bits = _INTEGER_BITS.get(data_type)
    if bits is not None:
        half = 2 ** (bits - 1)
        range = (0, 2 * half - 1) if "unsigned" in declared else (-half, half - 1)
        if declared.startswith("tinyint(1)"):
            return MysqlBooleans(*range, has_text=False)
        return Integers(*range, functions=NUMERIC, has_text=not is_filled)
    if data_type == "enum":
        # Position 0 is the empty text, which stands for any value that was none of them. The
        # catalog writes `?` for characters beyond its own character set.
        is_known = not any(value == "" or "?" in value for value in values)
        if not collation.endswith(("_bin", "_cs")):
            # Positions would tell values apart that a condition does not.
            is_known = is_known and len({_plain(value) for value in values}) == len(values)
        return _MysqlEnumerated(values=("", *values)) if is_known else _ONLY_TEXT
    if data_type == "set":
        is_known = bool(values) and not any(not value or "?" in value for value in values)
        return _Sets(values=values, is_key=False) if is_known else _ONLY_TEXT
    if _is_sorted_otherwise(declared, collation):
        return _ONLY_TEXT
    if data_type == "decimal":
        return _MysqlDecimals(finite=True, functions=NUMERIC, has_text=not is_filled)
    if data_type == "time":
        return _Times(has_text="(" not in declared)
    return _TYPES.get(data_type)


def _is_sorted_otherwise(declared: str, collation: str) -> bool:
    """Return whether MariaDB may sort texts in another order than its conditions know.

    An index compares the spaces that fill up `char`, a condition does not, where they count. Sort
    keys are cut at `max_sort_length`: those of several levels to one, but for short texts.
    """
    found = _LENGTH.fullmatch(declared)
    if declared.startswith("char(") and "nopad" in collation:
        return True
    is_short = found is not None and int(found[1]) <= _SORTED_WHOLE
    return "uca1400" in collation and not collation.endswith("_ai_ci") and not is_short


def _plain(text: str) -> str:
    """Return a text without what collations may ignore: case and accents."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join([each for each in letters if not unicodedata.combining(each)]).rstrip(" ")


class MysqlBooleans(Integers, frozen=True):
    """BOOLEAN, stored as `tinyint(1)`: `true`, `false`, `~i2`."""

    @override
    def encode(self, value: Any) -> str:
        digits = super().encode(value)
        return {"0": "false", "1": "true"}.get(digits, f"~i{digits}")

    @override
    def decode(self, segment: str) -> object:
        return KeyType.decode(self, segment)

    @override
    def shown(self, text: str) -> object:
        return int(text == "true") if text in ("true", "false") else super().parse("", text)

    @override
    def parse(self, tag: str, body: str) -> object:
        if tag != "":
            return super().parse(tag, body)
        if body not in ("true", "false", "1", "0"):
            raise ValueError
        return int(body in ("true", "1"))

    @override
    def prefix_bounds(self, begun: str) -> Any:
        return KeyType.prefix_bounds(self, begun)


class _Years(Integers, frozen=True):
    """YEAR: 0, and 1901 to 2155. MariaDB would read 5 as 2005."""

    least: int = 0
    most: int = 2155

    def decode(self, segment: str) -> object:
        return KeyType.decode(self, segment)

    def parse(self, tag: str, body: str) -> object:
        year = super().parse(tag, body)
        if year in range(1, 1901):
            raise ValueError
        return year

    def prefix_bounds(self, begun: str) -> Any:
        return KeyType.prefix_bounds(self, begun)


class _MysqlEnumerated(Enumerated, frozen=True):
    """Enumerations, ordered by position but compared with other values as text."""

    @property
    def ranks(self) -> tuple[str, ...]:
        return self.values


class _Bits(Integers, frozen=True):
    """BIT, whose bytes are shown as their number and ordered by it."""

    most: int = 2**64 - 1
    least: int = 0

    @property
    def is_ranked(self) -> bool:
        return True

    def rank(self, value: object) -> int:
        return int(str(value))

    def encode(self, value: Any) -> str:
        return super().encode(self.bind(value))

    def order(self, value: Any) -> Order:
        return super().order(self.bind(value))

    def bind(self, value: Any) -> object:
        return int.from_bytes(value, "big") if isinstance(value, bytes) else value


class _Sets(Texts, frozen=True):
    """SET, shown as its members in their order, and ordered by the number of their bits."""

    values: tuple[str, ...] = ()

    @property
    def is_ranked(self) -> bool:
        return True

    def rank(self, value: object) -> int:
        members = str(value).split(",") if value else []
        return sum(1 << self.values.index(each) for each in dict.fromkeys(members))

    def encode(self, value: Any) -> str:
        return super().encode(self.bind(value))

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        self.rank(text)
        return text

    def bind(self, value: Any) -> object:
        if isinstance(value, str):
            return value
        return ",".join(each for each in self.values if each in value)


class _Dates(KeyType, frozen=True):
    """Dates, perhaps with a time of day. Zero dates, such as `~t2026-00-00`, are texts."""

    has_time: bool

    def shown(self, text: str) -> object:
        is_zero = text.startswith("0000") or "-00" in text[:10]
        return self._zero(text) if is_zero else self.parse("", text)

    def encode(self, value: Any) -> str:
        if isinstance(value, str):
            return uris.typed_text(self._zero(value))
        if isinstance(value, datetime) is not self.has_time or not isinstance(value, date):
            raise ValueError("not a date of this column")
        return value.isoformat()

    def parse(self, tag: str, body: str) -> object:
        if tag != "":
            return self._zero(key_types.parse_text(tag, body))
        value = key_types.parse_datetime(body) if self.has_time else key_types.parse_date(body)
        if isinstance(value, datetime) and value.tzinfo is not None:
            raise ValueError
        return value

    def bind(self, value: Any) -> object:
        return str(value)

    def order(self, value: Any) -> Order:
        return str(value)

    def _zero(self, text: str) -> str:
        if not _ZERO_DATE.fullmatch(text) or (":" in text) is not self.has_time:
            raise ValueError
        return text


class _Times(KeyType, frozen=True):
    """TIME, from -838 to 838 hours, spelled as MariaDB writes it: `-25:00:00.000001`."""

    def encode(self, value: Any) -> str:
        if not isinstance(value, timedelta) or abs(value) >= _LONGEST_SPAN:
            raise ValueError("not a time of this column")
        microseconds = abs(value) // timedelta(microseconds=1)
        seconds, fraction = divmod(microseconds, 1_000_000)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if fraction:
            text += f".{fraction:06}"
        return f"-{text}" if value < timedelta(0) else text

    def parse(self, tag: str, body: str) -> object:
        match = _SPAN.fullmatch(key_types.parse_text(tag, body))
        if match is None:
            raise ValueError
        sign, *numbers = match.groups(default="0")
        hours, minutes, seconds, fraction = map(int, numbers)
        value = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=fraction)
        if value >= _LONGEST_SPAN:
            raise ValueError
        return -value if sign == "-" else value

    def bind(self, value: Any) -> object:
        return self.encode(value)

    def order(self, value: Any) -> Order:
        return value


class _MysqlDecimals(Decimals, frozen=True):
    def bind(self, value: Any) -> object:
        # Written into the SQL, where an exponent would make it an inexact number.
        return Decimal(key_types.decimal_text(value))


class _MysqlUuids(KeyType, frozen=True):
    """UUIDs, which MariaDB returns as text."""

    def encode(self, value: Any) -> str:
        key_types.require(isinstance(value, str), "not a UUID")
        return str(key_types.parse_uuid(value))

    def parse(self, tag: str, body: str) -> object:
        return str(key_types.parse_uuid(key_types.parse_text(tag, body)))


_TYPES: Mapping[str, KeyType] = {
    "year": _Years(functions=NUMERIC, has_text=False),
    "double": Reals(finite=True, functions=NUMERIC, has_text=False),
    "bit": _Bits(functions=NUMERIC, has_text=False, is_key=False),
    "char": Texts(),
    "varchar": Texts(),
    "tinytext": Texts(),
    "text": Texts(),
    "mediumtext": Texts(),
    "longtext": Texts(),
    "inet4": Texts(),
    "inet6": Texts(),
    **{
        type: Binary(has_text=False)
        for type in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
    },
    "date": _Dates(has_time=False),
    "datetime": _Dates(has_time=True, has_text=False),
    "timestamp": _Dates(has_time=True, has_text=False),
    "uuid": _MysqlUuids(),
    "json": Texts(functions=(), is_compared=False),
}
"""Types whose values, as they are shown, compare equal after a round trip.

Left out, among others: FLOAT, which is shown with fewer digits than it is compared with; shapes.
"""
_ONLY_TEXT = Texts(functions=(), is_compared=False)
