"""Reflection of PostgreSQL tables."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from resource_server.errors import (
    ResourceNotFound,
)
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.reflection import ForeignKey, Index, TableName
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import ADMIN, Database
from tests.providers.database.servers import (
    with_parts,
)

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine


async def test_only_user_tables_are_listed(engine: PostgresEngine) -> None:
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


async def test_schemas_that_are_not_named_are_hidden(database: Database) -> None:
    engine = PostgresEngine(database.url, schemas=["other"])
    await engine.open()
    try:
        assert [info.name for info in await engine.tables()] == [TableName("other", "hidden")]
        assert (await engine.table(TableName("other", "hidden"))).key == ("id",)
        with pytest.raises(ResourceNotFound):
            await engine.table(TableName("public", "victims"))
    finally:
        await engine.close()


async def test_a_table_is_reflected_with_its_columns_key_and_comments(
    engine: PostgresEngine,
) -> None:
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


async def test_keys_are_primary_or_unique_and_never_null(engine: PostgresEngine) -> None:
    async def key(name: str) -> tuple[tuple[str, ...], str]:
        table = await engine.table(TableName("public", name))
        return table.key, table.key_kind

    assert await key("orders") == (("region", "number"), "primary")
    assert await key("codes") == (("a", "b"), "unique")
    assert await key("keyless") == ((), "none")
    assert await key("names") == ((), "none")
    assert await key("days") == (("day", "id"), "primary")


@pytest.mark.parametrize(
    "type",
    ["text[]", "int4range", "int4multirange", "bit(3)", "varbit", "odd.pair", "odd.pairs"],
)
async def test_a_column_whose_values_no_path_can_hold_is_no_key(
    database: Database, engine: PostgresEngine, type: str
) -> None:
    await database.execute(
        f"""CREATE SCHEMA odd;
        CREATE TYPE odd.pair AS (a int, b int);
        CREATE DOMAIN odd.pairs AS odd.pair;
        CREATE TABLE odd.one (k {type} PRIMARY KEY, id int NOT NULL);
        CREATE TABLE odd.two (k {type} PRIMARY KEY, id int NOT NULL UNIQUE);
        GRANT USAGE ON SCHEMA odd TO {database.role};
        GRANT SELECT ON ALL TABLES IN SCHEMA odd TO {database.role}"""
    )
    try:
        one, two = [await engine.table(TableName("odd", name)) for name in ("one", "two")]
    finally:
        await database.execute("DROP SCHEMA odd CASCADE")
    assert (one.key, one.key_kind) == ((), "none")
    assert (two.key, two.key_kind) == (("id",), "unique")


async def test_foreign_keys_and_indexes_are_named(engine: PostgresEngine) -> None:
    table = await engine.table(TableName("public", "orders"))
    referred = ForeignKey(("customer",), TableName("public", "customers"), ("id",))
    assert table.foreign_keys == (referred,)
    assert Index("by_lower", (None, "number")) in table.indexes


async def test_the_ddl_is_a_views_definition_or_an_equivalent_create_table(
    engine: PostgresEngine, database: Database
) -> None:
    view = await engine.table(TableName("public", "names"))
    assert "FROM customers" in (view.ddl or "")
    statement = (await engine.table(TableName("public", "customers"))).ddl or ""
    assert 'PRIMARY KEY ("id")' in statement
    assert '"doubled" integer GENERATED ALWAYS AS' in statement
    assert '"id" integer GENERATED ALWAYS AS IDENTITY' in statement
    statement = statement.replace('"public".', '"again".')
    await database.run(f"CREATE SCHEMA again; {statement}")
    await database.run("DROP SCHEMA again CASCADE")


async def test_the_ddl_has_the_primary_key_even_if_it_is_no_key_of_rows(
    engine: PostgresEngine, database: Database
) -> None:
    await database.execute(
        f"SET ROLE {database.role}; CREATE TABLE places (k regclass PRIMARY KEY);"
        "CREATE TABLE parents (id int PRIMARY KEY); CREATE TABLE children () INHERITS (parents)"
    )
    try:
        for name in ("places", "parents"):
            table = await engine.table(TableName("public", name))
            assert table.key == ()
            assert "PRIMARY KEY (" in (table.ddl or "")
    finally:
        await database.execute("DROP TABLE places; DROP TABLE parents CASCADE")


@pytest.mark.parametrize("name", ["days_2026", "absent", "pg_class", "Customers", "\x00"])
async def test_partitions_and_hidden_tables_are_not_found(
    engine: PostgresEngine, name: str
) -> None:
    with pytest.raises(ResourceNotFound):
        await engine.table(TableName("public", name))


async def test_a_chain_of_foreign_keys_is_not_followed(
    engine: PostgresEngine, database: Database
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


async def test_the_estimate_comes_from_the_statistics(
    engine: PostgresEngine, database: Database
) -> None:
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
    "ALTER TYPE mood RENAME VALUE 'new' TO 'newer'",
    "ALTER TYPE mood RENAME TO temper",
    "ALTER TYPE temper RENAME TO mood",
    "ALTER DOMAIN small DROP NOT NULL",
    "CREATE OR REPLACE VIEW names AS SELECT id, name FROM customers WHERE id > 0",
    "CREATE INDEX ON keyless (x)",
    "DROP TABLE made",
)


async def test_every_schema_change_changes_the_schema_state(
    engine: PostgresEngine, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.execute("UPDATE victims SET name = name WHERE id = 1")
        assert await engine.schema_state() == before
        await database.execute(f"SET ROLE {database.role}; {change}")
        assert await engine.schema_state() != before, change


async def test_temporary_tables_of_others_do_not_change_the_schema_state(
    engine: PostgresEngine, database: Database
) -> None:
    before = await engine.schema_state()
    await database.execute(
        "CREATE TEMPORARY TABLE mine (id serial PRIMARY KEY, x integer DEFAULT 5 CHECK (x > 0));"
        " CREATE TEMPORARY VIEW ours AS SELECT * FROM mine"
    )
    assert await engine.schema_state() == before


async def test_privileges_beyond_reading_are_reported(
    engine: PostgresEngine, database: Database
) -> None:
    names = [privilege.name for privilege in await engine.privileges()]
    assert "INSERT on public.victims" in names
    assert "TRUNCATE on public.victims" in names
    assert "CREATE on schema public" in names
    assert "SUPERUSER" not in names
    superuser = PostgresEngine(with_parts(ADMIN, database=database.name))
    await superuser.open()
    try:
        found = [privilege.name for privilege in await superuser.privileges()]
        assert "SUPERUSER" in found
        assert not any(" on " in name for name in found)
    finally:
        await superuser.close()
