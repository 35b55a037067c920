"""Declared queries on restricted tables, on every engine."""

from __future__ import annotations

import logging
import re
from contextlib import suppress

import pytest

from resource_server.access import Access
from resource_server.errors import InvalidParameter
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.timing import Timing
from tests.providers.database.owners import Owner
from tests.providers.database.queries.shop import (
    CONSENTED,
    RESTRICTED,
    SHOP,
    answer,
    refusals,
    secrets,
    spelled,
)
from tests.providers.database.served import served
from tests.waiting import until

pytestmark = pytest.mark.anyio


ATTEMPTS = """
select * from orders
select * from ORDERS
select * from Orders o
select * from {o}
select o.card from orders o
select mail from orders
select sum(total) as n from orders
select max(orders.total) as n from orders
select * from {s}.orders
select * from {s}.ORDERS
select * from {s}.{o}
select * from {s} . orders
select total from {s}.orders
select * from {s}/* . */./* */orders
select {s}.orders.card from {s}.orders
select o.* from customers as c join {s}.orders o on o.customer = c.id
select {s}.card from {s}.orders {s}
select orders.* from customers, orders
select * from (select * from orders) x
select orders.* from customers join orders on customer = customers.id
select * from orders natural join (select 88 as id) x
select id, name from customers union all select total, mail from orders
select (select max(total) from orders) as n
select case when exists (select 1 from orders where total = 8876) then 8876 end as n
select total from orders where id in (select id from orders where status = 'draft')
with x as (select * from orders) select * from x
with x as (with y as (select * from orders) select * from y) select * from x
with x as (select 1 as one), y as (select * from orders, x) select * from y
select (with x as (select * from orders) select max(total) from x) as n
select * from (with x as (select * from orders) select * from x) y
select id from customers where id in (with x as (select * from orders) select customer from x) \
union all select max(total) from orders
with recursive x as (select 1 as n union all select n + 1 from x where n < 2) \
select max(total) as n from x, orders
with recursive x as (select max(total) as n from orders union all select n + 1 from x where n < 2) \
select n from x
with recursive x as (select id, total from orders union select id, total from orders) \
select * from x
select * from audit
select * from AUDIT
select line as orders from audit
select line from customers, audit
select * from {s}.audit
select line from recent, audit
select (select max(line) from audit) as n
with x as (select * from audit) select * from x
select x.line from (select * from (select * from audit) x) x
"""
ATTEMPTS_OF = {
    "sqlite": """
select * from 'orders'
select * from [orders]
select * from main.'orders'
select * from 'main'.[orders]
select * from `main` . `orders`
select * from orders not indexed
select total from 'orders'
select total from main.'orders'
select line from 'audit'
""",
    "postgresql": """
table orders
table public.orders
table audit
select * from only orders
select * from only (orders)
select * from only public.orders
select * from orders *
select * from {d}.public.orders
select * from "public"."orders"
select o.* from customers c, lateral (select * from orders where customer = c.id) o
select c.name, o.* from customers c cross join lateral (table orders) o
select row_to_json(orders)::text as n from orders
select orders as n from orders
with orders as (select * from orders) select * from orders
with x as materialized (select * from orders) select * from x
(select * from orders) union all (select * from orders)
select n.total from (select array_agg(total)::text as total from orders) n
""",
    "mariadb": """
select * from .orders
select * from (orders)
select orders.* from (orders, customers)
select orders.* from orders straight_join customers
select audit.* from customers left join (orders, audit) on customers.id = orders.customer
select orders.* from {{ oj orders left join customers on customers.id = customer }}
with orders as (select * from orders) select * from orders
(select * from orders) union all (select * from orders)
select * from customers join audit using (id)
""",
}


@pytest.mark.guarantee("sql-sees-the-policy")
@pytest.mark.parametrize(
    "url",
    ["sqlite", "postgresql", pytest.param("mariadb", marks=pytest.mark.deep)],
    indirect=True,
)
async def test_no_query_reads_hidden_tables_columns_or_rows(owner: Owner) -> None:
    await owner.run(*SHOP)
    for sql in filter(None, (ATTEMPTS + ATTEMPTS_OF[owner.engine]).splitlines()):
        found = await answer(owner, sql, RESTRICTED)
        assert not secrets(found), sql
        if owner.engine != "mariadb" or sql == sql.lower():  # there these are no tables
            assert secrets(await answer(owner, sql, {})), f"is no attempt: {sql}"


UNNAMED = {
    "select (select max(status) from orders)": "max",
    "select 1 as n, exists(select 1 from orders where id = 1)": "exists",
    "select 1 as n, coalesce((select max(id) from orders o), 1)": "coalesce",
    "select * from (select 1 as n, (select max(status) from orders)) x": "max",
    "with x as (select (select max(status) from orders)) select * from x": "max",
    "select (select max(status) from orders) union all select 'b'": "max",
    "select (select max(status) from orders) || :p": "?column?",
}
"""Queries with a column without a name, and its name on PostgreSQL."""


@pytest.mark.guarantee("sql-sees-the-policy")
@pytest.mark.parametrize("sql", UNNAMED)
async def test_the_name_of_a_column_tells_nothing_of_the_policy(owner: Owner, sql: str) -> None:
    await owner.run(*SHOP)
    places = {"p": Parameter(default="x")} if ":p" in sql else {}
    async with served(
        owner, tables=RESTRICTED, queries={"q": Query(sql=sql, parameters=places)}
    ) as it:
        name = list((await it.query("q"))[0])[-1]
    match owner.engine:
        case "postgresql":
            assert name == UNNAMED[sql]
        case "sqlite":
            assert name.replace("?", ":p") in sql
        case "duckdb":  # the author's words, as DuckDB writes them
            assert "orders" in name
            assert ("where" in name.lower()) is ("where" in sql)
        case _:
            assert name == f"column{2 if ' as n' in sql else 1}"


ANSWERED = {
    "select * from orders order by id": [
        {"id": 1, "customer": 1, "total": 5, "status": "sent"},
        {"id": 3, "customer": 2, "total": 7, "status": "10%"},
    ],
    "select id from orders order by total desc": [{"id": 3}, {"id": 1}],
    "select count(*) as n from Orders": [{"n": 2}],
    "select orders.id from {o} where orders.status like '10%' or total % 7 = 0": [{"id": 3}],
    "select o.id, c.name from customers c left join orders o on o.customer = c.id order by 1": [
        {"id": 1, "name": "Ann"},
        {"id": 3, "name": "Bo"},
    ],
    "select a.id from orders a join orders b on a.id < b.id": [{"id": 1}],
    "select name from customers where id in (select customer from orders where total > 5)": [
        {"name": "Bo"}
    ],
    "select id from orders union select id from customers order by id desc": [
        {"id": 3},
        {"id": 2},
        {"id": 1},
    ],
    "with x as (select * from orders) select max(id) as n from x": [{"n": 3}],
    "with x as (select id from orders), y as (select * from x) select max(id) as n from y": [
        {"n": 3}
    ],
    "with recursive x as (select 1 as n union all select n + 1 from x where n < 9)"
    " select n from x join orders on id = n order by n": [{"n": 1}, {"n": 3}],
    "select id from {s}.customers order by {s}.customers.id": [{"id": 1}, {"id": 2}],
    "select x.orders, x.audit from (select 5 as orders, 6 as audit) x": [{"orders": 5, "audit": 6}],
    "select id as audit, '{s}.orders' as line from orders /* {s}.orders */ where id = 1": [
        {"audit": 1, "line": "{s}.orders"}
    ],
    "select card from recent order by id": [{"card": f"c@{id}"} for id in (1, 3, 88)],
    "with audit as (select 1 as x) select * from audit": [{"x": 1}],
    "values (1)": None,
}


@pytest.mark.parametrize("sql", ANSWERED)
async def test_a_query_reads_visible_tables_columns_and_rows(owner: Owner, sql: str) -> None:
    await owner.run(*SHOP)
    expected = ANSWERED[sql]
    if expected is None and owner.engine == "mariadb":
        assert await answer(owner, sql, CONSENTED) is None  # only SELECTs can be confined there
        return
    if owner.engine == "sqlite":
        # What is restricted there are views, beside tables that no schema names.
        sql = sql.replace("{s}.customers", "customers")
    found = await answer(owner, sql, CONSENTED)
    if owner.engine == "sqlite":
        found = [{k: v for k, v in row.items() if k != "mail"} for row in found]  # a mask
    if expected is None:
        assert found == await answer(owner, sql, {})
    else:
        assert found == [
            {k: spelled(v, owner) if isinstance(v, str) else v for k, v in row.items()}
            for row in expected
        ]
    assert await refusals(owner, sql, CONSENTED) == []


async def test_a_view_of_hidden_columns_answers_no_query_without_consent(owner: Owner) -> None:
    await owner.run(*SHOP)
    sql = "select card from recent order by id"
    assert await answer(owner, sql, RESTRICTED) is None
    assert len(await answer(owner, sql, CONSENTED)) == 3


async def test_rows_stay_ordered_with_and_without_restrictions(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, x integer)",
        "insert into t values (1, 3), (2, 9), (3, 1), (4, 7)",
    )
    for tables in ({}, {"t": TableOptions(where="x < 9")}):
        for sql in (
            "select x from t where x < 9 order by x desc",
            "select x from t where x < 9 order by x desc limit 3",
            "select x from t where x < 9 union select 7 from t order by x desc",
            "with o as (select x from t) select x from o where x < 9 order by x desc",
        ):
            found = await answer(owner, sql, tables)
            assert [row["x"] for row in found] == [7, 3, 1], (sql, tables)


async def test_values_are_bound_to_their_placeholders(owner: Owner) -> None:
    await owner.run(*SHOP)
    tables = {**RESTRICTED, "orders": TableOptions(where="status <> 'draft' and 5 % 3 = 2")}
    sql = "select id from orders where total > :low and status like '1%' and id < :high"
    places = {"low": Parameter(type="integer"), "high": Parameter(type="integer")}
    queries = {"q": Query(sql=sql, parameters=places)}
    async with served(owner, tables=tables, queries=queries) as it:
        assert await it.query("q?low=5&high=99") == [{"id": 3}]
        assert await it.query("q?low=5&high=3") == []


async def test_a_row_filter_may_read_columns_hidden_from_queries(owner: Owner) -> None:
    await owner.run(
        "create table vip (id integer primary key, secret integer)",
        "insert into vip values (1, 0), (2, 1)",
        "create table t (id integer primary key, hidden integer)",
        "insert into t values (1, 0), (2, 0), (3, 0), (4, 1)",
    )
    where = "hidden = 0 and t.id not in (select id from vip where secret = 0)"
    tables = {
        "t": TableOptions(columns=ColumnOptions(hide=("hidden",)), where=where),
        "vip": TableOptions(where="secret = 1", columns=ColumnOptions(mask={"secret": "hash"})),
    }
    sql = "select t.id, vip.id as vip from t left join vip on vip.id = t.id order by t.id"
    assert await answer(owner, sql, tables) == [{"id": 2, "vip": 2}, {"id": 3, "vip": None}]
    tables["vip"] = False  # pyright: ignore[reportArgumentType]
    assert await answer(owner, "select * from t order by id", tables) == [{"id": 2}, {"id": 3}]
    assert await answer(owner, "select hidden from t", tables) is None


async def test_tables_with_unusual_names_are_restricted(owner: Owner) -> None:
    names = ('a"b`c', "select", "semi;colon", "100%", "a.b", "Über")
    tables = {name: TableOptions(where="x < 5 and 7 % 4 = 3") for name in names}
    for name in names:
        quoted = owner.quoted(name)
        await owner.run(f"create table {quoted} (id integer primary key, x integer)")
        await owner.run(f"insert into {quoted} values (1, 1), (2, 9)")
        sql = f"select id from {quoted}".replace("{", "{{")
        assert await answer(owner, sql, tables) == [{"id": 1}], name
        sql = "select id from {s}." + quoted.replace("{", "{{")
        assert await answer(owner, sql, tables) in ([{"id": 1}], None), name


async def test_only_tables_exposed_by_the_policy_can_be_read(owner: Owner) -> None:
    await owner.run(*SHOP, "create table name (x integer)", "insert into name values (888)")
    tables = {"orders": RESTRICTED["orders"], "customers": TableOptions(), "*": False}
    sql = (
        "with x as (select id, name from customers) select name, count(*) as n, max(x.id) as id"
        " from x join orders on orders.customer = x.id where upper(name) <> 'name'"
        " group by name order by name"
    )
    assert await answer(owner, sql, tables) == [
        {"name": "Ann", "n": 1, "id": 1},
        {"name": "Bo", "n": 1, "id": 2},
    ]
    for table in ("audit", "recent", "name", "customers, name", "customers, nowhere", "nowhere"):
        assert await answer(owner, f"select count(*) as n from {table}", tables) is None, table


async def test_a_refusal_does_not_tell_clients_the_reason(owner: Owner) -> None:
    await owner.run(*SHOP)
    queries = {"q": Query(sql=spelled("select * from {s}.audit", owner))}
    async with served(owner, tables=RESTRICTED, queries=queries) as it:
        with pytest.raises(InvalidParameter, match=r"^the database refuses this query$"):
            await it.query("q")


async def test_a_recreated_table_is_never_read_unrestricted(owner: Owner) -> None:
    await owner.run(*SHOP)
    queries = {
        "all": Query(sql="select orders.*, 1 as ORDERS from orders order by ORDERS"),
        "drafts": Query(sql=spelled("select * from {s}.orders", owner)),
        "audit": Query(sql="select count(*) as n from audit"),
    }
    if owner.engine == "mariadb":
        queries["dotted"] = Query(sql="select * from .orders")
    await owner.run("alter table orders rename to away", "alter table audit rename to gone")
    timing = Timing(schema_cache_s=1000.0)
    async with served(owner, timing=timing, tables=RESTRICTED, queries=queries) as it:
        for name in queries:
            with pytest.raises(InvalidParameter):
                await it.query(name)
        await owner.run("alter table away rename to orders", "alter table gone rename to audit")
        for name in queries:
            with suppress(InvalidParameter):
                found = await it.query(name)
                assert name != "audit"
                assert not secrets(found)


async def test_a_query_follows_the_schema(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, card integer)", "insert into t values (1, 4111)"
    )
    tables = {"t": TableOptions(columns=ColumnOptions(hide=("card",)))}
    queries = {"q": Query(sql="select * from t")}
    async with served(
        owner, timing=Timing(schema_cache_s=0.0), tables=tables, queries=queries
    ) as it:
        assert await it.query("q") == [{"id": 1}]
        await owner.run("alter table t add column x integer default 7")
        assert await it.query("q") == [{"id": 1, "x": 7}]


# -- messages


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from {s}.audit", r"reads {s}.audit, which is hidden \(tables.audit\)"),
        ("select count(*) from audit", r"reads audit, which is hidden \(tables.audit\)"),
        ("select card from orders", "card"),
        ("select nothing from customers", "nothing"),
    ],
)
async def test_check_names_what_a_query_may_not_read(owner: Owner, sql: str, said: str) -> None:
    await owner.run(*SHOP)
    (message,) = await refusals(owner, sql, RESTRICTED)
    assert re.search(spelled(said, owner), message)
    assert "secret" not in message


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_check_reports_queries_refused_to_callers_who_see_them(owner: Owner) -> None:
    await owner.run("create table t (id integer, x integer)")
    # Only the database knows that these rows belong to the table.
    sql = "select 1 as one where (1, 2) in t"
    if owner.engine == "postgresql":
        sql = "select * from part"
        await owner.run("drop table t", "create table t (id integer) partition by range (id)")
        await owner.run("create table part partition of t for values from (0) to (9)")
    tables = {"t*": TableOptions(access=Access(scopes=("see:t", "see:more")))}
    for scopes, told in ((), True), (("see:t",), True), (("see:more", "see:t"), False):
        queries = {"q": Query(sql=sql, access=Access(scopes=scopes))}
        async with Database(url=owner.url, tables=tables, queries=queries) as database:
            found = [each for each in await database.warnings() if each[0]]
        assert [option for option, _ in found] == ["queries.q.sql"] * told
        assert ("is refused to some callers who can see it" in str(found)) == told


async def test_check_accepts_queries_visible_only_to_callers_who_may_read_them(
    owner: Owner,
) -> None:
    await owner.run(*SHOP)
    pattern = "public.aud*" if owner.engine == "postgresql" else "aud*"
    tables = {pattern: TableOptions(access=Access(scopes=("see:audit",)))}
    queries = {
        "q": Query(sql="select line from customers, audit"),
        "r": Query(sql=spelled("select * from {s}.audit", owner)),
        "s": Query(sql="select * from customers"),
    }
    database = Database(url=owner.url, tables=tables, queries=queries)
    needed = [option for option in database.restrictions if "queries" in option]
    assert needed == ["queries.q.sql", "queries.r.sql"]
    async with database:
        assert [each for each in await database.warnings() if each[0]] == []
        explained = await database.explain(("~query", "q"))
        assert explained == "exposed, to callers with see:audit (queries.q.sql)"


async def test_refused_queries_are_logged_when_a_database_is_mounted(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.run(*SHOP)
    queries = {
        "good": Query(sql="select id from orders"),
        "bad": Query(sql="select nosuchcolumn from customers"),
        "guarded": Query(sql="select line from audit"),
    }

    def refused() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if "is refused" in message]

    async def told() -> bool:
        return len(refused()) >= 2

    with caplog.at_level(logging.WARNING, "resource_server.providers.database.provider"):
        timing = Timing(query_check_delay_s=0.0)
        async with served(owner, timing=timing, tables=RESTRICTED, queries=queries) as it:
            await until(told)
            assert await it.query("good") == [{"id": 1}, {"id": 3}]
    assert [message.split()[1] for message in refused()] == ["bad", "guarded"]
    assert "nosuchcolumn" not in caplog.text
