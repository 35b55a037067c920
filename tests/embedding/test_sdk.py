"""Handlers for the official SDK's low-level server, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

import resource_server
from resource_server import Caller, ManifestError
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

MANIFEST = """
roots:
  docs: {path: docs}
  staff: {path: docs, access: {scopes: [staff]}}
prompts:
  greet:
    description: A greeting
    arguments: {who: {description: whom}}
    messages: [{text: "Greet {who}."}]
"""
A = "file:///docs/a.txt"
subscribing = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
modes = pytest.mark.parametrize("mode", ["legacy", "auto"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("one\n", "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST, "utf-8")
    return tmp_path


@modes
async def test_resources_tools_prompts_and_completion_are_served(folder: Path, mode: Any) -> None:
    server = Server("mine", **resource_server.sdk.handlers(folder))
    async with Client(server, mode=mode) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert listed == ["file:///docs", "file:///staff", A, "file:///staff/a.txt"]
        found = (await client.read_resource(f"{A}?lines=1-1")).contents[0]
        assert isinstance(found, TextResourceContents)
        assert found.text == "one\n"
        templates = (await client.list_resource_templates()).resource_templates
        reference = ResourceTemplateReference(uri=templates[0].uri_template)
        completed = await client.complete(reference, {"name": "path", "value": "a"})
        assert completed.completion.values == ["a.txt"]
        tools = {each.name for each in (await client.list_tools()).tools}
        assert "read_resource" in tools
        called = await client.call_tool("read_resource", {"uri": A})
        assert isinstance(called.content[0], TextContent)
        assert "one" in called.content[0].text
        assert (await client.call_tool("read_resource", {"uri": "file:///no"})).is_error
        with pytest.raises(MCPError, match=r"[Uu]nknown tool") as unknown:
            await client.call_tool("nothing", {})
        assert unknown.value.code == -32602
        assert [each.name for each in (await client.list_prompts()).prompts] == ["greet"]
        prompt = await client.get_prompt("greet", {"who": "Ada"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert prompt.messages[0].content.text == "Greet Ada."
        greeting = PromptReference(name="greet")
        await client.complete(greeting, {"name": "who", "value": ""})
        with pytest.raises(MCPError, match="not found") as refused:
            await client.read_resource("file:///docs/b.txt")
        assert refused.value.code == (-32002 if mode == "legacy" else -32602)


def test_a_manifest_without_tools_and_prompts_has_no_handlers_of_them(folder: Path) -> None:
    manifest: Mapping[str, Any] = {"roots": {"docs": {"path": str(folder)}}, "tools": False}
    handlers = resource_server.sdk.handlers(manifest)
    assert not {"on_list_tools", "on_call_tool", "on_list_prompts"} & handlers.keys()
    with pytest.raises(ManifestError, match="unknown section"):
        resource_server.sdk.handlers({"rots": {}})


@subscribing
async def test_a_subscriber_of_a_session_is_notified_until_it_unsubscribes(folder: Path) -> None:
    server = Server("mine", **resource_server.sdk.handlers(folder))
    told: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.put_nowait(message.params.uri)

    async with Client(server, mode="legacy", message_handler=take) as client:
        await client.subscribe_resource(A)  # pyright: ignore[reportDeprecated]
        (folder / "docs" / "a.txt").write_text("two\n", "utf-8")
        assert await asyncio.wait_for(told.get(), PATIENCE_S) == A
        await client.unsubscribe_resource(A)  # pyright: ignore[reportDeprecated]
        with pytest.raises(MCPError):
            await client.subscribe_resource("file:///docs/no.txt")  # pyright: ignore[reportDeprecated]


@subscribing
async def test_two_connections_have_subscriptions_of_their_own(folder: Path) -> None:
    (folder / "docs" / "b.txt").write_text("one\n", "utf-8")
    server = Server("mine", **resource_server.sdk.handlers(folder))
    told: dict[str, list[str]] = {"a": [], "b": []}

    def taking(name: str) -> Any:
        async def take(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                told[name].append(message.params.uri)

        return take

    async with (
        Client(server, mode="legacy", message_handler=taking("a")) as first,
        Client(server, mode="legacy", message_handler=taking("b")) as second,
    ):
        await first.subscribe_resource(A)  # pyright: ignore[reportDeprecated]
        await second.subscribe_resource("file:///docs/b.txt")  # pyright: ignore[reportDeprecated]
        await first.unsubscribe_resource("file:///docs/b.txt")  # pyright: ignore[reportDeprecated]
        (folder / "docs" / "a.txt").write_text("two\n", "utf-8")
        (folder / "docs" / "b.txt").write_text("two\n", "utf-8")
        await until(lambda: told["a"] and told["b"])
    assert told == {"a": [A], "b": ["file:///docs/b.txt"]}


async def test_a_listener_of_the_stateless_revision_is_notified(folder: Path) -> None:
    server = Server("mine", **resource_server.sdk.handlers(folder))
    async with (
        Client(server, mode="auto") as client,
        client.listen(resource_subscriptions=[A], resources_list_changed=True) as changes,
    ):
        assert changes.honored.resource_subscriptions == [A]
        (folder / "docs" / "a.txt").write_text("two\n", "utf-8")
        with anyio.fail_after(PATIENCE_S):
            async for event in changes:
                if isinstance(event, ResourceUpdated):
                    assert event.uri == A
                    break


async def test_the_caller_of_a_request_sees_what_its_scopes_show(folder: Path) -> None:
    scopes: list[frozenset[str]] = [frozenset()]
    handlers = resource_server.sdk.handlers(folder, caller=lambda _: Caller("ada", scopes[0]))
    async with Client(Server("mine", **handlers), mode="auto") as client:
        uris = {each.uri for each in (await client.list_resources()).resources}
        assert uris == {"file:///docs", A}
        with pytest.raises(MCPError):
            await client.read_resource("file:///staff/a.txt")
        scopes[0] = frozenset({"staff"})
        assert (await client.read_resource("file:///staff/a.txt")).contents


COUNTING = """
from resource_server.errors import ResourceNotFound
from resource_server.provider import Resource, TextBlock, Tool, ToolResult

class Counting:
    templates = ()
    def list(self, parent, *, after, limit):
        return []
    def metadata(self, path):
        if path:
            raise ResourceNotFound
        return Resource(path=path, name="counting", type="collection")
    def read(self, path, query):
        raise ResourceNotFound
    def tools(self):
        return [Tool(name="count", description="Counts.")]
    def call_tool(self, name, arguments, request):
        for done in (1, 2):
            request.progress(done, 2)
        return ToolResult([TextBlock("counted")])
"""


@modes
async def test_progress_of_a_tool_reaches_the_client_that_asked_for_it(
    folder: Path, mode: Any
) -> None:
    (folder / "counting.py").write_text(COUNTING, "utf-8")
    manifest = "providers: {counting: {use: counting.py}}\n"
    (folder / "mcp-resources.yaml").write_text(manifest, "utf-8")
    told: list[tuple[float, float | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        assert message is None
        told.append((progress, total))

    server = Server("mine", **resource_server.sdk.handlers(folder))
    async with Client(server, mode=mode) as client:
        called = await client.call_tool("count", {}, progress_callback=progressed)
        assert not called.is_error
        await until(lambda: told == [(1, 2), (2, 2)])


def test_handlers_serve_in_each_of_several_event_loops(folder: Path) -> None:
    server = Server("mine", **resource_server.sdk.handlers(folder))

    async def once() -> int:
        async with Client(server) as client:
            return len((await client.list_resources()).resources)

    assert [asyncio.run(once()) for _ in range(2)] == [4, 4]
