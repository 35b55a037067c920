"""The engine of MariaDB and MySQL, on asyncmy."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from typing_extensions import override

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.causes import failure, url_problem
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    EngineName,
    Privilege,
    Rows,
    Statement,
    UnfitParameter,
    ViewReads,
)
from resource_server.providers.database.engines.mysql import catalog as catalog
from resource_server.providers.database.engines.mysql import causes
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.server_base import (
    CATALOG_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    DriverConnection,
    ServerEngine,
)
from resource_server.providers.database.engines.server_url import ServerHost
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.runtime import extras
from resource_server.runtime.causes import find

_GIVEN = ("unix_socket", "program_name", "init_command", "read_default_file", "read_default_group")
_TLS = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_check_hostname", "ssl_cipher", "ssl_key")
"""Parameters of the URL that go to asyncmy as they are, and those that ask for TLS."""
_MULTI_STATEMENTS = 1 << 16
_LOCAL_FILES = 1 << 7
"""Capability flags: several statements in one text; uploads that the server may request."""
# Standard quotes and backslashes, as asyncmy escapes and `sql_tokenizer` reads them.
# UTC, as for bound parameters, whatever the server's time zone is.
# Keys are ordered by their whole values.
_SETTINGS = (
    "SET NAMES utf8mb4, sql_mode = '', time_zone = '+00:00',"
    f" max_sort_length = {catalog.MAX_SORT_BYTES}"
)
"""Sets what every transaction finds."""
_GRACE_S = 0.5
"""Time beyond a deadline after which the server stops the statement by itself."""
_COMMIT_COUNTER_INTERVAL_S = 5.0
"""How often a change of the commit counter alone counts: reads move it, too."""

_MAX_MISSING = 100
"""Tables missing from a list that are asked for by name; of more, the list is believed."""

_LOST = frozenset((0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 4031))
_UNKNOWN_THREAD = 1094


class MysqlEngine(ServerEngine):
    """A database of MariaDB or MySQL.

    Polls the server's counters every `interval` seconds to notice commits.
    """

    driver = "asyncmy"
    title = "MySQL"
    statement_causes = causes.STATEMENT
    connect_causes = causes.CONNECT

    def __init__(self, url: str, *, interval: float = 1.0) -> None:
        super().__init__(url, interval=interval)
        self._mariadb: bool | None = None
        self._schema_state_query = catalog.schema_state_query(checks=True)
        self._definitions: Sequence[object] | None = None
        """Counters of definitions before the schema's state was read last."""
        self._names: Sequence[str] = ()
        """Names of the tables as last listed."""
        self._doubts = 0
        """How often the catalog was read after a later definition: see `_ask_catalog`."""

    @property
    def name(self) -> EngineName:
        """`mariadb` or `mysql`, known once it is open."""
        return "mariadb" if self._mariadb else "mysql"

    # -- the catalog

    @override
    async def tables(self) -> Sequence[TableInfo]:
        found = await self._table_rows()
        return [catalog.mysql_table_info(found[name]) for name in sorted(found, key=str.encode)]

    async def _table_rows(self) -> Mapping[str, Sequence[Any]]:
        """Return the catalog's row of each table, by name.

        MariaDB lists no table while its altered copy takes its place. Asked by name, it waits.
        """
        known = self._names or await self._listed_rows()
        found = await self._listed_rows()
        missing = [name for name in known if name not in found][:_MAX_MISSING]
        named = await self._ask_catalog(*((catalog.TABLE_NAMED, name, name) for name in missing))
        found |= {str(row[0]): row for rows in named for row in rows}
        self._names = tuple(found)
        return found

    async def _listed_rows(self) -> dict[str, Sequence[Any]]:
        (rows,) = await self._ask_catalog((catalog.TABLES,))
        return {str(row[0]): row for row in rows}

    @override
    async def table(self, name: TableName) -> Table:
        if name.schema is not None:
            raise ResourceNotFound
        queries = [
            (catalog.TABLE, name.name, name.name),
            (catalog.COLUMNS, name.name),
            (catalog.INDEXES, name.name),
            (catalog.FOREIGN_KEYS, name.name),
            (catalog.VIEW, name.name),
        ]
        found, columns, indexes, keys, view = await self._ask_catalog(*queries)
        if not found:
            raise ResourceNotFound
        if not columns:  # of a view on what is missing, or of a table that may only be written
            code = "1356" if view else "1142"
            raise failure((causes.STATEMENT[code], code))
        return catalog.mysql_table(
            name,
            found[0],
            columns=columns,
            indexes=indexes,
            foreign_keys=keys,
            view_definition=str(view[0][0] or "") if view else None,
            create_statement=await self._create_statement(name.name) if not view else None,
        )

    async def _create_statement(self, table: str) -> str | None:
        """Return a table's CREATE statement, if the login may see it."""

        async def work(connection: DriverConnection) -> str | None:
            try:
                _, ((_, statement, *_),) = await _execute(
                    connection, catalog.show_create_table(table), ()
                )
            except Exception as error:
                if find(causes.STATEMENT, causes.codes(error))[0].kind == "privilege":
                    return None
                raise
            return str(statement)

        return await self._run(work, within=CATALOG_TIMEOUT_S)

    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        """Return the columns that each of these views reads. See `Engine.view_reads`.

        The server keeps definitions with every table behind the database's name, and every column
        by its name, beside names of other things.
        """
        found: dict[TableName, ViewReads] = {}
        (rows,) = await self._ask((catalog.VIEW_DEFINITIONS,))
        known = {name.casefold(): TableName(None, name) for name in await self._table_rows()}
        for name, definition, database in rows:
            view = TableName(None, str(name))
            if view not in names or not definition:
                continue
            with suppress(ValueError):  # its reads remain unknown
                tokens = sql_tokenizer.statement(str(definition), "mysql")
                parts = [each.parts for each in sql_tokenizer.references(tokens, "mysql")]
                tables = {
                    each[1].casefold()
                    for each in parts
                    if each[1:] and each[0].casefold() == str(database).casefold()
                }
                words = {word for each in parts for word in each}
                read = [known[table] for table in tables if table in known]
                found[view] = frozenset((table, word) for table in read for word in words)
        return found

    @override
    async def refusal(self, sql: str) -> str | None:
        return await super().refusal(sql.replace("%", "%%"))  # as in declared queries

    @override
    async def estimate(self, name: TableName) -> int | None:
        (rows,) = await self._ask((catalog.ESTIMATE, name.name))
        value = rows[0][0] if rows else None
        return value if isinstance(value, int) else None

    @override
    async def schema_state(self, name: TableName | None = None) -> object:
        definitions, rows = await self._ask((catalog.DEFINITIONS,), (self._schema_state_query,))
        self._definitions = definitions
        return self._doubts, *rows

    async def privileges(self) -> Sequence[Privilege]:
        """Return the login's privileges beyond reading, global ones and those on this database."""
        grants, database = await self._ask((catalog.GRANTS,), ("SELECT DATABASE()",))
        found = catalog.mysql_privileges([str(row[0]) for row in grants], str(database[0][0]))
        return [Privilege(name) for name in found]

    async def _ask_catalog(self, *queries: tuple[str, *tuple[str, ...]]) -> list[Sequence[Any]]:
        """Read the catalog, and let the next state differ if a definition came after the last.

        A table that is dropped and created again has the state of before, which the catalog had
        not in between.
        """
        *found, definitions = await self._ask(*queries, (catalog.DEFINITIONS,))
        if self._definitions not in (None, definitions):
            self._doubts += 1
        return found

    async def _ask(self, *queries: tuple[str, *tuple[str, ...]]) -> list[Sequence[Any]]:
        async def work(connection: DriverConnection) -> list[Sequence[Any]]:
            return [(await _execute(connection, sql, given))[1] for sql, *given in queries]

        return await self._run(work, within=CATALOG_TIMEOUT_S)

    # -- commits

    @property
    def commit_detection(self) -> CommitDetection:
        """Polling of the server's counters. See `Engine.commit_detection`."""
        return CommitDetection("counters", self._interval)

    async def _poll_commits(self, connection: DriverConnection) -> AsyncGenerator[None, None]:
        """Yield after every possible commit, and once at the start.

        The server counts a row when it is written, and COMMIT when it begins. So the poll after
        one that saw a change yields, too.
        """
        last: tuple[object, ...] = ()
        yielded = 0.0
        again = False
        while True:
            async with asyncio.timeout(CATALOG_TIMEOUT_S):
                _, rows = await _execute(connection, catalog.COUNTERS, ())
            counters = {str(name).lower(): value for name, value in rows}
            commits = counters.pop("handler_commit", None)
            now = (tuple(sorted(counters.items())), commits)
            wrote = not last or now[0] != last[0]
            is_due = time.monotonic() - yielded >= _COMMIT_COUNTER_INTERVAL_S
            if wrote or again or (is_due and now != last):
                last, yielded = now, time.monotonic()
                yield None
            again = wrote
            await asyncio.sleep(self._interval)

    # -- the driver

    def _import_driver(self) -> None:
        extras.require_packages("mysql", "MariaDB")
        # It prints the server's warnings about broken views, at every poll.
        logging.getLogger("asyncmy").setLevel(logging.ERROR)

    async def _connect(self, *, author: bool) -> DriverConnection:
        del author
        from asyncmy.connection import Connection as AsyncmyConnection

        options = self._connect_options()
        hosts = self._url.hosts or (ServerHost(""),)
        connection: Any = None
        for tried, host in enumerate(hosts, 1):
            place = {"host": host.name or None, "port": host.port or 0}
            try:
                make: Any = AsyncmyConnection
                connection = make(**options, **place)
                # asyncmy always requests multi-statements, and no option prevents it. Private, so
                # the version is capped in pyproject.toml, and a test sends two statements.
                connection._client_flag &= ~(_MULTI_STATEMENTS | _LOCAL_FILES)
                await self._open_socket(connection)
                break
            except Exception as error:
                if tried == len(hosts):
                    raise self._refusal(error) from None
        try:
            await self._prepare_session(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_options(self) -> dict[str, Any]:
        """Return asyncmy's options for the URL, without the host."""
        self._check_files("ssl_ca", "ssl_cert", "ssl_key", "ssl_capath", "read_default_file")
        url = self._url
        given = {name: url.parameters[name] for name in _GIVEN if name in url.parameters}
        if not url.database and "read_default_file" not in given:
            raise url_problem("it names no database")
        try:
            tls = _tls(url.parameters)
        except (OSError, ValueError):
            raise url_problem("ssl_cert, ssl_key or ssl_ca: not what TLS needs") from None
        return {
            **given,
            "user": url.user,
            "password": url.password or "",
            "database": url.database or None,
            "ssl": tls,
            "charset": "utf8mb4",
            # Deadlines are ours alone: asyncmy's would apply per packet.
            "connect_timeout": self._connect_timeout_s,
            "read_timeout": None,
            "autocommit": True,
        }

    async def _open_socket(self, connection: DriverConnection) -> None:
        connecting = asyncio.ensure_future(connection.connect())
        try:
            await asyncio.wait((connecting,), timeout=self._connect_timeout_s)
        except BaseException:
            self._start(_abandon(connection, connecting, CONNECT_TIMEOUT_S))
            raise
        if not connecting.done():
            # Its socket is open, or has timed out as well: nobody waits any longer.
            self._start(_abandon(connection, connecting, _GRACE_S))
            raise TimeoutError
        connecting.result()

    async def _prepare_session(self, connection: DriverConnection) -> None:
        await connection.query(_SETTINGS)
        await connection.query("SET SESSION TRANSACTION READ ONLY")

    async def _disconnect(self, connection: DriverConnection) -> None:
        await connection.ensure_closed()

    def _drop(self, connection: DriverConnection) -> None:
        connection.close()

    async def _begin(self, connection: DriverConnection, within: float) -> None:
        if self._mariadb is None:
            self._mariadb = "mariadb" in str(connection.get_server_info()).lower()
            # The dialects differ in their reserved words.
            self._dialect = None
            self.title = "MariaDB" if self._mariadb else "MySQL"
        if getattr(connection, "limit_s", None) != within:
            await self._limit(connection, within)
        await connection.query("START TRANSACTION READ ONLY")

    async def _limit(self, connection: DriverConnection, within: float) -> None:
        limit = within + _GRACE_S
        if self._mariadb:
            await connection.query(f"{_SETTINGS}, max_statement_time = {limit:.3f}")
        else:
            await connection.query(f"{_SETTINGS}, max_execution_time = {int(limit * 1000)}")
        connection.limit_s = within

    async def _roll_back(self, connection: DriverConnection) -> None:
        await connection.query("ROLLBACK")

    async def _end(self, connection: DriverConnection, *, author: bool) -> None:
        del author
        connection.limit_s = None  # a function may have changed any setting
        await self._roll_back(connection)

    def _is_spent(self, connection: DriverConnection, *, author: bool) -> bool:
        # A query may leave variables, locks and settings in its session. asyncmy has no public
        # method that resets a session, so the next query gets a new one.
        del connection
        return author

    async def _stop(self, connection: DriverConnection) -> bool:
        # asyncmy has closed its socket, which a computing server does not notice.
        thread = connection.thread_id()
        other = await self._connect(author=False)
        try:
            await other.query(f"KILL {int(thread)}")
        except Exception as error:
            if causes.number(error) != _UNKNOWN_THREAD:  # it has ended already
                raise
        finally:
            other.close()
        return False

    async def _probe(self, connection: DriverConnection) -> None:
        _, rows = await _execute(connection, catalog.HAS_CHECKS, ())
        self._schema_state_query = catalog.schema_state_query(checks=bool(rows))

    async def _select(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        if not all(map(is_bindable, statement.parameters)):
            raise UnfitParameter
        columns, rows = await _execute(connection, statement.sql, statement.parameters)
        return Rows(columns, rows[:limit], len(rows) > limit)

    async def _select_wrapped(
        self, connection: DriverConnection, statement: Statement, limit: int
    ) -> Rows:
        sql, parameters = statement.sql, statement.parameters
        await self._prepare(connection, sql, len(parameters))
        return await self._select(
            connection, Statement(_wrapped(sql, limit + 1), parameters), limit, 0
        )

    async def _describe(
        self, connection: DriverConnection, sql: str, parameters: int
    ) -> Sequence[str] | None:
        await self._prepare(connection, sql, parameters)
        # asyncmy does not return the columns of a prepared statement.
        return None

    async def _prepare(self, connection: DriverConnection, sql: str, parameters: int) -> None:
        """Have the server parse the query, first alone and then wrapped.

        Text that parses as a whole statement cannot break out of the parentheses around it.
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
        code = causes.number(error)
        return (code is not None and code in _LOST) or (
            isinstance(error, OSError) and not isinstance(error, TimeoutError)
        )

    def _codes(self, error: Exception) -> Iterator[str]:
        return causes.codes(error)

    def _message(self, error: Exception) -> str:
        return str(error.args[-1]) if error.args else "no reason is given"


async def _abandon(
    connection: DriverConnection, connecting: asyncio.Future[object], within: float
) -> None:
    """Close a connection as soon as its connect has ended.

    asyncmy uses `asyncio.wait_for`, which before Python 3.12 loses a socket that opens in the turn
    of a cancellation. So a connect is cancelled only after the timeout of its socket.
    """

    def close(connecting: asyncio.Future[object]) -> None:
        connection.close()
        if not connecting.cancelled():
            connecting.exception()

    try:
        await asyncio.wait((connecting,), timeout=within)
    finally:
        connecting.cancel()
        connecting.add_done_callback(close)
    await asyncio.wait((connecting,))


def _tls(given: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context that a URL asks for; None without TLS.

    A certificate of an authority proves the server and its name, unless the mode says otherwise.
    """
    mode = given.get("ssl_mode", "")
    authority = given.get("ssl_ca"), given.get("ssl_capath")
    if mode == "disabled" or (mode in ("", "preferred") and not any(map(given.get, _TLS))):
        return None
    context = ssl.create_default_context(cafile=authority[0], capath=authority[1])
    context.check_hostname = mode == "verify_identity" or (
        not mode.startswith("verify_") and any(authority)
    )
    if given.get("ssl_check_hostname", "true").lower() not in ("1", "true", "on", "yes"):
        context.check_hostname = False
    if not (any(authority) or mode.startswith("verify_")):
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in given:
        context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    if "ssl_cipher" in given:
        context.set_ciphers(given["ssl_cipher"])
    return context


def is_bindable(value: object) -> bool:
    """Return False for numbers that are not finite: the driver writes them as names of columns."""
    return not isinstance(value, float | Decimal) or math.isfinite(value)


def _wrapped(sql: str, limit: int) -> str:
    return f"SELECT * FROM ({sql}\n) AS q LIMIT {limit}"  # noqa: S608


async def _execute(
    connection: DriverConnection, sql: str, parameters: Sequence[object]
) -> tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]:
    """Return the column names and the rows."""
    cursor: Any = connection.cursor()
    await cursor.execute(sql, tuple(parameters))
    columns = tuple(str(column[0]) for column in cursor.description or ())
    return columns, list(await cursor.fetchall())
