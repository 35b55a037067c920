"""The programs of `examples/embedding`, run with the packages that are current."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client as FastMcpClient
from mcp import Client
from mcp_types import TextResourceContents

from tests.embedding.parents import behind_uvicorn

EXAMPLES = Path(__file__).parents[2] / "examples/embedding"
NOTE = "file:///notes/brewing.md"

pytestmark = pytest.mark.anyio


def ran(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name), run_name="example")


def test_every_example_has_less_than_twenty_lines() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert files
    for file in files:
        assert len(file.read_text("utf-8").splitlines()) < 20, file.name


def test_a_script_of_the_examples_reads_a_note_and_a_table() -> None:
    found = subprocess.run(
        [sys.executable, EXAMPLES / "script.py"], capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr) == (
        "# Brewing\nAssam 4.9\nDarjeeling 6.5\nSencha 7.8\n",
        "",
    )


async def test_a_server_of_fastmcp_has_its_tool_and_the_notes() -> None:
    async with FastMcpClient(ran("fastmcp_server.py")["mcp"]) as client:
        assert (await client.call_tool("steep", {"minutes": 3})).data == "ready in 3 minutes"
        assert NOTE in {str(each.uri) for each in await client.list_resources()}
        (found,) = await client.read_resource(NOTE)
        assert isinstance(found, TextResourceContents)
        assert found.text.startswith("# Brewing\n")


async def test_a_server_of_the_official_sdk_has_the_notes() -> None:
    app = ran("sdk_server.py")["app"]
    async with behind_uvicorn(app) as http, Client(f"{http.base_url}/mcp") as client:
        assert NOTE in {each.uri for each in (await client.list_resources()).resources}
        found = (await client.read_resource(NOTE)).contents[0]
        assert isinstance(found, TextResourceContents)
        assert found.text.startswith("# Brewing\n")


@pytest.mark.parametrize("name", ["starlette_app.py", "fastapi_app.py"])
async def test_an_application_of_the_examples_serves_the_notes_to_the_official_client(
    name: str,
) -> None:
    app = ran(name)["app"]
    async with behind_uvicorn(app) as http, Client(f"{http.base_url}/files/mcp") as client:
        listed = {each.uri for each in (await client.list_resources()).resources}
        assert {NOTE, "duckdb://prices/prices"} <= listed
        found = (await client.read_resource(NOTE)).contents[0]
        assert isinstance(found, TextResourceContents)
        assert found.text.startswith("# Brewing\n")
        if name == "fastapi_app.py":
            assert (await http.get("/hello")).json() == "hello"
