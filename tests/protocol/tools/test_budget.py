"""The budget of a tool result: what it counts, and what the manifest says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from resource_server import access
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.protocol.tools.budget import DEFAULT_CHARACTERS, Budget, characters
from resource_server.protocol.tools.registry import MAX_RESULT_SIZE, ToolSettings
from resource_server.provider.tools import (
    EmbeddedBlock,
    LinkBlock,
    MediaBlock,
    TextBlock,
    Tool,
    ToolRequest,
    ToolResult,
)
from resource_server.providers.filesystem import Filesystem
from tests.cases import for_each
from tests.protocol.tools.tooled import (
    STRUCTURED,
    Tooled,
    answering,
    called,
    described,
    refusal,
    said,
    words,
)
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio


def test_an_item_fits_only_if_its_text_and_its_json_do() -> None:
    budget = Budget(10)
    budget.charge("ab", b"abc")
    assert budget.left == 7
    assert budget.take("1234", b"12")
    assert not budget.take("12345", b"")
    assert not budget.take("", b"123456")
    assert budget.take("1234", b"12345")
    assert budget.left == 0


def test_the_first_item_always_fits() -> None:
    budget = Budget(1)
    budget.charge("a heading")
    assert budget.take("longer than the budget")
    assert not budget.take("a")
    assert budget.left == 0


def test_characters_are_counted_and_not_bytes() -> None:
    assert characters("中文".encode()) == 2
    assert characters(b"ab") == 2


@for_each("revision", EVERY)
@for_each(
    ("budget", "told"), [(1, None), (DEFAULT_CHARACTERS, None), (60_000, 60_000), (10**7, 500_000)]
)
async def test_a_raised_budget_is_announced_with_each_tool(
    revision: str, budget: int, told: int | None
) -> None:
    wire = Wire(await server_of(Tree({}), tools=ToolSettings(budget=budget)), revision)
    for tool in (await wire.result("tools/list"))["tools"]:
        assert tool.get("_meta", {}).get(MAX_RESULT_SIZE) == told


@for_each("revision", EVERY)
async def test_structured_results_can_be_left_out(revision: str) -> None:
    tree = Tree({"a.txt": "text"})
    asked: dict[str, Any] = {
        "list_resources": {},
        "resource_metadata": {"uri": "test://one/a.txt"},
        "search_resources": {"query": "text"},
    }
    wire = Wire(await server_of(tree, tools=ToolSettings(structured=False)), revision)
    for name, arguments in asked.items():
        assert "outputSchema" not in await described(wire, name)
        assert "structuredContent" not in await called(wire, name, revision, **arguments)
    wire = Wire(await server_of(tree), revision)
    for name, arguments in asked.items():
        found = await called(wire, name, revision, **arguments)
        assert ("structuredContent" in found) == (revision in STRUCTURED)


# -- tools of providers


async def call(result: ToolResult, budget: int, tool: Tool | str = "x") -> Mapping[str, Any]:
    server = await server_of(Tooled((tool, answering(result))), tools=ToolSettings(budget=budget))
    return await called(Wire(server, "2025-11-25"), "x", "2025-11-25")


async def test_long_text_of_a_provider_is_cut_at_a_line_and_marked() -> None:
    text = "".join(f"line {n}\n" for n in range(100))
    for blocks in ([TextBlock(text)], [TextBlock("first\n"), TextBlock(text), TextBlock("last")]):
        told = words(await call(ToolResult(blocks), 300))
        shown, _, notice = told.rpartition("\n[")
        assert notice == "Truncated: the result is longer. Ask for less.]"
        assert 200 < len(told) <= 300
        assert shown.endswith("\n")
        assert "last" not in told
    assert words(await call(ToolResult([TextBlock(text)]), len(text))) == text


@for_each("budget", [1, 100])
async def test_a_line_without_end_is_cut_all_the_same(budget: int) -> None:
    told = words(await call(ToolResult([TextBlock("x" * 1000)]), budget))
    assert told.startswith("x")
    assert len(told) <= max(budget, 60)


async def test_links_and_embedded_documents_count_and_are_left_out_beyond_the_budget() -> None:
    nodes = {"x": Leaf("y" * 300), "z": "short"}
    blocks = [TextBlock("first"), EmbeddedBlock(("x",)), EmbeddedBlock(("z",)), LinkBlock(("x",))]
    tool = Tooled(("x", answering(ToolResult(blocks))), nodes=nodes)
    for budget, types in ((600, ["text", "resource", "text"]), (60, ["text", "text"])):
        server = await server_of(tool, tools=ToolSettings(budget=budget))
        found = await called(Wire(server, "2025-11-25"), "x", "2025-11-25")
        assert [block["type"] for block in found["content"]] == types
        assert found["content"][-1]["text"].startswith("[Truncated")
        assert len(json.dumps(found["content"][:-1])) <= budget


async def test_images_do_not_count() -> None:
    picture = MediaBlock(b"\0" * 3000, "image/png")
    found = await call(ToolResult([TextBlock("short"), picture]), 100)
    assert [block["type"] for block in found["content"]] == ["text", "image"]


async def test_long_json_is_left_out_or_refused_if_it_was_promised() -> None:
    result = ToolResult([TextBlock("in short")], {"a": "x" * 200})
    found = await call(result, 100)
    assert words(found) == ("in short\n[The structured result is left out: it is over the budget.]")
    assert "structuredContent" not in found
    promised = Tool(name="x", description="X", output_schema={"type": "object"})
    told = refusal(await call(result, 100, promised))
    assert told == "The result has 208 characters, over the budget of 100. Ask for less."
    assert (await call(result, 300, promised))["structuredContent"] == {"a": "x" * 200}


async def test_a_tool_knows_its_budget() -> None:
    def tell(_: object, request: ToolRequest) -> ToolResult:
        return said(str(request.budget))

    server = await server_of(Tooled(("x", tell)), tools=ToolSettings(budget=77))
    assert words(await called(Wire(server, "2025-11-25"), "x", "2025-11-25")) == "77"


# -- what the tools cost, and what they take


class WithPages(Tree):
    parameters = frozenset(("limit", "format"))


async def arguments(*providers: Any) -> set[str]:
    wire = Wire(await server_of(*providers), "2025-11-25")
    return set((await described(wire, "read_resource"))["inputSchema"]["properties"])


async def test_only_arguments_that_something_served_takes_are_offered(tmp_path: Path) -> None:
    ranges = {"uri", "lines", "tail", "bytes", "number"}
    assert await arguments(Filesystem(tmp_path, convert="off")) == ranges
    assert await arguments(Filesystem(tmp_path)) == ranges | {"format", "pages", "rows"}
    assert await arguments(Tree({})) == ranges
    assert await arguments(WithPages({})) == ranges | {"rows", "format"}


async def test_hidden_mounts_do_not_show_in_the_arguments() -> None:
    mounts = [
        Mount("files", "test://files/", Tree({})),
        Mount("rows", "test://rows/", WithPages({}), access=frozenset(("staff",))),
    ]
    wire = Wire(Server(Catalog(mounts)), "2025-11-25")
    with access.acting(access.Caller("somebody", frozenset())):
        found = await described(wire, "read_resource")
        assert "rows" not in found["inputSchema"]["properties"]
        assert "~rows" not in found["description"]
    assert "rows" in (await described(wire, "read_resource"))["inputSchema"]["properties"]


async def test_all_built_in_tools_cost_fewer_than_1200_tokens() -> None:
    wire = Wire(await server_of(WithPages({}), Tree({})), "2026-07-28")
    tools = (await wire.result("tools/list"))["tools"]
    definitions = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    # Measured with o200k_base: 4.3 characters a token.
    assert len(definitions) / 4 < 1200
    assert all(tool["description"] for tool in tools)


async def test_an_unknown_argument_is_answered_with_the_known_ones() -> None:
    wire = Wire(await server_of(Tree({"a": ""})), "2025-11-25")
    for name, argument, near in (
        ("list_resources", "dept", "; did you mean 'depth'?"),
        ("list_resources", "x", ""),
        ("read_resource", "line", "; did you mean 'lines'?"),
        ("resource_metadata", "url", "; did you mean 'uri'?"),
        ("search_resources", "q", ""),
        ("read_resource", "\x1b[31m" + "é" * 9000, ""),
    ):
        told = refusal(await called(wire, name, "2025-11-25", **{argument: 1}))
        known = ", ".join((await described(wire, name))["inputSchema"]["properties"])
        assert told.startswith("Invalid arguments: unknown argument '")
        assert told.endswith(f"{near}; known: {known}")
        assert len(told) < 400
        assert "\x1b" not in told
