"""Declared queries of servers and DuckDB, confined to exposed rows and columns.

Each restricted table of a query is replaced by a subquery: the rows that match `where`, the columns
that are neither hidden nor masked. No condition of a query runs on a row that `where` hides.
(On SQLite, the engine itself confines queries.)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.reflection import TableName, quoted
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.reading.exposed_table import ExposedTableCache

_CATALOG_S: Final = 5.0
"""Timeout of a catalog query for names."""
_MANY: Final = 1_000_000


class Rewritten(NamedTuple):
    """A query that reads only what is exposed."""

    sql: str
    """SQL with placeholders."""
    order: tuple[str, ...]
    """Parameter names in placeholder order."""
    tables: Mapping[str, str] = {}
    """Tables of the query, by the names that take their place in the SQL."""

    def column_name(self, name: str) -> str:
        """Return the name of a column of the result, with the query's own names of tables."""
        for written, table in self.tables.items():
            name = name.replace(written, table)
        return name


class QueryRewriter(ABC):
    """Confines declared queries to what the manifest exposes."""

    def __init__(self, engine: Engine, policy: Policy, exposed_tables: ExposedTableCache) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._state: object = None
        self._known: dict[str, Rewritten | ValueError] = {}
        """Rewritten queries by their SQL, or the refusal of one."""

    async def rewritten(self, query: DeclaredQuery) -> Rewritten:
        """Return a query that reads only what is exposed.

        Raises:
            ValueError: it would read hidden data; the message is for the manifest's author.
        """
        if not self._policy.is_restricting:
            return Rewritten(query.sql, query.order)
        # The sequence is a new object after every change of the schema.
        state = await self._exposed.infos()
        if state is not self._state:
            self._state, self._known = state, {}
        known = self._known
        if query.sql not in known:
            try:
                known[query.sql] = await self._write(query)
            except ValueError as error:
                known[query.sql] = error
        match known[query.sql]:
            case Rewritten() as found:
                return found
            case refused:
                raise ValueError(*refused.args)

    @abstractmethod
    async def _write(self, query: DeclaredQuery) -> Rewritten:
        """Rewrite a query, which may need no change. Raises as `rewritten`."""

    async def _home(self) -> str:
        """Return the schema of tables whose names have none."""
        return "main"

    async def _run_own(self, sql: str, *parameters: object) -> Sequence[tuple[object, ...]]:
        statement = Statement(sql, parameters)
        return (await self._engine.run_own(statement, limit=_MANY, within=_CATALOG_S)).rows

    async def _body(self, name: TableName, written: str, defined: Iterable[str]) -> str:
        """Return a SELECT of the visible part of a restricted table.

        Args:
            name: the table.
            written: its name in the query.
            defined: the names of the common table expressions of the query.

        Raises:
            ValueError: it is hidden, or its condition means something else in the query.
        """
        options = self._policy.of(name)
        hidden = f"reads {written}, which is hidden ({self._policy.rule(name) or 'tables'})"
        if options is None:
            raise ValueError(hidden)
        try:
            view = (await self._exposed.get(name)).view
        except ResourceNotFound:
            raise ValueError(hidden) from None
        for each in defined:
            if options.where and re.search(rf"\b{re.escape(each)}\b", options.where, re.IGNORECASE):
                raise ValueError(
                    f"defines {each}, a name in the `where` of {name.name}; choose another"
                )
        engine = self._engine.name
        visible = [each for each in view.table.column_names if each not in view.masked]
        columns = ", ".join(quoted(each, engine) for each in visible) or "1 AS nothing"
        schema = name.schema if name.schema is not None else await self._home()
        table = f"{quoted(schema, engine)}.{quoted(name.name, engine)}"
        body = f"SELECT {columns} FROM {table}"  # noqa: S608 - quoted
        where = view.options.where  # with the values of the caller's claims
        if where is None:
            return body
        # The limit has no effect but to keep the conditions of the query outside. An engine may
        # otherwise run one first, on hidden rows, and its errors would reveal their values.
        barrier = f"LIMIT {2**64 - 1}" if engine in ("mysql", "mariadb") else "OFFSET 0"
        return f"{body} WHERE ({where}\n) {barrier}"


def no_table(path: Sequence[str]) -> ValueError:
    """Return the error of a name that no table has."""
    return ValueError(f"reads {'.'.join(path)}, and there is no such table")
