"""The provider for FastMCP, asked by FastMCP's own client."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from mcp import MCPError
from mcp_types import TextContent, TextResourceContents

import resource_server
from resource_server import Caller, ManifestError
from tests.waiting import block_until

pytestmark = pytest.mark.anyio

MANIFEST = """
server: {page_size: 2}
roots:
  docs: {path: docs}
  staff: {path: docs, access: {scopes: [staff]}}
prompts:
  greet:
    description: A greeting
    arguments: {who: {description: whom}}
    messages: [{text: "Greet {who}."}]
"""
A = "file:///docs/a%20%C3%BC.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a ü.txt").write_text("one\ntwo\n", "utf-8")
    (tmp_path / "docs" / "b.bin").write_bytes(b"\x00\xff")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST, "utf-8")
    return tmp_path


def serving(folder: Path, **options: object) -> FastMCP:
    mcp = FastMCP("mine")
    mcp.add_provider(resource_server.fastmcp.provider(folder, **options))  # type: ignore[arg-type]
    return mcp


async def test_resources_are_listed_to_the_end_and_read_by_their_exact_uris(folder: Path) -> None:
    async with Client(serving(folder)) as client:
        listed = {str(each.uri) for each in await client.list_resources()}
        assert listed == {
            *("file:///docs", A, "file:///docs/b.bin"),
            *("file:///staff", A.replace("docs", "staff"), "file:///staff/b.bin"),
        }
        found = (await client.read_resource(f"{A}?lines=2-2"))[0]
        assert isinstance(found, TextResourceContents)
        assert (found.text, found.mime_type) == ("two\n", "text/plain")
        for uri in ("file:///docs/no.txt", "other://x"):
            with pytest.raises(MCPError, match=r"not found|Unknown resource"):
                await client.read_resource(uri)


async def test_templates_tools_and_prompts_are_offered_beside_those_of_the_server(
    folder: Path,
) -> None:
    mcp = serving(folder)

    @mcp.tool
    def own() -> str:
        return "mine"

    async with Client(mcp) as client:
        templates = {each.uri_template for each in await client.list_resource_templates()}
        assert "file:///docs/{+path}" in templates
        tools = {each.name: each for each in await client.list_tools()}
        assert {"own", "read_resource", "search_resources"} <= tools.keys()
        assert tools["read_resource"].input_schema["required"] == ["uri"]
        called = await client.call_tool("read_resource", {"uri": A})
        assert isinstance(called.content[0], TextContent)
        assert "two" in called.content[0].text
        with pytest.raises(ToolError):
            await client.call_tool("read_resource", {"uri": "file:///docs/no.txt"})
        assert (await client.call_tool("own", {})).data == "mine"
        assert [each.name for each in await client.list_prompts()] == ["greet"]
        prompt = await client.get_prompt("greet", {"who": "Ada"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert prompt.messages[0].content.text == "Greet Ada."


async def test_a_namespace_of_fastmcp_changes_addresses_and_reads_the_same(folder: Path) -> None:
    mcp = FastMCP("mine")
    mcp.add_provider(resource_server.fastmcp.provider(folder), namespace="ns")
    async with Client(mcp) as client:
        uris = [str(each.uri) for each in await client.list_resources()]
        (note,) = [uri for uri in uris if "docs" in uri and "txt" in uri]
        assert note != A
        found = (await client.read_resource(note))[0]
        assert isinstance(found, TextResourceContents)
        assert found.text == "one\ntwo\n"
        called = await client.call_tool("ns_read_resource", {"uri": A})
        assert isinstance(called.content[0], TextContent)


async def test_the_caller_of_a_request_sees_what_its_scopes_show(folder: Path) -> None:
    async with Client(serving(folder, caller=lambda: Caller("ada", frozenset()))) as client:
        assert not [each for each in await client.list_resources() if "staff" in str(each.uri)]
        with pytest.raises(MCPError, match=r"not found|Unknown resource"):
            await client.read_resource("file:///staff/b.bin")


def test_the_source_ends_with_the_lifespan_and_starts_again_in_another_loop(folder: Path) -> None:
    mcp = serving(folder)
    before = set(threading.enumerate())

    async def once() -> int:
        async with Client(mcp) as client:
            found = len(await client.list_resources())
        async with Client(mcp) as client:
            assert len(await client.list_resources()) == found
        return found

    assert [asyncio.run(once()) for _ in range(2)] == [6, 6]
    block_until(lambda: set(threading.enumerate()) <= before)


def test_a_wrong_manifest_is_refused_when_the_provider_is_made() -> None:
    with pytest.raises(ManifestError, match="unknown section"):
        resource_server.fastmcp.provider({"rots": {}})
