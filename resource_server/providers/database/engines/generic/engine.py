"""The generic engine, for databases with an installed dialect of SQLAlchemy.

SQLAlchemy reflects, quotes, binds and pages in each dialect; its pool has the connections. Drivers
block, so each statement runs in a thread. Every statement is our own SELECT or the manifest's, in a
transaction that is rolled back; whether more keeps the session from writing depends on the dialect.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from resource_server.errors import (
    DeadlineExceeded,
    ResourceBusy,
    ResourceNotFound,
    ResourceServerError,
)
from resource_server.providers.database.engines.causes import failure, unavailable, url_problem
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    Engine,
    EngineName,
    Privilege,
    QueryEngine,
    Rows,
    Statement,
    ViewReads,
)
from resource_server.providers.database.engines.generic import causes
from resource_server.providers.database.engines.generic.dialect_url import (
    load_dialect,
    parse_url,
    scheme_of,
    secrets_of,
)
from resource_server.providers.database.engines.generic.dialects import (
    DIALECTS,
    KnownDialect,
    known,
)
from resource_server.providers.database.engines.generic.worker_threads import StatementThreads, Work
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.slots import Slots, acquire_all, release_all
from resource_server.runtime.causes import UNKNOWN
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.pool import ConnectionPoolEntry

    from resource_server.providers.database.engines.generic.catalog import ListedTables

T = TypeVar("T")

_CONCURRENT = 4
"""Statements that run at the same time."""
_CONCURRENT_SLOW = 2
_OPEN_TIMEOUT_S = 15.0
_CATALOG_TIMEOUT_S = 10.0
"""Timeout of one look at the catalog."""
_CLOSE_TIMEOUT_S = 2.0
_MAX_CHECKED = 50
"""Maximum tables that are reflected again to find out whether the schema has changed."""

_log = logging.getLogger(__name__)


class GenericEngine(Engine, QueryEngine):
    """A database that SQLAlchemy opens. It polls for changes every `interval` seconds."""

    def __init__(self, url: str, *, schemas: Sequence[str] = (), interval: float = 2.0) -> None:
        self._given_url = url
        self._dialect_name = scheme_of(url)[0]
        self._schemas = tuple(schemas)
        self._interval = interval
        self._made: sa.Engine | None = None
        self._making = threading.Lock()
        self._threads = StatementThreads()
        self._slots = Slots(_CONCURRENT)
        self._slow_slots = Slots(_CONCURRENT_SLOW)
        self._opened: dict[int, Any] = {}
        """The driver's connections, idle or not."""
        self._listed: ListedTables | None = None
        self._reflected: dict[TableName, tuple[Table, float]] = {}
        """Tables as last reflected, and when."""
        self._listed_at = 0.0
        self._changes_of_schema = 0

    # -- what it is

    @property
    @override
    def name(self) -> EngineName:
        return "generic"

    @property
    @override
    def product(self) -> str:
        return self._dialect_name

    @property
    def _facts(self) -> KnownDialect:
        return known(self._dialect_name)

    @property
    @override
    def dialect(self) -> Dialect:
        return self._sqlalchemy.dialect

    @property
    @override
    def has_schemas(self) -> bool:
        return bool(self._schemas)

    @property
    @override
    def open_timeout_s(self) -> float:
        return _OPEN_TIMEOUT_S

    @override
    def sql_name(self, name: TableName) -> str:
        spelled = name.name if self._listed is None else self._listed.spelled.get(name, name.name)
        quote = self.dialect.identifier_preparer.quote
        return ".".join([quote(part) for part in (name.schema, spelled) if part])

    @override
    async def privileges(self) -> Sequence[Privilege]:
        return (Privilege(f"what it is granted, which {self._title} does not tell here"),)

    @property
    @override
    def left_out(self) -> Sequence[str]:
        facts, found = self._facts, [] if self._listed is None else [*self._listed.left_out]
        if self._dialect_name not in DIALECTS:
            found.append(
                f"the dialect {self._dialect_name} is not known: keys need `key` in `tables`"
            )
        elif not facts.enforces_keys:
            found.append(
                f"{self._title} does not enforce keys, so none is used: rows have an address where "
                "`tables` declares a `key`"
            )
        if not facts.is_read_only:
            found.append(
                f"sessions of {self._title} cannot be made read-only: only the privileges of the "
                "login keep a function that a statement calls from writing"
            )
        return found

    @property
    def _title(self) -> str:
        return self._facts.title or self._dialect_name

    # -- opening

    @override
    async def _connect_and_check(self) -> None:
        try:
            await self._threads.run(self._connect_first, _OPEN_TIMEOUT_S)
        except DeadlineExceeded:
            raise self._refusal(TimeoutError()) from None

    def _connect_first(self, work: Work[None]) -> None:
        try:
            with self._making:  # parts of a database are opened at the same time
                if self._made is None:
                    self._made = self._make()
            with self._connection(work, _OPEN_TIMEOUT_S):
                pass
        except ResourceServerError:
            raise
        except Exception as error:
            raise self._refusal(error) from None

    def _make(self) -> sa.Engine:
        import sqlalchemy as sa
        from sqlalchemy.event import listen
        from sqlalchemy.exc import SAWarning

        from resource_server.providers.database.engines.generic import firebird, reading

        # Such columns are shown, and said to be of no known type.
        warnings.filterwarnings("ignore", "Did not recognize type", SAWarning)
        try:
            url = parse_url(self._given_url)
        except ValueError as error:
            raise url_problem(error) from None
        name, _, driver = url.drivername.partition("+")
        url = url.set(drivername=load_dialect(name, driver))
        options: dict[str, Any] = {
            "poolclass": sa.QueuePool,
            "pool_size": _CONCURRENT,
            "max_overflow": -1,  # the threads bound them
            "pool_pre_ping": True,
        }
        url = _as_opened(url)
        try:
            made = sa.create_engine(url, **options, json_deserializer=reading.decoded_json)
        except TypeError:
            made = sa.create_engine(url, **options)
        if name == "firebird":
            firebird.prepare(made)
        listen(made, "connect", self._prepare)
        listen(made, "close", self._forget)
        listen(made, "close_detached", self._forget)
        return made

    def _prepare(self, connection: Any, record: ConnectionPoolEntry) -> None:
        """Make a new session read-only, where the dialect can."""
        self._opened[id(connection)] = connection
        stop = getattr(connection, "cancel", None) or getattr(connection, "interrupt", None)
        record.info.setdefault("stop", stop if callable(stop) else None)
        if hasattr(connection, "text_factory"):  # of SQLite, whose texts may be in no encoding
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        cursor = connection.cursor()
        for sql in self._facts.session:
            cursor.execute(sql)
        cursor.close()
        if self._facts.session:
            connection.commit()

    def _forget(self, connection: Any, _: object = None) -> None:
        self._opened.pop(id(connection), None)

    @override
    async def _close_everything(self) -> None:
        made, self._made = self._made, None
        await self._threads.close(_CLOSE_TIMEOUT_S)
        if made is not None:
            with suppress(DeadlineExceeded, ResourceBusy):
                await StatementThreads().run(lambda _: self._dispose(made), _CLOSE_TIMEOUT_S)
        self._threads = StatementThreads()

    def _dispose(self, made: sa.Engine) -> None:
        made.dispose()
        # Those that came back when their pool had ended; a thread that was left behind has its own.
        while self._opened and not self._threads.has_work:
            _, connection = self._opened.popitem()
            with suppress(Exception):
                connection.close()

    @property
    def _sqlalchemy(self) -> sa.Engine:
        if self._made is None:
            raise ResourceBusy("the database is closed")
        return self._made

    # -- the catalog

    @override
    async def tables(self) -> Sequence[TableInfo]:
        return (await self._listing()).infos

    @override
    async def table(self, name: TableName) -> Table:
        known_table = self._reflected.get(name)
        if known_table is not None and known_table[1] + self._interval > time.monotonic():
            return known_table[0]
        from resource_server.providers.database.engines.generic import catalog

        found = await self._listing()
        try:
            table = await self._inspect(lambda inspector: catalog.reflected(inspector, name, found))
        except ResourceNotFound:
            self._note(name, None)
            raise
        self._note(name, table)
        self._reflected[name] = table, time.monotonic()
        return table

    async def _listing(self) -> ListedTables:
        if self._listed is None or self._listed_at + self._interval <= time.monotonic():
            from resource_server.providers.database.engines.generic import catalog

            found = await self._inspect(lambda inspector: catalog.listing(inspector, self._schemas))
            before, self._listed, self._listed_at = self._listed, found, time.monotonic()
            if before is not None and before.infos != found.infos:
                self._changed()
        return self._listed

    @override
    async def schema_state(self, name: TableName | None = None) -> object:
        """See `Engine.schema_state`: the tables that were reflected are reflected again.

        Whoever reflects something counts what differs: it may be renewed between two states.
        """
        if self._listed is not None:
            await self._listing()
        for each in [*self._reflected][-_MAX_CHECKED:] if name is None else [name]:
            if each in self._reflected:
                with suppress(ResourceServerError):
                    await self.table(each)
        return self._changes_of_schema

    def _note(self, name: TableName, table: Table | None) -> None:
        """Count a change if a table was another one when it was last reflected."""
        before = self._reflected.get(name)
        if before is not None and before[0] != table:
            self._changed()

    def _changed(self) -> None:
        self._changes_of_schema += 1
        self._reflected = {}

    @override
    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        from resource_server.providers.database.engines.generic import catalog

        found = await self._listing()
        return await self._inspect(lambda inspector: catalog.view_reads(inspector, names, found))

    @override
    async def estimate(self, name: TableName) -> int | None:
        return None

    async def _inspect(self, ask: Callable[[sa.Inspector], T]) -> T:
        def work(work: Work[T]) -> T:
            import sqlalchemy as sa

            with self._connection(work, _CATALOG_TIMEOUT_S) as connection:
                return ask(sa.inspect(connection))

        return await self._run(work, within=_CATALOG_TIMEOUT_S)

    # -- changes

    @property
    @override
    def commit_detection(self) -> CommitDetection:
        return CommitDetection("reads", self._interval)

    @override
    async def commits(self) -> AsyncGenerator[None, None]:
        while True:
            yield None
            await asyncio.sleep(max(self._interval, 0.02))

    # -- statements

    @override
    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        binds = bool(statement.parameters)
        return await settle(self._select(statement, limit, within, slow=slow, binds=binds))

    @override
    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        return await settle(self._select(statement, limit, within, slow=True, author=True))

    @override
    async def check_authored(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        # SQLAlchemy has no way to prepare a statement: it is run, and no row is read.
        if parameters:
            return None
        try:
            rows = await self.run_authored(Statement(sql), limit=0, within=_CATALOG_TIMEOUT_S)
        except (DeadlineExceeded, ResourceBusy):
            return None
        except ResourceServerError as error:
            raise ValueError(f"{self._title} refuses the query: {error}") from None
        return rows.columns

    @override
    async def refusal(self, sql: str) -> str | None:
        from resource_server.providers.database.engines.generic import reading

        def work(work: Work[str | None]) -> str | None:
            with self._connection(work, _CATALOG_TIMEOUT_S) as connection:
                try:
                    connection.execute(reading.text_of(sql.replace(":", "\\:"))).close()
                except Exception as error:
                    return f"{self._title} refuses it: {self._words(error)}"
            return None

        return await self._run(work, within=_CATALOG_TIMEOUT_S)

    async def _select(
        self,
        statement: Statement,
        limit: int,
        within: float,
        *,
        slow: bool,
        author: bool = False,
        binds: bool = True,
    ) -> Rows:
        from resource_server.providers.database.engines.generic import reading

        select, values = reading.executable(statement, self.dialect)

        def work(work: Work[Rows]) -> Rows:
            with self._connection(work, within) as connection:
                # Nothing but a query of the manifest may have more rows than are read.
                streamed = connection.execution_options(stream_results=author)
                result = streamed.execute(select, values)
                try:
                    return reading.fetched_rows(result, limit)
                except Exception as error:
                    # What a driver cannot read is in a row; only a database meets values late.
                    late = binds and any(causes.database_codes(error, self._dialect_name))
                    raise self._mapped(error, author=author, binds=late) from None

        return await self._run(work, within=within, slow=slow, author=author, binds=binds)

    async def _run(
        self,
        work: Callable[[Work[T]], T],
        *,
        within: float,
        slow: bool = False,
        author: bool = False,
        binds: bool = False,
    ) -> T:
        """Run in a thread, within `within` seconds, queueing included."""
        deadline = time.monotonic() + within
        held: list[Slots] = []
        try:
            async with asyncio.timeout(within):
                await acquire_all((self._slow_slots, self._slots)[not slow :], held)
        except TimeoutError:
            raise ResourceBusy("the database is overloaded") from None
        try:
            return await self._threads.run(work, max(deadline - time.monotonic(), 0.0))
        except ResourceServerError:
            raise
        except Exception as error:
            raise self._mapped(error, author=author, binds=binds) from None
        finally:
            release_all(held)

    @contextmanager
    def _connection(self, work: Work[Any], within: float) -> Generator[sa.Connection]:
        """A connection in a read-only transaction, which another thread may stop."""
        made = self._sqlalchemy
        with made.connect() as connection:
            try:
                work.stopped_by(connection.info["stop"])
                values = {"ms": max(int(within * 1000), 1), "seconds": f"{within:.3f}"}
                for sql in self._facts.transaction:
                    connection.exec_driver_sql(sql.format_map(values))
                yield connection
                work.stopped_by(None)
            finally:
                is_own = work.is_left_behind or made is not self._made
                if is_own and not connection.invalidated:
                    # It was stopped in the middle of something, or its pool has been closed: it is
                    # closed here. (Firebird's dialect cannot invalidate a connection.)
                    connection.detach()
                else:
                    connection.rollback()

    # -- errors

    def _mapped(self, error: Exception, *, author: bool, binds: bool) -> Exception:
        from sqlalchemy.exc import DBAPIError

        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        found = causes.of_statement(error, self._dialect_name, is_lost=is_lost)
        if found[0].kind == "network":
            return ResourceBusy("the connection to the database was lost")
        of_opening = causes.of_connecting(error, self._dialect_name)
        if found[0] is UNKNOWN and of_opening[0] is not UNKNOWN:
            return self._refusal(error)  # it is no fault of a statement
        return failure(found, of_query=author, has_values=binds)

    def _refusal(self, error: Exception) -> Exception:
        """Return what is raised for a failed attempt to connect."""
        found = causes.of_connecting(error, self._dialect_name)
        try:
            url = parse_url(self._given_url)
        except ValueError:
            return unavailable(found, "")
        host = f"{url.host}:{url.port}" if url.port else url.host or ""
        place = ", ".join(filter(None, (host, f"user {url.username}" if url.username else "")))
        return unavailable(found, place, self._words(error))

    def _words(self, error: BaseException) -> str:
        """Return the first line of the driver's own words, without anything secret of the URL."""
        words = str(getattr(error, "orig", None) or error).strip().partition("\n")[0][:200]
        with suppress(ValueError):
            for secret in secrets_of(parse_url(self._given_url)):
                words = words.replace(secret, "***")
        return words


def _as_opened(url: sa.URL) -> sa.URL:
    """Return the URL that opens the right database: a file read-only, and never created."""
    database = url.database or ""
    if url.get_backend_name() == "firebird":
        query = {"charset": "UTF8", **url.query}
        if url.host:  # the dialect keeps one host for all databases of the same path
            host = f"[{url.host}]" if ":" in url.host else url.host
            database = f"inet://{host}:{url.port or 3050}/{database}"
        return url.create(url.drivername, url.username, url.password, None, None, database, query)
    if url.get_backend_name() != "sqlite":
        return url
    if not Path(database).is_file():
        raise url_problem("no such file; databases are opened, never created")
    from urllib.parse import quote

    query = {**url.query, "mode": "ro", "uri": "true"}
    return url.set(database=f"file:{quote(database)}", query=query)
