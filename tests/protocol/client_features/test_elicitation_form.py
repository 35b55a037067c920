"""Elicitation forms: their schema in each revision, and what becomes of an answer."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from mcp_types import _v2025_11_25 as v2025
from mcp_types import _v2026_07_28 as v2026
from pydantic import TypeAdapter

from resource_server.errors import CannotElicit
from resource_server.protocol.client_features.elicitation_form import Elicitation
from resource_server.protocol.revisions import HANDSHAKE, MODERN
from resource_server.provider.tools import ElicitationAnswer
from tests.cases import for_each

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


def form(**fields: object) -> Elicitation:
    return Elicitation("?", {"type": "object", "properties": fields, "additionalProperties": False})


def sent(field: object, revision: Any = LATER[0]) -> Any:
    return form(x=field).params(revision)["requestedSchema"]["properties"]["x"]


def answered(field: object, value: object, *, required: bool = True) -> object:
    """Return what became of an answer to a form of one field."""
    schema = {"properties": {"x": field}, "required": ["x"] if required else []}
    data = json.dumps({"action": "accept", "content": {"x": value}}).encode()
    return Elicitation("?", schema).answer(msgspec.Raw(data)).content["x"]


@for_each("revision", LATER)
def test_fields_known_since_2025_11_25_are_sent_unchanged(revision: Any) -> None:
    fields = FIELDS | SEVERAL
    assert form(**fields).params(revision)["requestedSchema"] == {
        "type": "object",
        "properties": fields,
    }


@for_each("field", SEVERAL.values())
def test_older_revisions_have_no_multiple_choice(field: object) -> None:
    with pytest.raises(CannotElicit, match="cannot ask for 'x'"):
        sent(field, PLAIN)


def test_older_revisions_have_enum_names_and_defaults_only_for_booleans() -> None:
    properties = form(**FIELDS).params(PLAIN)["requestedSchema"]["properties"]
    assert properties["colour"] == {
        "type": "string",
        "enum": ["r", "b"],
        "enumNames": ["Red", "Blue"],
    }
    assert [name for name, field in properties.items() if "default" in field] == ["sure"]


@for_each("revision", [PLAIN, *LATER])
def test_the_sdk_knows_every_field(revision: Any) -> None:
    models = v2026 if revision.modern else v2025
    primitive: TypeAdapter[Any] = TypeAdapter(models.PrimitiveSchemaDefinition)
    fields = FIELDS if revision is PLAIN else FIELDS | SEVERAL
    schema = form(**fields).params(revision)["requestedSchema"]
    models.RequestedSchema.model_validate(schema)
    for field in schema["properties"].values():
        known = primitive.validate_python(field)
        assert known.model_dump(by_alias=True, exclude_none=True) == field


@for_each(
    ("asked", "expected"),
    [
        ({"type": ["integer", "null"]}, {"type": "integer"}),
        (
            {"type": ["integer", "string"], "minimum": 1, "default": 5},
            {"type": "string", "default": "5"},
        ),
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


@for_each(
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
        {"type": "array", "items": True},
        {"type": ["array", "null"], "enum": ["a"]},
        {"type": "array", "items": {"anyOf": [True]}},
        {"oneOf": [True, {"const": "a"}]},
        True,
        False,
        {"type": "array", "items": {"enum": [1]}},
        {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
    ],
)
def test_fields_that_forms_cannot_show_are_refused(asked: object) -> None:
    with pytest.raises(CannotElicit, match="cannot ask for 'x'"):
        form(x=asked)


@for_each(
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


@for_each(
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
    assert Elicitation("?", schema).answer(msgspec.Raw(data)) == ElicitationAnswer(
        "accept", {"a": "x"}
    )


@for_each("action", ["decline", "cancel"])
def test_the_content_of_a_refusal_is_dropped(action: str) -> None:
    data = json.dumps({"action": action, "content": {"x": "y"}}).encode()
    assert form(x={"type": "string"}).answer(msgspec.Raw(data)).content == {}
