"""A database of PostgreSQL for the tests of one module, with a login that may write it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from resource_server.providers.database.engines.contract import Engine, Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from tests.providers.database.servers import (
    server_url,
    skip_without,
    unique_name,
    with_parts,
)
from tests.waiting import PATIENCE_S

asyncpg: Any = pytest.importorskip("asyncpg")

ADMIN = server_url("RESOURCE_SERVER_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")

SCHEMA = """
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok');
CREATE DOMAIN positive AS integer CHECK (value > 0);
CREATE DOMAIN small AS positive NOT NULL CHECK (value < 100);
CREATE TABLE customers (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  feeling mood,
  size small DEFAULT 7,
  tags text[],
  valid tstzrange,
  balance numeric(10, 2),
  doubled integer GENERATED ALWAYS AS (1 + 1) STORED,
  "odd ""name" jsonb);
COMMENT ON TABLE customers IS 'Who buys';
COMMENT ON COLUMN customers.feeling IS 'How they are';
CREATE TABLE orders (
  region text, number integer, customer integer REFERENCES customers (id),
  PRIMARY KEY (region, number));
CREATE UNIQUE INDEX ON orders (customer) WHERE customer > 5;
CREATE INDEX by_lower ON orders (lower(region), number DESC);
CREATE TABLE codes (a integer NOT NULL, b integer NOT NULL, c integer UNIQUE, UNIQUE (a, b));
CREATE TABLE keyless (x integer);
CREATE TABLE days (day date, id integer, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE days_2026 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE other.hidden (id integer PRIMARY KEY);
CREATE TABLE forbidden (id integer PRIMARY KEY);
CREATE VIEW names AS SELECT id, name FROM customers;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM customers;
CREATE SEQUENCE counter;
CREATE TABLE times (id integer PRIMARY KEY, d date, t timestamp, z timestamptz, c time, i interval,
  r daterange, a timestamptz[]);
CREATE TABLE victims (id integer PRIMARY KEY, name text);
INSERT INTO victims SELECT n, 'name ' || n FROM generate_series(1, 50) n;
INSERT INTO customers (name, feeling, tags, valid, balance) VALUES
  ('Ann', 'sad', '{a,b}', '[2026-01-01,infinity)', 1.10), ('Bob', NULL, NULL, NULL, 'NaN');
INSERT INTO times VALUES
  (1, '2026-11-20', '2026-11-20 10:00', '2026-11-20 10:00:00.5+00', '10:00', '1 mon 3 days',
   '[2026-01-01,2026-02-01)', '{2026-11-20 10:00+00,NULL}'),
  (2, 'infinity', '-infinity', 'infinity', '24:00', '-1 year -2 mons +3 days -04:05:06.5',
   '[2026-01-01,infinity)', '{infinity}'),
  (3, '0044-03-15 BC', '0044-03-15 12:00:00.25 BC', '12026-01-01 00:00+00', '00:00', '0',
   'empty', '{}');
CREATE FUNCTION writes() RETURNS integer LANGUAGE sql VOLATILE
  AS 'INSERT INTO victims VALUES (1000, ''x'') RETURNING id';
CREATE FUNCTION runs(words text) RETURNS integer LANGUAGE plpgsql
  AS 'BEGIN EXECUTE words; RETURN 1; END';
CREATE FUNCTION definer() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
  AS 'BEGIN DELETE FROM victims; RETURN 1; END';
"""


class Database:
    """A database of the test module, with a login that may write all of it."""

    def __init__(self, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self.url = with_parts(ADMIN, database=name, login=f"{role}:hunter2secret")

    async def run(self, sql: str) -> list[Any]:
        connection = await asyncpg.connect(with_parts(ADMIN, database=self.name))
        try:
            return list(await connection.fetch(sql) if sql.startswith("SELECT") else ())
        finally:
            await connection.close()

    async def execute(self, sql: str, *, database: str | None = None) -> None:
        connection = await asyncpg.connect(with_parts(ADMIN, database=database or self.name))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def checksum(self) -> object:
        """Return a value that changes with every write."""
        tables = await self.run(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'other') ORDER BY 1"
        )
        contents = [
            tuple(
                (
                    await self.run(
                        f"SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM {t} t"
                    )
                )[0]
            )
            for t in ("victims", "customers", "orders", "times")
        ]
        others = await self.run(
            """SELECT (SELECT count(*) FROM pg_largeobject_metadata),
            (SELECT last_value FROM counter), (SELECT is_called FROM counter),
            (SELECT obj_description('victims'::regclass)),
            (SELECT relacl::text FROM pg_class WHERE oid = 'victims'::regclass)"""
        )
        return [row[0] for row in tables], contents, tuple(others[0])


@contextlib.contextmanager
def postgres_database() -> Generator[Database]:
    """Create a database with `SCHEMA`, and drop it at the end."""
    with empty_postgres_database() as made:

        async def fill() -> None:
            await made.execute(f"SET ROLE {made.role}; {SCHEMA}")
            await made.execute(f"REVOKE ALL ON forbidden FROM {made.role}")

        asyncio.run(fill())
        yield made


@contextlib.contextmanager
def empty_postgres_database() -> Generator[Database]:
    """Create a database and a login with unique names, and drop them at the end."""

    async def reach() -> None:
        await (await asyncpg.connect(ADMIN, timeout=PATIENCE_S)).close()

    skip_without("PostgreSQL", reach)
    made = Database(unique_name(), unique_name())
    admin = urlsplit(ADMIN).path[1:]

    async def make() -> None:
        await made.execute(
            f"CREATE ROLE {made.role} LOGIN PASSWORD 'hunter2secret'", database=admin
        )
        await made.execute(f"CREATE DATABASE {made.name} OWNER {made.role}", database=admin)
        await made.execute(f"ALTER SCHEMA public OWNER TO {made.role}")

    async def drop() -> None:
        await made.execute(f"DROP DATABASE IF EXISTS {made.name} WITH (FORCE)", database=admin)
        await made.execute(f"DROP ROLE IF EXISTS {made.role}", database=admin)

    try:
        asyncio.run(make())
        yield made
    finally:
        asyncio.run(drop())


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """The test module's database, which `engine` reads."""
    with postgres_database() as made:
        yield made


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[PostgresEngine]:
    made = PostgresEngine(database.url, interval=0.05)
    await made.open()
    yield made
    await made.close()


async def rows(engine: Engine, sql: str, *parameters: object, limit: int = 100) -> Any:
    return await engine.run_own(Statement(sql, parameters), limit=limit, within=PATIENCE_S)
