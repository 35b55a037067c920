"""JSON and YAML as a tree that folds: values as written, and limits."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from resource_server.explorer.structure import MAX_PARTS, has_structure, structure
from tests.cases import for_each

JSON, YAML = "application/json", "application/yaml"


def shown(text: str, media_type: str) -> str | None:
    """Return the text of a tree, an indented line for each member."""
    tree = structure(text, media_type)
    if tree is None:
        return None
    lines: list[str] = []
    depth = 0
    for tag, words in re.findall(r"<([^>]*)>([^<]*)", tree):
        depth += {"ul": 1, 'ul class="tree"': 1, "/ul": -1}.get(tag, 0)
        if tag == "b":
            lines.append("  " * (depth - 1) + words)
        elif words.strip():
            lines[-1] += words
    return "\n".join(lines)


def test_values_of_json_are_as_written() -> None:
    text = (
        '{"a": 1.10, "a": 12345678901234567890, "l": [true, null, "<b>&\\ud83d\\ude00"], "o": {}}'
    )
    assert shown(text, JSON) == (
        "a: 1.10\na: 12345678901234567890\nl [3]\n"
        "  0: true\n  1: null\n  2: &quot;&lt;b&gt;&amp;\U0001f600&quot;\no {0}"
    )


def test_values_of_yaml_are_as_written() -> None:
    text = "n: 0x1F\nf: 1.10\nq: '1'\nbase: &b [on, ~]\nagain: *b\n? [x]\n: y\n"
    assert shown(text, YAML) == (
        "n: 0x1F\nf: 1.10\nq: &quot;1&quot;\nbase [2]\n  0: on\n  1: ~\nagain: *b\n?: y"
    )


def test_each_document_of_a_yaml_stream_is_a_part() -> None:
    assert shown("a: 1\n---\nb: 2\n", YAML) == "0 {1}\n  a: 1\n1 {1}\n  b: 2"


@for_each(
    "text",
    [
        *("", "1", '"x"', "{", "[1,", "\x00", "{]"),
        "[" * 10_000,
        "[" * 60 + "]" * 60,
        "[" + "0," * MAX_PARTS + "0]",
        "[" + "0," * 5 * MAX_PARTS + "0]",
    ],
)
def test_what_is_damaged_or_too_large_has_no_tree(text: str) -> None:
    assert structure(text, JSON) is None
    assert structure(text.replace("[1,", "a: ["), YAML) is None


def test_aliases_are_not_followed() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(1_000))
    tree = structure(bomb, YAML)
    assert tree is not None
    assert len(tree) < 100 * len(bomb)


@given(st.text(), st.sampled_from([JSON, YAML]))
def test_any_text_is_a_tree_or_none(text: str, media_type: str) -> None:
    tree = structure(text, media_type)
    assert tree is None or tree.startswith('<ul class="tree">')


def test_types_with_a_structure() -> None:
    assert all(map(has_structure, [JSON, YAML, "application/geo+json", "text/x-yaml"]))
    assert not any(map(has_structure, ["text/plain", "application/jsonl", "text/markdown"]))
