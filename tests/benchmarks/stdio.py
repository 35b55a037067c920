"""Reads and list pages over stdio: requests per second against the floor and the peers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import servers
from tests.benchmarks.client import Client, Json
from tests.benchmarks.table import Goal, interleaved, show

WINDOW = 16
GOALS_1 = [
    Goal(servers.FLOOR, ">=", 0.9),
    Goal(servers.EVERYTHING, ">=", 2),
    Goal(servers.SDK, ">=", 6),
]
GOALS_16 = [
    Goal(servers.FLOOR, ">=", 0.9),
    Goal(servers.EVERYTHING, ">=", 2),
    Goal(servers.SDK, ">=", 20),
]


def run(*, quick: bool) -> None:
    """Print requests per second, one at a time and with 16 in flight."""
    seconds, rounds = (0.2, 3) if quick else (0.5, 7)
    with tempfile.TemporaryDirectory() as scratch:
        for size, label in ((1_000, "1 KB"), (100_000, "100 KB")):
            _reads(Path(scratch) / f"read{size}", size, label, seconds, rounds)
        for length in (100, 1_000):
            _lists(Path(scratch) / f"list{length}", length, seconds, rounds)


def _reads(folder: Path, size: int, label: str, seconds: float, rounds: int) -> None:
    folder.mkdir()
    text = "".join(f'{line:06} plain "quoted" text, as in a source file\n' for line in range(size))
    text = text[:size]
    (folder / "document.txt").write_text(text, "utf-8")
    uri = f"file:///{folder.name}/document.txt"
    commands = {
        servers.OURS: servers.ours(folder),
        servers.FLOOR: servers.floor(folder),
        servers.SDK: servers.sdk(folder),
    }
    small = size <= 1_000
    with ExitStack() as stack:
        clients = {name: stack.enter_context(Client(line)) for name, line in commands.items()}
        calls = {name: (client, {"uri": uri}) for name, client in clients.items()}
        for name, client in clients.items():
            _check_text(name, client.request("resources/read", uri=uri), text)
        command = servers.node(servers.EVERYTHING, "stdio")
        if small and command:
            client = stack.enter_context(Client(command))
            calls[servers.EVERYTHING] = (client, {"uri": servers.EVERYTHING_TEXT})
        goals = {1: GOALS_1, WINDOW: GOALS_16} if small else {}
        for window, title in ((1, "one at a time"), (WINDOW, f"{WINDOW} in flight")):
            measures = {
                name: _rate(client, "resources/read", params, window, seconds)
                for name, (client, params) in calls.items()
            }
            show(
                f"resources/read, {label} text, {title}",
                "requests/s",
                interleaved(measures, rounds),
                goals.get(window, [Goal(servers.FLOOR, ">=", 0.9)]),
            )


def _lists(folder: Path, length: int, seconds: float, rounds: int) -> None:
    folder.mkdir()
    for number in range(length):
        (folder / f"module_{number:05}.py").write_text("x = 1\n" * (number % 50), "utf-8")
    manifest = folder.with_suffix(".yaml")
    manifest.write_text(
        f"version: 1\n"
        f"server: {{page_size: {length}}}\n"
        f"roots: {{{folder.name}: {{path: {folder}}}}}\n",
        "utf-8",
    )
    commands = {
        servers.OURS: servers.ours(manifest),
        servers.FLOOR: servers.floor(folder),
        servers.SDK: servers.sdk(folder),
    }
    with ExitStack() as stack:
        clients = {name: stack.enter_context(Client(line)) for name, line in commands.items()}
        for name, client in clients.items():
            _check_page(name, client.request("resources/list"), length)
        for window, title in ((1, "one at a time"), (WINDOW, f"{WINDOW} in flight")):
            measures = {
                name: _rate(client, "resources/list", {}, window, seconds)
                for name, client in clients.items()
            }
            goals = [Goal(servers.FLOOR, ">=", 2 if length == 100 else 3)]
            show(
                f"resources/list, page of {length:,}, {title}",
                "requests/s",
                interleaved(measures, rounds),
                goals,
            )


def _rate(
    client: Client, method: str, params: Mapping[str, object], window: int, seconds: float
) -> Callable[[], float]:
    return lambda: client.rate(method, params, window=window, seconds=seconds)


def _check_text(name: str, result: Json, text: str) -> None:
    assert [content["text"] for content in result["contents"]] == [text], f"{name} is not the file"


def _check_page(name: str, result: Json, length: int) -> None:
    resources = result["resources"]
    assert len(resources) == length, f"{name} lists {len(resources)} resources"
    if name == servers.SDK:
        return
    for resource in resources:
        needed = {"uri", "name", "mimeType", "resourceType", "capabilities", "_meta"}
        if resource["resourceType"] == "document":
            needed.add("annotations")
        assert needed <= set(resource), f"{name}: {resource}"
