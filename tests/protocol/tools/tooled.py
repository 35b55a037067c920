"""A provider with whatever tools a test gives it, over a tree; and what checks every result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from mcp_types.methods import validate_server_result

from resource_server.protocol.server import ServerLimits
from resource_server.provider import MaybeAwaitable
from resource_server.provider.tools import (
    Block,
    SupportsTools,
    TextBlock,
    Tool,
    ToolRequest,
    ToolResult,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.protocol.wire import Wire, server_of
from tests.providers_for_tests import Node, Tree

Call: TypeAlias = Callable[[Mapping[str, Any], ToolRequest], MaybeAwaitable[ToolResult]]

STRUCTURED = ("2025-06-18", "2025-11-25", "2026-07-28")
"""Revisions whose tools have structured results."""
PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff"


def said(*words: str) -> ToolResult:
    return ToolResult([TextBlock(each) for each in words])


def always(*words: str) -> Call:
    """Return what says these words, whatever it is asked."""

    def call(_: Mapping[str, Any], __: ToolRequest) -> ToolResult:
        return said(*words)

    return call


class Tooled(Tree):
    """A tree with tools: each by its name, or by all that is told of it."""

    def __init__(
        self, *tools: tuple[str | Tool, Call], nodes: Mapping[str, Node] | None = None
    ) -> None:
        super().__init__(nodes or {"a.txt": "text"})
        self._tools = [
            Tool(name=key, description=f"The tool {key}") if isinstance(key, str) else key
            for key, _ in tools
        ]
        self._calls = {tool.name: call for tool, (_, call) in zip(self._tools, tools, strict=True)}

    def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
        return self._tools

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> MaybeAwaitable[ToolResult]:
        return self._calls[name](arguments, request)


def tool(
    name: str, /, *required: str, output: Mapping[str, Any] | None = None, **properties: object
) -> Tool:
    """Return a tool that takes these arguments."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name=name, description=name, input_schema=schema, output_schema=output)


async def called(wire: Wire, name: str, revision: str, /, **arguments: object) -> dict[str, Any]:
    """Return the result of a tool, as the SDK and its own schema accept it in this revision."""
    result = await wire.result("tools/call", {"name": name, "arguments": arguments})
    validate_server_result("tools/call", revision, result)
    told = await described(wire, name)
    structured = revision >= "2025-06-18"
    assert ("structuredContent" in result) <= structured
    if "outputSchema" in told:
        assert structured
        Draft202012Validator.check_schema(told["outputSchema"])
        if not result.get("isError"):
            schema: Any = Draft202012Validator(told["outputSchema"])
            schema.validate(result["structuredContent"])
    return result


async def described(wire: Wire, name: str) -> dict[str, Any]:
    """Return what is told of a tool, on whatever page."""
    asked: dict[str, Any] = {}
    while True:
        page = await wire.result("tools/list", asked)
        for each in page["tools"]:
            if each["name"] == name:
                return each
        asked = {"cursor": page["nextCursor"]}


def words(result: Mapping[str, Any]) -> str:
    """Return all that is said in text blocks."""
    return "\n".join(each["text"] for each in result["content"] if each["type"] == "text")


def refusal(result: Mapping[str, Any]) -> str:
    """Return what a result says that is an error, and nothing else."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    (block,) = result["content"]
    assert block["type"] == "text"
    return block["text"]


_: type[SupportsTools] = Tooled


async def wired(
    call: Any,
    revision: str = "2025-11-25",
    of: str | Tool = "x",
    *,
    limits: ServerLimits | None = None,
    timing: Timing = DEFAULT_TIMING,
    **more: Any,
) -> Wire:
    nodes = {"a b.txt": "text", "logo.png": PICTURE, "folder": {"c.txt": "c"}}
    server = await server_of(Tooled((of, call), nodes=nodes), server_limits=limits, timing=timing)
    return Wire(server, revision, **more)


def shaped(schema: Mapping[str, Any]) -> Tool:
    return Tool(name="x", description="", input_schema=schema)


def returning(*blocks: Block, structured: Mapping[str, Any] | None = None) -> Call:
    return answering(ToolResult(blocks, structured))


def answering(result: Any) -> Call:
    def call(_: Mapping[str, Any], __: ToolRequest) -> ToolResult:
        return result

    return call


def saying(*names: str) -> Call:
    """Return a tool that says these of its arguments."""

    def call(given: Mapping[str, Any], _: ToolRequest) -> ToolResult:
        return said(" ".join(str(given[name]) for name in names))

    return call


COUNTRY = tool(
    "best", "country", country={"type": "string", "minLength": 2}, count={"type": "integer"}
)


def raising(error: BaseException) -> Call:
    def call(*_: object) -> ToolResult:
        raise error

    return call
