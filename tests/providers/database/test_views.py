"""Views that show what the entries of their tables hide, on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound, ResourceUnreadable
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import FRESH, Served, served

pytestmark = pytest.mark.anyio

SHOP = (
    "create table orders (id integer primary key, total integer, card varchar(20))",
    "insert into orders values (1, 5, 'secret 4711')",
    "create table audit (id integer primary key, line varchar(20))",
    "create view cards as select id, card from orders",
    "create view renamed as select id, card as number from orders",
    "create view picked as select id from orders where card like '%4711'",
    "create view longest as select max(card) as longest from orders",
    "create view inner_one as with c as (select card from orders) select card as x from c",
    "create view behind as select id, number from renamed",
    "create view totals as select id, total from orders",
    "create view counted as select count(*) as n from orders",
    "create view audited as select line from audit",
)
HIDDEN = ("behind", "cards", "inner_one", "longest", "picked", "renamed")
VISIBLE = ("audited", "counted", "totals")
HIDE: Mapping[str, Any] = {"orders": TableOptions(columns=ColumnOptions(hide=("card",)))}
MASK: Mapping[str, Any] = {"orders": TableOptions(columns=ColumnOptions(mask={"card": "redact"}))}
CONSENT = TableOptions(expose=True)


async def exposed(it: Served) -> set[str]:
    """Return the tables that are listed; asserts that exactly these can be read."""
    found = {child.strip("/") for child in await it.children()} - {"~query"}
    for name in (*HIDDEN, *VISIBLE):
        if name in found:
            continue
        for path in (name, f"{name}/~rows", f"{name}/~schema", f"{name}/~rows?columns=id"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
    return found


async def warned(owner: Owner, **options: Any) -> dict[str, str]:
    """Return what `check` says about each view."""
    async with Database(url=owner.url, **options) as database:
        found = [message for _, message in await database.warnings()]
    return {message.split("'")[1]: message for message in found if message.startswith("view '")}


@pytest.mark.guarantee("hidden-does-not-exist")
@pytest.mark.parametrize("tables", [HIDE, MASK])
async def test_views_that_show_a_covered_column_do_not_exist(
    owner: Owner, tables: Mapping[str, Any]
) -> None:
    await owner.run(*SHOP)
    async with served(owner, tables=tables) as it:
        assert await exposed(it) == {"orders", "audit", *VISIBLE}
    told = await warned(owner, tables=tables)
    assert set(HIDDEN) <= set(told)
    assert "is hidden: it shows 'card' of 'orders', which tables.orders hides" in told["cards"]
    assert "`expose: true`" in told["cards"]


@pytest.mark.parametrize(
    "pattern",
    [
        {"*": HIDE["orders"]},
        {**HIDE, "*": TableOptions(where="1 = 1")},
        {**HIDE, "[bcilpr]*": TableOptions(expose=True)},
    ],
)
async def test_a_pattern_is_no_consent(owner: Owner, pattern: Mapping[str, Any]) -> None:
    await owner.run(*SHOP)
    async with served(owner, tables=pattern) as it:
        assert await exposed(it) == {"orders", "audit", *VISIBLE}


async def test_a_column_named_like_a_table_shows_nothing_of_that(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE status (id integer PRIMARY KEY, note varchar(20))",
        "CREATE TABLE things (id integer PRIMARY KEY, status varchar(20), note varchar(20))",
        "CREATE VIEW states AS SELECT t.status, t.note FROM things t",
        "CREATE VIEW notes AS SELECT t.id, s.note FROM things t JOIN status s ON s.id = t.id",
    )
    tables = {"status": TableOptions(columns=ColumnOptions(hide=("note",)))}
    async with served(owner, tables=tables) as it:
        assert {child.strip("/") for child in await it.children()} == {"states", "status", "things"}


async def test_an_entry_without_a_policy_is_no_consent(owner: Owner) -> None:
    await owner.run(*SHOP)
    named = TableOptions(title="Cards", description="All of them", key=("id",))
    async with served(owner, tables={**HIDE, "cards": named}) as it:
        assert "cards" not in await exposed(it)
    rows = TableOptions(where="total > 1")
    assert set(await warned(owner, tables={"orders": rows, "totals": named})) >= {"totals"}
    assert "totals" not in await warned(owner, tables={"orders": rows, "totals": CONSENT})


@pytest.mark.parametrize(
    "entry",
    [CONSENT, TableOptions(where="id = 1"), TableOptions(columns=ColumnOptions(hide=("id",)))],
)
async def test_a_view_is_exposed_by_consent(owner: Owner, entry: TableOptions) -> None:
    await owner.run(*SHOP)
    async with served(owner, tables={**HIDE, "cards": entry, "renamed": entry}) as it:
        # What shows only the columns of an exposed view is exposed, too.
        found = await exposed(it)
        assert {"cards", "renamed"} <= found
        assert "secret" in await it.text("cards/~rows")
    assert {"cards", "renamed"}.isdisjoint(
        await warned(owner, tables={**HIDE, "cards": entry, "renamed": entry})
    )


async def test_a_view_of_a_consented_view_is_exposed_unless_that_hides_the_column(
    owner: Owner,
) -> None:
    await owner.run(*SHOP)
    async with served(owner, tables={**HIDE, "renamed": CONSENT}) as it:
        assert "behind" in await exposed(it)
    hidden = TableOptions(columns=ColumnOptions(hide=("number",)))
    async with served(owner, tables={**HIDE, "renamed": hidden}) as it:
        assert "behind" not in await exposed(it)


async def test_with_warn_views_are_only_reported(owner: Owner) -> None:
    await owner.run(*SHOP)
    async with served(owner, tables=HIDE, views="warn") as it:
        assert await exposed(it) == {"orders", "audit", *HIDDEN, *VISIBLE}
        assert "secret" in await it.text("cards/~rows")
    told = await warned(owner, tables=HIDE, views="warn")
    assert "shows data of 'orders' that tables.orders hides" in told["cards"]


async def test_queries_over_a_refused_view_are_refused(owner: Owner) -> None:
    await owner.run(*SHOP)
    queries = {
        "bad": Query(sql="select * from cards"),
        "worse": Query(sql="with x as (select * from renamed) select * from x"),
        "good": Query(sql="select total from totals"),
    }
    async with served(owner, tables=HIDE, queries=queries) as it:
        for name in ("bad", "worse"):
            with pytest.raises(InvalidParameter):
                await it.query(name)
        assert await it.query("good") == [{"total": 5}]
    async with served(owner, tables={**HIDE, "cards": CONSENT}, queries=queries) as it:
        assert "secret" in str(await it.query("bad"))


async def test_a_view_that_is_created_or_altered_later_is_examined(owner: Owner) -> None:
    await owner.run(*SHOP[:3])
    async with served(owner, tables=HIDE, timing=FRESH) as it:
        assert await it.json("orders/1") == {"id": 1, "total": 5}
        await owner.run("create view late as select id, card from orders")
        with pytest.raises(ResourceNotFound):
            await it.text("late/~rows")
        await owner.run("drop view late", "create view late as select id, total from orders")
        assert "5" in await it.text("late/~rows")
        await owner.run("drop view late", "create view late as select card from orders")
        with pytest.raises(ResourceNotFound):
            await it.text("late/~rows")


async def test_a_new_view_is_examined_before_the_schema_is_read_again(owner: Owner) -> None:
    await owner.run(*SHOP[:3])
    async with served(owner, tables=HIDE) as it:
        assert await it.json("orders/1") == {"id": 1, "total": 5}
        await owner.run("create view late as select id, card from orders")
        with pytest.raises(ResourceNotFound):
            await it.text("late/~rows")


FAILS = {
    "sqlite": "abs(case when line = 7 then -9223372036854775807 - 1 else line end)",
    "postgresql": "100 / (line - 7)",
    "mariadb": "9223372036854775801 + line",
    "duckdb": "cast(case when line = 7 then 'x' else '1' end as integer) + line",
}
"""Expressions that fail for line 7 alone."""


@pytest.mark.parametrize("where", ["line < 3", "exists (select 1 from numbers where n = line)"])
async def test_a_computed_key_is_not_computed_for_hidden_rows(owner: Owner, where: str) -> None:
    await owner.run(
        "create table parts (line integer primary key, note varchar(9))",
        "insert into parts values (1, '1'), (2, '2'), (7, 'x')",
        "create table numbers (n integer primary key)",
        "insert into numbers values (1), (2)",
        f"create view v as select line, {FAILS[owner.engine]} as q from parts",
    )
    async with served(owner, tables={"v": TableOptions(key=("q",), where=where)}) as it:
        rows = (await it.json("v/~rows"))["rows"]
        assert sorted(row["line"] for row in rows) == [1, 2]
        addresses = await it.rows("v")
        assert [await it.json(address) for address in addresses] == rows
        with pytest.raises(ResourceNotFound):
            await it.text("v/5")
        assert len(await it.pages("v/~rows?limit=1")) == 2


async def test_whole_rows_in_a_view_show_every_column(owner: Owner) -> None:
    if owner.engine != "postgresql":
        pytest.skip("whole rows are PostgreSQL's")
    await owner.run(
        *SHOP[:3],
        "create view whole as select id, to_jsonb(o) as everything from orders o",
        "create materialized view kept as select card as kept from orders",
    )
    async with served(owner, tables=HIDE) as it:
        assert {child.strip("/") for child in await it.children()} == {"orders", "audit"}
    async with served(owner, tables={}) as it:
        assert "secret" in await it.text("whole/~rows")


async def test_a_view_of_a_partition_reads_the_columns_of_its_table(owner: Owner) -> None:
    if owner.engine != "postgresql":
        pytest.skip("other engines have no partition that is a table of its own")
    await owner.run(
        "create table orders (id integer, card text) partition by range (id)",
        "create table part partition of orders for values from (0) to (9) partition by range (id)",
        "create table leaf partition of part for values from (0) to (9)",
        "insert into orders values (1, 'secret 4711')",
        "create view upper_part as select card as number from part",
        "create view lower_part as select card as number from leaf",
        "create view whole_part as select to_jsonb(o) as everything from leaf o",
        "create view ids as select id from leaf",
    )
    async with served(owner, tables=HIDE) as it:
        assert {child.strip("/") for child in await it.children()} == {"orders", "ids"}
    told = await warned(owner, tables=HIDE)
    assert "shows 'card' of 'orders', which tables.orders hides" in told["lower_part"]


async def test_a_vocabulary_of_a_covered_column_does_not_exist(owner: Owner) -> None:
    if owner.engine != "sqlite":
        pytest.skip("vocabularies are SQLite's")
    await owner.run(
        "create virtual table docs using fts5(body, secret)",
        "insert into docs values ('tea', 'hush')",
        "create virtual table terms using fts5vocab('Docs', 'row')",
        "create virtual table other using fts5(body)",
        "create virtual table plain_terms using fts5vocab(other, row)",
    )
    tables = {"docs": TableOptions(columns=ColumnOptions(hide=("secret",)))}
    async with served(owner, tables=tables) as it:
        found = {child.strip("/") for child in await it.children()}
        assert found == {"docs", "other", "plain_terms"}
        with pytest.raises(ResourceNotFound):
            await it.text("terms/~rows")
    async with served(owner, tables={**tables, "terms": CONSENT}) as it:
        assert "hush" in await it.text("terms/~rows")


async def test_a_full_text_index_of_covered_columns_or_rows_does_not_exist(owner: Owner) -> None:
    if owner.engine != "sqlite":
        pytest.skip("full-text tables of another table's text are SQLite's")
    await owner.run(
        "create table docs (id integer primary key, body text, secret text)",
        "insert into docs values (1, 'tea', 'hush'), (2, 'cup', 'noise')",
        "create virtual table whole using fts5(body, secret, content='docs', content_rowid='id')",
        "create virtual table old using fts4(body, secret, content=docs)",
        'create virtual table bodies using fts5(body, content = "DOCS", content_rowid=id)',
        "create virtual table own using fts5(content, body)",
        "create virtual table none using fts5(body, content='')",
    )
    every = {"docs", "whole", "old", "bodies", "own", "none"}
    for options, hidden in (
        (TableOptions(columns=ColumnOptions(hide=("secret",))), {"whole", "old"}),
        (TableOptions(columns=ColumnOptions(mask={"secret": "hash"})), {"whole", "old"}),
        (TableOptions(where="id <> 2"), {"whole", "old", "bodies"}),
        (TableOptions(title="Documents"), set[str]()),
        (False, {"docs", "whole", "old", "bodies"}),
    ):
        async with served(owner, tables={"docs": options}) as it:
            found = {child.strip("/") for child in await it.children()}
            assert found == every - hidden
            for name in hidden:
                with pytest.raises(ResourceNotFound):
                    await it.text(f"{name}/~rows")
    tables = {"docs": TableOptions(where="id <> 2"), "bodies": CONSENT}
    async with served(owner, tables=tables) as it:
        assert "cup" in await it.text("bodies/~rows")


async def test_a_view_whose_definition_is_not_shown_is_reported(
    owner: Owner, mariadb_url: str
) -> None:
    if owner.engine != "mariadb":
        pytest.skip("other engines show definitions to every login")
    from tests.providers.database.mysql_databases import ADMIN
    from tests.providers.database.servers import unique_name, with_parts

    await owner.run(*SHOP)
    name, database = unique_name(), mariadb_url.rpartition("/")[2]
    async with owner_of(with_parts(ADMIN, database=database)) as admin:
        await admin.run(
            f"create user {name} identified by 'hunter2secret'",
            f"grant select on {database}.* to {name}",
        )
        try:
            url = with_parts(mariadb_url, login=f"{name}:hunter2secret")
            async with Database(url=url, tables={**HIDE, "totals": CONSENT}) as provider:
                found = [message for _, message in await provider.warnings()]
        finally:
            await admin.run(f"drop user {name}")
    told = [message for message in found if "without SHOW VIEW" in message]
    assert any(message.startswith("view 'cards' may show hidden") for message in told)
    assert not any("'totals'" in message for message in told)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql",
        pytest.param("postgresql+psycopg", marks=pytest.mark.deep),
        pytest.param("firebird+firebird", marks=pytest.mark.deep),
    ],
    indirect=True,
)
async def test_a_row_that_a_view_cannot_compute_is_there(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, note varchar(20))",
        "insert into t values (1, '5')",
        "insert into t values (2, 'x')",
        "create view v as select id, cast(note as integer) as number from t",
    )
    async with served(owner, tables={"v": TableOptions(key=("id",))}, timing=FRESH) as it:
        assert (await it.json("v/1"))["number"] == 5
        with pytest.raises(ResourceUnreadable, match="a value that it computes"):
            await it.read("v/2")
        for path in ("v/3", "v/99999999999999999999", "v/x"):
            with pytest.raises(ResourceNotFound) as missing:
                await it.read(path)
            assert not isinstance(missing.value, ResourceUnreadable)
