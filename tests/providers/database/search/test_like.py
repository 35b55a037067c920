from __future__ import annotations

import re
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.search.like import ESCAPE, containing


def is_like(text: str, pattern: str) -> bool:
    """Say whether a text fits a pattern, as SQLite has it."""
    connection = sqlite3.connect(":memory:")
    try:
        sql = "SELECT ? LIKE ? ESCAPE ?"
        [(fits,)] = connection.execute(sql, (text, pattern, ESCAPE)).fetchall()
    finally:
        connection.close()
    return bool(fits)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("tea", "%tea%"),
        ("10%", "%10!%%"),
        ("a_b", "%a!_b%"),
        ("wow!", "%wow!!%"),
        ("a\\b", "%a\\b%"),
        ("茶", "%茶%"),
        ("é crème", "% cr%"),
        ("привет", None),
        ("привет 5", "% 5%"),
        ("\0", None),
        ("\ud800", None),
        ("a\0bc", "%bc%"),
    ],
)
def test_a_pattern_is_of_the_longest_part_that_engines_compare_alike(
    text: str, pattern: str | None
) -> None:
    assert containing(text) == pattern


def test_a_pattern_has_one_wildcard_at_either_end_and_is_never_too_long_for_sqlite() -> None:
    for text in ("%" * 1000, "é%" * 500, "茶" * 1000, "!_%" * 333):
        pattern = containing(text)
        assert pattern is not None
        assert len(pattern.encode()) < 1000
        assert len(re.findall(r"(?:!.|[^%])|(%)", pattern)) >= 3
        assert re.sub("!.", "", pattern)[0] == re.sub("!.", "", pattern)[-1] == "%"
        assert re.sub("!.", "", pattern).count("%") == 2
        assert is_like(f"x{text}x", pattern)


_TEXT = st.text(st.sampled_from("aA%_!\\'é茶 K"), max_size=6)


@given(_TEXT, _TEXT.filter(bool))
def test_all_that_holds_a_text_fits_its_pattern(text: str, sought: str) -> None:
    pattern = containing(sought)
    if sought.casefold() in text.casefold():
        assert pattern is None or is_like(text, pattern)


@given(_TEXT, st.text(st.sampled_from("aA%_!\\'茶 "), min_size=1, max_size=4))
def test_nothing_else_fits_the_pattern_of_a_text_without_other_letters(
    text: str, sought: str
) -> None:
    pattern = containing(sought)
    assert pattern is not None
    assert is_like(text, pattern) == (sought.lower() in text.lower())
