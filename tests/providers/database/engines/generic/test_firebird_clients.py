"""Firebird as users have it: by the commands, and by the official client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextResourceContents

from tests.providers.database.engines.generic.test_engine import SLOW
from tests.providers.database.owners import owner_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.anyio, pytest.mark.deep]
COMMAND = [sys.executable, "-m", "resource_server"]


@pytest.fixture
async def shop(firebird_url: str) -> AsyncIterator[str]:
    async with owner_of(firebird_url) as owner:
        await owner.clear()
        await owner.run(
            "create table customers (id integer primary key, name varchar(50), password char(7))",
            "insert into customers values (1, 'Ada', 'hunter2')",
            "insert into customers values (2, 'Bo', null)",
        )
        yield firebird_url


def said(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr
    assert "masterkey" not in done.stdout + done.stderr
    return done.returncode, done.stdout


async def test_the_commands_serve_a_url_of_firebird(shop: str, tmp_path: Path) -> None:
    status, out = said(tmp_path, "list", shop)
    assert status == 0
    assert "firebird://it/customers/~rows" in out
    status, out = said(tmp_path, "read", shop, "firebird://it/customers/1")
    assert status == 0
    assert json.loads(out)["name"] == "Ada"
    _, out = said(tmp_path, "check", shop)
    assert "which Firebird does not tell here" in out
    assert "password" in out  # looks like a secret
    status, out = said(tmp_path, "init", shop)
    assert status == 0
    manifest = (tmp_path / "mcp-resources.yaml").read_text()
    assert "customers" in manifest
    assert "masterkey" not in manifest
    assert "${DATABASE_URL}" in manifest


async def test_a_command_ends_with_a_query_that_takes_too_long(shop: str, tmp_path: Path) -> None:
    (tmp_path / "mcp-resources.yaml").write_text(
        f"databases: {{it: {{url: '{shop}', limits: {{query_timeout: 0.5s}},"
        f' queries: {{slow: {{sql: "{SLOW}"}}}}}}}}'
    )
    status, out = said(tmp_path, "read", ".", "firebird://it/~query/slow")
    assert (status, out) == (1, "")


async def test_the_official_client_reads_rows_of_firebird(shop: str) -> None:
    parameters = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "serve", shop])
    async with Client(parameters) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert "firebird://it/customers/~rows" in listed
        uri = "firebird://it/customers/~rows?where.name.like=a%25&format=csv"
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        assert content.text == "id,name,password\r\n1,Ada,hunter2\r\n"
        called = await client.call_tool(
            "query_table", {"uri": "firebird://it/customers", "sort": ["-id"], "limit": 1}
        )
        assert "Bo" in str(called.content)
