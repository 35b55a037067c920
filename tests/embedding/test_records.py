"""Reads through each mounting are recorded as those of the program itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import resource_server
from tests.audit.records import lines, verdict
from tests.embedding.parents import parent, text, within
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("reads-are-recorded")]

A = "file:///docs/a.txt"
RECENT = "activity://server/recent"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("one\n", "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots: {docs: {path: docs}}\naudit: {file: audit.jsonl, access: {scopes: [audit]}}\n"
    )
    return tmp_path


async def _recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the requests for the document, once there are any."""

    def found() -> list[dict[str, Any]]:
        return [each for each in lines(folder / "audit.jsonl") if each.get("uri") == A]

    await until(found)
    return found()


async def test_reads_of_a_mounted_application_are_recorded(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder / "mcp-resources.yaml"))
    async with within(app) as client:
        assert await text(client, "/files/mcp", A) == "one\n"
        (line,) = await _recorded(folder)
    assert (line["method"], line["decision"]) == ("resources/read", "served")
    assert line["client"]["address"] == "127.0.0.1"


async def test_reads_of_a_client_in_the_process_are_recorded(folder: Path) -> None:
    async with resource_server.connect(folder) as client:
        await client.read(A)
        # Whoever runs the process may read its record.
        await client.read(RECENT)
    (line,) = await _recorded(folder)
    assert line["decision"] == "served"
    assert verdict(folder / "audit.jsonl").problem is None


async def test_reads_through_fastmcp_are_recorded_and_their_activity_is_no_resource(
    folder: Path,
) -> None:
    fastmcp = pytest.importorskip("fastmcp", reason="not installed: FastMCP")
    mcp = fastmcp.FastMCP("mine")
    mcp.add_provider(resource_server.fastmcp.provider(folder))
    async with fastmcp.Client(mcp) as client:
        assert (await client.read_resource(A))[0].text == "one\n"
        with pytest.raises(Exception, match=r"(?i)not found|unknown"):
            await client.read_resource(RECENT)
        assert await _recorded(folder)


async def test_reads_through_the_sdk_are_recorded_and_their_activity_is_no_resource(
    folder: Path,
) -> None:
    from mcp import Client
    from mcp.server.lowlevel import Server

    server = Server("mine", **resource_server.sdk.handlers(folder))
    async with Client(server) as client:
        await client.read_resource(A)
        with pytest.raises(Exception, match=r"(?i)not found"):
            await client.read_resource(RECENT)
        assert await _recorded(folder)
