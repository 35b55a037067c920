"""Log messages to the client: only of the level it asked for, and they say nothing secret."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE, Wire, request, server_of
from tests.providers_for_tests import Leaf, Tree

pytestmark = pytest.mark.anyio

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
READ_BAD = {"uri": "test://one/bad"}
MESSAGE = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {
        "level": "error",
        "logger": "resource-server",
        "data": "internal error in resources/read",
    },
}


async def failing(revision: str) -> Wire:
    return Wire(await server_of(Tree({"bad": Leaf(raises=ValueError("secret"))})), revision)


@for_each("revision", HANDSHAKE)
@for_each("level", LEVELS)
async def test_a_handshake_client_gets_log_messages_from_its_level_on(
    revision: str, level: str
) -> None:
    wire = await failing(revision)
    assert await wire.result("logging/setLevel", {"level": level}) == {}
    await wire.error("resources/read", READ_BAD)
    expected = [MESSAGE] if LEVELS.index(level) <= LEVELS.index("error") else []
    assert wire.notifications == expected


@for_each("revision", [*HANDSHAKE, "2026-07-28"])
async def test_a_client_without_a_level_gets_no_log_messages(revision: str) -> None:
    wire = await failing(revision)
    await wire.error("resources/read", READ_BAD)
    assert wire.notifications == []


@for_each("level", LEVELS)
async def test_a_modern_client_sets_the_log_level_of_each_request(level: str) -> None:
    wire = await failing("2026-07-28")
    asked = {**READ_BAD, "_meta": {"io.modelcontextprotocol/logLevel": level}}
    await wire.error("resources/read", asked)
    expected = [MESSAGE] if LEVELS.index(level) <= LEVELS.index("error") else []
    assert wire.notifications == expected
    await wire.error("resources/read", READ_BAD)
    assert wire.notifications == expected


@for_each("level", ["ERROR", "warn", "", "trace", 3, None, ["error"]])
async def test_an_unknown_level_is_bad_params(level: Any) -> None:
    wire = await failing("2025-11-25")
    assert wire.ask(request("logging/setLevel", {"level": level}))["error"]["code"] == -32602
    await wire.error("resources/read", READ_BAD)
    assert wire.notifications == []


async def test_an_expected_refusal_is_not_logged() -> None:
    wire = await failing("2025-11-25")
    await wire.result("logging/setLevel", {"level": "debug"})
    await wire.error("resources/read", {"uri": "test://one/absent"})
    assert wire.notifications == []
