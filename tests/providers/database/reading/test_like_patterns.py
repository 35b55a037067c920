"""LIKE patterns, by SQLite's own LIKE."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from resource_server.providers.database.reading.like_patterns import (
    LIKE_ESCAPE,
    MAX_LENGTH,
    escaped_pattern,
    like_pattern,
)

DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
TEXT = st.text("aA%_!\\éÉß\u017fKİ中\u0301😀\0", max_size=12)


def matches(text: str, pattern: str) -> bool:
    sql = f"select ? like ? escape '{LIKE_ESCAPE}'"
    return DATABASE.execute(sql, (text, pattern)).fetchone() == (1,)


@given(TEXT, TEXT, TEXT)
def test_every_text_that_contains_what_is_searched_matches(
    before: str, text: str, after: str
) -> None:
    # SQLite compares what is before a zero byte.
    assume("\0" not in before + text)
    pattern = like_pattern(text)
    if pattern is not None:
        assert matches(before + text + after, pattern)
        assert matches(before + text.swapcase() + after, pattern) or not text.isascii()


@pytest.mark.parametrize("text", ["", "é", "ÉÀ", "\0", "ß", "\ud800"])
def test_text_that_engines_compare_differently_has_no_pattern(text: str) -> None:
    assert like_pattern(text) is None


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("100%_!", "%100!%!_!!%"),
        ("café au lait", "% au lait%"),
        ("aÉbcÉd", "%bc%"),
        ("中文", "%中文%"),
        ("\0ab\0", "%ab%"),
    ],
)
def test_a_pattern_has_the_longest_part_that_is_alike(text: str, pattern: str) -> None:
    assert like_pattern(text) == pattern


@pytest.mark.parametrize("text", ["x" * 5000, "%" * 5000, "😀" * 5000])
def test_a_pattern_is_as_long_as_sqlite_allows_at_most(text: str) -> None:
    pattern = like_pattern(text)
    assert pattern is not None
    assert matches(text, pattern)
    assert len(pattern.encode()) <= 1000
    assert pattern.replace(LIKE_ESCAPE, "").count(text[0]) >= MAX_LENGTH


@pytest.mark.parametrize(
    ("written", "text", "fits"),
    [
        ("50\\%", "50%", True),
        ("50\\%", "50 and more", False),
        ("a\\_b", "axb", False),
        ("a\\\\b", "a\\b", True),
        ("a!b", "a!b", True),
        ("a!%", "a!bc", True),
        ("\\a", "a", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_of_a_client_has_a_backslash_as_its_escape(
    written: str, text: str, *, fits: bool
) -> None:
    assert matches(text, escaped_pattern(written)) == fits


@pytest.mark.parametrize("written", ["\\", "a\\", "\\\\\\"])
def test_a_pattern_that_ends_with_its_escape_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="escape"):
        escaped_pattern(written)
