"""PostgreSQL: tables as reflected, and rows as read."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from typing import Any

import pytest

from resource_server.errors import (
    InvalidParameter,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.reflection import ForeignKey, Index, TableName
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import ADMIN, Database, rows
from tests.providers.database.servers import (
    with_parts,
)

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine


# The catalogue.


async def test_tables_are_those_a_user_would_count(engine: PostgresEngine) -> None:
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
    engine = PostgresEngine(database.url, schemas=["other"])
    await engine.open()
    try:
        assert [info.name for info in await engine.tables()] == [TableName("other", "hidden")]
        assert (await engine.table(TableName("other", "hidden"))).key == ("id",)
        with pytest.raises(ResourceNotFound):
            await engine.table(TableName("public", "victims"))
    finally:
        await engine.close()


async def test_a_table_is_reflected_with_all_that_readers_need(engine: PostgresEngine) -> None:
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
async def test_what_no_path_can_name_is_no_key(
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


async def test_views_tell_their_definition_and_tables_what_would_make_them(
    engine: PostgresEngine, database: Database
) -> None:
    view = await engine.table(TableName("public", "names"))
    assert "FROM customers" in (view.ddl or "")
    statement = (await engine.table(TableName("public", "customers"))).ddl or ""
    assert 'PRIMARY KEY ("id")' in statement
    assert '"doubled" integer GENERATED ALWAYS AS' in statement
    statement = statement.replace('"public".', '"again".')
    await database.run(f"CREATE SCHEMA again; {statement}")
    await database.run("DROP SCHEMA again CASCADE")


@pytest.mark.parametrize(
    "name", ["days_2026", "absent", "forbidden", "pg_class", "Customers", "\x00"]
)
async def test_what_is_no_table_of_its_own_is_not_found(engine: PostgresEngine, name: str) -> None:
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


async def test_the_estimate_is_that_of_the_statistics(
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


async def test_the_schema_state_differs_after_every_change_of_the_schema(
    engine: PostgresEngine, database: Database
) -> None:
    for change in SCHEMA_CHANGES:
        before = await engine.schema_state()
        await database.execute("UPDATE victims SET name = name WHERE id = 1")
        assert await engine.schema_state() == before
        await database.execute(f"SET ROLE {database.role}; {change}")
        assert await engine.schema_state() != before, change


async def test_temporary_tables_of_others_are_no_change_of_the_schema(
    engine: PostgresEngine, database: Database
) -> None:
    before = await engine.schema_state()
    await database.execute(
        "CREATE TEMPORARY TABLE mine (id serial PRIMARY KEY, x integer DEFAULT 5 CHECK (x > 0));"
        " CREATE TEMPORARY VIEW ours AS SELECT * FROM mine"
    )
    assert await engine.schema_state() == before


async def test_privileges_name_what_goes_beyond_reading(
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


# Reading.


async def test_rows_are_cut_at_the_limit_and_say_so(engine: PostgresEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)


async def test_no_rows_have_columns(engine: PostgresEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", -1)
    assert found == (("id", "name"), [], False)
    asked = await engine.query(Statement("SELECT id FROM victims WHERE false"), limit=5, within=5)
    assert asked == (("id",), [], False)


async def test_times_that_python_does_not_have_are_text(engine: PostgresEngine) -> None:
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
async def test_a_value_that_was_read_finds_its_row(engine: PostgresEngine, column: str) -> None:
    found = await rows(engine, f"SELECT id, {column}, {column}::text FROM times ORDER BY id")
    for number, value, text in found.rows:
        again = await rows(engine, f"SELECT id FROM times WHERE {column} = $1", value)
        assert (number,) in again.rows
        if isinstance(value, str):
            assert value == text


async def test_other_values_come_as_the_driver_has_them(engine: PostgresEngine) -> None:
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
    engine: PostgresEngine, value: object
) -> None:
    with pytest.raises(InvalidParameter):
        await rows(engine, "SELECT 1 FROM victims WHERE id = $1", value)
    assert (await rows(engine, "SELECT 1 FROM victims WHERE id = $1", 5)).rows == [(1,)]


async def test_a_table_altered_while_its_statement_is_known_is_read_again(
    engine: PostgresEngine, database: Database
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
    engine: PostgresEngine, database: Database
) -> None:
    connection = await asyncpg.connect(with_parts(ADMIN, database=database.name))
    try:
        await connection.execute("BEGIN; LOCK TABLE victims IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ResourceBusy):
            await rows(engine, "SELECT * FROM victims")
        assert (await rows(engine, "SELECT count(*) FROM orders")).rows == [(0,)]
    finally:
        await connection.close()


async def test_our_own_statements_cannot_write_either(
    engine: PostgresEngine, database: Database
) -> None:
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
