from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    ResourceBusy,
    ResourceError,
)
from resource_server.providers.database.engines.contract import RefusedStatement, Rows, Statement
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.providers.database.sqlite_databases import (
    check,
    contents,
    opened,
    queried,
    query,
    rows,
    write,
)
from tests.waiting import PATIENCE_S, pause

pytestmark = pytest.mark.anyio

DEADLINE_S = 1.0
"""Time beyond a deadline that a loaded machine may take."""

SHOP = """
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT, total REAL, note TEXT);
INSERT INTO orders VALUES (1, 'Ada', 9.5, '{"tags": ["a", "b"]}'), (2, 'Alan', 1.25, NULL);
CREATE INDEX by_customer ON orders(customer);
CREATE VIEW big AS SELECT id, total FROM orders WHERE total > 5;
CREATE VIRTUAL TABLE docs USING fts5(title, body);
INSERT INTO docs VALUES ('First', 'the quick brown fox');
CREATE VIRTUAL TABLE places USING rtree(id, west, east);
INSERT INTO places VALUES (1, 0, 2);
"""

WRITES = """
INSERT INTO orders VALUES (9, 'x', 1, NULL)
REPLACE INTO orders VALUES (1, 'x', 1, NULL)
UPDATE orders SET total = 0
DELETE FROM orders
INSERT INTO orders(id) VALUES (9) RETURNING id
WITH x AS (SELECT 9) INSERT INTO orders(id) SELECT * FROM x
CREATE TABLE evil(x)
CREATE TABLE evil AS SELECT * FROM orders
CREATE TEMP TABLE evil(x)
CREATE TEMP VIEW evil AS SELECT 1
CREATE TEMP TRIGGER evil AFTER INSERT ON orders BEGIN SELECT 1; END
CREATE INDEX evil ON orders(total)
CREATE VIEW evil AS SELECT 1
CREATE VIRTUAL TABLE evil USING fts5(x)
CREATE VIRTUAL TABLE temp.evil USING dbstat
ALTER TABLE orders RENAME TO evil
ALTER TABLE orders ADD COLUMN evil
DROP TABLE orders
DROP INDEX by_customer
DROP VIEW big
REINDEX
ANALYZE
VACUUM
VACUUM INTO 'evil.db'
BEGIN
BEGIN EXCLUSIVE
COMMIT
ROLLBACK
SAVEPOINT evil
INSERT INTO docs(docs) VALUES ('optimize')
INSERT INTO docs(docs, rank) VALUES ('pgsz', 32)
UPDATE sqlite_master SET sql = 'evil'
DELETE FROM sqlite_sequence
1; DROP TABLE orders
SELECT 1; DROP TABLE orders
SELECT 1) ; DROP TABLE orders; SELECT * FROM (SELECT 1
SELECT 1) UNION ALL SELECT load_extension('evil') FROM (SELECT 1
""".strip().splitlines()

FILES = """
ATTACH 'evil.db' AS evil
ATTACH 'file:evil.db?mode=rwc' AS evil
ATTACH 'other.db' AS other
ATTACH '' AS evil
ATTACH ':memory:' AS evil
DETACH main
SELECT * FROM other.secrets
SELECT load_extension('evil')
SELECT load_extension('evil', 'main')
SELECT readfile('other.db')
SELECT writefile('evil.db', 'x')
SELECT edit('x')
SELECT * FROM fsdir('.')
SELECT * FROM csv('other.db')
SELECT * FROM zipfile('other.db')
""".strip().splitlines()

PRAGMAS = """
PRAGMA query_only = 0
PRAGMA query_only(0)
PRAGMA writable_schema = 1
PRAGMA trusted_schema = 1
PRAGMA user_version = 9
PRAGMA application_id = 9
PRAGMA schema_version = 9
PRAGMA data_version = 9
PRAGMA journal_mode = WAL
PRAGMA journal_mode = DELETE
PRAGMA wal_checkpoint(TRUNCATE)
PRAGMA hard_heap_limit = 1
PRAGMA soft_heap_limit = 1
PRAGMA temp_store_directory = '.'
PRAGMA data_store_directory = '.'
PRAGMA cache_size = 1
PRAGMA incremental_vacuum
PRAGMA optimize
PRAGMA integrity_check
PRAGMA database_list
PRAGMA table_list
PRAGMA main.table_xinfo(orders)
PRAGMA function_list
PRAGMA compile_options
PRAGMA busy_timeout = 600000
PRAGMA locking_mode = EXCLUSIVE
PRAGMA shrink_memory
SELECT * FROM pragma_database_list
SELECT * FROM pragma_table_xinfo('orders')
SELECT count(*) FROM pragma_table_list
SELECT name FROM pragma_function_list
""".strip().splitlines()

INTERNALS = """
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT count(*) FROM sqlite_master
SELECT count(*) FROM main.SQLITE_MASTER
SELECT * FROM sqlite_temp_master
SELECT count(*) FROM temp.sqlite_master
SELECT * FROM sqlite_stmt
SELECT count(*) FROM sqlite_stmt
SELECT * FROM dbstat
SELECT count(*) FROM dbstat
SELECT * FROM sqlite_dbpage
SELECT * FROM fts3tokenize
SELECT * FROM docs_content
SELECT count(*) FROM DOCS_CONTENT
SELECT * FROM docs_data
SELECT * FROM places_node
SELECT rtreecheck('places')
SELECT rtreenode(2, data) FROM places_node
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('simple', x'0011223344556677')
SELECT fts5('x')
SELECT sqlite_log(1, 'x')
SELECT sqlite_source_id()
SELECT sqlite_compileoption_get(1)
SELECT last_insert_rowid(), changes(), total_changes()
SELECT optimize(docs) FROM docs
EXPLAIN SELECT 1
EXPLAIN QUERY PLAN SELECT 1
""".strip().splitlines()

REFUSED = {"writes": WRITES, "files": FILES, "pragmas": PRAGMAS, "internals": INTERNALS}
READ_BY_THE_ENGINE = re.compile("docs_|places_node|EXPLAIN", re.IGNORECASE)
"""Its own access to a shadow table looks like the virtual table's, and it may explain."""

SHORT_BOMBS = """
SELECT zeroblob(900000000)
SELECT hex(zeroblob(400000000))
SELECT randomblob(900000000)
SELECT printf('%.*c', 1000000000, 'x')
SELECT format('%1000000000d', 1)
SELECT replace(replace('xxxxxxxxxx', 'x', 'xxxxxxxxxx'), 'x', quote(zeroblob(1000000)))
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c WHERE x < 0
WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM c) SELECT max(length(x)) FROM c
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT group_concat(x) FROM c
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT json_group_array(x) FROM c
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c ORDER BY -x
WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT max(x) FROM c
SELECT * FROM generate_series(1, 9000000000000)
SELECT count(*) FROM json_each('[' || replace(hex(randomblob(1000000)), 'A', '1,') || '1]')
SELECT 'x' LIKE replace(hex(randomblob(2000)), 'A', '%')
SELECT 'x' GLOB replace(hex(randomblob(2000)), 'A', '*')
""".strip().splitlines()
BOMBS: list[str] = [
    *SHORT_BOMBS,
    "SELECT " + "(" * 400 + "1" + ")" * 400,
    "SELECT " + " + ".join("1" * 400),
    " UNION ALL ".join(["SELECT 1"] * 400),
    "SELECT '" + "x" * 300_000 + "'",
    "SELECT " + ", ".join(map(str, range(2500))),
    "WITH RECURSIVE c(x) AS "
    "(SELECT 'a%' UNION ALL SELECT x || x FROM c WHERE length(x) < 4000) "
    "SELECT max(c.x LIKE d.x) FROM c, c AS d",
    "SELECT count(*) FROM " + ", ".join(f"orders o{n}" for n in range(40)),
]

LEGITIMATE: list[tuple[str, list[tuple[object, ...]]]] = [
    ("SELECT customer FROM orders ORDER BY id", [("Ada",), ("Alan",)]),
    ("SELECT count(*) FROM Orders", [(2,)]),
    ("SELECT * FROM big", [(1, 9.5)]),
    ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
    ("SELECT 'DROP TABLE orders; -- ATTACH'", [("DROP TABLE orders; -- ATTACH",)]),
    ("SELECT 1 -- a comment at the end", [(1,)]),
    ("SELECT customer AS \"delete\" FROM orders WHERE customer LIKE 'al%'", [("Alan",)]),
    ("SELECT replace('insert', 'in', 'as')", [("assert",)]),
    ("SELECT upper(customer), round(total), typeof(note) FROM orders WHERE id = 2",
     [("ALAN", 1.0, "null")]),
    ("SELECT value FROM orders, json_each(note, '$.tags') WHERE orders.id = 1", [("a",), ("b",)]),
    ("SELECT json_extract(note, '$.tags[1]'), note -> 'tags' FROM orders WHERE id = 1",
     [("b", '["a","b"]')]),
    ("SELECT title, snippet(docs, 1, '[', ']', '', 2) FROM docs WHERE docs MATCH 'fox'",
     [("First", "brown [fox]")]),
    ("SELECT id FROM places WHERE west >= 0 AND east <= 2", [(1,)]),
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3) "
     "SELECT count(*) FROM c", [(3,)]),
    ("SELECT id, row_number() OVER (ORDER BY total) FROM orders ORDER BY id", [(1, 2), (2, 1)]),
    ("SELECT group_concat(customer) FROM orders", [("Ada,Alan",)]),
    ("SELECT strftime('%Y', '2026-01-02'), date('2026-01-02', '+1 day')", [("2026", "2026-01-03")]),
    ("SELECT 'abc' LIKE 'a%', 'abc' GLOB 'a*', 'it''s'", [(1, 1, "it's")]),
    ("SELECT id FROM orders UNION SELECT 7 ORDER BY 1", [(1,), (2,), (7,)]),
    ("SELECT id FROM orders ORDER BY id DESC LIMIT 1", [(2,)]),
]  # fmt: skip


@asynccontextmanager
async def shop(folder: Path) -> AsyncGenerator[SqliteEngine]:
    """Open a shop, and assert at the end that nothing was written to it or beside it."""
    write(folder / "other.db", "CREATE TABLE secrets(x); INSERT INTO secrets VALUES ('secret')")
    path = write(folder / "shop.db", SHOP)
    before = contents(folder)
    async with opened(path) as engine:
        here = Path.cwd()
        os.chdir(folder)
        try:
            yield engine
        finally:
            os.chdir(here)
        assert contents(folder) == before
        # The engine still answers, and the process still has memory.
        assert await rows(engine, "SELECT id FROM orders") == [(1,), (2,)]
        assert await queried(engine, "SELECT total FROM big") == [(9.5,)]
        with sqlite3.connect(":memory:") as other:
            other.execute("CREATE TABLE t AS SELECT randomblob(100000)")
        other.close()
    assert contents(folder) == before


async def attempt(engine: SqliteEngine, sql: str) -> Rows | ResourceError:
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await query(engine, Statement(sql), limit=10, within=DEADLINE_S)
        except ResourceError as error:
            return error


@pytest.mark.guarantee("engines-enforce-read-only")
@pytest.mark.parametrize("kind", REFUSED)
async def test_a_query_that_does_more_than_select_is_refused(tmp_path: Path, kind: str) -> None:
    async with shop(tmp_path) as engine:
        for sql in REFUSED[kind]:
            assert isinstance(await attempt(engine, sql), RefusedStatement), sql
            with pytest.raises(RefusedStatement):
                await check(engine, sql)


@pytest.mark.parametrize("sql", BOMBS, ids=lambda sql: sql[:60])
async def test_an_endless_or_huge_query_is_answered_in_time(tmp_path: Path, sql: str) -> None:
    async with shop(tmp_path) as engine:
        answer = await attempt(engine, sql)
        assert isinstance(answer, InvalidParameter | DeadlineExceeded | ResourceBusy)


@pytest.mark.parametrize("sql", BOMBS, ids=lambda sql: sql[:60])
async def test_an_endless_or_huge_query_is_checked_without_running(
    tmp_path: Path, sql: str
) -> None:
    async with shop(tmp_path) as engine:
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ResourceError):
                await check(engine, sql)


@pytest.mark.guarantee("engines-enforce-read-only")
@pytest.mark.parametrize(("sql", "expected"), LEGITIMATE)
async def test_a_query_that_only_selects_returns_its_rows(
    tmp_path: Path, sql: str, expected: list[tuple[object, ...]]
) -> None:
    async with shop(tmp_path) as engine:
        await check(engine, sql)
        answer = await attempt(engine, sql)
        assert isinstance(answer, Rows)
        assert answer.rows == expected


@pytest.mark.guarantee("nothing-is-written")
@pytest.mark.parametrize("kind", REFUSED)
async def test_reading_a_page_only_selects(tmp_path: Path, kind: str) -> None:
    async with shop(tmp_path) as engine:
        for sql in REFUSED[kind]:
            with suppress(ResourceError):
                await engine.run_own(Statement(sql), limit=10, within=DEADLINE_S)
                assert READ_BY_THE_ENGINE.search(sql), sql


async def test_a_series_of_bombs_does_not_delay_rows(tmp_path: Path) -> None:
    async with shop(tmp_path) as engine:
        bombs = [asyncio.create_task(attempt(engine, sql)) for sql in BOMBS]
        while not all(bomb.done() for bomb in bombs):
            assert await rows(engine, "SELECT id FROM orders WHERE id = ?", 1) == [(1,)]
            await pause(0.01)
        assert not any(isinstance(bomb.result(), Rows) for bomb in bombs)
