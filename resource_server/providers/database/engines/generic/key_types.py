"""Kinds and key types of columns, by their types in SQLAlchemy.

Values are the driver's own: SQLAlchemy converts those that are bound, and none that are read. Types
that are not listed are shown as text, and neither filtered, sorted nor part of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import TypeEngine
from typing_extensions import override

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
)
from resource_server.providers.database.engines.generic.dialects import known
from resource_server.providers.database.engines.mysql.key_types import MysqlBooleans
from resource_server.providers.database.engines.reflection import ColumnKind

AnyType: TypeAlias = TypeEngine[Any]

_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24}
_LARGE_TEXTS: Final = (sa.Text, sa.CLOB)
_DOUBLES: Final = frozenset(("DOUBLE", "DOUBLE_PRECISION", "BINARY_DOUBLE", "FLOAT64", "Float64"))
_WIDE_FLOATS: Final = frozenset(("sqlite", "mssql", "bigquery", "snowflake"))
"""Dialects whose FLOAT has 64 bits."""
_ONLY_TEXT: Final = Texts(functions=(), is_compared=False)


class _WholeNumbers(Integers, frozen=True):
    """Integers of a driver that may return them as exact numbers."""

    @override
    def encode(self, value: Any) -> str:
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        return super().encode(value)


class _Numbers(Decimals, frozen=True):
    """Exact numbers of a driver that may return them as others, such as SQLite's."""

    @override
    def encode(self, value: Any) -> str:
        if type(value) is float:
            value = Decimal(repr(value))
        return super().encode(value)

    @override
    def order(self, value: Any) -> Order:
        return super().order(Decimal(repr(value)) if type(value) is float else Decimal(value))


class _Flags(Booleans, frozen=True):
    """Booleans of a driver that may return 0 and 1."""

    @override
    def encode(self, value: Any) -> str:
        return super().encode(bool(value) if value in (0, 1) else value)

    @override
    def bind(self, value: Any) -> object:
        return bool(value)


class _Identifiers(KeyType, frozen=True):
    """UUIDs, whose order is the database's own."""

    @override
    def parse(self, tag: str, body: str) -> object:
        return key_types.parse_uuid(key_types.parse_text(tag, body))

    @override
    def encode(self, value: Any) -> str:
        return str(value if isinstance(value, UUID) else key_types.parse_uuid(str(value)))

    @override
    def bind(self, value: Any) -> object:
        return value if isinstance(value, UUID) else key_types.parse_uuid(str(value))


class LimitedTexts(Texts, frozen=True):
    """Texts of a column with a maximum number of characters, or none."""

    length: int | None = None


class Moments(KeyType, frozen=True):
    """Dates, times of day, and both, of Python."""

    python: type
    has_zone: bool = False

    @override
    def encode(self, value: Any) -> str:
        key_types.require(type(value) is self.python, "not of this column")
        key_types.require(not _has_zone(value) or self.has_zone, "with a time zone")
        return key_types.datetime_text(value) if self.python is datetime else value.isoformat()

    @override
    def parse(self, tag: str, body: str) -> object:
        read = {date: key_types.parse_date, time: key_types.parse_time}
        text = key_types.parse_text(tag, body)
        value = read.get(self.python, key_types.parse_datetime)(text)
        if self.has_zone and isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        key_types.require(not _has_zone(value) or self.has_zone, "without a time zone")
        return value

    @override
    def order(self, value: Any) -> Order:
        return value


def _has_zone(value: object) -> bool:
    return isinstance(value, datetime | time) and value.tzinfo is not None


def described(type: AnyType, dialect: Dialect) -> tuple[str, ColumnKind, KeyType | None]:
    """Return the type of a column as the database writes it, its kind, and what it is good for."""
    try:
        written = type.compile(dialect)
    except Exception:
        written = "" if isinstance(type, sa.types.NullType) else str(type.__class__.__name__)
    kind, found = _of(type, dialect)
    return ("" if written == "NULL" else written), kind, found


def _of(type: AnyType, dialect: Dialect) -> tuple[ColumnKind, KeyType | None]:
    if type.__visit_name__ in ("BINARY", "VARBINARY"):  # some are texts by their class
        return "blob", Binary(has_text=False)
    if type.__visit_name__ == "TINYINT" and getattr(type, "display_width", None) == 1:
        return "boolean", MysqlBooleans(-128, 127, has_text=False)  # BOOLEAN is another name for it
    for cls, (kind, describe) in _KINDS.items():
        if isinstance(type, cls):
            return kind, describe(type, dialect)
    return "other", None


def _reals(type: AnyType, dialect: Dialect) -> KeyType | None:
    is_wide = isinstance(type, sa.Double) or type.__visit_name__ in _DOUBLES
    # Others are shown with fewer digits than they are compared with.
    is_exact = is_wide or dialect.name in _WIDE_FLOATS
    return Reals(finite=False, functions=NUMERIC, has_text=False) if is_exact else None


def _texts(type: AnyType, dialect: Dialect) -> KeyType:
    length = None if isinstance(type, _LARGE_TEXTS) else getattr(type, "length", None)
    is_compared = length is not None or known(dialect.name).compares_large
    return LimitedTexts(length=length) if is_compared else _ONLY_TEXT


def _bytes(type: AnyType, dialect: Dialect) -> KeyType | None:
    return Binary(has_text=False) if known(dialect.name).compares_large else None


def _integers(type: AnyType, _: Dialect) -> KeyType:
    visit = type.__visit_name__.upper()
    unsigned = bool(getattr(type, "unsigned", False)) or visit.startswith("UINT")
    bits = _BITS.get(visit, 16 if isinstance(type, sa.SmallInteger) else 64)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _WholeNumbers(low, high, functions=NUMERIC, has_text=False)


def _moments(type: AnyType, dialect: Dialect) -> KeyType | None:
    if type.dialect_impl(dialect).result_processor(dialect, None) is not None:
        return Texts() if dialect.name == "sqlite" else None  # its driver returns something else
    python = next(python for cls, python in _PYTHON.items() if isinstance(type, cls))
    has_zone = bool(getattr(type, "timezone", False))
    return None if has_zone and python is time else Moments(python, has_zone, has_text=False)


def _unknown(type: AnyType, dialect: Dialect) -> KeyType | None:
    """Return no key type: values are only shown."""
    return None


_PYTHON: Final[Mapping[type[AnyType], type]] = {
    sa.DateTime: datetime,
    sa.Date: date,
    sa.Time: time,
}
_Describe: TypeAlias = Callable[[AnyType, Dialect], KeyType | None]
_KINDS: Final[Mapping[type[AnyType], tuple[ColumnKind, _Describe]]] = {
    sa.Enum: ("text", _unknown),
    sa.JSON: ("json", _unknown),
    sa.Boolean: ("boolean", lambda type, dialect: _Flags(has_text=False)),
    sa.Integer: ("integer", _integers),
    sa.Float: ("real", _reals),
    sa.Numeric: (
        "numeric",
        lambda type, dialect: _Numbers(finite=False, functions=NUMERIC, has_text=False),
    ),
    sa.Uuid: ("uuid", lambda type, dialect: _Identifiers(has_text=False)),
    sa.String: ("text", _texts),
    sa.DateTime: ("datetime", _moments),
    sa.Date: ("date", _moments),
    sa.Time: ("time", _moments),
    sa.LargeBinary: ("blob", _bytes),
}
"""In this order, since the classes of some types derive from those of others."""

_BOUND: Final[Mapping[type[KeyType], Callable[[], AnyType]]] = {
    Booleans: sa.Boolean,
    Integers: sa.BigInteger,
    Decimals: sa.Numeric[Decimal],
    Reals: sa.Double[float],
    _Identifiers: sa.Uuid[UUID],
    Binary: sa.LargeBinary,
}


def bound_type(type: KeyType) -> AnyType:
    """Return the type by which SQLAlchemy binds the values of a column."""
    if isinstance(type, Moments):
        if type.python is datetime:
            return sa.DateTime(timezone=type.has_zone)
        return sa.Date() if type.python is date else sa.Time()
    return next((bound() for of, bound in _BOUND.items() if isinstance(type, of)), sa.Unicode())
