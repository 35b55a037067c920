"""`uninstall`: which of the entries of a host it removes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.homes import failing, put


def test_uninstall_asks_for_a_name_where_there_are_several(run: Run, home: Path) -> None:
    uninstall = ("uninstall", "cursor", "--yes")
    assert failing(run, home, *uninstall) == "~/.cursor/mcp.json: has no entry of this program"
    for name in "a", "b":
        assert run("install", "cursor", "--name", name, "--yes").status == 0
    assert failing(run, home, *uninstall) == "~/.cursor/mcp.json: has a, b; --name chooses one"
    assert run(*uninstall, "--name", "a").status == 0
    assert run(*uninstall).status == 0


def test_an_entry_with_a_url_is_removed_by_that_url_only(run: Run, home: Path) -> None:
    url = "http://127.0.0.1:8000/mcp"
    file = put(home, "cursor", json.dumps({"mcpServers": {"a": {"url": url}, "b": {"url": "x"}}}))
    uninstall = ("uninstall", "cursor", "--yes")
    for arguments, reason in (
        ((), "has no entry of this program"),
        (("--name", "a"), "'a' does not start this program, so it stays; --http URL removes"),
        (("--http", url + "/"), "has no entry of this program"),
        (("--http", url, "--name", "b"), "'b' does not start this program"),
        (("--http", url, "--name", "c"), "has a; --name chooses one"),
    ):
        assert reason in failing(run, home, *uninstall, *arguments)
    assert run(*uninstall, "--http", url).status == 0
    assert json.loads(file.read_text()) == {"mcpServers": {"b": {"url": "x"}}}
