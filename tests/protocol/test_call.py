"""Calls whose result is a question (2026-07-28), and those that must not ask."""

from __future__ import annotations

import pytest

from tests.cases import for_each
from tests.person import NAME
from tests.protocol.client_features.asking import accepted, modern, wired, words

pytestmark = pytest.mark.anyio


async def test_a_question_is_a_result_and_its_answer_arrives_with_the_next_call() -> None:
    wire = await wired("2026-07-28")
    asked = modern(await wire.result("tools/call", {"name": "greet"}))
    params = {"message": "What is your name?", "requestedSchema": NAME}
    assert asked["inputRequests"] == {"name": {"method": "elicitation/create", "params": params}}
    answers = {"name": accepted(name="Ada")}
    reply = await wire.call("tools/call", {"name": "greet", "inputResponses": answers})
    assert words(reply) == "Ada"
    assert reply["result"]["resultType"] == "complete"
    assert wire.questions == []


async def test_a_question_may_be_asked_in_a_task_group() -> None:
    wire = await wired("2026-07-28")
    asked = modern(await wire.result("tools/call", {"name": "meet"}))
    assert list(asked["inputRequests"]) == ["name"]
    answers = {"name": accepted(name="Ada")}
    again = {"name": "meet", "inputResponses": answers}
    assert words(await wire.call("tools/call", again)) == "Ada"


@for_each("answer", [12345, None, [], {}, {"action": "perhaps"}])
async def test_a_malformed_answer_is_invalid_params(answer: object) -> None:
    wire = await wired("2026-07-28")
    asked = {"name": "greet", "inputResponses": {"name": answer}}
    error = await wire.error("tools/call", asked)
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: inputResponses: name: ")


async def test_other_methods_reject_input_responses() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada")}
    error = await wire.error("resources/read", {"uri": "test://one", "inputResponses": answers})
    assert error["code"] == -32602
