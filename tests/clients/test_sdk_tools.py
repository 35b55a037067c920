"""The official clients list and call tools, over both transports; they check structured results."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import session
from mcp_types import ImageContent, TextContent, ToolListChangedNotification

from tests.clients import typescript
from tests.clients.conftest import ROOT, TRANSPORTS, Reach
from tests.protocol.wire import EVERY, MODERN
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

NAMES = [
    "list_resources",
    "read_resource",
    "resource_metadata",
    "search_resources",
    "query_table",
    "customers",
    "query_database",
]
CONTENT_ONLY = ("read_resource", "query_table")
"""What is read comes as content only."""
MANIFEST = """
roots: {project: {path: project}}
databases:
  shop:
    url: sqlite:///shop.db
    sql: true
    queries:
      customers:
        sql: select name from customers where country = :country
        parameters: {country: {max_length: 2}}
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_resources", {}),
    ("list_resources", {"uri": "file:///project"}),
    ("read_resource", {"uri": "file:///project/tea.md"}),
    ("read_resource", {"uri": "file:///project/logo.png"}),
    ("read_resource", {"uri": "file:///project"}),
    ("resource_metadata", {"uri": "sqlite://shop/customers"}),
    ("search_resources", {"query": "darjeeling"}),
    ("query_table", {"uri": "sqlite://shop/customers", "where": {"country": "DE"}}),
    ("customers", {"country": "DE"}),
    ("query_database", {"sql": "select count(*) as n from customers"}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("read_resource", {"uri": "file:///project/none"}),
    ("read_resource", {"uri": 5}),
    ("customers", {"country": "DEU"}),
    ("customers", {}),
    ("query_table", {"uri": "sqlite://shop/customers", "sort": "nothing"}),
    ("query_database", {"sql": "delete from customers"}),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def make(top: Path) -> list[str]:
    """Return the command that serves a folder and a database; run it in the project's root."""
    (top / "project").mkdir()
    (top / "project" / "tea.md").write_text("# Tea\n\nOf darjeeling there is enough.\n")
    (top / "project" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    with sqlite3.connect(top / "shop.db") as shop:
        shop.execute("create table customers (id integer primary key, name, country)")
        shop.execute("insert into customers values (1, 'Ada', 'DE'), (2, 'Alan', 'GB')")
    shop.close()
    (top / "mcp-resources.yaml").write_text(MANIFEST)
    return [sys.executable, "-m", "resource_server", "serve", str(top)]


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return make(tmp_path_factory.mktemp("tools"))


def connect(target: list[str] | str, revision: str, **callbacks: Any) -> Client:
    mode = "auto" if revision in MODERN else "legacy"
    if isinstance(target, str):
        return Client(target, mode=mode, **callbacks)
    parameters = StdioServerParameters(command=target[0], args=target[1:], cwd=ROOT)
    return Client(parameters, mode=mode, **callbacks)


@pytest.fixture(params=EVERY)
def revision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param not in MODERN:
        monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", request.param)
    return str(request.param)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_python_client_calls_each_tool(
    offering: list[str], reach: Reach, transport: str, revision: str
) -> None:
    async with connect(reach(offering, transport), revision) as client:
        assert client.protocol_version == revision
        assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
        results = [await client.call_tool(name, arguments) for name, arguments in CALLS]
        assert not any(result.is_error for result in results)
        structured = [result.structured_content is not None for result in results]
        has_some = [name not in CONTENT_ONLY for name, _ in CALLS]
        assert structured == [each and revision >= "2025-06-18" for each in has_some]
        listed, _, read, picture, _, _, found, selected, queried, counted = (
            result.content for result in results
        )
        assert isinstance(listed[0], TextContent)
        assert "file:///project/" in listed[0].text
        assert isinstance(read[0], TextContent)
        assert read[0].text.startswith("# Tea\n")
        assert isinstance(picture[0], ImageContent)
        assert isinstance(found[0], TextContent)
        assert "3: Of darjeeling there is enough." in found[0].text
        assert "file:///project/tea.md (1)" in found[0].text
        assert isinstance(selected[0], TextContent)
        assert selected[0].text == "id,name,country\r\n1,Ada,DE\r\n"
        assert isinstance(queried[0], TextContent)
        assert "| Ada |" in queried[0].text
        assert isinstance(counted[0], TextContent)
        assert "| 2 |" in counted[0].text
        for name, arguments in REFUSED:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert isinstance(refused.content[0], TextContent)
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {})
        assert unknown.value.error.code == -32602


async def test_changed_tools_notify_the_client(
    tmp_path: Path, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", "2025-11-25")
    told = asyncio.Queue[object]()

    async def take(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.put_nowait(message)

    command = make(tmp_path)
    for transport in TRANSPORTS:
        (tmp_path / "mcp-resources.yaml").write_text(MANIFEST)
        target = reach(command, transport)
        async with connect(target, "2025-11-25", message_handler=take) as client:
            assert len((await client.list_tools()).tools) == len(NAMES)
            (tmp_path / "mcp-resources.yaml").write_text(MANIFEST + "tools: {queries: false}\n")
            await asyncio.wait_for(told.get(), PATIENCE_S)
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES[:5]


# -- TypeScript


@pytest.mark.deep
@typescript.NEEDS
@pytest.mark.parametrize(("kind", "transport", "asked_in"), typescript.cases(since="2024-11-05"))
def test_the_typescript_clients_call_each_tool(
    offering: list[str], reach: Reach, kind: str, transport: str, asked_in: str
) -> None:
    asked = {
        "client": kind,
        "revision": asked_in,
        "serving": reach(offering, transport),
        "calls": [*CALLS, *REFUSED],
    }
    seen = typescript.run("tools.mjs", asked)
    assert (seen["revision"], seen["tools"]) == (asked_in, NAMES)
    results = seen["results"]
    assert [bool(each.get("isError")) for each in results] == [False] * len(CALLS) + [True] * len(
        REFUSED
    )
    structured = ["structuredContent" in each for each in results[: len(CALLS)]]
    has_some = [name not in CONTENT_ONLY for name, _ in CALLS]
    assert structured == [each and asked_in >= "2025-06-18" for each in has_some]
    assert results[2]["content"][0]["text"].startswith("# Tea\n")
    assert results[3]["content"][0]["type"] == "image"
