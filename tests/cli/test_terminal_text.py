from __future__ import annotations

from resource_server.cli.console import clipped, columns, wrapped
from tests.cases import for_each


@for_each(("text", "count"), [("", 0), ("abc", 3), ("表", 2), ("e\u0301", 1)])
def test_the_columns_of_wide_and_combining_characters_are_those_of_a_terminal(
    text: str, count: int
) -> None:
    assert columns(text) == count


@for_each(
    ("text", "room", "short"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("表表表", 4, "表…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("abc", -5, ""),
    ],
)
def test_clipped_text_fits_and_says_that_it_is_shorter(text: str, room: int, short: str) -> None:
    assert clipped(text, room) == short


def test_wrapped_text_breaks_at_spaces_and_keeps_long_words_whole() -> None:
    assert wrapped("a bc file:///long/uri d", 6) == ["a bc", "file:///long/uri", "d"]
