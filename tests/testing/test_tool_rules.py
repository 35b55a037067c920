from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from resource_server.provider.tools import EmbeddedBlock, LinkBlock, TextBlock, Tool, ToolResult
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.testing import ProviderViolations, check_provider
from tests.cases import for_each
from tests.testing.shelf import Shelf

pytestmark = pytest.mark.anyio


@dataclass
class Tooled(Shelf):
    """A shelf with tools that keep every rule. Each class below breaks one."""

    def tools(self) -> Sequence[Tool]:
        counted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        word = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return [
            Tool(name="count", description="Count items", output_schema=counted),
            Tool(name="find", description="Find a word", input_schema=word),
        ]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        assert name == "count", "find needs arguments"
        blocks = [TextBlock("some"), LinkBlock(("a",)), EmbeddedBlock(("a", "empty"))]
        return ToolResult(blocks, {"n": len(self.items)})


@dataclass
class AsksInVain(Tooled):
    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        request.progress(1, 2)
        request.log("info", "asking")
        assert not request.can_elicit
        await request.elicit("n", "How many?", {"type": "object"})
        raise AssertionError("nobody answers")


@for_each("provider", [Tooled, AsksInVain])
async def test_a_provider_whose_tools_keep_the_contract_passes(provider: type[Tooled]) -> None:
    await check_provider(provider())


def telling(*tools: Tool) -> type[Tooled]:
    class Telling(Tooled):
        def tools(self) -> Sequence[Tool]:
            return tools

    return Telling


def returning(result: Any) -> type[Tooled]:
    class Returning(Tooled):
        async def call_tool(
            self, name: str, arguments: Mapping[str, Any], request: ToolRequest
        ) -> ToolResult:
            return result

    return Returning


class ChangesItsTools(Tooled):
    def tools(self) -> Sequence[Tool]:
        return super().tools() if self.calls else []


@for_each(
    ("provider", "rule"),
    [
        (ChangesItsTools, "tools are always the same"),
        (telling(Tool(name="a b", description="x")), "a tool has a description, and a name"),
        (telling(Tool(name="a", description=" ")), "a tool has a description"),
        (telling(*Tooled().tools(), *Tooled().tools()), "tool names are unique"),
        (
            telling(Tool(name="a", description="x", input_schema={"type": "list"})),
            "the schemas of a tool are valid",
        ),
        (returning("words"), "returned 'words'"),
        (returning(ToolResult([TextBlock("x")])), "it has none"),
        (returning(ToolResult([TextBlock("x")], {"n": "1"})), "'1' is not of type 'integer'"),
        (returning(ToolResult([TextBlock("x")], {"n": object()})), "not JSON"),
        (returning(ToolResult([TextBlock("x")], {"n": 2**53})), "that JavaScript changes"),
        (
            returning(ToolResult([LinkBlock(("none",))], {"n": 1})),
            "a block refers to an existing resource",
        ),
        (returning(ToolResult([EmbeddedBlock(("a",))], {"n": 1})), "only documents are embedded"),
        (returning(ToolResult(["x"], {"n": 1})), "a result consists of content blocks"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_each_broken_rule_of_tools_is_reported(provider: type[Tooled], rule: str) -> None:
    with pytest.raises(ProviderViolations) as found:
        await check_provider(provider())
    assert rule in str(found.value)
