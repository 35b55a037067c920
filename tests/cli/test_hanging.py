"""Plugins that hang, in the real program: what they hold up, and for how long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, connected

PATIENCE_S = 60.0

HASTY = """
from resource_server import catalog, mount
from resource_server.cli import main
mount.ENTER_S = catalog.PATIENCE_S = 1
main()
"""
PLUGIN = """
import asyncio
from contextlib import suppress
from resource_server.provider import Content, Resource

async def hang():
    await asyncio.Event().wait()

async def hang_on():
    while True:
        with suppress(asyncio.CancelledError):
            await hang()

async def nothing(): pass

class Mine:
    templates = ()
    async def __aenter__(self): await {enter}()
    async def __aexit__(self, *_): await {leave}()
    async def list(self, parent, *, after, limit):
        await {list}()
        return []
    def metadata(self, path):
        return Resource(path=path, name="x", type="document" if path else "collection")
    async def read(self, path, query):
        await {read}()
        return [Content("body")]
"""


def hanging(folder: Path, **where: str) -> Path:
    """Add to a folder a manifest with a root and a plugin, and say in which methods it hangs."""
    methods = dict.fromkeys(("enter", "leave", "list", "read"), "nothing") | where
    (folder / "mine.py").write_text(PLUGIN.format(**methods), "utf-8")
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text("roots:\n  r: {path: docs}\nproviders:\n  mine: {use: mine.py}\n", "utf-8")
    return folder


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own, with less patience than the program has."""
    return subprocess.run(
        [sys.executable, "-c", HASTY, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )


# -- in requests


def test_a_mount_that_does_not_start_keeps_no_other_from_being_listed(folder: Path) -> None:
    with connected(hanging(folder, enter="hang_on")) as client:
        # At once, whatever hangs.
        document = client.request("resources/read", uri="file:///r/guide.txt")
        assert document["result"]["contents"][0]["text"].startswith("one")
        result = client.request("resources/list")["result"]
        assert result["resources"][0]["uri"] == "file:///r"
        assert result["_meta"] == {"resource-server/unavailable": ["mine"]}
        assert "mount mine is unavailable: no answer within 10 s" in client.errors.next()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("enter", "mount mine is unavailable: no answer within 1 s"),
        ("list", "listing mount mine failed: no answer within 1 s"),
    ],
)
def test_a_listing_on_the_command_line_ends_without_the_mount_that_hangs(
    folder: Path, where: str, told: str
) -> None:
    done = run("list", hanging(folder, **{where: "hang"}))
    assert done.returncode == 1
    assert "file:///r/" in done.stdout
    assert done.stderr == f"resource-server: warning: {told}\n"
