"""SQL for which only what a policy shows exists, on an engine that confines it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from resource_server.errors import ResourceBusy, ResourceNotFound
from resource_server.providers.database.engines.contract import (
    OutdatedPolicy,
    PolicyEngine,
    Rows,
    SqlEngine,
    SqlPolicy,
    Statement,
    VisibleTable,
)
from resource_server.providers.database.engines.reflection import TableInfo, TableName
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.eager import settle

T = TypeVar("T")

_MAX_ATTEMPTS: Final = 5
"""How often a statement begins again because the schema has changed."""


class VisibleSql:
    """Runs statements of callers, or of the manifest (`is_declared`), on one database."""

    def __init__(
        self,
        engine: SqlEngine,
        policy: Policy,
        exposed_tables: ExposedTableCache,
        *,
        is_declared: bool,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._exposed = exposed_tables
        self._is_declared = is_declared
        self._infos: Sequence[TableInfo] | None = None
        self._visible = SqlPolicy((), is_declared)
        self._collecting = asyncio.Lock()

    async def rows(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Return the rows of a statement.

        Raises:
            RefusedStatement: as `SqlEngine.ask`.
        """
        return await self._fitting(
            lambda visible: self._engine.ask(statement, visible, limit=limit, within=within)
        )

    async def check(self, statement: Statement, engine: PolicyEngine) -> None:
        """Prepare a statement on the engine without running it. Raises as `rows`."""
        await self._fitting(lambda visible: engine.check(statement, visible))

    async def _fitting(self, work: Callable[[SqlPolicy], Awaitable[T]]) -> T:
        """Return the result of work with the policy of the present schema."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return await work(await self.visible())
            except OutdatedPolicy:
                await self._exposed.state()
        raise ResourceBusy("the schema of the database changes all the time")

    async def visible(self) -> SqlPolicy:
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
            self._visible = SqlPolicy(tables, self._is_declared, state)
            self._infos = infos

    async def _table(self, name: TableName) -> VisibleTable | None:
        options = self._policy.of(name)
        if options is None or not (options.rows or self._is_declared):
            return None
        if not self._policy.restricts(name):
            return VisibleTable(name)
        try:
            view = (await self._exposed.get(name)).view
        except ResourceNotFound:
            return None
        return VisibleTable(name, view.table.column_names, view.maskers, options.where)
