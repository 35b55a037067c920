"""Diagnosis of a database for its operator, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.access import Access
from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.provider import Database
from tests.providers.database.owners import Owner

pytestmark = pytest.mark.anyio

SHOP = (
    "create table salaries (id integer primary key, pay integer)",
    "create table people (id integer primary key, name varchar(9))",
    "create view pays as select id, pay from salaries",
    "create view sums as select sum(pay) as pays from pays",
    "create view names as select name from people",
)
HR = TableOptions(access=Access(scopes=("hr:read",)))


async def of_views(owner: Owner, tables: Mapping[str, Any]) -> list[str]:
    """Return the warnings of `check` about views."""
    async with Database(url=owner.url, tables=tables) as database:
        found = await database.warnings()
    assert [option for option, _ in found if option] == []
    return [message for _, message in found if message.startswith("view")]


async def test_a_view_that_exposes_a_table_beyond_its_scopes_is_reported(owner: Owner) -> None:
    await owner.run(*SHOP)
    message = (
        "view '{}' shows 'salaries' to callers without hr:read (tables.salaries.access); "
        "give the view an `access`, too"
    )
    pays, sums = message.format("pays"), message.format("sums")
    # Also through another view, with or without an entry of its own.
    assert await of_views(owner, {"salaries": HR}) == [pays, sums]
    assert await of_views(owner, {"salaries": HR, "pays": TableOptions()}) == [pays, sums]
    more = TableOptions(access=Access(scopes=("hr:read", "more")), expose=True)
    assert await of_views(owner, {"salaries": HR, "sums": more, "pays": False}) == []
    # Each view needs scopes of its own.
    (narrow,) = await of_views(owner, {"salaries": more, "pays": HR, "sums": more})
    assert "'pays' shows 'salaries' to callers without more (" in narrow


async def test_a_view_that_exposes_hidden_parts_of_a_table_is_reported(owner: Owner) -> None:
    await owner.run(*SHOP)
    tables = {"salaries": TableOptions(where="pay < 9")}
    (message,) = await of_views(owner, tables)
    assert message == (
        "view 'pays' shows data of 'salaries' that tables.salaries hides; give the view an entry "
        "in tables, with `expose: true` or its own `columns` or `where`"
    )
    # Only its words do not say what it may show.
    named = TableOptions(title="Pays", description="What is paid", key=("id",))
    assert await of_views(owner, {**tables, "pays": named}) == [message]
    for entry in (TableOptions(expose=True), TableOptions(where="pay < 9")):
        assert message not in await of_views(owner, {**tables, "pays": entry})


async def test_a_column_computed_from_hidden_columns_is_reported(owner: Owner) -> None:
    quoted = "`" if owner.engine == "mariadb" else '"'
    stored = "virtual" if owner.engine == "duckdb" else "stored"
    mail = f"{quoted}E mail{quoted}"
    await owner.run(
        f"create table people (id integer primary key, {mail} varchar(30), note varchar(9), "
        f"domain varchar(30) generated always as (substr({mail}, 2 * (1 + 1))) {stored}, "
        f"short varchar(9) generated always as (replace(note, 'E mail', ')')) {stored}, "
        "check (id > (3)))"
    )

    async def told(columns: ColumnOptions) -> list[tuple[str, str]]:
        tables = {"people": TableOptions(columns=columns)}
        async with Database(url=owner.url, tables=tables) as database:
            return [each for each in await database.warnings() if "computed" in each[1]]

    expected = (
        "tables.people.columns",
        "'domain' of 'people' is computed from 'e mail', which is hidden or masked; hide it, too",
    )
    assert await told(ColumnOptions(hide=("e mail",))) == [expected]
    assert await told(ColumnOptions(mask={"e mail": "redact"})) == [expected]
    assert await told(ColumnOptions(hide=("e mail",), mask={"DOMAIN": "hash"})) == []
    assert await told(ColumnOptions(hide=("id",))) == []


async def test_a_declared_key_that_is_not_unique_is_reported(owner: Owner) -> None:
    await owner.run("create table t (a integer, b integer, c integer)")
    await owner.insert("t", (1, 1, 1), (2, 2, 1), (2, 3, 2), (None, 4, 3), (None, 5, 3))

    async def told(**options: Any) -> list[tuple[str, str]]:
        tables = {"t": TableOptions(**options)}
        async with Database(url=owner.url, tables=tables) as database:
            return [each for each in await database.warnings() if each[0].endswith(".key")]

    expected = (
        "tables.t.key",
        "several rows of 't' have the same key: a read by key returns one of them, and pages may "
        "omit the others; name columns that together are unique",
    )
    assert await told(key=("a",)) == [expected]
    # Rows with NULL in their key have no address, but are on the last page.
    assert await told(key=("a", "c")) == []
    assert await told(key=("b",)) == []
    assert await told(key=("a",), where="b < 3") == []
    assert await told(key=("a",), rows=False) == []
