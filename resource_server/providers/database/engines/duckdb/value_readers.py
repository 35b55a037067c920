"""Values that the driver would change, read from their texts instead.

The driver turns months into days, cuts nanoseconds, gives infinite dates as the last day of its
calendar, single precision as the nearest double, and needs another package for time zones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import NamedTuple

_MICROSECONDS = 6


class ValueReader(NamedTuple):
    """How the values of one type are selected and read."""

    expression: str
    read: Callable[[str], object]

    def select(self, column: str) -> str:
        """Return the SQL expression of a column's text."""
        return self.expression.format(column)


def reader(type: str) -> ValueReader | None:
    """Return the reader of a column's type as DuckDB writes it; None if the driver keeps it."""
    if type in _PLAIN:
        return _PLAIN[type]
    if type.startswith("DECIMAL"):
        return None
    if is_json(type):
        return _JSON_TEXT
    # Inside lists, structs and maps.
    is_changed = any(word in type for word in ("TIME", "DATE", "INTERVAL", "FLOAT", "MAP("))
    return _JSON if is_changed or type == "VARIANT" else None


def is_json(type: str) -> bool:
    """Return whether values of a type are read as JSON: those that hold JSON."""
    return "JSON" in type and type != "JSON" and not type.startswith("ENUM(")


def _date(text: str) -> object:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _time(text: str) -> object:
    try:
        return time.fromisoformat(text)
    except ValueError:
        return text


def _datetime(text: str) -> object:
    _, _, fraction = text.partition(".")
    if len(fraction.partition("+")[0]) > _MICROSECONDS:
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _instant(text: str) -> object:
    value = _datetime(text)
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


_TEXT = "CAST({} AS VARCHAR)"
_DATETIMES = ValueReader(_TEXT, _datetime)
_JSON = ValueReader("CAST(to_json({}) AS VARCHAR)", json.loads)
_JSON_TEXT = ValueReader(_JSON.expression, str)
_PLAIN = {
    "DATE": ValueReader(_TEXT, _date),
    "TIME": ValueReader(_TEXT, _time),
    "TIME_NS": ValueReader(_TEXT, str),
    "TIME WITH TIME ZONE": ValueReader(_TEXT, _time),
    "TIMESTAMP": _DATETIMES,
    "TIMESTAMP_S": _DATETIMES,
    "TIMESTAMP_MS": _DATETIMES,
    "TIMESTAMP_NS": _DATETIMES,
    "TIMESTAMP WITH TIME ZONE": ValueReader(_TEXT, _instant),
    "INTERVAL": ValueReader(_TEXT, str),
    "BIT": ValueReader(_TEXT, str),
    "FLOAT": ValueReader(_TEXT, float),
    "BIGNUM": ValueReader(_TEXT, int),
}
