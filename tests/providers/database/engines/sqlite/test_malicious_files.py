from __future__ import annotations

import asyncio
import pathlib
import sqlite3
import time
from contextlib import closing, suppress
from functools import partial

import pytest

from resource_server.errors import InvalidParameter, MountUnavailable, ResourceError
from resource_server.providers.database.engines.contract import Rows, Statement, TruncatedValue
from tests.providers.database.sqlite_databases import (
    PATIENCE_S,
    contents,
    opened,
    queried,
    query,
    reflected,
    rows,
    write,
)

pytestmark = pytest.mark.anyio

DEADLINE_S = 0.3
ALLOWANCE_S = 10.0

PLAIN = """
CREATE TABLE plain(id INTEGER PRIMARY KEY, a, twice AS (a * 2));
INSERT INTO plain(id, a) VALUES (1, 21);
CREATE VIEW upper AS SELECT upper('x') || a AS a FROM plain;
"""

COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"

BOMBS = {
    "a view without end": f"CREATE VIEW evil AS {COUNTING} SELECT x FROM c WHERE x < 0",
    "a view that is counted without end": f"CREATE VIEW evil AS {COUNTING} SELECT count(*) FROM c",
    "a view of a large value": "CREATE VIEW evil AS SELECT zeroblob(900000000)",
    "a view of a long text": "CREATE VIEW evil AS SELECT printf('%.*c', 900000000, 'x')",
    "a generated column of a large value": "CREATE TABLE evil(a, b AS (zeroblob(900000000)));"
    "INSERT INTO evil(a) VALUES (1)",
    "a view that reads a file": "CREATE VIEW evil AS SELECT readfile('other.db')",
    "a view that loads a library": "CREATE VIEW evil AS SELECT load_extension('x')",
    "a view of the schema": "CREATE VIEW evil AS SELECT * FROM sqlite_master",
    "a view of a pragma": "CREATE VIEW evil AS SELECT * FROM pragma_database_list",
    "a view of statements": "CREATE VIEW evil AS SELECT * FROM sqlite_stmt",
    "a view that sets a tokenizer": "CREATE VIEW evil AS SELECT fts3_tokenizer('x', x'00')",
    "a view of what is not there": "CREATE VIEW evil AS SELECT * FROM missing",
    "a view of pages": "CREATE VIRTUAL TABLE evil USING dbstat",
    "a virtual table of a module that is not there": "PRAGMA writable_schema = 1;"
    "INSERT INTO sqlite_master VALUES ('table', 'evil', 'evil', 0, "
    "'CREATE VIRTUAL TABLE evil USING csv(filename=''other.db'')')",
    "a view of itself": "PRAGMA writable_schema = 1; INSERT INTO sqlite_master VALUES "
    "('view', 'evil', 'evil', 0, 'CREATE VIEW evil AS SELECT * FROM evil')",
    "a full-text index without its tables": "CREATE VIRTUAL TABLE evil USING fts5(a);"
    "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'evil_config'",
    "views of views": ";".join(
        ["CREATE VIEW v0 AS SELECT 1 AS a"]
        + [f"CREATE VIEW v{n} AS SELECT x.a FROM v{n - 1} x, v{n - 1} y" for n in range(1, 25)]
        + ["CREATE VIEW evil AS SELECT * FROM v24"]
    ),
}


@pytest.mark.parametrize("script", BOMBS.values(), ids=BOMBS)
async def test_a_malicious_table_is_refused_and_others_are_read(
    tmp_path: pathlib.Path, script: str
) -> None:
    write(tmp_path / "other.db", "CREATE TABLE secrets(x); INSERT INTO secrets VALUES ('secret')")
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(PLAIN + script)
    before = contents(tmp_path)
    async with opened(path) as engine:
        for sql in ("SELECT * FROM evil", "SELECT count(*) FROM evil"):
            for ask in (engine.run_own, partial(query, engine)):
                # CPU time, since the machine may be loaded.
                started = time.process_time()
                try:
                    found = await ask(Statement(sql), limit=10, within=DEADLINE_S)
                except (ResourceError, MountUnavailable):
                    pass
                else:
                    # Counting rows computes none of their values.
                    assert found.rows == [(1,)]
                    assert "count" in sql
                assert time.process_time() - started < DEADLINE_S + ALLOWANCE_S
        with suppress(ResourceError):
            await reflected(engine, "evil")
        assert "plain" in [info.name.name for info in await engine.tables()]
        assert (await reflected(engine, "plain")).key == ("id",)
        assert await rows(engine, "SELECT id, twice FROM plain") == [(1, 42)]
        assert await queried(engine, "SELECT a FROM upper") == [("X21",)]
    assert contents(tmp_path) == before


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_triggers_in_the_file_never_run(tmp_path: pathlib.Path) -> None:
    trigger = "CREATE TRIGGER evil INSTEAD OF INSERT ON upper BEGIN DELETE FROM plain; END;"
    async with opened(write(tmp_path / "shop.db", PLAIN + trigger)) as engine:
        for sql in ("INSERT INTO upper VALUES (1)", "DELETE FROM plain"):
            with pytest.raises(ResourceError):
                await rows(engine, sql)
        assert await rows(engine, "SELECT a FROM plain") == [(21,)]


async def test_rows_with_large_values_come_in_pages_that_fit_into_memory(
    tmp_path: pathlib.Path,
) -> None:
    large = "CREATE TABLE large(id INTEGER PRIMARY KEY, a AS (replace(hex(id), '3', base)), base);"
    fill = """
    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300)
    INSERT INTO large(id, base) SELECT x, substr(hex(randomblob(500000)), 1, 1000000) FROM c
    LIMIT 0;
    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300)
    INSERT INTO large(id) SELECT x FROM c;
    CREATE VIEW blobs AS SELECT id, (SELECT b FROM one) AS b FROM large;
    CREATE TABLE one(b); INSERT INTO one VALUES (zeroblob(1000000));
    """
    async with opened(write(tmp_path / "shop.db", large + fill)) as engine:
        found = await engine.run_own(
            Statement("SELECT id, b FROM blobs"), limit=1000, within=PATIENCE_S
        )
        assert 50 < len(found.rows) < 80
        assert found.more
        few = await engine.run_own(
            Statement("SELECT id, b FROM blobs LIMIT 10"), limit=1000, within=PATIENCE_S
        )
        assert len(few.rows) == 10
        assert not few.more


async def test_a_value_too_large_for_memory_is_truncated(
    tmp_path: pathlib.Path,
) -> None:
    script = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE VIEW v AS SELECT a || a AS a FROM t;
    INSERT INTO t VALUES (1, zeroblob(17000000)), (2, hex(zeroblob(8500000))), (3, 'small');
    """
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        found = await rows(engine, "SELECT id, a FROM t ORDER BY id")
        assert found[0] == (1, TruncatedValue(bytes(64 * 1024), 17_000_000))
        assert found[1] == (2, TruncatedValue("0" * 64 * 1024, 17_000_000))
        assert found[2] == (3, "small")
        with pytest.raises(InvalidParameter, match="too large"):
            await engine.run_own(
                Statement("SELECT a FROM v"), limit=9, within=PATIENCE_S, slow=True
            )
        assert await rows(engine, "SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


async def test_names_that_look_like_statements_are_only_names(tmp_path: pathlib.Path) -> None:
    name = "x\" UNION SELECT * FROM plain; --'\n[`)"
    quoted = '"' + name.replace('"', '""') + '"'
    script = f"CREATE TABLE {quoted}({quoted} TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;"
    async with opened(write(tmp_path / "shop.db", PLAIN + script)) as engine:
        assert name in [info.name.name for info in await engine.tables()]
        table = await reflected(engine, name)
        assert (table.key, table.key_kind, table.strict) == ((name,), "primary", True)
        assert await rows(engine, f"SELECT {quoted} FROM {quoted}") == []


async def test_names_that_are_not_utf8_are_left_out(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", PLAIN + "CREATE TABLE bad_1(a); CREATE TABLE t(bad_2, b);")
    path.write_bytes(
        path.read_bytes().replace(b"bad_1", b"bad\xff1").replace(b"bad_2", b"bad\xff2")
    )
    async with opened(path) as engine:
        names = [info.name.name for info in await engine.tables()]
        assert names == ["plain", "t", "upper"]
        assert (await reflected(engine, "t")).column_names == ("b",)


async def test_text_that_is_not_utf8_does_not_break_the_page(tmp_path: pathlib.Path) -> None:
    script = "CREATE TABLE t(a); INSERT INTO t VALUES ('good'), (CAST(x'62ff' AS TEXT)), ('ü');"
    async with opened(write(tmp_path / "shop.db", script)) as engine:
        for _ in range(2):
            assert await rows(engine, "SELECT a FROM t") == [("good",), ("b\udcff",), ("ü",)]
            assert await queried(engine, "SELECT a FROM t") == [("good",), ("b\udcff",), ("ü",)]


@pytest.mark.deep
async def test_ten_thousand_views_are_listed_quickly(tmp_path: pathlib.Path) -> None:
    views = ";".join(f"CREATE VIEW v{n} AS SELECT * FROM plain" for n in range(10_000))
    path = write(tmp_path / "shop.db", f"BEGIN; {PLAIN} {views}; COMMIT")
    async with opened(path) as engine:
        assert len(await engine.tables()) == 10_002
        assert (await reflected(engine, "v77")).column_names == ("id", "a", "twice")


async def test_the_memory_limit_does_not_harm_other_connections(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", PLAIN)) as engine:
        sorts = f"{COUNTING}, d AS (SELECT x, hex(x) || x || upper(x) AS y FROM c LIMIT 100000000)"
        sorting = [
            asyncio.create_task(
                query(
                    engine,
                    Statement(f"{sorts} SELECT y FROM d ORDER BY -x"),
                    limit=1,
                    within=DEADLINE_S,
                )
            )
            for _ in range(4)
        ]
        ended = await asyncio.gather(*sorting, return_exceptions=True)
        assert not any(isinstance(end, Rows) for end in ended)
        assert await queried(engine, "SELECT a FROM plain") == [(21,)]
