"""Hostile queries on PostgreSQL: none writes, and none leaves anything in a session."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from resource_server.errors import (
    InvalidParameter,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import Database, rows
from tests.providers.database.servers import (
    attempt,
)
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine

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
    # These are SELECTs, so they run; their effects must be gone afterwards.
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
    "SELECT pg_sleep(600)",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(600)",
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


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_hostile_queries_write_nothing_and_leave_no_state(
    engine: PostgresEngine, database: Database
) -> None:
    async def states() -> set[tuple[object, ...]]:
        # One query for each connection of the pool.
        asked = (
            engine.run_authored(Statement(STATE), limit=1, within=PATIENCE_S) for _ in range(2)
        )
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


async def test_hostile_queries_are_not_run_by_a_check(
    engine: PostgresEngine, database: Database
) -> None:
    before = await database.checksum()
    for sql in (*HOSTILE, *PASSING, *ENDLESS):
        with contextlib.suppress(ValueError):
            await engine.check_authored(sql, [])
    assert await database.checksum() == before


async def test_endless_queries_are_also_stopped_on_the_server(
    engine: PostgresEngine, database: Database
) -> None:
    for sql in ENDLESS:
        assert await attempt(engine, sql) == "stopped"

    async def idle() -> bool:
        running = await database.run(
            "SELECT pid FROM pg_stat_activity WHERE usename = "
            f"'{database.role}' AND state <> 'idle'"
        )
        return not running

    await until(idle)
    assert (await rows(engine, "SELECT count(*) FROM victims")).rows == [(50,)]


@pytest.mark.parametrize(("sql", "count"), LEGITIMATE)
async def test_legitimate_queries_close_to_hostile_ones_run(
    engine: PostgresEngine, sql: str, count: int
) -> None:
    found = await engine.run_authored(Statement(sql), limit=10, within=PATIENCE_S)
    assert len(found.rows) == count
    assert await engine.check_authored(sql, []) == found.columns


async def test_a_query_takes_parameters_and_reports_wrong_ones(engine: PostgresEngine) -> None:
    sql = "SELECT name FROM victims WHERE id = $1 OR name = $2 ORDER BY 1"
    found = await engine.run_authored(Statement(sql, (3, "name 5")), limit=1, within=PATIENCE_S)
    assert found == (("name",), [("name 3",)], True)
    assert await engine.check_authored(sql, ["id", "name"]) == ("name",)
    with pytest.raises(ValueError, match="2 parameters, 1"):
        await engine.check_authored(sql, ["id"])
    with pytest.raises(ValueError, match='column "nmae" does not exist'):
        await engine.check_authored("SELECT nmae FROM victims", [])
    with pytest.raises(InvalidParameter):
        await engine.run_authored(Statement(sql, ("three", "x")), limit=1, within=PATIENCE_S)
