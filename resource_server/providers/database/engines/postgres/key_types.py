"""Key types of PostgreSQL, by the name of the base type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from resource_server import uris
from resource_server.providers.database.addressing import key_types, segments
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
from resource_server.providers.database.engines.postgres.temporal import CODECS
from resource_server.providers.database.formats.values import literal

_OCTAL = re.compile(r"\\([23][0-7]{2})")


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

    def parse(self, tag: str, body: str) -> object:
        text = super().parse(tag, body)
        if "\0" in str(text):
            raise ValueError
        return text

    def order(self, value: Any) -> Order:
        if not self.is_bytewise:
            return None
        return (value.rstrip(" ") if self.is_padded else value).encode()


class _Char(KeyType, frozen=True):
    """The type written "char", with quotes: one byte, shown as text."""

    def encode(self, value: Any) -> str:
        return uris.encode_text(key_types.char_text(value))

    def parse(self, tag: str, body: str) -> object:
        if tag == "b":
            data = segments.decode_bytes(body)
        else:
            text = key_types.parse_text(tag, body)
            found = _OCTAL.fullmatch(text)
            data = bytes((int(found[1], 8),)) if found else text.encode("ascii") or b"\0"
        key_types.require(len(data) == 1, "more than one byte")
        return data

    def order(self, value: Any) -> Order:
        return value


class _Temporal(KeyType, frozen=True):
    """Dates and times; those beyond Python's calendar are texts, in their typed form."""

    type: str

    def shown(self, text: str) -> object:
        try:
            return self._plain(text)
        except ValueError:
            codec = CODECS[self.type]
            key_types.require(codec.decode(codec.encode(text)) == text, "not as it is shown")
            self.order(text)
            return text

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
                return uris.typed_text(value)
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
        return uris.encode_text(value)

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


class _Literals(Written, frozen=True):
    """Values for which the driver has classes of its own."""

    def encode(self, value: Any) -> str:
        return super().encode(literal(value))


_TEXT = _UnicodeTexts()
_RANGE = r"empty|[\[(].*[\])]"
_TYPES: Mapping[str, KeyType] = {
    "int2": Integers(-(2**15), 2**15 - 1, functions=NUMERIC),
    "int4": Integers(-(2**31), 2**31 - 1, functions=NUMERIC),
    "int8": Integers(functions=NUMERIC),
    "oid": Integers(0, 2**32 - 1),
    "float4": Reals(finite=False, functions=NUMERIC, has_text=False),
    "float8": Reals(finite=False, functions=NUMERIC, has_text=False),
    "numeric": Decimals(finite=False, functions=NUMERIC),
    "bool": Booleans(functions=()),
    "text": _TEXT,
    "varchar": _TEXT,
    "bpchar": _UnicodeTexts(is_padded=True),
    "citext": _TEXT,
    "name": _UnicodeTexts(most=63),
    "json": _UnicodeTexts(functions=(), is_compared=False),
    "xml": _UnicodeTexts(functions=(), is_compared=False),
    "jsonb": ValidJson(functions=()),
    "bytea": Binary(functions=(), has_text=False),
    "char": _Char(functions=(), has_text=False),
    "date": _Temporal("date"),
    **{
        type: _Temporal(type, has_text=False)
        for type in ("time", "timetz", "timestamp", "timestamptz")
    },
    "interval": _Intervals(),
    "uuid": Uuids(functions=()),
    "inet": _Networks(is_network=False, has_text=False),
    "cidr": _Networks(is_network=True, sql_type="cidr"),
    "macaddr": _HardwareAddresses(size=6, functions=()),
    "macaddr8": _HardwareAddresses(size=8, functions=()),
    **{
        type: _Literals("[01]*", functions=(), is_key=False, sql_type="bit varying")
        for type in ("bit", "varbit")
    },
    **{
        f"{type}range": _Literals(_RANGE, functions=(), is_key=False, sql_type=f"{type}range")
        for type in ("int4", "int8", "num", "date", "ts", "tstz")
    },
}
"""Types whose values, as they are shown, compare equal after a round trip.

Left out, among others: names of objects (`regclass`), `xid8` and `pg_lsn` without a driver codec,
`money` that depends on the locale, and every type that holds other values. PostgreSQL has no `min`
of the types without functions.
"""
_BYTEWISE: Mapping[str, KeyType] = {
    "text": _UnicodeTexts(is_bytewise=True),
    "varchar": _UnicodeTexts(is_bytewise=True),
    "bpchar": _UnicodeTexts(is_bytewise=True, is_padded=True),
    "name": _UnicodeTexts(most=63, is_bytewise=True),
}
