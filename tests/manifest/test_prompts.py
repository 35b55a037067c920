from __future__ import annotations

import pathlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server.errors import ManifestError
from resource_server.manifest.load import load
from resource_server.manifest.prompts import (
    Prompt,
    PromptArgument,
    PromptMessage,
    completable_variables,
    filled_text,
    placeholder_names,
)
from tests.cases import for_each

values = st.text("ab{}name\n%/\0\udcff", max_size=20)


def prompts(folder: pathlib.Path, text: str) -> dict[str, Prompt]:
    file = folder / "m.yaml"
    file.write_text(f"roots: {{p: {{path: .}}}}\nprompts:\n{text}", "utf-8")
    return dict(load(file).prompts)


def refusal(folder: pathlib.Path, text: str) -> str:
    with pytest.raises(ManifestError) as refused:
        prompts(folder, f"  p:\n    messages: [{{text: x}}]\n    arguments: {{a: {{{text}}}}}\n")
    (problem,) = refused.value.diagnostics
    return f"{problem.where}: {problem.message}"


def test_a_prompt_is_read_with_its_arguments_and_messages_in_order(tmp_path: pathlib.Path) -> None:
    found = prompts(
        tmp_path,
        "  second: {messages: [{text: x}]}\n"
        "  first:\n"
        "    title: T\n"
        "    arguments:\n"
        "      b: {required: true, complete: 'file:///p/{+path}'}\n"
        "      a: {default: x, enum: [x, y]}\n"
        "    messages:\n"
        "      - {role: assistant, resource: 'file:///p/{+b}'}\n"
        "      - {text: 'to {a}'}\n",
    )
    assert list(found) == ["second", "first"]
    assert found["first"] == Prompt(
        title="T",
        arguments={
            "b": PromptArgument(required=True, complete="file:///p/{+path}"),
            "a": PromptArgument(default="x", enum=("x", "y")),
        },
        messages=(
            PromptMessage(role="assistant", resource="file:///p/{+b}"),
            PromptMessage(text="to {a}"),
        ),
    )
    assert list(found["first"].arguments) == ["b", "a"]


def test_prompts_alone_are_enough_to_serve(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("prompts: {p: {messages: [{text: x}]}}")
    assert list(load(file).prompts) == ["p"]


def test_a_default_that_is_never_used_is_refused(tmp_path: pathlib.Path) -> None:
    assert refusal(tmp_path, "required: true, default: x") == (
        "prompts.p.arguments.a.default: never used, since the argument is required"
    )


def test_a_default_outside_the_enum_is_refused(tmp_path: pathlib.Path) -> None:
    assert refusal(tmp_path, "enum: [security, style], default: secuity") == (
        "prompts.p.arguments.a.default: expected one of the 'enum' values security, style; "
        "did you mean 'security'?"
    )


def test_a_completion_template_beside_an_enum_is_refused(tmp_path: pathlib.Path) -> None:
    assert refusal(tmp_path, "enum: [x], complete: 'file:///p/{+a}'") == (
        "prompts.p.arguments.a.complete: never used, since 'enum' lists the values"
    )


def test_braces_are_escaped_by_doubling() -> None:
    assert filled_text("{{a}} {a} {{{a}}} }}{{", {"a": "1"}) == "{a} 1 {1} }{"


def test_an_argument_without_a_value_is_replaced_by_nothing() -> None:
    assert filled_text("<{a}>", {}) == "<>"


@given(values, values)
@example("{b}", "x")
@example("{{b}}", "x")
def test_substituted_values_are_not_substituted_again(a: str, b: str) -> None:
    assert filled_text("<{a}|{b}|{a}>", {"a": a, "b": b}) == f"<{a}|{b}|{a}>"


TOKENS = {"{{": "{", "}}": "}", "{a}": "1", "x": "x"}


@given(st.lists(st.sampled_from(list(TOKENS))))
def test_braces_and_names_may_be_adjacent_in_any_order(tokens: list[str]) -> None:
    text = "".join(tokens)
    assert list(placeholder_names(text)) == ["a"] * tokens.count("{a}")
    assert filled_text(text, {"a": "1"}) == "".join(TOKENS[token] for token in tokens)


@for_each("text", ["{", "}", "{{}", "a } b", "{a", "{a{b}}", "}{"])
def test_a_brace_without_its_counterpart_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an unpaired brace"):
        placeholder_names(text)


def test_every_occurrence_of_a_name_is_found() -> None:
    assert list(placeholder_names("{a}{{b}}{c} {a}")) == ["a", "c", "a"]


@for_each(
    ("template", "expected"),
    [
        ("x://m/{+file}", ["file"]),
        ("x://m/{+path}", ["path"]),
        ("x://m/{table}/{+file}", ["file"]),
        ("x://m/{table}/{key}", ["key"]),
        ("x://m/{other}/{+file}", ["other", "file"]),
        ("x://m/{table}", []),
        ("x://m/", []),
    ],
)
def test_an_argument_completes_its_own_variable_or_one_no_other_argument_has(
    template: str, expected: list[str]
) -> None:
    assert completable_variables(template, "file", {"file": 0, "table": 0}) == expected
