"""The tool `query_table`: rows, counts and groups of a table."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from resource_server.protocol.tools.table_query import OPERATORS
from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.reading import selection
from tests.protocol.tools.tooled import called, refusal, words
from tests.protocol.wire import Wire, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

LATEST = "2025-11-25"
SQL = """
create table orders (id integer primary key, status text, total real, card text, sent boolean);
create table sums (id integer primary key, total real) strict;
insert into orders values (1, 'paid', 10.5, '41111111', 1), (2, 'open', 20, '42222222', 0),
  (3, 'paid', 30, '43333333', 0), (4, 'a,"b', null, '44444444', null);
"""


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.executescript(SQL)
    database.close()
    tables = {"orders": TableOptions(columns=ColumnOptions(mask={"card": "last4"}))}
    shop = Database(f"sqlite:///{tmp_path / 'shop.db'}", tables=tables, sql=True)
    server = await server_of(shop)
    async with server:
        yield Wire(server, LATEST)


async def rows(wire: Wire, **arguments: object) -> str:
    arguments = {"uri": "test://one/orders", **arguments}
    return words(await called(wire, "query_table", LATEST, **arguments))


def test_the_operators_are_those_of_the_provider() -> None:
    assert set(selection.OPERATORS) == OPERATORS


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"status": "paid"}, "1 3"),
        ({"total.gt": 10.5}, "2 3"),
        ({"total": 30}, "3"),
        ({"total": 30.0}, "3"),
        ({"id": [1, 4]}, "1 4"),
        ({"status.in": ["open", 'a,"b']}, "2 4"),
        ({"status.in": "open,paid"}, "1 2 3"),
        ({"total": None}, "4"),
        ({"total.ne": None}, "1 2 3"),
        ({"sent": True}, "1"),
        ({"sent": False, "status.like": "P%"}, "3"),
        ({"status": {"$blob": "cGFpZA=="}}, ""),
        ({"status.in": ["line\nbreak", "open"]}, "2"),
        ({"total": {"gt": 10.5}}, "2 3"),
        ({"total": {"$ge": 10.5, "$lt": 30}, "status": {"ne": "open"}}, "1"),
        ({"status": {"in": ["open", 'a,"b']}, "total": {"ne": None}}, "2"),
        ({"status": {"gt": "a", "more": 1}}, ""),
        ({}, "1 2 3 4"),
    ],
)
async def test_filters_may_be_values_lists_and_null(
    wire: Wire, where: dict[str, Any], ids: str
) -> None:
    assert (await rows(wire, where=where, columns="id")).split() == ["id", *ids.split()]


async def test_two_spellings_of_one_filter_with_other_values_are_refused(wire: Wire) -> None:
    where = {"total": {"gt": 10.5}, "total.gt": 25}
    found = await called(wire, "query_table", LATEST, uri="test://one/orders", where=where)
    assert "where.total.gt is given twice" in refusal(found)


async def test_three_rows_of_four_that_were_asked_for_are_all_there_is_to_say(wire: Wire) -> None:
    assert await rows(wire, columns="id", limit=3) == "id\r\n1\r\n2\r\n3\r\n"


@pytest.mark.parametrize("names", ["status,-id", ["status", "-id"]])
async def test_names_are_text_or_a_list(wire: Wire, names: str | Sequence[str]) -> None:
    found = await rows(wire, sort=names, columns="id")
    assert found.split() == ["id", "4", "2", "3", "1"]


@pytest.mark.parametrize(
    "uri",
    [
        "test://one/orders",
        "test://one/orders/",
        "test://one/orders/~rows",
        "test://one/orders/~rows?limit=1",
        "test://one/orders/~schema",
    ],
)
async def test_a_table_may_be_named_by_any_of_its_documents(wire: Wire, uri: str) -> None:
    assert (await rows(wire, uri=uri, count=True)).split() == ["count", "4"]


async def test_groups_have_counts_and_sums(wire: Wire) -> None:
    found = await rows(wire, by="status", sum="total", sort="-count", limit=1)
    assert found == "status,count,sum.total\r\npaid,2,40.5\r\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"where": {"card": "4"}}, "The column card is masked"),
        ({"sort": "card"}, "is masked"),
        ({"by": "card"}, "is masked"),
        ({"where": {"statsu": "paid"}}, "did you mean 'status'?"),
        ({"uri": "test://one/sums", "where": {"total": "ten"}}, "no value of total"),
        ({"count": True, "by": "status"}, "leave them out"),
        ({"columns": "nope"}, "test://one/orders/~schema"),
    ],
)
async def test_a_refusal_says_why_and_names_the_columns(
    wire: Wire, arguments: dict[str, Any], reason: str
) -> None:
    arguments = {"uri": "test://one/orders", **arguments}
    assert reason in refusal(await called(wire, "query_table", LATEST, **arguments))


@pytest.mark.parametrize(
    "arguments",
    [{"where": "status=paid"}, {"limit": [1]}, {"where": [1]}],
)
async def test_arguments_of_another_shape_are_refused(
    wire: Wire, arguments: dict[str, Any]
) -> None:
    arguments = {"uri": "test://one/orders", **arguments}
    assert "Invalid arguments" in refusal(await called(wire, "query_table", LATEST, **arguments))


async def test_it_is_offered_only_where_tables_are_served(wire: Wire) -> None:
    async def offered(wire: Wire) -> set[str]:
        result = await wire.result("tools/list", {})
        return {tool["name"] for tool in result["tools"]}

    assert "query_table" in await offered(wire)
    folder = Wire(await server_of(Tree({"a.txt": "tea"})), LATEST)
    assert "query_table" not in await offered(folder)


async def test_groups_as_png_are_an_image_and_one_line_of_text(wire: Wire) -> None:
    asked = {"uri": "test://one/orders", "by": "status", "format": "png"}
    whole = await called(wire, "query_table", LATEST, **asked)
    image, line = whole["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert line["text"] == (
        '[Its numbers: read_resource {"uri":"test://one/orders/~summary?by=status&format=csv"}]'
    )
    image, line = (await called(wire, "query_table", LATEST, **asked, limit=2))["content"]
    assert image["type"] == "image"
    assert line["text"].startswith("[More follows. Read on: read_resource ")
    of_rows = await called(wire, "query_table", LATEST, uri="test://one/orders", format="png")
    assert "json, columns, csv, markdown" in refusal(of_rows)
    masked = await called(wire, "query_table", LATEST, **{**asked, "by": "card"})
    assert "is masked" in refusal(masked)


async def test_a_statement_as_png_is_an_image_with_its_rows_as_structured_data(wire: Wire) -> None:
    sql = "select status, count(*) as n from orders group by status order by n desc"
    found = await called(wire, "query_database", LATEST, sql=sql, format="png")
    image, line = found["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert line["text"] == "[A chart of all 3 rows; their numbers: the same without format]"
    assert found["structuredContent"]["rows"][0] == ["paid", 2]
