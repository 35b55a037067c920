"""Rows as tables: names, numbers, ranges and the three forms."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.conversion.formats.row_tables import (
    RowTable,
    chosen_columns,
    column_names,
    csv_text,
    exact_number,
    parts,
    value_text,
)
from resource_server.errors import InvalidParameter
from resource_server.provider.conversion import ConversionRequest


def table(rows: Sequence[Sequence[Any]], *columns: str, **types: str) -> RowTable:
    return RowTable(iter(rows), list(columns), types, "CSV", lambda last: last)


def shown(found: RowTable, format: str, **options: str) -> str:
    request = ConversionRequest(media_type="", format=format, options=options)
    return "".join(str(part.data) for part in parts(found, request))


@given(st.lists(st.sampled_from(["a", "A", "a_2", "A_2", "", " a\n", "column1", "É", "é"])))
def test_names_of_columns_are_different_for_every_database(given: list[str]) -> None:
    names = column_names(given, len(given) + 1, taken=["a"])
    lower = [name.encode().lower() for name in (*names, "a")]
    assert len(set(lower)) == len(given) + 2
    assert all(name == " ".join(name.split()) for name in names)


def test_a_long_row_and_a_short_one_have_all_their_cells() -> None:
    rows = [["1"], ["2", "b", "c"], []]
    assert json.loads(shown(table(rows, "a", "b"), "json")) == {
        "columns": ["a", "b", "column3"],
        "rows": [["1", None, None], ["2", "b", "c"], [None, None, None]],
    }
    assert shown(table(rows, "a", "b"), "csv") == "a,b,column3\n1,,\n2,b,c\n,,\n"


def test_a_table_without_rows_or_columns_is_a_table() -> None:
    assert json.loads(shown(table([], "a"), "json")) == {"columns": ["a"], "rows": []}
    assert json.loads(shown(table([]), "json")) == {"columns": [], "rows": []}
    assert shown(table([], "a"), "csv") == "a\n"
    assert "No rows" in shown(table([]), "markdown")
    assert shown(table([["x"]], "a"), "markdown", rows="2-") == ""


@pytest.mark.parametrize(("rows", "numbers"), [("1", [1]), ("999-1002", [999, 1000, 1001, 1002])])
def test_a_range_crosses_parts(rows: str, numbers: list[int]) -> None:
    found = table([[str(number)] for number in range(1, 2001)], "n", n="integer")
    assert json.loads(shown(found, "json", rows=rows))["rows"] == [[number] for number in numbers]


def test_all_parts_together_are_one_document_of_json() -> None:
    found = table([[str(number)] for number in range(2001)], "n", n="integer")
    assert json.loads(shown(found, "json"))["rows"] == [[number] for number in range(2001)]


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("7", "integer", 7),
        ("007", "integer", "007"),
        ("-0", "integer", "-0"),
        ("", "integer", None),
        ("", "text", ""),
        ("1.10", "number", "1.10"),
        ("1.5", "number", 1.5),
        ("1e5", "number", "1e5"),
        ("9" * 15, "integer", 999999999999999),
        ("9" * 16, "integer", "9" * 16),
        ("TRUE", "boolean", "TRUE"),
        ("true", "boolean", True),
        (float("nan"), "number", "NaN"),
        (float("-inf"), "number", "-Infinity"),
        (2**64, "integer", str(2**64)),
    ],
)
def test_a_cell_is_json_where_nothing_is_lost(cell: object, kind: str, value: object) -> None:
    [[found]] = json.loads(shown(table([[cell]], "n", n=kind), "json"))["rows"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (3.0, "3"),
        (1e300, "1e+300"),
        ({"a": "é"}, '{"a": "é"}'),
        (
            datetime(2026, 1, 2, 3),  # noqa: DTZ001 - as spreadsheets have it
            "2026-01-02 03:00:00",
        ),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(hours=30, minutes=5), "30:05:00"),
        (-timedelta(seconds=1.5), "-00:00:01.5"),
        (None, "None"),
    ],
)
def test_values_of_spreadsheets_are_written_as_they_are_shown(value: object, text: str) -> None:
    assert value_text(value) == text


def test_a_number_with_more_digits_than_a_float_keeps_stays_text() -> None:
    assert exact_number("1.50") == 1.5
    assert exact_number("0.1234567890123456789") == "0.1234567890123456789"
    assert exact_number("1e999") == "1e999"
    with pytest.raises(ValueError, match="could not convert"):
        exact_number("x")


def test_columns_are_chosen_by_names_that_may_have_commas() -> None:
    names = ["a", "b, c", 'd"']
    assert chosen_columns('"b, c", a,a', names) == [1, 0, 0]
    for text in ("x", "a,,b", "A", "\n"):
        with pytest.raises(InvalidParameter, match="there are a, b, c"):
            chosen_columns(text, names)


@given(st.lists(st.lists(st.text("a,\"\n\r '", max_size=4), min_size=1), max_size=4))
def test_rows_as_csv_are_read_again(rows: list[list[str]]) -> None:
    text = csv_text(rows)
    assert [*csv.reader(io.StringIO(text, newline=""))] == rows
