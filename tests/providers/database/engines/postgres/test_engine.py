"""Rows and values of PostgreSQL."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from resource_server.errors import (
    InvalidParameter,
    ResourceBusy,
    ResourceError,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import ADMIN, Database, rows
from tests.providers.database.servers import (
    with_parts,
)
from tests.waiting import PATIENCE_S, until

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine


async def test_a_result_over_the_limit_is_truncated_and_marked(engine: PostgresEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims ORDER BY id", limit=2)
    assert found == (("id", "name"), [(1, "name 1"), (2, "name 2")], True)
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", 7)
    assert found == (("id", "name"), [(7, "name 7")], False)


async def test_an_empty_result_has_columns(engine: PostgresEngine) -> None:
    found = await rows(engine, "SELECT id, name FROM victims WHERE id = $1", -1)
    assert found == (("id", "name"), [], False)
    asked = await engine.run_authored(
        Statement("SELECT id FROM victims WHERE false"), limit=5, within=PATIENCE_S
    )
    assert asked == (("id",), [], False)


async def test_other_values_are_the_drivers(engine: PostgresEngine) -> None:
    found = await rows(
        engine,
        "SELECT 1.10::numeric, 'x'::name, '{\"a\": 1}'::jsonb, '\\x00ff'::bytea,"
        " 9223372036854775807, 'NaN'::numeric, true, NULL",
    )
    assert found.rows[0][:5] == (Decimal("1.10"), "x", '{"a": 1}', b"\x00\xff", 2**63 - 1)
    assert found.rows[0][5].is_nan()
    assert found.rows[0][6:] == (True, None)


@pytest.mark.parametrize("value", [2**70, "text", object(), "\x00"])
async def test_a_value_that_its_column_cannot_hold_is_an_invalid_parameter(
    engine: PostgresEngine, value: object
) -> None:
    with pytest.raises(InvalidParameter):
        await rows(engine, "SELECT 1 FROM victims WHERE id = $1", value)
    assert (await rows(engine, "SELECT 1 FROM victims WHERE id = $1", 5)).rows == [(1,)]


async def test_a_table_altered_after_its_statement_was_prepared_is_read_again(
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


async def test_a_session_whose_prepared_statements_a_function_dropped_is_replaced(
    engine: PostgresEngine,
) -> None:
    select = "SELECT count(*) FROM orders"
    await rows(engine, select)
    await rows(engine, "SELECT runs('DEALLOCATE ALL')")
    with suppress(ResourceBusy):
        await rows(engine, select)
    for _ in range(3):
        assert (await rows(engine, select)).rows == [(0,)]


async def test_a_locked_table_is_busy_and_others_stay_readable(
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


async def test_internal_statements_cannot_write(engine: PostgresEngine, database: Database) -> None:
    before = await database.checksum()
    for sql in (
        "SELECT writes()",
        "SELECT definer()",
        "DELETE FROM victims",
        "SELECT nextval('counter')",
        "SET TRANSACTION READ WRITE",
    ):
        with pytest.raises(ResourceError):
            await rows(engine, sql)
    await rows(engine, "SELECT pg_advisory_lock(43)")
    held = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE locktype = 'advisory' AND objid = 43 AND datname = current_database()"
    )

    async def is_released() -> bool:
        return bool((await rows(engine, held)).rows == [(0,)])

    # Another connection may look before that one is cleaned up.
    await until(is_released)
    assert await database.checksum() == before
