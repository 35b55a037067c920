"""Reads that leave nothing behind, and are right beside writers that come at any moment.

Case: Databases 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from resource_server.errors import ResourceBusy
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.providers.database.sqlite_databases import (
    PATIENCE_S,
    contents,
    opened,
    queried,
    rows,
    write,
)
from tests.waiting import connection_threads, pause

pytestmark = pytest.mark.anyio

TABLE = """
PRAGMA journal_mode = WAL;
CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, filler TEXT);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000)
INSERT INTO t SELECT x, 0, printf('%0300d', x) FROM c;
"""
"""About a hundred pages, which each commit of a writer changes."""

WRITER = """
import os, random, sqlite3, sys, time
path, seed = sys.argv[1:]
chance = random.Random(int(seed))
number = 0
while True:
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    database.execute(f"PRAGMA wal_autocheckpoint = {chance.choice((1, 10, 1000))}")
    database.execute(f"PRAGMA synchronous = {chance.choice(('OFF', 'NORMAL', 'FULL'))}")
    for _ in range(chance.randrange(5)):
        number += 1
        database.execute("UPDATE t SET n = ?", (number,))
        print(number, flush=True)
        time.sleep(chance.choice((0, 0, 0.001, 0.02)))
        if chance.random() < 0.1:
            database.execute(f"PRAGMA wal_checkpoint({chance.choice(('TRUNCATE', 'FULL'))})")
        if chance.random() < 0.05:
            database.execute("VACUUM")
    database.close()
    time.sleep(chance.choice((0, 0.001, 0.01, 0.1, 0.2)))
"""
"""Opens and closes a file at random moments; tells of each commit after it."""


class Writer:
    """That program, and the number of its last commit."""

    def __init__(self, path: Path, seed: int) -> None:
        self.committed = 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(seed)], stdout=subprocess.PIPE
        )

    async def follow(self) -> None:
        assert self.process.stdout is not None
        out: IO[bytes] = self.process.stdout
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), out)
        while line := await reader.readline():
            self.committed = int(line)


@contextmanager
def writing(path: Path, seed: int) -> Generator[Writer]:
    writer = Writer(path, seed)
    try:
        yield writer
    finally:
        writer.process.kill()
        writer.process.wait()


ALL = "SELECT id, n FROM t ORDER BY id"
SUMMARY = "SELECT min(n), max(n), count(*), total(length(filler)) FROM t"


@pytest.mark.deep
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
async def test_reads_beside_writers_that_come_and_go_are_whole_and_current(
    tmp_path: Path, journal: str
) -> None:
    path = write(tmp_path / "n.db", TABLE.replace("WAL", journal))
    seed = int(os.environ.get("STRESS_SEED", "0")) or time.monotonic_ns() % 10**6
    chance = random.Random(seed)  # noqa: S311
    reads = 0

    async def by_key(engine: SqliteEngine) -> tuple[int, int]:
        ((number,),) = await rows(engine, "SELECT n FROM t WHERE id = ?", chance.randrange(1, 1001))
        return int(str(number)), int(str(number))

    async def page(engine: SqliteEngine) -> tuple[int, int]:
        found = await engine.run_own(Statement(ALL, ()), limit=1000, within=PATIENCE_S)
        numbers = [int(str(number)) for _, number in found.rows]
        assert len(numbers) == 1000
        return min(numbers), max(numbers)

    async def aggregate(engine: SqliteEngine) -> tuple[int, int]:
        ((low, high, count, length),) = await queried(engine, SUMMARY)
        assert (count, length) == (1000, 300_000)
        return int(str(low)), int(str(high))

    async def read(engine: SqliteEngine, writer: Writer, until: float) -> None:
        nonlocal reads
        while time.monotonic() < until:
            committed = writer.committed
            try:
                low, high = await chance.choice((by_key, by_key, page, aggregate))(engine)
            except ResourceBusy:  # by a lock, or by so many writers within one statement
                continue
            assert low == high, f"a torn read, seed {seed}"
            assert low >= committed, f"a stale read, seed {seed}"
            reads += 1
            await pause(chance.choice((0, 0, 0.001)))

    with writing(path, seed) as writer:
        follow = asyncio.create_task(writer.follow())
        until = time.monotonic() + float(os.environ.get("STRESS_S", "4"))
        while time.monotonic() < until or writer.committed <= 10 or reads <= 100:
            some = time.monotonic() + chance.choice((0.1, 0.5, 1.0))
            # Unlike `gather`, it leaves no read behind.
            async with opened(path) as engine, asyncio.TaskGroup() as readers:
                for _ in range(3):
                    readers.create_task(read(engine, writer, some))
        follow.cancel()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


TWICE = """
SELECT (SELECT sum(n) FROM big),
  (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000000)
   SELECT count(*) FROM c),
  (SELECT sum(n) FROM big)
"""
"""Reads more pages than SQLite keeps, and again half a second later."""


@pytest.mark.deep
async def test_a_statement_during_which_writers_come_and_go_reads_one_state(
    tmp_path: Path,
) -> None:
    big = TABLE + "CREATE TABLE big AS SELECT a.id, 0 AS n, a.filler FROM t a, t b WHERE b.id < 21;"
    path = write(tmp_path / "n.db", big)
    change = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); "
    change += "d.execute('UPDATE big SET n = n + 1'); d.commit(); d.close()"
    written = 0
    async with opened(path) as engine:
        await queried(engine, "SELECT 1")
        reading = asyncio.create_task(queried(engine, TWICE))
        while not reading.done():
            writer = await asyncio.create_subprocess_exec(sys.executable, "-c", change, path)
            assert await writer.wait() == 0
            written += 1
        ((before, _, after),) = await reading
        assert before == after
        assert await queried(engine, "SELECT sum(n) FROM big") == [(20_000 * written,)]


async def test_a_clean_database_is_read_without_a_log_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "n.db", TABLE)
    before = contents(tmp_path)
    async with opened(path) as engine:
        assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(0,)]
        assert await queried(engine, "SELECT count(*) FROM t") == [(1000,)]
        assert contents(tmp_path) == before
    assert contents(tmp_path) == before


async def test_a_log_that_is_kept_by_reads_is_removed_with_the_last_of_them(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "n.db", TABLE)
    async with opened(path) as engine:
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("UPDATE t SET n = 1")
            assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(1,)]
        assert await rows(engine, "SELECT n FROM t WHERE id = 6") == [(1,)]
    assert set(contents(tmp_path)) == {"n.db"}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute(SUMMARY).fetchall() == [(1, 1, 1000, 300000.0)]


async def test_the_log_of_a_program_that_crashed_is_read_and_left(tmp_path: Path) -> None:
    path = write(tmp_path / "live.db", TABLE)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("UPDATE t SET n = 1")
        for name in ("n.db", "n.db-wal"):
            (tmp_path / name).write_bytes((tmp_path / name.replace("n.", "live.")).read_bytes())
    before = contents(tmp_path)
    async with opened(tmp_path / "n.db") as engine:
        assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(1,)]
    after = contents(tmp_path)
    after.pop("n.db-shm", None)
    assert after == before


async def test_a_database_behind_a_link_has_its_log_beside_the_target(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / "n.db", TABLE)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with opened(link) as engine:
        assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(0,)]
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("UPDATE t SET n = 1")
            assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(1,)]
        write(tmp_path / "other.db", TABLE + "UPDATE t SET n = 7;")
        link.unlink()
        link.symlink_to("other.db")
        assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(7,)]


@pytest.mark.parametrize("to", ["DELETE", "WAL"])
async def test_a_change_of_the_journal_mode_is_noticed(tmp_path: Path, to: str) -> None:
    path = write(tmp_path / "n.db", TABLE.replace("WAL", "WAL" if to == "DELETE" else "DELETE"))
    async with opened(path) as engine:
        for number in range(1, 5):
            mode = to if number % 2 else ("WAL" if to == "DELETE" else "DELETE")
            with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as writer:
                try:
                    writer.execute(f"PRAGMA journal_mode = {mode}")
                except sqlite3.OperationalError:
                    assert (number, to) != (1, "DELETE")  # nothing of ours has it open then
                writer.execute("UPDATE t SET n = ?", (number,))
            assert await rows(engine, "SELECT n FROM t WHERE id = 5") == [(number,)]
            assert await queried(engine, "SELECT max(n) FROM t") == [(number,)]


def served(path: Path) -> subprocess.Popen[bytes]:
    """Serve a database over stdio, and read a row of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "resource_server", "serve", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    for number, (method, params) in enumerate(
        (
            ("initialize", {**client, "clientInfo": {"name": "t", "version": "1"}}),
            ("resources/read", {"uri": "sqlite://n/t/5"}),
            ("resources/subscribe", {"uri": "sqlite://n/t/5"}),
            ("resources/read", {"uri": "sqlite://n/t/~rows"}),
        )
    ):
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        process.stdin.write(json.dumps({**request, "params": params}).encode() + b"\n")
        process.stdin.flush()
        assert b'"result"' in process.stdout.readline()
    return process


ENDS: dict[str, Callable[[subprocess.Popen[bytes]], object]] = {
    "the end of input": lambda process: process.stdin and process.stdin.close(),
    "SIGTERM": lambda process: process.send_signal(signal.SIGTERM),
    "SIGINT": lambda process: process.send_signal(signal.SIGINT),
    "SIGKILL": lambda process: process.send_signal(signal.SIGKILL),
}


@pytest.mark.guarantee("nothing-is-written")
@pytest.mark.parametrize("end", ENDS)
def test_a_served_database_is_as_before_however_the_server_ends(tmp_path: Path, end: str) -> None:
    path = write(tmp_path / "n.db", TABLE)
    before = contents(tmp_path)
    with served(path) as process:
        try:
            assert contents(tmp_path) == before
            ENDS[end](process)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert contents(tmp_path) == before


@pytest.mark.guarantee("nothing-is-written")
@pytest.mark.parametrize("words", [["read", "n.db", "t/5"], ["check", "n.db"], ["list", "n.db"]])
def test_a_command_leaves_a_database_as_before(tmp_path: Path, words: list[str]) -> None:
    write(tmp_path / "n.db", TABLE)
    before = contents(tmp_path)
    command = [sys.executable, "-m", "resource_server", *words]
    done = subprocess.run(
        command, cwd=tmp_path, timeout=PATIENCE_S, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == before


async def test_no_statement_opens_a_closed_database(tmp_path: Path) -> None:
    path = write(tmp_path / "n.db", TABLE)
    others = connection_threads()
    async with opened(path) as engine:
        await queried(engine, SUMMARY)
    for ask in (queried(engine, SUMMARY), rows(engine, ALL), engine.tables()):
        with pytest.raises(ResourceBusy, match="being closed"):
            await ask
    assert connection_threads() <= others
    await engine.open()
    assert len(await rows(engine, ALL)) == 100
    await engine.close()
