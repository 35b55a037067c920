"""Cached tables while the schema of their database changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.engines.factory import engine_name
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import (
    ChangeHint,
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.eager import settle
from tests.providers.database.owners import Owner
from tests.providers.database.served import served

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def overtaken(owner: Owner, question: str, change: str) -> AsyncGenerator[ExposedTableCache]:
    """Return the tables of a database that changes and is read during the first reflection."""
    async with Database(url=owner.url) as database:
        engine = database.engine
        exposed_tables = ExposedTableCache(engine, Policy({}, engine_name(owner.url)), ReadLimits())
        ask = getattr(engine, question)

        async def answer(*given: Any) -> Any:
            found = await ask(*given)
            patch.undo()
            await owner.run(change)
            await exposed_tables.state()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, question, answer)
            yield exposed_tables


async def test_a_table_changed_during_reflection_is_reflected_again(
    owner: Owner,
) -> None:
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY, x integer)")
    name = TableName(owner.prefix.removesuffix("/") or None, "t")
    async with overtaken(owner, "table", "ALTER TABLE t RENAME COLUMN x TO y") as exposed_tables:
        await exposed_tables.get(name)
        found = await exposed_tables.get(name)
        assert list(found.columns) == ["id", "y"]
        assert await exposed_tables.get(name) is found


async def test_tables_created_during_a_listing_are_listed(owner: Owner) -> None:
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY)")
    change = "CREATE TABLE u (id integer PRIMARY KEY)"
    async with overtaken(owner, "tables", change) as exposed_tables:
        await exposed_tables.infos()
        found = await exposed_tables.infos()
        assert [info.name.name for info in found] == ["t", "u"]
        assert await exposed_tables.infos() is found
        assert exposed_tables.take_variation()


@pytest.mark.parametrize("has_tables", [False, True])
async def test_a_listing_overtaken_by_a_later_one_shows_a_variation(
    owner: Owner, has_tables: bool
) -> None:
    if has_tables:
        await owner.run("CREATE TABLE t (id integer PRIMARY KEY)")
    async with Database(url=owner.url) as database:
        tables = ExposedTableCache(
            database.engine, Policy({}, engine_name(owner.url)), ReadLimits()
        )
        ask = database.engine.tables

        async def answer() -> Any:
            patch.undo()
            found = await settle(ask())
            await owner.run("CREATE TABLE u (id integer PRIMARY KEY)")
            await tables.state()
            assert [info.name.name for info in await tables.infos()][-1:] == ["u"]
            assert not tables.take_variation()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database.engine, "tables", answer)  # no engine is late at will
            assert "u" not in [info.name.name for info in await tables.infos()]
        assert tables.take_variation()
        assert not tables.take_variation()


async def test_rows_are_found_after_their_key_changes_its_type(owner: Owner) -> None:
    if owner.engine == "sqlite":
        pytest.skip("columns of SQLite keep their types")
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    if owner.engine == "duckdb":
        pytest.skip("indexed columns of DuckDB keep their types")
    alter = "ALTER COLUMN id TYPE" if owner.engine == "postgresql" else "MODIFY id"
    async with Database(url=owner.url) as database:
        exposed_tables = ExposedTableCache(
            database.engine, Policy({}, engine_name(owner.url)), ReadLimits()
        )

        async def found(key: str) -> bool:
            await exposed_tables.state()
            name = TableName(owner.prefix.removesuffix("/") or None, "t")
            exposed = await exposed_tables.get(name)
            statement = exposed.statements.rows([exposed.key_of((key,))])
            return len((await exposed.run_own(statement, 1)).rows) == 1

        assert await found("1")
        await owner.run(f"ALTER TABLE t {alter} bigint", "INSERT INTO t VALUES (3000000000)")
        assert await found("3000000000")
        await owner.run(f"ALTER TABLE t {alter} varchar(20)", "INSERT INTO t VALUES ('a')")
        assert await found("1")
        assert await found("a")


UNFIT = {
    "postgresql": [
        ("integer", "3000000000"),
        ("mood", "none"),
        ("inet", "a"),
        ("macaddr", "a"),
        ("jsonb", "{"),
        ("pg_lsn", "a"),
        ("interval", "a"),
        ("interval", "1e15 years"),
        ("float4", "1e300"),
        ("text", "~ta~00b"),
    ],
    "mariadb": [("varchar(9) CHARACTER SET latin1", "ж")],
    "sqlite": [("integer", "a")],
    "duckdb": [
        ("integer", "3000000000"),
        ("enum('sad')", "none"),
        ("date", "2026-02-30"),
        ("timestamptz", "a"),
        ("decimal(4, 2)", "1e300"),
        ("decimal(4, 2)", "1.005"),
        ("uuid", "a"),
        ("hugeint", "1e40"),
    ],
}


async def test_a_key_outside_the_range_of_its_column_is_not_found(owner: Owner) -> None:
    if owner.engine == "postgresql":
        await owner.run("CREATE TYPE mood AS ENUM ('sad')")
    sql = "SELECT id FROM t0 WHERE id = :id"
    query = Query(sql=sql, parameters={"id": Parameter(type="integer")})
    types = UNFIT[owner.engine]
    for place, (type_, _) in enumerate(types):
        await owner.run(
            f"CREATE TABLE t{place} (id {type_} PRIMARY KEY)",
            f"CREATE TABLE s{place} (id {type_}, n integer, PRIMARY KEY (id, n))",
        )
    async with served(owner, queries={"by_id": query}) as view:
        for place, (_, key) in enumerate(types):
            for path in (f"t{place}/{key}", f"s{place}/{key}", f"s{place}/{key}/1"):
                with pytest.raises(ResourceNotFound):
                    await view.read(quote(path))
                with pytest.raises(ResourceNotFound):
                    await view.entry(quote(path))
        if owner.engine == "postgresql":
            with pytest.raises(InvalidParameter):
                await view.query("by_id?id=3000000000")


@pytest.mark.parametrize("hide", [(), ("moment",)])
async def test_the_change_mark_of_a_filtered_view_may_be_a_hidden_column(
    owner: Owner, hide: tuple[str, ...]
) -> None:
    await owner.run(
        "CREATE TABLE t (id integer PRIMARY KEY, x integer, moment integer)",
        "INSERT INTO t VALUES (1, 1, 5), (2, 1, 4), (3, 0, 6)",
        "CREATE VIEW v AS SELECT id, x, moment FROM t",
    )
    options = TableOptions(
        key=("id",),
        where="x = 1",
        change=ChangeHint(column="moment"),
        columns=ColumnOptions(hide=hide),
    )
    async with Database(url=owner.url) as database:
        policy = Policy({"v": options}, engine_name(owner.url))
        exposed_tables = ExposedTableCache(database.engine, policy, ReadLimits())
        view = await exposed_tables.get(TableName(owner.prefix.removesuffix("/") or None, "v"))
        assert await view.mark() == (5, 2)
