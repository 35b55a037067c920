"""Key types of PostgreSQL, by the name of the base type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from resource_server.providers.database.addressing import key_types, segments
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
from resource_server.providers.database.engines.postgres.temporal import CODECS


def key_type(base: str, *, is_bytewise: bool) -> KeyType | None:
    """Return the key type of a column, or None if it cannot be part of a key.

    Args:
        base: the name of the type below all domains, in `pg_catalog` or `citext`.
        is_bytewise: whether the collation compares the bytes of UTF-8.
    """
    return (_BYTEWISE.get(base) if is_bytewise else None) or _TYPES.get(base)


class _UnicodeTexts(Texts, frozen=True):
    """Text without NUL, which PostgreSQL cannot store."""

    is_bytewise: bool = False
    is_padded: bool = False
    """Whether spaces at the end do not count."""

    def parse(self, tag: str, body: str) -> object:
        text = super().parse(tag, body)
        if "\0" in str(text):
            raise ValueError
        return text

    def order(self, value: Any) -> Order:
        if not self.is_bytewise:
            return None
        return (value.rstrip(" ") if self.is_padded else value).encode()


class _Char(Binary, frozen=True):
    """The type written "char", with quotes: one byte."""

    def parse(self, tag: str, body: str) -> object:
        data = super().parse(tag, body)
        if not isinstance(data, bytes) or len(data) != 1:
            raise ValueError
        return data


class _Temporal(KeyType, frozen=True):
    """Dates and times; those beyond Python's calendar are texts, in their typed form."""

    type: str

    def encode(self, value: Any) -> str:
        self.order(value)
        key_types.require(
            isinstance(value, str | datetime) or "timestamp" not in self.type, "not a timestamp"
        )
        match value:
            case datetime():
                return key_types.datetime_text(value)
            case str() if self._is_time(value):
                return value
            case str():
                return segments.typed_text(value)
            case _:
                return str(value.isoformat())

    def parse(self, tag: str, body: str) -> object:
        value = self._plain(body) if tag == "" else key_types.parse_text(tag, body)
        self.order(value)
        return value

    def order(self, value: Any) -> Order:
        number, *west = CODECS[self.type].encode(value)
        if west:
            return number + west[0] * 1_000_000, west[0]
        first, end = _RANGES.get(self.type, _ANY_TIME)
        if not first <= number < end and value not in ("infinity", "-infinity"):
            raise ValueError("out of the range of PostgreSQL")
        return number

    def _is_time(self, text: str) -> bool:
        """Return whether a text looks like a time of Python's, such as `24:00:00`."""
        try:
            return self.type in ("time", "timetz") and self._plain(text) is not None
        except ValueError:
            return False

    def _plain(self, text: str) -> object:
        match self.type:
            case "date":
                return key_types.parse_date(text)
            case "time" | "timetz":
                return text if text == "24:00:00" else key_types.parse_time(text)
            case _:
                value = key_types.parse_datetime(text)
                if self.type == "timestamptz":
                    return value.replace(tzinfo=UTC)
                if value.tzinfo is not None:
                    raise ValueError
                return value


_ANY_TIME = (0, 2**63)
_TIMESTAMPS = (-211_813_488_000_000_000, 9_223_371_331_200_000_000)
_RANGES = {
    "date": (-2_451_545, 2_145_031_949),
    "timestamp": _TIMESTAMPS,
    "timestamptz": _TIMESTAMPS,
}
"""The first value and the one after the last, from 4713 BC, in days or microseconds since 2000."""


class _Intervals(KeyType, frozen=True):
    """Intervals as PostgreSQL writes them: `1 mon`, which equals `30 days`."""

    def encode(self, value: Any) -> str:
        self.order(value)
        return segments.encode_text(value)

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        self.order(text)
        return text

    def order(self, value: Any) -> Order:
        months, days, microseconds = CODECS["interval"].encode(value)
        return (months * 30 + days) * 86_400_000_000 + microseconds


class _Networks(KeyType, frozen=True):
    """IP addresses and networks: `~t10.0.0.0~2F8`."""

    is_network: bool

    def encode(self, value: Any) -> str:
        return segments.encode_text(str(value))

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        if "%" in text:
            raise ValueError("PostgreSQL has no zones of addresses")
        if self.is_network:
            return ip_network(text)
        # The driver returns a host as an address without prefix length.
        return ip_interface(text) if "/" in text else ip_address(text)

    def bind(self, value: Any) -> object:
        return str(value)


class _HardwareAddresses(Texts, frozen=True):
    """MAC addresses of 6 or 8 bytes."""

    size: int = 6

    def parse(self, tag: str, body: str) -> object:
        text = key_types.parse_text(tag, body)
        if len(bytes.fromhex(text.replace(":", " "))) != self.size:
            raise ValueError
        return text

    def order(self, value: Any) -> Order:
        return bytes.fromhex(value.replace(":", " "))


_TEXT = _UnicodeTexts()
_TYPES: Mapping[str, KeyType] = {
    "int2": Integers(-(2**15), 2**15 - 1),
    "int4": Integers(-(2**31), 2**31 - 1),
    "int8": Integers(),
    "oid": Integers(0, 2**32 - 1),
    "float4": Reals(finite=False),
    "float8": Reals(finite=False),
    "numeric": Decimals(finite=False),
    "bool": Booleans(),
    "text": _TEXT,
    "varchar": _TEXT,
    "bpchar": _TEXT,
    "citext": _TEXT,
    "name": _UnicodeTexts(most=63),
    "jsonb": _TEXT,
    "bytea": Binary(),
    "char": _Char(),
    **{type: _Temporal(type) for type in ("date", "time", "timetz", "timestamp", "timestamptz")},
    "interval": _Intervals(),
    "uuid": Uuids(),
    "inet": _Networks(is_network=False),
    "cidr": _Networks(is_network=True),
    "macaddr": _HardwareAddresses(size=6),
    "macaddr8": _HardwareAddresses(size=8),
}
"""Types whose values compare equal after a round trip.

Left out, among others: names of objects (`regclass`), `xid8` and `pg_lsn` without a driver codec,
`money` that depends on the locale, and every type that holds other values.
"""
_BYTEWISE: Mapping[str, KeyType] = {
    "text": _UnicodeTexts(is_bytewise=True),
    "varchar": _UnicodeTexts(is_bytewise=True),
    "bpchar": _UnicodeTexts(is_bytewise=True, is_padded=True),
    "name": _UnicodeTexts(most=63, is_bytewise=True),
}
