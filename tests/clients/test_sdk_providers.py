"""The official Python client reads what providers made from functions serve, in a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextResourceContents

from tests.plugins.test_git import commit, git

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

MODULE = """
from resource_server.provider.simple import document, documents, template

@documents(refresh=0.05)
def notes(folder: str):
    import pathlib
    return {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}

@document("today.md")
def today():
    return "# Today"

@template("issues/{number}")
def issue(number: int):
    return {"number": number} if number < 9 else None
"""


async def test_the_client_reads_functions_a_feed_and_a_repository(tmp_path: Path) -> None:
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary/a.md").write_text("one")
    (tmp_path / "feed.jsonl").write_text('{"id": 7}\n{"id": 8}\n')
    (tmp_path / "simple.py").write_text(MODULE)
    git(tmp_path, "init", "-q", "-b", "main", "project")
    (tmp_path / "project/README.md").write_text("# One\n")
    commit(tmp_path / "project", "One")
    plugins = ROOT / "plugins"
    (tmp_path / "mcp-resources.yaml").write_text(f"""
version: 1
providers:
  notes: {{use: "simple.py:notes", uri: "notes://x/", folder: {tmp_path}/diary}}
  today: {{use: "simple.py:today", uri: "today://x/"}}
  issue: {{use: "simple.py:issue", uri: "issue://x/"}}
  feed: {{use: {plugins}/feed.py, uri: "feed://x/", file: feed.jsonl}}
  git: {{use: {plugins}/git.py, uri: "git://x/", repository: project}}
""")
    command = ["-m", "resource_server", "serve", str(tmp_path)]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)
    async with Client(server) as connected:

        async def text(uri: str) -> str:
            [content] = (await connected.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            return content.text

        assert await text("notes://x/a.md") == "one"
        assert await text("today://x/today.md") == "# Today"
        assert '"number": 7' in await text("issue://x/issues/7")
        assert '"id": 8' in await text("feed://x/8.json")
        assert await text("git://x/branches/main/README.md") == "# One\n"
        with pytest.raises(MCPError, match="not found"):
            await text("issue://x/issues/9")
        listed = {str(each.uri) for each in (await connected.list_resources()).resources}
        assert {"notes://x", "notes://x/a.md", "feed://x/7.json"} <= listed
