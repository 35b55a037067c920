"""The engine of DuckDB files and data files, in a worker process.

Whatever was read while a file changed is discarded and read again, so no lock on it is needed, and
its writers are never kept waiting.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_server.conversion.sandbox import PROTECTIONS
from resource_server.errors import (
    IN_CHECK,
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    Engine,
    EngineName,
    Privilege,
    QueryEngine,
    Rows,
    Statement,
    TruncatedValue,
    UnfitParameter,
    ViewReads,
)
from resource_server.providers.database.engines.duckdb import catalog, syntax
from resource_server.providers.database.engines.duckdb.data_files import (
    NO_FILE,
    DatabaseSource,
    FilesSource,
    State,
    settling_s,
)
from resource_server.providers.database.engines.duckdb.messages import (
    NUMBERED,
    ROW,
    Failed,
    Open,
    Opened,
    RefusalReason,
    Refused,
    Result,
    Run,
    portable,
)
from resource_server.providers.database.engines.duckdb.process import WorkerLost, WorkerProcess
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.slots import Slots
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.runtime import extras
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

_log = logging.getLogger(__name__)

OWN_SLOTS = 3
SLOW_SLOTS = 2
AUTHOR_SLOTS = 2
_CATALOG_TIMEOUT_S = 5.0
_OPEN_TIMEOUT_S = 30.0
_MAX_ATTEMPTS = 5
_IDLE_S = 60.0
"""Time without a statement after which the worker ends."""
_MAX_ROWS = 100_000
_WALK_SHARE = 20
"""A pattern is compared with files for at most one part of this many of the time."""
_MAX_TOLD = 3
"""Data files that are named where none can be read."""
_CHANGES = "the database changes faster than it can be read; try again"
_ENDS = "the process that reads the database ends again and again; try again"
_DAMAGED_FILE = "a data file is damaged, or not what its name says"
_SHEETS = "one of the spreadsheets ends the process that reads them; move it away"
_REASONS: Mapping[RefusalReason, str] = {
    "damaged": "the database file is damaged, encrypted, or no DuckDB database",
    "version": "the database file is of a version of DuckDB that cannot be read",
    "missing": "the database file cannot be opened",
    "extra": "the database needs an extension of DuckDB, and extensions are not loaded",
    "locked": "another process has the database file open for writing",
}


class DuckdbEngine:
    """A DuckDB database file, or data files as tables. An `Engine`.

    `interval` is the number of seconds between two looks at the files.
    """

    name: EngineName = "duckdb"

    def __init__(self, source: DatabaseSource | FilesSource, *, interval: float = 0.25) -> None:
        self._source = source
        self._interval = interval
        self.has_schemas = isinstance(source, DatabaseSource)
        self._dialect: Dialect | None = None
        self._worker: WorkerProcess | None = None
        self._state: State = ()
        self._schema: str = ""
        self._left_out: Sequence[str] = ()
        self._has_tables = True
        self._unenforced: Sequence[str] = ()
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._users = 0
        self._own = Slots(OWN_SLOTS)
        self._slow = Slots(SLOW_SLOTS)
        self._author = Slots(AUTHOR_SLOTS)
        self._is_closed = False
        self._was_opened = False
        self._next_walk = 0.0

    @property
    def dialect(self) -> Dialect:
        """SQLAlchemy's dialect, which compiles and quotes statements."""
        if self._dialect is None:
            from resource_server.providers.database.engines.duckdb.dialect import DuckdbDialect

            self._dialect = DuckdbDialect()
        return self._dialect

    async def open(self) -> None:
        """Open the database once.

        Raises:
            MountUnavailable: it cannot be read.
        """
        # Found, not imported: only the worker needs it.
        if importlib.util.find_spec("duckdb") is None:
            raise extras.MissingExtra("DuckDB", "duckdb")
        self._users += 1
        self._is_closed = False
        try:
            await settle(self._refresh())
        except TimeoutError:
            raise MountUnavailable("the database takes too long to open") from None
        except ResourceBusy as error:
            raise MountUnavailable(str(error)) from None
        if not self._has_tables:
            told = "; ".join(self._left_out[:_MAX_TOLD]) or "they are empty"
            raise MountUnavailable(f"no data file can be read as a table: {told}")
        self._was_opened = True

    async def close(self) -> None:
        """End the worker, unless others still use the engine."""
        self._users = max(self._users - 1, 0)
        if self._users:
            return
        self._is_closed = True
        self._was_opened = False
        self._replace()
        if self._ending:
            await asyncio.wait(tuple(self._ending))

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

    async def table(self, name: TableName) -> Table:
        """Reflect one table. See `Engine.table`."""
        schema = name.schema if self.has_schemas else NUMBERED
        if schema is None or not _is_text(f"{schema}{name.name}"):
            raise ResourceNotFound
        head = await self._ask(catalog.TABLE, schema, name.name)
        if not head:
            raise ResourceNotFound
        rest = (catalog.COLUMNS, catalog.CONSTRAINTS, catalog.INDEXES)
        parts = [await self._ask(sql, schema, name.name) for sql in rest]
        return catalog.table(name, head[0], *parts, numbered=None if self.has_schemas else ROW)

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
            with suppress(ValueError, KeyError, RecursionError):  # it cannot be told what it reads
                ((text,),) = await self._ask(syntax.PARSE, _select_of(str(sql)))
                read = syntax.reads(json.loads(str(text))["statements"])
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

    async def schema_state(self) -> object:
        """Return a digest of the definitions. See `Engine.schema_state`."""
        try:
            await settle(self._refresh())
        except TimeoutError:
            raise DeadlineExceeded from None
        return self._schema

    async def _refresh(self) -> None:
        """Let the worker have the files open as they are now; with a timeout, so in a task."""
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            # Whoever starts a worker looks for the files.
            has_files = self._worker is not None and not self.has_schemas
            if has_files and time.monotonic() >= self._next_walk:
                await self._find_files()
            await self._current()

    async def _find_files(self) -> None:
        """Replace the worker if other files match the pattern than before."""
        begun = time.monotonic()
        found = await self._look()
        ended = time.monotonic()
        self._next_walk = ended + (ended - begun) * _WALK_SHARE
        if found != self._state:
            self._replace()

    async def privileges(self) -> Sequence[Privilege]:
        """Return none: DuckDB has no logins, and the worker cannot write."""
        return ()

    @property
    def left_out(self) -> Sequence[str]:
        """Data files that cannot be read as tables. See `Engine.left_out`."""
        return self._left_out

    @property
    def unenforced(self) -> Sequence[str]:
        """Protections that this system lacks. See `Engine.unenforced`."""
        return self._unenforced

    async def _ask(self, sql: str, *parameters: object) -> Sequence[Sequence[Any]]:
        run = Run(0, sql, parameters, _MAX_ROWS)
        return (await self._run(run, within=_CATALOG_TIMEOUT_S, slots=(self._own,))).rows

    # -- statements

    async def fetch(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        """Run one of our own SELECTs. See `Engine.fetch`.

        May return fewer rows than `limit` with `more`, if they are very large.
        """
        job = Run(0, statement.sql, _bound(statement.parameters), limit)
        slots = (self._slow, self._own) if slow else (self._own,)
        return _rows(await self._run(job, within=within, slots=slots))

    async def query(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Run a query of the manifest. See `Engine.query`."""
        job = Run(0, statement.sql, _bound(statement.parameters), limit, is_author=True)
        try:
            return _rows(await self._run(job, within=within, slots=(self._author,)))
        except (_Refusal, ResourceNotFound):
            if not self._state:
                raise MountUnavailable(NO_FILE) from None
            raise InvalidParameter("the database refuses this query") from None

    async def check(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        """Prepare a query without running it. See `Engine.check`."""
        job = Run(0, sql, (None,) * len(parameters), 0, is_author=True, only_prepare=True)
        try:
            return (await self._run(job, within=_CATALOG_TIMEOUT_S, slots=(self._author,))).columns
        except _Refusal as error:
            raise ValueError(str(error)) from None

    async def _run(self, job: Run, *, within: float, slots: Sequence[Slots]) -> Result:
        return await settle(self._run_in_task(job, within, slots))

    async def _run_in_task(self, job: Run, within: float, slots: Sequence[Slots]) -> Result:
        """Run a statement with a timeout, which needs a task: callers may be stepped without."""
        held: list[Slots] = []
        try:
            async with asyncio.timeout(within):
                for each in slots:
                    await each.acquire()
                    held.append(each)
                return await self._run_until_current(job)
        except TimeoutError:
            if len(held) < len(slots):
                raise ResourceBusy("the database is overloaded") from None
            raise DeadlineExceeded from None
        finally:
            for each in held:
                each.release()

    async def _run_until_current(self, job: Run) -> Result:
        """Run a statement, again if the files changed meanwhile."""
        told = _CHANGES
        broken: State | None = None
        if self._worker is not None and not self._state:
            await self._find_files()  # none was left
        for _ in range(_MAX_ATTEMPTS):
            worker = await self._current()
            state = self._state
            try:
                answer = await worker.run(job)
            except WorkerLost:
                told = _ENDS
                self._replace(worker)
                continue
            finally:
                self._end_when_idle()
            if self._source.state() != state:
                told = _CHANGES
                continue
            if isinstance(answer, Result):
                return answer
            if answer.failure == "broken":
                self._replace(worker)
                if state == broken:
                    reason = _REASONS["damaged"] if self.has_schemas else _DAMAGED_FILE
                    raise MountUnavailable(reason)
                broken = state
                continue
            raise _error(answer, is_author=job.is_author)
        raise ResourceBusy(told)

    # -- the worker

    async def _current(self) -> WorkerProcess:
        """Return a worker that has the files open as they are now.

        Raises:
            MountUnavailable, ResourceBusy: they cannot be opened.
        """
        worker = self._worker
        if worker is not None and not worker.is_lost and self._source.state() == self._state:
            return worker
        async with self._starting:
            worker = self._worker
            if worker is not None and not worker.is_lost and self._source.state() == self._state:
                return worker
            self._replace()
            if self._is_closed:
                raise ResourceBusy("the database is being closed")
            return await self._started()

    async def _started(self) -> WorkerProcess:
        look = partial(self._source.look, is_open=self._was_opened)
        state, opening = await asyncio.to_thread(look)
        while (pause := settling_s(state)) > 0:
            # A later write could not be told from the last one.
            await asyncio.sleep(pause)
            state, opening = await asyncio.to_thread(look)
        worker, answer, problems = await self._opened(opening)
        self._worker, self._state, self._schema = worker, state, answer.schema
        # An empty database is one; data files without a table are none.
        self._has_tables = self.has_schemas or answer.has_tables
        self._unenforced = [each for each in PROTECTIONS if each not in answer.protections]
        if problems != self._left_out:
            self._left_out = problems
            for problem in problems:
                _log.warning("a data file is left out: %s", problem, extra=IN_CHECK)
        self._end_when_idle()
        return worker

    async def _opened(self, opening: Open) -> tuple[WorkerProcess, Opened, Sequence[str]]:
        """Return a worker with an open database, and the problems of data files.

        A damaged spreadsheet may end the worker; then it is opened without any.

        Raises:
            MountUnavailable, ResourceBusy: it cannot be opened.
        """
        worker = WorkerProcess()
        try:
            answer = await worker.open(opening)
        except WorkerLost:
            self._end(worker)
            sheets = [each for each in opening.tables if each.kind == "sheets"]
            if not sheets:
                raise MountUnavailable("the database cannot be opened") from None
            others = [each for each in opening.tables if each not in sheets]
            worker, opened, problems = await self._opened(Open(None, tuple(others)))
            lost = [f"{each.name}: {_SHEETS}" for each in sheets]
            return worker, opened, [*problems, *lost]
        except BaseException:
            self._end(worker)
            raise
        if isinstance(answer, Refused):
            self._end(worker)
            kind = ResourceBusy if answer.reason == "locked" else MountUnavailable
            raise kind(_REASONS[answer.reason])
        return worker, answer, answer.problems

    def _replace(self, worker: WorkerProcess | None = None) -> None:
        """End the current worker, if it is this one."""
        current = self._worker
        if current is not None and worker in (None, current):
            self._worker = None
            self._end(current)

    def _end(self, worker: WorkerProcess) -> None:
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _end_when_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        self._idle = None
        if self._worker is not None and self._worker.is_busy:
            self._end_when_idle()
        else:
            self._replace()

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
                self._next_walk = 0.0  # whoever looks now, looks at these files
                yield
            took = loop.time() - begun
            await asyncio.sleep(max(self._interval, took * _WALK_SHARE))

    async def _look(self) -> object:
        try:
            return await asyncio.to_thread(self._source.found)
        except MountUnavailable as error:
            return str(error)


class _Refusal(InvalidParameter):
    """The database refuses a statement."""


def _error(answer: Failed, *, is_author: bool) -> Exception:
    match answer.failure:
        case "stopped":
            return DeadlineExceeded()
        case "memory":
            return InvalidParameter("the database needs too much memory for this")
        case "unfit" if not is_author:
            return UnfitParameter()
        case "missing" if not is_author:
            return ResourceNotFound()
        case _:
            return _Refusal(answer.message or "the database refuses this statement")


def _bound(parameters: Sequence[object]) -> tuple[object, ...]:
    return tuple([portable(value) for value in parameters])


def _rows(result: Result) -> Rows:
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


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


_: type[Engine] = DuckdbEngine
__: type[QueryEngine] = DuckdbEngine
