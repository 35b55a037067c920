"""Wording of diagnostics: safe, short, and of one line."""

from __future__ import annotations

from resource_server.manifest.wording import (
    exception_text,
    one_line,
    printable,
    quoted_value,
    shortened,
    unknown_name,
)
from tests.cases import for_each


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_control_and_bidirectional_characters_are_escaped() -> None:
    assert printable("a\nb\x1b[31m\u202ec\udcff") == r"a\nb\x1b[31m\u202ec\udcff"
    assert printable("grüße ☃") == "grüße ☃"


@for_each(("length", "shown"), [(59, 59), (60, 60), (61, 60), (10_000, 60)])
def test_printable_text_is_bounded(length: int, shown: int) -> None:
    text = printable("x" * length)
    assert len(text) == shown
    assert text.endswith("…") == (length > 60)


def test_shortened_text_ends_in_an_ellipsis() -> None:
    assert shortened("abcde", 5) == "abcde"
    assert shortened("abcdef", 5) == "abcd…"


def test_an_exception_is_one_line() -> None:
    assert one_line(ValueError("one\n  two\tthree ")) == "one two three"
    assert len(one_line(ValueError("x" * 10_000))) == 500


def test_an_exception_without_text_is_named() -> None:
    assert exception_text(Mute()) == "Mute without a message"
    assert one_line(Mute()) == "Mute without a message"


@for_each(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        (5, "the number 5"),
        (0.5, "the number 0.5"),
        ("distt/", "'distt/'"),
        ("a\nb", r"'a\nb'"),
        ([], "an empty list"),
        (["a"], "a list"),
        ({}, "a mapping"),
    ],
)
def test_values_are_quoted_in_words(value: object, words: str) -> None:
    assert quoted_value(value) == words


def test_an_unknown_name_comes_with_the_likely_one_or_all_known_names() -> None:
    known = ["path", "title"]
    assert unknown_name("option", "pth", known) == "unknown option; did you mean 'path'?"
    assert unknown_name("option", "zzz", known) == "unknown option; known: path, title"
    assert unknown_name("option", "zzz", []) == "unknown option"
