"""The Inspector's command line judges the server: its resources, tool schemas and skills."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import ROOT, TEXT, TRANSPORTS, Reach, Target
from tests.clients.typescript import HERE, MODULES
from tests.providers.database.firebird_databases import empty_firebird_database
from tests.providers.database.owners import owner_of

INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NODE = MODULES / "node/bin/node"
"""It needs a newer Node than other clients do; npm brings it along."""
README = "file:///project/docs/read%20me.md"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(
        not (INSPECTOR.is_file() and NODE.is_file()),
        reason=f"not installed: npm install --no-package-lock --prefix {HERE.relative_to(ROOT)}",
    ),
    pytest.mark.parametrize("transport", TRANSPORTS),
]


@pytest.fixture(scope="module")
def example() -> list[str]:
    """The command that serves `examples/skills`; run it in the project's root."""
    return [sys.executable, "-m", "resource_server", "serve", "examples/skills"]


def remarks(target: Target, home: Path, method: str, *options: str) -> str:
    """Return what the Inspector remarks on the answer to a method."""
    return inspected(target, home, method, *options).stderr


def answer(target: Target, home: Path, method: str, *options: str) -> Any:
    """Return the answer to a method."""
    return json.loads(inspected(target, home, method, *options).stdout)


def inspected(
    target: Target, home: Path, method: str, *options: str
) -> subprocess.CompletedProcess[str]:
    where = [target, "--transport", "http"] if isinstance(target, str) else target
    return subprocess.run(
        [str(NODE), str(INSPECTOR), "--cli", *where, "--method", method, *options],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "HOME": str(home)},
        text=True,
        timeout=50,
        check=True,
    )


def test_resources_are_listed_and_read(
    serving: list[str], listed: list[str], reach: Reach, transport: str, tmp_path: Path
) -> None:
    target = reach(serving, transport)
    result = answer(target, tmp_path, "resources/list")
    assert [each["uri"] for each in result["resources"]] == listed
    result = answer(target, tmp_path, "resources/read", "--uri", README)
    assert result["contents"][0]["text"] == TEXT
    result = answer(target, tmp_path, "resources/templates/list")
    assert result["resourceTemplates"][0]["uriTemplate"] == "file:///project/{+path}"


@pytest.fixture(scope="session")
def customers() -> Generator[str]:
    """The URL of a database of Firebird; as long as the server that `reach` starts for it."""
    with empty_firebird_database() as url:
        asyncio.run(_make_customers(url))
        yield url


def test_rows_of_a_database_of_another_dialect_are_read(
    customers: str, reach: Reach, transport: str, tmp_path: Path
) -> None:
    target = reach([sys.executable, "-m", "resource_server", "serve", customers], transport)
    result = answer(target, tmp_path, "resources/list")
    assert "firebird://it/customers/~rows" in [each["uri"] for each in result["resources"]]
    result = answer(target, tmp_path, "resources/read", "--uri", "firebird://it/customers/1")
    assert json.loads(result["contents"][0]["text"]) == {"id": 1, "name": "Ada"}


async def _make_customers(url: str) -> None:
    async with owner_of(url) as owner:
        await owner.run(
            "create table customers (id integer primary key, name varchar(50))",
            "insert into customers values (1, 'Ada')",
        )


def test_tools_are_portable_and_answer(
    serving: list[str], reach: Reach, transport: str, tmp_path: Path
) -> None:
    target = reach(serving, transport)
    result = answer(target, tmp_path, "tools/list")
    assert [each["name"] for each in result["tools"]][:2] == ["list_resources", "read_resource"]
    assert remarks(target, tmp_path, "tools/list", "--strict") == ""
    chosen = ("--tool-name", "read_resource", "--tool-arg", f"uri={README}", "lines=1-1")
    result = answer(target, tmp_path, "tools/call", *chosen)
    assert result["content"][0]["text"] == TEXT.splitlines(keepends=True)[0]


def test_skills_are_verified(
    example: list[str], reach: Reach, transport: str, tmp_path: Path
) -> None:
    target = reach(example, transport)
    judged = remarks(target, tmp_path, "skills/list", "--verify", "--require-digests")
    assert judged == "Verified 2 skills and 4 files: no conformance errors.\n"
    result = answer(target, tmp_path, "resources/directory/read", "--uri", "skill://teashop")
    names = [each["name"] for each in result["resources"]]
    assert names == ["refunds", "stocktaking"]
