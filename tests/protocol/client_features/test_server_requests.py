"""Requests to the client: ids, timeouts, withdrawal, and responses that nobody waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.runtime.timing import Timing
from tests.cases import for_each
from tests.person import Person
from tests.protocol.client_features.asking import CANNOT, FORMS, accepted, wired, words
from tests.protocol.wire import Wire, server_of

pytestmark = pytest.mark.anyio

SMALL_S = 0.01


async def test_questions_of_different_calls_have_different_ids() -> None:
    wire = await wired()
    calls = [wire.start("tools/call", {"name": "greet"}) for _ in range(3)]
    await wire.asked(3)
    assert len({question["id"] for question in wire.questions}) == 3
    people = {"Ada", "Bob", "Eve"}
    for person, question in zip(people, reversed(wire.questions), strict=True):
        wire.answer(question, accepted(name=person))
    assert {words(await wire.reply_to(call)) for call in calls} == people


@for_each(
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
async def test_a_client_without_forms_is_not_asked(revision: str, can: Mapping[str, Any]) -> None:
    wire = await wired(revision, can)
    assert words(await wire.call("tools/call", {"name": "greet"})) == CANNOT
    assert wire.questions == []


@for_each("can", [{"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}}])
async def test_a_client_that_supports_forms_is_asked(can: Mapping[str, Any]) -> None:
    wire = await wired(can=can)
    call = wire.start("tools/call", {"name": "greet"})
    wire.answer(await wire.asked(), accepted(name="Ada"))
    assert words(await wire.reply_to(call)) == "Ada"


async def test_a_question_that_times_out_is_cancelled() -> None:
    wire = await wired(timing=Timing(elicitation_timeout_s=SMALL_S))
    reply = await wire.call("tools/call", {"name": "greet"})
    assert words(reply) == "cannot ask: nobody has answered in time"
    (question,), (withdrawn,) = wire.questions, wire.notifications
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    wire.answer(question, accepted(name="too late"))
    assert await wire.result("ping") == {}
    assert len(wire.replies) == 2


async def test_a_cancelled_call_withdraws_its_question() -> None:
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


async def test_open_questions_are_limited() -> None:
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


async def test_closing_the_connection_ends_its_questions() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    await wire.finished()
    assert words(await wire.reply_to(call)) == "cannot ask: the connection ends"
    again = wire.start("tools/call", {"name": "greet"})
    assert words(await wire.reply_to(again)) == "cannot ask: the connection ends"
    assert wire.questions == [question]


async def test_a_closed_connection_sends_nothing_and_leaves_no_question() -> None:
    wire = await wired()
    wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    await wire.connection.close()
    wire.answer(question, accepted(name="too late"))
    assert wire.replies == []


async def test_an_error_response_counts_as_a_refusal() -> None:
    wire = await wired()
    call = wire.start("tools/call", {"name": "greet"})
    question = await wire.asked()
    error = {"code": -32601, "message": "secret of the client"}
    wire.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
    assert words(await wire.reply_to(call)) == "cannot ask: the client has refused the question"


@for_each("name", ["ask-2", "nobody", 1, 0, -1, None, ""])
async def test_unexpected_responses_are_ignored(name: object) -> None:
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


async def test_another_client_cannot_answer_a_question() -> None:
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
