"""Plugins that hang, in the real program: which requests wait, and when the process ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from resource_server.cli import runner
from resource_server.runtime.timing import Timing
from tests.cli.conftest import (
    INITIALIZE,
    ROOT,
    connected,
    json_lines,
    started,
    wait_for,
    with_plugin,
)
from tests.commands import command
from tests.waiting import PATIENCE_S

HASTY = Timing(mount_start_s=1, listing_s=1, mount_close_s=1)
PLUGIN = """
import asyncio, sys
from contextlib import suppress
from resource_server.provider import Content, Resource

async def hang():
    print("hanging", file=sys.stderr, flush=True)
    await asyncio.Event().wait()

async def hang_on():
    while True:
        with suppress(asyncio.CancelledError):
            await hang()

async def hang_in_another():
    asyncio.create_task(hang_on())

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
    """Write a manifest with a root and a plugin that hangs in some methods; return the folder."""
    methods = dict.fromkeys(("enter", "leave", "list", "read"), "nothing") | where
    (folder / "mine.py").write_text(PLUGIN.format(**methods), "utf-8")
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text("roots:\n  r: {path: docs}\nproviders:\n  mine: {use: mine.py}\n", "utf-8")
    return folder


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command line in its own process, with shorter timeouts."""
    return subprocess.run(
        [*command(HASTY), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )


# -- in requests


def test_a_mount_that_does_not_start_does_not_block_the_listing_of_others(folder: Path) -> None:
    with connected(hanging(folder, enter="hang_on"), timing=HASTY) as client:
        # At once, whatever hangs.
        document = client.request("resources/read", uri="file:///r/guide.txt")
        assert document["result"]["contents"][0]["text"].startswith("one")
        result = client.request("resources/list")["result"]
        assert result["resources"][0]["uri"] == "file:///r"
        assert result["_meta"] == {"resource-server/unavailable": ["mine"]}
        told = client.errors.until("mount")[-1]
        assert "mount mine is unavailable: no answer within 1 s" in told


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("enter", "mount mine is unavailable: no answer within 1 s"),
        ("list", "listing mount mine failed: no answer within 1 s"),
    ],
)
def test_a_listing_ends_without_a_hanging_mount(folder: Path, where: str, told: str) -> None:
    done = run("list", hanging(folder, **{where: "hang_on"}))
    assert done.returncode == 1
    assert "file:///r/" in done.stdout
    assert f"resource-server: warning: {told}\n" in done.stderr


# -- at the end


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("enter", "hang_on"),
        ("list", "hang_on"),
        ("read", "hang_on"),
        ("read", "hang_in_another"),
        ("leave", "hang"),
        ("leave", "hang_on"),
    ],
)
def test_end_of_input_ends_the_process_despite_a_hanging_mount(
    folder: Path, where: str, how: str
) -> None:
    with connected(hanging(folder, **{where: how}), timing=HASTY) as client:
        client.send("resources/read", uri="resource://mine/x")
        client.send("resources/list", uri="resource://mine/")
        if where != "leave":
            client.errors.until("hanging")
        told = [line for line in client.end() if line != "hanging"]
    about = "resource-server: warning: mount mine "
    assert all(line.startswith(about) for line in told)
    late = f"{about}did not close cleanly: no answer within 1 s"
    assert (late in told) == (where == "leave")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_while_a_mount_hangs(
    folder: Path, number: signal.Signals
) -> None:
    with connected(hanging(folder, leave="hang_on")) as client:
        client.request("resources/read", uri="resource://mine/x")
        client.process.send_signal(number)
        client.errors.until("hanging")
        client.process.send_signal(number)
        assert client.process.wait(PATIENCE_S) == 130
        assert set(client.errors.rest()) <= {"hanging", ""}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_over_http_too(
    folder: Path, number: signal.Signals
) -> None:
    with started("serve", hanging(folder, leave="hang_on"), "--http", "127.0.0.1:0") as (
        process,
        errors,
    ):
        assert "serving at" in errors.readline()
        process.send_signal(number)
        wait_for("hanging", errors)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("how", ["hang", "hang_on"])
def test_a_mount_that_hangs_on_exit_does_not_fail_a_completed_read(folder: Path, how: str) -> None:
    done = run("read", hanging(folder, leave=how), "resource://mine/x")
    assert (done.returncode, done.stdout.strip()) == (0, "body")
    told = [line for line in done.stderr.splitlines() if line != "hanging"]
    late = "mount mine did not close cleanly: no answer within 1 s"
    assert told == [f"resource-server: warning: {late}"]


def test_a_hanging_thread_does_not_keep_the_process(folder: Path) -> None:
    read = {"id": 2, "method": "resources/read", "params": {"uri": "resource://mine/x"}}
    source = with_plugin(folder)
    with started("serve", source, stdin=subprocess.PIPE) as (process, errors):
        assert process.stdin is not None
        process.stdin.write(json_lines(INITIALIZE, read))
        process.stdin.flush()
        wait_for("hanging", errors)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_command_despite_a_hanging_thread(folder: Path) -> None:
    with started("read", with_plugin(folder), "resource://mine/x") as (process, errors):
        wait_for("hanging", errors)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert errors.read().strip() == ""


def test_an_idle_thread_of_the_default_executor_is_not_waited_for() -> None:
    async def work() -> int:
        return await asyncio.to_thread(int)

    before = set(threading.enumerate())
    assert runner.run(work()) == 0
    assert set(threading.enumerate()) <= before
