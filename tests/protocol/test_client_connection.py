"""How a connection is opened, in both eras, and what each era refuses."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.protocol.server import Server
from tests.protocol.wire import (
    CLIENT,
    ENVELOPE,
    HANDSHAKE,
    MODERN,
    Wire,
    initialize,
    request,
    server_of,
)
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

VERSION = "io.modelcontextprotocol/protocolVersion"


@pytest.fixture
async def server() -> Server:
    return await server_of(Tree({"a": "text"}))


@pytest.fixture
def wire(server: Server) -> Wire:
    return Wire(server)


def enveloped(method: str, id: int = 1, **changes: Any) -> dict[str, Any]:
    meta = {**ENVELOPE, **changes.pop("meta", {})}
    return request(method, {**changes, "_meta": meta}, id)


# -- handshake


async def test_a_client_that_never_sends_initialized_is_served(wire: Wire) -> None:
    wire.ask(initialize())
    assert "result" in wire.ask(request("resources/list"))


async def test_initialize_a_second_time_is_refused_and_changes_nothing(wire: Wire) -> None:
    wire.ask(initialize("2025-03-26"))
    assert wire.ask(initialize("2025-11-25"))["error"]["code"] == -32600
    assert wire.ask([request("ping")]) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


async def test_a_refused_initialize_can_be_retried(wire: Wire) -> None:
    assert wire.ask(request("initialize", {}))["error"]["code"] == -32602
    assert "result" in wire.ask(initialize())


@pytest.mark.parametrize(
    "method",
    [
        "resources/list",
        "resources/read",
        "resources/metadata",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
    ],
)
async def test_requests_before_initialize_are_refused(wire: Wire, method: str) -> None:
    params = {"uri": "test://one/a", "level": "info"}
    assert wire.ask(request(method, params))["error"]["code"] == -32600
    assert "result" in wire.ask(initialize())


async def test_ping_is_allowed_before_initialize_and_selects_no_revision(wire: Wire) -> None:
    assert wire.ask(request("ping"))["result"] == {}
    assert wire.ask(request("resources/list"))["error"]["code"] == -32600
    assert wire.ask(enveloped("resources/list"))["result"]["resultType"] == "complete"


@pytest.mark.parametrize("method", ["tasks/list", "tasks/get", "subscriptions/listen", "", "ping "])
async def test_unknown_methods_are_not_found_before_and_after_initialize(
    wire: Wire, method: str
) -> None:
    for _ in range(2):
        error = wire.ask(request(method))["error"]
        assert (error["code"], error["data"]) == (-32601, {"method": method})
        wire.send(initialize())


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_discover_is_not_a_method_of_a_handshake_connection(
    server: Server, revision: str
) -> None:
    error = await Wire(server, revision).error("server/discover")
    assert error["code"] == -32601


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_an_envelope_on_a_handshake_connection_is_refused(
    server: Server, revision: str
) -> None:
    wire = Wire(server, revision)
    assert wire.ask(enveloped("resources/list"))["error"]["code"] == -32600
    assert "result" in wire.ask(request("resources/list", {"_meta": {"progressToken": 1}}))


# -- envelope


async def test_the_first_enveloped_request_opens_the_connection(wire: Wire) -> None:
    assert wire.ask(enveloped("resources/list"))["result"]["resultType"] == "complete"


async def test_discover_without_an_envelope_opens_nothing(wire: Wire) -> None:
    assert wire.ask(request("server/discover"))["error"]["code"] == -32601
    assert "result" in wire.ask(initialize())


@pytest.mark.parametrize("opened", [False, True])
async def test_an_unknown_revision_in_the_envelope_names_those_supported(
    wire: Wire, opened: bool
) -> None:
    if opened:
        wire.send(enveloped("server/discover"))
    error = wire.ask(enveloped("resources/list", meta={VERSION: "2099-01-01"}))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(MODERN), "requested": "2099-01-01"}


async def test_a_client_with_a_newer_revision_may_fall_back_to_initialize(wire: Wire) -> None:
    wire.ask(enveloped("server/discover", meta={VERSION: "2099-01-01"}))
    assert "result" in wire.ask(initialize())


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_handshake_revision_in_the_envelope_is_unsupported(
    wire: Wire, revision: str
) -> None:
    error = wire.ask(enveloped("resources/list", meta={VERSION: revision}))["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, revision)


async def test_an_unknown_revision_is_reported_before_missing_envelope_members(wire: Wire) -> None:
    error = wire.ask(request("resources/list", {"_meta": {VERSION: "2099-01-01"}}))["error"]
    assert error["code"] == -32022


@pytest.mark.parametrize("opened", [False, True])
async def test_an_envelope_without_capabilities_is_refused(wire: Wire, opened: bool) -> None:
    if opened:
        wire.send(enveloped("server/discover"))
    meta = {VERSION: "2026-07-28"}
    error = wire.ask(request("resources/list", {"_meta": meta}))["error"]
    assert error["code"] == -32602
    assert "io.modelcontextprotocol/clientCapabilities" in error["message"]


async def test_a_modern_connection_refuses_a_request_without_an_envelope(wire: Wire) -> None:
    wire.send(enveloped("server/discover"))
    without: list[Any] = [None, {}, {"_meta": {}}, {"_meta": None}]
    for params in without:
        assert wire.ask(request("resources/list", params))["error"]["code"] == -32602


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
@pytest.mark.parametrize("opened", [False, True])
async def test_methods_dropped_by_the_modern_revision_are_not_found(
    wire: Wire, method: str, opened: bool
) -> None:
    if opened:
        wire.send(enveloped("server/discover"))
    asked = enveloped(method, level="info", uri="test://one/a")
    assert wire.ask(asked)["error"]["code"] == -32601


async def test_initialize_on_a_modern_connection_names_the_revisions_supported(wire: Wire) -> None:
    wire.send(enveloped("server/discover"))
    error = wire.ask(initialize("2025-06-18"))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(MODERN), "requested": "2025-06-18"}


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 5}, {"protocolVersion": None}])
async def test_a_malformed_initialize_on_a_modern_connection_names_the_revisions_too(
    wire: Wire, params: dict[str, Any]
) -> None:
    wire.send(enveloped("server/discover"))
    assert wire.ask(request("initialize", params))["error"]["code"] == -32022


async def test_the_envelope_may_omit_the_client_info(wire: Wire) -> None:
    meta: dict[str, Any] = {
        VERSION: "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    assert "result" in wire.ask(request("resources/list", {"_meta": meta}))
    named = {**meta, "io.modelcontextprotocol/clientInfo": CLIENT}
    assert "result" in wire.ask(request("resources/list", {"_meta": named}))
