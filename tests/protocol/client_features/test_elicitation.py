"""A tool asks the person behind the client: by a request of its own, or by its result."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types.methods import parse_server_request, validate_server_result

from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.protocol.client_features.elicitation import MAX_STATE_CHARACTERS
from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.person import COLOUR, NAME, Person
from tests.protocol.wire import PATIENCE_S, Wire, server_of
from tests.providers_for_tests import SlowTree

pytestmark = pytest.mark.anyio

FORMS: Mapping[str, Any] = {"elicitation": {}}
WAITING = ("2025-06-18", "2025-11-25")
CANNOT = "cannot ask: this client cannot be asked for what is missing"
SMALL_S = 0.01


async def wired(
    revision: str = "2025-11-25",
    can: Mapping[str, Any] | None = FORMS,
    *,
    timing: Timing = DEFAULT_TIMING,
) -> Wire:
    return Wire(await server_of(Person(), timing=timing), revision, can=can)


def words(reply: Mapping[str, Any]) -> str:
    """Return what a tool says."""
    (block,) = reply["result"]["content"]
    return block["text"]


def accepted(**content: object) -> dict[str, Any]:
    return {"action": "accept", "content": content}


# -- by a request the other way round


@pytest.mark.parametrize("revision", WAITING)
async def test_a_tool_asks_and_goes_on_with_the_answer(revision: str) -> None:
    wire = await wired(revision)
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    assert question["params"] == {"message": "What is your name?", "requestedSchema": NAME}
    parse_server_request(question["method"], revision, question["params"])
    wire.answer(question, accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"
    assert wire.questions == [question]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_does_not_answer_is_not_asked_again(action: str) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), {"action": action})
    assert words(await wire.reply_to(call)) == action


async def test_questions_of_many_calls_have_ids_of_their_own() -> None:
    wire = await wired()
    calls = [wire.start("tools/call", {"name": "greet"}) for _ in range(3)]
    await wire.asked(3)
    assert len({question["id"] for question in wire.questions}) == 3
    people = {"Ada", "Bob", "Eve"}
    for person, question in zip(people, reversed(wire.questions), strict=True):
        wire.answer(question, accepted(name=person))
    assert {words(await wire.reply_to(call)) for call in calls} == people


@pytest.mark.parametrize(
    ("revision", "can"),
    [
        ("2024-11-05", FORMS),
        ("2025-03-26", FORMS),
        ("2025-06-18", {}),
        ("2025-11-25", {"elicitation": {"url": {}}}),
        ("2025-11-25", {"roots": {}}),
        ("2026-07-28", {"sampling": {}}),
        ("2026-07-28", {"elicitation": {"url": {}}}),
    ],
)
async def test_who_cannot_be_asked_is_not(revision: str, can: Mapping[str, Any]) -> None:
    wire = await wired(revision, can)
    assert words(await wire.call("tools/call", {"name": "greet"})) == CANNOT
    assert wire.questions == []


@pytest.mark.parametrize(
    "can", [{"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}}]
)
async def test_who_says_that_forms_are_shown_is_asked(can: Mapping[str, Any]) -> None:
    wire = await wired(can=can)
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"


async def test_nobody_is_asked_by_a_stream_that_is_not_heard() -> None:
    wire = await wired()
    replies: list[bytes] = []
    message = json.dumps(wire.request("tools/call", {"name": "greet"}, 7)).encode()
    pending = wire.connection.receive(message, replies.append, replies.append, can_ask=False)
    assert pending is not None
    await asyncio.wait_for(pending, PATIENCE_S)
    assert words(json.loads(replies[0])) == CANNOT


async def test_who_takes_too_long_is_told_that_the_question_is_withdrawn() -> None:
    wire = await wired(timing=Timing(elicitation_timeout_s=SMALL_S))
    reply = await wire.call("tools/call", {"name": "greet"})
    assert words(reply) == "cannot ask: nobody has answered in time"
    (question,), (withdrawn,) = wire.questions, wire.notifications
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    wire.answer(question, accepted(name="too late"))
    assert await wire.result("ping") == {}
    assert len(wire.replies) == 2


async def test_people_take_no_time_of_a_tool_and_the_tool_has_no_more_than_its_own() -> None:
    wire = await wired(timing=Timing(tool_timeout_s=0.2))
    call = wire.start("tools/call", {"name": "muse"})
    await wire.asked(2)
    first, second = wire.questions
    wire.answer(first, accepted(name="Ada"))
    await asyncio.sleep(0.3)
    assert wire.replies == []
    wire.answer(second, accepted(colour="red"))
    assert "took longer" in words(await wire.reply_to(call))


async def test_a_call_that_is_cancelled_withdraws_its_question() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    told = {"method": "notifications/cancelled", "params": {"requestId": call}}
    wire.send({"jsonrpc": "2.0", **told})
    (withdrawn,) = await wire.notified(1)
    assert withdrawn["params"]["requestId"] == question["id"]
    wire.answer(question, accepted(name="too late"))
    await wire.finished()
    assert wire.replies == []


async def test_more_questions_than_anybody_answers_are_not_asked() -> None:
    wire = await wired()
    for _ in range(MAX_OPEN + 1):
        wire.start("tools/call", {"name": "greet"})
    assert "to answer already" in words(await wire.next_reply())
    assert len(wire.questions) == MAX_OPEN
    wire.answer(wire.questions[0], accepted(name="Ada"))
    await wire.until(lambda: len(wire.replies) == 2)
    again = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(MAX_OPEN + 1), accepted(name="Ada"))
    assert words(await wire.reply_to(again)) == "Ada"


async def test_calls_that_wait_for_a_person_leave_room_for_others() -> None:
    wire = Wire(await server_of(Person(), SlowTree({"a.txt": "a"})), "2025-11-25", can=FORMS)
    for _ in range(MAX_RUNNING):
        wire.start("tools/call", {"name": "greet"})
    await wire.asked(MAX_OPEN)
    assert await wire.result("resources/read", {"uri": "test://two/a.txt"})


async def test_the_end_of_the_connection_is_the_end_of_its_questions() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    await wire.finished()
    assert words(await wire.reply_to(call)) == "cannot ask: the connection ends"
    again = wire.start("tools/call", {"name": "greet"})
    assert words(await wire.reply_to(again)) == "cannot ask: the connection ends"
    assert wire.questions == [question]


async def test_a_connection_that_is_closed_answers_nothing_and_leaves_no_question() -> None:
    wire = await wired()
    wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    await wire.connection.close()
    wire.answer(question, accepted(name="too late"))
    assert wire.replies == []


@pytest.mark.parametrize("revision", [*WAITING, "2026-07-28"])
async def test_a_tool_that_cannot_do_without_says_so(revision: str) -> None:
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
async def test_an_answer_to_something_else_fails_calmly(result: object) -> None:
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
async def test_a_form_that_is_filled_in_wrongly_fails_calmly(
    content: Mapping[str, Any], problem: str
) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), accepted(**content))
    assert words(await wire.reply_to(call)) == f"cannot ask: {problem}"


async def test_an_answer_nested_without_end_fails_calmly() -> None:
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


async def test_a_client_that_answers_with_an_error_has_refused() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    error = {"code": -32601, "message": "secret of the client"}
    wire.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
    assert words(await wire.reply_to(call)) == "cannot ask: the client has refused the question"


@pytest.mark.parametrize("name", ["ask-2", "nobody", 1, 0, -1, None, ""])
async def test_answers_that_nobody_waits_for_are_ignored(name: object) -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    wire.answer({"id": name}, accepted(name="Eve"))
    wire.send({"jsonrpc": "2.0", "result": accepted(name="Eve")})
    wire.answer(question, accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"
    assert len(wire.replies) == 1


async def test_only_the_first_of_two_answers_counts() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "paint"})
    first = await wire.asked()
    wire.answer(first, accepted(name="Ada"))
    wire.answer(first, accepted(name="Eve"))
    second = await wire.asked(2)
    wire.answer(first, accepted(colour="red"))
    wire.answer(second, accepted(colour="blue"))
    assert words(await wire.reply_to(call)) == "Ada in blue"


async def test_another_client_cannot_answer() -> None:
    server = await server_of(Person())
    mine, other = (Wire(server, "2025-11-25", can=FORMS) for _ in range(2))
    call = mine.start("tools/call", {"name": "greet"})
    theirs = other.start("tools/call", {"name": "greet"})
    question = await mine.asked()
    assert (await other.asked())["id"] == question["id"]
    other.answer(question, accepted(name="Eve"))
    assert words(await other.reply_to(theirs)) == "Eve"
    mine.answer(question, accepted(name="Ada"))
    assert words(await mine.reply_to(call)) == "Ada"


# -- by a result


def modern(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result that the SDK knows for a question."""
    assert result["resultType"] == "input_required"
    validate_server_result("tools/call", "2026-07-28", dict(result))
    return result


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


async def test_what_was_answered_before_comes_back_as_state() -> None:
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


async def test_a_question_in_a_task_group_is_one_as_well() -> None:
    wire = await wired("2026-07-28")
    asked = modern(await wire.result("tools/call", {"name": "meet"}))
    assert list(asked["inputRequests"]) == ["name"]
    answers = {"name": accepted(name="Ada")}
    again = {"name": "meet", "inputResponses": answers}
    assert words(await wire.call("tools/call", again)) == "Ada"


@pytest.mark.parametrize("answers", [None, {}, {"other": accepted(name="Eve")}, {"other": 5}])
async def test_an_answer_that_is_missing_is_asked_for_again(answers: object) -> None:
    wire = await wired("2026-07-28")
    asked = await wire.result("tools/call", {"name": "greet", "inputResponses": answers})
    assert list(modern(asked)["inputRequests"]) == ["name"]


async def test_answers_that_nobody_asked_for_are_ignored() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada"), "other": accepted(x=1), "more": 12345}
    reply = await wire.call("tools/call", {"name": "greet", "inputResponses": answers})
    assert words(reply) == "Ada"


@pytest.mark.parametrize("answer", [12345, None, [], {}, {"action": "perhaps"}])
async def test_what_is_no_answer_is_invalid(answer: object) -> None:
    wire = await wired("2026-07-28")
    asked = {"name": "greet", "inputResponses": {"name": answer}}
    error = await wire.error("tools/call", asked)
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: inputResponses: name: ")


async def test_an_answer_that_does_not_fit_the_question_fails_calmly() -> None:
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
async def test_a_state_that_is_none_of_ours_is_invalid(state: str) -> None:
    wire = await wired("2026-07-28")
    error = await wire.error("tools/call", {"name": "greet", "requestState": state})
    assert error["code"] == -32602
    assert error["message"] == "Invalid params: requestState is not one of this server's"


async def test_a_state_that_was_made_up_counts_no_more_than_an_answer() -> None:
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


async def test_answers_that_are_too_long_to_come_back_are_not_asked_on() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada"), "more": "x" * MAX_STATE_CHARACTERS}
    reply = await wire.call("tools/call", {"name": "paint", "inputResponses": answers})
    assert words(reply) == "cannot ask: the answers so far are too long"


async def test_other_methods_take_no_answers() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada")}
    error = await wire.error("resources/read", {"uri": "test://one", "inputResponses": answers})
    assert error["code"] == -32602


async def test_answers_by_messages_are_ignored_where_questions_are_results() -> None:
    wire = await wired("2026-07-28")
    await wire.result("tools/call", {"name": "greet"})
    wire.answer({"id": "ask-1"}, accepted(name="Eve"))
    await asyncio.sleep(0)
    assert len(wire.replies) == 1
