"""Statements as SQLAlchemy executes them, and their rows under limits of memory."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from resource_server.providers.database.engines.contract import Rows, Statement, TruncatedValue
from resource_server.providers.database.engines.generic import firebird
from resource_server.providers.database.engines.single_precision import shortest

_BATCH: Final = 100
"""Rows that are fetched at a time."""
_MAX_VALUE: Final = 16 * 1024 * 1024
"""Maximum bytes or characters of a value that is kept whole."""
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes and characters of all rows from which no more are fetched."""
_KEPT: Final = 64 * 1024
"""Bytes or characters of the start of a longer value."""
_PLAIN: Final = frozenset(
    (
        *(bool, int, float, Decimal, str, bytes, uuid.UUID, list, tuple, dict, set, frozenset),
        *(datetime.date, datetime.time, datetime.timedelta, type(None)),
    )
)
"""Classes whose values are shown as they are."""
_BASES: Final[tuple[Callable[[Any], object], ...]] = (str, int, float, Decimal, dict, list, tuple)
"""Classes as whose values those of derived classes are shown; all others are shown as text."""


def text_of(sql: str) -> sa.TextClause:
    """Return SQL whose parameters are `:p1`, `:p2`, as `declared.positional` writes it."""
    return sa.text(sql)


def executable(statement: Statement, dialect: Dialect) -> tuple[Any, Mapping[str, Any]]:
    """Return what SQLAlchemy executes, and the values of its parameters."""
    is_firebird = dialect.name.startswith("firebird")
    if statement.core is not None:
        select, given = statement.core
        return firebird.with_sizes(select, given) if is_firebird else select, given
    values: dict[str, Any] = {}
    types: list[sa.BindParameter[Any]] = []
    for place, value in enumerate(statement.parameters, 1):
        name = f"p{place}"
        if dialect.name == "sqlite" and isinstance(value, datetime.date):
            values[name] = value.isoformat()  # as its applications write them
            continue
        values[name] = value
        if not isinstance(value, str | int | float | None) or isinstance(value, bool):
            bound: sa.BindParameter[Any] = sa.bindparam(name, value)  # of the type of the value
            types.append(firebird.sized(bound, value) if is_firebird else bound)
    return text_of(statement.sql).bindparams(*types), values


class _JsonObject(dict[str, Any]):
    """An object of JSON, and its text."""

    text = ""


class _JsonArray(list[Any]):
    """An array of JSON, and its text."""

    text = ""


def decoded_json(text: str | bytes) -> object:
    """Return JSON as SQLAlchemy needs it in its own statements; `fetched_rows` returns its text."""
    written = text if isinstance(text, str) else bytes(text).decode("utf-8", "surrogateescape")
    try:
        found: Any = json.loads(written)
    except (ValueError, RecursionError):  # SQLite stores any text, others numbers of any length
        return written
    if not isinstance(found, dict | list):
        return written
    made = (
        _JsonObject(cast("dict[str, Any]", found))
        if isinstance(found, dict)
        else _JsonArray(cast("list[Any]", found))
    )
    made.text = written
    return made


def fetched_rows(result: sa.CursorResult[Any], limit: int) -> Rows:
    """Return at most `limit` rows, fewer with `more` if they are very large; fetch none for 0."""
    columns = tuple(map(str, result.keys()))
    if not limit:  # a query is only checked: some run as their rows are fetched
        result.close()
        return Rows(columns, [], more=True)
    described: Sequence[Any] = result.cursor.description if result.cursor is not None else ()
    singles = [n for n, each in enumerate(described or ()) if each[1] is float and each[3] == 4]
    rows: list[tuple[object, ...]] = []
    size = 0
    while len(rows) <= limit and size <= _MAX_BYTES:
        batch = result.fetchmany(min(_BATCH, limit + 1 - len(rows)))
        if not batch:
            result.close()
            return Rows(columns, rows)
        for row in batch:
            values = tuple(map(_plain, _with_singles(row, singles) if singles else row))
            size += sum(len(each) for each in values if isinstance(each, str | bytes))
            rows.append(values)
    result.close()
    return Rows(columns, rows[:limit], more=True)


def _with_singles(row: Iterable[Any], singles: Sequence[int]) -> Sequence[Any]:
    """Return a row whose driver returns numbers of 32 bits as the nearest of 64."""
    return [shortest(v) if n in singles and type(v) is float else v for n, v in enumerate(row)]


def _plain(value: Any) -> object:
    """Return a value of a driver in a class that all engines share."""
    cls = value.__class__
    if cls is str or cls is bytes:
        return value if len(value) <= _MAX_VALUE else TruncatedValue(value[:_KEPT], len(value))
    if cls is datetime.datetime:
        try:
            return value if value.tzinfo is None else value.astimezone(datetime.UTC)
        except OverflowError:  # next to the first year and the last
            return value.isoformat()
    if cls in _PLAIN:
        return value
    if cls is _JsonObject or cls is _JsonArray:
        return _plain(value.text)
    return _plain_of(value)


def _plain_of(value: Any) -> object:
    """Return a value of a class of the driver's own."""
    if isinstance(value, memoryview | bytearray):
        return _plain(bytes(cast("memoryview[int]", value)))
    if callable(getattr(value, "read", None)):  # a large object, readable in its transaction only
        length = getattr(value, "length", 0)
        if isinstance(length, int) and length > _MAX_VALUE:
            return TruncatedValue(value.read(_KEPT), length)
        return _plain(value.read())
    if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):  # of numpy
        found = value.tolist()
        if type(found) is not type(value):  # as that of a long double is
            return _plain(found)
    base = next((each for each in _BASES if isinstance(value, cast("type", each))), str)
    try:
        return _plain(base(value))
    except Exception:  # of the driver's class
        return f"[{type(value).__name__}]"
