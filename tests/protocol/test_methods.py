"""`initialize` and `server/discover`: the revision, and what the server says of itself."""

from __future__ import annotations

import pytest

from resource_server.protocol.server import Server
from tests.protocol.wire import ENVELOPE, HANDSHAKE, MODERN, Wire, initialize, request, server_of
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> Server:
    return await server_of(Tree({"a": "text"}))


@pytest.fixture
def wire(server: Server) -> Wire:
    return Wire(server)


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_initialize_accepts_the_requested_revision(wire: Wire, revision: str) -> None:
    assert wire.ask(initialize(revision))["result"]["protocolVersion"] == revision


@pytest.mark.parametrize("revision", ["2026-07-28", "2099-01-01", "1", "", "2025-11-25 "])
async def test_initialize_answers_an_unknown_revision_with_the_latest_one(
    wire: Wire, revision: str
) -> None:
    assert wire.ask(initialize(revision))["result"]["protocolVersion"] == "2025-11-25"


async def test_initialize_returns_the_server_info(server: Server) -> None:
    server.instructions = "Read docs first."
    result = Wire(server).ask(initialize())["result"]
    assert result["serverInfo"] == server.info
    assert result["instructions"] == "Read docs first."


async def test_discover_returns_the_supported_revisions_and_the_server_info(server: Server) -> None:
    server.instructions = "Read docs first."
    result = Wire(server).ask(request("server/discover", {"_meta": ENVELOPE}))["result"]
    assert result["supportedVersions"] == list(MODERN)
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == server.info
    assert result["instructions"] == "Read docs first."
