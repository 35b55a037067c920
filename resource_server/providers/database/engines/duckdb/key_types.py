"""Key types of DuckDB, by the name of the type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

from resource_server.providers.database.addressing import key_types
from resource_server.providers.database.addressing.key_types import (
    Binary,
    Booleans,
    Decimals,
    Integers,
    KeyType,
    Order,
    Reals,
    Texts,
    Uuids,
)


def key_type(type: str) -> KeyType | None:
    """Return the key type of a column's type as DuckDB writes it, or None if it is in no key."""
    return _TYPES.get(type.partition("(")[0])


class _BytewiseTexts(Texts, frozen=True):
    """Text that is compared by the bytes of UTF-8."""

    def order(self, value: Any) -> Order:
        return value.encode()


class _Temporal(KeyType, frozen=True):
    """Dates and times in Python's calendar; others address no row."""

    kind: Literal["date", "datetime", "instant"]

    def encode(self, value: Any) -> str:
        key_types.require(isinstance(value, date), "beyond the calendar")
        if self.kind == "date":
            return str(value.isoformat())
        key_types.require(isinstance(value, datetime), "beyond the calendar")
        return key_types.datetime_text(value)

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        if self.kind == "date":
            return key_types.parse_date(text)
        value = key_types.parse_datetime(text)
        if self.kind == "instant":
            return value.replace(tzinfo=UTC)
        key_types.require(value.tzinfo is None, "without a time zone")
        return value

    def order(self, value: Any) -> Order:
        return value if isinstance(value, date) else None


class _LargeIntegers(Integers, frozen=True):
    """Integers of more than 64 bits."""

    def parse(self, tag: str, body: str) -> object:
        if tag not in ("", "i"):
            raise ValueError
        value = key_types.parse_decimal(body)
        number = int(value)
        if Decimal(number) != value or not self.least <= number <= self.most:
            raise ValueError
        return number


_TYPES: Mapping[str, KeyType] = {
    "TINYINT": Integers(-(2**7), 2**7 - 1),
    "SMALLINT": Integers(-(2**15), 2**15 - 1),
    "INTEGER": Integers(-(2**31), 2**31 - 1),
    "BIGINT": Integers(),
    "UTINYINT": Integers(0, 2**8 - 1),
    "USMALLINT": Integers(0, 2**16 - 1),
    "UINTEGER": Integers(0, 2**32 - 1),
    "UBIGINT": Integers(0, 2**64 - 1),
    "HUGEINT": _LargeIntegers(-(2**127), 2**127 - 1),
    "UHUGEINT": _LargeIntegers(0, 2**128 - 1),
    "DOUBLE": Reals(finite=False),
    "DECIMAL": Decimals(finite=True),
    "BOOLEAN": Booleans(),
    "VARCHAR": _BytewiseTexts(),
    "BLOB": Binary(),
    "DATE": _Temporal("date"),
    "TIMESTAMP": _Temporal("datetime"),
    "TIMESTAMP WITH TIME ZONE": _Temporal("instant"),
    "UUID": Uuids(),
}
"""Types whose values, bound again, compare as in their column: FLOAT and ENUM do not."""
