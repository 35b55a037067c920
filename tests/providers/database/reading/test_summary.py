"""Groups of rows with their aggregates, and the columns that they have."""

from __future__ import annotations

from decimal import Decimal

import pytest

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.options import TableOptions
from resource_server.providers.database.reading.selection import Selection
from resource_server.providers.database.reading.summary import Aggregate, Summary
from tests.providers.database.owners import Owner
from tests.providers.database.reading.test_selection import ORDERS
from tests.providers.database.served import served

pytestmark = pytest.mark.anyio


async def test_a_summary_has_counts_sums_and_extremes_of_each_group(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner) as it:
        found = await it.json(
            "orders/~summary?by=status&sum=total&min=total&max=paid_at&avg=total&sort=-sum.total"
            "&where.status.ne=sent"
        )
    assert found["rows"] == [
        {
            "status": "paid",
            "count": 3,
            "sum.total": 70,
            "min.total": 10,
            "max.paid_at": "2026-01-03",
            "avg.total": pytest.approx(70 / 3, abs=1e-3),
        },
        {
            "status": "open",
            "count": 1,
            "sum.total": 20,
            "min.total": 20,
            "max.paid_at": None,
            "avg.total": 20,
        },
    ]


async def test_groups_are_paged_to_their_end(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner) as it:
        pages = await it.pages("orders/~summary?by=total,status&sort=-count&limit=2")
    found = [(row["total"], row["status"], row["count"]) for page in pages for row in page]
    assert len(found) == 4
    assert found[0] == (30, "paid", 2)
    assert {each[:2] for each in found} == {
        (10, "paid"),
        (20, "open"),
        (30, "paid"),
        (None, "sent"),
    }


async def test_a_summary_of_an_empty_table_counts_nothing(owner: Owner) -> None:
    await owner.run(ORDERS[0])
    async with served(owner) as it:
        assert (await it.json("orders/~summary?sum=total"))["rows"] == [
            {"count": 0, "sum.total": None}
        ]
        assert (await it.json("orders/~summary?by=status"))["rows"] == []


async def test_rows_that_are_not_exposed_have_no_summary(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner, tables={"orders": TableOptions(rows=False)}) as it:
        with pytest.raises(ResourceNotFound):
            await it.json("orders/~summary")


async def test_columns_of_a_summary_with_the_same_name_are_numbered(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, count integer, total integer)")
    await owner.insert("t", (1, 7, 5), (2, 7, 6), (3, 8, 6))
    async with served(owner) as it:
        found = await it.json("t/~summary?by=count&sum=count&sort=-sum.count")
        same = await it.json("t/~summary?by=total,total&sort=total")
        whole = await it.json("t/~summary?by=&sum=")
    assert found["rows"] == [
        {"count": 7, "count_2": 2, "sum.count": 14},
        {"count": 8, "count_2": 1, "sum.count": 8},
    ]
    assert same["rows"] == [{"total": 5, "count": 1}, {"total": 6, "count": 2}]
    assert whole["rows"] == [{"count": 3}]


def test_decimals_of_engines_have_the_kind_of_their_column() -> None:
    whole, real = Column("n", "integer", "integer"), Column("r", "float", "real")
    money = Column("m", "numeric", "numeric")
    aggregates = (Aggregate("sum", "n"), Aggregate("avg", "n"), Aggregate("max", "m"))
    summary = Summary(("r",), (*aggregates, Aggregate("sum", "r")), Selection((), ()))
    columns = summary.columns({"n": whole, "r": real, "m": money})
    assert [(each.name, each.kind) for each in columns] == [
        ("r", "real"),
        ("count", "integer"),
        ("sum.n", "integer"),
        ("avg.n", "real"),
        ("max.m", "numeric"),
        ("sum.r", "real"),
    ]
    given = (Decimal(1), 2, Decimal(2**70), Decimal("0.5"), Decimal("1.10"), Decimal("NaN"))
    row = summary.row(given, columns)
    assert row[:3] == (Decimal(1), 2, 2**70)
    assert [type(each) for each in row[2:]] == [int, float, Decimal, Decimal]
    assert str(row[4]) == "1.10"
    assert summary.row((1.5, 0, None, None, None, None), columns)[2:] == (None,) * 4
