"""Groups of rows with their aggregates, and the columns that they have."""

from __future__ import annotations

import json
import sys
from collections import Counter
from decimal import Decimal

import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats import charts
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.providers.database.reading.selection import Selection
from resource_server.providers.database.reading.summary import Aggregate, Summary
from tests.listeners import BASE
from tests.providers.database.conftest import ENGINES, OTHER_DRIVERS, urls_of
from tests.providers.database.owners import Owner
from tests.providers.database.reading.test_selection import ORDERS
from tests.providers.database.served import served

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("other-drivers-answer-the-same")]
url = urls_of(*ENGINES, *OTHER_DRIVERS)


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


async def test_a_chart_has_the_groups_and_the_policy_of_the_page(owner: Owner) -> None:
    await owner.run(*ORDERS)
    policy = TableOptions(
        where="status <> 'sent'",
        columns=ColumnOptions(hide=("note",), mask={"card": "last4"}),
    )
    async with served(owner, tables={"orders": policy}) as it:
        path = "orders/~summary?by=status&sum=total&sort=status&where.total.gt=10"
        rows = (await it.json(path))["rows"]
        chart = await it.json(f"{path}&format=vega-lite")
        first = await it.read(f"{path}&format=vega-lite&limit=1")
        formats = [each.name for each in (await it.entry("orders/~summary")).resource.formats]
        for name in ("note", "card"):
            with pytest.raises(InvalidParameter):
                await it.json(f"orders/~summary?by={name}&format=vega-lite")
        with pytest.raises(InvalidParameter, match=r"json, columns, csv, markdown$"):
            await it.json("orders/~rows?format=vega-lite")
    assert [(row["x"], row["y"]) for row in chart["data"]["values"]] == [
        (row["status"], row["sum.total"]) for row in rows
    ]
    assert rows == [
        {"status": "open", "count": 1, "sum.total": 20},
        {"status": "paid", "count": 2, "sum.total": 60},
    ]
    assert chart["title"] == {
        "text": "Summary of orders: sum.total by status",
        "subtitle": ["total.gt=10"],
    }
    assert "vega-lite" in formats
    assert first.content is not None
    assert first.content.mime_type == "application/vnd.vegalite.v5+json"
    assert first.content.truncated is not None
    assert first.content.truncated.next is not None
    assert "the first 1, more follow" in str(first.content.data)


async def test_pictures_of_charts_are_offered_where_their_packages_are_installed(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owner.run(*ORDERS)
    query = Query(sql="select status, count(*) as n from orders group by status")
    async with served(owner, queries={"counts": query}) as it:

        async def formats() -> list[set[str]]:
            entries = [
                await it.catalog.metadata(uri)
                for uri in (f"{it.base}orders/~summary", f"{BASE}~query/counts")
            ]
            return [{each.name for each in entry.resource.formats} for entry in entries]

        assert all(each >= {"vega-lite", "svg", "png"} for each in await formats())
        svg = await it.text("orders/~summary?by=status&format=svg")
        picture = (await it.read("orders/~summary?by=status&format=png&limit=1")).content
        (body,) = (await it.catalog.read(f"{BASE}~query/counts?format=png")).items
        charts.has_pictures.cache_clear()
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        try:
            assert not any(each & {"svg", "png"} for each in await formats())
            for path in (f"{it.base}orders/~summary", f"{BASE}~query/counts"):
                with pytest.raises(InvalidParameter, match="add the extra `charts`"):
                    await it.catalog.read(f"{path}?format=png")
            assert await it.json("orders/~summary?by=status&format=vega-lite")
        finally:
            charts.has_pictures.cache_clear()
    assert svg.startswith("<svg ")
    assert ">paid</text>" in svg
    assert picture is not None
    assert picture.mime_type == "image/png"
    assert picture.truncated is not None
    assert body.content is not None
    for content in (picture, body.content):
        assert isinstance(content.data, bytes)
        assert content.data.startswith(b"\x89PNG")


async def test_the_result_of_a_query_has_a_chart_of_its_numbers_or_of_counts(owner: Owner) -> None:
    await owner.run(*ORDERS)
    bound = {"least": Parameter(type="integer")}
    sums = Query(
        sql="select paid_at, sum(total) as total from orders where total >= :least "
        "group by paid_at order by paid_at",
        title="Paid",
        parameters=bound,
    )
    names = Query(sql="select status, note from orders")
    async with served(owner, queries={"sums": sums, "names": names}) as it:
        (body,) = (await it.catalog.read(f"{BASE}~query/sums?least=10&format=vega-lite")).items
        (listed,) = (await it.catalog.read(f"{BASE}~query/names")).items
        (counted,) = (await it.catalog.read(f"{BASE}~query/names?format=vega-lite")).items
    assert body.content is not None
    chart = json.loads(body.content.data)
    assert chart["title"] == {
        "text": "Paid",
        "subtitle": ["least=10", "1 without a number or a time are not drawn"],
    }
    assert chart["mark"]["type"] == "line"
    assert {row["x"]: row["y"] for row in chart["data"]["values"]} == {
        None: 20,
        "2026-01-01T00:00:00Z": 10,
        "2026-01-02T00:00:00Z": 30,
        "2026-01-03T00:00:00Z": 30,
    }
    assert counted.content is not None
    chart = json.loads(counted.content.data)
    counts = {row["x"]: row["y"] for row in chart["data"]["values"]}
    assert listed.content is not None
    statuses = [row["status"] for row in json.loads(listed.content.data)["rows"]]
    assert counts == dict(Counter(statuses))


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
