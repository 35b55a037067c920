"""Names of tables in declared queries, as each server resolves them."""

from __future__ import annotations

import pytest

from resource_server.providers.database.options import ColumnOptions, TableOptions
from tests.providers.database.owners import Owner
from tests.providers.database.queries.shop import answer, refusals, secrets

pytestmark = pytest.mark.anyio


# -- PostgreSQL


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_partition_is_restricted_like_its_table(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer, x integer) partition by range (id)",
        "create table part partition of t for values from (0) to (9) partition by range (id)",
        "create table part_1 partition of part for values from (0) to (9)",
        "insert into t values (1, 5), (2, 8888)",
    )
    tables = {"t": TableOptions(where="x < 10")}
    for name in ("t", "part", "part_1", "public.part_1", "only part_1"):
        found = await answer(owner, f"select max(x) as n from {name}", tables)
        assert found == ([{"n": 5}] if name == "t" else None)
        assert secrets(await answer(owner, f"select max(x) as n from {name}", {}))
    (said,) = await refusals(owner, "select * from part_1", tables)
    assert said == "reads part_1, a partition of t, which is partly hidden; read t"


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_name_is_resolved_through_the_search_path(owner: Owner) -> None:
    await owner.run(
        "drop schema if exists other cascade",
        "create schema other",
        "create table other.orders (id integer, x integer)",
        "insert into other.orders values (1, 1), (2, 8888)",
        "create table other.alone (id integer, x integer)",
        "insert into other.alone values (1, 1), (2, 8888)",
        "create table orders (id integer)",
        "insert into orders values (7)",
        'create table "Orders" (id integer)',
        'insert into "Orders" values (8888)',
    )
    few = TableOptions(where="x < 9")
    one = [{"n": 1}]
    tables = {
        "other.orders": few,
        "other.alone": few,
        "public.Orders": False,
        "public.orders": TableOptions(),
    }
    try:
        for sql, expected in {
            "select max(id) as n from orders": [{"n": 7}],
            "select max(id) as n from ORDERS": [{"n": 7}],
            "select max(id) as n from public.orders": [{"n": 7}],
            "select max(x) as n from other.orders": one,
            "select max(x) as n from alone": None,
            "select max(x) as n from other.alone": one,
            'select max(id) as n from "Orders"': None,
            'select max(id) as n from public."Orders"': None,
        }.items():
            assert await answer(owner, sql, tables) == expected, sql
        tables = {"other.orders": TableOptions(columns=ColumnOptions(hide=("x",)))}
        assert await answer(owner, "select max(id) as n from orders", tables) == [{"n": 7}]
        found = await answer(owner, "select max(id) as n from other.orders", tables)
        assert found == [{"n": 2}]
    finally:
        await owner.run("drop schema other cascade")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_an_overlong_name_refers_to_its_truncated_table(owner: Owner) -> None:
    name = "o" * 63
    await owner.run(f"create table {name} (x integer)", f"insert into {name} values (1), (8888)")
    for written in (name, f"{name}oops", f'"{name}oops"'):
        sql = f"select max(x) as n from {written}"
        assert await answer(owner, sql, {name: TableOptions(where="x < 9")}) in ([{"n": 1}], None)
        assert secrets(await answer(owner, sql, {}))


# -- MariaDB


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_name_in_two_letter_cases_is_refused(owner: Owner) -> None:
    if await owner.rows("select @@lower_case_table_names") != [(0,)]:
        pytest.skip("on this server names of tables have one case of letters")
    await owner.run("create table t (x integer)", "insert into t values (1), (8888)")
    await owner.run("create table T (x integer)", "insert into T values (2)")
    tables = {"t": TableOptions(where="x < 9"), "T": TableOptions()}
    assert await answer(owner, "select max(x) as n from t", tables) is None
    assert await answer(owner, "select max(x) as n from t", {}) == [{"n": 8888}]
