"""Conditions of declared queries never run on hidden rows: an error would tell their values."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.factory import make_engine
from resource_server.providers.database.options import (
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries.confinement import rewriter_for
from resource_server.providers.database.queries.declared import DeclaredQuery
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from tests.providers.database.owners import Owner
from tests.providers.database.served import served

pytestmark = pytest.mark.anyio

HIDDEN = 7
SHOP = (
    "create table parts (line integer primary key, order_id integer, note varchar(40))",
    "insert into parts values (1, 10, '1'), (2, 20, '2'), (7, 70, 'seven')",
    "create table numbers (n integer primary key)",
    "insert into numbers values (1), (2)",
)
WHERES = (
    "line < 3",
    "line in (select n from numbers)",
    "exists (select 1 from numbers where n = line)",
)
FAILS = {
    "postgresql": (
        "100 / (line - :n) > -1000",
        "100 / (case when line = :n then 0 else 1 end) > 0",
        "cast(case when line = :n then 'x' else '1' end as integer) > 0",
        "cast(case when line = :n then 'x' else '{}' end as json) is not null",
        "2147483647 + (case when line = :n then 1 else 0 end) > 0",
        "sqrt(case when line = :n then -1 else 1 end) > 0",
        "substring(note from 1 for (case when line = :n then -1 else 1 end)) is not null",
        "(select n from numbers where parts.line = :n or n = 1) > 0",
    ),
    "sqlite": (
        "json(case when line = :n then 'x' else '{}' end) is not null",
        "json_extract('{}', case when line = :n then 'x' else '$' end) is not null",
        "abs(case when line = :n then -9223372036854775807 - 1 else 1 end) > 0",
        "note like 'a' escape (case when line = :n then 'two' else 'x' end) is not null",
    ),
    "duckdb": (
        "cast(case when line = :n then 'x' else '1' end as integer) > 0",
        "cast(case when line = :n then 'x' else '{}' end as json) is not null",
        "case when line = :n then error('seen') else 1 end > 0",
        "(select n from numbers where parts.line = :n or n = 1) > 0",
    ),
    "mariadb": (
        "9223372036854775807 + (case when line = :n then 1 else 0 end) > 0",
        "exp(case when line = :n then 1000 else 1 end) > 0",
        "(select n from numbers where parts.line = :n or n = 1) > 0",
    ),
}
SHAPES = (
    "select order_id from parts where {}",
    "select order_id from parts where order_id > 0 and ({})",
    "select o.n from numbers o join parts on {} order by o.n",
    "select o.n from numbers o left join parts on ({}) and o.n = parts.line order by o.n",
    "select count(*) as n from parts group by ({}) having count({}) > 0",
    "select x.order_id from (select * from parts where {}) x order by x.order_id",
    "with x as (select * from parts) select parts.order_id from x parts where {}",
    "select n from numbers where n in (select line from parts where {}) order by n",
    "select order_id, ({}) as told from parts order by ({}), order_id limit 5",
)


async def outcome(owner: Owner, tables: Any, sql: str, number: int) -> Any:
    """Return the rows of a query with this parameter, or "refused"."""
    queries = {"q": Query(sql=sql, parameters={"n": Parameter(type="integer")})}
    async with served(owner, tables=tables, queries=queries) as it:
        try:
            return await it.query(f"q?n={number}")
        except InvalidParameter:
            return "refused"


@pytest.mark.guarantee("hidden-changes-nothing")
@pytest.mark.parametrize("where", WHERES)
async def test_a_querys_condition_does_not_run_on_hidden_rows(owner: Owner, where: str) -> None:
    await owner.run(*SHOP)
    tables = {"parts": TableOptions(where=where)}
    queries = {
        f"q{place}_{shape}": Query(
            sql=SHAPES[shape].replace("{}", condition), parameters={"n": Parameter(type="integer")}
        )
        for place, condition in enumerate(FAILS[owner.engine])
        for shape in range(len(SHAPES))
    }
    failed: list[str] = []
    async with served(owner, tables=tables, queries=queries) as it:
        for name, query in queries.items():
            found: list[object] = []
            for number in (HIDDEN, HIDDEN + 1):
                try:
                    found.append(await it.query(f"{name}?n={number}"))
                except InvalidParameter:
                    found.append("refused")
            if "refused" in found or found[0] != found[1]:
                failed.append(f"{query.sql}: {found}")
    assert not failed, "\n".join(failed)


async def test_a_querys_condition_still_fails_on_visible_rows(owner: Owner) -> None:
    await owner.run(*SHOP)
    tables = {"parts": TableOptions(where="line < 3")}
    for condition in FAILS[owner.engine]:
        sql = f"select order_id from parts where {condition}"
        assert await outcome(owner, tables, sql, 2) == "refused", condition


@pytest.mark.deep
@pytest.mark.parametrize("url", ["postgresql", "mariadb", "duckdb"], indirect=True)
async def test_a_query_of_a_table_without_where_uses_its_index(owner: Owner) -> None:
    await owner.run(*SHOP)
    await owner.insert("parts", *((number, number, "n") for number in range(100, 3000)))
    policy = Policy(
        {"parts": TableOptions(columns=ColumnOptions(hide=("note",)))},
        owner.engine,  # type: ignore[arg-type]
    )
    engine = make_engine(
        owner.url, readable=policy.readable, schemas=(), interval=None, notify=False
    )
    await engine.open()
    try:
        exposed = ExposedTableCache(engine, policy, ReadLimits())
        sql = "select order_id from parts where line = 2000 and order_id > 0"
        query = DeclaredQuery("q", Query(sql=sql), engine.name, ReadLimits())
        rewritten = await rewriter_for(engine, policy, exposed).rewritten(query)
    finally:
        await engine.close()
    plan = str(await owner.rows(f"explain {rewritten.sql.replace('> 0', '> ?')}", 0))
    used = ("Index Scan", "'const'", "Filters:")
    assert any(word in plan for word in used), plan
