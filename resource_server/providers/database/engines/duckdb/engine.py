"""The engine of DuckDB files and data files, in a worker process.

Whatever was read while a file changed is discarded and read again, so no lock on it is needed, and
its writers are never kept waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from resource_server.conversion.sandbox import PROTECTIONS
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engines.causes import REFUSED, failure
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    Engine,
    EngineName,
    Privilege,
    QueryEngine,
    RefusedStatement,
    Rows,
    SqlEngine,
    Statement,
    TruncatedValue,
    ViewReads,
    VisibleTables,
)
from resource_server.providers.database.engines.duckdb import catalog, causes, syntax
from resource_server.providers.database.engines.duckdb.current_worker import (
    CLOSING,
    START_S,
    CallerWorkers,
    CurrentWorker,
)
from resource_server.providers.database.engines.duckdb.data_sources import (
    NO_FILE,
    DatabaseSource,
    FilesSource,
)
from resource_server.providers.database.engines.duckdb.messages import (
    NUMBERED,
    ROW,
    Run,
    RunFailed,
    RunResult,
    portable,
)
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.slots import Slots, acquire_all, release_all
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.runtime import extras
from resource_server.runtime.causes import UNKNOWN, Cause
from resource_server.runtime.eager import settle
from resource_server.uris import is_unicode

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

OWN_SLOTS = 3
SLOW_SLOTS = 2
AUTHOR_SLOTS = 2
CALLER_SLOTS = 2
_CATALOG_TIMEOUT_S = 5.0
_OPEN_TIMEOUT_S = 30.0
_MAX_ROWS = 100_000
_MAX_TOLD = 3
"""Data files that are named where none can be read."""


class DuckdbEngine(Engine, QueryEngine, SqlEngine):
    """A DuckDB database file, or data files as tables.

    `interval` is the number of seconds between two looks at the files.
    """

    def __init__(self, source: DatabaseSource | FilesSource, *, interval: float = 0.25) -> None:
        self._source = source
        self._interval = interval
        self._dialect: Dialect | None = None
        self._worker = CurrentWorker(source)
        self._caller_workers = CallerWorkers(source)
        self._own = Slots(OWN_SLOTS)
        self._slow = Slots(SLOW_SLOTS)
        self._author = Slots(AUTHOR_SLOTS)
        self._callers = Slots(CALLER_SLOTS)

    @property
    @override
    def name(self) -> EngineName:
        return "duckdb"

    @property
    @override
    def open_timeout_s(self) -> float:
        return START_S + 2 * _CATALOG_TIMEOUT_S

    @property
    @override
    def has_schemas(self) -> bool:
        return isinstance(self._source, DatabaseSource)

    @property
    @override
    def dialect(self) -> Dialect:
        """SQLAlchemy's dialect, which compiles and quotes statements."""
        if self._dialect is None:
            self._dialect = _new_dialect()
        return self._dialect

    @override
    async def _connect_and_check(self) -> None:
        extras.require_packages("duckdb", "DuckDB")
        self._worker.reopen()
        try:
            await settle(self._worker.refresh())
        except ResourceBusy as error:
            raise MountUnavailable(str(error)) from None
        # An empty database is one; data files without a table are none.
        if not self.has_schemas and not self._worker.opened.has_tables:
            problems = [each.removeprefix("a data file is left out: ") for each in self.left_out]
            told = "; ".join(problems[:_MAX_TOLD]) or "they are empty"
            raise MountUnavailable(f"no data file can be read as a table: {told}")
        self._worker.is_known = True

    @override
    async def _close_everything(self) -> None:
        await self._caller_workers.close()
        await self._worker.close()
        if isinstance(self._source, FilesSource):
            self._source.close()

    async def tables(self) -> Sequence[TableInfo]:
        """Return all tables and views. See `Engine.tables`."""
        rows = await self._ask(catalog.TABLES)
        if self.has_schemas:
            return [TableInfo(TableName(*row[:2]), *row[2:]) for row in rows]
        return [
            TableInfo(TableName(None, name), comment=comment)
            for schema, name, _, comment in rows
            if schema == NUMBERED
        ]

    async def unserved(self) -> Sequence[TableName]:
        """Return nothing: all tables are served."""
        return ()

    async def table(self, name: TableName) -> Table:
        """Reflect one table. See `Engine.table`."""
        schema = name.schema if self.has_schemas else NUMBERED
        text = f"{schema}{name.name}"
        if schema is None or not is_unicode(text) or "\0" in text:
            raise ResourceNotFound
        head = await self._ask(catalog.TABLE, schema, name.name)
        if not head:
            raise ResourceNotFound
        rest = (catalog.COLUMNS, catalog.CONSTRAINTS, catalog.INDEXES)
        parts = [await self._ask(sql, schema, name.name) for sql in rest]
        return catalog.table(name, head[0], *parts, numbered=None if self.has_schemas else ROW)

    async def refusal(self, sql: str) -> str | None:
        """Return why the database refuses a statement, or None. See `Engine.refusal`."""
        try:
            await self.check_authored(sql, ())
        except ValueError as error:
            return str(error).partition("\n")[0]  # the rest shows where
        return None

    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        """Return the columns that each of these views may read. See `Engine.view_reads`.

        A view may read every column that it names, of every table that it reads; with a macro,
        all of all.
        """
        found: dict[TableName, ViewReads] = {}
        tables = await self.tables()
        macros = {str(name) for (name,) in await self._ask(catalog.MACROS)}
        for schema, name, sql in await self._ask(catalog.VIEWS):
            view = TableName(schema, name)
            if view not in names:
                continue
            with suppress(ValueError, KeyError, RecursionError):  # its reads remain unknown
                ((text,),) = await self._ask(syntax.PARSE, _select_of(str(sql)))
                read = syntax.reads(syntax.parsed_statement(text))
                is_anything = read.is_anything or bool(read.functions & macros)
                columns = set[tuple[TableName, str]]()
                for info in tables:
                    if is_anything or info.name.name.lower() in read.tables:
                        is_whole = is_anything or read.is_whole
                        columns |= await self._columns_read(
                            info.name, None if is_whole else read.columns
                        )
                found[view] = frozenset(columns)
        return found

    async def _columns_read(
        self, table: TableName, names: frozenset[str] | None
    ) -> set[tuple[TableName, str]]:
        if names is None:
            return {(table, "*")}
        rows = await self._ask(catalog.COLUMNS, table.schema, table.name)
        columns = [str(row[0]) for row in rows if str(row[0]).lower() in names]
        return {(table, column) for column in ("", *columns)}

    async def estimate(self, name: TableName) -> int | None:
        """Return the row count from the catalog. See `Engine.estimate`."""
        rows = await self._ask(catalog.ESTIMATE, name.schema or NUMBERED, name.name)
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    async def schema_state(self, name: TableName | None = None) -> object:
        """Return a digest of the definitions. See `Engine.schema_state`."""
        try:
            await settle(self._refresh(None if name is None else name.name))
        except TimeoutError:
            raise DeadlineExceeded from None
        return self._worker.opened.schema

    async def _refresh(self, table: str | None = None) -> None:
        """Let the worker have the files open as they are now; with a timeout, so in a task."""
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            await self._worker.refresh(table)

    async def privileges(self) -> Sequence[Privilege]:
        """Return none: DuckDB has no logins, and the worker cannot write."""
        return ()

    @property
    def watched_by(self) -> str | None:
        """How changes of objects are found; None of files."""
        return getattr(self._source, "watched_by", None)

    @property
    def storage_counts(self) -> tuple[int, int, int] | None:
        """The numbers of requests to object storage, of failed ones and of bytes, if it has any."""
        return getattr(self._source, "storage_counts", None)

    @property
    def left_out(self) -> Sequence[str]:
        """Data files that are no tables, or unusual ones. See `Engine.left_out`."""
        return self._worker.left_out

    @property
    def unenforced(self) -> Sequence[str]:
        """Protections that this system lacks. See `Engine.unenforced`."""
        return [each for each in PROTECTIONS if each not in self._worker.opened.protections]

    async def _ask(self, sql: str, *parameters: object) -> Sequence[Sequence[Any]]:
        run = Run(0, sql, parameters, _MAX_ROWS)
        return (await self._run(run, within=_CATALOG_TIMEOUT_S, slots=(self._own,))).rows

    # -- statements

    @override
    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        # There may be fewer rows than `limit`, and `more`, if they are very large.
        job = Run(0, statement.sql, _bound(statement.parameters), limit)
        slots = (self._slow, self._own) if slow else (self._own,)
        return _rows(await self._run(job, within=within, slots=slots))

    @override
    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        job = Run(0, statement.sql, _bound(statement.parameters), limit, is_author=True)
        try:
            return _rows(await self._run(job, within=within, slots=(self._author,)))
        except _Refusal as error:
            if not self._worker.state:
                raise MountUnavailable(NO_FILE) from None
            if not error.found[1]:  # our own check of what it names
                raise InvalidParameter(REFUSED) from None
            raise failure(error.found, of_query=True) from None

    @override
    async def check_authored(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        job = Run(0, sql, (None,) * len(parameters), 0, is_author=True, only_prepare=True)
        try:
            return (await self._run(job, within=_CATALOG_TIMEOUT_S, slots=(self._author,))).columns
        except _Refusal as error:
            raise ValueError(str(error)) from None

    @override
    async def run_confined(
        self, statement: Statement, policy: VisibleTables, *, limit: int, within: float
    ) -> Rows:
        # In a process that has what the caller may see.
        if not self._users:
            raise ResourceBusy(CLOSING)
        job = Run(0, statement.sql, _bound(statement.parameters), limit)
        slots = (self._callers,)
        return _rows(await self._run(job, within=within, slots=slots, policy=policy))

    async def _run(
        self,
        job: Run,
        *,
        within: float,
        slots: Sequence[Slots],
        policy: VisibleTables | None = None,
    ) -> RunResult:
        return await settle(self._run_in_task(job, within, slots, policy))

    async def _run_in_task(
        self, job: Run, within: float, slots: Sequence[Slots], policy: VisibleTables | None
    ) -> RunResult:
        """Run a statement with a timeout, which needs a task: callers may be stepped without."""
        held: list[Slots] = []
        is_waiting = True
        try:
            async with asyncio.timeout(within):
                await acquire_all(slots, held)
                is_waiting = False
                if policy is None:
                    answer = await self._worker.run(job)
                else:
                    answer = await self._caller_workers.run(policy, job)
        except TimeoutError:
            if is_waiting:
                raise ResourceBusy("the database is overloaded") from None
            if policy is not None and self._caller_workers.is_copying(policy):
                raise ResourceBusy(
                    "what is visible of the database is being copied; try again in a moment"
                ) from None
            raise DeadlineExceeded from None
        finally:
            release_all(held)
        if isinstance(answer, RunResult):
            return answer
        raise _error(answer, job, is_caller=policy is not None)

    # -- changes

    @property
    def commit_detection(self) -> CommitDetection:
        """Looks at the files. See `Engine.commit_detection`."""
        return CommitDetection("commits", self._interval)

    async def commits(self) -> AsyncGenerator[None, None]:
        """Yield after every change of the files. See `Engine.commits`."""
        state: object = await self._look()
        yield
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            seen = await self._look()
            if seen != state:
                state = seen
                self._worker.look_soon()
                yield
            took = loop.time() - begun
            await asyncio.sleep(max(self._interval, took * self._source.walk_share))

    async def _look(self) -> object:
        try:
            return await asyncio.to_thread(self._source.found)
        except MountUnavailable as error:
            return str(error)


def _new_dialect() -> Dialect:
    """Return PostgreSQL's dialect, with every name in quotes: the reserved words differ."""
    from sqlalchemy.dialects.postgresql.base import PGDialect, PGIdentifierPreparer

    class QuotedNames(PGIdentifierPreparer):
        def quote(self, ident: str, force: Any = None) -> str:
            return self.quote_identifier(ident)

    class DuckdbDialect(PGDialect):
        name = "duckdb"
        default_paramstyle = "numeric_dollar"
        supports_statement_cache = True
        preparer = QuotedNames

    return DuckdbDialect()


class _Refusal(InvalidParameter):
    """The database refuses a statement; `found` is the cause, and its code."""

    def __init__(self, message: str, found: tuple[Cause, str]) -> None:
        super().__init__(message)
        self.found = found


def _error(answer: RunFailed, job: Run, *, is_caller: bool) -> Exception:
    found = causes.STATEMENT.get(answer.code, UNKNOWN), answer.code
    told = answer.message or "the database refuses this statement"
    match answer.failure:
        case "stopped":
            return DeadlineExceeded()
        case "memory":
            return InvalidParameter("the database needs too much memory for this")
        case _ if is_caller:
            return RefusedStatement(told, table=answer.table, column=answer.column)
        case _ if job.is_author or not answer.code:
            return _Refusal(told, found)
        case _:
            return failure(found, has_values=bool(job.parameters))


def _bound(parameters: Sequence[object]) -> tuple[object, ...]:
    return tuple([portable(value) for value in parameters])


def _rows(result: RunResult) -> Rows:
    rows = result.rows
    for place, sizes in result.truncated.items():
        row: list[Any] = list(rows[place])
        for column, size in sizes.items():
            row[column] = TruncatedValue(row[column], size)
        rows[place] = tuple(row)
    return Rows(result.columns, rows, result.more)


def _select_of(sql: str) -> str:
    """Return the SELECT of a CREATE VIEW.

    Raises:
        ValueError: there is none.
    """
    tokens = sql_tokenizer.statement(sql, "duckdb")
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.kind == "open") - (token.kind == "close")
        if depth == 0 and token.kind == "word" and token.text.lower() == "as":
            return "".join(each.text for each in tokens[place + 1 :])
    raise ValueError("no SELECT")
