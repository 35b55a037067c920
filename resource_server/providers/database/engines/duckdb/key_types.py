"""Key types of DuckDB, by the name of the type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date
from decimal import Decimal
from typing import Any, Literal

from resource_server import uris
from resource_server.providers.database.addressing import key_types
from resource_server.providers.database.addressing.key_types import (
    NUMERIC,
    Binary,
    Booleans,
    Decimals,
    Integers,
    KeyType,
    Order,
    Reals,
    Texts,
    Uuids,
    ValidJson,
    Written,
)


def key_type(type: str) -> KeyType | None:
    """Return the key type of a column's type as DuckDB writes it, or None if it is in no key."""
    if type.startswith("ENUM("):
        return Written(".*", sql_type=type, is_key=False)
    return _TYPES.get(type.partition("(")[0])


class _BytewiseTexts(Texts, frozen=True):
    """Text that is compared by the bytes of UTF-8."""

    def order(self, value: Any) -> Order:
        return value.encode()


class _DatesAndTimes(KeyType, frozen=True):
    """Dates and times; beyond Python's calendar they are texts as DuckDB writes them."""

    kind: Literal["date", "datetime", "instant"]

    def encode(self, value: Any) -> str:
        if isinstance(value, str):
            return uris.typed_text(value)
        if self.kind == "date":
            return str(value.isoformat())
        return key_types.datetime_text(value)

    def shown(self, text: str) -> object:
        return self._far(text) if _FAR.fullmatch(text) else self.parse("", text)

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        if tag:
            return self._far(text)
        if self.kind == "date":
            return key_types.parse_date(text)
        value = key_types.parse_datetime(text)
        if self.kind == "instant":
            return value.replace(tzinfo=UTC)
        key_types.require(value.tzinfo is None, "without a time zone")
        return value

    def bind(self, value: Any) -> object:
        return str(value)

    def order(self, value: Any) -> Order:
        return value if isinstance(value, date) else None

    def _far(self, text: str) -> str:
        found = _FAR.fullmatch(text)
        is_date = found is not None and (found["clock"] is None)
        if found is None or (text.strip("-") != "infinity" and is_date != (self.kind == "date")):
            raise ValueError
        return text


_FAR = re.compile(
    r"-?infinity|\d{4,7}-\d\d-\d\d(?: \(BC\))?(?P<clock> \d\d:\d\d:\d\d(?:\.\d{1,9})?(?:\+00)?)?",
    re.ASCII,
)


class _Singles(Reals, frozen=True):
    """Numbers of 32 bits, which SQL casts from the shortest text that tells them apart."""

    def bind(self, value: Any) -> object:
        return repr(value)


class _Clocks(Written, frozen=True):
    """Times of day, shown by Python with six digits after the seconds or none."""

    def encode(self, value: Any) -> str:
        text = value if isinstance(value, str) else value.isoformat()
        return uris.encode_text(text)

    def parse(self, tag: str, body: str) -> object:
        text = str(super().parse(tag, body))
        return f"{text[:-1]}+00:00" if text.endswith("Z") else text

    def bind(self, value: Any) -> object:
        return value if isinstance(value, str) else value.isoformat()


_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d(?::\d\d){0,2})?"


class _LargeIntegers(Integers, frozen=True):
    """Integers of more than 64 bits."""

    def bind(self, value: Any) -> object:
        return str(value) if self.sql_type else value

    def parse(self, tag: str, body: str) -> object:
        if tag not in ("", "i"):
            raise ValueError
        value = key_types.parse_decimal(body)
        number = int(value)
        if Decimal(number) != value or not self.least <= number <= self.most:
            raise ValueError
        return number


_TYPES: Mapping[str, KeyType] = {
    "TINYINT": Integers(-(2**7), 2**7 - 1, functions=NUMERIC),
    "SMALLINT": Integers(-(2**15), 2**15 - 1, functions=NUMERIC),
    "INTEGER": Integers(-(2**31), 2**31 - 1, functions=NUMERIC),
    "BIGINT": Integers(functions=NUMERIC),
    "UTINYINT": Integers(0, 2**8 - 1, functions=NUMERIC),
    "USMALLINT": Integers(0, 2**16 - 1, functions=NUMERIC),
    "UINTEGER": Integers(0, 2**32 - 1, functions=NUMERIC),
    "UBIGINT": Integers(0, 2**64 - 1, functions=NUMERIC),
    "HUGEINT": _LargeIntegers(-(2**127), 2**127 - 1, functions=NUMERIC),
    "UHUGEINT": _LargeIntegers(0, 2**128 - 1, sql_type="UHUGEINT"),
    "BIGNUM": Written(r"-?\d+", sql_type="BIGNUM", is_key=False),
    "DOUBLE": Reals(finite=False, functions=NUMERIC, has_text=False),
    "FLOAT": _Singles(
        finite=False, functions=NUMERIC, has_text=False, sql_type="FLOAT", is_key=False
    ),
    "DECIMAL": Decimals(finite=True, functions=NUMERIC),
    "BOOLEAN": Booleans(),
    "VARCHAR": _BytewiseTexts(),
    "JSON": ValidJson(is_key=False),
    "BLOB": Binary(has_text=False),
    "DATE": _DatesAndTimes("date", sql_type="DATE"),
    **{
        type: _DatesAndTimes("datetime", has_text=False, sql_type=type)
        for type in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
    },
    "TIMESTAMP WITH TIME ZONE": _DatesAndTimes(
        "instant", has_text=False, sql_type="TIMESTAMP WITH TIME ZONE"
    ),
    "TIME": _Clocks(_CLOCK, has_text=False, sql_type="TIME", is_key=False),
    "TIME_NS": Written(_CLOCK, sql_type="TIME_NS", is_key=False),
    "TIME WITH TIME ZONE": _Clocks(
        _CLOCK, has_text=False, sql_type="TIME WITH TIME ZONE", is_key=False
    ),
    "INTERVAL": Written(r"[-\d].*", sql_type="INTERVAL", is_key=False),
    "BIT": Written("[01]+", sql_type="BIT", is_key=False),
    "UUID": Uuids(),
}
"""Types whose values, as they are shown, compare equal after a round trip."""
