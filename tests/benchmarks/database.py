"""Rows of databases beside peers, pages at depth, commits that are told, and large schemas.

Those of PostgreSQL and MariaDB where the servers that the tests use are running.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.benchmarks import commits, orders, questions, rows, servers, services
from tests.benchmarks.client import Client
from tests.benchmarks.table import Goal, interleaved, limit, show

WINDOW = 16
FIRST_PAGE = "first page"
PAGE = 100
STRIDE = 100_000
"""Rows of each page on the way to the depth."""
LARGE = "process start to a page of the list"
SMALL = "the same with one table"
REFLECTED = 100


def run(*, quick: bool) -> None:
    """Print rates, times of pages, latencies and losses, and what a large schema costs."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _reads(scratch / "shop.db", quick=quick)
        questions.show(scratch / "questions", quick=quick)
        _depths(scratch / "depths", quick=quick)
        commits.show(scratch / "commits", quick=quick)
        _schemas(scratch / "schemas", quick=quick)


# -- rows and pages


def _reads(database: Path, *, quick: bool) -> None:
    total, seconds, rounds = (100_000, 0.2, 3) if quick else (1_000_000, 0.4, 7)
    orders.make(f"sqlite:///{database}", total)
    with ExitStack() as stack:
        asked = rows.opened(database, stack)
        for count, (what, least) in rows.READS.items():
            given = asked[rows.RAW].rows(count)
            for name, each in asked.items():
                assert each.rows(count) == given, f"{name} gives other rows"
            for window, title in ((1, "one at a time"), (WINDOW, f"{WINDOW} in flight")):
                measures = {
                    name: partial(each.rate, count, window=window, seconds=seconds)
                    for name, each in asked.items()
                    if window == 1 or name != rows.RAW
                }
                show(
                    f"SQLite, {total:,} rows, {what}, {title}",
                    "requests/s",
                    interleaved(measures, rounds),
                    [Goal(servers.DBHUB, ">=", least)] if window == 1 else [],
                )


# -- pages at depth


def _depths(scratch: Path, *, quick: bool) -> None:
    scratch.mkdir()
    database = scratch / "shop.db"
    _depth("SQLite", scratch, f"sqlite:///{database}", quick=quick)
    database.unlink()
    for engine, service in (("PostgreSQL", services.postgres), ("MariaDB", services.mariadb)):
        with service() as url:
            if url is not None:
                _depth(engine, scratch, url, quick=quick)


def _depth(engine: str, scratch: Path, url: str, *, quick: bool) -> None:
    depth, seconds, rounds = (500_000, 0.1, 5) if quick else (5_000_000, 0.2, 15)
    # Behind the page at the depth there is another, as behind the first.
    orders.make(url, depth + 2 * PAGE)
    limits = {"max_rows": STRIDE, "bytes": "4MiB"}
    with Client(servers.ours(orders.manifest(scratch, url, limits=limits))) as client:
        pages = f"{orders.base(url)}orders/~rows"
        cursor = _walk(client, pages, depth)
        deep = f"depth {depth:,}"
        uris = {deep: f"{pages}?after={cursor}&limit={PAGE}", FIRST_PAGE: f"{pages}?limit={PAGE}"}
        for name, first in ((deep, orders.FIRST + depth), (FIRST_PAGE, orders.FIRST)):
            given = [row["id"] for row in _page(client, uris[name])["rows"]]
            assert given == list(range(first, first + PAGE)), f"{engine}: {name} begins elsewhere"
        measures = {name: partial(_time_ms, client, uri, seconds) for name, uri in uris.items()}
        medians = interleaved(measures, rounds)
        show(f"{engine}, page of {PAGE} at depth", "ms", medians, [Goal(FIRST_PAGE, "<=", 1.3)])


def _walk(client: Client, pages: str, depth: int) -> str:
    """Return the cursor behind so many rows, page by page as any client gets there."""
    uri, reached = f"{pages}?columns=id&limit={STRIDE}", 0
    while reached < depth:
        page = _page(client, uri)
        reached += len(page["rows"])
        uri = page["next"]
    assert reached == depth
    return rows.cursor_in(uri)


def _page(client: Client, uri: str) -> Any:
    (content,) = client.request("resources/read", uri=uri)["contents"]
    return json.loads(content["text"])


def _time_ms(client: Client, uri: str, seconds: float) -> float:
    return 1_000 / client.rate("resources/read", {"uri": uri}, window=1, seconds=seconds)


# -- large schemas


def _schemas(scratch: Path, *, quick: bool) -> None:
    scratch.mkdir()
    count, rounds = (1_000, 3) if quick else (10_000, 9)
    large, small = scratch / "large.db", scratch / "small.db"
    orders.run(f"sqlite:///{large}", "BEGIN", *_tables(count), "COMMIT")
    # One, so that it has to import as much.
    orders.run(f"sqlite:///{small}", *_tables(1))
    measures = {LARGE: partial(_listed_ms, large), SMALL: partial(_listed_ms, small)}
    medians = interleaved(measures, rounds)
    print(f"\nSQLite, {count:,} tables")
    limit(LARGE, medians[LARGE], None, "ms")
    limit(SMALL, medians[SMALL], None, "ms")
    limit("difference", medians[LARGE] - medians[SMALL], 300, "ms")
    asyncio.run(_reflect(SqliteEngine(large), 5))
    with services.postgres() as url:
        if url is not None:
            few = _tables(min(count, 1_000))
            orders.run(url, *few)
            print(f"\nPostgreSQL, {len(few):,} tables")
            asyncio.run(_reflect(PostgresEngine(url), 20))


def _tables(count: int) -> Sequence[str]:
    """Return what makes so many tables: each refers to the one before, as far as there is one."""
    return [
        f"CREATE TABLE t{number:05} (id integer PRIMARY KEY, name varchar(40) NOT NULL,"
        f" parent integer REFERENCES t{max(0, number - 1):05} (id), a text, b text, c text)"
        for number in range(count)
    ]


def _listed_ms(database: Path) -> float:
    """Return what it takes from the start of the process to its first page of the listing."""
    with Client(servers.ours(database)) as client:
        begin = time.perf_counter()
        client.request("resources/list")
        return (client.startup_s + time.perf_counter() - begin) * 1_000


async def _reflect(engine: Engine, most_ms: float) -> None:
    await engine.open()
    try:
        names = [info.name for info in await engine.tables()]
        times: list[float] = []
        for name in names[:: len(names) // REFLECTED]:
            begin = time.perf_counter()
            table = await engine.table(name)
            times.append((time.perf_counter() - begin) * 1_000)
            assert len(table.columns) == 6
    finally:
        await engine.close()
    limit("one table reflected, p50", statistics.median(times), most_ms, "ms")
    limit("the slowest of them", max(times), None, "ms")
