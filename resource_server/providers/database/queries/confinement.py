"""Confinement of declared queries to what the manifest exposes: by the engine, or by rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.contract import (
    Engine,
    PolicyEngine,
    QueryEngine,
    RefusedStatement,
    Rows,
    Statement,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.declared import (
    BoundQuery,
    Confinement,
    DeclaredQuery,
)
from resource_server.providers.database.queries.visible_sql import VisibleSql
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from resource_server.providers.database.queries.policy_rewrite import QueryRewriter

_REFUSED = "the database refuses this query"
"""The message for clients, which tells nothing of the SQL or of what is hidden."""


class ConfinedByEngine:
    """Declared queries on an engine in which only the policy exists for them. A `Confinement`."""

    def __init__(
        self, engine: Engine, confining: PolicyEngine, policy: Policy, sql: VisibleSql
    ) -> None:
        self._engine = engine
        self._confining = confining
        self._policy = policy
        self._sql = sql

    async def rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        """See `Confinement.rows`."""
        try:
            return await self._sql.rows(bound.statement, limit=bound.limit, within=within)
        except RefusedStatement:
            raise InvalidParameter(_REFUSED) from None

    async def refusal(self, query: DeclaredQuery) -> str | None:
        """See `Confinement.refusal`."""
        try:
            statement = Statement(query.sql, (None,) * len(query.order))
            await self._sql.check(statement, self._confining)
        except RefusedStatement as error:
            return await self._explained(error, query)
        return None

    async def _explained(self, error: RefusedStatement, query: DeclaredQuery) -> str:
        """Return a refusal with the rule of the manifest behind it."""
        tables = [info.name for info in await self._engine.tables()]
        if error.table is not None:
            return self._of_table(error.table, tables) or str(error)
        named = {part.casefold() for each in query.references for part in each.parts}
        for table in tables:
            options = self._policy.of(table)
            hidden = () if options is None else options.columns.hide
            if table.name.casefold() in named and error.column is not None:
                for column in hidden:
                    if column.casefold() == error.column.casefold():
                        rule = f"{self._policy.rule(table)}.columns.hide"
                        return f"reads {column} of {table.name}, which is hidden ({rule})"
        return str(error)

    def _of_table(self, written: str, tables: Sequence[TableName]) -> str | None:
        """Return why a name of a table is refused, or None if there is no such table."""
        schema, _, name = written.rpartition(".")
        for table in tables:
            if table.name.casefold() not in (written.casefold(), name.casefold()):
                continue
            rule = self._policy.rule(table)
            if self._policy.of(table) is None:
                return f"reads {written}, which is hidden ({rule})"
            if schema:
                partly = (
                    f", which is partly hidden ({rule})" if self._policy.restricts(table) else ""
                )
                return f"reads {written}{partly}; write {name} alone"
        return None


def rewriter_for(
    engine: Engine, policy: Policy, exposed_tables: ExposedTableCache
) -> QueryRewriter:
    """Return the rewriter of an engine, whose import others do without."""
    match engine.name:
        case "duckdb":
            from resource_server.providers.database.queries.duckdb_rewrite import (
                DuckdbRewriter as Rewriter,
            )
        case "postgresql":
            from resource_server.providers.database.queries.server_rewrite import (
                PostgresRewriter as Rewriter,
            )
        case _:
            from resource_server.providers.database.queries.server_rewrite import (
                MysqlRewriter as Rewriter,
            )
    return Rewriter(engine, policy, exposed_tables)


class ConfinedByRewriting:
    """Declared queries that are rewritten before the engine runs them. A `Confinement`."""

    def __init__(self, engine: QueryEngine, rewriter: QueryRewriter) -> None:
        self._engine = engine
        self._rewriter = rewriter

    async def rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        """See `Confinement.rows`."""
        return await settle(self._rows(query, bound, within))

    async def _rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        try:
            sql, order = await self._rewriter.rewritten(query)
        except ValueError:
            raise InvalidParameter(_REFUSED) from None
        values = dict(zip(query.order, bound.statement.parameters, strict=True))
        statement = Statement(sql, tuple([values[name] for name in order]))
        return await self._engine.query(statement, limit=bound.limit, within=within)

    async def refusal(self, query: DeclaredQuery) -> str | None:
        """See `Confinement.refusal`."""
        try:
            await self._engine.check(*await self._rewriter.rewritten(query))
        except ValueError as error:
            return str(error)
        return None


_: type[Confinement] = ConfinedByEngine
__: type[Confinement] = ConfinedByRewriting
