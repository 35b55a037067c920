"""ArgumentsValidator that headers repeat: which tools may name headers, and what says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.errors import ResourceServerError
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.tools.header_arguments import HeaderArguments
from resource_server.protocol.tools.validation import ArgumentsValidator
from resource_server.provider.tools import Schema
from tests.cases import for_each
from tests.protocol.tools.tooled import tool

NAME = "x-mcp-header"


def of(**properties: object) -> Schema:
    return {"type": "object", "properties": properties}


def named(name: object = "Region", type: object = "string") -> Schema:
    return {"type": type, NAME: name}


@for_each("name", ["", "a b", "a:b", "a\r\nb", "é", "x" * 129, 5, None, ["Region"]])
def test_a_header_name_must_be_valid_in_http(name: object) -> None:
    with pytest.raises(ResourceServerError, match=r"region: x-mcp-header: .* header's name"):
        HeaderArguments(of(region=named(name)))


@for_each("type", ["number", "object", "array", "null", ["string", "null"], None])
def test_only_strings_integers_and_booleans_are_mirrored(type: object) -> None:
    with pytest.raises(ResourceServerError, match="expected the type string, integer, boolean"):
        HeaderArguments(of(region=named(type=type)))


def test_two_arguments_cannot_have_the_same_header() -> None:
    with pytest.raises(ResourceServerError, match="'REGION' is named twice"):
        HeaderArguments(of(a=named("Region"), b=of(c=named("REGION"))))


@for_each(
    "elsewhere",
    [
        named(),
        of(a={"type": "array", "items": named()}),
        {**of(), "allOf": [of(region=named())]},
        {**of(a={"$ref": "#/$defs/a"}), "$defs": {"a": named()}},
        {**of(), "additionalProperties": named()},
    ],
)
def test_a_header_belongs_to_a_single_argument(elsewhere: Schema) -> None:
    with pytest.raises(ResourceServerError, match="only properties of properties"):
        HeaderArguments({**elsewhere, "type": "object"})


def test_an_argument_may_have_the_name_of_the_annotation() -> None:
    HeaderArguments(of(**{NAME: {"type": "string"}})).check({NAME: "a"}, lambda _: None)


def test_a_tool_that_clients_would_drop_is_left_out() -> None:
    # `Toolbox` leaves out what this refuses.
    with pytest.raises(ResourceServerError, match="x-mcp-header"):
        ArgumentsValidator(tool("find", region=named(type="number")))


NESTED = of(
    region=named("Region"),
    options=of(limit=named("Limit", "integer"), deep=of(sure=named("Sure", "boolean"))),
)


def is_taken(arguments: Mapping[str, Any], **headers: str) -> bool:
    def header(name: bytes) -> str | None:
        return headers.get(name.decode().removeprefix("mcp-param-"))

    try:
        HeaderArguments(NESTED).check(arguments, header)
    except Fault as fault:
        return fault.code != -32020
    return True


@for_each(
    ("limit", "header"),
    [(42, "42"), (42, "42.0"), (42.0, "42"), (-7, "-7"), (2**53 - 1, "9007199254740991")],
)
def test_integers_are_compared_as_numbers(limit: float, header: str) -> None:
    assert is_taken({"options": {"limit": limit}}, limit=header)
    assert not is_taken({"options": {"limit": limit}}, limit=f"{header}1")


@for_each("header", ["", "4 2", "0x2a", "42.5", "4e1", "٤٢", "9" * 5000, "true"])
def test_a_malformed_integer_does_not_match(header: str) -> None:
    assert not is_taken({"options": {"limit": 42}}, limit=header)


def test_booleans_are_spelled_as_in_json() -> None:
    assert is_taken({"options": {"deep": {"sure": True}}}, sure="true")
    assert is_taken({"options": {"deep": {"sure": False}}}, sure="false")
    for header in ("True", "1", "false"):
        assert not is_taken({"options": {"deep": {"sure": True}}}, sure=header)
    assert not is_taken({"options": {"limit": 1}}, limit="true")


@for_each("arguments", [{}, {"region": None}, {"options": None}, {"options": []}, {"options": {}}])
def test_a_missing_argument_has_no_header(arguments: Mapping[str, Any]) -> None:
    assert is_taken(arguments)
    assert not is_taken(arguments, region="us-west1")
    assert not is_taken(arguments, limit="1")


def test_arguments_that_no_header_can_hold_are_left_to_the_schema() -> None:
    assert is_taken({"region": ["us-west1"], "options": {"limit": {}}})


@for_each(
    "header",
    ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?/w==?="],
)
def test_malformed_base64_does_not_match(header: str) -> None:
    assert not is_taken({"region": "Hello"}, region=header)
    assert not is_taken({"region": header}, region=header)


def test_text_without_both_markers_is_not_base64() -> None:
    for text in ("SGVsbG8=", "=?base64?SGVsbG8=", "=?Base64?SGVsbG8=?="):
        assert is_taken({"region": text}, region=text)
