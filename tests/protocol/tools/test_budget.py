"""The budget of a tool result: what it counts, and what the manifest says of it."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.protocol.tools.budget import DEFAULT_CHARACTERS, Budget, characters
from resource_server.protocol.tools.registry import MAX_RESULT_SIZE, ToolSettings
from tests.protocol.tools.tooled import STRUCTURED, called, described
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Tree

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


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(
    ("budget", "told"), [(1, None), (DEFAULT_CHARACTERS, None), (60_000, 60_000), (10**7, 500_000)]
)
async def test_a_raised_budget_is_announced_with_each_tool(
    revision: str, budget: int, told: int | None
) -> None:
    wire = Wire(await server_of(Tree({}), tools=ToolSettings(budget=budget)), revision)
    for tool in (await wire.result("tools/list"))["tools"]:
        assert tool.get("_meta", {}).get(MAX_RESULT_SIZE) == told


@pytest.mark.parametrize("revision", EVERY)
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
