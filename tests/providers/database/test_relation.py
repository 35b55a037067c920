"""Tables as they are remembered, while the database they are in is changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from resource_server.providers.database.engines import name_of
from resource_server.providers.database.options import Limits
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.provider import Database
from resource_server.providers.database.relation import Relations
from resource_server.providers.database.table import TableName
from tests.providers.database.owners import Owner

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def overtaken(owner: Owner, question: str, change: str) -> AsyncGenerator[Relations]:
    """Give the tables of a database that is changed, and looked at, during the first answer."""
    async with Database(url=owner.url) as database:
        engine = database.engine
        relations = Relations(engine, Policy({}, name_of(owner.url)), Limits())
        ask = getattr(engine, question)

        async def answer(*given: Any) -> Any:
            found = await ask(*given)
            patch.undo()
            await owner.run(change)
            await relations.state()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, question, answer)
            yield relations


async def test_a_table_that_changed_while_it_was_looked_at_is_looked_at_again(
    owner: Owner,
) -> None:
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY, x integer)")
    name = TableName(owner.prefix.removesuffix("/") or None, "t")
    async with overtaken(owner, "table", "ALTER TABLE t RENAME COLUMN x TO y") as relations:
        await relations.get(name)
        found = await relations.get(name)
        assert list(found.columns) == ["id", "y"]
        assert await relations.get(name) is found


async def test_tables_that_came_while_they_were_listed_are_listed(owner: Owner) -> None:
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY)")
    change = "CREATE TABLE u (id integer PRIMARY KEY)"
    async with overtaken(owner, "tables", change) as relations:
        await relations.infos()
        found = await relations.infos()
        assert [info.name.name for info in found] == ["t", "u"]
        assert await relations.infos() is found


async def test_rows_are_found_by_keys_that_were_given_another_type(owner: Owner) -> None:
    if owner.engine == "sqlite":
        pytest.skip("columns of SQLite keep their types")
    await owner.run("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    alter = "ALTER COLUMN id TYPE" if owner.engine == "postgresql" else "MODIFY id"
    async with Database(url=owner.url) as database:
        relations = Relations(database.engine, Policy({}, name_of(owner.url)), Limits())

        async def found(key: str) -> bool:
            await relations.state()
            name = TableName(owner.prefix.removesuffix("/") or None, "t")
            relation = await relations.get(name)
            statement = relation.statements.rows([relation.key_of((key,))])
            return len((await relation.fetch(statement, 1)).rows) == 1

        assert await found("1")
        await owner.run(f"ALTER TABLE t {alter} bigint", "INSERT INTO t VALUES (3000000000)")
        assert await found("3000000000")
        await owner.run(f"ALTER TABLE t {alter} varchar(20)", "INSERT INTO t VALUES ('a')")
        assert await found("1")
        assert await found("a")
