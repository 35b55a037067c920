"""Manifest data decoded into annotated types, each problem at its own position."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from resource_server.errors import ManifestError
from resource_server.manifest import yaml_reader
from resource_server.manifest.data import Problems
from resource_server.manifest.decode import Decoder
from resource_server.manifest.load import load
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration
from tests.cases import for_each


@dataclass(frozen=True, kw_only=True)
class Inner:
    limit: Annotated[int, Meta(ge=1)] = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str
    inner: Inner = Inner()
    mode: Literal["fast", "slow"] = "fast"
    size: ByteSize = ByteSize(1)
    timeout: Duration = Duration(1)
    tags: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    value: str | int | None = None
    switch: Inner | Literal[False] = False
    file: pathlib.Path | None = None


class Refuses:
    def __init__(self, *, name: str, limit: int = 1) -> None:
        raise ValueError(f"limit: {limit} is too much for {name}")


class RefusesAll:
    def __init__(self, *, name: str, limit: int = 1, last: str = "\nno option") -> None:
        raise ValueError(f"limit: {limit} is too much\nname: {name} is taken{last}")


class Breaks:
    def __init__(self, *, name: str) -> None:
        raise KeyError(name)


def decoded(text: str, cls: type = Options) -> tuple[Any, list[str]]:
    """Decode a manifest's text; return the instance, and the problems without the file name."""
    problems = Problems("m")
    data, positions = yaml_reader.parse_manifest(text, problems)
    built = Decoder(pathlib.Path("/base"), positions, problems).build(cls, data, ())
    return built, [str(each).removeprefix("m:") for each in problems.sorted()]


def test_every_kind_of_option_is_decoded() -> None:
    found, problems = decoded(
        "{name: n, inner: {limit: 3}, mode: slow, size: 64KiB, timeout: 250ms, tags: [a, b],"
        " sizes: {x: 1}, value: '5', switch: {limit: 2}, file: docs/a.txt}"
    )
    assert problems == []
    assert found == Options(
        name="n",
        inner=Inner(limit=3),
        mode="slow",
        size=ByteSize(64 * 1024),
        timeout=Duration(0.25),
        tags=("a", "b"),
        sizes={"x": 1},
        value="5",
        switch=Inner(limit=2),
        file=pathlib.Path("/base/docs/a.txt"),
    )


@for_each(("value", "expected"), [("'5'", "5"), ("5", 5), ("~", None), ("five", "five")])
def test_text_and_numbers_of_a_union_keep_their_type(value: str, expected: object) -> None:
    found, _ = decoded(f"{{name: n, value: {value}}}")
    assert found.value == expected


@for_each(
    ("text", "problem"),
    [
        ("{mode: slow}", "1:1: option 'name' is missing"),
        ("{name: 5}", "1:8: name: expected text, found the number 5; put it in quotes"),
        ("{nam: n, name: n}", "1:2: nam: unknown option; did you mean 'name'?"),
        (
            "{name: n, mode: sloow}",
            "1:17: mode: expected one of fast, slow, found 'sloow'; did you mean 'slow'?",
        ),
        (
            "{name: n, inner: {limit: 0}}",
            "1:26: inner.limit: expected 1 or more, found the number 0",
        ),
        ("{name: n, tags: a}", "1:17: tags: expected a list, found 'a'; put it in brackets"),
        (
            "{name: n, tags: [a, 1]}",
            "1:21: tags[1]: expected text, found the number 1; put it in quotes",
        ),
        ("{name: n, sizes: {x: y}}", "1:22: sizes.x: expected a whole number, found 'y'"),
        ("{name: n, inner: []}", "1:18: inner: expected a mapping, found an empty list"),
        ("{name: n, switch: true}", "1:19: switch: expected a mapping or false, found true"),
        ("{name: n, file: 5}", "1:17: file: expected a path, found the number 5"),
    ],
)
def test_a_problem_names_what_was_expected_and_found(text: str, problem: str) -> None:
    assert decoded(text) == (None, [problem])


def test_all_problems_are_added_at_once() -> None:
    found, problems = decoded("{nme: n, mode: 5, tags: 1}")
    assert found is None
    assert len(problems) == 4


def test_a_member_of_a_union_that_does_not_fit_adds_no_problem() -> None:
    found, problems = decoded("{name: n, value: five}")
    assert (found.value, problems) == ("five", [])


def test_a_value_error_of_the_class_stands_at_the_option_it_names() -> None:
    assert decoded("{name: n, limit: 9}", Refuses) == (None, ["1:18: limit: 9 is too much for n"])
    assert decoded("{name: n}", Refuses)[1] == ["1:1: limit: 1 is too much for n"]


def test_each_line_of_a_refusal_is_a_problem_if_all_name_their_option() -> None:
    assert decoded("{name: n, limit: 9, last: ''}", RefusesAll)[1] == [
        "1:8: name: n is taken",
        "1:18: limit: 9 is too much",
    ]
    assert decoded("{name: n, limit: 9}", RefusesAll)[1] == [
        "1:18: limit: 9 is too much name: n is taken no option"
    ]


def test_any_other_error_of_the_class_is_named_with_its_type() -> None:
    assert decoded("{name: n}", Breaks) == (None, ["1:1: KeyError: 'n'"])


def test_problems_found_by_providers_have_the_position_of_their_option(
    tmp_path: pathlib.Path,
) -> None:
    text = (
        "roots:\n"
        "  a: {path: ., secrets: {allow: ['']}}\n"
        "  b: {path: ., types: {'*.x': nothing}}\n"
        "  c: {path: ., directories: {../d: {}}}\n"
        "  d:\n"
        "    path: .\n"
        "    directories:\n"
        "      docs: {title: Documents}\n"
        "      priv*: {exposed: false}\n"
        "  e: {path: ., encoding: utf-88}\n"
        "  f: {path: ., directories: {x: {encoding: base64}}}\n"
    )
    file = tmp_path / "mcp-resources.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ManifestError) as caught:
        load(file)
    found = caught.value.diagnostics
    places = [str(each).removeprefix(f"{tmp_path}/").split(": ")[:2] for each in found]
    assert places == [
        ["mcp-resources.yaml:2:33", "roots.a.secrets.allow"],
        ["mcp-resources.yaml:3:23", "roots.b.types"],
        ["mcp-resources.yaml:4:29", "roots.c.directories"],
        ["mcp-resources.yaml:9:14", 'roots.d.directories["priv*"]'],
        ["mcp-resources.yaml:10:26", "roots.e.encoding"],
        ["mcp-resources.yaml:11:44", "roots.f.directories.x.encoding"],
    ]
