"""The login of MariaDB or MySQL that reads nothing but the views of a policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    Statement,
    UnfitParameter,
)
from resource_server.providers.database.engines.mysql import catalog, causes
from resource_server.providers.database.engines.mysql.engine import MysqlEngine, is_bindable
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

_SHORT: Final = 1024
"""Bytes of the values of a column that are not measured."""
_LIMIT: Final = re.compile(r" LIMIT \d+(?: OFFSET \S+)?\Z")
"""The end of every statement that `SqlTree` limits."""
_MOST: Final = 2**63 - 1
"""The largest number, to which nothing can be added."""
_UNREACHABLE: Final = frozenset((1044, 1049, 1142, 1143, 1146, 1345, 1370))
"""No such database or table, no right: one answer, as for what does not exist."""
_UNKNOWN_COLUMN: Final = 1054
_SYNTAX: Final = 1064
_OUT_OF_RANGE: Final = 1690
_TABLE_OF: Final = re.compile(r"(?:table|Table) [`']([^`']+)[`']?\.[`']?([^`']+)[`']")
_COLUMN_OF: Final = re.compile(r"Unknown column '(.*)' in ", re.DOTALL)
_OF_CALLER: Final = frozenset(
    map(
        int,
        """
        1046 1052 1055 1056 1060 1066 1109 1110 1111 1140 1148 1149 1166 1222 1235 1241 1242
        1247 1248 1252 1305 1318 1365 1366 1463 1564 1582 1583 1584 1630 1720 3029 3065 4002
        4005 4006 4015 4016 4037 4038 4041 4058
        """.split(),
    )
)
"""Mistakes of a statement, whose messages have names and signs of the statement alone."""


class MysqlSqlLogin(SqlLogin, MysqlEngine):
    """A login of MariaDB or MySQL, for the database of the views."""

    async def _excess(self) -> str | None:
        grants, databases, tables = await self._ask(
            (catalog.GRANTS,), (catalog.OTHER_DATABASES,), (catalog.NO_VIEWS,)
        )
        own = self._url.database
        excess = catalog.beyond_views([str(row[0]) for row in grants], own)
        if excess is not None:
            return excess
        for (name,) in databases:
            return f"a right on the database {name}"
        for (name,) in tables:
            return f"a right on the table {name}"
        return None

    async def _policy_views(self) -> LoginViews:
        (found,) = await self._ask((catalog.HAS_VIEW, DIGEST))
        if not found:
            return LoginViews(None)
        rows, columns = await self._ask(
            (f"SELECT digest, DATABASE() FROM `{DIGEST}`",),  # noqa: S608 - a constant
            (catalog.VIEW_COLUMNS,),
        )
        ((digest, database),) = rows
        return LoginViews(digest, database, columns)

    async def _prepare_session(self, connection: DriverConnection) -> None:
        await super()._prepare_session(connection)
        await connection.query("SET SESSION group_concat_max_len = 1048576")

    async def _answer(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        from asyncmy.cursors import SSCursor

        sql, given = statement.sql, statement.parameters
        if not all(map(is_bindable, given)):
            raise UnfitParameter
        cursor: Any = connection.cursor()
        empty, is_limited = _LIMIT.subn(" LIMIT 0", sql)
        if not is_limited:
            raise RefusedStatement("write a SELECT")
        await cursor.execute(empty, given)
        columns = tuple(str(column[0]) for column in cursor.description)
        # Lengths of 4 GB are -1.
        guarded = _guarded(sql, [column[3] % 2**32 for column in cursor.description])
        connection.is_spent = True
        cursor = connection.cursor(SSCursor)
        await cursor.execute(guarded, given)
        rows: list[tuple[Any, ...]] = []
        size = 0
        while size < MAX_RESULT_BYTES and (row := await cursor.fetchone()):
            rows.append(row)
            size += size_of(row)
        # The rest of a result that is not read whole stays with its connection.
        connection.is_spent = size >= MAX_RESULT_BYTES
        return Rows(columns, rows[:limit], connection.is_spent or len(rows) > limit)

    def _is_spent(self, connection: DriverConnection, *, author: bool) -> bool:
        # Callers reach no variable, lock or setting, so nothing of a statement is left.
        del author
        return getattr(connection, "is_spent", False)

    def _failure(self, error: Exception, *, author: bool, binds: bool = True) -> Exception:
        code = causes.number(error)
        if author and code is not None:
            message = str(error.args[1]) if len(error.args) > 1 else ""
            refused = _refused(code, message, self._url.database)
            if refused is not None:
                return refused
        return super()._failure(error, author=author, binds=binds)


def _guarded(sql: str, lengths: Sequence[int]) -> str:
    """Return a statement that fails at a row that is too large, by its columns' longest values."""
    long = [f"c{place}" for place, length in enumerate(lengths) if length > _SHORT]
    if not long:
        return sql
    names = ", ".join(f"c{place}" for place in range(len(lengths)))
    size = " + ".join(f"COALESCE(LENGTH({name}), 0)" for name in long)
    guard = f"{_MOST} + ({size} > {MAX_ROW_BYTES}) > 0"
    return f"WITH q ({names}) AS ({sql}) SELECT * FROM q WHERE {guard}"  # noqa: S608


def _refused(code: int, message: str, database: str) -> RefusedStatement | None:
    """Return the refusal that an error of the server stands for, with the caller's names only."""
    if code == _OUT_OF_RANGE:
        # It quotes the expression as the views have it.
        return (
            row_too_large() if str(_MOST) in message else RefusedStatement("a number is too large")
        )
    if code == _SYNTAX:
        return RefusedStatement("the database does not understand this statement")
    if code in _UNREACHABLE:
        found = _TABLE_OF.search(message)
        if found and found[1].casefold() == database.casefold():
            return RefusedStatement(f"no such table: {found[2]}", table=found[2])
        return RefusedStatement("no such table; write names of tables without a database")
    if code == _UNKNOWN_COLUMN and (found := _COLUMN_OF.search(message)):
        return RefusedStatement(f"no such column: {found[1]}", column=found[1].rpartition(".")[2])
    return RefusedStatement(message) if code in _OF_CALLER else None
