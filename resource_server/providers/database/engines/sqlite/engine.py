"""The engine of SQLite files, over aiosqlite."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    ResourceNotFound,
)
from resource_server.providers.database.engines.contract import (
    Engine,
    Gate,
    Lane,
    Privilege,
    Rows,
    Statement,
)
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.sqlite.authorizer import Readable
from resource_server.providers.database.engines.sqlite.catalog import Catalog
from resource_server.providers.database.engines.sqlite.commits import Commits
from resource_server.providers.database.engines.sqlite.connection import Connection, Refused
from resource_server.providers.database.engines.sqlite.connection_pool import Lane as Line
from resource_server.providers.database.engines.sqlite.connection_pool import Pool
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile
from resource_server.providers.database.engines.sqlite.file_events import nudging
from resource_server.providers.database.engines.sqlite.inline_reads import Quick
from resource_server.providers.database.queries.sql_tokenizer import EngineName
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

T = TypeVar("T")

# In detail it would log statements and their values.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)

_OPENING = 30.0
"""Seconds that reading a schema may take at first."""
_SCHEMA = 5.0
"""Seconds that a question about the schema may take."""
_CLOSING = 2.0
"""Seconds to wait for statements that were interrupted."""


def _all(table: str, column: str, *, in_query: bool = False, through: str | None = None) -> bool:
    return True


class Sqlite:
    """A SQLite database in a file, read as whoever else uses it writes it. An `Engine`.

    `readable` decides which columns of which tables any statement may read; see `Readable`.
    `interval` is how often commits are looked for, in seconds.
    """

    name: EngineName = "sqlite"
    has_schemas = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        readable: Readable = _all,
        interval: float = 0.05,
    ) -> None:
        self._path = os.fspath(path)
        self._file = DatabaseFile(path)
        self._readable = readable
        self._interval = interval
        self._dialect: Dialect | None = None
        self._connect()

    def _connect(self) -> None:
        self._quick = Quick(self._file, self._readable)
        self._hot = Line(self._file, "reader", self._readable)
        self._slow = Pool(self._file, self._readable)
        self._schema = Line(self._file, "catalog", self._readable)
        self._catalog = Catalog()

    @property
    def dialect(self) -> Dialect:
        """SQLAlchemy's dialect, for statements with positional parameters."""
        if self._dialect is None:
            from sqlalchemy.dialects import sqlite

            self._dialect = sqlite.dialect()
        return self._dialect

    async def open(self) -> None:
        """See whether it can be read. Other connections are opened when they are needed."""
        await self._ask(self._catalog.version, _OPENING)

    async def close(self) -> None:
        """Stop what runs and close every connection. It may be opened again."""
        hot, slow, schema = self._hot, self._slow, self._schema
        self._quick.close()
        self._connect()
        for lane in (hot, slow, schema):
            await lane.close(_CLOSING)

    async def tables(self) -> Sequence[TableInfo]:
        """Return every table and view. See `Engine.tables`."""
        return await self._ask(self._catalog.tables)

    async def table(self, name: TableName) -> Table:
        """Return one table. See `Engine.table`."""
        if name.schema is not None:
            raise ResourceNotFound
        return await self._ask(lambda connection: self._catalog.table(connection, name.name))

    async def fetch(
        self, statement: Statement, *, limit: int, within: float, lane: Lane = "hot"
    ) -> Rows:
        """Run one SELECT of ours. See `Engine.fetch`.

        Fewer rows than there are come back with `more`, where they are very large.

        Raises:
            ResourceNotFound: what it selects from is gone, refused or broken.
        """
        stored = lane == "hot"
        if stored:
            found = self._quick.select(statement, limit)
            if isinstance(found, Rows):
                return found
            lane = found
        sql, parameters = statement
        run = self._hot.run if lane == "hot" else self._slow.run
        try:
            return await settle(
                run(
                    lambda connection: connection.select(sql, parameters, limit, stored=stored),
                    within,
                )
            )
        except Refused:
            raise ResourceNotFound from None

    async def query(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Run a query of the manifest's author. See `Engine.query`."""
        sql, parameters = _wrapped(statement.sql, limit + 1), statement.parameters
        try:
            return await self._slow.run(
                lambda connection: connection.query(sql, parameters, limit), within
            )
        except Refused:
            raise InvalidParameter("the database refuses this query") from None

    async def check(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        """Prepare a query whose parameters are written `?` or by name. See `Engine.check`."""
        try:
            return await self._slow.run(
                lambda connection: _check(connection, sql, parameters), _SCHEMA
            )
        except Refused as error:
            raise ValueError(str(error)) from None

    async def estimate(self, name: TableName) -> int | None:
        """Return what ANALYZE has found, if it ever ran. See `Engine.estimate`."""
        return await self._ask(lambda connection: self._catalog.estimate(connection, name.name))

    async def schema_state(self) -> object:
        """Return the version of the schema and the file it is of. See `Engine.schema_state`."""
        version = await self._ask(self._catalog.version)
        identity = self._schema.identity
        return version, identity and identity[:2]

    async def privileges(self) -> Sequence[Privilege]:
        """Return none: SQLite has no logins, and connections cannot write."""
        return ()

    @property
    def gate(self) -> Gate:
        """Commits, looked for at every event of the file as well. See `Engine.gate`."""
        return Gate("commits", self._interval)

    async def commits(self) -> AsyncGenerator[None, None]:
        """Yield after each commit, by a connection of its own. See `Engine.commits`."""
        commits = Commits(Line(self._file, "watcher", self._readable), self._interval)
        following = commits.follow()
        try:
            with nudging(self._path, commits.nudge):
                async for each in following:
                    yield each
        finally:
            await following.aclose()

    async def _ask(self, function: Callable[[Connection], T], within: float = _SCHEMA) -> T:
        try:
            return await self._schema.run(function, within)
        except Refused:
            raise MountUnavailable("the schema of the database cannot be read") from None


def _wrapped(sql: str, limit: int) -> str:
    return f"SELECT * FROM ({sql}\n) LIMIT {limit:d}"  # noqa: S608 - the manifest's, authorized


def _check(connection: Connection, sql: str, names: Sequence[str]) -> Sequence[str] | None:
    parameters: Mapping[str, None] | tuple[None, ...] = dict.fromkeys(names)
    try:
        connection.check(_wrapped(sql, 1), parameters)
    except sqlite3.ProgrammingError as error:
        if "no name" not in str(error):
            raise
        parameters = (None,) * len(names)
        connection.check(_wrapped(sql, 1), parameters)
    return connection.names(_wrapped(sql, 0), parameters)


_: type[Engine] = Sqlite
