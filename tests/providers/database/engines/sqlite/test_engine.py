from __future__ import annotations

import asyncio
import pathlib
import subprocess
import sys
from functools import partial

import pytest
import sqlalchemy as sa

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Statement,
    UnfitParameter,
)
from tests.providers.database.sqlite_databases import (
    PATIENCE_S,
    asked,
    check,
    opened,
    queried,
    query,
    reflected,
    rows,
    write,
)

pytestmark = pytest.mark.anyio

ORDERS = """
CREATE TABLE orders(id INTEGER PRIMARY KEY, country TEXT, total REAL);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 50)
INSERT INTO orders SELECT x, CASE x % 2 WHEN 0 THEN 'DE' ELSE 'FR' END, x / 2.0 FROM c;
"""


async def test_values_of_every_storage_class_are_the_drivers(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", "CREATE TABLE t(a)")
    async with opened(path) as engine:
        sql = "SELECT ?, ?, ?, ?, ?, 9e999, -9e999, x'', '', 'a' || char(0) || 'b'"
        values = (None, 2**63 - 1, -0.5, "ü\n", b"\x00\xff")
        for found in (await rows(engine, sql, *values), await queried(engine, sql, *values)):
            assert found == asked(path, sql, *values)


@pytest.mark.parametrize("limit", [1, 10, 49, 50, 51])
async def test_more_is_exact(tmp_path: pathlib.Path, limit: int) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        statement = Statement("SELECT id AS number, total FROM orders ORDER BY id")
        for ask in (engine.run_own, partial(query, engine)):
            found = await ask(statement, limit=limit, within=PATIENCE_S)
            assert found.columns == ("number", "total")
            assert [row[0] for row in found.rows] == list(range(1, min(limit, 50) + 1))
            assert found.more == (limit < 50)


async def test_an_empty_result_has_columns(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        statement = Statement("SELECT id, country AS land FROM orders WHERE id < 0")
        for ask in (engine.run_own, partial(query, engine)):
            found = await ask(statement, limit=10, within=PATIENCE_S)
            assert (found.columns, list(found.rows)) == (("id", "land"), [])


async def test_a_query_takes_parameters_and_keeps_its_order(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        sql = "SELECT id FROM orders WHERE country = ? ORDER BY total DESC LIMIT ? -- best"
        assert await queried(engine, sql, "DE", 2) == [(50,), (48,)]


async def test_a_query_is_checked_with_its_parameters_unknown(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        sql = "SELECT id, total AS t FROM orders WHERE country = ? AND total > ?"
        await check(engine, sql, None, None)
        for sql in (
            "SELECT id FROM orders WHERE country = ?",
            "SELECT missing FROM orders",
            "SELECT * FROM missing",
            "SELEC 1",
            "",
            "SELECT '\0'",
            "SELECT \udcff",
        ):
            with pytest.raises(RefusedStatement):
                await check(engine, sql, None, None)


async def test_a_statement_that_fails_is_refused(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        for sql, *parameters in (
            ("SELECT secret FROM orders",),
            ("SELECT 1; SELECT 'secret'",),
            ("SELECT 'secret' \0",),
            ("SELECT ?",),
            ("SELECT ?", "secret", "secret"),
            ("SELECT ?", 2**80),
            ("SELECT ?", "secret \udcff"),
            ("SELECT abs(-9223372036854775808)",),
        ):
            with pytest.raises(RefusedStatement):
                await queried(engine, sql, *parameters)
            with pytest.raises((ResourceNotFound, UnfitParameter)):
                await rows(engine, sql, *parameters)
        assert len(await queried(engine, "SELECT id FROM orders")) == 50


async def test_statements_compiled_by_sqlalchemy_run_unchanged(tmp_path: pathlib.Path) -> None:
    async with opened(write(tmp_path / "shop.db", ORDERS)) as engine:
        orders = sa.table("orders", sa.column("id"), sa.column("country"))
        chosen = sa.select(orders.c.id).where(orders.c.country == "DE").limit(2)
        compiled = chosen.compile(dialect=engine.dialect)
        values = [compiled.params[name] for name in getattr(compiled, "positiontup", ())]
        assert await rows(engine, str(compiled), *values) == [(2,), (4,)]


async def test_full_text_search_works_after_another_connection_changed_the_schema(
    tmp_path: pathlib.Path,
) -> None:
    script = """
    CREATE VIRTUAL TABLE docs USING fts5(body); INSERT INTO docs VALUES ('the quick fox');
    CREATE VIRTUAL TABLE places USING rtree(id, a, b); INSERT INTO places VALUES (1, 0, 2);
    """
    path = write(tmp_path / "shop.db", script)
    async with opened(path) as engine:
        for number in range(4):
            for ask in (rows, queried):
                assert await ask(engine, "SELECT body FROM docs WHERE docs MATCH ?", "fox")
                assert await ask(engine, "SELECT id FROM places WHERE a < 1") == [(1,)]
            assert (await reflected(engine, "docs")).column_names == ("body",)
            write(path, f"CREATE TABLE other{number}(x)")
            assert await rows(engine, f"SELECT x FROM other{number}") == []
            write(path, f"CREATE VIRTUAL TABLE more{number} USING fts5(y)")


async def test_concurrent_reads_succeed_while_the_schema_changes(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with opened(path) as engine:
        for number in range(10):
            asking = [
                rows(engine, "SELECT id FROM orders WHERE id = ?", n % 50 + 1) for n in range(100)
            ]
            tasks = asyncio.gather(*asking)
            await asyncio.sleep(0)
            write(path, f"CREATE TABLE other{number}(x); ALTER TABLE orders ADD COLUMN c{number}")
            assert await tasks == [[(n % 50 + 1,)] for n in range(100)]


def test_the_sqlite_engine_imports_neither_sqlalchemy_nor_server_drivers() -> None:
    script = """
import sys
import resource_server.providers.database.engines.sqlite.engine
print(sorted(name for name in ("sqlalchemy", "asyncpg", "asyncmy") if name in sys.modules))
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert found.stdout == "[]\n"
