"""From the start of the process to the result of `initialize`, measured from outside."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.benchmarks import servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, show

BARE = "python -c pass"
ROOT = Path(__file__).parents[2]
UVX = "uvx --from ."
MANIFEST, DATABASE = "a manifest with one root", "a SQLite file"


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
        _other_sources(Path(scratch), measures.get(servers.FILESYSTEM), rounds)
        _by_uvx(folder, rounds)


def _other_sources(scratch: Path, peer: Callable[[], float] | None, rounds: int) -> None:
    manifest, database = scratch / "manifest.yaml", scratch / "shop.sqlite"
    manifest.write_text("roots:\n  project:\n    path: project\n", "utf-8")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table orders (id integer primary key, note text)")
    peers = {servers.FILESYSTEM: peer} if peer is not None else {}
    for name, source, ratio in ((MANIFEST, manifest, 0.6), (DATABASE, database, 0.55)):
        ours = {name: partial(_start, servers.ours(source))}
        medians = interleaved({**ours, **peers}, rounds)
        goals = [Goal(servers.FILESYSTEM, "<=", ratio)]
        show(f"process start to initialize, {name}", "ms", medians, goals)


def _by_uvx(folder: Path, rounds: int) -> None:
    """Print what `uvx --from .` adds, once its environment is in the cache."""
    uvx = shutil.which("uvx")
    if uvx is None:
        print("\nuvx: not installed")
        return
    line = [uvx, "--from", str(ROOT), "resource-server", "serve", str(folder)]
    _start(line)
    starts = {servers.OURS: partial(_start, servers.ours(folder)), UVX: partial(_start, line)}
    show("process start to initialize, by uvx", "ms", interleaved(starts, rounds), [])


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
