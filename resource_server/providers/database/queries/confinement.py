"""Confinement of SQL to what the manifest exposes: by the engine, or by rewriting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from resource_server.errors import InvalidParameter, ResourceBusy, ResourceNotFound
from resource_server.providers.database.engines.contract import (
    Engine,
    OutdatedPolicy,
    PolicyEngine,
    QueryEngine,
    RefusedStatement,
    Rows,
    SqlEngine,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.declared import (
    BoundQuery,
    Confinement,
    DeclaredQuery,
)
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from resource_server.providers.database.queries.policy_rewrite import QueryRewriter

T = TypeVar("T")

_MAX_ATTEMPTS: Final = 5
"""How often a statement begins again because the schema has changed."""
_REFUSED = "the database refuses this query"
"""The message for clients, which reveals neither the SQL nor anything hidden."""


class EngineConfinedSql:
    """Runs statements of callers, or of the manifest (`is_author`), on one database."""

    def __init__(
        self,
        engine: SqlEngine,
        policy: Policy,
        exposed_tables: ExposedTableCache,
        *,
        is_author: bool,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._is_author = is_author
        self._infos: Sequence[TableInfo] | None = None
        self._visible = VisibleTables((), is_author)
        self._collecting = asyncio.Lock()

    async def rows(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Return the rows of a statement.

        Raises:
            RefusedStatement: as `SqlEngine.run_confined`.
        """
        return await self._fitting(
            lambda visible: self._engine.run_confined(
                statement, visible, limit=limit, within=within
            )
        )

    async def check(self, statement: Statement, engine: PolicyEngine) -> None:
        """Prepare a statement on the engine without running it. Raises as `rows`."""
        await self._fitting(lambda visible: engine.check_confined(statement, visible))

    async def _fitting(self, work: Callable[[VisibleTables], Awaitable[T]]) -> T:
        """Return the result of work with the policy of the present schema."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await work(await self.visible())
            except OutdatedPolicy:
                await self._exposed.state()
        raise ResourceBusy("the schema of the database changes all the time")

    async def visible(self) -> VisibleTables:
        """Return what statements see in the current schema; the same object while it is the same.

        Those of the manifest also see tables without documents (`rows: false`).
        """
        if await self._exposed.infos() is not self._infos:
            await settle(self._collect())
        return self._visible

    async def _collect(self) -> None:
        async with self._collecting:
            infos = await self._exposed.infos()
            if infos is self._infos:
                return
            # If the schema changes meanwhile, no connection takes this for its policy.
            state = self._exposed.known_state
            found = [await self._table(info.name) for info in infos]
            tables = tuple([table for table in found if table is not None])
            owner = self._policy.owner
            self._visible = VisibleTables(tables, self._is_author, state, owner=owner)
            self._infos = infos

    async def _table(self, name: TableName) -> VisibleTable | None:
        options = self._policy.of(name)
        if options is None or not (options.rows or self._is_author):
            return None
        if not self._policy.restricts(name):
            return VisibleTable(name)
        try:
            view = (await self._exposed.get(name)).view
        except ResourceNotFound:
            return None
        return VisibleTable(name, view.table.column_names, view.maskers, view.options.where)


class ConfinedByEngine(Confinement):
    """Declared queries on an engine in which only the policy exists for them."""

    def __init__(
        self, engine: Engine, confining: PolicyEngine, policy: Policy, sql: EngineConfinedSql
    ) -> None:
        self._engine = engine
        self._confining = confining
        self._policy = policy
        self._sql = sql

    @override
    async def rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        try:
            return await self._sql.rows(bound.statement, limit=bound.limit, within=within)
        except RefusedStatement:
            raise InvalidParameter(_REFUSED) from None

    @override
    async def refusal(self, query: DeclaredQuery) -> str | None:
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
        case "generic":
            from resource_server.providers.database.queries.policy_rewrite import (
                WholeTables as Rewriter,
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


class ConfinedByRewriting(Confinement):
    """Declared queries that are rewritten before the engine runs them."""

    def __init__(self, engine: QueryEngine, rewriter: QueryRewriter) -> None:
        self._engine = engine
        self._rewriter = rewriter

    @override
    async def rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        return await settle(self._rows(query, bound, within))

    async def _rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        try:
            rewritten = await self._rewriter.rewritten(query)
        except ValueError:
            raise InvalidParameter(_REFUSED) from None
        values = dict(zip(query.order, bound.statement.parameters, strict=True))
        statement = Statement(rewritten.sql, tuple([values[name] for name in rewritten.order]))
        rows = await self._engine.run_authored(statement, limit=bound.limit, within=within)
        return Rows(tuple(map(rewritten.column_name, rows.columns)), rows.rows, rows.more)

    @override
    async def refusal(self, query: DeclaredQuery) -> str | None:
        try:
            rewritten = await self._rewriter.rewritten(query)
            await self._engine.check_authored(rewritten.sql, rewritten.order)
        except ValueError as error:
            return str(error)
        return None
