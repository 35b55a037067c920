from __future__ import annotations

import csv
import datetime
import io
import json
from base64 import b64decode
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats.pages import (
    FORMATS,
    FormatName,
    RowPage,
    query_columns,
    unique_names,
    write_page,
    write_row,
)
from tests.cases import for_each

CELL = 1000
BUDGET = 1 << 20
NAMES: list[FormatName] = ["json", "columns", "csv", "markdown"]
COLUMNS = (Column("id", "INTEGER", "integer"), Column("name", "TEXT", "text"))


def uri(written: int) -> str:
    return f"sqlite://shop/orders/~rows?after={written}"


def page(rows: list[tuple[object, ...]], *names: str, more: bool = False) -> RowPage:
    return RowPage("orders", query_columns(names), rows, more, uri)


def written(page: RowPage, format: FormatName, *, max_bytes: int = BUDGET, cell: int = CELL) -> str:
    return write_page(page, format, max_bytes=max_bytes, cell=cell).text


def rows_of(text: str, format: FormatName) -> list[Any]:
    if format == "csv":
        return list(csv.reader(io.StringIO(text, newline="")))[1:]
    if format == "markdown":
        return [line for line in text.splitlines() if line.startswith("| ")][2:]
    return json.loads(text)["rows"]


def test_json_has_rows_as_objects_and_the_next_page() -> None:
    rows: list[tuple[object, ...]] = [(1, "a"), (2, None)]
    given = RowPage("orders", COLUMNS, rows, True, uri)
    result = write_page(given, "json", max_bytes=BUDGET, cell=CELL)
    assert json.loads(result.text) == {
        "rows": [{"id": 1, "name": "a"}, {"id": 2, "name": None}],
        "next": uri(2),
        "more": True,
    }
    assert result[1:] == ("application/json", 2, True)


def test_the_columns_format_has_rows_as_arrays_and_names_once() -> None:
    assert json.loads(written(page([(1, "a"), (2, "b")], "id", "name"), "columns")) == {
        "columns": ["id", "name"],
        "rows": [[1, "a"], [2, "b"]],
        "next": None,
        "more": False,
    }


def test_the_last_page_has_no_next_page() -> None:
    result = write_page(page([(1,)], "id"), "json", max_bytes=BUDGET, cell=CELL)
    assert json.loads(result.text)["next"] is None
    assert not result.more


def test_rows_without_paging_are_marked_as_truncated() -> None:
    unpaged = RowPage("v", COLUMNS, [(1, "a")], more=True)
    body = json.loads(written(unpaged, "json"))
    assert (body["next"], body["more"]) == (None, True)
    assert "not shown" in written(unpaged, "markdown")


@for_each("count", [0, 1, 7, 8, 127, 128, 129, 1000])
@for_each("name", ["plain", 'with "quotes"', "back\\slash", "line\nend", ""])
def test_many_rows_are_formatted_like_few(count: int, name: str) -> None:
    rows: list[tuple[object, ...]] = [(number, f"é{number}") for number in range(count)]
    body = json.loads(written(page(rows, "id", name), "json"))
    assert body["rows"] == [{"id": number, name: text} for number, text in rows]


def test_columns_of_the_same_name_get_distinct_names() -> None:
    assert unique_names(("id", "id_2", "id", "id", "x")) == ("id", "id_2", "id_3", "id_4", "x")
    assert json.loads(written(page([(1, 2)], "a", "a"), "json"))["rows"] == [{"a": 1, "a_2": 2}]


@given(st.lists(st.sampled_from(["a", "a_2", "a_3", "b", "", "\udcff", "\ufffd"]), max_size=12))
def test_unique_names_are_distinct_and_keep_existing_names(names: list[str]) -> None:
    unique = unique_names(tuple(names))
    assert len(unique) == len(set(unique)) == len(names)
    assert set(unique) >= {name.replace("\udcff", "\ufffd") for name in names}
    "".join(unique).encode()


def test_a_name_that_is_not_unicode_does_not_break_the_page() -> None:
    for format in NAMES:
        assert "b\ufffd" in written(page([(1,)], "b\udcff"), format)


ROWS = st.lists(
    st.tuples(
        st.integers(),
        st.one_of(st.none(), st.text(st.characters(), max_size=200), st.binary(max_size=200)),
        st.one_of(st.floats(), st.dates(), st.lists(st.integers(), max_size=5)),
    ),
    max_size=40,
)


@given(ROWS, st.integers(0, 3000), st.booleans(), st.sampled_from(NAMES))
def test_a_page_contains_as_many_complete_rows_as_fit(
    rows: list[tuple[object, ...]], max_bytes: int, more: bool, format: FormatName
) -> None:
    whole = page(rows, "id", "text", "other", more=more)
    result = write_page(whole, format, max_bytes=max_bytes, cell=CELL)
    assert len(rows_of(result.text, format)) == result.rows
    assert result.more is (more or result.rows < len(rows))
    if result.rows > 1:
        assert len(result.text.encode()) <= max_bytes
        first = page(rows[: result.rows], "id", "text", "other", more=result.more)
        assert written(first, format, cell=CELL) == result.text
    if 0 < result.rows < len(rows):
        one_more = page(rows[: result.rows + 1], "id", "text", "other", more=True)
        assert len(written(one_more, format, cell=CELL).encode()) > max_bytes - len(uri(100))


@for_each("format", NAMES)
@for_each("max_bytes", [5_000, 50_000, 100_000])
def test_a_truncated_page_fills_its_budget_and_continues_after_its_last_row(
    format: FormatName, max_bytes: int
) -> None:
    rows: list[tuple[object, ...]] = [(number, "x" * (number % 100)) for number in range(2000)]
    result = write_page(page(rows, "id", "text"), format, max_bytes=max_bytes, cell=CELL)
    assert max_bytes - 300 < len(result.text.encode()) <= max_bytes
    assert result.more
    assert format == "csv" or uri(result.rows) in result.text


def test_uris_that_grow_from_row_to_row_still_fit() -> None:
    rows: list[tuple[object, ...]] = [(number,) for number in range(300)]

    def growing_uri(written: int) -> str:
        return "x" * (500 - written)

    growing = RowPage("t", query_columns(("id",)), rows, True, growing_uri)
    result = write_page(growing, "json", max_bytes=2500, cell=CELL)
    assert 1500 < len(result.text) <= 2500


@for_each("format", NAMES)
def test_a_single_row_over_the_budget_has_its_long_cells_truncated(format: FormatName) -> None:
    rows: list[tuple[object, ...]] = [(1, "é" * 50_000, b"\0" * 50_000, "short"), (2, "", b"", "")]
    result = write_page(page(rows, *"abcd"), format, max_bytes=2000, cell=65536)
    assert (result.rows, result.more) == (1, True)
    assert 800 < len(result.text.encode()) <= 2000
    assert "50000" in result.text
    assert "short" in result.text


def test_a_row_without_long_cells_is_complete() -> None:
    names = [f"c{place}" for place in range(2000)]
    result = write_page(page([tuple(range(2000))], *names), "json", max_bytes=100, cell=CELL)
    assert json.loads(result.text)["rows"][0]["c1999"] == 1999
    many = page([tuple(range(2000))] * 20, *names)
    assert len(json.loads(written(many, "json"))["rows"]) == 20


def csv_of(*values: object, cell: int = CELL) -> list[str]:
    text = written(page([values], *[f"c{at}" for at in range(len(values))]), "csv", cell=cell)
    assert text.endswith("\r\n")
    (row,) = rows_of(text, "csv")
    return row


def test_csv_has_every_value_as_text() -> None:
    moment = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
    assert csv_of(1, 1.5, True, None, "", moment, [1, "a"], b"\0\xff", float("inf")) == [
        "1", "1.5", "true", "", "", "2026-11-20T00:00:00Z", '[1,"a"]', "AP8=", "Infinity"
    ]  # fmt: skip


def test_csv_marks_truncated_cells() -> None:
    text, blob = csv_of("abc" * 10, bytes(2000), cell=10)
    assert text == "[30 characters] abcabcabca…"
    assert blob == "[2000 bytes] AAAAAAAAAAAAAA==…"


def test_csv_is_rfc_4180() -> None:
    text = written(page([(1, 'a "b", c\r\nd'), (2, "plain")], "id", "a,b"), "csv")
    assert text == 'id,"a,b"\r\n1,"a ""b"", c\r\nd"\r\n2,plain\r\n'


def test_csv_of_one_column_has_no_empty_lines() -> None:
    assert written(page([("a",), (None,), ("",)], "x"), "csv") == 'x\r\na\r\n""\r\n""\r\n'


def test_csv_leaves_formulas_unchanged() -> None:
    assert csv_of("=1+1", "@x", "-1") == ["=1+1", "@x", "-1"]


CSV_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(CSV_TEXT, st.one_of(st.none(), st.integers(), CSV_TEXT)), max_size=9))
def test_csv_is_read_back_by_the_standard_library(rows: list[tuple[object, ...]]) -> None:
    read = rows_of(written(page(rows, "a", "b"), "csv"), "csv")
    assert read == [["" if value is None else str(value) for value in row] for row in rows]


def test_markdown_is_a_table_with_right_aligned_numbers() -> None:
    text = written(RowPage("orders", COLUMNS, [(1, "a"), (2, None)], True, uri), "markdown")
    assert text == (
        "# orders\n\n| id | name |\n| ---: | --- |\n| 1 | a |\n| 2 | *NULL* |\n"
        f"\nMore rows follow: <{uri(2)}>\n"
    )


def test_markdown_distinguishes_blobs_and_truncated_text_from_text() -> None:
    text = written(page([(b"ab", "x" * 20, "*NULL*")], *"abc"), "markdown", cell=10)
    assert text.splitlines()[-1] == "| *blob, 2 bytes* | *20 characters* xxxxxxxxxx… | \\*NULL\\* |"


@for_each(
    ("value", "shown"),
    [
        ("a|b", r"a\|b"),
        ("a\nb\r\nc\rd", "a<br>b<br>c<br>d"),
        ("a\rb", "a<br>b"),
        ("`x`", r"\`x\`"),
        (r"C:\dir", r"C:\dir"),
        ("\\|", r"\\\|"),
        ("a\\", r"a\\"),
        ("a\\\nb", r"a\\<br>b"),
        ("<script>", r"\<script>"),
        ("![x](http://evil/?q)", r"!\[x](http://evil/?q)"),
        ("a_b_c __init__", r"a_b_c \_\_init\_\_"),
        ("~~a~~", r"\~\~a\~\~"),
        ("&lt; a & b", r"\&lt; a & b"),
        ("caf\udce9", "*blob, 4 bytes*"),
        ([1, "a|b"], r'\[1,"a\|b"]'),
    ],
)
def test_cell_content_is_never_interpreted_as_markdown(value: object, shown: str) -> None:
    for values in ([value], [value, "x"], [value, None], [value] * 3):
        rows: list[tuple[object, ...]] = [(item, 1) for item in values]
        lines = rows_of(written(page(rows, "a", "b"), "markdown"), "markdown")
        assert lines[0] == f"| {shown} | 1 |"
        assert len(lines) == len(values)


def test_any_title_is_a_single_heading() -> None:
    text = written(RowPage("a\n# <b> `c` #", COLUMNS, []), "markdown")
    assert text.splitlines()[0] == "# a<br># \\<b> \\`c\\` \\#"


@given(st.lists(st.text(st.characters(), max_size=30), min_size=1, max_size=9))
def test_a_markdown_row_is_always_one_line_with_its_cells(values: list[str]) -> None:
    rows: list[tuple[object, ...]] = [(value, "end") for value in values]
    text = written(page(rows, "a", "b"), "markdown")
    lines = text.split("\n")[4:-1]
    assert len(lines) == len(rows)
    for line in lines:
        assert "\r" not in line
        assert _bars(line) == 3


def _bars(line: str) -> int:
    """Count the bars between cells as cmark-gfm does: a backslash escapes what follows it."""
    bars, at = 0, 0
    while at < len(line):
        at += 2 if line[at] == "\\" and line[at + 1 : at + 2] in set("\\|`<[*_~&") else 1
        bars += line[at - 1 : at] == "|" and (at < 2 or line[at - 2] != "\\")
    return bars


@for_each("format", NAMES)
def test_formats_have_their_names_and_media_types(format: FormatName) -> None:
    assert FORMATS[format].name == format
    result = write_page(page([], "id"), format, max_bytes=BUDGET, cell=CELL)
    assert result.mime_type == FORMATS[format].mime_type
    assert (result.rows, result.more) == (0, False)
    assert rows_of(result.text, format) == []


def row(values: tuple[object, ...], *names: str, links: dict[str, str] | None = None) -> Any:
    text = write_row(query_columns(names), values, links, max_bytes=BUDGET, cell=CELL)
    return json.loads(text)


def test_a_row_is_an_object_with_links() -> None:
    links = {"customer_id": "sqlite://shop/customers/7"}
    assert row((1, 7), "id", "customer_id", links=links) == {
        "id": 1,
        "customer_id": 7,
        "_links": links,
    }
    assert row((1, 7), "id", "customer_id") == {"id": 1, "customer_id": 7}


def test_a_column_called_links_keeps_its_name() -> None:
    assert row((1,), "_links", links={"_links": "x://y"}) == {
        "_links": 1,
        "_links_2": {"_links": "x://y"},
    }


def test_a_row_over_the_budget_has_its_long_values_truncated() -> None:
    columns = query_columns(("id", "text", "blob"))
    text = write_row(columns, (1, "a" * 9000, bytes(9000)), max_bytes=500, cell=65536)
    body = cast("dict[str, Any]", json.loads(text))
    assert 250 < len(text) <= 500
    assert (body["id"], body["text"]["characters"], body["blob"]["bytes"]) == (1, 9000, 9000)
    assert len(b64decode(body["blob"]["$blob"])) > 16
