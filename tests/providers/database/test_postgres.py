"""PostgreSQL: what is read, and that nothing is written, by whatever a manifest's author says."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engine import Engine, Statement
from resource_server.providers.database.postgres import Postgres
from resource_server.providers.database.table import ForeignKey, Index, TableName
from tests.providers.database.servers import (
    Commits,
    assert_secrets_kept,
    attempt,
    eventually,
    proxy_to,
    server_url,
    skip_without,
    unique_name,
    with_parts,
)

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

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

HOSTILE = (
    "INSERT INTO victims VALUES (1000, 'x')",
    "INSERT INTO victims VALUES (1000, 'x') RETURNING id",
    "UPDATE victims SET name = ''",
    "DELETE FROM victims",
    "TRUNCATE victims",
    "DROP TABLE victims",
    "CREATE TABLE evil (x integer)",
    "CREATE TEMP TABLE evil (x integer)",
    "SELECT 1 INTO evil",
    "SELECT 1 AS x INTO TEMP evil",
    "WITH w AS (INSERT INTO victims VALUES (1000, 'x') RETURNING id) SELECT * FROM w",
    "WITH w AS (DELETE FROM victims RETURNING id) SELECT * FROM w",
    "WITH w AS (UPDATE victims SET name = '' RETURNING id) SELECT * FROM w",
    "MERGE INTO victims v USING victims w ON v.id = w.id WHEN MATCHED THEN DELETE",
    "SELECT writes()",
    "SELECT definer()",
    "SELECT runs('INSERT INTO victims VALUES (1000, ''x'')')",
    "SELECT runs('CREATE TEMP TABLE evil (x integer)')",
    "SELECT runs('SET TRANSACTION READ WRITE')",
    "SELECT runs('COMMIT')",
    "SELECT nextval('counter')",
    "SELECT setval('counter', 99)",
    "EXPLAIN ANALYZE INSERT INTO victims VALUES (1000, 'x')",
    "COMMIT",
    "COMMIT; INSERT INTO victims VALUES (1000, 'x')",
    "COMMIT; BEGIN; INSERT INTO victims VALUES (1000, 'x'); COMMIT",
    "SELECT 1; END; INSERT INTO victims VALUES (1000, 'x')",
    "SELECT 1) q; COMMIT; INSERT INTO victims VALUES (1000, 'x'); SELECT * FROM (SELECT 1",
    "SELECT 1) q; COMMIT; SELECT (1",
    "SELECT 1) AS q UNION ALL SELECT * FROM (SELECT 2",
    "SELECT 1 /*",
    "SELECT 1 --\n) q; DELETE FROM victims; --",
    "SET default_transaction_read_only = off; COMMIT; DELETE FROM victims",
    "SET default_transaction_read_only = off",
    "SET TRANSACTION READ WRITE",
    "SET transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET statement_timeout = 0",
    "RESET ALL",
    "DISCARD ALL",
    "LOCK TABLE victims IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM victims FOR UPDATE",
    "LISTEN evil",
    "NOTIFY evil",
    "PREPARE evil AS SELECT 1",
    "DECLARE evil CURSOR WITH HOLD FOR SELECT 1",
    "COPY victims TO PROGRAM 'true'",
    "COPY victims FROM '/etc/passwd'",
    "DO 'BEGIN DELETE FROM victims; END'",
    "CALL writes()",
    "VACUUM victims",
    "ANALYZE victims",
    "CLUSTER",
    "REINDEX TABLE victims",
    "REFRESH MATERIALIZED VIEW counted",
    "ALTER TABLE victims ADD COLUMN evil integer",
    "GRANT ALL ON victims TO PUBLIC",
    "SECURITY LABEL ON TABLE victims IS 'evil'",
    "COMMENT ON TABLE victims IS 'evil'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_reload_conf()",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('transaction_read_only', 'off', true), writes()",
    "SELECT query_to_xml('DELETE FROM victims', true, true, '')",
    "",
    ";",
    "\x00",
    ")",
)

PASSING = (
    # These run, since they are SELECTs; what they did must be gone afterwards.
    "SELECT lo_create(0)",
    "SELECT pg_notify('evil', 'x')",
    "SELECT pg_advisory_lock(42)",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT set_config('search_path', 'other', false)",
    "SELECT set_config('lock_timeout', '0', false)",
    "SELECT runs('PREPARE evil AS SELECT 1')",
    "SELECT runs('LISTEN evil')",
    "SELECT runs('DECLARE evil CURSOR WITH HOLD FOR SELECT 1')",
    "SELECT runs('SET ROLE none')",
    "SELECT setseed(0.5)",
)

ENDLESS = (
    "SELECT pg_sleep(60)",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
)

LEGITIMATE = (
    ("SELECT id, name FROM victims ORDER BY id", 10),
    ("SELECT id FROM victims -- all of them", 10),
    ("/* some */ SELECT id FROM victims WHERE id < 4", 3),
    ("VALUES (1), (2)", 2),
    ("TABLE victims", 10),
    ("WITH w AS (SELECT 1 AS x) SELECT * FROM w", 1),
    ("SELECT 'COMMIT; DELETE FROM victims'", 1),
    ("(SELECT 1) UNION ALL (SELECT 2)", 2),
    ("SELECT 1 AS a, 2 AS a", 1),
    ("SELECT id, count(*) OVER () FROM victims LIMIT 2", 2),
    ("SELECT pg_sleep(0.01)", 1),
    ("WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) TABLE r", 5),
)

STATE = """
SELECT current_setting('default_transaction_read_only'), current_setting('transaction_read_only'),
  current_setting('search_path'), current_setting('lock_timeout'), current_user,
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
  (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_prepared_statements),
  (SELECT count(*) FROM pg_cursors WHERE is_holdable),
  (SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname = 'evil'),
  pg_sleep(0.02)::text
"""


class Database:
    """The module's own database, with a login that may write all of it."""

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
        """Return what differs when anything was written."""
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


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    async def reach() -> None:
        await (await asyncpg.connect(ADMIN, timeout=5)).close()

    skip_without("PostgreSQL", reach)
    made = Database(unique_name(), unique_name())
    admin = urlsplit(ADMIN).path[1:]

    async def make() -> None:
        await made.execute(
            f"CREATE ROLE {made.role} LOGIN PASSWORD 'hunter2secret'", database=admin
        )
        await made.execute(f"CREATE DATABASE {made.name} OWNER {made.role}", database=admin)
        owner = f"SET ROLE {made.role}; "
        await made.execute(f"GRANT ALL ON SCHEMA public TO {made.role}")
        await made.execute(owner + SCHEMA)
        await made.execute(f"REVOKE ALL ON forbidden FROM {made.role}")

    async def drop() -> None:
        await made.execute(f"DROP DATABASE IF EXISTS {made.name} WITH (FORCE)", database=admin)
        await made.execute(f"DROP ROLE IF EXISTS {made.role}", database=admin)

    try:
        asyncio.run(make())
        yield made
    finally:
        asyncio.run(drop())


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[Postgres]:
    made = Postgres(database.url, interval=0.05)
    await made.open()
    yield made
    await made.close()


async def rows(engine: Engine, sql: str, *parameters: object, limit: int = 100) -> Any:
    return await engine.fetch(Statement(sql, parameters), limit=limit, within=10)


# The catalogue.


async def test_tables_are_those_a_user_would_count(engine: Postgres) -> None:
    found = {(info.name.schema, info.name.name): info for info in await engine.tables()}
    assert list(found) == [
        ("other", "hidden"),
        *(
            ("public", name)
            for name in (
                "codes",
                "counted",
                "customers",
                "days",
                "keyless",
                "names",
                "orders",
                "times",
                "victims",
            )
        ),
    ]
    assert found["public", "customers"].comment == "Who buys"
    assert found["public", "names"].type == "view"
    assert found["public", "counted"].type == "materialized view"


async def test_schemas_that_are_not_named_are_not_shown(database: Database) -> None:
    engine = Postgres(database.url, schemas=["other"])
    await engine.open()
    try:
        assert [info.name for info in await engine.tables()] == [TableName("other", "hidden")]
        assert (await engine.table(TableName("other", "hidden"))).key == ("id",)
        with pytest.raises(ResourceNotFound):
            await engine.table(TableName("public", "victims"))
    finally:
        await engine.close()


async def test_a_table_is_reflected_with_all_that_readers_need(engine: Postgres) -> None:
    table = await engine.table(TableName("public", "customers"))
    columns = {column.name: column for column in table.columns}
    assert table.key == ("id",)
    assert table.key_kind == "primary"
    assert table.comment == "Who buys"
    assert [(c.name, c.type, c.kind) for c in table.columns] == [
        ("id", "integer", "integer"),
        ("name", "text", "text"),
        ("feeling", "mood", "text"),
        ("size", "small", "integer"),
        ("tags", "text[]", "other"),
        ("valid", "tstzrange", "other"),
        ("balance", "numeric(10,2)", "numeric"),
        ("doubled", "integer", "integer"),
        ('odd "name', "jsonb", "json"),
    ]
    assert columns["feeling"].values == ("sad", "it's ok")
    assert columns["feeling"].comment == "How they are"
    assert columns["doubled"].generated
    assert columns["size"].default == "7"
    assert not columns["size"].nullable
    assert columns["name"].nullable is False
    assert columns["tags"].nullable


async def test_keys_are_primary_or_unique_and_never_null(engine: Postgres) -> None:
    async def key(name: str) -> tuple[tuple[str, ...], str]:
        table = await engine.table(TableName("public", name))
        return table.key, table.key_kind

    assert await key("orders") == (("region", "number"), "primary")
    assert await key("codes") == (("a", "b"), "unique")
    assert await key("keyless") == ((), "none")
    assert await key("names") == ((), "none")
    assert await key("days") == (("day", "id"), "primary")


async def test_foreign_keys_and_indexes_are_named(engine: Postgres) -> None:
    table = await engine.table(TableName("public", "orders"))
    referred = ForeignKey(("customer",), TableName("public", "customers"), ("id",))
    assert table.foreign_keys == (referred,)
    assert Index("by_lower", (None, "number")) in table.indexes


async def test_views_tell_their_definition_and_tables_have_none(engine: Postgres) -> None:
    view = await engine.table(TableName("public", "names"))
    assert "FROM customers" in (view.ddl or "")
    assert (await engine.table(TableName("public", "customers"))).ddl is None


@pytest.mark.parametrize(
    "name", ["days_2026", "absent", "forbidden", "pg_class", "Customers", "\x00"]
)
async def test_what_is_no_table_of_its_own_is_not_found(engine: Postgres, name: str) -> None:
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName("public", name))


async def test_a_chain_of_foreign_keys_is_not_followed(
    engine: Postgres, database: Database
) -> None:
    length = 2 * sys.getrecursionlimit() // 10
    chain = ["CREATE SCHEMA chain", "CREATE TABLE chain.t0 (id integer PRIMARY KEY)"]
    chain += [
        f"CREATE TABLE chain.t{n} (id integer PRIMARY KEY REFERENCES chain.t{n - 1})"
        for n in range(1, length)
    ]
    await database.execute(f"SET ROLE {database.role}; " + "; ".join(chain))
    try:
        table = await engine.table(TableName("chain", f"t{length - 1}"))
        assert [one.table.name for one in table.foreign_keys] == [f"t{length - 2}"]
    finally:
        await database.execute("DROP SCHEMA chain CASCADE")


async def test_the_estimate_is_that_of_the_statistics(engine: Postgres, database: Database) -> None:
    assert await engine.estimate(TableName("public", "names")) is None
    assert await engine.estimate(TableName("public", "keyless")) is None
    await database.execute("ANALYZE victims")
    assert await engine.estimate(TableName("public", "victims")) == 50


SCHEMA_CHANGES = (
    "CREATE TABLE made (id integer)",
    "ALTER TABLE keyless ADD COLUMN made integer",
    "ALTER TABLE keyless RENAME COLUMN made TO renamed",
    "ALTER TABLE keyless ALTER COLUMN renamed SET DEFAULT 5",
    "COMMENT ON COLUMN keyless.x IS 'told'",
    "ALTER TYPE mood ADD VALUE 'new'",
    "CREATE INDEX ON keyless (x)",
    "DROP TABLE made",
)


async def test_the_schema_state_differs_after_every_change_of_the_schema(
    engine: Postgres, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.execute("UPDATE victims SET name = name WHERE id = 1")
        assert await engine.schema_state() == before
        await database.execute(f"SET ROLE {database.role}; {change}")
        assert await engine.schema_state() != before, change


async def test_privileges_name_what_goes_beyond_reading(
    engine: Postgres, database: Database
) -> None:
    names = [privilege.name for privilege in await engine.privileges()]
    assert "INSERT on public.victims" in names
    assert "TRUNCATE on public.victims" in names
    assert "CREATE on schema public" in names
    assert "SUPERUSER" not in names
    superuser = Postgres(with_parts(ADMIN, database=database.name))
    await superuser.open()
    try:
        found = [privilege.name for privilege in await superuser.privileges()]
        assert "SUPERUSER" in found
        assert not any(" on " in name for name in found)
    finally:
        await superuser.close()


# Reading.


async def test_rows_are_cut_at_the_limit_and_say_so(engine: Postgres) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)


async def test_no_rows_have_columns(engine: Postgres) -> None:
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", -1)
    assert found == (("id", "name"), [], False)
    asked = await engine.query(Statement("SELECT id FROM victims WHERE false"), limit=5, within=5)
    assert asked == (("id",), [], False)


async def test_times_that_python_does_not_have_are_text(engine: Postgres) -> None:
    found = await rows(engine, "SELECT d, t, z, c, i, a FROM times ORDER BY id")
    utc = datetime.UTC
    assert found.rows == [
        (
            datetime.date(2026, 11, 20),
            datetime.datetime(2026, 11, 20, 10),  # noqa: DTZ001
            datetime.datetime(2026, 11, 20, 10, 0, 0, 500000, utc),
            datetime.time(10),
            "1 mon 3 days",
            [datetime.datetime(2026, 11, 20, 10, tzinfo=utc), None],
        ),
        (
            "infinity",
            "-infinity",
            "infinity",
            "24:00:00",
            "-1 years -2 mons +3 days -04:05:06.5",
            ["infinity"],
        ),
        (
            "0044-03-15 BC",
            "0044-03-15 12:00:00.25 BC",
            "12026-01-01 00:00:00+00",
            datetime.time(0),
            "00:00:00",
            [],
        ),
    ]


@pytest.mark.parametrize("column", ["d", "t", "z", "c", "i"])
async def test_a_value_that_was_read_finds_its_row(engine: Postgres, column: str) -> None:
    found = await rows(engine, f"SELECT id, {column}, {column}::text FROM times ORDER BY id")
    for number, value, text in found.rows:
        again = await rows(engine, f"SELECT id FROM times WHERE {column} = $1", value)
        assert (number,) in again.rows
        if isinstance(value, str):
            assert value == text


async def test_other_values_come_as_the_driver_has_them(engine: Postgres) -> None:
    found = await rows(
        engine,
        "SELECT 1.10::numeric, 'x'::name, '{\"a\": 1}'::jsonb, '\\x00ff'::bytea,"
        " 9223372036854775807, 'NaN'::numeric, true, NULL",
    )
    assert found.rows[0][:5] == (Decimal("1.10"), "x", '{"a": 1}', b"\x00\xff", 2**63 - 1)
    assert found.rows[0][5].is_nan()
    assert found.rows[0][6:] == (True, None)


@pytest.mark.parametrize("value", [2**70, "text", object(), "\x00"])
async def test_a_value_that_does_not_fit_is_an_invalid_parameter(
    engine: Postgres, value: object
) -> None:
    with pytest.raises(InvalidParameter):
        await rows(engine, "SELECT 1 FROM victims WHERE id = $1", value)
    assert (await rows(engine, "SELECT 1 FROM victims WHERE id = $1", 5)).rows == [(1,)]


async def test_a_table_altered_while_its_statement_is_known_is_read_again(
    engine: Postgres, database: Database
) -> None:
    await database.execute(f"SET ROLE {database.role}; CREATE TABLE alters AS SELECT 1 AS x")
    select = "SELECT * FROM alters"
    assert (await rows(engine, select)).columns == ("x",)
    await database.execute("ALTER TABLE alters ALTER x TYPE text; ALTER TABLE alters ADD y mood")
    assert await rows(engine, select) == (("x", "y"), [("1", None)], False)
    await database.execute("DROP TABLE alters")
    with pytest.raises(ResourceBusy):
        await rows(engine, select)


async def test_a_locked_table_is_busy_and_others_are_read(
    engine: Postgres, database: Database
) -> None:
    connection = await asyncpg.connect(with_parts(ADMIN, database=database.name))
    try:
        await connection.execute("BEGIN; LOCK TABLE victims IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ResourceBusy):
            await rows(engine, "SELECT * FROM victims")
        assert (await rows(engine, "SELECT count(*) FROM orders")).rows == [(0,)]
    finally:
        await connection.close()


async def test_our_own_statements_cannot_write_either(engine: Postgres, database: Database) -> None:
    before = await database.checksum()
    for sql in (
        "SELECT writes()",
        "SELECT definer()",
        "DELETE FROM victims",
        "SELECT nextval('counter')",
        "SET TRANSACTION READ WRITE",
    ):
        with pytest.raises(InvalidParameter):
            await rows(engine, sql)
    await rows(engine, "SELECT pg_advisory_lock(43)")
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 43"
    assert (await rows(engine, held)).rows == [(0,)]
    assert await database.checksum() == before


# What authors may say.


async def test_hostile_queries_write_nothing_and_leave_nothing_behind(
    engine: Postgres, database: Database
) -> None:
    async def states() -> set[tuple[object, ...]]:
        # As many as there are connections, each takes one.
        asked = (engine.query(Statement(STATE), limit=1, within=10) for _ in range(2))
        return {row for found in await asyncio.gather(*asked) for row in found.rows}

    before = await database.checksum()
    state = await states()
    assert len(state) == 1
    for sql in HOSTILE:
        assert await attempt(engine, sql) == "refused", sql
    for sql in PASSING:
        assert await attempt(engine, sql) in {"answered", "refused"}, sql
        assert await states() == state, sql
    assert await states() == state
    assert await database.checksum() == before


async def test_hostile_queries_are_not_run_by_a_check(engine: Postgres, database: Database) -> None:
    before = await database.checksum()
    for sql in (*HOSTILE, *PASSING, *ENDLESS):
        with contextlib.suppress(ValueError):
            await engine.check(sql, [])
    assert await database.checksum() == before


async def test_endless_queries_are_stopped_on_the_server_too(
    engine: Postgres, database: Database
) -> None:
    for sql in ENDLESS:
        assert await attempt(engine, sql) == "stopped"

    async def idle() -> bool:
        running = await database.run(
            "SELECT pid FROM pg_stat_activity WHERE usename = "
            f"'{database.role}' AND state <> 'idle'"
        )
        return not running

    await eventually(idle)
    assert (await rows(engine, "SELECT count(*) FROM victims")).rows == [(50,)]


@pytest.mark.parametrize(("sql", "count"), LEGITIMATE)
async def test_the_nearest_legitimate_query_is_answered(
    engine: Postgres, sql: str, count: int
) -> None:
    found = await engine.query(Statement(sql), limit=10, within=10)
    assert len(found.rows) == count
    assert await engine.check(sql, []) == found.columns


async def test_a_query_takes_parameters_and_says_what_it_lacks(engine: Postgres) -> None:
    sql = "SELECT name FROM victims WHERE id = $1 OR name = $2 ORDER BY 1"
    found = await engine.query(Statement(sql, (3, "name 5")), limit=1, within=5)
    assert found == (("name",), [("name 3",)], True)
    assert await engine.check(sql, ["id", "name"]) == ("name",)
    with pytest.raises(ValueError, match="2 parameters, 1"):
        await engine.check(sql, ["id"])
    with pytest.raises(ValueError, match='column "nmae" does not exist'):
        await engine.check("SELECT nmae FROM victims", [])
    with pytest.raises(InvalidParameter):
        await engine.query(Statement(sql, ("three", "x")), limit=1, within=5)


# Limits.


async def test_stuck_queries_do_not_delay_rows(engine: Postgres) -> None:
    sleeps = [
        asyncio.create_task(engine.query(Statement("SELECT pg_sleep(60)"), limit=1, within=60))
        for _ in range(6)
    ]
    slow = [
        asyncio.create_task(
            engine.fetch(Statement("SELECT pg_sleep(60)"), limit=1, within=60, lane="slow")
        )
        for _ in range(6)
    ]
    await asyncio.sleep(0)
    found = await rows(engine, "SELECT count(*) FROM victims")
    assert found.rows == [(50,)]
    for task in (*sleeps, *slow):
        task.cancel()
    await asyncio.gather(*sleeps, *slow, return_exceptions=True)


async def test_too_many_requests_are_turned_away(engine: Postgres) -> None:
    async def one() -> str:
        try:
            await engine.fetch(Statement("SELECT pg_sleep(0.5)"), limit=1, within=0.4)
        except (ResourceBusy, DeadlineExceeded) as error:
            return type(error).__name__
        return "answered"

    outcomes = await asyncio.gather(*(one() for _ in range(200)))
    assert outcomes.count("ResourceBusy") >= 200 - 4 - 64
    assert (await rows(engine, "SELECT 1")).rows == [(1,)]


async def test_what_a_cancelled_caller_asked_is_stopped(
    engine: Postgres, database: Database
) -> None:
    # The server would stop it by itself much later.
    sleep = Statement("SELECT pg_sleep(600) AS cancelled")
    task = asyncio.create_task(engine.fetch(sleep, limit=1, within=600))
    running = (
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%AS cancelled' AND state = 'active'"
        " AND pid <> pg_backend_pid()"
    )

    async def runs() -> bool:
        return bool(await database.run(running))

    async def stopped() -> bool:
        return not await runs()

    await eventually(runs)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(stopped)


async def test_closing_stops_what_runs(database: Database) -> None:
    engine = Postgres(database.url)
    await engine.open()
    task = asyncio.create_task(
        engine.query(Statement("SELECT pg_sleep(60) AS closing"), limit=1, within=60)
    )
    connected = f"SELECT pid FROM pg_stat_activity WHERE usename = '{database.role}'"

    async def runs() -> bool:
        return bool(await database.run(connected + " AND query LIKE '%closing%'"))

    async def gone() -> bool:
        return not await database.run(connected)

    await eventually(runs)
    await engine.close()
    with pytest.raises(DeadlineExceeded):
        await task
    await eventually(gone)


# Failures.


UNUSABLE: list[tuple[Callable[[str], str], str]] = [
    (lambda url: with_parts(url, login="nobody_zq:hunter2secret"), "refuses the login"),
    (lambda url: with_parts(url, database="absent_zq"), "no such database"),
    (lambda url: with_parts(url, port=1), "cannot be reached"),
    (lambda url: url.replace("127.0.0.1", "absent-zq.invalid"), "cannot be reached"),
    (lambda url: url + "?hunter2option=1", "options of the URL"),
    (lambda _: "postgresql://user:hunter2secret@[:1/x", "cannot be re"),
    (lambda _: "hunter2secret", "cannot be read"),
    (lambda url: with_parts(url, port=99999), "cannot be"),
]


@pytest.mark.parametrize(("change", "says"), UNUSABLE)
async def test_a_database_that_cannot_be_opened_is_unavailable_and_keeps_its_secrets(
    database: Database,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[str], str],
    says: str,
) -> None:
    caplog.set_level(0)
    engine = Postgres(change(database.url))
    with pytest.raises(MountUnavailable, match=says) as raised:
        await engine.open()
    await engine.close()
    secret = ("hunter2", "nobody_zq", "absent_zq", "absent-zq", "127.0.0.1", database.role)
    assert_secrets_kept(raised.value, caplog, *secret)


async def test_a_missing_driver_names_what_brings_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MountUnavailable, match=r"pip install 'resource-server\[postgres\]'"):
        await Postgres(database.url).open()


async def test_a_server_that_goes_and_comes_back_is_used_again(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        engine = Postgres(with_parts(database.url, port=proxy.port))
        await engine.open()
        try:
            await asyncio.gather(*(rows(engine, "SELECT pg_sleep(0.1)") for _ in range(4)))
            running = asyncio.create_task(rows(engine, "SELECT pg_sleep(60)"))
            await asyncio.sleep(0.3)
            await proxy.cut()
            with pytest.raises(ResourceBusy) as lost:
                await running
            with pytest.raises(MountUnavailable) as unreachable:
                await rows(engine, "SELECT 1")
            await proxy.restore()
            assert (await rows(engine, "SELECT 1")).rows == [(1,)]
        finally:
            await engine.close()
    for error in (lost.value, unreachable.value):
        assert_secrets_kept(error, caplog, "hunter2", database.role, database.name, "127.0.0.1")


async def test_connections_that_died_while_idle_are_replaced(
    engine: Postgres, database: Database
) -> None:
    await asyncio.gather(*(rows(engine, "SELECT pg_sleep(0.1)") for _ in range(4)))
    await database.run(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{database.role}'"
    )
    for _ in range(6):
        assert (await rows(engine, "SELECT 1")).rows == [(1,)]


# Changes.


async def test_every_commit_is_noticed_and_nothing_else(
    engine: Postgres, database: Database
) -> None:
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        for sql in (
            "UPDATE victims SET name = 'changed' WHERE id = 50",
            "CREATE TABLE noticed (x integer)",
            "DROP TABLE noticed",
        ):
            seen = commits.seen
            await database.execute(sql)
            await commits.beyond(seen)
        connection = await asyncpg.connect(with_parts(ADMIN, database=database.name))
        await connection.execute("BEGIN; UPDATE victims SET name = 'later' WHERE id = 49")
        await commits.quiet(0.5)
        seen = commits.seen
        await connection.execute("COMMIT")
        await connection.close()
        await commits.beyond(seen)
    finally:
        await commits.stop()


async def test_reading_is_no_commit(engine: Postgres, database: Database) -> None:
    # The snapshot is the whole cluster's, where other tests write.
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        await commits.quiet(0.3)
    finally:
        await commits.stop()


async def test_a_notification_wakes_the_watch_long_before_its_next_look(
    database: Database,
) -> None:
    engine = Postgres(database.url, interval=20.0, notify=True, channel="changed now")
    await engine.open()
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        seen = commits.seen
        async with asyncio.timeout(10):
            await database.execute(
                "UPDATE victims SET name = 'told' WHERE id = 48; NOTIFY \"changed now\""
            )
            await commits.beyond(seen)
    finally:
        await commits.stop()
        await engine.close()


@pytest.mark.parametrize("notify", [False, True])
async def test_what_was_committed_while_the_server_was_away_is_told_of(
    database: Database, *, notify: bool
) -> None:
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        url = with_parts(database.url, port=proxy.port)
        engine = Postgres(url, interval=0.05, notify=notify)
        await engine.open()
        commits = Commits(engine)
        try:
            await commits.beyond(0)
            await proxy.cut()
            await database.execute("UPDATE victims SET name = 'away' WHERE id = 47")
            # As long as it takes to try in vain.
            await asyncio.sleep(0.3)
            seen = commits.seen
            await proxy.restore()
            await commits.beyond(seen)
            seen = commits.seen
            await database.execute("UPDATE victims SET name = 'again' WHERE id = 47")
            await commits.beyond(seen)
        finally:
            await commits.stop()
            await engine.close()
