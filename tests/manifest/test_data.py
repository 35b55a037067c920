"""Plain manifest data: dotted paths, positions and secrets."""

from __future__ import annotations

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest.data import NOWHERE, DataPath, Positions, Problems, dotted
from tests.cases import for_each


@for_each(
    ("path", "text"),
    [
        ((), ""),
        (("roots", "project", "exclude", 2), "roots.project.exclude[2]"),
        (("types", "*.tpl"), 'types["*.tpl"]'),
        (("a b", "\n"), r'["a b"]["\n"]'),
    ],
)
def test_a_data_path_is_written_with_dots(path: DataPath, text: str) -> None:
    assert dotted(path) == text


def test_the_position_of_a_value_is_that_of_the_nearest_one_around_it() -> None:
    positions = Positions(keys={("a",): (1, 1)}, values={("a",): (1, 4), ("a", 0): (2, 3)})
    assert positions.value(("a", 0, "x")) == (2, 3)
    assert positions.value(("a", 1)) == (1, 4)
    assert positions.value(("b",)) == NOWHERE
    assert positions.key(("a",)) == (1, 1)
    assert positions.key(("a", 0)) == (2, 3)


def test_dotted_words_name_the_longest_keys() -> None:
    keys: list[DataPath] = [
        ("t",),
        ("t", "a"),
        ("t", "a.b"),
        ("t", "a.b", "where"),
        ("t", "a", "x"),
    ]
    positions = Positions(keys=dict.fromkeys(keys, (1, 1)))
    assert positions.named(("t",), "a.b.where") == ("t", "a.b", "where")
    assert positions.named(("t",), "a.x") == ("t", "a", "x")
    assert positions.named(("t",), "a.b.missing") == ("t", "a.b")
    assert positions.named(("t",), "missing") == ("t",)


def test_secrets_are_removed_from_messages_longest_first() -> None:
    positions = Positions(secrets={"pass": "${A}", "password": "${B}"})
    assert positions.scrub(ValueError("no password,\nno pass")) == "no ${B}, no ${A}"


def test_problems_are_raised_in_the_order_of_the_file_and_once() -> None:
    problems = Problems("m.yaml")
    problems.raise_any()
    problems.add((2, 1), ("b",), "second")
    problems.add((1, 5), ("a",), "first")
    problems.add((2, 1), ("b",), "second")
    with pytest.raises(ManifestError) as caught:
        problems.raise_any()
    assert [str(each) for each in caught.value.diagnostics] == [
        "m.yaml:1:5: a: first",
        "m.yaml:2:1: b: second",
    ]
