"""Who is told when other tools or prompts are offered than before, and who is not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from resource_server.access import Caller, acting
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.prompts import Prompt, PromptMessage
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import ToolSettings
from tests.cases import for_each
from tests.protocol.tools.tooled import Tooled, always
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, initialize
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

HR = frozenset({"hr"})
PROMPTS = {"p": Prompt(messages=(PromptMessage(text="Hello"),))}


def mount(name: str = "m", access: frozenset[str] = frozenset()) -> Mount:
    return Mount(name, f"test://{name}/", Tooled(("x", always("x"))), access=access)


def served(*mounts: Mount, settings: ToolSettings | None = None, **more: Any) -> Server:
    server = Server(Catalog(mounts), tools=settings, **more)
    server.reloads = True
    return server


def follow(server: Server, revision: str) -> Wire:
    """Return a client that follows all there is to follow."""
    wire = Wire(server, revision)
    if wire.modern:
        wanted = {"toolsListChanged": True, "promptsListChanged": True}
        wire.start("subscriptions/listen", {"notifications": wanted}, id=7)
        (acknowledged,) = wire.notifications
        assert acknowledged["params"]["notifications"] == wanted
        wire.messages.clear()
    return wire


async def told(wire: Wire) -> list[str]:
    await wire.finished() if not wire.modern else await wire.quiet()
    for each in wire.notifications:
        assert ("_meta" in each.get("params", {})) == wire.modern
    return [each["method"].removeprefix("notifications/") for each in wire.notifications]


CHANGES: list[tuple[Callable[[Mount], Server], list[str]]] = [
    (lambda m: served(m), []),
    (lambda m: served(m, Mount("plain", "test://plain/", Tree({}))), []),
    (lambda _: served(), ["tools/list_changed"]),
    (lambda _: served(mount()), ["tools/list_changed"]),
    (lambda m: served(m, settings=ToolSettings(prefix="a_")), ["tools/list_changed"]),
    (lambda m: served(m, settings=ToolSettings(enabled=False)), ["tools/list_changed"]),
    (lambda m: served(m, prompts=PROMPTS), ["prompts/list_changed"]),
    (lambda _: served(prompts=PROMPTS), ["tools/list_changed", "prompts/list_changed"]),
]


@for_each("revision", EVERY)
@for_each(("after", "expected"), CHANGES)
async def test_a_client_is_notified_only_of_what_changed(
    revision: str, after: Callable[[Mount], Server], expected: list[str]
) -> None:
    kept = mount()
    async with served(kept) as server:
        wire = follow(server, revision)
        server.adopt(after(kept))
        assert await told(wire) == expected


@for_each("revision", EVERY)
async def test_a_caller_is_not_notified_of_tools_of_hidden_mounts(revision: str) -> None:
    async with served(mount("hr", HR), mount()) as server:
        with acting(Caller("clerk", HR)):
            clerk = follow(server, revision)
        with acting(Caller("guest", frozenset())):
            guest = follow(server, revision)
        server.adopt(served(server.catalog.mounts[1]))
        assert await told(clerk) == ["tools/list_changed"]
        assert await told(guest) == []


@for_each("revision", MODERN)
async def test_a_listen_receives_only_requested_notifications(revision: str) -> None:
    async with served(mount()) as server:
        wire = Wire(server, revision)
        wanted = {"promptsListChanged": True, "toolsListChanged": False}
        wire.start("subscriptions/listen", {"notifications": wanted})
        (acknowledged,) = wire.notifications
        assert acknowledged["params"]["notifications"] == {"promptsListChanged": True}
        wire.messages.clear()
        server.adopt(served())
        assert await told(wire) == []


@for_each("revision", MODERN)
async def test_a_listen_for_lists_that_never_change_is_not_honoured(revision: str) -> None:
    async with served(mount(), settings=ToolSettings(enabled=False)) as server:
        asked = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
        wire = Wire(server, revision)
        wire.start("subscriptions/listen", asked)
        server.adopt(served(mount()))
        server.reloads = False
        wire.start("subscriptions/listen", asked)
        acknowledged = [each for each in wire.notifications if "notifications" in each["params"]]
        honoured = [each["params"]["notifications"] for each in acknowledged]
        assert honoured == [{"promptsListChanged": True}, {}]


@for_each("revision", HANDSHAKE)
async def test_no_notification_is_sent_before_the_handshake_is_complete(revision: str) -> None:
    async with served(mount()) as server:
        wire = Wire(server)
        wire.ask(initialize(revision))
        server.adopt(served())
        await wire.finished()
        assert wire.notifications == []


@for_each("revision", EVERY)
async def test_a_closed_connection_is_not_notified_and_is_released(revision: str) -> None:
    async with served(mount()) as server:
        wire = follow(server, revision)
        await wire.connection.close()
        wire.messages.clear()
        server.adopt(served())
        await wire.quiet()
        assert wire.messages == []
        left = weakref.ref(wire)
        del wire
        gc.collect()
        assert left() is None
