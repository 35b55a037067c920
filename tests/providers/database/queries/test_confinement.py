"""Declared queries on SQLite, where the engine confines them to what the manifest exposes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.access import Access
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.timing import Timing
from tests.providers.database.owners import Owner
from tests.providers.database.queries.shop import (
    CONSENTED,
    RESTRICTED,
    SHOP,
    answer,
    refusals,
)
from tests.providers.database.served import served

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("url", ["sqlite"], indirect=True)]

UNCHECKED = Timing(schema_cache_s=1000.0)
"""What is known of a schema is not checked again."""


@pytest.mark.guarantee("sql-sees-the-policy")
async def test_masks_are_the_values_of_masked_columns(owner: Owner) -> None:
    await owner.run(*SHOP, "insert into orders values (4, 9, 9, 'sent', 'c@4', 'm@1')")
    columns = ColumnOptions(mask={"mail": "hash", "card": "redact", "status": "last4"})
    queries = {
        "all": Query(sql="select id, mail, card from orders order by id"),
        "same": Query(sql="select mail, count(*) as n from orders group by mail order by n desc"),
        "raw": Query(
            sql="select id from orders where mail = 'm@1' or card > 'c' or status = '10%'"
        ),
        "shown": Query(sql="select id from orders where card = '***' order by id"),
    }
    tables = {"orders": TableOptions(columns=columns)}
    async with served(owner, tables=tables, queries=queries) as it:
        rows = {row["id"]: row for row in (await it.json("orders/~rows"))["rows"]}
        found = await it.query("all")
        assert found == [{key: rows[row["id"]][key] for key in row} for row in found]
        assert found[0]["mail"] != found[1]["mail"]
        assert (await it.query("same"))[0] == {"mail": found[0]["mail"], "n": 2}
        assert await it.query("raw") == []
        assert [row["id"] for row in await it.query("shown")] == [1, 3, 4, 88]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from audit", "reads audit, which is hidden (tables.audit)"),
        ("select * from main.Audit", "reads main.audit, which is hidden (tables.audit)"),
        (
            "select * from main.orders",
            "reads main.orders, which is partly hidden (tables.orders); write orders alone",
        ),
        ("select * from main.customers", "reads main.customers; write customers alone"),
        (
            "select o.CARD from orders o",
            "reads card of orders, which is hidden (tables.orders.columns.hide)",
        ),
        ("select card from recent", "reads recent, which is hidden (views)"),
        ("select card from customers", "no such column: card"),
        ("select * from nowhere", "no such table: nowhere"),
        ("select nosuch(1)", "no such function: nosuch"),
        ("select load_extension('x')", "no such function: load_extension"),
        ("select count(*) from sqlite_schema", "no such table: sqlite_schema"),
    ],
)
async def test_check_names_the_rule_behind_a_refusal(owner: Owner, sql: str, said: str) -> None:
    await owner.run(*SHOP)
    async with Database(owner.url, RESTRICTED, queries={"q": Query(sql=sql)}) as database:
        found = dict(await database.warnings())
    assert found["queries.q.sql"] == said
    assert await answer(owner, sql, RESTRICTED) is None


async def test_a_schema_may_be_named_where_nothing_is_hidden(owner: Owner) -> None:
    await owner.run(*SHOP)
    sql = "select main.customers.name from main.customers order by 1"
    assert await answer(owner, sql, {}) == [{"name": "Ann"}, {"name": "Bo"}]
    assert await refusals(owner, sql, {}) == []


async def test_a_query_may_name_its_own_expressions_like_tables(owner: Owner) -> None:
    await owner.run(*SHOP)
    for name in ("audit", "orders", "customers"):
        sql = f"with {name} as (select 1 as x) select x from {name}"
        assert await answer(owner, sql, RESTRICTED) == [{"x": 1}]
    for sql in (
        "with orders as (select * from orders) select * from orders",
        "with recent as (select * from main.audit) select line from recent, orders",
        "with recent as (select card from main.orders) select * from recent",
        "with audit as (select * from audit) select * from audit",
    ):
        assert await answer(owner, sql, CONSENTED) is None, sql


async def test_a_view_is_joined_with_a_restricted_table(owner: Owner) -> None:
    await owner.run(*SHOP)
    sql = "select recent.card from recent join orders on orders.id = recent.id order by 1"
    assert await answer(owner, sql, CONSENTED) == [{"card": "c@1"}, {"card": "c@3"}]


async def test_natural_joins_use_only_visible_columns(owner: Owner) -> None:
    await owner.run(
        *SHOP, "create table c (id integer, card text)", "insert into c values (1, 'c@3'), (3, 'x')"
    )
    for join in ("orders join c using (id)", "c natural join orders", "orders natural join c"):
        found = await answer(owner, f"select id from {join} order by id", RESTRICTED)
        assert found == [{"id": 1}, {"id": 3}], join
    for join in ("orders join c using (card)", "main.orders natural join c"):
        assert await answer(owner, f"select 1 as one from {join}", RESTRICTED) is None, join
    hidden = {"c": TableOptions(columns=ColumnOptions(hide=("id",)))}
    assert await answer(owner, "select 1 from c natural join orders", hidden) == [{"1": 1}]


async def test_a_full_text_table_is_searched_where_it_is_wholly_visible(owner: Owner) -> None:
    await owner.run(
        "create virtual table docs using fts5(title, body, secret)",
        "insert into docs values ('one', 'first words', 's@1'), ('two', 'other words', 's@2')",
        "create virtual table terms using fts5vocab(docs, row)",
        "create virtual table other using fts5(a)",
    )
    search, terms = "select title from docs where docs match 'first'", "select term from terms"
    few = TableOptions(where="title <> 'two'")
    partly = TableOptions(columns=ColumnOptions(hide=("secret",)))
    for tables, found, shown in (
        ({"other": False}, [{"title": "one"}], [{"title": "one"}, {"title": "two"}]),
        ({"docs": partly}, None, [{"title": "one"}, {"title": "two"}]),
        ({"docs": few}, None, [{"title": "one"}]),
        ({"docs": False}, None, None),
    ):
        every: Mapping[str, Any] = tables
        assert await answer(owner, search, every) == found
        assert (await answer(owner, terms, every) is None) == (found is None)
        assert await answer(owner, "select * from docs_content", every) is None
        assert await answer(owner, "select title from docs", every) == shown


async def test_queries_read_tables_without_documents(owner: Owner) -> None:
    await owner.run(*SHOP)
    tables = {"customers": TableOptions(rows=False)}
    sql = "select name from customers order by id"
    assert await answer(owner, sql, tables) == [{"name": "Ann"}, {"name": "Bo"}]


async def test_a_new_table_is_read_and_a_new_view_examined_by_the_next_query(owner: Owner) -> None:
    await owner.run(*SHOP)
    queries = {
        name: Query(sql=f"select * from {name}") for name in ("later", "audit_2", "recent", "fine")
    }
    tables = {**RESTRICTED, "audit*": False}
    async with served(owner, timing=UNCHECKED, tables=tables, queries=queries) as it:
        assert len((await it.json("customers/~rows"))["rows"]) == 2
        await owner.run(
            "create table later (x)",
            "insert into later values (7)",
            "create table audit_2 (line)",
            "create view fine as select id from orders",
        )
        assert await it.query("later") == [{"x": 7}]
        assert len(await it.query("fine")) == 3
        await owner.run("drop view fine", "create view fine as select id, card from orders")
        for name in ("audit_2", "recent", "fine"):
            with pytest.raises(Exception, match="the database refuses this query"):
                await it.query(name)


@pytest.mark.guarantee("sql-sees-the-policy")
async def test_a_query_goes_on_when_the_schema_changes_meanwhile(owner: Owner) -> None:
    await owner.run(*SHOP)
    sql = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)"
        " select max(i) as n from n, customers"
    )
    async with served(owner, tables=RESTRICTED, queries={"q": Query(sql=sql)}) as it:
        running = [asyncio.create_task(it.query("q")) for _ in range(3)]
        await asyncio.sleep(0)
        await owner.run("create table later (x)")
        other = await it.query("q")
        assert [await each for each in running] == [other] * 3 == [[{"n": 300000}]] * 3


async def test_scopes_of_its_tables_decide_who_sees_a_query(owner: Owner) -> None:
    await owner.run(*SHOP)
    tables = {"audit": TableOptions(access=Access(scopes=("see:audit",)))}
    queries = {"q": Query(sql="select line from customers join audit"), "r": Query(sql="select 1")}
    database = Database(owner.url, tables, queries=queries)
    assert [tool.name for tool in database.narrowed(frozenset()).tools()] == ["r"]
    assert [tool.name for tool in database.narrowed(frozenset(("see:audit",))).tools()] == [
        "q",
        "r",
    ]
