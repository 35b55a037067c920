from __future__ import annotations

import pytest

from resource_server.errors import InvalidParameter
from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from resource_server.protocol.prompts import rendering
from resource_server.protocol.prompts.rendering import argument_values
from tests.cases import for_each

PROMPT = Prompt(
    arguments={
        "file": PromptArgument(required=True),
        "focus": PromptArgument(default="correctness", enum=("correctness", "style")),
        "note": PromptArgument(),
    },
    messages=(PromptMessage(text="x"),),
)


def refusal(**given: object) -> str:
    with pytest.raises(InvalidParameter) as refused:
        argument_values(PROMPT, given)
    return str(refused.value)


def test_a_given_value_overrides_the_default() -> None:
    assert argument_values(PROMPT, {"file": "a"}) == {"file": "a", "focus": "correctness"}
    given = {"file": "a", "focus": "style", "note": "n"}
    assert argument_values(PROMPT, given) == given


def test_an_empty_value_counts_as_missing() -> None:
    given = {"file": "a", "focus": "", "note": ""}
    assert argument_values(PROMPT, given) == {"file": "a", "focus": "correctness"}
    assert refusal(file="") == "argument 'file' is required"


def test_a_missing_argument_is_named() -> None:
    assert refusal() == "argument 'file' is required"


def test_an_unknown_argument_is_named_with_a_suggestion() -> None:
    assert refusal(file="a", focsu="style") == "there is no argument 'focsu'; did you mean 'focus'?"


def test_a_value_outside_the_enum_is_refused_with_the_allowed_values() -> None:
    assert refusal(file="a", focus="styl") == (
        "argument 'focus' is one of correctness, style; did you mean 'style'?"
    )


@for_each(
    ("value", "found"),
    [
        (5, "the number 5"),
        (None, "nothing"),
        (False, "false"),
        (["x"], "a list"),
        ({"x": 1}, "a mapping"),
    ],
)
def test_a_value_that_is_not_text_is_named(value: object, found: str) -> None:
    assert refusal(file=value) == f"argument 'file': expected text, found {found}"
    assert refusal(file="a", note=value) == f"argument 'note': expected text, found {found}"


def test_all_problems_are_reported_together() -> None:
    assert refusal(focus="x", zzz="y").split("; ") == [
        "argument 'file' is required",
        "argument 'focus' is one of correctness, style",
        "there is no argument 'zzz'",
    ]


def test_very_many_unknown_names_are_refused_with_a_short_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []

    def printable(name: str) -> str:
        shown.append(name)
        return name

    monkeypatch.setattr(rendering, "printable", printable)
    told = refusal(**{f"file{number}": "" for number in range(100_000)})
    assert len(told) < 500
    assert told.endswith("and 99996 more")
    assert len(shown) <= 5


def test_huge_names_and_control_characters_are_shortened_in_errors() -> None:
    told = refusal(**{"file": "a", "x" * 1_000_000: "", "\x1b[31m\n\u202e": ""})
    assert len(told) < 500
    assert told.isprintable()
