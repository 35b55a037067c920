"""Reflection of MariaDB and MySQL tables."""

from __future__ import annotations

import pytest

from resource_server.errors import (
    ResourceNotFound,
)
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


async def test_only_user_tables_are_listed(engine: MysqlEngine) -> None:
    assert engine.name in {"mariadb", "mysql"}
    assert not engine.has_schemas
    found = {info.name.name: info for info in await engine.tables()}
    assert list(found) == ["codes", "customers", "keyless", "names", "old", "orders", "victims"]
    assert found["customers"].comment == "Who buys"
    assert found["names"].type == "view"
    assert found["names"].comment is None


async def test_a_table_is_reflected_with_its_columns_key_and_comments(engine: MysqlEngine) -> None:
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
        ("flags", "integer"),
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


async def test_the_ddl_is_a_views_definition_or_a_tables_create_statement(
    engine: MysqlEngine,
) -> None:
    assert "customers" in ((await engine.table(TableName(None, "names"))).ddl or "")
    statement = (await engine.table(TableName(None, "customers"))).ddl or ""
    assert statement.startswith(
        "CREATE TABLE `customers` (\n  `id` int(11) NOT NULL AUTO_INCREMENT"
    )
    assert "AUTO_INCREMENT=" not in statement, "which changes with every row"


@pytest.mark.parametrize("name", ["absent", "Victims", "victims ", "user", "a' OR '1'='1", "\x00"])
async def test_a_name_that_is_no_table_of_this_database_is_not_found(
    engine: MysqlEngine, name: str
) -> None:
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName(None, name))
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName("mysql", "user"))


async def test_the_estimate_comes_from_the_statistics(
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


async def test_every_schema_change_changes_the_schema_state(
    engine: MysqlEngine, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.run("UPDATE victims SET name = CONCAT(name, '') WHERE id = 1")
        assert await engine.schema_state() == before
        await database.run(change)
        assert await engine.schema_state() != before, change


async def test_privileges_beyond_reading_are_reported(
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


async def test_a_read_only_login_has_no_privileges_to_report(database: Database) -> None:
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
