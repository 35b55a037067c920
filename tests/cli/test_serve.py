from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import (
    INITIALIZE,
    ROOT,
    json_lines,
    serve,
    serve_command,
    started,
    with_plugin,
)
from tests.waiting import PATIENCE_S

# Loaded by no source, up to the answer to `initialize`: each would delay it.
LATER = {
    "aiosqlite",
    "anyio",
    "difflib",
    "magic",
    "pathspec",
    "pybase64",
    "pydantic",
    "re2",
    "resource_server.providers.database.queries.policy_rewrite",
    "resource_server.runtime.installation",
    "sqlalchemy",
    "sysconfig",
}


def test_a_folder_is_served_until_end_of_input(folder: Path) -> None:
    status, answers, errors = serve(folder)
    assert (status, errors) == (0, "")
    assert answers[0]["result"]["serverInfo"]["name"] == "resource-server"
    assert len(answers[1]["result"]["resources"]) == 7


@pytest.mark.parametrize("source", ["", "manifest.yaml", "shop.db"])
def test_serving_loads_no_unneeded_modules(tmp_path: Path, source: str) -> None:
    (tmp_path / "manifest.yaml").write_text("roots: {project: {path: .}}\n", "utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("create table orders (id integer primary key)")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *serve_command(tmp_path / source)[1:]],
        input=json_lines(INITIALIZE),
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        check=True,
    )
    loaded = set(re.findall(r"^import time:.*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert {"msgspec", "resource_server.serving.server_builder"} <= loaded
    unneeded = LATER & loaded
    assert not unneeded


def test_an_unusable_manifest_is_status_2(tmp_path: Path) -> None:
    manifest = tmp_path / "x.yaml"
    manifest.write_text("rotos: {}\n", "utf-8")
    status, answers, errors = serve(manifest)
    assert (status, answers) == (2, [])
    assert errors.startswith(f"{manifest}:1:1: rotos: ")
    assert "Traceback" not in errors


def test_a_mount_that_cannot_start_is_reported_and_the_others_serve(folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "server: {name: acme, title: Acme}\nroots:\n  r: {path: docs}\n  gone: {path: no}\n",
        "utf-8",
    )
    status, answers, errors = serve(folder)
    assert status == 0
    assert answers[0]["result"]["serverInfo"]["name"] == "acme"
    assert answers[1]["result"]["resources"][0]["uri"] == "file:///r"
    assert errors.startswith("resource-server: warning: mount gone is unavailable: ")
    assert errors.count("\n") == 1


def test_strict_refuses_to_serve_without_a_mount(folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  r: {path: docs}\n  gone: {path: no}\n", "utf-8"
    )
    status, answers, errors = serve("--strict", folder)
    assert (status, answers) == (1, [])
    assert "mount gone is unavailable" in errors
    assert errors.endswith("resource-server: refused to serve without gone\n")


def test_output_printed_by_a_plugin_never_reaches_the_client(folder: Path) -> None:
    status, answers, errors = serve(with_plugin(folder))
    assert (status, [answer["id"] for answer in answers]) == (0, [1, 2])
    assert errors.count("imported\n") == 2
    assert "entered\n" in errors


def test_a_slow_mount_does_not_delay_initialize(folder: Path) -> None:
    with_plugin(folder, enter="await __import__('anyio').sleep_forever()")
    status, answers, _ = serve(folder, messages=(INITIALIZE,))
    assert (status, answers[0]["id"]) == (0, 1)


CANCELLED = """
import asyncio
from resource_server.provider import Resource

class Mine:
    templates = ()
    async def list(self, parent, *, after, limit):
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task
    def metadata(self, path): return Resource(path=path, name="x", type="collection")
    def read(self, path, query): return []
"""


def test_a_cancelled_task_of_a_plugin_affects_no_other_mount(folder: Path) -> None:
    (with_plugin(folder) / "mine.py").write_text(CANCELLED, "utf-8")
    status, answers, errors = serve(folder)
    result = answers[1]["result"]
    assert (status, result["resources"][0]["uri"]) == (0, "file:///r")
    assert result["_meta"] == {"resource-server/unavailable": ["mine"]}
    assert "listing mount mine failed: CancelledError" in errors


def test_at_a_terminal_serve_explains_how_to_configure_a_client(folder: Path) -> None:
    terminal, end = pty.openpty()
    with started("serve", folder, stdin=end, stdout=end) as (process, errors):
        os.close(end)
        told = [errors.readline() for _ in range(5)]
        os.write(terminal, b"\x04")
        assert process.wait(PATIENCE_S) == 0
        assert errors.read() == ""
    os.close(terminal)
    assert told[0] == "resource-server: serving file:///project/ to an MCP client; Ctrl-D ends\n"
    assert told[2:4] == [
        f"  resource-server install HOST {folder}\n",
        f"  resource-server list {folder}\n",
    ]
    config = json.loads(told[4][told[4].index("{") :])
    assert config == {"command": "resource-server", "args": ["serve", str(folder)]}


def test_database_passwords_are_never_printed() -> None:
    terminal, end = pty.openpty()
    url = "postgresql+asyncpg://me:topsecret@127.0.0.1:1/db?password=topsecret"
    with started("serve", url, stdin=end, stdout=end) as (process, errors):
        os.close(end)
        told = errors.readline()
        os.write(terminal, b"\x04")
        assert process.wait(PATIENCE_S) == 0
        told += errors.read()
    os.close(terminal)
    assert "serving postgresql://db/ to an MCP client" in told
    assert "postgresql+asyncpg://…@127.0.0.1:1/db" in told
    assert "topsecret" not in told
