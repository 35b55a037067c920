"""Prompts that ask the person for a missing argument."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types.methods import parse_server_request, validate_server_result

from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from tests.cases import for_each
from tests.protocol.client_features.asking import FORMS, accepted
from tests.protocol.prompts.serving import server_of
from tests.protocol.wire import EVERY, Wire
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

WAITING = ("2025-06-18", "2025-11-25")
REQUIRED = "argument 'file' is required"
PROMPT = Prompt(
    title="Review",
    arguments={
        "file": PromptArgument(title="File", description="A path", required=True),
        "style": PromptArgument(required=True, enum=("short", "long")),
        "note": PromptArgument(default="none"),
    },
    messages=(PromptMessage(text="{file}, {style}, {note}"),),
)
FORM: dict[str, Any] = {
    "message": "Review: please give file, style.",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "title": "File", "description": "A path", "minLength": 1},
            "style": {"type": "string", "enum": ["short", "long"]},
        },
        "required": ["file", "style"],
    },
}


async def wire_of(revision: str, can: dict[str, Any] | None = None) -> Wire:
    server = await server_of({"p": PROMPT, "q": PROMPT}, Tree({"a.txt": "text"}))
    return Wire(server, revision, can=FORMS if can is None else can)


def asking(*names: str, **more: Any) -> dict[str, Any]:
    """Return the parameters of the prompt with these arguments given as `x`."""
    return {"name": "p", "arguments": dict.fromkeys(names, "x"), **more}


def said(result: dict[str, Any]) -> str:
    return result["messages"][0]["content"]["text"]


@for_each("revision", WAITING)
@for_each("arguments", [{}, None, {"file": "", "style": ""}])
async def test_a_prompt_asks_the_person_for_missing_arguments(
    revision: str, arguments: object
) -> None:
    wire = await wire_of(revision)
    call = wire.start("prompts/get", {"name": "p", "arguments": arguments})
    question = await wire.asked()
    parse_server_request(question["method"], revision, question["params"])
    assert question["params"] == FORM
    wire.answer(question, accepted(file="a.txt", style="long"))
    assert said((await wire.reply_to(call))["result"]) == "a.txt, long, none"


async def test_in_the_modern_revision_the_question_is_the_result() -> None:
    wire = await wire_of("2026-07-28")
    asked = await wire.result("prompts/get", {"name": "p"})
    validate_server_result("prompts/get", "2026-07-28", asked)
    assert asked["resultType"] == "input_required"
    ((key, request),) = asked["inputRequests"].items()
    assert request == {"method": "elicitation/create", "params": FORM}
    answers = {key: accepted(file="a.txt", style="long")}
    again = {"name": "p", "inputResponses": answers, "requestState": asked["requestState"]}
    result = await wire.result("prompts/get", again)
    validate_server_result("prompts/get", "2026-07-28", result)
    assert (result["resultType"], said(result)) == ("complete", "a.txt, long, none")


async def test_only_what_is_missing_is_asked_for() -> None:
    wire = await wire_of("2026-07-28")
    asked = await wire.result("prompts/get", asking("file", "note"))
    (request,) = asked["inputRequests"].values()
    assert list(request["params"]["requestedSchema"]["properties"]) == ["style"]
    answers = {key: accepted(style="short", file="y") for key in asked["inputRequests"]}
    result = await wire.result("prompts/get", asking("file", "note", inputResponses=answers))
    assert said(result) == "x, short, x"


@for_each("revision", EVERY)
async def test_a_client_without_elicitation_is_told_what_is_missing(revision: str) -> None:
    wire = await wire_of(revision, {"sampling": {}, "roots": {}})
    error = await wire.error("prompts/get", {"name": "p"})
    assert (error["code"], error["message"]) == (
        -32602,
        "Argument 'file' is required; argument 'style' is required",
    )
    assert wire.questions == []


@for_each("revision", [*WAITING, "2026-07-28"])
@for_each(
    ("arguments", "told"),
    [
        ({"style": "huge"}, "Argument 'style' is one of short, long"),
        ({"note": 5}, "Argument 'note': expected text, found the number 5"),
        ({"fiel": "x"}, "There is no argument 'fiel'; did you mean 'file'?"),
    ],
)
async def test_nothing_is_asked_if_a_given_argument_is_invalid(
    revision: str, arguments: object, told: str
) -> None:
    wire = await wire_of(revision)
    error = await wire.error("prompts/get", {"name": "p", "arguments": arguments})
    assert (error["code"], error["message"]) == (-32602, told)
    assert wire.questions == []


@for_each(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        accepted(),
        accepted(style="long"),
        accepted(file="", style="long"),
        accepted(file="a", style="huge"),
        accepted(file=5, style="long"),
    ],
)
async def test_an_unusable_answer_leaves_the_arguments_missing(answer: object) -> None:
    wire = await wire_of("2025-11-25")
    call = wire.start("prompts/get", {"name": "p"})
    wire.answer(await wire.asked(), answer)
    error = (await wire.reply_to(call))["error"]
    assert (error["code"], error["message"].split("; ")[0]) == (-32602, f"A{REQUIRED[1:]}")
    later = await wire_of("2026-07-28")
    given = {"name": "p", "inputResponses": {"arguments": answer}}
    assert (await later.error("prompts/get", given))["message"] == error["message"]


@for_each("answer", [None, 5, [], {}, {"action": "perhaps"}])
async def test_a_malformed_answer_is_invalid(answer: object) -> None:
    wire = await wire_of("2026-07-28")
    given = {"name": "p", "inputResponses": {"arguments": answer}}
    error = await wire.error("prompts/get", given)
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: inputResponses: arguments: ")


async def test_a_state_of_another_prompt_is_refused() -> None:
    wire = await wire_of("2026-07-28")
    state = (await wire.result("prompts/get", {"name": "p"}))["requestState"]
    answers = {"arguments": accepted(file="a", style="long")}
    mine: dict[str, Any] = {"inputResponses": answers, "requestState": state}
    assert said(await wire.result("prompts/get", {"name": "p", **mine})) == "a, long, none"
    for other in ({"name": "q", **mine}, asking("note", **mine), asking("file", "style", **mine)):
        error = await wire.error("prompts/get", other)
        assert error["code"] == -32602
        assert "requestState is not one of this server's" in error["message"]


async def test_an_answer_is_never_expanded() -> None:
    wire = await wire_of("2025-11-25")
    call = wire.start("prompts/get", {"name": "p"})
    wire.answer(await wire.asked(), accepted(file="{note}", style="long"))
    assert said((await wire.reply_to(call))["result"]) == "{note}, long, none"
