"""Reads with a record of them: requests per second against the same server without one."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.benchmarks import servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, show

WITHOUT, WITH = "without a record", "with a record"
GOALS = [Goal(WITHOUT, ">=", 0.5)]
WINDOWS = (1, 16)


def run(*, quick: bool) -> None:
    """Print requests per second over stdio, and what of them is recorded."""
    seconds, rounds = (0.2, 3) if quick else (0.5, 10)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        (folder / "docs").mkdir()
        for size in (1_000, 100_000):
            (folder / "docs" / f"{size}.txt").write_text("plain text\n" * (size // 11), "utf-8")
        clients: dict[str, Client] = {}
        for name, audit in ((WITH, "audit: {file: audit.jsonl}\n"), (WITHOUT, "")):
            manifest = folder / f"{len(clients)}.yaml"
            manifest.write_text(f"roots: {{docs: {{path: docs}}}}\n{audit}", "utf-8")
            clients[name] = stack.enter_context(Client(servers.ours(manifest)))
        for size, label in ((1_000, "1 KB"), (100_000, "100 KB")):
            params = {"uri": f"file:///docs/{size}.txt"}
            for window in WINDOWS:
                measures = {
                    name: partial(
                        client.rate, "resources/read", params, window=window, seconds=seconds
                    )
                    for name, client in clients.items()
                }
                title = f"read of {label} over stdio, {window} in flight"
                show(title, "requests/s", interleaved(measures, rounds), GOALS)
        files = folder.glob("audit.jsonl*")
        data = b"".join(each.read_bytes() for each in files)
        lines, dropped = data.count(b'"method"'), data.count(b'"dropped"')
        print(f"  {lines:,} lines of {len(data) // max(1, lines)} bytes, {dropped} gaps")
