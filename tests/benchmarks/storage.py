"""Object storage on moto: reads and lists by the server beside botocore itself, in one run."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.benchmarks import servers
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, show
from tests.providers.object_storage.storage import ENVIRONMENT, running

OURS, BOTOCORE = "this server", "botocore"
_PAGE = 1000
_OBJECTS = 2 * _PAGE


def run(*, quick: bool) -> None:
    """Print what a read, a range and a page of a listing take."""
    count, rounds = (10, 3) if quick else (40, 7)
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as scratch, running(_OBJECTS, 10) as storage:
        bucket = storage.bucket({"1k.txt": "x" * 1000, "1m.txt": "x" * 1_000_000})
        manifest = Path(scratch) / "mcp-resources.yaml"
        roots = "".join(
            f"  {name}: {{path: 's3://{path}', endpoint: '{storage.endpoint}'}}\n"
            for name, path in (("few", bucket), ("many", "many"))
        )
        manifest.write_text(f"server: {{page_size: {_PAGE}}}\nroots:\n{roots}", "utf-8")
        with Client(servers.ours(manifest)) as client:

            def ours(method: str, path: str) -> Callable[[], object]:
                return lambda: client.request(method, uri=f"file:///{path}")

            get, list = storage.client.get_object, storage.client.list_objects_v2
            read, page = "resources/read", "resources/directory/read"
            pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
                "a read of 1 KB": (
                    ours(read, "few/1k.txt"),
                    lambda: get(Bucket=bucket, Key="1k.txt")["Body"].read(),
                ),
                "a read of 1 MB": (
                    ours(read, "few/1m.txt"),
                    lambda: get(Bucket=bucket, Key="1m.txt")["Body"].read(),
                ),
                "bytes 500,000 to 600,000 of it": (
                    ours(read, "few/1m.txt?bytes=500000-599999"),
                    lambda: get(Bucket=bucket, Key="1m.txt", Range="bytes=500000-599999")[
                        "Body"
                    ].read(),
                ),
                f"a page of {_PAGE:,} of {_OBJECTS:,} objects": (
                    ours(page, "many/"),
                    lambda: list(Bucket="many", Delimiter="/", MaxKeys=_PAGE),
                ),
            }
            for title, (mine, other) in pairs.items():
                calls = count // 10 if title.startswith("a page") else count
                measures = {OURS: partial(_ms, mine, calls), BOTOCORE: partial(_ms, other, calls)}
                # A range takes a second request, by which the encoding is known.
                goals = [Goal(BOTOCORE, "<=", 3 if title.startswith("bytes") else 1.5)]
                show(f"{title}, one at a time", "ms", interleaved(measures, rounds), goals)


def _ms(call: Callable[[], object], count: int) -> float:
    """Return how long a call takes, the median of some."""
    times: list[float] = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)
