"""Vega-Lite specifications of rows, in which names and values are titles and data, never code."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats.charts import MAX_MARKS, write_chart
from resource_server.providers.database.formats.pages import RowPage, query_columns
from tests.cases import for_each

OURS = {"x", "y", "color"}
HOSTILE = (
    "</script><script>alert(1)</script>",
    "datum.y; alert(1)",
    '"+alert(1)+"',
    "{signal: 'x'}",
    "a.b[0]\\",
    "\x00\x1b[31m\n\u2028\u202e",
    "\ud800",
    "http://example.com/a.png",
)


def page(names: str, *rows: tuple[object, ...], **more: Any) -> RowPage:
    return RowPage("Sales", query_columns(names.split(",")), rows, **more)


def chart(page: RowPage, max_bytes: int = 10**6) -> Any:
    return json.loads(write_chart(page, max_bytes=max_bytes).text)


def values(spec: Any) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in ("x", "y", "color")) for row in spec["data"]["values"]]


def titles(spec: Any) -> dict[str, str]:
    return {name: each["title"] for name, each in spec["encoding"].items() if "title" in each}


def test_one_grouping_gives_bars_and_two_give_grouped_bars() -> None:
    one = chart(page("status,count", ("paid", 3), ("open", 1), groupings=1))
    assert one["mark"]["type"] == "bar"
    assert values(one) == [("paid", 3, None), ("open", 1, None)]
    assert titles(one) == {"x": "status", "y": "count"}
    assert one["title"]["text"] == "Sales: count by status"
    two = chart(page("status,land,count", ("paid", "DE", 3), ("paid", "FR", 1), groupings=2))
    assert values(two) == [("paid", 3, "DE"), ("paid", 1, "FR")]
    assert two["encoding"]["xOffset"] == {"field": "color", "type": "nominal"}
    assert titles(two) == {"x": "status", "y": "count", "color": "land"}
    with pytest.raises(InvalidParameter, match="two groupings"):
        chart(page("a,b,c,count", ("x", "y", "z", 3), groupings=3))


TIMES: list[tuple[Sequence[object], Sequence[str | None]]] = [
    ([datetime.date(2026, 1, 2)], ["2026-01-02T00:00:00Z"]),
    ([datetime.datetime.fromisoformat("2026-01-02T03:04")], ["2026-01-02T03:04:00Z"]),
    (["2026-01", "2026-02"], ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
    (["2026-01-02 03:04:05.5", None], ["2026-01-02T03:04:05.500000Z", None]),
    (["2026-01-02T03:04+01:00"], ["2026-01-02T02:04:00Z"]),
    ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], ["0001-01-01T00:00:00Z"]),
]


@for_each("given, times", TIMES)
def test_times_give_lines_whatever_their_form(
    given: Sequence[object], times: Sequence[str | None]
) -> None:
    spec = chart(page("day,land,n", *[(each, "DE", 1) for each in given], groupings=2))
    assert spec["mark"] == {"type": "line", "point": True, "aria": False}
    assert spec["encoding"]["x"]["type"] == "temporal"
    assert [row["x"] for row in spec["data"]["values"]][: len(times)] == times
    assert spec["encoding"]["color"]["title"] == "land"
    assert "xOffset" not in spec["encoding"]


def test_a_column_of_times_is_the_axis_wherever_it_stands() -> None:
    assert titles(chart(page("land,day,n", ("DE", "2026-01-02", 1))))["x"] == "day"


@for_each(
    "text",
    [
        *("2026-13-01", "2026-02-30", "0000-00-00", "2026", "infinity", "-0044-03-15", "now"),
        *("\u0662\u0660\u0662\u0666-\u0660\u0661", "2026-01-02" + " " * 50),
        "9999-12-31T23:59-23:59",
    ],
)
def test_text_that_only_looks_like_a_time_gives_bars(text: str) -> None:
    spec = chart(page("day,n", ("2026-01-02", 1), (text, 2)))
    assert spec["mark"]["type"] == "bar"
    assert len(spec["data"]["values"]) == 2


def test_a_summary_shows_its_first_aggregate_and_a_query_its_last_number() -> None:
    rows = ("paid", 3, None, 70.5), ("open", 1, None, 2.0)
    assert titles(chart(page("status,count,max.day,sum.total", *rows, groupings=1)))["y"] == (
        "sum.total"
    )
    years = chart(page("year,orders,name,total", (2025, 3, "a", 9), (2026, 4, "b", 8)))
    assert titles(years) == {"x": "year", "y": "total", "color": "name"}
    assert titles(chart(page("total", (3,), (4,)))) == {"x": "", "y": "total"}
    assert values(chart(page("count", (3,), groupings=0))) == [(None, 3, None)]
    counted = chart(page("name,ok", ("a", True), ("b", None), ("a", False)))
    assert titles(counted) == {"x": "name", "y": "count"}
    assert values(counted) == [("a", 2, None), ("b", 1, None)]
    with pytest.raises(InvalidParameter, match="numbers; the result has name, ok"):
        chart(page("name,ok", ("a", True), groupings=1))
    assert values(chart(page("name,total"))) == []


def test_numbers_that_no_chart_has_are_null_and_counted() -> None:
    odd = [math.nan, math.inf, -math.inf, None, Decimal("NaN"), Decimal("1e400"), 10**400]
    spec = chart(page("a,n", *[(str(at), each) for at, each in enumerate(odd)], ("z", 2**60)))
    assert [row["y"] for row in spec["data"]["values"]] == [*[None] * len(odd), float(2**60)]
    assert spec["title"]["subtitle"] == ["7 without a number or a time are not drawn"]
    assert values(chart(page("a,n", ("z", Decimal("1.10"))))) == [("z", 1.1, None)]


def test_rows_of_the_same_name_stay_apart() -> None:
    long = "a" * 10_000_000
    spec = chart(page("a,n", (long, 1), (long + "b", 2), (None, 3), ("", 4), (b"\0" * 99, 5)))
    names = [str(row["x"]) for row in spec["data"]["values"]]
    assert len({*names}) == 5
    assert max(map(len, names)) < 80
    assert spec["data"]["values"][2]["x"] is None


def test_a_chart_has_at_most_500_marks_and_says_so() -> None:
    rows = [(str(at), at) for at in range(MAX_MARKS + 1)]
    cut = write_chart(page("a,n", *rows), max_bytes=10**6)
    assert (cut.rows, cut.more) == (MAX_MARKS, True)
    assert json.loads(cut.text)["title"]["subtitle"] == ["the first 500, more follow"]
    whole = write_chart(page("a,n", *rows[1:]), max_bytes=10**6)
    assert (whole.rows, whole.more) == (MAX_MARKS, False)
    assert json.loads(whole.text)["title"]["subtitle"] == []
    labels = json.loads(whole.text)["encoding"]["x"]["axis"]["values"]
    assert labels == [str(at) for at in range(1, 501, 10)]
    short = write_chart(page("a,n", *rows), max_bytes=2000)
    assert len(short.text) <= 2000
    assert short.more


@given(st.sampled_from(HOSTILE) | st.text(), st.sampled_from(HOSTILE) | st.text())
def test_names_and_values_are_only_titles_and_values(name: str, value: str) -> None:
    columns = [Column(each, "", "any") for each in (name, f"{name}2", "n")]
    rows = [(value, value, 1)]
    made = write_chart(RowPage(name, columns, rows, condition=value), max_bytes=10**6).text
    spec = json.loads(made)
    plain = chart(RowPage("a", query_columns(("a", "b", "n")), [("v", "w", 1)]))
    assert skeleton(spec) == skeleton(plain) or spec["mark"]["type"] == "line"
    assert {*spec["data"]["values"][0]} == OURS
    assert {each["field"] for each in spec["encoding"].values()} == OURS
    controls = "".join(map(chr, (*range(32), 127, 0x2028, 0x2029, 0x202E)))
    assert not {*controls} & {*made}


def skeleton(spec: Any) -> Any:
    """Return a specification without its titles and values."""
    encoding = {
        name: {key: value for key, value in each.items() if key != "title"}
        for name, each in spec["encoding"].items()
    }
    return {**spec, "title": [*spec["title"]], "data": [*spec["data"]], "encoding": encoding}
