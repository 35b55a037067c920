"""Rows and values of MariaDB and MySQL."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from resource_server.errors import (
    ResourceBusy,
    ResourceError,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from tests.providers.database import mysql_databases
from tests.providers.database.mysql_databases import Database, rows
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

database, engine = mysql_databases.database, mysql_databases.engine


async def test_the_dialect_is_that_of_the_server_once_it_is_known(database: Database) -> None:
    engine = MysqlEngine(database.url)
    assert engine.dialect.name == "mysql"
    await engine.open()
    try:
        assert engine.dialect.name == engine.name
        assert engine.title == {"mariadb": "MariaDB", "mysql": "MySQL"}[engine.name]
    finally:
        await engine.close()


async def test_a_result_over_the_limit_is_truncated_and_marked(engine: MysqlEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", -1)
    assert found == (("id", "name"), [], False)


async def test_values_have_the_servers_spelling(engine: MysqlEngine, database: Database) -> None:
    found = await rows(
        engine,
        "SELECT feeling, letters, balance, facts, happy, flags, made, took, picture, ratio"
        " FROM customers ORDER BY id",
    )
    assert found.rows == [
        (
            "sad",
            "x,y",
            Decimal("1.10"),
            '{"a": 1}',
            1,
            b"\x05",
            datetime.datetime(2026, 11, 20, 10, 0, 0, 500000),  # noqa: DTZ001
            datetime.timedelta(days=-35, seconds=3601),
            b"\x00\xff",
            0.1,
        ),
        (None,) * 10,
    ]
    await database.run(
        "SET SESSION sql_mode = ''", "UPDATE customers SET day = '0000-00-00' WHERE id = 2"
    )
    assert (await rows(engine, "SELECT day FROM customers WHERE id = 2")).rows == [("0000-00-00",)]


@pytest.mark.parametrize(
    "text",
    ["'", '"', "\\", "\\' OR 1=1 -- ", "%s", "%", "\x00", "☃𝄞", "name 1'; DROP TABLE victims"],
)
async def test_a_bound_value_comes_back_unchanged(engine: MysqlEngine, text: str) -> None:
    assert (await rows(engine, "SELECT %s", text)).rows == [(text,)]
    found = await engine.run_authored(
        Statement("SELECT %s AS x", (text,)), limit=2, within=PATIENCE_S
    )
    assert found.rows == [(text,)]


async def test_a_bound_value_comes_back_unchanged_where_backslashes_are_not_special(
    engine: MysqlEngine, database: Database
) -> None:
    text = "\\' OR 1=1 -- "
    before = (await database.run("SELECT @@GLOBAL.sql_mode"))[0][0]
    await database.run("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
    try:
        other = MysqlEngine(database.url)
        await other.open()
        assert (await rows(other, "SELECT %s", text)).rows == [(text,)]
        assert (await rows(other, "SELECT id FROM victims WHERE name = %s", text)).rows == []
        await other.close()
    finally:
        await database.run(f"SET GLOBAL sql_mode = '{before}'")


async def test_internal_statements_cannot_write(engine: MysqlEngine, database: Database) -> None:
    before = await database.checksum()
    for sql in (
        "SELECT writes()",
        "SELECT writes_old()",
        "DELETE FROM victims",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(ResourceError):
            await rows(engine, sql)
    assert await database.checksum() == before


async def test_settings_of_a_function_hold_for_no_other_statement(
    engine: MysqlEngine, database: Database
) -> None:
    limit = "max_statement_time" if engine.name == "mariadb" else "max_execution_time"
    await database.run(
        f"CREATE FUNCTION sets() RETURNS int BEGIN SET SESSION {limit} = 0;"
        " SET SESSION time_zone = '+05:00'; SET SESSION max_sort_length = 8; RETURN 1; END"
    )
    shown = f"SELECT @@{limit}, @@time_zone, @@max_sort_length, CONNECTION_ID()"
    before = await rows(engine, shown)
    await rows(engine, "SELECT sets()")
    assert await rows(engine, shown) == before


async def test_a_dropped_table_is_reported_as_changed(
    engine: MysqlEngine, database: Database
) -> None:
    await database.run("CREATE TABLE gone (x int)", "INSERT INTO gone VALUES (1)")
    assert (await rows(engine, "SELECT * FROM gone")).columns == ("x",)
    await database.run("ALTER TABLE gone ADD y int")
    assert await rows(engine, "SELECT * FROM gone") == (("x", "y"), [(1, None)], False)
    await database.run("DROP TABLE gone")
    with pytest.raises(ResourceBusy):
        await rows(engine, "SELECT * FROM gone")
