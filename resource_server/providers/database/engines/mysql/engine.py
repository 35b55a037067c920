"""MariaDB and MySQL, by asyncmy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engines.contract import (
    Engine,
    Gate,
    Privilege,
    Rows,
    Statement,
    Unfit,
)
from resource_server.providers.database.engines.mysql import catalog as catalog
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.server_base import (
    CATALOG_S,
    CONNECT_S,
    Connection,
    ServerEngine,
)
from resource_server.providers.database.queries.sql_tokenizer import EngineName

_MULTI_STATEMENTS = 1 << 16
_LOCAL_FILES = 1 << 7
"""Flags of the protocol: several statements in one, and files that the server may ask for."""
_RESET_CONNECTION = 0x1F
"""A command of the protocol that asyncmy has no method for."""
_GRACE_S = 0.5
"""The server stops a statement by itself so long after it should have been stopped."""
_SETTLED_S = 5.0
"""Reads are counted as commits, too; where nothing else is, they are believed so seldom."""
_MAX_RETRY_S = 5.0

_LOST = frozenset((0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 4031))
_BUSY = frozenset((1021, 1037, 1038, 1040, 1041, 1099, 1203, 1205, 1213, 1226))
"""Disk, memory, connections, locks."""
_STOPPED = frozenset((1317, 1969, 3024))
"""Killed, max_statement_time, max_execution_time."""
_FORBIDDEN = frozenset((1142, 1143, 1370))
_CHANGED = frozenset((1054, 1146, 1356))
_UNFIT = frozenset((1267, 3988))
"""Text that the character set of a column does not have."""
_REFUSED_LOGIN = frozenset((1044, 1045, 1130, 1251, 1698, 1862, 4151))


class Mysql(ServerEngine):
    """The database of MariaDB or MySQL that the URL names.

    Commits are noticed by a look at the server's counters every `interval` seconds.
    """

    driver = "mysql+asyncmy"

    def __init__(self, url: str, *, interval: float = 1.0) -> None:
        super().__init__(url)
        self._interval = interval
        self._mariadb: bool | None = None
        self._state = catalog.state(checks=True)

    @property
    def name(self) -> EngineName:
        """`mariadb` or `mysql`, once it is open."""
        return "mariadb" if self._mariadb else "mysql"

    @property
    def has_schemas(self) -> bool:
        """False: tables are those of the database in the URL."""
        return False

    # The catalogue.

    async def tables(self) -> Sequence[TableInfo]:
        """Return every table and view that may be read, ordered by name."""
        (rows,) = await self._ask((catalog.TABLES,))
        return [catalog.table_info(row) for row in rows]

    async def table(self, name: TableName) -> Table:
        """Return one table as reflected now.

        Raises:
            ResourceNotFound: there is none of this name, or it may not be read.
        """
        if name.schema is not None:
            raise ResourceNotFound
        questions = [
            (catalog.TABLE, name.name, name.name),
            (catalog.COLUMNS, name.name),
            (catalog.INDEXES, name.name),
            (catalog.FOREIGN_KEYS, name.name),
            (catalog.VIEW, name.name),
        ]
        found, columns, indexes, keys, view = await self._ask(*questions)
        if not found or not columns:
            raise ResourceNotFound
        definition = str(view[0][0] or "") if view else None
        return catalog.table(
            name,
            found[0],
            columns=columns,
            indexes=indexes,
            foreign_keys=keys,
            definition=definition,
            statement=await self._statement(name.name) if not view else None,
        )

    async def _statement(self, table: str) -> str | None:
        """Return the statement that makes a table, where the login may see it."""
        try:
            ((row, *_),) = await self._ask((catalog.definition(table),))
        except ResourceNotFound:
            return None
        return str(row[1])

    async def estimate(self, name: TableName) -> int | None:
        """Return about how many rows a table has, from statistics; None where there are none."""
        (rows,) = await self._ask((catalog.ESTIMATE, name.name))
        value = rows[0][0] if rows else None
        return value if isinstance(value, int) else None

    async def schema_state(self) -> object:
        """Return what differs when any table was made, changed or dropped."""
        (rows,) = await self._ask((self._state,))
        return tuple(rows)

    async def privileges(self) -> Sequence[Privilege]:
        """Return what the login may do beyond reading, in general and in this database."""
        grants, database = await self._ask((catalog.GRANTS,), ("SELECT DATABASE()",))
        found = catalog.privileges([str(row[0]) for row in grants], str(database[0][0]))
        return [Privilege(name) for name in found]

    async def _ask(self, *questions: tuple[str, *tuple[str, ...]]) -> list[Sequence[Any]]:
        async def work(connection: Connection) -> list[Sequence[Any]]:
            return [(await _execute(connection, sql, given))[1] for sql, *given in questions]

        return await self._run(work, within=CATALOG_S)

    # Changes.

    @property
    def gate(self) -> Gate:
        """Counters of the server. See `Engine.gate`."""
        return Gate("counters", self._interval)

    async def _notice_commits(self) -> AsyncGenerator[None, None]:
        """Yield whenever something may have been committed, and once at the beginning.

        A row is counted when it is written, COMMIT when it begins: so after a change of the
        counters the next look is told of as well.
        """
        retry = self._interval
        while True:
            connection = None
            try:
                connection = await self._connect(author=False)
                last: tuple[object, ...] = ()
                yielded = 0.0
                again = False
                while True:
                    async with asyncio.timeout(CATALOG_S):
                        _, rows = await _execute(connection, catalog.COUNTERS, ())
                    counters = {str(name).lower(): value for name, value in rows}
                    # Another value tells that the server was restarted in between, not more.
                    del counters["uptime"]
                    commits = counters.pop("handler_commit", None)
                    now = (tuple(sorted(counters.items())), commits)
                    moved = not last or now[0] != last[0]
                    settled = time.monotonic() - yielded >= _SETTLED_S
                    if moved or again or (settled and now != last):
                        last, retry, yielded = now, self._interval, time.monotonic()
                        yield None
                    again = moved
                    await asyncio.sleep(self._interval)
            except Exception as error:
                self._raise_unless_passing(error)
            finally:
                if connection is not None:
                    connection.close()
            await asyncio.sleep(retry)
            retry = min(retry * 2, _MAX_RETRY_S)

    # The driver.

    def _import_driver(self) -> None:
        try:
            import asyncmy  # noqa: F401  # pyright: ignore[reportUnusedImport]

            # It would print what the server says of broken views, at each look.
            logging.getLogger("asyncmy").setLevel(logging.ERROR)
            import greenlet  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise MountUnavailable(
                "MariaDB and MySQL need a driver: pip install 'resource-server[mysql]'"
            ) from None

    async def _connect(self, *, author: bool) -> Connection:
        del author
        from asyncmy.connection import Connection as Driver

        if not self._parsed_url().database:
            raise MountUnavailable("the URL names no database")
        # Limits of time are ours alone. asyncmy keeps its own by `asyncio.wait_for`, which before
        # Python 3.12 loses a cancellation that comes together with what is waited for.
        ours = {"connect_timeout": CONNECT_S, "read_timeout": None, "autocommit": True}
        options = {**self._connect_options(), **ours}
        try:
            make: Any = Driver
            connection: Any = make(**options)
            # asyncmy asks for several statements in one, always.
            connection._client_flag &= ~(_MULTI_STATEMENTS | _LOCAL_FILES)
            connection._connect_timeout = None  # the option must be a number
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()
        except Exception as error:
            raise self._refusal(error) from None
        try:
            await self._prepare_session(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refusal(self, error: Exception) -> Exception:
        code = _code(error)
        if code in _REFUSED_LOGIN:
            return MountUnavailable("the database server refuses the login")
        if code == 1049:
            return MountUnavailable("there is no such database on the server")
        if code in {1040, 1203, 1226}:
            return ResourceBusy("the database server accepts no more connections")
        if code in {2002, 2003, 2005, 2006, 2013} or isinstance(error, OSError | TimeoutError):
            return MountUnavailable("the database server cannot be reached")
        return MountUnavailable("the database server cannot be used with the options of the URL")

    async def _prepare_session(self, connection: Connection) -> None:
        # With its usual quotes and backslashes, as the driver and `sql_text` write and read them.
        await connection.query("SET sql_mode = ''")
        await connection.query("SET NAMES utf8mb4")
        # As parameters are bound, whatever the server's own is.
        await connection.query("SET time_zone = '+00:00'")
        await connection.query("SET SESSION TRANSACTION READ ONLY")

    async def _begin(self, connection: Connection, within: float) -> None:
        limit = within + _GRACE_S
        if self._mariadb is None:
            self._mariadb = "mariadb" in str(connection.get_server_info()).lower()
        if getattr(connection, "limit_s", None) != limit:
            if self._mariadb:
                await connection.query(f"SET SESSION max_statement_time = {limit:.3f}")
            else:
                await connection.query(f"SET SESSION max_execution_time = {int(limit * 1000)}")
            connection.limit_s = limit
        await connection.query("START TRANSACTION READ ONLY")

    async def _end(self, connection: Connection, *, author: bool) -> None:
        await connection.query("ROLLBACK")
        if author:
            connection.limit_s = None
            await connection._execute_command(_RESET_CONNECTION, b"")
            await connection.read_packet()
            await self._prepare_session(connection)

    async def _stop(self, connection: Connection) -> bool:
        # asyncmy has closed its side, of which a server that computes takes no notice.
        thread = connection.thread_id()
        other = await self._connect(author=False)
        try:
            await other.query(f"KILL {int(thread)}")
        except Exception as error:
            if _code(error) != 1094:  # It is gone already.
                raise
        finally:
            other.close()
        return False

    async def _probe(self, connection: Connection) -> None:
        _, rows = await _execute(connection, catalog.HAS_CHECKS, ())
        self._state = catalog.state(checks=bool(rows))

    async def _select(
        self, connection: Connection, statement: Statement, limit: int, within: float
    ) -> Rows:
        columns, rows = await _execute(connection, *statement)
        return Rows(columns, rows[:limit], len(rows) > limit)

    async def _select_wrapped(
        self, connection: Connection, statement: Statement, limit: int
    ) -> Rows:
        sql, parameters = statement
        await self._prepare(connection, sql, len(parameters))
        return await self._select(
            connection, Statement(_wrapped(sql, limit + 1), parameters), limit, 0
        )

    async def _describe(
        self, connection: Connection, sql: str, parameters: int
    ) -> Sequence[str] | None:
        try:
            await self._prepare(connection, sql, parameters)
        except Exception as error:
            code = _code(error)
            if not code or code in _LOST or code in _BUSY or code in _STOPPED:
                raise
            message = error.args[1] if len(error.args) > 1 else "no reason is given"
            raise ValueError(f"{self.name} refuses the query: {message}") from None
        # asyncmy does not tell them of what is only prepared.
        return None

    async def _prepare(self, connection: Connection, sql: str, parameters: int) -> None:
        """Let the server read the statement, by itself and then wrapped.

        What is a statement of its own cannot leave the parentheses it is put into.
        """
        for text in (sql, _wrapped(sql, 0)):
            try:
                marked = text % (("?",) * parameters)
            except (TypeError, ValueError):
                raise ValueError("the query has other parameters than are declared") from None
            prepared = await connection.prepare(marked)
            count = prepared.parameter_count
            await prepared.close()
            if count != parameters:
                raise ValueError(f"the query has {count} parameters, {parameters} are declared")

    def _is_lost(self, error: BaseException) -> bool:
        code = _code(error)
        return (code is not None and code in _LOST) or (
            isinstance(error, OSError) and not isinstance(error, TimeoutError)
        )

    def _failure(self, error: Exception, *, author: bool) -> Exception:
        if self._is_lost(error):
            return ResourceBusy("the connection to the database was lost")
        code = _code(error)
        if code is not None:
            return _server_failure(code, author=author)
        if isinstance(error, TypeError | OverflowError | UnicodeError):
            return Unfit()
        return error


def _server_failure(code: int, *, author: bool) -> Exception:
    if code in _STOPPED:
        return DeadlineExceeded()
    if code in _BUSY:
        return ResourceBusy("the database is busy")
    if author:
        return InvalidParameter("the database refuses this query")
    if code in _FORBIDDEN:
        return ResourceNotFound()
    if code in _CHANGED:
        return ResourceBusy("the table has changed")
    if code in _UNFIT:
        return Unfit()
    return InvalidParameter("the database cannot answer this")


def _code(error: BaseException) -> int | None:
    """Return the number of an error of the server or of asyncmy."""
    if not type(error).__module__.startswith("asyncmy"):
        return None
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def _wrapped(sql: str, limit: int) -> str:
    return f"SELECT * FROM ({sql}\n) AS q LIMIT {limit}"  # noqa: S608


async def _execute(
    connection: Connection, sql: str, parameters: Sequence[object]
) -> tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]:
    """Return the names of the columns and the rows."""
    cursor: Any = connection.cursor()
    await cursor.execute(sql, tuple(parameters))
    columns = tuple(str(column[0]) for column in cursor.description or ())
    return columns, list(await cursor.fetchall())


_: type[Engine] = Mysql
