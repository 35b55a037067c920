"""Ranges of a text that is known whole: their edges, and that they make up the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.protocol.tools.text_range import (
    TextPart,
    beginning,
    count_lines,
    lines_of,
    part_of,
)
from resource_server.runtime.document_range import Range, Unit

TEXT = st.text("a\n\r\u2028é😀\ud800", max_size=20)


@given(TEXT, st.sampled_from(["lines", "bytes"]), st.integers(0, 4))
def test_ranges_one_after_the_other_make_up_the_text(text: str, unit: Unit, more: int) -> None:
    first = int(unit == "lines")
    found = ""
    for _ in range(len(text) + 2):
        part = part_of(text, Range(unit, first, first + more))
        found += part.text
        if part.next is None:
            break
        assert (part.next.unit, part.next.last) == (unit, None)
        assert part.next.first > first
        first = part.next.first
    assert found == text


@given(TEXT, st.integers(1, 9))
def test_a_tail_is_the_last_lines(text: str, count: int) -> None:
    lines = lines_of(text)
    part = part_of(text, Range("tail", count))
    assert part.text == "".join(lines[-count:])
    assert (part.total, part.next) == (count_lines(text), None)
    assert lines[: (part.first_line or 0) - 1] + lines_of(part.text) == lines


@pytest.mark.parametrize(
    ("range", "part"),
    [
        (Range("lines", 2, 2), TextPart("é\n", 2, 3, Range("lines", 3))),
        (Range("lines", 3, 99), TextPart("c", 3, 3)),
        (Range("lines", 4), TextPart("", 4, 3)),
        (Range("tail", 99), TextPart("a\né\nc", 1, 3)),
        (Range("bytes", 3, 3), TextPart("", None, 6, Range("bytes", 4))),
        (Range("bytes", 2, 2), TextPart("é", None, 6, Range("bytes", 4))),
        (Range("bytes", 6), TextPart("", None, 6)),
        (Range("bytes", 10**15), TextPart("", None, 6)),
    ],
)
def test_a_range_at_an_edge(range: Range, part: TextPart) -> None:
    assert part_of("a\né\nc", range) == part


def test_only_a_line_feed_ends_a_line() -> None:
    assert lines_of("a\rb\u2028c\x0bd\r\n\n") == ["a\rb\u2028c\x0bd\r\n", "\n"]
    assert lines_of("") == []
    assert [count_lines(text) for text in ("", "a", "a\n", "\n", "a\nb")] == [0, 1, 1, 1, 2]


def test_a_beginning_ends_with_a_line_unless_none_fits() -> None:
    text = "one\ntwo\n"
    found = [beginning(text, room) for room in range(9)]
    assert found == ["", "o", "on", "one", "one\n", "one\n", "one\n", "one\n", text]
