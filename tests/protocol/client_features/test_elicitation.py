"""A tool asks the person behind the client: by a request of its own, or by its result."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types.methods import parse_server_request

from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.protocol.client_features.elicitation import MAX_STATE_CHARACTERS
from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.runtime.timing import Timing
from tests.person import COLOUR, NAME, Person
from tests.protocol.client_features.asking import CANNOT, FORMS, accepted, modern, wired, words
from tests.protocol.wire import PATIENCE_S, Wire, server_of
from tests.providers_for_tests import SlowTree

pytestmark = pytest.mark.anyio

WAITING = ("2025-06-18", "2025-11-25")


# -- by a request the other way round


@pytest.mark.parametrize("revision", WAITING)
async def test_a_tool_asks_and_continues_with_the_answer(revision: str) -> None:
    wire = await wired(revision)
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    assert question["params"] == {"message": "What is your name?", "requestedSchema": NAME}
    parse_server_request(question["method"], revision, question["params"])
    wire.answer(question, accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"
    assert wire.questions == [question]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_declines_or_cancels_is_not_asked_again(action: str) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), {"action": action})
    assert words(await wire.reply_to(call)) == action


async def test_no_question_is_sent_on_a_stream_that_cannot_ask() -> None:
    wire = await wired()
    replies: list[bytes] = []
    message = json.dumps(wire.request("tools/call", {"name": "greet"}, 7)).encode()
    pending = wire.connection.receive(message, replies.append, replies.append, can_ask=False)
    assert pending is not None
    await asyncio.wait_for(pending, PATIENCE_S)
    assert words(json.loads(replies[0])) == CANNOT


async def test_the_timeout_of_a_tool_excludes_waiting_for_a_person() -> None:
    wire = await wired(timing=Timing(tool_timeout_s=0.2))
    call = wire.start("tools/call", {"name": "muse"})
    await wire.asked(2)
    first, second = wire.questions
    wire.answer(first, accepted(name="Ada"))
    await asyncio.sleep(0.3)
    assert wire.replies == []
    wire.answer(second, accepted(colour="red"))
    assert "took longer" in words(await wire.reply_to(call))


async def test_calls_waiting_for_a_person_do_not_block_others() -> None:
    wire = Wire(await server_of(Person(), SlowTree({"a.txt": "a"})), "2025-11-25", can=FORMS)
    for _ in range(MAX_RUNNING):
        wire.start("tools/call", {"name": "greet"})
    await wire.asked(MAX_OPEN)
    assert await wire.result("resources/read", {"uri": "test://two/a.txt"})


@pytest.mark.parametrize("revision", [*WAITING, "2026-07-28"])
async def test_a_tool_that_requires_an_answer_fails_without_elicitation(revision: str) -> None:
    wire = await wired(revision, {})
    reply = await wire.call("tools/call", {"name": "insist"})
    if revision in WAITING:
        assert reply["result"]["isError"] is True
        assert words(reply) == CANNOT.removeprefix("cannot ask: ")
    else:
        assert reply["error"]["code"] == -32021
        assert reply["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


# -- hostile answers


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "yes",
        {},
        {"action": "maybe"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": "Ada"},
        {"action": 1},
    ],
)
async def test_a_response_of_another_shape_fails_cleanly(result: object) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), result)
    assert words(await wire.reply_to(call)) == (
        "cannot ask: the client's answer does not fit the question"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "the answer lacks name"),
        ({"name": None}, "the answer lacks name"),
        ({"name": 5}, "the answer for 'name' is not what was asked for: string"),
        ({"name": "x" * 70_000}, "the answer is longer than 65536 bytes"),
    ],
)
async def test_an_incorrectly_completed_form_fails_cleanly(
    content: Mapping[str, Any], problem: str
) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), accepted(**content))
    assert words(await wire.reply_to(call)) == f"cannot ask: {problem}"


async def test_a_deeply_nested_response_fails_cleanly() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    deep = b"[" * 5000 + b"]" * 5000
    wire.send(
        b'{"jsonrpc":"2.0","id":"%b","result":{"action":"accept","content":{"name":%b}}}'
        % (question["id"].encode(), deep)
    )
    wire.answer(question, accepted(name="Ada"))
    assert words(await wire.reply_to(call))
    assert await wire.result("ping") == {}


# -- by a result


async def test_earlier_answers_return_as_request_state() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada")}
    asked = modern(await wire.result("tools/call", {"name": "paint", "inputResponses": answers}))
    assert asked["inputRequests"]["colour"]["params"]["requestedSchema"] == COLOUR
    last = {
        "name": "paint",
        "inputResponses": {"colour": accepted(colour="blue")},
        "requestState": asked["requestState"],
    }
    assert words(await wire.call("tools/call", last)) == "Ada in blue"


@pytest.mark.parametrize("answers", [None, {}, {"other": accepted(name="Eve")}, {"other": 5}])
async def test_a_missing_answer_is_requested_again(answers: object) -> None:
    wire = await wired("2026-07-28")
    asked = await wire.result("tools/call", {"name": "greet", "inputResponses": answers})
    assert list(modern(asked)["inputRequests"]) == ["name"]


async def test_unrequested_answers_are_ignored() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada"), "other": accepted(x=1), "more": 12345}
    reply = await wire.call("tools/call", {"name": "greet", "inputResponses": answers})
    assert words(reply) == "Ada"


async def test_an_answer_that_violates_its_schema_fails_cleanly() -> None:
    wire = await wired("2026-07-28")
    asked = {"name": "greet", "inputResponses": {"name": accepted(name=5)}}
    reply = await wire.call("tools/call", asked)
    assert words(reply).startswith("cannot ask: the answer for 'name' is not")


def state_of(**answers: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(answers).encode()).decode()


@pytest.mark.parametrize(
    "state",
    [
        "",
        "nonsense!",
        "AAAA",
        state_of(name=accepted(name="Ada")) + "-TAMPERED",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b"[" * 9000).decode(),
        "ä",
        "A" * (MAX_STATE_CHARACTERS + 4),
    ],
)
async def test_a_foreign_request_state_is_invalid(state: str) -> None:
    wire = await wired("2026-07-28")
    error = await wire.error("tools/call", {"name": "greet", "requestState": state})
    assert error["code"] == -32602
    assert error["message"] == "Invalid params: requestState is not one of this server's"


async def test_a_forged_request_state_is_validated_like_an_answer() -> None:
    wire = await wired("2026-07-28")
    made_up = {"name": "greet", "requestState": state_of(name=accepted(name=5))}
    assert words(await wire.call("tools/call", made_up)).startswith("cannot ask: ")
    wrong = {"name": "greet", "requestState": state_of(name=7)}
    assert (await wire.error("tools/call", wrong))["code"] == -32602
    answered = {
        "name": "greet",
        "requestState": state_of(name=accepted(name="Eve")),
        "inputResponses": {"name": accepted(name="Ada")},
    }
    assert words(await wire.call("tools/call", answered)) == "Ada"


async def test_no_question_follows_answers_too_long_for_the_state() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada"), "more": "x" * MAX_STATE_CHARACTERS}
    reply = await wire.call("tools/call", {"name": "paint", "inputResponses": answers})
    assert words(reply) == "cannot ask: the answers so far are too long"


async def test_response_messages_are_ignored_where_questions_are_results() -> None:
    wire = await wired("2026-07-28")
    await wire.result("tools/call", {"name": "greet"})
    wire.answer({"id": "ask-1"}, accepted(name="Eve"))
    await asyncio.sleep(0)
    assert len(wire.replies) == 1
