"""From the start of the process to the result of `initialize`, with a folder as the source."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.benchmarks import servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, show

BARE = "python -c pass"


def run(*, quick: bool) -> None:
    """Print milliseconds until the server has answered `initialize`, and its memory then."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        (folder / "README.md").write_text("# Project\n", "utf-8")
        commands = {
            servers.OURS: servers.ours(folder),
            servers.FLOOR: servers.floor(folder),
            servers.SDK: servers.sdk(folder),
            servers.FILESYSTEM: servers.node(servers.FILESYSTEM, str(folder)),
            servers.EVERYTHING: servers.node(servers.EVERYTHING, "stdio"),
        }
        measures = {name: partial(_start, line) for name, line in commands.items() if line}
        rounds = 5 if quick else 15
        medians = interleaved({**measures, BARE: _bare}, rounds)
        show("process start to initialize", "ms", medians, [Goal(servers.FILESYSTEM, "<=", 0.5)])
        residents = {name: partial(_resident, line) for name, line in commands.items() if line}
        show("resident memory then", "MB", interleaved(residents, 1), [])


def _start(command: list[str]) -> float:
    with Client(command) as client:
        return client.startup_s * 1_000


def _resident(command: list[str]) -> float:
    with Client(command) as client:
        return client.resident_mb()[0]


def _bare() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begin) * 1_000
