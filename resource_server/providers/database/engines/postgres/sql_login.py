"""The login of PostgreSQL that reads nothing but the views of a policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any, Final

import msgspec

from resource_server.providers.database.addressing import key_types
from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    Statement,
    UnfitParameter,
)
from resource_server.providers.database.engines.postgres import catalog
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.reflection import quoted
from resource_server.providers.database.engines.server_base import DriverConnection
from resource_server.providers.database.engines.sql_login import (
    DIGEST,
    MAX_RESULT_BYTES,
    MAX_ROW_BYTES,
    LoginViews,
    SqlLogin,
    row_too_large,
    size_of,
)

_MAX_KEPT: Final = 256
"""Statements that are not explained again."""
_COST_PER_S: Final = 1e7
"""Estimated cost of a statement that no server reaches in a second; a page read costs 1."""
_TOO_LARGE: Final = "a row of more than 1 MB"
_GUARD: Final = (
    f"CASE WHEN pg_catalog.octet_length(q::text) > {MAX_ROW_BYTES} THEN ('{_TOO_LARGE}'"
    " || pg_catalog.left(q::text, 0))::int IS NULL ELSE true END"
)
"""A condition that fails at a row that is too large."""
_REFUSED_CLASSES: Final = frozenset(("0A", "21", "22", "3F", "42", "54"))
"""Unsupported features, wrong values, syntax and names, too complex: the caller's own mistakes."""
_QUOTED: Final = re.compile(r'".*"', re.DOTALL)
_MISSING_TABLE: Final = re.compile(r'relation "([^".]+)" does not exist', re.DOTALL)
_MISSING_COLUMN: Final = re.compile(r'column "?(.+?)"? does not exist', re.DOTALL)
_UNKNOWN_TYPE: Final = "42P18"
_UNREACHABLE: Final = frozenset(("3F000", "42501", "42P01"))
"""No such schema, no right, no such table: one answer, as for what does not exist."""


class PostgresSqlLogin(SqlLogin, PostgresEngine):
    """A login of PostgreSQL. Its search path is the schema of the views."""

    def __init__(self, url: str, digest: str) -> None:
        super().__init__(url, digest)
        self._affordable = set[tuple[Statement, int, float]]()
        """Statements whose cost was checked since the views of `_affordable_in` were proved."""
        self._affordable_in = self._visible

    async def _excess(self) -> str | None:
        for query in (catalog.PRIVILEGES, catalog.BEYOND_POLICY):
            for (name,) in await self._ask(query):
                return str(name)
        return None

    async def _policy_views(self) -> LoginViews:
        if not await self._ask(catalog.HAS_DIGEST, DIGEST):
            return LoginViews(None)
        rows = await self._ask(f'SELECT digest, whole FROM "{DIGEST}"')  # noqa: S608 - a constant
        ((digest, whole),) = rows
        columns = await self._ask(catalog.VIEW_COLUMNS)
        ((schema,),) = await self._ask("SELECT pg_catalog.current_schema()::text")
        return LoginViews(digest, schema, columns, frozenset(whole))

    async def _answer(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        sql = f"SELECT q.* FROM ({statement.sql}\n) AS q WHERE {_GUARD} LIMIT {limit + 1}"  # noqa: S608
        prepared = await connection.prepare(sql, name="")
        given = [
            _fitted(value, type.name)
            for value, type in zip(statement.parameters, prepared.get_parameters(), strict=True)
        ]
        columns = prepared.get_attributes()
        if self._affordable_in is not self._visible or len(self._affordable) >= _MAX_KEPT:
            self._affordable.clear()
            self._affordable_in = self._visible
        cost = (statement, limit, within)
        if cost not in self._affordable and self._reads_whole_tables(statement.sql):
            # With names of its own: EXPLAIN takes seconds to tell equal names apart.
            names = ", ".join(f"c{place}" for place in range(len(columns)))
            named = f"AS q ({names})" if names else "AS q"
            explained = f"SELECT * FROM ({statement.sql}\n) {named} LIMIT {limit + 1}"  # noqa: S608
            await _check_cost(connection, explained, given, within)
            # The check took the place of the unnamed statement.
            prepared = await connection.prepare(sql, name="")
            self._affordable.add(cost)
        rows, is_cut = await _read(await prepared.cursor(*given), columns)
        return Rows(tuple(each.name for each in columns), rows[:limit], is_cut or len(rows) > limit)

    def _reads_whole_tables(self, sql: str) -> bool:
        """Return whether a statement reads only tables without hidden rows or columns.

        Estimates come from statistics of all rows, so refusals would reveal hidden ones.
        """
        views = [table.name.name for table in self._visible.tables]
        return not any(quoted(view) in sql for view in views if view not in self._whole)

    def _failure(self, error: Exception, *, author: bool, binds: bool = True) -> Exception:
        state = str(getattr(error, "sqlstate", None) or "")
        if author and state[:2] in _REFUSED_CLASSES:
            return _refused(state, str(error.args[0]) if error.args else "")
        return super()._failure(error, author=author, binds=binds)


async def _read(cursor: Any, columns: Sequence[Any]) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows that fit into memory, and whether there may be more."""
    are_scalar = all(each.type.kind == "scalar" for each in columns)
    rows: list[tuple[Any, ...]] = []
    size = 0
    while size < MAX_RESULT_BYTES:
        # Each may have the maximum size, and values of other kinds many times that of their text.
        chunk = max((MAX_RESULT_BYTES - size) // MAX_ROW_BYTES, 1) if are_scalar else 1
        more = [tuple(record) for record in await cursor.fetch(chunk)]
        rows += more
        size += sum(map(size_of, more))
        if len(more) < chunk:
            return rows, False
    return rows, True


async def _check_cost(
    connection: DriverConnection, sql: str, parameters: Sequence[object], within: float
) -> None:
    """Refuse a statement that cannot end in time, without running it.

    Raises:
        RefusedStatement: it would take too long, by the planner's estimate.
    """
    plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *parameters)
    ((root,),) = (msgspec.json.decode(plan, type=tuple[_Explained, ...]),)
    if root.plan.total_cost > _COST_PER_S * within:
        raise RefusedStatement(
            "the statement would take too long, by the planner's estimate: join on equal columns, "
            "and write a condition for each large table, on columns that have an index; whoever "
            "runs the server can raise limits.query_timeout"
        )


class _PlanNode(msgspec.Struct):
    total_cost: float = msgspec.field(name="Total Cost")


class _Explained(msgspec.Struct):
    plan: _PlanNode = msgspec.field(name="Plan")


def _refused(state: str, message: str) -> RefusedStatement:
    """Return the refusal that an error of PostgreSQL stands for, with the caller's names only."""
    if state in _UNREACHABLE:
        if found := _MISSING_TABLE.fullmatch(message):
            return RefusedStatement(f"no such table: {found[1]}", table=found[1])
        if state == "42P01" and "FROM-clause" in message:
            return RefusedStatement(message)
        return RefusedStatement("no such table; write names of tables without a schema")
    if state == "42703" and (found := _MISSING_COLUMN.fullmatch(message)):
        return RefusedStatement(f"no such column: {found[1]}", column=found[1].rpartition(".")[2])
    if state == _UNKNOWN_TYPE:
        return RefusedStatement("a parameter has no known type; write one, as in :name::text")
    if _TOO_LARGE in message:
        return row_too_large()
    if state[:2] == "22":
        # It may quote a value that the manifest's own condition met in a hidden row.
        message = _QUOTED.sub("…", message)
    return RefusedStatement(message)


def _fitted(value: Any, type: str) -> object:
    """Return a caller's value as asyncpg binds it for a type.

    Raises:
        UnfitParameter: it is no value of the type.
    """
    if value is None:
        return None
    if type in ("text", "varchar", "bpchar", "name", "unknown"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    convert = _CONVERSIONS.get(type)
    if convert is None:
        return value
    try:
        return convert(value)
    except (TypeError, ValueError, ArithmeticError):
        raise UnfitParameter from None


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("not an integer")
    return key_types.parse_integer(value) if isinstance(value, str) else int(value)


def _boolean(value: Any) -> bool:
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise ValueError("no boolean")


def _time(value: Any) -> time:
    return key_types.parse_time(value)


def _moment(value: Any) -> datetime:
    try:
        return key_types.parse_datetime(value)
    except ValueError:
        return key_types.parse_datetime(key_types.start_of_day(value))


def _instant(value: Any) -> datetime:
    return _moment(value).replace(tzinfo=UTC)


def _local(value: Any) -> datetime:
    found = _moment(value)
    key_types.require(found.tzinfo is None, "without a time zone")
    return found


_CONVERSIONS: Mapping[str, Callable[[Any], object]] = {
    "int2": _whole,
    "int4": _whole,
    "int8": _whole,
    "float4": float,
    "float8": float,
    "numeric": lambda value: Decimal(str(value)),
    "bool": _boolean,
    "date": key_types.parse_date,
    "time": _time,
    "timetz": _time,
    "timestamp": _local,
    "timestamptz": _instant,
    "uuid": lambda value: key_types.parse_uuid(value),
}
