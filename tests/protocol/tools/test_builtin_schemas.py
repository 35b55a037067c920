"""Definitions of the built-in tools: which there are, and that their schemas are schemas."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from resource_server.protocol.tools.builtin_schemas import builtin_tools, read_tool

TABLES = {"sort", "by", "limit", "format"}


@pytest.mark.parametrize(
    ("parameters", "search", "names"),
    [
        (set[str](), False, ["list_resources", "read_resource", "resource_metadata"]),
        ({"sort"}, False, ["list_resources", "read_resource", "resource_metadata"]),
        (
            TABLES,
            True,
            [
                *("list_resources", "read_resource", "resource_metadata", "search_resources"),
                "query_table",
            ],
        ),
    ],
)
def test_tools_are_those_that_what_is_served_can_use(
    parameters: set[str], names: list[str], *, search: bool
) -> None:
    found = builtin_tools(parameters, search=search)
    assert [tool.name for tool in found] == names


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        (set[str](), set[str]()),
        ({"limit"}, {"rows"}),
        ({"rows", "pages", "format", "other"}, {"rows", "pages", "format"}),
    ],
)
def test_a_read_takes_the_arguments_that_resources_take(
    parameters: set[str], arguments: set[str]
) -> None:
    tool = read_tool(parameters)
    ranges = {"lines", "tail", "bytes", "number"}
    assert tool.input_schema["properties"].keys() == {"uri", *ranges, *arguments}
    assert ("~rows" in (tool.description or "")) == ("limit" in parameters)


def test_every_schema_is_one_and_knows_its_required_members() -> None:
    for tool in builtin_tools(TABLES, search=True):
        for schema in (tool.input_schema, tool.output_schema):
            if schema is not None:
                Draft202012Validator.check_schema(schema)
                assert schema["additionalProperties"] is False
                assert set(schema.get("required", ())) <= schema["properties"].keys()
