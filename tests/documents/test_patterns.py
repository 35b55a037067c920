from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from resource_server.documents.patterns import Pattern, Patterns, bytewise
from tests.cases import for_each


def matches(line: str, path: str, *, is_directory: bool = False) -> bool:
    path = bytewise(path)
    name = path.rpartition("/")[2]
    return Patterns([line]).last_match(path, name, is_directory=is_directory) == 0


@for_each(
    ("line", "path"),
    [
        ("build", "a/build"),
        ("*.py", "a/b.py"),
        ("*.tar.gz", "x.tar.gz"),
        ("/top", "top"),
        ("a/b", "a/b"),
        ("a/*/c", "a/b/c"),
        ("**/b", "b"),
        ("**/b", "a/a/b"),
        ("a/**", "a/b/c"),
        ("a/**/c", "a/c"),
        ("a/**/c", "a/b/b/c"),
        ("**/a/**/b/*.c", "x/a/y/a/z/b/q.c"),
        ("foo**/bar", "foobar"),
        ("[!a]x", "bx"),
        ("[]-]x", "]x"),
        ("[[:digit:]a-c]x", "7x"),
        ("[\\]]x", "]x"),
        (r"\#x", "#x"),
        (r"\!x", "!x"),
        ("x\\ ", "x "),
        ("x  ", "x"),
        ("Ü?", "Üb"),
        ("??", "Ü"),
    ],
)
def test_a_pattern_matches_the_same_paths_as_git(line: str, path: str) -> None:
    assert matches(line, path)


@for_each(
    ("line", "path"),
    [
        ("build", "build2"),
        ("*.py", "a/b.pyc"),
        ("/top", "a/top"),
        ("a/b", "x/a/b"),
        ("a/*/c", "a/b/b/c"),
        ("a/**", "a"),
        ("a*b", "a/b"),
        ("a/[/]b", "a//b"),
        ("[a", "[a"),
        ("[[:nope:]]", "n"),
        ("x\\", "x"),
        ("?", "Ü"),
        ("#x", "#x"),
        ("/", "x"),
        ("", "x"),
    ],
)
def test_a_pattern_matches_no_other_paths_than_git(line: str, path: str) -> None:
    assert not matches(line, path)


def test_a_pattern_with_a_final_slash_matches_directories_only() -> None:
    assert matches("build/", "a/build", is_directory=True)
    assert not matches("build/", "a/build")


def test_the_last_matching_line_decides() -> None:
    patterns = Patterns(["*", "!*/", "!*.c", "x.c"])
    assert patterns.last_match("a", "a", is_directory=False) == 0
    assert patterns.last_match("a", "a", is_directory=True) == 1
    assert patterns.last_match("d/y.c", "y.c", is_directory=False) == 2
    assert patterns.last_match("d/x.c", "x.c", is_directory=False) == 3


def test_unmatchable_lines_are_named_and_the_others_apply() -> None:
    patterns = Patterns(["[a", "ok", "# no pattern", "x\\"])
    assert patterns.unusable == [0, 3]
    assert list(patterns.lines) == [1]


@for_each("line", ["*a" * 30, "**/a/" * 40 + "b", "a*" * 30 + "/**/" + "*b" * 30])
def test_a_hostile_pattern_runs_in_polynomial_time(line: str) -> None:
    patterns = Patterns([line])
    begin = time.process_time()
    patterns.last_match("a/" * 300 + "a" * 200, "a" * 200, is_directory=False)
    assert time.process_time() - begin < 5  # exponential would be years


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0\n"), min_size=1))
def test_an_escaped_name_matches_only_itself(name: str) -> None:
    line = "".join(f"\\{char}" for char in name)
    assert matches(line, name)
    assert not matches(line, name + "x")


@given(st.text("*?[]!-^:\\/ab", max_size=12))
def test_any_line_is_a_pattern_or_is_refused(line: str) -> None:
    Patterns([line]).last_match("a/b", "b", is_directory=True)
    Pattern.parse(line)
