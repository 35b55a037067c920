"""A tool asks the client and its person: by requests of its own, or by its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp_types.methods import parse_server_request

from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.protocol.client_features.client_inputs import MAX_PARAMS_BYTES
from resource_server.protocol.client_features.request_state import MAX_STATE_CHARACTERS
from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.provider.tools import MediaBlock, SamplingMessage, ToolRequest, ToolResult
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.person import COLOUR, NAME, Person
from tests.protocol.client_features.asking import (
    CANNOT,
    EVERYTHING,
    FORMS,
    accepted,
    answer_to,
    modern,
    wired,
    words,
)
from tests.protocol.tools import tooled
from tests.protocol.wire import HANDSHAKE, PATIENCE_S, Wire, server_of
from tests.providers_for_tests import SlowTree
from tests.waiting import quiet_for

pytestmark = pytest.mark.anyio

WAITING = ("2025-06-18", "2025-11-25")


# -- by a request the other way round


@for_each("revision", WAITING)
async def test_a_tool_asks_and_continues_with_the_answer(revision: str) -> None:
    wire = await wired(revision)
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    assert question["params"] == {"message": "What is your name?", "requestedSchema": NAME}
    parse_server_request(question["method"], revision, question["params"])
    wire.answer(question, accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"
    assert wire.questions == [question]


@for_each("action", ["decline", "cancel"])
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
    await quiet_for(0.3)
    assert wire.replies == []
    wire.answer(second, accepted(colour="red"))
    assert "took longer" in words(await wire.reply_to(call))


async def test_calls_waiting_for_a_person_do_not_block_others() -> None:
    wire = Wire(await server_of(Person(), SlowTree({"a.txt": "a"})), "2025-11-25", can=FORMS)
    for _ in range(MAX_RUNNING):
        wire.start("tools/call", {"name": "greet"})
    await wire.asked(MAX_OPEN)
    assert await wire.result("resources/read", {"uri": "test://two/a.txt"})


@for_each("revision", [*WAITING, "2026-07-28"])
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


@for_each(
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


@for_each(
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


@for_each("answers", [None, {}, {"other": accepted(name="Eve")}, {"other": 5}])
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


async def test_response_messages_are_ignored_where_questions_are_results() -> None:
    wire = await wired("2026-07-28")
    await wire.result("tools/call", {"name": "greet"})
    wire.answer({"id": "ask-1"}, accepted(name="Eve"))
    await asyncio.sleep(0)
    assert len(wire.replies) == 1


async def test_no_question_follows_answers_too_long_for_the_state() -> None:
    async def ask(_: object, asked: ToolRequest) -> ToolResult:
        for number in range(5):
            await asked.elicit(f"name-{number}", "Who?", NAME)
        return tooled.said("done")

    wire = await tooled.wired(ask, "2026-07-28", can=FORMS)
    long = "x" * (MAX_STATE_CHARACTERS // 5)
    answers = {f"name-{number}": accepted(name=long) for number in range(5)}
    asked: dict[str, Any] = {"name": "x", "inputResponses": answers}
    assert words(await wire.call("tools/call", asked)) == "done"
    del answers["name-4"]
    reply = await wire.call("tools/call", asked)
    assert words(reply) == "the answers so far are too long"


async def test_answers_that_were_not_asked_for_are_not_kept_in_the_state() -> None:
    wire = await wired("2026-07-28")
    answers = {"name": accepted(name="Ada"), "more": "x" * MAX_STATE_CHARACTERS}
    asked = await wire.result("tools/call", {"name": "paint", "inputResponses": answers})
    assert len(modern(asked)["requestState"]) < 1000


# -- the model and the roots

MODEL: Mapping[str, Any] = {"sampling": {}}
NOTHING: Mapping[str, Any] = {}


def sampled(text: str = "Paris", model: str = "m") -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"role": "assistant", "content": content, "model": model, "stopReason": "endTurn"}


@for_each("revision", HANDSHAKE)
async def test_a_tool_asks_the_model_of_the_client(revision: str) -> None:
    wire = await wired(revision, EVERYTHING)
    call = wire.start("tools/call", {"name": "think"})
    question = await wire.asked()
    assert question["params"] == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "What is new?"}}],
        "maxTokens": 50,
        "systemPrompt": "Be brief.",
    }
    parse_server_request(question["method"], revision, question["params"])
    wire.answer(question, sampled())
    assert words(await wire.reply_to(call)) == "m: Paris"


@for_each("revision", HANDSHAKE)
async def test_a_tool_lists_the_roots_of_the_client(revision: str) -> None:
    wire = await wired(revision, EVERYTHING)
    call = wire.start("tools/call", {"name": "where"})
    question = await wire.asked()
    parse_server_request(question["method"], revision, question["params"])
    wire.answer(question, {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]})
    assert words(await wire.reply_to(call)) == "file:///a file:///b"


@for_each("revision", [*HANDSHAKE, "2026-07-28"])
@for_each(
    ("name", "lacking", "told"),
    [
        ("greet", "elicitation", CANNOT),
        ("think", "sampling", "cannot ask: this client offers no model"),
        ("where", "roots", "cannot ask: this client tells no roots"),
    ],
)
async def test_a_client_is_asked_nothing_that_it_has_not_declared(
    revision: str, name: str, lacking: str, told: str
) -> None:
    can = {each: value for each, value in EVERYTHING.items() if each != lacking}
    wire = await wired(revision, can)
    answers: dict[str, Any] = {"name": accepted(name="Eve"), "thought": sampled()}
    answers["client_roots"] = {"roots": []}
    params = {"name": name, "inputResponses": answers}
    assert words(await wire.call("tools/call", params)) == told
    assert wire.questions == []


async def test_a_call_that_needs_a_model_names_the_missing_capability() -> None:
    wire = await wired("2026-07-28", FORMS)
    error = await wire.error("tools/call", {"name": "insist_on_model"})
    assert (error["code"], error["message"]) == (-32021, "this client offers no model")
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_a_tool_knows_what_it_can_ask() -> None:
    seen: list[Sequence[bool]] = []

    def look(_: object, asked: ToolRequest) -> ToolResult:
        seen.append([asked.can_elicit, asked.can_sample, asked.can_list_roots])
        return tooled.said("seen")

    for revision in ("2025-03-26", "2025-11-25", "2026-07-28"):
        for can in (EVERYTHING, MODEL, NOTHING):
            wire = await tooled.wired(look, revision, can=can)
            await wire.result("tools/call", {"name": "x"})
    later = [[True, True, True], [False, True, False], [False, False, False]]
    assert seen == [[False, True, True], *later[1:], *later, *later]


WRONG: Any = [
    ("think", None),
    ("think", []),
    ("think", "yes"),
    ("think", {}),
    ("think", {"content": {}}),
    ("think", {**sampled(), "model": 5}),
    ("think", {**sampled(), "content": "Paris"}),
    ("think", {**sampled(), "content": {"type": "text"}}),
    ("think", {**sampled(), "content": {"type": "text", "text": 5}}),
    ("think", {**sampled(), "content": {"type": "image", "data": "?", "mimeType": "image/x"}}),
    ("think", {**sampled(), "content": {"type": "image", "data": "AA==", "mimeType": "a/b"}}),
    ("where", None),
    ("where", []),
    ("where", {}),
    ("where", {"roots": None}),
    ("where", {"roots": [{}]}),
    ("where", {"roots": [{"uri": 5}]}),
]


@for_each(("name", "result"), WRONG)
async def test_a_wrong_answer_of_a_model_or_client_fails_cleanly(name: str, result: object) -> None:
    wire = await wired(can=EVERYTHING)
    call = wire.start("tools/call", {"name": name})
    wire.answer(await wire.asked(), result)
    told = words(await wire.reply_to(call))
    assert told == "cannot ask: the client's answer does not fit the question"
    key = "thought" if name == "think" else "client_roots"
    later = await wired("2026-07-28", EVERYTHING)
    error = await later.error("tools/call", {"name": name, "inputResponses": {key: result}})
    assert error["code"] == -32602
    assert error["message"].startswith(f"Invalid params: inputResponses: {key}: ")


@for_each(
    ("name", "result", "limit"),
    [
        ("think", sampled("x" * 1024 * 1024), 1024 * 1024),
        ("where", {"roots": [{"uri": f"file:///{n}" * 10} for n in range(3000)]}, 256 * 1024),
    ],
)
async def test_an_answer_that_is_too_long_fails_cleanly(
    name: str, result: object, limit: int
) -> None:
    wire = await wired(can=EVERYTHING)
    call = wire.start("tools/call", {"name": name})
    wire.answer(await wire.asked(), result)
    told = f"cannot ask: the answer is longer than {limit} bytes"
    assert words(await wire.reply_to(call)) == told
    key = "thought" if name == "think" else "client_roots"
    later = await wired("2026-07-28", EVERYTHING)
    again = {"name": name, "inputResponses": {key: result}}
    assert words(await later.call("tools/call", again)) == told


async def test_a_model_that_never_answers_is_waited_for_a_limited_time() -> None:
    wire = await wired(can=EVERYTHING, timing=Timing(elicitation_timeout_s=0.01))
    call = wire.start("tools/call", {"name": "think"})
    assert words(await wire.reply_to(call)) == "cannot ask: nobody has answered in time"
    (question,), (withdrawn,) = wire.questions, wire.notifications
    assert withdrawn["params"]["requestId"] == question["id"]
    wire.answer(question, sampled())
    assert await wire.result("ping") == {}


async def test_a_client_that_declares_sampling_and_has_none_counts_as_refusing() -> None:
    wire = await wired(can=EVERYTHING)
    call = wire.start("tools/call", {"name": "think"})
    question = await wire.asked()
    error = {"code": -32601, "message": "Method not found"}
    wire.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
    assert words(await wire.reply_to(call)) == "cannot ask: the client has refused the question"


async def test_a_question_that_is_too_long_is_not_sent() -> None:
    async def ask(_: object, asked: ToolRequest) -> ToolResult:
        await asked.sample("x", "x" * MAX_PARAMS_BYTES, max_tokens=1)
        return tooled.said("done")

    for revision in ("2025-11-25", "2026-07-28"):
        wire = await tooled.wired(ask, revision, can=EVERYTHING)
        told = tooled.refusal(await tooled.called(wire, "x", revision))
        assert told == f"the question is longer than {MAX_PARAMS_BYTES} bytes"
        assert wire.questions == []


async def test_a_picture_is_sent_to_the_model_and_a_sound_where_the_revision_has_it() -> None:
    async def ask(_: object, asked: ToolRequest) -> ToolResult:
        messages = [
            SamplingMessage(MediaBlock(b"\x89PNG", "image/png")),
            SamplingMessage(MediaBlock(b"RIFF", "audio/wav"), role="assistant"),
        ]
        await asked.sample("x", messages, max_tokens=1)
        return tooled.said("done")

    wire = await tooled.wired(ask, "2025-11-25", can=EVERYTHING)
    call = wire.start("tools/call", {"name": "x"})
    question = await wire.asked()
    parse_server_request(question["method"], "2025-11-25", question["params"])
    kinds = [(each["role"], each["content"]["type"]) for each in question["params"]["messages"]]
    assert kinds == [("user", "image"), ("assistant", "audio")]
    wire.answer(question, sampled())
    assert words(await wire.reply_to(call)) == "done"
    oldest = await tooled.wired(ask, "2024-11-05", can=EVERYTHING)
    told = tooled.refusal(await tooled.called(oldest, "x", "2024-11-05"))
    assert told == "this client's model takes no audio/wav"


# -- several at once


async def test_several_inputs_are_asked_for_in_one_round() -> None:
    wire = await wired("2026-07-28", EVERYTHING)
    first = modern(await wire.result("tools/call", {"name": "survey"}))
    methods = {key: each["method"] for key, each in first["inputRequests"].items()}
    assert methods == {
        "name": "elicitation/create",
        "thought": "sampling/createMessage",
        "client_roots": "roots/list",
    }
    answers = {key: answer_to(each) for key, each in first["inputRequests"].items()}
    second = {"inputResponses": answers, "requestState": first["requestState"]}
    then = modern(await wire.result("tools/call", {"name": "survey", **second}))
    assert list(then["inputRequests"]) == ["colour"]
    third = {
        "inputResponses": {"colour": accepted(colour="red")},
        "requestState": then["requestState"],
    }
    reply = await wire.call("tools/call", {"name": "survey", **third})
    assert words(reply) == "Ada m: Paris file:///a in red"


async def test_a_round_is_completed_by_what_it_lacks() -> None:
    wire = await wired("2026-07-28", EVERYTHING)
    given: dict[str, Any] = {"thought": sampled(), "client_roots": {"roots": []}}
    asked = modern(await wire.result("tools/call", {"name": "survey", "inputResponses": given}))
    assert list(asked["inputRequests"]) == ["name"]
    more = {
        "inputResponses": {"name": accepted(name="Ada"), "colour": accepted(colour="red")},
        "requestState": asked["requestState"],
    }
    reply = await wire.call("tools/call", {"name": "survey", **more})
    assert words(reply) == "Ada m: Paris  in red"


@for_each("revision", WAITING)
async def test_several_inputs_are_asked_for_at_the_same_time(revision: str) -> None:
    wire = await wired(revision, EVERYTHING)
    call = wire.start("tools/call", {"name": "survey"})
    await wire.asked(3)
    for question in wire.questions[::-1]:
        wire.answer(question, answer_to(question))
    wire.answer(await wire.asked(4), accepted(colour="red"))
    assert words(await wire.reply_to(call)) == "Ada m: Paris file:///a in red"


async def test_a_tool_that_takes_failures_for_answers_still_asks() -> None:
    wire = await wired("2026-07-28", EVERYTHING)
    first = modern(await wire.result("tools/call", {"name": "collect"}))
    assert len(first["inputRequests"]) == 3
    answers = {key: answer_to(each) for key, each in first["inputRequests"].items()}
    reply = await wire.call("tools/call", {"name": "collect", "inputResponses": answers})
    assert words(reply) == "Ada m: Paris file:///a"


async def test_a_tool_that_does_without_the_model_asks_for_the_rest() -> None:
    wire = await wired("2026-07-28", {"elicitation": {}, "roots": {}})
    first = modern(await wire.result("tools/call", {"name": "collect"}))
    assert list(first["inputRequests"]) == ["name", "client_roots"]


@for_each("revision", [*WAITING, "2026-07-28"])
async def test_a_thousand_inputs_at_once_are_refused(revision: str) -> None:
    wire = await wired(revision, EVERYTHING)
    reply = await wire.call("tools/call", {"name": "crowd"})
    assert words(reply) == f"cannot ask: this client has {MAX_OPEN} questions to answer already"
    assert len(wire.questions) <= MAX_OPEN
    await wire.finished()


@for_each("revision", ["2025-11-25", "2026-07-28"])
async def test_a_task_group_that_lacks_an_answer_says_which(revision: str) -> None:
    async def ask(_: object, asked: ToolRequest) -> ToolResult:
        async with asyncio.TaskGroup() as group:
            group.create_task(asked.elicit("name", "Who?", NAME))
            group.create_task(asked.sample("x", "x", max_tokens=1))
        return tooled.said("done")

    wire = await tooled.wired(ask, revision, can=FORMS)
    reply = await wire.call("tools/call", {"name": "x"})
    if wire.modern:
        assert reply["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    else:
        assert words(reply) == "this client offers no model"


async def test_two_inputs_with_one_key_are_refused() -> None:
    wire = await wired("2026-07-28", EVERYTHING)
    reply = await wire.call("tools/call", {"name": "clash"})
    assert words(reply) == "cannot ask: a tool asks two questions by the key 'same'"
