"""Calls whose result is a question (2026-07-28), and those that must not ask."""

from __future__ import annotations

import pytest

from tests.person import NAME
from tests.protocol.client_features.asking import accepted, modern, wired, words

pytestmark = pytest.mark.anyio


async def test_a_question_is_the_result_and_the_answer_comes_with_the_next_call() -> None:
    wire = await wired("2026-07-28")
    asked = modern(await wire.result("tools/call", {"name": "greet"}))
    params = {"message": "What is your name?", "requestedSchema": NAME}
    assert asked["inputRequests"] == {"name": {"method": "elicitation/create", "params": params}}
    answers = {"name": accepted(name="Ada")}
    reply = await wire.call("tools/call", {"name": "greet", "inputResponses": answers})
    assert words(reply) == "Ada"
    assert reply["result"]["resultType"] == "complete"
    assert wire.questions == []


async def test_a_question_in_a_task_group_is_one_as_well() -> None:
    wire = await wired("2026-07-28")
    asked = modern(await wire.result("tools/call", {"name": "meet"}))
    assert list(asked["inputRequests"]) == ["name"]
    answers = {"name": accepted(name="Ada")}
    again = {"name": "meet", "inputResponses": answers}
    assert words(await wire.call("tools/call", again)) == "Ada"


@pytest.mark.parametrize("answer", [12345, None, [], {}, {"action": "perhaps"}])
async def test_what_is_no_answer_is_invalid(answer: object) -> None:
    wire = await wired("2026-07-28")
    asked = {"name": "greet", "inputResponses": {"name": answer}}
    error = await wire.error("tools/call", asked)
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: inputResponses: name: ")


async def test_other_methods_take_no_answers() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada")}
    error = await wire.error("resources/read", {"uri": "test://one", "inputResponses": answers})
    assert error["code"] == -32602
