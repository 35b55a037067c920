"""The engine of PostgreSQL, on asyncpg, whose protocol takes one statement at a time."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from typing_extensions import override

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.causes import failure, url_problem
from resource_server.providers.database.engines.contract import (
    CommitDetection,
    EngineName,
    Privilege,
    Rows,
    Statement,
    ViewReads,
)
from resource_server.providers.database.engines.postgres import catalog as catalog
from resource_server.providers.database.engines.postgres import causes
from resource_server.providers.database.engines.postgres.settings import (
    SettingStatement,
    apply_settings,
)
from resource_server.providers.database.engines.postgres.temporal import CODECS
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.server_base import (
    CATALOG_TIMEOUT_S,
    DriverConnection,
    ServerEngine,
)
from resource_server.providers.database.engines.server_url import with_service
from resource_server.providers.database.engines.single_precision import shortest
from resource_server.runtime import extras

_log = logging.getLogger(__name__)

_SETTINGS = {
    "application_name": "resource-server",
    "default_transaction_read_only": "on",
    "idle_in_transaction_session_timeout": "10000",
    # Compiling would take longer than these statements do.
    "jit": "off",
    "lock_timeout": "500",
    # As `sql_tokenizer` reads the manifest's queries.
    "standard_conforming_strings": "on",
}
"""Settings of every session; DISCARD ALL restores them."""
_LOCAL_SETTINGS = "".join(
    f" SET LOCAL {name} = '{value}';" for name, value in _SETTINGS.items() if "name" not in name
)
"""The same for one transaction, behind a pooler."""
_UNSUPPORTED = "unsupported startup parameter"
_NO_SESSION = (
    "a connection pooler stands between, and its sessions are shared; leave it out, or write the "
    "address of the server itself"
)
_PORT = 5432
_OF_DSN = frozenset(
    """
    passfile sslmode sslcert sslkey sslrootcert sslcrl sslpassword sslnegotiation krbsrvname gsslib
    ssl_min_protocol_version ssl_max_protocol_version target_session_attrs
    """.split()
)
_GRACE_MS = 500
"""Time beyond a deadline after which the server stops the statement by itself."""
_READ_ONLY = "25006"
"""Refused in a read-only transaction, or by a standby."""
_UNPREPARED = "26000"
"""A function, or a pooler that was not noticed, has taken the statements of a session."""
_MAX_KNOWN_COLUMNS = 1024
"""Maximum statements whose column names are kept."""
_IDLE_AFTER_S = 60.0
_IDLE_INTERVAL_S = 1.0


class PostgresEngine(ServerEngine):
    """A PostgreSQL database.

    Serves the tables of `schemas`, by default of all but the system's. Polls for commits every
    `interval` seconds; with `notify`, also listens on `channel`, which the owner's triggers use.
    """

    driver = "asyncpg"
    title = "PostgreSQL"
    statement_causes = causes.STATEMENT
    connect_causes = causes.CONNECT

    def __init__(
        self,
        url: str,
        *,
        schemas: Sequence[str] = (),
        interval: float = 0.25,
        notify: bool = False,
        channel: str = "resource_server",
    ) -> None:
        super().__init__(url, interval=interval)
        self._schemas = list(schemas) or None
        self._channel = channel if notify else None
        self._is_notified = False
        self._is_pooled = False
        """Whether a connection pooler stands between: then nothing of a session holds."""
        self._snapshot = "SELECT pg_catalog.pg_current_snapshot()::text"
        self._columns: dict[str, tuple[str, ...]] = {}
        self._state: tuple[str, object] | None = None
        self._schema_changes = 0
        """Number of schema changes noticed."""

    @property
    @override
    def name(self) -> EngineName:
        return "postgresql"

    @property
    @override
    def has_schemas(self) -> bool:
        return True

    # -- the catalog

    @override
    async def tables(self) -> Sequence[TableInfo]:
        rows = await self._ask(catalog.TABLES, self._schemas)
        return [catalog.postgres_table_info(row) for row in rows]

    async def unserved(self) -> Sequence[TableName]:
        """Return the names of partitions, and of tables that the login may not read."""
        return [TableName(*row) for row in await self._ask(catalog.UNSERVED, self._schemas)]

    @override
    async def table(self, name: TableName) -> Table:
        nameable = "\0" not in name.name and "\0" not in (name.schema or "")
        rows = await self._ask(catalog.TABLE, self._schemas, *name) if nameable else ()
        if not rows:
            if nameable and await self._ask(catalog.EXISTS, self._schemas, *name):
                raise failure((causes.STATEMENT["42501"], "42501"))
            raise ResourceNotFound
        return catalog.postgres_table(name, str(rows[0][0]))

    @override
    async def view_reads(self, names: Sequence[TableName]) -> Mapping[TableName, ViewReads]:
        found: dict[TableName, set[tuple[TableName, str]]] = {name: set() for name in names}
        for row in await self._ask(catalog.VIEW_READS, [name.name for name in names]):
            schema, name, read_schema, read, column = map(str, row)
            view = TableName(schema, name)
            if view in found:
                found[view].add((TableName(read_schema, read), column))
        return {view: frozenset(reads) for view, reads in found.items()}

    @override
    async def estimate(self, name: TableName) -> int | None:
        rows = await self._ask(catalog.ESTIMATE, self._schemas, *name)
        value = rows[0][0] if rows else None
        return int(value) if isinstance(value, float) and value >= 0 else None

    async def schema_state(self, name: TableName | None = None) -> object:
        """Return a value that changes whenever a table is created, altered or dropped.

        Reads the catalog only if something was committed since the last call.
        """
        snapshot = str((await self._ask(self._snapshot))[0][0])
        if self._state is None or self._state[0] != snapshot:
            state = tuple(await self._ask(catalog.STATE))
            if self._state is not None and self._state[1] != state:
                self._schema_changes += 1
            self._state = (snapshot, state)
        return self._state[1]

    async def privileges(self) -> Sequence[Privilege]:
        """Return the login's privileges beyond reading; a superuser's are not listed one by one."""
        return [Privilege(str(row[0])) for row in await self._ask(catalog.PRIVILEGES)]

    async def _ask(self, sql: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        async def work(connection: DriverConnection) -> Sequence[tuple[Any, ...]]:
            return list(map(tuple, await connection.fetch(sql, *parameters)))

        return await self._run(work, within=CATALOG_TIMEOUT_S)

    # -- commits

    @property
    def commit_detection(self) -> CommitDetection:
        """Polling, or notifications with polling as a fallback. See `Engine.commit_detection`."""
        if self._channel is None or self._is_pooled:
            return CommitDetection("commits", self._interval)
        return CommitDetection("notify", self._idle_interval)

    async def _poll_commits(self, connection: DriverConnection) -> AsyncGenerator[None, None]:
        """Yield after every possible commit, and once at the start."""
        notified = asyncio.Event()
        await self._listen(connection, notified)
        last = None
        moved = time.monotonic()
        while True:
            notified.clear()
            snapshot = await connection.fetchval(self._snapshot, timeout=CATALOG_TIMEOUT_S)
            if snapshot != last:
                last, moved = snapshot, time.monotonic()
                yield None
            await self._pause(notified, idle=time.monotonic() - moved)

    @property
    def _idle_interval(self) -> float:
        return max(self._interval, _IDLE_INTERVAL_S)

    async def _listen(self, connection: DriverConnection, notified: asyncio.Event) -> None:
        self._is_notified = False
        if self._channel is not None and self._is_pooled:
            _log.warning("a connection pooler passes on no notifications: polling for changes")
        elif self._channel is not None:
            try:
                await connection.add_listener(self._channel, _setter(notified))
                self._is_notified = True
            except Exception as error:
                if _state(error) != _READ_ONLY:
                    raise
                _log.warning("a standby does not support LISTEN: polling it for changes instead")

    async def _pause(self, notified: asyncio.Event, *, idle: float) -> None:
        is_idle = self._is_notified or idle > _IDLE_AFTER_S
        interval = self._idle_interval if is_idle else self._interval
        try:
            async with asyncio.timeout(interval):
                await notified.wait()
        except TimeoutError:
            pass

    # -- the driver

    def _import_driver(self) -> None:
        extras.require_packages("postgres", self.title)

    async def _connect(self, *, author: bool) -> DriverConnection:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        connect: Any = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        options = self._connect_options()
        # DISCARD ALL after a manifest's query drops named statements, which the cache would keep.
        cache = 0 if author or self._is_pooled else 256
        try:
            connection: Any = await connect(**options, statement_cache_size=cache)
        except Exception as error:
            if self._is_pooled or _UNSUPPORTED not in str(error):
                raise self._refusal(error) from None
            self._is_pooled = True
            return await self._connect(author=author)
        try:
            if not self._is_pooled and await _has_pooler(connection):
                connection.terminate()
                self._is_pooled = True
                return await self._connect(author=author)
            await _set_codecs(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _connect_options(self) -> dict[str, Any]:
        """Return asyncpg's options for the URL; those of TLS only a DSN can have."""
        self._check_files("sslrootcert", "sslcert", "sslkey", "sslcrl")
        try:
            url = with_service(self._url)
        except ValueError as error:
            raise url_problem(error) from None
        given = dict(url.parameters)
        settings = dict(_SETTINGS)
        if self._is_pooled:
            if "options" in given:
                raise url_problem(f"options: {_NO_SESSION}")
            settings = {"application_name": settings["application_name"]}
        for name in ("fallback_application_name", "application_name", "options"):
            if name in given:
                settings[name.removeprefix("fallback_")] = given[name]
        options: dict[str, Any] = {
            "user": url.user,
            "password": url.password,
            "database": url.database or None,
            "host": [host.name for host in url.hosts if host.name] or None,
            "port": [host.port or _PORT for host in url.hosts]
            if any(host.port for host in url.hosts)
            else None,
            "timeout": self._connect_timeout_s,
            "server_settings": settings,
        }
        if given.get("sslrootcert") == "system":
            del given["sslrootcert"]
            options["ssl"] = True
        of_dsn = {name: value for name, value in given.items() if name in _OF_DSN}
        return {**options, "dsn": f"postgresql://?{urlencode(of_dsn, quote_via=quote)}"}

    async def _disconnect(self, connection: DriverConnection) -> None:
        await connection.close()

    def _drop(self, connection: DriverConnection) -> None:
        connection.terminate()

    async def _begin(self, connection: DriverConnection, within: float) -> None:
        await connection.execute(self._beginning(within))

    def _beginning(self, within: float) -> str:
        settings = _LOCAL_SETTINGS if self._is_pooled else ""
        # The savepoint pins the mode: below it, the transaction cannot become read-write. A query
        # would, too, and fix what is seen of others' commits, long before the read.
        return (
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;{settings}"
            f" {_timeout(within)}; SAVEPOINT begun"
        )

    async def _limit(self, connection: DriverConnection, within: float) -> None:
        await connection.execute(_timeout(within))

    async def _roll_back(self, connection: DriverConnection) -> None:
        await connection.execute("ROLLBACK")

    async def _end(self, connection: DriverConnection, *, author: bool) -> None:
        if self._is_pooled and not author:
            await connection.execute("ROLLBACK")  # locks of others may be on this session
        elif author and not self._is_pooled:
            await connection.execute("ROLLBACK")
            await connection.execute("DISCARD ALL")
        else:
            # In one message, which a pooler hands to one session.
            await connection.execute("ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()")

    async def _renew(self, connection: DriverConnection, within: float, *, author: bool) -> bool:
        if self._is_pooled:  # a transaction takes a session of the pooler
            await self._end(connection, author=author)
        elif author:
            await super()._renew(connection, within, author=True)
        else:
            # A SELECT right before BEGIN would be a part of the next transaction.
            await connection.execute(
                f"SELECT pg_catalog.pg_advisory_unlock_all(); ROLLBACK; {self._beginning(within)}"
            )
        return not self._is_pooled

    async def _stop(self, connection: DriverConnection) -> bool:
        # asyncpg has sent a cancel request; the next statement waits until it took effect.
        return not connection.is_closed()

    async def _probe(self, connection: DriverConnection) -> None:
        if connection.get_server_version().major < 13:
            self._snapshot = "SELECT pg_catalog.txid_current_snapshot()::text"
        await connection.fetchval("SELECT 1 FROM pg_catalog.pg_class LIMIT 1")

    async def _select(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        from asyncpg import (  # pyright: ignore[reportMissingTypeStubs]
            InvalidCachedStatementError,
            OutdatedSchemaCacheError,
        )

        parameters = statement.parameters
        # A prepared statement keeps its parameter types, so the text differs after each change.
        sql = f"/* {self._schema_changes} */ {statement.sql}"
        await apply_settings(connection, statement)
        try:
            records = await connection.fetch(sql, *parameters)
        except (InvalidCachedStatementError, OutdatedSchemaCacheError):
            # A table was altered; asyncpg has dropped its cached statement and types.
            await connection.execute("ROLLBACK")
            await self._begin(connection, within)
            await apply_settings(connection, statement)
            records = await connection.fetch(sql, *parameters)
        if records:
            columns = tuple(records[0].keys())
        else:
            columns = await self._columns_of(connection, sql)
        return _rows(columns, records, limit)

    async def _columns_of(self, connection: DriverConnection, sql: str) -> tuple[str, ...]:
        known = self._columns.get(sql)
        if known is None:
            if len(self._columns) >= _MAX_KNOWN_COLUMNS:
                self._columns.clear()
            known = self._columns[sql] = _names(await connection.prepare(sql, name=""))
        return known

    async def _select_wrapped(
        self, connection: DriverConnection, statement: Statement, limit: int
    ) -> Rows:
        await apply_settings(connection, statement)
        prepared = await self._prepare(connection, statement.sql, limit + 1)
        records = await prepared.fetch(*statement.parameters)
        return _rows(_names(prepared), records, limit)

    async def _describe(
        self, connection: DriverConnection, sql: str, parameters: int
    ) -> Sequence[str] | None:
        prepared = await self._prepare(connection, sql, 1)
        wanted = len(prepared.get_parameters())
        if wanted != parameters:
            raise ValueError(f"the query has {wanted} parameters, {parameters} are declared")
        return _names(prepared)

    async def _prepare(self, connection: DriverConnection, sql: str, limit: int) -> Any:
        # Text that parses as a whole statement cannot break out of the parentheses around it.
        await connection.prepare(sql, name="")
        wrapped = f"SELECT * FROM ({sql}\n) AS q LIMIT {limit}"  # noqa: S608
        return await connection.prepare(wrapped, name="")

    def _is_lost(self, error: BaseException) -> bool:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        if isinstance(error, asyncpg.PostgresError):
            # After an ERROR of the server, the connection goes on; asyncpg's own have no severity.
            if _state(error) == _UNPREPARED:
                return True
            severity = getattr(error, "severity_en", None)
            is_lost = severity != "ERROR" and (bool(severity) or _state(error).startswith("08"))
            return is_lost and causes.STATEMENT_MODE not in str(error)
        if isinstance(error, asyncpg.InternalClientError):
            # A message that asyncpg did not expect, such as the end of an idle session.
            return True
        if isinstance(error, asyncpg.InterfaceError):
            return "closed" in str(error)
        return isinstance(error, OSError) and not isinstance(error, TimeoutError)

    def _codes(self, error: Exception) -> Iterator[str]:
        return causes.codes(error)

    def _message(self, error: Exception) -> str:
        return str(error.args[0]) if error.args else "no reason is given"


class EngineWithSettings(PostgresEngine):
    """An engine whose statements run under the settings of a caller; it shares the whole state."""

    __slots__ = ("_settings",)

    def __init__(self, whole: PostgresEngine, settings: Mapping[str, str]) -> None:
        object.__setattr__(self, "__dict__", vars(whole))
        self._settings = tuple(settings.items())

    def _under(self, statement: Statement) -> Statement:
        found = SettingStatement(*statement)
        found.settings = self._settings
        return found

    @override
    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        own = self._under(statement)
        return await super().run_own(own, limit=limit, within=within, slow=slow)

    @override
    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        return await super().run_authored(self._under(statement), limit=limit, within=within)

    @override
    async def estimate(self, name: TableName) -> int | None:
        return None  # it would count the rows of others


async def _has_pooler(connection: DriverConnection) -> bool:
    """Return whether the session differs from that of the login."""
    # In a transaction, as the next message may reach another session.
    async with connection.transaction(readonly=True):
        prepared = await connection.prepare("SELECT pg_catalog.pg_backend_pid()", name="")
        return await prepared.fetchval() != connection.get_server_pid()


async def _set_codecs(connection: DriverConnection) -> None:
    for type_name, codec in CODECS.items():
        await connection.set_type_codec(
            type_name,
            schema="pg_catalog",
            encoder=codec.encode,
            decoder=codec.decode,
            format="tuple",
        )
    # In binary form: asyncpg reads no composite of a type that has a codec for text.
    for type_name, encoder, decoder in (
        ("float4", _encode_single, _decode_single),
        ("pg_lsn", _encode_lsn, _decode_lsn),
    ):
        await connection.set_type_codec(
            type_name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="binary"
        )


_single = struct.Struct("!f")


def _encode_single(value: Any) -> bytes:
    return _single.pack(float(value))


def _decode_single(data: bytes) -> float:
    return shortest(*_single.unpack(data))


def _encode_lsn(value: Any) -> bytes:
    high, _, low = str(value).partition("/")
    return struct.pack("!II", int(high, 16), int(low, 16))


def _decode_lsn(data: bytes) -> str:
    high, low = struct.unpack("!II", data)
    return f"{high:X}/{low:X}"


def _state(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _timeout(within: float) -> str:
    return f"SET LOCAL statement_timeout = {int(within * 1000) + _GRACE_MS}"


def _setter(event: asyncio.Event) -> Callable[..., None]:
    def notified(*_: object) -> None:
        event.set()

    return notified


def _names(prepared: Any) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in prepared.get_attributes())


def _rows(columns: tuple[str, ...], records: Sequence[Any], limit: int) -> Rows:
    return Rows(columns, [tuple(record) for record in records[:limit]], len(records) > limit)
