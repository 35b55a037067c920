"""A tool asks the person behind the client: by a request of its own, or by its result."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from mcp_types import _v2025_11_25 as v2025
from mcp_types import _v2026_07_28 as v2026
from mcp_types.methods import parse_server_request
from pydantic import TypeAdapter

from resource_server.errors import CannotElicit
from resource_server.protocol.client_connection import MAX_RUNNING
from resource_server.protocol.client_features.elicitation_form import ElicitationForm
from resource_server.protocol.client_features.request_state import MAX_STATE_CHARACTERS
from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.protocol.revisions import HANDSHAKE, MODERN
from resource_server.provider.tools import ElicitationAnswer
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


# -- forms

LATER = (HANDSHAKE["2025-11-25"], MODERN["2026-07-28"])
PLAIN = HANDSHAKE["2025-06-18"]
TITLED = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]
FIELDS: dict[str, Any] = {
    "text": {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 9},
    "date": {"type": "string", "format": "date", "default": "2026-01-01"},
    "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
    "share": {"type": "number", "minimum": 0.5},
    "sure": {"type": "boolean", "default": True},
    "size": {"type": "string", "enum": ["s", "m"], "default": "s"},
    "colour": {"type": "string", "oneOf": TITLED},
    "old": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
}
SEVERAL: dict[str, Any] = {
    "sizes": {
        "type": "array",
        "items": {"type": "string", "enum": ["s", "m"]},
        "minItems": 1,
        "maxItems": 2,
        "default": ["s"],
    },
    "colours": {"type": "array", "title": "T", "items": {"anyOf": TITLED}},
}


def form(**fields: object) -> ElicitationForm:
    return ElicitationForm({"type": "object", "properties": fields, "additionalProperties": False})


def sent(field: object, revision: Any = LATER[0]) -> Any:
    return form(x=field).schema(revision)["properties"]["x"]


def answered(field: object, value: object, *, required: bool = True) -> object:
    """Return what became of an answer to a form of one field."""
    schema = {"properties": {"x": field}, "required": ["x"] if required else []}
    data = json.dumps({"action": "accept", "content": {"x": value}}).encode()
    return ElicitationForm(schema).answer(msgspec.Raw(data)).content["x"]


@pytest.mark.parametrize("revision", LATER)
def test_fields_known_since_2025_11_25_are_sent_unchanged(revision: Any) -> None:
    fields = FIELDS | SEVERAL
    assert form(**fields).schema(revision) == {"type": "object", "properties": fields}


@pytest.mark.parametrize("field", SEVERAL.values())
def test_older_revisions_have_no_multiple_choice(field: object) -> None:
    with pytest.raises(CannotElicit, match="cannot ask for 'x'"):
        sent(field, PLAIN)


def test_older_revisions_have_enum_names_and_defaults_only_for_booleans() -> None:
    properties = form(**FIELDS).schema(PLAIN)["properties"]
    assert properties["colour"] == {
        "type": "string",
        "enum": ["r", "b"],
        "enumNames": ["Red", "Blue"],
    }
    assert [name for name, field in properties.items() if "default" in field] == ["sure"]


@pytest.mark.parametrize("revision", [PLAIN, *LATER])
def test_the_sdk_knows_every_field(revision: Any) -> None:
    models = v2026 if revision.modern else v2025
    primitive: TypeAdapter[Any] = TypeAdapter(models.PrimitiveSchemaDefinition)
    fields = FIELDS if revision is PLAIN else FIELDS | SEVERAL
    schema = form(**fields).schema(revision)
    models.RequestedSchema.model_validate(schema)
    for field in schema["properties"].values():
        known = primitive.validate_python(field)
        assert known.model_dump(by_alias=True, exclude_none=True) == field


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"type": ["integer", "null"]}, {"type": "integer"}),
        ({"type": "string", "pattern": "a+", "examples": ["a"]}, {"type": "string"}),
        ({"type": "string", "format": "uuid"}, {"type": "string"}),
        ({"type": "number", "exclusiveMinimum": 1}, {"type": "number"}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({}, {"type": "string"}),
        (
            {"oneOf": [{"const": "a"}]},
            {"type": "string", "oneOf": [{"const": "a", "title": "a"}]},
        ),
        (
            {"type": "array", "items": {"enum": ["a"], "minLength": 1}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ),
    ],
)
def test_schema_keywords_unknown_to_forms_are_left_out(asked: object, expected: object) -> None:
    assert sent(asked) == expected


@pytest.mark.parametrize(
    "asked",
    [
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
        {"type": ["string", "integer"]},
        {"type": "null"},
        {"type": 5},
        {"type": "string", "enum": [1, 2]},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "array"},
        {"type": "array", "items": {"enum": [1]}},
        {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
    ],
)
def test_fields_that_forms_cannot_show_are_refused(asked: object) -> None:
    with pytest.raises(CannotElicit, match="cannot ask for 'x'"):
        form(x=asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "ää"),
        ({"type": "string", "format": "email"}, "a@b"),
        ({"type": "string", "format": "uri"}, "https://x/"),
        ({"type": "string", "format": "date"}, "2024-02-29"),
        ({"type": "string", "format": "date-time"}, "2024-02-29T01:02:03Z"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, 3),
        ({"type": "number", "minimum": 1}, 1),
        ({"type": "number"}, 1.5),
        ({"type": "boolean"}, False),
        ({"enum": ["a"]}, "a"),
        ({"oneOf": TITLED}, "b"),
        (SEVERAL["sizes"], ["m", "s"]),
        (SEVERAL["colours"], []),
        (SEVERAL["colours"], ["b"]),
    ],
)
def test_valid_answers_are_accepted(field: object, value: object) -> None:
    assert answered(field, value) == value


def test_an_integer_may_have_a_decimal_point() -> None:
    found = answered({"type": "integer"}, 3.0)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "string"}, 1),
        ({"type": "string"}, ["a"]),
        ({"type": "string", "minLength": 1}, ""),
        ({"type": "string", "maxLength": 1}, "ab"),
        ({"type": "string", "format": "email"}, "a"),
        ({"type": "string", "format": "uri"}, "no uri"),
        ({"type": "string", "format": "date"}, "2023-02-29"),
        ({"type": "string", "format": "date"}, "20230228"),
        ({"type": "string", "format": "date-time"}, "2024-02-29T01:02:03"),
        ({"type": "string", "format": "date-time"}, "yesterday"),
        ({"type": "integer"}, 1.5),
        ({"type": "integer"}, True),
        ({"type": "integer"}, "1"),
        ({"type": "integer", "maximum": 3}, 4),
        ({"type": "number"}, False),
        ({"type": "number", "minimum": 1}, 0.5),
        ({"type": "boolean"}, 1),
        ({"type": "boolean"}, "true"),
        ({"enum": ["a"]}, "b"),
        ({"oneOf": TITLED}, "Red"),
        (SEVERAL["sizes"], []),
        (SEVERAL["sizes"], ["s", "m", "s"]),
        (SEVERAL["sizes"], ["l"]),
        (SEVERAL["sizes"], "s"),
        (SEVERAL["colours"], ["Red"]),
        (SEVERAL["colours"], [["r"]]),
        (SEVERAL["colours"], [None]),
        ({"type": "string"}, {"deep": "er"}),
    ],
)
def test_invalid_answers_are_refused(field: object, value: object) -> None:
    with pytest.raises(CannotElicit, match="the answer for 'x' is not what was asked for"):
        answered(field, value)


def test_optional_fields_may_be_omitted_and_unrequested_ones_are_dropped() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
    data = b'{"action":"accept","content":{"a":"x","b":null,"c":{"d":[1]}}}'
    assert ElicitationForm(schema).answer(msgspec.Raw(data)) == ElicitationAnswer(
        "accept", {"a": "x"}
    )


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_the_content_of_a_refusal_is_dropped(action: str) -> None:
    data = json.dumps({"action": action, "content": {"x": "y"}}).encode()
    assert form(x={"type": "string"}).answer(msgspec.Raw(data)).content == {}
