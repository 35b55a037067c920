"""Declared queries on DuckDB keep their words around the visible parts of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from resource_server.errors import InvalidParameter
from resource_server.providers.database.options import Query
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import settle
from resource_server.testing.tool_rules import SilentToolRequest
from tests.providers.database.queries.shop import RESTRICTED, SHOP

pytestmark = pytest.mark.anyio

VISIBLE: Mapping[str, Any] = {
    "select 'ä', o.id from orders o where o.id > 0 order by all": [["ä", 1], ["ä", 3]],
    "from orders select count(*)": [[2]],
    "select count(*) from 'orders'": [[2]],
    'select count(*) from main . /* ; */ "Orders"': [[2]],
    "select count(*) from it.main.orders": [[2]],
    "select count(*) from orders as o(a, b) tablesample 100%": [[2]],
    "select orders.id from orders, customers c where c.id = orders.id": [[1]],
    "with orders as (select id from orders) select count(*) from orders": [[2]],
    "with x as (select 1), orders as (select id from x, orders) select sum(id) from orders": [[4]],
    "with x as (with orders as (select 88 as id) from orders) from orders select count(*)": [[2]],
    "(with orders as (select 5 as id) select id from orders)": [[5]],
    "/* a */ with/* b */recursive x as (select 1), orders as (select id from orders) from orders"
    " order by all desc": [[3], [1]],
    "(select id from orders order by id desc) limit 1": [[3]],
    "select id from orders where id = 1 union all (with orders as (select 5) from orders)"
    " order by all": [[1], [5]],
    "select sum(sent), sum(draft) from (pivot orders on status in ('sent', 'draft') using count(*)"
    ")": [[1, 0]],
    "with recursive orders as (select id from orders union all select id + 10 from orders"
    " where id < 5) select count(*) from orders": [[4]],
}
NAMES: Mapping[str, list[str]] = {
    "select (select max(status) from orders)": ["(SELECT max(status) FROM orders AS orders)"],
    "select exists(from main.orders o)": ["EXISTS(SELECT * FROM orders AS o)"],
    "select count(*), 1 + 1 as n, max(id) from orders": ["count_star()", "n", "max(id)"],
    "select id, id from orders": ["id", "id_2"],
    "with recursive x as (select (select max(id) from orders)) from x": [
        "(SELECT max(id) FROM orders AS orders)"
    ],
    "((with orders as (select 5 as id) select id from orders))": ["id"],
    "(with x as (select 5) select (select max(id) from orders))": [
        "(SELECT max(id) FROM orders AS orders)"
    ],
}
"""The names of the columns of queries."""
UNNAMED: Sequence[str] = (
    "select array(select status from orders), [x for x in (select list(status) from orders)]",
    "select columns(*) from (select (select max(status) from 'orders'))",
    "from (select (select max(status) from main.orders)) x select x",
    "from (select (select max(status) from orders)) x select to_json(x)",
    "from (unpivot (select (select max(status) from orders)) on columns(*)) select name",
    "select struct_keys(x) from (select exists(from orders)) x",
    "(from (select (select max(status) from orders)))",
    "with visible0_ as (select 1 as n) select *, (select max(status) from orders) from visible0_",
)
"""Queries with columns without names, which may be keys of rows, and those values."""
REFUSED: Mapping[str, str] = {
    "select card from orders": 'Referenced column "card" not found',
    "select * from audit": "reads audit, which is hidden (tables.audit)",
    "with x as (select 1) select * from x, main.audit": "reads main.audit, which is hidden",
    "select * from nowhere": "reads nowhere, and there is no such table",
    "select * from back.orders": "reads back.orders, and there is no such table",
    "table orders": "reads orders in a way that is not understood; write select * from orders",
    f"select {'(' * 2000}1{')' * 2000}": "is nested too deeply",
}


def served(folder: Path, sql: str) -> Database:
    path = folder / "it.duckdb"
    with duckdb.connect(path) as connection:
        for statement in SHOP:
            connection.execute(statement)
    query = Query(sql=sql, tool=True)
    return Database(url=f"duckdb:///{path}", tables=RESTRICTED, queries={"q": query})


@pytest.mark.parametrize("sql", VISIBLE)
async def test_a_query_reads_the_visible_part_of_a_table_in_every_place(
    tmp_path: Path, sql: str
) -> None:
    async with served(tmp_path, sql) as database:
        assert [told for option, told in await database.warnings() if "queries" in option] == []
        result = await settle(database.call_tool("q", {}, SilentToolRequest()))
    assert msgspec.json.decode(msgspec.json.encode(result.structured))["rows"] == VISIBLE[sql]


@pytest.mark.parametrize("sql", NAMES)
async def test_columns_have_the_names_that_the_query_gives_them(tmp_path: Path, sql: str) -> None:
    async with served(tmp_path, sql) as database:
        result = await settle(database.call_tool("q", {}, SilentToolRequest()))
    assert msgspec.json.decode(msgspec.json.encode(result.structured))["columns"] == NAMES[sql]


@pytest.mark.guarantee("sql-sees-the-policy")
@pytest.mark.parametrize("sql", UNNAMED)
async def test_no_name_of_a_column_tells_of_the_policy(tmp_path: Path, sql: str) -> None:
    async with served(tmp_path, sql) as database:
        result = await settle(database.call_tool("q", {}, SilentToolRequest()))
    told = msgspec.json.encode(result.structured).decode()
    assert "orders" in told or "EXISTS" in told
    assert "draft" not in told
    assert "WHERE" not in told


@pytest.mark.parametrize("sql", REFUSED)
async def test_a_refusal_names_the_rule_or_the_mistake(tmp_path: Path, sql: str) -> None:
    async with served(tmp_path, sql) as database:
        (told,) = [told for option, told in await database.warnings() if "queries" in option]
        assert REFUSED[sql] in told
        with pytest.raises(InvalidParameter, match="the database refuses this query"):
            await settle(database.call_tool("q", {}, SilentToolRequest()))
