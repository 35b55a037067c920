"""MariaDB or MySQL: tables as reflected, and rows as read."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from resource_server.errors import (
    InvalidParameter,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from resource_server.providers.database.engines.reflection import ForeignKey, Index, TableName
from tests.providers.database import mysql_databases
from tests.providers.database.mysql_databases import ADMIN, Database, rows
from tests.providers.database.servers import (
    unique_name,
    with_parts,
)

pytestmark = pytest.mark.anyio

database, engine = mysql_databases.database, mysql_databases.engine


# The catalogue.


async def test_tables_are_those_a_user_would_count(engine: MysqlEngine) -> None:
    assert engine.name in {"mariadb", "mysql"}
    assert not engine.has_schemas
    found = {info.name.name: info for info in await engine.tables()}
    assert list(found) == ["codes", "customers", "keyless", "names", "old", "orders", "victims"]
    assert found["customers"].comment == "Who buys"
    assert found["names"].type == "view"
    assert found["names"].comment is None


async def test_a_table_is_reflected_with_all_that_readers_need(engine: MysqlEngine) -> None:
    table = await engine.table(TableName(None, "customers"))
    columns = {column.name: column for column in table.columns}
    assert table.key == ("id",)
    assert table.key_kind == "primary"
    assert table.comment == "Who buys"
    assert [(column.name, column.kind) for column in table.columns] == [
        ("id", "integer"),
        ("name", "text"),
        ("feeling", "text"),
        ("letters", "text"),
        ("size", "integer"),
        ("balance", "numeric"),
        ("doubled", "integer"),
        ("facts", "json"),
        ("happy", "boolean"),
        ("flags", "other"),
        ("made", "datetime"),
        ("day", "date"),
        ("took", "time"),
        ("picture", "blob"),
        ("ratio", "real"),
        ('odd `"name', "text"),
    ]
    assert columns["feeling"].values == ("sad", "it's ok")
    assert columns["letters"].values == ("x", "y")
    assert columns["id"].comment == "Which one"
    assert columns["id"].default == "auto_increment"
    assert columns["doubled"].generated
    assert columns["size"].default == "7"
    assert not columns["name"].nullable
    assert columns["size"].nullable


async def test_keys_are_primary_or_unique_and_never_null(engine: MysqlEngine) -> None:
    async def key(name: str) -> tuple[tuple[str, ...], str]:
        table = await engine.table(TableName(None, name))
        return table.key, table.key_kind

    assert await key("orders") == (("region", "number"), "primary")
    assert await key("codes") == (("a", "b"), "unique")
    assert await key("keyless") == ((), "none")
    assert await key("names") == ((), "none")


async def test_foreign_keys_and_indexes_are_named(engine: MysqlEngine) -> None:
    table = await engine.table(TableName(None, "orders"))
    referred = ForeignKey(("customer",), TableName(None, "customers"), ("id",))
    assert table.foreign_keys == (referred,)
    assert Index("by_number", ("number",)) in table.indexes


async def test_views_tell_their_definition_and_tables_what_made_them(engine: MysqlEngine) -> None:
    assert "customers" in ((await engine.table(TableName(None, "names"))).ddl or "")
    statement = (await engine.table(TableName(None, "customers"))).ddl or ""
    assert statement.startswith(
        "CREATE TABLE `customers` (\n  `id` int(11) NOT NULL AUTO_INCREMENT"
    )
    assert "AUTO_INCREMENT=" not in statement, "which changes with every row"


@pytest.mark.parametrize("name", ["absent", "Victims", "victims ", "user", "a' OR '1'='1", "\x00"])
async def test_what_is_no_table_of_this_database_is_not_found(
    engine: MysqlEngine, name: str
) -> None:
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName(None, name))
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName("mysql", "user"))


async def test_the_estimate_is_that_of_the_statistics(
    engine: MysqlEngine, database: Database
) -> None:
    assert await engine.estimate(TableName(None, "names")) is None
    await database.run("ANALYZE TABLE victims")
    assert await engine.estimate(TableName(None, "victims")) == 50


SCHEMA_CHANGES = (
    "CREATE TABLE made (id int)",
    "ALTER TABLE keyless ADD COLUMN made int",
    "ALTER TABLE keyless CHANGE made renamed int",
    "ALTER TABLE keyless ALTER COLUMN renamed SET DEFAULT 5",
    "ALTER TABLE keyless MODIFY x int COMMENT 'told'",
    "ALTER TABLE keyless ADD UNIQUE (x)",
    "CREATE INDEX another ON keyless (x)",
    "ALTER TABLE keyless COMMENT 'told'",
    "ALTER TABLE keyless ADD doubled int AS (x * 2) VIRTUAL",
    "ALTER TABLE keyless MODIFY doubled int AS (x * 3) VIRTUAL",
    "ALTER TABLE keyless ADD CONSTRAINT small CHECK (x < 1000)",
    "CREATE OR REPLACE VIEW names AS SELECT id, name FROM customers WHERE id > 0",
    "DROP TABLE made",
)


async def test_the_schema_state_differs_after_every_change_of_the_schema(
    engine: MysqlEngine, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.run("UPDATE victims SET name = CONCAT(name, '') WHERE id = 1")
        assert await engine.schema_state() == before
        await database.run(change)
        assert await engine.schema_state() != before, change


async def test_privileges_name_what_goes_beyond_reading(
    engine: MysqlEngine, database: Database
) -> None:
    names = [privilege.name for privilege in await engine.privileges()]
    assert names == [f"ALL PRIVILEGES on {database.name}.*"]
    administrator = MysqlEngine(with_parts(ADMIN, database=database.name))
    await administrator.open()
    try:
        found = [privilege.name for privilege in await administrator.privileges()]
        assert "ALL PRIVILEGES" in found or {"FILE", "SUPER"}.issubset(found)
    finally:
        await administrator.close()


async def test_a_login_that_may_only_read_has_no_privileges_to_name(database: Database) -> None:
    user = unique_name()
    await database.run(
        f"CREATE USER {user} IDENTIFIED BY 'x'", f"GRANT SELECT ON {database.name}.* TO {user}"
    )
    engine = MysqlEngine(with_parts(database.url, login=f"{user}:x"))
    try:
        await engine.open()
        assert await engine.privileges() == []
        assert len((await rows(engine, "SELECT id FROM victims")).rows) == 50
    finally:
        await engine.close()
        await database.run(f"DROP USER {user}")


# Reading.


async def test_rows_are_cut_at_the_limit_and_say_so(engine: MysqlEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = %s", -1)
    assert found == (("id", "name"), [], False)


async def test_values_come_as_the_server_writes_them(
    engine: MysqlEngine, database: Database
) -> None:
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
async def test_a_bound_value_is_nothing_but_itself(engine: MysqlEngine, text: str) -> None:
    assert (await rows(engine, "SELECT %s", text)).rows == [(text,)]
    found = await engine.query(Statement("SELECT %s AS x", (text,)), limit=2, within=5)
    assert found.rows == [(text,)]


async def test_a_bound_value_is_itself_where_backslashes_are_not_special(
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


async def test_our_own_statements_cannot_write_either(
    engine: MysqlEngine, database: Database
) -> None:
    before = await database.checksum()
    for sql in (
        "SELECT writes()",
        "SELECT writes_old()",
        "DELETE FROM victims",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(InvalidParameter):
            await rows(engine, sql)
    assert await database.checksum() == before


async def test_a_table_that_is_gone_has_changed(engine: MysqlEngine, database: Database) -> None:
    await database.run("CREATE TABLE gone (x int)", "INSERT INTO gone VALUES (1)")
    assert (await rows(engine, "SELECT * FROM gone")).columns == ("x",)
    await database.run("ALTER TABLE gone ADD y int")
    assert await rows(engine, "SELECT * FROM gone") == (("x", "y"), [(1, None)], False)
    await database.run("DROP TABLE gone")
    with pytest.raises(ResourceBusy):
        await rows(engine, "SELECT * FROM gone")
