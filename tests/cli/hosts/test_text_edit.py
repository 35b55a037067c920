"""Edits at positions: what every format of configurations shares."""

from __future__ import annotations

import json
import tomllib

import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_server.cli.hosts.text_edit import (
    Edit,
    applied,
    diff_lines,
    json_text,
    line_number,
    newline_of,
    without,
)
from tests.cases import for_each


def test_edits_take_positions_of_the_text_before_in_any_order() -> None:
    edits = [Edit(4, 5, ""), Edit(0, 0, "<"), Edit(2, 2, "--"), Edit(5, 5, ">")]
    assert applied("abcde", edits) == applied("abcde", edits[::-1]) == "<ab--cd>"
    assert applied("abcde", []) == "abcde"
    assert applied("", [Edit(0, 0, "x")]) == "x"


@given(st.text(st.characters(codec="utf-8")))
def test_a_json_text_is_the_same_in_toml_and_yaml(text: str) -> None:
    written = json_text([text])
    assert json.loads(written) == [text]
    assert tomllib.loads(f"a = {written}") == {"a": [text]}
    assert yaml.safe_load(written) == [text]


def test_a_diff_has_only_the_lines_that_change() -> None:
    text = "one\ntwo s3cret\nthree\n"
    at = text.index("three")
    edits = [Edit(at, at + 5, "3\n\n  4"), Edit(0, 0, "zero\n")]
    assert [*diff_lines(text, edits)] == [
        "@@ line 1 @@",
        "+zero",
        "@@ line 3 @@",
        "-three",
        "+3",
        "+  4",
    ]


@for_each(
    ("text", "newline"),
    [
        ("", "\n"),
        ("a", "\n"),
        ("\n", "\n"),
        ("a\r\nb\n", "\r\n"),
        ("a\nb\r\n", "\n"),
        ("\r\n", "\r\n"),
    ],
)
def test_the_first_line_end_counts(text: str, newline: str) -> None:
    assert newline_of(text) == newline
    assert line_number(text, len(text)) == text.count("\n") + 1


def test_what_is_empty_without_a_member_goes_with_it() -> None:
    document = {"a": {"b": {"c": 1}}, "d": {}}
    assert without(document, ("a", "b", "c")) == {"d": {}}
    assert without({"a": {"b": {"c": 1}, "e": 2}}, ("a", "b", "c")) == {"a": {"e": 2}}
    assert without({"a": 1}, ("a", "b")) == {"a": 1}
    assert without({"a": 1}, ("x", "y")) == {"a": 1}
    assert document["a"] == {"b": {"c": 1}}
