"""The login of MariaDB or MySQL that reads nothing but the views of a policy."""

from __future__ import annotations

import re
from typing import Any, Final

from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Rows,
    SqlEngine,
    Statement,
    UnfitParameter,
)
from resource_server.providers.database.engines.mysql import catalog
from resource_server.providers.database.engines.mysql.engine import (
    MysqlEngine,
    error_code,
    is_bindable,
    wrapped,
)
from resource_server.providers.database.engines.server_base import DriverConnection
from resource_server.providers.database.engines.sql_login import (
    DIGEST,
    MAX_RESULT_BYTES,
    SqlLogin,
    size_of,
    too_large,
)

_CHUNK: Final = 100
"""Rows fetched at once."""
_UNREACHABLE: Final = frozenset((1044, 1049, 1142, 1143, 1146, 1345, 1370))
"""No such database or table, no right: one answer, as for what does not exist."""
_UNKNOWN_COLUMN: Final = 1054
_TABLE_OF: Final = re.compile(r"(?:table|Table) [`']([^`']+)[`']?\.[`']?([^`']+)[`']")
_COLUMN_OF: Final = re.compile(r"Unknown column '(.*)' in ", re.DOTALL)
_OF_CALLER: Final = frozenset(
    map(
        int,
        """
        1046 1052 1055 1056 1060 1064 1066 1109 1110 1111 1140 1148 1149 1166 1222 1235 1241 1242
        1247 1248 1252 1305 1318 1365 1366 1463 1564 1582 1583 1584 1630 1690 1720 3029 3065 4002
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
        own = self._parsed_url().database or ""
        excess = catalog.beyond_views([str(row[0]) for row in grants], own)
        if excess is not None:
            return excess
        for (name,) in databases:
            return f"a right on the database {name}"
        for (name,) in tables:
            return f"a right on the table {name}"
        return None

    async def _policy_digest(self) -> str | None:
        (found,) = await self._ask((catalog.HAS_VIEW, DIGEST))
        if not found:
            return None
        (rows,) = await self._ask((f"SELECT digest FROM `{DIGEST}`",))  # noqa: S608 - a constant
        return str(rows[0][0]) if rows else None

    async def _prepare_session(self, connection: DriverConnection) -> None:
        await super()._prepare_session(connection)
        await connection.query("SET SESSION group_concat_max_len = 1048576")

    async def _select_wrapped(
        self, connection: DriverConnection, statement: Statement, limit: int
    ) -> Rows:
        from asyncmy.cursors import SSCursor

        sql, parameters = statement
        if not all(map(is_bindable, parameters)):
            raise UnfitParameter
        await self._prepare(connection, sql, len(parameters))
        cursor: Any = SSCursor(connection)
        await cursor.execute(wrapped(sql, limit + 1), tuple(parameters))
        columns = tuple(str(column[0]) for column in cursor.description or ())
        rows: list[tuple[Any, ...]] = []
        size = 0
        while chunk := list(await cursor.fetchmany(_CHUNK)):
            rows += chunk
            size += size_of(chunk)
            if size > MAX_RESULT_BYTES:
                raise too_large()
        return Rows(columns, rows[:limit], len(rows) > limit)

    async def _end(self, connection: DriverConnection, *, author: bool) -> bool:
        # Callers reach no variable, lock or setting, so nothing of a statement is left.
        return await super()._end(connection, author=False)

    def _failure(self, error: Exception, *, author: bool) -> Exception:
        code = error_code(error)
        if author and code is not None:
            message = str(error.args[1]) if len(error.args) > 1 else ""
            refused = _refused(code, message, self._parsed_url().database or "")
            if refused is not None:
                return refused
        return super()._failure(error, author=author)


def _refused(code: int, message: str, database: str) -> RefusedStatement | None:
    """Return the refusal that an error of the server stands for, with the caller's names only."""
    if code in _UNREACHABLE:
        found = _TABLE_OF.search(message)
        if found and found[1].casefold() == database.casefold():
            return RefusedStatement(f"no such table: {found[2]}", table=found[2])
        return RefusedStatement("no such table; write names of tables without a database")
    if code == _UNKNOWN_COLUMN and (found := _COLUMN_OF.search(message)):
        return RefusedStatement(f"no such column: {found[1]}", column=found[1].rpartition(".")[2])
    return RefusedStatement(message) if code in _OF_CALLER else None


_: type[SqlEngine] = MysqlSqlLogin
