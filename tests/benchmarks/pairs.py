"""This checkout beside another commit of it: the same requests, in turns, as ratios of one run.

Both are started by this Python, so with the same libraries.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.benchmarks import orders, over_http, rows, servers, services
from tests.benchmarks.client import ROOT, Client
from tests.benchmarks.http_client import HttpClient
from tests.ports import free_port

GOAL = 0.97
"""The least share of the other commit's rate."""
WINDOWS = (1, 16)
_ROWS = 100_000
_REVISIONS = {"session": False, "2026-07-28": True}

Measure = Callable[[], float]
Pairs = Mapping[str, tuple[Measure, Measure]]
"""By what is asked: the rate of this checkout and of the other commit."""


def compare(commit: str, names: list[str], *, quick: bool) -> None:
    """Print each row of the named benchmarks: rates, their ratio, and its range over the rounds."""
    seconds, rounds = (0.2, 3) if quick else (0.5, 10)
    with tempfile.TemporaryDirectory() as scratch:
        before = Path(scratch) / "before"
        _check_out(commit, before)
        trees = (ROOT, before)
        print(f"  {'requests/s':<52}{'now':>10}{commit[:10]:>12}{'ratio':>8}  over the rounds")
        for name in names or _BENCHMARKS:
            folder = Path(scratch) / name
            folder.mkdir()
            _BENCHMARKS[name](folder, trees, seconds, rounds)


def _check_out(commit: str, folder: Path) -> None:
    archive = ["git", "archive", commit, "resource_server"]
    packed = subprocess.run(archive, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tree:
        tree.extractall(folder, filter="data")


def _stdio(folder: Path, trees: tuple[Path, Path], seconds: float, rounds: int) -> None:
    project, listed = folder / "project", folder / "listed"
    project.mkdir()
    listed.mkdir()
    line = 'a line of "quoted" text, as in a source file\n'
    for size in (1_000, 100_000):
        (project / f"{size}.txt").write_text((line * size)[:size], "utf-8")
    for number in range(1_000):
        (listed / f"module_{number:05}.py").write_text("x = 1\n" * (number % 50), "utf-8")
    asked: dict[str, tuple[Path, str, dict[str, object]]] = {
        f"read of {label}": (project, "resources/read", {"uri": f"file:///project/{size}.txt"})
        for size, label in ((1_000, "1 KB"), (100_000, "100 KB"))
    }
    for length in (100, 1_000):
        manifest = folder / f"page_of_{length}.yaml"
        manifest.write_text(
            f"version: 1\nserver: {{page_size: {length}}}\nroots: {{listed: {{path: {listed}}}}}\n"
        )
        asked[f"list, page of {length:,}"] = (manifest, "resources/list", {})
    for revision, modern in _REVISIONS.items():
        for what, (source, method, params) in asked.items():
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(Client(servers.ours(source), modern=modern, cwd=tree))
                    for tree in trees
                ]

                def rate(
                    client: Client,
                    window: int,
                    method: str = method,
                    params: Mapping[str, object] = params,
                ) -> Measure:
                    return partial(client.rate, method, params, window=window, seconds=seconds)

                now, before = clients
                pairs = {
                    f"stdio, {revision}, {what}, {window} in flight": (
                        rate(now, window),
                        rate(before, window),
                    )
                    for window in WINDOWS
                }
                _show(pairs, rounds)


def _http(folder: Path, trees: tuple[Path, Path], seconds: float, rounds: int) -> None:
    (folder / "document.txt").write_text("plain text, as in a source file\n" * 32, "utf-8")
    params = {"uri": f"file:///{folder.name}/document.txt"}
    with ExitStack() as stack:
        asked: dict[str, list[Measure]] = {"stateless": [], "in a session": []}
        for tree in trees:
            port = free_port()
            command = servers.ours_http(folder, port)
            client = stack.enter_context(HttpClient(command, port, cwd=tree))
            requests = (
                over_http.stateless("resources/read", **params),
                over_http.in_session(client, "resources/read", params),
            )
            for measures, request in zip(asked.values(), requests, strict=True):
                window = over_http.CONNECTIONS
                measures.append(partial(client.rate, request, window=window, seconds=seconds))
        _show(
            {f"HTTP, read of 1 KB, {what}": (now, was) for what, (now, was) in asked.items()},
            rounds,
        )


def _database(folder: Path, trees: tuple[Path, Path], seconds: float, rounds: int) -> None:
    with ExitStack() as stack:
        urls = {"SQLite": f"sqlite:///{folder}/shop.db"}
        for engine, service in (("PostgreSQL", services.postgres), ("MariaDB", services.mariadb)):
            if url := stack.enter_context(service()):
                urls[engine] = url
        for engine, url in urls.items():
            orders.make(url, _ROWS)
            source = orders.manifest(folder, url, limits={"max_rows": 1_000, "bytes": "4MiB"})
            with ExitStack() as clients:
                now, before = (
                    rows.Ours(
                        clients.enter_context(Client(servers.ours(source), cwd=tree)),
                        f"{orders.base(url)}orders",
                    )
                    for tree in trees
                )
                pairs: dict[str, tuple[Measure, Measure]] = {}
                for count, (what, _) in rows.READS.items():
                    for window in WINDOWS:
                        pairs[f"{engine}, {what}, {window} in flight"] = (
                            partial(now.rate, count, window=window, seconds=seconds),
                            partial(before.rate, count, window=window, seconds=seconds),
                        )
                _show(pairs, rounds)


def _show(pairs: Pairs, rounds: int) -> None:
    for what, both in pairs.items():
        rates: list[tuple[float, float]] = []
        for number in range(rounds):
            # Each is first in every other round.
            first = number % 2
            values = {turn: both[turn]() for turn in (first, 1 - first)}
            rates.append((values[0], values[1]))
        now, before = (statistics.median(values) for values in zip(*rates, strict=True))
        ratios = sorted(one / other for one, other in rates)
        ratio = statistics.median(ratios)
        print(
            f"  {what:<52}{now:>10,.0f}{before:>12,.0f}{ratio:>7.2f}x"
            f"  {ratios[0]:.2f} to {ratios[-1]:.2f}  {'met' if ratio >= GOAL else 'MISSED'}",
            flush=True,
        )


_BENCHMARKS = {"stdio": _stdio, "http": _http, "database": _database}
