"""The application that owns a database and writes it with the engine's driver."""

from __future__ import annotations

import importlib
import logging
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from resource_server.providers.database.engines.factory import engine_name
from resource_server.providers.database.engines.generic.dialect_url import scheme_of
from tests.waiting import PATIENCE_S

# The driver logs each row that INSERT IGNORE skips.
logging.getLogger("asyncmy").setLevel(logging.ERROR)


class Owner(ABC):
    """One connection in autocommit mode; `begin` starts a transaction.

    Every `?` in the SQL is a parameter.
    """

    engine: ClassVar[str]
    prefix: str = ""
    """Prefix of table paths: the schema, if the engine has schemas."""
    insertion: str = "INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING"

    endless: ClassVar[str]
    """A query for one number `n` that never ends, whose memory does not grow."""

    is_generic = False
    """Whether the generic engine serves it."""

    def __init__(self, url: str) -> None:
        self.url = url
        """The URL by which it is served."""
        self.own_url = url
        """The URL by which this connects."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def clear(self) -> None:
        """Drop everything in the database."""

    @abstractmethod
    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    async def run(self, *statements: str) -> None:
        for sql in statements:
            await self.rows(sql)

    async def insert(self, table: str, *rows: Sequence[object]) -> None:
        """Insert the rows whose keys do not exist yet, in one transaction."""
        await self.run("BEGIN")
        for row in rows:
            places = ", ".join("?" * len(row))
            await self.rows(self.insertion.format(self.quoted(table), places), *row)
        await self.run("COMMIT")


class SqliteOwner(Owner):
    engine = "sqlite"
    endless = (
        "select count(*) as n from (with recursive c(x) as (select 1 union all select x + 1 from c)"
        " select x from c) as d"
    )

    async def open(self) -> None:
        path = self.own_url.partition(":///")[2]
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)

    async def close(self) -> None:
        self._connection.close()

    async def clear(self) -> None:
        pass  # the file is the test's own

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()


class PostgresOwner(Owner):
    engine = "postgresql"
    prefix = "public/"
    endless = "select 1 as n from (select pg_catalog.pg_sleep(600)) as d"

    async def open(self) -> None:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        driver: Any = asyncpg
        # Cached plans would refer to dropped tables.
        self._connection = await driver.connect(self.own_url, statement_cache_size=0)

    async def close(self) -> None:
        await self._connection.close()

    async def clear(self) -> None:
        await self.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if not values and not sql.lstrip("( ").lower().startswith("select"):
            await self._connection.execute(sql)
            return []
        if not values:
            return [tuple(row) for row in await self._connection.fetch(sql)]
        pieces = sql.split("?")
        numbered = "".join(f"{piece}${place}" for place, piece in enumerate(pieces[:-1], 1))
        found = await self._connection.fetch(numbered + pieces[-1], *values)
        return [tuple(row) for row in found]


class MariadbOwner(Owner):
    engine = "mariadb"
    insertion = "INSERT IGNORE INTO {} VALUES ({})"
    # Planning alone would compute what reads no table.
    endless = (
        "select benchmark(1000000000000, md5('slow')) as n"
        " from (select 1 as x union all select 2) as d limit 1"
    )

    async def open(self) -> None:
        self._database = urlsplit(self.own_url).path[1:]
        self._connection = await mysql_connection(self.own_url)

    async def close(self) -> None:
        await self._connection.ensure_closed()

    async def clear(self) -> None:
        await self.run(
            f"DROP DATABASE {self._database}",
            f"CREATE DATABASE {self._database} CHARACTER SET utf8mb4",
            f"USE {self._database}",
        )

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        async with self._connection.cursor() as cursor:
            if values:
                await cursor.execute(sql.replace("%", "%%").replace("?", "%s"), values)
            else:
                await cursor.execute(sql)
            return list(await cursor.fetchall())

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"


async def mysql_connection(url: str) -> Any:
    """Connect to MariaDB or MySQL in autocommit mode."""
    import asyncmy

    driver: Any = asyncmy
    parts = urlsplit(url)
    return await driver.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        db=parts.path[1:],
        autocommit=True,
        connect_timeout=int(PATIENCE_S),
    )


class DuckdbOwner(Owner):
    engine = "duckdb"
    prefix = "main/"
    endless = "select count(*) as n from range(1000000000000) as t(i) where hash(i) = 7"

    async def open(self) -> None:
        import duckdb

        self._connection = duckdb.connect(self.own_url.partition(":///")[2])
        self._connection.execute("SET TimeZone = 'UTC'")

    async def close(self) -> None:
        self._connection.close()

    async def clear(self) -> None:
        pass  # the file is the test's own

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values or None).fetchall()

    async def insert(self, table: str, *rows: Sequence[object]) -> None:
        keyed = await self.rows(
            "select 1 from duckdb_constraints() where table_name = ?"
            " and constraint_type in ('PRIMARY KEY', 'UNIQUE')",
            table,
        )
        self.insertion = Owner.insertion if keyed else "INSERT INTO {} VALUES ({})"
        await super().insert(table, *rows)


_DDL_OF_FIREBIRD = (
    (r"(?<= )(?<!sub_type )text(?=[ ,)]|$)", "varchar(2000)"),
    (r"(?<= )uuid(?=[ ,)]|$)", "char(36)"),
    (r"decimal\(20, 4\)", "decimal(18, 4)"),
    ("(?<=^alter table )(.*) (add|drop) column ", r"\1 \2 "),
    # Rows that are there take the default of a new column only if it refuses NULL.
    ("(?<=^alter table )(.* add .* default .*)", r"\1 not null"),
)
"""What it writes otherwise in definitions."""


class FirebirdOwner(Owner):
    engine = "firebird"
    insertion = "UPDATE OR INSERT INTO {} VALUES ({})"

    async def open(self) -> None:
        driver: Any = importlib.import_module("firebird.driver")
        parts = urlsplit(self.url)
        self._connection = driver.connect(
            f"inet://{parts.hostname}:{parts.port}/{parts.path[1:]}",
            user=parts.username,
            password=parts.password,
            charset="UTF8",
        )
        # It waits for a lock as long as for all else, so that a lock that is kept fails its test.
        begin = driver.tpb(driver.Isolation.SNAPSHOT, lock_timeout=int(PATIENCE_S))
        self._connection.default_tpb = self._connection.main_transaction.default_tpb = begin
        self._has_begun = False

    async def close(self) -> None:
        self._connection.close()

    async def clear(self) -> None:
        for names, drop in (
            ("select rdb$relation_name from rdb$relations where rdb$view_blr is not null"
             " and rdb$system_flag = 0 order by rdb$relation_id desc", "view"),
            ("select rdb$constraint_name, rdb$relation_name from rdb$relation_constraints"
             " where rdb$constraint_type = 'FOREIGN KEY'", "constraint"),
            ("select rdb$relation_name from rdb$relations where rdb$view_blr is null"
             " and rdb$system_flag = 0", "table"),
        ):  # fmt: skip
            for name, *of in await self.rows(names):
                quoted = super().quoted(name.rstrip())
                if of:
                    table = super().quoted(of[0].rstrip())
                    await self.run(f"alter table {table} drop constraint {quoted}")
                else:
                    await self.run(f"drop {drop} {quoted}")

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if sql.lower() in ("begin", "commit", "rollback"):
            self._has_begun = sql.lower() == "begin"
            self._end(sql.lower() != "rollback")
            return []
        if sql.startswith("drop table if exists "):
            sql = sql.replace("if exists ", "")
            name = sql.split()[-1].upper()
            if not await self.rows("select 1 from rdb$relations where rdb$relation_name = ?", name):
                return []
        if sql.startswith(("create table", "alter table")):
            for declared, here in _DDL_OF_FIREBIRD:
                sql = re.sub(declared, here, sql)
        found: list[tuple[Any, ...]] = []
        with self._connection.cursor() as cursor:
            # It inserts one row at a time.
            head, values_word, tail = sql.partition(" values (")
            several = tail.removesuffix(")").split("), (") if values_word and not values else [""]
            for each in several:
                cursor.execute(f"{head} values ({each})" if several[1:] else sql, values)
                found += cursor.fetchall() if cursor.description else []
        if not self._has_begun:
            self._end(True)
        return found

    def _end(self, is_kept: bool) -> None:
        if self._connection.main_transaction.is_active():
            self._connection.commit() if is_kept else self._connection.rollback()

    def quoted(self, name: str) -> str:
        # As it is without quotes, where it can be.
        words = importlib.import_module("sqlalchemy_firebird.fb_info30").RESERVED_WORDS
        is_plain = name.islower() and name.isidentifier() and name not in words
        return super().quoted(name.upper() if is_plain else name)


_OWNERS: dict[str, type[Owner]] = {
    "firebird": FirebirdOwner,
    "sqlite": SqliteOwner,
    "postgresql": PostgresOwner,
    "mysql": MariadbOwner,
    "mariadb": MariadbOwner,
    "duckdb": DuckdbOwner,
}


@asynccontextmanager
async def owner_of(url: str) -> AsyncGenerator[Owner]:
    """Connect to a database."""
    engine = engine_name(url)
    is_generic = engine == "generic"
    owner = _OWNERS[scheme_of(url)[0] if is_generic else engine](url)
    if is_generic:
        owner.is_generic, owner.prefix = True, ""
        owner.own_url = f"{scheme_of(url)[0]}://{url.partition('://')[2]}"
    await owner.open()
    try:
        yield owner
    finally:
        await owner.close()


async def numbered(owner: Owner, count: int) -> None:
    """Create the table `t` with `count` rows."""
    await owner.run("create table t (id integer primary key, name varchar(20))")
    await owner.insert("t", *((number, f"name {number}") for number in range(1, count + 1)))
