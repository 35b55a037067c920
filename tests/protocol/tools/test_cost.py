"""What tools cost a model before any is called."""

from __future__ import annotations

import json

import pytest

from resource_server.protocol import revisions
from resource_server.protocol.tools.cost import cost
from tests.protocol.tools.tooled import Tooled, always
from tests.protocol.wire import EVERY, Wire, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", EVERY)
async def test_the_four_cost_less_than_a_thousand_tokens(revision: str) -> None:
    server = await server_of(Tree({}))
    known = {**revisions.HANDSHAKE, **revisions.MODERN}[revision]
    found = await cost(server.toolbox, known)
    assert found.count == 4
    assert 200 < found.tokens < 1000
    told = (await Wire(server, revision).result("tools/list"))["tools"]
    assert found.tokens == pytest.approx(len(json.dumps(told, separators=(",", ":"))) / 4, abs=10)


async def test_every_tool_is_counted_on_whatever_page() -> None:
    tools = [(f"t{number}", always("x")) for number in range(300)]
    found = await cost((await server_of(Tooled(*tools))).toolbox, revisions.LATEST_MODERN)
    assert found.count == 304
    assert found.tokens > 5000
