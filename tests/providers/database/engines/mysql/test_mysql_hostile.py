"""Hostile queries on MariaDB or MySQL: none writes, and none leaves anything in a session."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from tests.providers.database import mysql_databases
from tests.providers.database.mysql_databases import ADMIN, Database, rows
from tests.providers.database.servers import (
    attempt,
    with_parts,
)
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

database, engine = mysql_databases.database, mysql_databases.engine

HOSTILE = (
    "INSERT INTO victims VALUES (1000, 'x')",
    "INSERT INTO victims VALUES (1000, 'x') RETURNING id",
    "REPLACE INTO victims VALUES (1, 'x')",
    "UPDATE victims SET name = ''",
    "DELETE FROM victims",
    "DELETE FROM victims RETURNING id",
    "TRUNCATE victims",
    "DROP TABLE victims",
    "CREATE TABLE evil (x int)",
    "CREATE TEMPORARY TABLE evil (x int)",
    "CREATE TABLE evil AS SELECT 1",
    "ALTER TABLE victims ADD COLUMN evil int",
    "RENAME TABLE victims TO evil",
    "WITH w AS (SELECT 1) DELETE FROM victims",
    "SELECT writes()",
    "SELECT writes_old()",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "COMMIT; DELETE FROM victims",
    "SELECT 1; DELETE FROM victims",
    "SELECT 1) q; DELETE FROM victims; SELECT * FROM (SELECT 1",
    "SELECT 1) q UNION SELECT * FROM (SELECT 2",
    "SELECT 1 INTO OUTFILE '/tmp/resource_server_evil'",
    "SELECT 1 INTO DUMPFILE '/tmp/resource_server_evil'",
    "SELECT 1 INTO @evil",
    "SELECT 1) q UNION SELECT 2 INTO OUTFILE '/tmp/resource_server_evil' FROM (SELECT 3",
    "SELECT 1) q INTO OUTFILE '/tmp/resource_server_evil' #",
    "SELECT 1 /*",
    "SELECT 1 /*!, 2) q; DELETE FROM victims */",
    "SELECT 1 #\n) q; DELETE FROM victims #",
    "SELECT 1 -- \n) q; DELETE FROM victims -- ",
    "SET SESSION TRANSACTION READ WRITE",
    "SET @@tx_read_only = 0",
    "SET @@transaction_read_only = 0",
    "SET SESSION max_statement_time = 0",
    "SET GLOBAL max_connections = 1",
    "SET @evil = 1",
    "SET autocommit = 0",
    "START TRANSACTION READ WRITE",
    "LOCK TABLES victims WRITE",
    "FLUSH TABLES WITH READ LOCK",
    "ANALYZE TABLE victims",
    "OPTIMIZE TABLE victims",
    "CHECK TABLE victims",
    "HANDLER victims OPEN",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE victims",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE victims",
    "PREPARE evil FROM 'DELETE FROM victims'",
    "EXECUTE evil",
    "EXECUTE IMMEDIATE 'DELETE FROM victims'",
    "CALL nothing()",
    "DO SLEEP(0)",
    "KILL 1",
    "SHUTDOWN",
    "GRANT ALL ON *.* TO evil",
    "CREATE USER evil",
    "USE mysql",
    "SHOW TABLES",
    "DESCRIBE victims",
    "EXPLAIN SELECT 1",
    "INSTALL PLUGIN evil SONAME 'evil.so'",
    "",
    ";",
    ")",
    "%s",
    "SELECT %s",
    "SELECT %(x)s",
    "SELECT 100%",
)

PASSING = (
    # These are SELECTs, so they run; their effects must be gone afterwards.
    "SELECT GET_LOCK('evil', 0)",
    "SELECT @evil := 5",
    "SELECT sets_mode()",
    "SELECT sets_limit()",
    "SELECT sets_variable()",
    "SELECT LAST_INSERT_ID(77)",
    "SELECT id FROM victims FOR UPDATE",
    "SELECT id FROM victims LOCK IN SHARE MODE",
    "SELECT SQL_CALC_FOUND_ROWS id FROM victims",
    # NULL: the login lacks the privilege FILE.
    "SELECT LOAD_FILE('/etc/passwd')",
)

ENDLESS = (
    "SELECT SLEEP(600)",
    "SELECT BENCHMARK(1000000000000, MD5('x'))",
    "SELECT COUNT(*) FROM victims a, victims b, victims c, victims d, victims e, victims f,"
    " victims g, victims h WHERE a.name < b.name",
    "SELECT SUM(SLEEP(id)) AS s FROM victims",
)

LEGITIMATE = (
    ("SELECT id, name FROM victims ORDER BY id", 10),
    ("SELECT id FROM victims -- all of them", 10),
    ("SELECT id FROM victims # all of them", 10),
    ("/* some */ SELECT id FROM victims WHERE id < 4", 3),
    ("WITH w AS (SELECT 1 AS x) SELECT * FROM w", 1),
    ("SELECT 'COMMIT; DELETE FROM victims' AS x", 1),
    ("(SELECT 1 AS a) UNION ALL (SELECT 2)", 2),
    ("SELECT id, COUNT(*) OVER () AS n FROM victims LIMIT 2", 2),
    ("SELECT SLEEP(0.01) AS s", 1),
    ("SELECT name FROM victims WHERE name LIKE 'name 1%%'", 10),
    ("SELECT '?' AS mark", 1),
)

STATE = """
SELECT @@session.sql_mode AS m, @@group_concat_max_len AS g, @evil AS v,
  COALESCE(IS_USED_LOCK('evil') = CONNECTION_ID(), 0) AS l,
  LAST_INSERT_ID() AS i, DATABASE() AS d, @@autocommit AS a,
  @@character_set_client AS c, @@collation_connection AS o, SLEEP(0.02) AS s
"""


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_hostile_queries_write_nothing_and_leave_no_state(
    engine: MysqlEngine, database: Database
) -> None:
    async def states() -> set[tuple[object, ...]]:
        # One query for each connection of the pool.
        asked = (
            engine.run_authored(Statement(STATE), limit=1, within=PATIENCE_S) for _ in range(2)
        )
        return {row for found in await asyncio.gather(*asked) for row in found.rows}

    async def is_unlocked() -> bool:
        return await database.run("SELECT IS_USED_LOCK('evil')") == [(None,)]

    before = await database.checksum()
    state = await states()
    assert len(state) == 1
    for sql in HOSTILE:
        with contextlib.suppress(ValueError):
            assert await attempt(engine, sql) == "refused", sql
    for sql in PASSING:
        assert await attempt(engine, sql) in {"answered", "refused"}, sql
        assert await states() == state, sql
    assert await states() == state
    await until(is_unlocked)  # no connection that was left behind holds it
    assert await database.checksum() == before
    found = await engine.run_authored(
        Statement("SELECT LOAD_FILE('/etc/passwd') AS x"), limit=1, within=PATIENCE_S
    )
    assert found.rows == [(None,)]


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_the_server_refuses_two_statements_in_one_text(engine: MysqlEngine) -> None:
    # A canary: the flag that turns multi-statements off is a private member of asyncmy.
    for sql in ("SELECT 1; SELECT 2", "DO 1; SELECT 2"):
        with pytest.raises(ResourceUnreadable):
            await engine.run_own(Statement(sql), limit=1, within=PATIENCE_S)


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_a_login_with_the_file_privilege_writes_no_files(database: Database) -> None:
    engine = MysqlEngine(with_parts(ADMIN, database=database.name))
    await engine.open()
    try:
        for sql in HOSTILE:
            if " INTO OUTFILE " in sql or " INTO DUMPFILE " in sql:
                assert await attempt(engine, sql) == "refused", sql
        path = "/tmp/resource_server_evil"  # noqa: S108  # of the server, which has none
        found = await engine.run_authored(
            Statement("SELECT LOAD_FILE(%s) AS x", (path,)), limit=1, within=PATIENCE_S
        )
        assert found.rows == [(None,)]
    finally:
        await engine.close()


async def test_hostile_queries_are_not_run_by_a_check(
    engine: MysqlEngine, database: Database
) -> None:
    before = await database.checksum()
    for sql in (*HOSTILE, *PASSING, *ENDLESS):
        with contextlib.suppress(ValueError, DeadlineExceeded):
            await engine.check_authored(sql, [])
    assert await database.checksum() == before


async def test_endless_queries_are_also_stopped_on_the_server(
    engine: MysqlEngine, database: Database
) -> None:
    for sql in ENDLESS:
        assert await attempt(engine, sql) == "stopped", sql

    async def idle() -> bool:
        running = await database.run(
            "SELECT id FROM information_schema.processlist WHERE command <> 'Sleep' AND user ="
            f" '{database.user}'"
        )
        return not running

    await until(idle)
    assert (await rows(engine, "SELECT COUNT(*) FROM victims")).rows == [(50,)]


@pytest.mark.parametrize(("sql", "count"), LEGITIMATE)
async def test_legitimate_queries_close_to_hostile_ones_run(
    engine: MysqlEngine, sql: str, count: int
) -> None:
    found = await engine.run_authored(Statement(sql), limit=10, within=PATIENCE_S)
    assert len(found.rows) == count
    assert await engine.check_authored(sql, []) is None


async def test_a_query_is_checked_without_being_run(engine: MysqlEngine) -> None:
    endless = "SELECT SLEEP(3600), BENCHMARK(1000000000000, MD5('x'))"
    async with asyncio.timeout(PATIENCE_S):
        assert await engine.check_authored(endless, []) is None


async def test_a_query_takes_parameters_and_reports_wrong_ones(engine: MysqlEngine) -> None:
    sql = "SELECT name FROM victims WHERE id = %s OR name = %s ORDER BY 1"
    found = await engine.run_authored(Statement(sql, (3, "name 5")), limit=1, within=PATIENCE_S)
    assert found == (("name",), [("name 3",)], True)
    assert await engine.check_authored(sql, ["id", "name"]) is None
    with pytest.raises(ValueError, match="other parameters"):
        await engine.check_authored(sql, ["id"])
    with pytest.raises(ValueError, match=r"(MariaDB|MySQL) refuses the query: .*nmae"):
        await engine.check_authored("SELECT nmae FROM victims", [])
