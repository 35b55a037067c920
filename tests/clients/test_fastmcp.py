"""FastMCP's client talks to the server, in the older revisions and in the newest one."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError
from mcp_types import ResourceTemplateReference, TextContent, TextResourceContents

from tests.clients.conftest import ROOT, TEXT, TRANSPORTS, Reach, Target

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("mode", ["legacy", "auto"]),
    pytest.mark.parametrize("transport", TRANSPORTS),
]

README = "file:///project/docs/read%20me.md"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def connect(target: Target, mode: str, **handlers: Any) -> Client[Any]:
    if isinstance(target, str):
        return Client(target, mode=mode, **handlers)
    transport = StdioTransport(target[0], target[1:], cwd=str(ROOT), keep_alive=False)
    return Client(transport, mode=mode, **handlers)


async def test_resources_are_listed_completed_and_read(
    serving: list[str], listed: list[str], reach: Reach, transport: str, mode: str
) -> None:
    async with connect(reach(serving, transport), mode) as client:
        assert [str(each.uri) for each in await client.list_resources()] == listed
        (content,) = await client.read_resource(README)
        assert isinstance(content, TextResourceContents)
        assert content.text == TEXT
        template, *_ = await client.list_resource_templates()
        completed = await client.complete(
            ResourceTemplateReference(type="ref/resource", uri=template.uri_template),
            {"name": "path", "value": "docs/re"},
        )
        assert completed.values == ["docs/read me.md"]


async def test_what_is_missing_is_an_error(
    serving: list[str], reach: Reach, transport: str, mode: str
) -> None:
    async with connect(reach(serving, transport), mode) as client:
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("file:///project/docs/readme.md")
        with pytest.raises(ToolError, match=f"Did you mean {README}"):
            await client.call_tool("read_resource", {"uri": "file:///project/docs/read%20m.md"})


async def test_results_of_tools_are_objects_of_their_schema(
    serving: list[str], reach: Reach, transport: str, mode: str
) -> None:
    async with connect(reach(serving, transport), mode) as client:
        top = (await client.call_tool("list_resources", {})).data
        assert (top.base, top.items[-1]) == ("file:///project/", ["logo.png", 6])
        found = (await client.call_tool("search_resources", {"query": '"second line"'})).data
        assert (found.matches, found.base + found.files[0]["path"]) == (1, README)
        assert found.files[0]["lines"] == [[3, "second line"]]
        read = await client.call_tool("read_resource", {"uri": README, "lines": "1-1"})
        assert isinstance(read.content[0], TextContent)
        assert read.content[0].text == TEXT.splitlines(keepends=True)[0]


async def test_a_tool_asks_person_model_and_client(
    asking: list[str], reach: Reach, transport: str, mode: str
) -> None:
    answers = {"name": "Ada", "colour": "blue"}

    async def answer(_message: str, _type: object, params: Any, _context: object) -> object:
        return {name: answers[name] for name in params.requested_schema["properties"]}

    def think(*_: object) -> str:
        return "nothing"

    handlers = {
        "elicitation_handler": answer,
        "sampling_handler": think,
        "roots": ["file:///work"],
    }
    async with connect(reach(asking, transport), mode, **handlers) as client:
        (block,) = (await client.call_tool("survey", {})).content
        assert isinstance(block, TextContent)
        assert block.text == "Ada fastmcp-slim: nothing file:///work in blue"
