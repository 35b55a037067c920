"""Arguments of tools checked against JSON Schema, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from resource_server.provider.tools import TextBlock
from tests.cases import for_each
from tests.protocol.tools.tooled import (
    COUNTRY,
    called,
    raising,
    refusal,
    returning,
    shaped,
    tool,
    wired,
    words,
)
from tests.protocol.wire import EVERY
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


async def test_a_schema_may_refer_to_its_own_definitions() -> None:
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}}},
    }
    Draft202012Validator.check_schema(schema)
    wire = await wired(returning(TextBlock("fine")), of=shaped(schema))
    assert words(await called(wire, "x", "2025-11-25", tree={"a": {"b": {}}})) == "fine"
    told = refusal(await called(wire, "x", "2025-11-25", tree={"a": {"b": 5}}))
    assert "tree.a.b: 5 is not of type 'object'" in told


def deep(levels: int) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@for_each(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 5000 + "b"),
        ({"$ref": "#/$defs/endless"}, "x"),
        ({"$ref": "#/$defs/twice"}, deep(100)),
        ({"uniqueItems": True}, [{"a": n} for n in range(15_000)]),
        ({"additionalProperties": {"$ref": "#/properties/a"}}, deep(600)),
    ],
)
async def test_checking_arguments_takes_bounded_time(schema: Any, value: object) -> None:
    definitions = {
        "endless": {"anyOf": [{"$ref": "#/$defs/endless"}, {"$ref": "#/$defs/endless"}]},
        "twice": {
            "additionalProperties": {
                "allOf": [{"$ref": "#/$defs/twice"}, {"$ref": "#/$defs/twice"}]
            }
        },
    }
    whole = {"type": "object", "properties": {"a": schema}, "$defs": definitions}
    wire = await wired(returning(TextBlock("fine")), of=shaped(whole))
    async with asyncio.timeout(PATIENCE_S):
        result = await wire.result("tools/call", {"name": "x", "arguments": {"a": value}})
    assert words(result) == "fine" or refusal(result)


@for_each(
    ("items", "unique"),
    [([1, 2], True), ([1, 1.0], False), ([1, True], True), ([{"a": 1}, {"a": 1.0}], False)],
)
async def test_items_are_compared_by_json_equality(items: Sequence[object], unique: bool) -> None:
    several = tool("x", ids={"type": "array", "uniqueItems": True})
    wire = await wired(returning(TextBlock("fine")), of=several)
    result = await wire.result("tools/call", {"name": "x", "arguments": {"ids": items}})
    assert bool(result.get("isError")) == (not unique)


async def test_a_number_of_400_digits_is_refused() -> None:
    wire = await wired(
        raising(AssertionError("it was called")), of=tool("x", x={"multipleOf": 0.1})
    )
    result = await wire.result("tools/call", {"name": "x", "arguments": {"x": 10**400}})
    assert refusal(result) == "Invalid arguments: a number is too large to check"


@for_each(
    ("arguments", "problem"),
    [
        ({"country": 5}, "country: 5 is not of type 'string'"),
        ({"country": "D"}, "country: 'D' is too short"),
        ({"country": "DE", "x": 1}, "'x' was unexpected"),
        ({"country": "DE", "count": "2"}, "count: '2' is not of type 'integer'"),
        ({"country": "DE", "count": 1.5}, "count: 1.5 is not of type 'integer'"),
        ({"country": "DE", "count": True}, "count: True is not of type 'integer'"),
        ({"country": None}, "country: None is not of type 'string'"),
        ({"country": ["DE"] * 100_000}, "longer than"),
        ({"country": ["DE"] * 10_000}, "is not of type 'string'"),
    ],
)
@for_each("revision", EVERY)
async def test_arguments_that_violate_the_schema_are_reported(
    revision: str, arguments: dict[str, Any], problem: str
) -> None:
    wire = await wired(raising(AssertionError("it was called")), revision, of=COUNTRY)
    told = refusal(await called(wire, "best", revision, **arguments))
    assert problem in told
    assert len(told) < 500
