"""What is served and under which name, also after it has become something else."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from tests.protocol.wire import Wire, initialize, server_of
from tests.providers_for_tests import Tree, WatchedTree

pytestmark = pytest.mark.anyio

INFO = "io.modelcontextprotocol/serverInfo"


class Lasting(WatchedTree):
    """Tells whether it has been closed."""

    closed = False

    async def __aenter__(self) -> Lasting:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Nothing may watch what is closed.
        assert self.interest is None
        self.closed = True


async def test_leaving_the_server_ends_its_watches_and_closes_its_providers() -> None:
    tree = Lasting({"a": "text"})
    async with await server_of(tree) as server:
        await Wire(server, "2025-11-25").result("resources/subscribe", {"uri": "test://one/a"})
        await tree.asked(("a",))
        assert not tree.closed
    assert tree.closed


async def test_adopting_another_server_keeps_the_broker_and_serves_its_catalog() -> None:
    server = await server_of(Tree({"a": "text"}))
    modern, opened = Wire(server, "2026-07-28"), Wire(server, "2025-11-25")
    before = await modern.result("resources/read", {"uri": "test://one/a"})
    await modern.result("resources/list")
    catalog = Catalog([Mount("new", "new://mount/", Tree({"b": "words"}))])
    other = Server(
        catalog, name="other", title="Other", instructions="x", ttl_ms=5, cache_scope="public"
    )
    live = server.broker
    server.adopt(other)
    assert server.broker is live
    for wire in (modern, opened):
        (read,) = (await wire.result("resources/read", {"uri": "new://mount/b"}))["contents"]
        assert read["text"] == "words"
        await wire.error("resources/read", {"uri": "test://one/a"})
    after = await modern.result("resources/read", {"uri": "new://mount/b"})
    assert (before["ttlMs"], before["cacheScope"]) == (0, "private")
    assert (after["ttlMs"], after["cacheScope"]) == (5, "public")
    assert (await modern.result("resources/list"))["cacheScope"] == "public"
    assert before["_meta"][INFO]["name"] == "resource-server"
    assert after["_meta"][INFO]["name"] == "other"
    greeting: dict[str, Any] = Wire(server).ask(initialize())["result"]
    assert greeting["serverInfo"]["title"] == "Other"
    assert greeting["instructions"] == "x"


async def test_subscriptions_survive_a_new_catalog() -> None:
    trees = [WatchedTree({"a": "text"}), WatchedTree({"a": "text", "b": ""})]
    servers = [await server_of(tree) for tree in trees]
    async with servers[0] as server:
        wire = Wire(server, "2025-11-25")
        await wire.result("resources/subscribe", {"uri": "test://one/a"})
        server.adopt(servers[1])
        server.broker.replace_catalog(servers[1].catalog, relist=True)
        await trees[1].asked(("a",), listing=True)
        assert await wire.notified(1) == [
            {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}
        ]
        trees[1].set("a", to="longer")
        await wire.notified(2)
        assert wire.updates == ["test://one/a"]
