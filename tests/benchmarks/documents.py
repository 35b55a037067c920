"""Documents as Markdown: how many a second, how soon the first one, and in how much memory."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks import corpus, servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, limit, show

TWO, ONE = "two workers", "one worker"
_FIRST_MS = 500.0
_WINDOWS = {TWO: 2, ONE: 1}
"""Requests at a time: a worker converts one document at a time."""


def run(*, quick: bool) -> None:
    """Print documents a second, beside markitdown on the same documents in the same minutes."""
    copies, rounds = (3, 2) if quick else (12, 3)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "documents"
        folder.mkdir()
        paths = corpus.write(folder, copies)
        count = copies * len(paths)
        rates, memory = _rates(folder, paths, rounds)
        peers = [servers.MARKITDOWN] if servers.MARKITDOWN in rates else []
        for name, goal in ((TWO, 6.0), (ONE, 3.0)):
            shown = {name: count / rates[name]} | {peer: count / rates[peer] for peer in peers}
            goals = [Goal(servers.MARKITDOWN, ">=", goal)]
            show(f"a mixed corpus of {count} documents, {name}", "a second", shown, goals)
        print("\nfirst document of a format, from the request to a new server")
        for suffix, each in paths.items():
            first = statistics.median(_first_ms(folder, each[0]) for _ in range(rounds))
            limit(suffix, first, _FIRST_MS, "ms")
        print("\nmost memory")
        for name, value in memory.items():
            limit(name, value, None, "MB")


def _rates(
    folder: Path, paths: Mapping[str, Sequence[Path]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median seconds of all documents, and the most memory of each process."""
    seconds: dict[str, list[float]] = {name: [] for name in _WINDOWS}
    memory: dict[str, float] = {}
    # As a folder is read: one format beside the other.
    mixed = [path for each in zip(*paths.values(), strict=True) for path in each]
    command = servers.markitdown(folder)
    with ExitStack() as stack:
        peer = None
        if command is not None:
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            peer = stack.enter_context(
                subprocess.Popen(command, stderr=subprocess.DEVNULL, **pipes)
            )
        for _ in range(rounds):
            for name, window in _WINDOWS.items():
                # A new server each time: it would remember what it has converted.
                with Client(servers.ours(folder)) as client:
                    _warm_up(client, folder)
                    begin = client.resident_mb()[0]
                    params = [_read(folder, path) for path in mixed]
                    seconds[name].append(client.together_s("resources/read", params, window=window))
                    workers = client.workers_mb()
                    memory["the server, before"] = begin
                    memory["the server, after"] = client.resident_mb()[1]
                    memory[f"its workers ({name})"] = sum(workers)
            if peer is not None and peer.stdin is not None and peer.stdout is not None:
                peer.stdin.write("\n")
                peer.stdin.flush()
                elapsed, resident = map(float, peer.stdout.readline().split())
                seconds.setdefault(servers.MARKITDOWN, []).append(elapsed)
                memory[servers.MARKITDOWN] = resident
        if peer is not None and peer.stdin is not None:
            peer.stdin.close()
    return {name: statistics.median(each) for name, each in seconds.items()}, memory


def _warm_up(client: Client, folder: Path) -> None:
    extra = folder / "warm"
    extra.mkdir(exist_ok=True)
    paths = [path for each in corpus.write(extra, 2).values() for path in each]
    client.together_s("resources/read", [_read(folder, path) for path in paths], window=2)


def _first_ms(folder: Path, path: Path) -> float:
    with Client(servers.ours(folder)) as client:
        return client.together_s("resources/read", [_read(folder, path)], window=1) * 1_000


def _read(folder: Path, path: Path) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    return {"uri": f"file:///{folder.name}/{name}?format=markdown"}
