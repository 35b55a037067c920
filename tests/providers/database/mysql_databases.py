"""A database of MariaDB or MySQL for the tests of one module, with a login that may write it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from tests.providers.database.owners import mysql_connection
from tests.providers.database.servers import (
    server_url,
    skip_without,
    unique_name,
    with_parts,
)
from tests.waiting import PATIENCE_S

pytest.importorskip("asyncmy")

ADMIN = server_url("RESOURCE_SERVER_TEST_MYSQL", "mysql://root@127.0.0.1:3306/mysql")

SCHEMA = r"""
CREATE TABLE customers (
  id int AUTO_INCREMENT PRIMARY KEY COMMENT 'Which one',
  name varchar(100) NOT NULL,
  feeling enum('sad', 'it''s ok'),
  letters set('x', 'y'),
  size int DEFAULT 7,
  balance decimal(10, 2),
  doubled int GENERATED ALWAYS AS (size * 2) STORED,
  facts json,
  happy boolean,
  flags bit(5),
  made datetime(3),
  day date,
  took time(2),
  picture blob,
  ratio double,
  `odd ``"name` text) ENGINE=InnoDB COMMENT 'Who buys';
CREATE TABLE orders (
  region varchar(20) NOT NULL, number int NOT NULL, customer int,
  PRIMARY KEY (region, number), KEY by_number (number),
  CONSTRAINT bought FOREIGN KEY (customer) REFERENCES customers (id)) ENGINE=InnoDB;
CREATE TABLE codes (a int NOT NULL, b int NOT NULL, c int UNIQUE, long_one varchar(200) NOT NULL,
  UNIQUE (long_one(5)), UNIQUE (a, b)) ENGINE=InnoDB;
CREATE TABLE keyless (x int) ENGINE=InnoDB;
CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM;
CREATE VIEW names AS SELECT id, name FROM customers;
CREATE TABLE victims (id int PRIMARY KEY, name varchar(100)) ENGINE=InnoDB;
INSERT INTO customers (name, feeling, letters, balance, facts, happy, flags, made, took, picture,
  ratio) VALUES ('Ann', 'sad', 'x,y', 1.10, '{"a": 1}', true, b'101', '2026-11-20 10:00:00.5',
  '-838:59:59', x'00ff', 0.1), ('Bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE FUNCTION writes() RETURNS int MODIFIES SQL DATA
  BEGIN INSERT INTO victims VALUES (1000, 'x')| RETURN 1| END;
CREATE FUNCTION writes_old() RETURNS int MODIFIES SQL DATA
  BEGIN INSERT INTO old VALUES (1000)| RETURN 1| END;
CREATE FUNCTION sets_mode() RETURNS int
  BEGIN SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'| RETURN 1| END;
CREATE FUNCTION sets_limit() RETURNS int
  BEGIN SET SESSION group_concat_max_len = 5| RETURN 1| END;
CREATE FUNCTION sets_variable() RETURNS int BEGIN SET @evil = 5| RETURN 1| END
"""


class Database:
    """A database of the test module, with a login that may write all of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.user = name
        self.url = with_parts(ADMIN, database=name, login=f"{name}:hunter2secret")

    async def run(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as the administrator and return the rows of the last."""
        connection = await connect(self.name if database is None else database)
        try:
            async with connection.cursor() as cursor:
                for sql in statements:
                    await cursor.execute(sql)
                return list(await cursor.fetchall())
        finally:
            await connection.ensure_closed()

    async def checksum(self) -> object:
        """Return a value that changes with every write."""
        tables = await self.run("SHOW FULL TABLES")
        sums = await self.run("CHECKSUM TABLE victims, customers, orders, codes, keyless, old")
        created = await self.run("SHOW CREATE TABLE victims")
        users = await self.run("SELECT COUNT(*) FROM mysql.user WHERE user = 'evil'")
        return tables, sums, created, users


async def connect(database: str) -> Any:
    return await mysql_connection(with_parts(ADMIN, database=database))


@contextlib.contextmanager
def mysql_database() -> Generator[Database]:
    """Create a database with `SCHEMA`, and drop it at the end."""
    with empty_mysql_database() as made:

        async def fill() -> None:
            await made.run(*(part.replace("|", ";") for part in SCHEMA.split(";\n")))
            rows = ", ".join(f"({number}, 'name {number}')" for number in range(1, 51))
            await made.run(f"INSERT INTO victims VALUES {rows}")

        asyncio.run(fill())
        yield made


@contextlib.contextmanager
def empty_mysql_database() -> Generator[Database]:
    """Create a database and a login with unique names, and drop them at the end."""

    async def reach() -> None:
        await (await connect("mysql")).ensure_closed()

    skip_without("MariaDB or MySQL", reach)
    made = Database(unique_name())

    async def make() -> None:
        await made.run(
            f"CREATE DATABASE {made.name} CHARACTER SET utf8mb4",
            f"CREATE USER {made.user} IDENTIFIED BY 'hunter2secret'",
            f"GRANT ALL ON {made.name}.* TO {made.user}",
            database="mysql",
        )

    async def drop() -> None:
        await made.run(
            f"DROP DATABASE IF EXISTS {made.name}",
            f"DROP USER IF EXISTS {made.user}",
            database="mysql",
        )

    try:
        asyncio.run(make())
        yield made
    finally:
        asyncio.run(drop())


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """The test module's database, which `engine` reads."""
    with mysql_database() as made:
        yield made


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[MysqlEngine]:
    made = MysqlEngine(database.url, interval=0.1)
    await made.open()
    yield made
    await made.close()


async def rows(engine: Engine, sql: str, *parameters: object, limit: int = 100) -> Any:
    return await engine.run_own(Statement(sql, parameters), limit=limit, within=PATIENCE_S)
