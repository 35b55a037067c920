"""Ranges of converted text: beginnings of long tables, and what a window has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest

from resource_server.conversion.formats import row_tables
from resource_server.conversion.formats.row_tables import RowTable
from resource_server.conversion.pool import Conversion
from resource_server.conversion.registry import Converters
from resource_server.conversion.text_window import WindowPlace
from resource_server.provider.conversion import Part
from resource_server.providers.filesystem.conversion_query import Wanted, parse_wanted
from resource_server.providers.filesystem.converted_range import (
    content,
    has,
    joined_text,
    text_beginning,
)
from resource_server.runtime.document_range import Range

CSV = "text/csv"


def wanted(media_type: str = CSV, **query: str) -> Wanted:
    return parse_wanted(query, media_type, "x", Converters())


def cut_table(rows: Sequence[Sequence[str]], asked: Wanted, kept: int) -> Conversion:
    """Return the parts of a table up to a character of the last one."""
    table = RowTable(iter(rows), ["a", "b"], {}, "CSV", lambda _: None)
    *before, last = row_tables.parts(table, asked.request)
    last = Part(str(last.data)[:kept], last.number, mime_type=last.mime_type)
    return Conversion((*before, last), is_cut=True)


ROWS = [["1", "one"], ["2", "two"], ["3", "x" * 1000], ["4", "four"]]


@pytest.mark.parametrize("format", ["markdown", "json"])
@pytest.mark.parametrize("given", ["", "1-", "1-4", "2-4"])
def test_a_table_goes_on_with_the_row_after_the_last_whole_one(format: str, given: str) -> None:
    asked = wanted(format=format, **({"rows": given} if given else {}))
    found = text_beginning(cut_table(ROWS, asked, 500), asked)
    assert found.truncated is not None
    assert found.truncated.next == {"format": format, "rows": f"3-{given.partition('-')[2]}"}
    assert "two" in str(found.data)
    assert "xx" not in str(found.data)
    if format == "json":
        assert len(json.loads(str(found.data))["rows"]) == (1 if given == "2-4" else 2)


@pytest.mark.parametrize("format", ["markdown", "json"])
@pytest.mark.parametrize("rows", ["3-", "3", "3-4"])
def test_a_row_longer_than_a_read_goes_on_by_lines(format: str, rows: str) -> None:
    asked = wanted(format=format, rows=rows)
    cut = cut_table(ROWS, asked, 500)
    found = text_beginning(cut, asked)
    assert found.truncated is not None
    begun = str(found.data)
    following = {"format": format, "rows": rows, "lines": f"{begun.count(chr(10)) + 1}-"}
    assert found.truncated.next == following
    assert joined_text(cut).decode().startswith(begun)
    assert begun.endswith("\n")


def test_a_part_whose_first_row_is_not_whole_goes_on_with_that_row() -> None:
    rows = [*itertools.repeat(["1", "x"], 1000), ["2", "y" * 1000]]
    asked = wanted(format="json")
    found = text_beginning(cut_table(rows, asked, 500), asked)
    assert found.truncated is not None
    assert found.truncated.next == {"format": "json", "rows": "1001-"}
    assert len(json.loads(str(found.data))["rows"]) == 1000


@pytest.mark.parametrize("format", ["markdown", "json"])
@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\r"])
def test_lines_within_a_cell_are_no_rows(format: str, separator: str) -> None:
    cell = f"a{separator}| b{separator}[c"
    asked = wanted(format=format)
    cut = cut_table([["1", cell], ["2", cell], ["3", "x" * 1000]], asked, 500)
    found = text_beginning(cut, asked)
    assert found.truncated is not None
    assert found.truncated.next == {"format": format, "rows": "3-"}


def test_text_without_parts_goes_on_by_lines_or_in_a_long_line_by_bytes() -> None:
    asked = wanted("text/html", format="markdown")
    for text, data, following in (
        ("one\ntwo", "one\n", {"lines": "2-"}),
        ("éé", "éé", {"bytes": "4-"}),
    ):
        found = text_beginning(Conversion((Part(text),), is_cut=True), asked)
        assert found.data == data
        assert found.truncated is not None
        assert found.truncated.next == {"format": "markdown", **following}


def test_a_page_that_is_not_whole_is_left_out_and_comes_next() -> None:
    asked = wanted("application/pdf", format="markdown", pages="2-9")
    parts = (Part("two\n", 2), Part("three\nthr", 3))
    found = text_beginning(Conversion(parts, is_cut=True), asked)
    assert found.data == "two\n"
    assert found.truncated is not None
    assert found.truncated.next == {"format": "markdown", "pages": "3-9"}


@pytest.mark.parametrize(
    ("range", "is_there"),
    [
        (Range("lines", 11), True),
        (Range("lines", 12), True),
        (Range("lines", 13), False),
        (Range("lines", 10), False),
        (Range("bytes", 108), True),
        (Range("bytes", 107), False),
        (Range("bytes", 111), True),
        (Range("bytes", 112), False),
        (Range("tail", 1), False),
    ],
)
def test_a_window_has_the_lines_and_bytes_that_begin_in_it(range: Range, *, is_there: bool) -> None:
    place = WindowPlace(bytes_before=100, lines_before=10)
    window = Conversion((Part("one\ntwo\nthré"),), is_cut=True, place=place)
    assert len(joined_text(window)) == 13
    assert has(window, range) == is_there


def test_a_text_that_is_whole_has_any_range() -> None:
    whole = Conversion((Part("one\n"),))
    assert has(whole, Range("lines", 99))
    assert has(Conversion(()), Range("tail", 1))
    nothing = content(Conversion(()), "text/markdown", wanted(format="markdown", lines="5-"))
    assert (nothing.data, nothing.mime_type) == ("", "text/markdown")
