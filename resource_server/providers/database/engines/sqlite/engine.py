"""The engine of SQLite files."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from resource_server.errors import ResourceBusy, ResourceNotFound
from resource_server.providers.database.engines.causes import failure, unavailable
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    Engine,
    EngineName,
    PolicyEngine,
    Rows,
    Statement,
    ViewReads,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.slots import MAX_WAITING
from resource_server.providers.database.engines.sqlite.authorizer import Readable, everything
from resource_server.providers.database.engines.sqlite.catalog import SqliteCatalog
from resource_server.providers.database.engines.sqlite.connection import (
    SqliteConnection,
    StatementRefused,
)
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    schema_state,
)
from resource_server.providers.database.engines.sqlite.inline_reader import InlineReader
from resource_server.providers.database.engines.sqlite.policy_workers import PolicyWorkers
from resource_server.providers.database.engines.sqlite.workers import (
    CLOSING,
    SqliteWorker,
    WorkerPool,
)
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

T = TypeVar("T")

_OPEN_TIMEOUT_S = 30.0
"""Timeout of the first look at a schema, which SQLite parses whole."""
_CATALOG_TIMEOUT_S = 5.0
"""Timeout of one catalog query."""
_CLOSE_TIMEOUT_S = 2.0
"""How long closing waits for interrupted statements."""
_DECLARED = 4, MAX_WAITING
"""Queries of the manifest that run at the same time, and that wait."""
_ASKED = 2, 16
"""Statements of callers that run at the same time, and that wait."""
_MAX_POLICIES = 16
"""Policies that have connections of their own; callers with other claims have others."""


class SqliteEngine(Engine, PolicyEngine):
    """A SQLite database file, which other processes may write.

    `readable` decides which columns statements may read; see `Readable`. `interval` is the number
    of seconds between two looks for commits.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        readable: Readable = everything,
        interval: float = 0.05,
    ) -> None:
        self._file = DatabaseFile(path)
        self._readable = readable
        self._interval = interval
        self._dialect: Dialect | None = None
        self._retiring: dict[asyncio.Task[None], PolicyWorkers] = {}
        """Workers with an earlier policy, until their last statements end."""
        self._is_closed = False
        self._make_workers()

    def _make_workers(self) -> None:
        self._inline = InlineReader(
            self._file,
            lambda identity: SqliteConnection(
                self._file, identity, "reader", self._readable, busy_timeout_s=0.0
            ),
        )
        self._hot = SqliteWorker(self._file, "reader", self._readable)
        self._slow = WorkerPool(self._file, self._readable)
        self._catalog_worker = SqliteWorker(self._file, "catalog", self._readable)
        self._catalog = SqliteCatalog()
        self._confined = OrderedDict[tuple[bool, Hashable], PolicyWorkers]()
        """Workers for SQL of callers (False) and of the manifest (True), by whose they are."""

    @property
    @override
    def name(self) -> EngineName:
        return "sqlite"

    @property
    @override
    def dialect(self) -> Dialect:
        if self._dialect is None:
            from sqlalchemy.dialects import sqlite

            self._dialect = sqlite.dialect()
        return self._dialect

    @override
    async def _connect_and_check(self) -> None:
        # Other connections are opened when needed.
        if self._is_closed:
            self._make_workers()
            self._is_closed = False
        await self._ask(self._catalog.version, _OPEN_TIMEOUT_S)

    @override
    async def _close_everything(self) -> None:
        self._is_closed = True
        workers = [self._hot, self._slow, self._catalog_worker, *self._confined.values()]
        retiring = dict(self._retiring)
        self._inline.close()
        for worker in (*workers, *retiring.values()):
            await worker.close(_CLOSE_TIMEOUT_S)
        if retiring:
            _, stuck = await asyncio.wait(retiring, timeout=_CLOSE_TIMEOUT_S)
            for task in stuck:
                task.cancel()
        if self._file.keeps_log():
            await asyncio.to_thread(self._file.tidy)

    @override
    async def tables(self) -> Sequence[TableInfo]:
        return await self._ask(self._catalog.tables)

    @override
    async def unserved(self) -> Sequence[TableName]:
        return await self._ask(self._catalog.unserved)

    @override
    async def table(self, name: TableName) -> Table:
        if name.schema is not None:
            raise ResourceNotFound
        return await self._ask(lambda connection: self._catalog.table(connection, name.name))

    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        """Run one of our own SELECTs. See `Engine.run_own`.

        May return fewer rows than `limit` with `more`, if they are very large.

        Raises:
            ResourceNotFound: a table or column it selects is hidden.
            ResourceUnreadable: one is missing, or broken.
        """
        stored = not slow
        if stored:
            found = self._inline.select(statement, limit)
            if isinstance(found, Rows):
                return found
            slow = found == "slow"
        sql, parameters = statement.sql, statement.parameters
        run = self._slow.run if slow else self._hot.run
        try:
            return await settle(
                run(
                    lambda connection: connection.select(sql, parameters, limit, stored=stored),
                    within,
                )
            )
        except StatementRefused as error:
            raise failure(error.found, has_values=bool(parameters)) from error

    @override
    async def refusal(self, sql: str) -> str | None:
        try:
            await self._slow.run(
                lambda connection: connection.select(sql, (), 1), _CATALOG_TIMEOUT_S
            )
        except StatementRefused as error:
            return str(error)
        return None

    @override
    async def run_confined(
        self, statement: Statement, policy: VisibleTables, *, limit: int, within: float
    ) -> Rows:
        return await self._confined_to(policy).run(statement, limit=limit, within=within)

    @override
    async def check_confined(self, statement: Statement, policy: VisibleTables) -> None:
        await self._confined_to(policy).check(statement, _CATALOG_TIMEOUT_S)

    def _confined_to(self, policy: VisibleTables) -> PolicyWorkers:
        """Return the workers for a policy, which replaces an earlier one of the same kind."""
        if self._is_closed:
            raise ResourceBusy(CLOSING)
        key = policy.is_author, policy.owner
        known = self._confined.pop(key, None)
        if known is not None and known.policy is policy:
            self._confined[key] = known
            return known
        if known is not None:
            self._retire(known)
        elif len(self._confined) >= _MAX_POLICIES:
            self._retire(self._confined.popitem(last=False)[1])
        size, waiting = _DECLARED if policy.is_author else _ASKED
        workers = PolicyWorkers(self._file, policy, self._readable, size=size, max_waiting=waiting)
        self._confined[key] = workers
        return workers

    def _retire(self, workers: PolicyWorkers) -> None:
        """Close workers when their last statement has ended."""
        task = asyncio.get_running_loop().create_task(workers.close_when_idle(_CLOSE_TIMEOUT_S))
        self._retiring[task] = workers
        task.add_done_callback(self._retiring.pop)

    @override
    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        return await self._ask(
            lambda connection: {
                name: frozenset(
                    (TableName(None, table), column)
                    for table, column in connection.columns_read_by(name.name)
                )
                for name in names
            }
        )

    @override
    async def estimate(self, name: TableName) -> int | None:
        return await self._ask(lambda connection: self._catalog.estimate(connection, name.name))

    @override
    async def schema_state(self, name: TableName | None = None) -> object:
        version = await self._ask(self._catalog.version)
        identity = self._catalog_worker.identity
        return None if identity is None else schema_state(version, identity)

    @property
    def commit_detection(self) -> CommitDetection:
        """Polling, besides the file's events. See `Engine.commit_detection`."""
        return CommitDetection("commits", self._interval)

    @override
    def commits(self) -> AsyncGenerator[None, None]:
        # Imported here: the start does not need it.
        from resource_server.providers.database.engines.sqlite.commits import SqliteCommitWatch

        return SqliteCommitWatch(self._file, self._interval).follow()

    async def _ask(
        self, function: Callable[[SqliteConnection], T], within: float = _CATALOG_TIMEOUT_S
    ) -> T:
        try:
            return await self._catalog_worker.run(function, within)
        except StatementRefused as error:
            raise unavailable(error.found, "") from None
