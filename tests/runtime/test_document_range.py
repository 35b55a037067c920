"""Ranges as URIs and tools write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.runtime.document_range import UNITS, Range, parse_interval, parse_range
from tests.cases import for_each

NUMBER = st.integers(1, 10**15 - 1)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    unit = draw(st.sampled_from(UNITS))
    first = draw(NUMBER)
    last = None if unit == "tail" else draw(st.none() | st.integers(first, 10**15 - 1))
    return Range(unit, first, last)


@given(ranges(), st.booleans())
def test_a_range_is_read_as_it_is_written(range: Range, is_uri: bool) -> None:
    assert parse_range({range.unit: range.value}, is_uri=is_uri) == range


def test_a_single_number_is_a_range_of_a_tool_only() -> None:
    assert parse_range({"lines": " 7 "}) == Range("lines", 7, 7)
    assert parse_range({"lines": "", "tail": None}) is None
    for text in ("7", " 7-7", ""):
        with pytest.raises(InvalidParameter, match="lines=10-40 or lines=10-, counted from 1"):
            parse_range({"lines": text}, is_uri=True)


@for_each(
    ("value", "expected"), [("3", (3, 3)), ("3-7", (3, 7)), ("3-", (3, None)), ("007", (7, 7))]
)
def test_an_interval_has_one_or_two_ends(value: str, expected: tuple[int, int | None]) -> None:
    assert parse_interval("pages", value) == expected


@for_each("value", ["", "-", "0", "0-3", "5-2", "a", "-3", "1-2-3", "٣", "9" * 16])
def test_what_is_no_interval_is_refused_with_one(value: str) -> None:
    with pytest.raises(InvalidParameter, match="write pages=3, 3-7 or 3-"):
        parse_interval("pages", value)
