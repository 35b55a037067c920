from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from resource_server.errors import DeadlineExceeded, ResourceBusy
from resource_server.providers.database.engines.contract import Rows, Statement
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from resource_server.providers.database.engines.sqlite.workers import SqliteWorker
from tests.providers.database.sqlite_databases import (
    ENDLESS,
    HEAP,
    PATIENCE_S,
    UNSTOPPABLE,
    SlowFile,
    descriptors,
    needs_descriptors,
    opened,
    queried,
    query,
    rows,
    write,
)
from tests.waiting import block_until, connection_threads, pause, until

pytestmark = pytest.mark.anyio

NUMBERS = "CREATE TABLE numbers(n INTEGER PRIMARY KEY); INSERT INTO numbers VALUES (1), (2), (3);"


async def endless(engine: SqliteEngine, within: float) -> Rows:
    return await query(engine, Statement(ENDLESS), limit=1, within=within)


async def unstoppable(engine: SqliteEngine, within: float) -> Rows:
    return await query(engine, Statement(UNSTOPPABLE), limit=1, within=within)


async def test_a_statement_over_its_deadline_is_stopped_and_others_continue(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS)) as engine:
        for _ in range(10):
            with pytest.raises(DeadlineExceeded):
                await endless(engine, within=0.05)
        assert await queried(engine, "SELECT count(*) FROM numbers") == [(3,)]


async def test_a_deadline_ends_only_its_own_statement(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS)) as engine:

        async def late() -> None:
            with pytest.raises(DeadlineExceeded):
                await engine.run_own(Statement(ENDLESS), limit=1, within=0.05)

        async def point(number: int) -> None:
            sql = "SELECT n FROM numbers WHERE n = ?"
            assert await rows(engine, sql, number % 3 + 1) == [(number % 3 + 1,)]

        for _ in range(5):
            # On the same connection, before and after the interrupted statement.
            await asyncio.gather(*(point(n) for n in range(20)), late(), *map(point, range(20)))


async def test_a_statement_that_cannot_be_stopped_delays_no_response(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS + HEAP)) as engine:
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await unstoppable(engine, within=0.1)
        waited = time.monotonic() - started
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]
        assert await queried(engine, "SELECT count(*) FROM numbers") == [(3,)]
        whole = time.monotonic()
        await unstoppable(engine, within=PATIENCE_S)
        assert waited < time.monotonic() - whole


async def test_statements_behind_a_stuck_one_move_to_another_connection(
    tmp_path: Path,
) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS + HEAP)) as engine:
        stuck = asyncio.create_task(engine.run_own(Statement(UNSTOPPABLE), limit=1, within=0.1))
        await asyncio.sleep(0)
        behind = asyncio.create_task(rows(engine, "SELECT max(n) FROM numbers"))
        with pytest.raises(DeadlineExceeded):
            await stuck
        whole = asyncio.create_task(unstoppable(engine, within=PATIENCE_S))
        assert await behind == [(3,)]
        assert not whole.done()
        await whole


async def test_stuck_threads_open_the_circuit_breaker_of_their_pool_only(
    tmp_path: Path,
) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS + HEAP)) as engine:
        for _ in range(3):
            with pytest.raises(DeadlineExceeded):
                await unstoppable(engine, within=0.1)

        async def is_busy() -> bool:
            try:
                await queried(engine, "SELECT 1")
            except ResourceBusy:
                return True
            return False

        await until(is_busy)
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]
        assert [info.name.name for info in await engine.tables()] == ["heap", "numbers"]


async def test_slow_statements_wait_in_a_bounded_queue(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS)) as engine:
        await queried(engine, "SELECT 1")
        slow = [asyncio.create_task(endless(engine, within=2.0)) for _ in range(4 + 64)]
        await asyncio.sleep(0)
        with pytest.raises(ResourceBusy):
            await endless(engine, within=2.0)
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]
        ended = await asyncio.gather(*slow, return_exceptions=True)
        assert {type(end) for end in ended} == {DeadlineExceeded}
        assert await queried(engine, "SELECT count(*) FROM numbers") == [(3,)]


async def test_four_slow_statements_run_concurrently(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS)) as engine:
        slow = [asyncio.create_task(endless(engine, within=PATIENCE_S)) for _ in range(3)]
        assert await queried(engine, "SELECT count(*) FROM numbers") == [(3,)]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_a_cancelled_statement_is_stopped(tmp_path: Path) -> None:
    async with opened(write(tmp_path / "n.db", NUMBERS)) as engine:
        for _ in range(20):
            task = asyncio.create_task(engine.run_own(Statement(ENDLESS), limit=1, within=600))
            await pause(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]


async def test_closing_stops_running_statements(tmp_path: Path) -> None:
    path = write(tmp_path / "n.db", NUMBERS)
    async with opened(path) as engine:
        slow = [asyncio.create_task(endless(engine, within=600)) for _ in range(6)]
        hot = asyncio.create_task(engine.run_own(Statement(ENDLESS), limit=1, within=600))
        await pause(0.2)
    ended = await asyncio.gather(*slow, hot, return_exceptions=True)
    assert {type(end) for end in ended} == {ResourceBusy}


async def test_closing_waits_for_a_connection_that_is_being_opened(tmp_path: Path) -> None:
    path, other = write(tmp_path / "n.db", NUMBERS), write(tmp_path / "other.db", NUMBERS)
    others = connection_threads()
    engine = SqliteEngine(path)
    await engine.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        late = asyncio.create_task(rows(engine, "SELECT max(n) FROM numbers"))
        # Opening a connection waits for a writer for a quarter of a second.
        await pause(0.05)
        other.replace(path)
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]
        await engine.close()
        # No thread needs its loop, which may be closed by now.
        block_until(lambda: connection_threads() <= others)
    await asyncio.wait([late])
    late.exception()


@needs_descriptors
def test_a_connection_whose_loop_closed_during_a_statement_is_closed(
    tmp_path: Path,
) -> None:
    entered, may_go_on = threading.Event(), threading.Event()

    def slow(table: str, column: str, *, through: str | None = None) -> bool:
        entered.set()
        return may_go_on.wait(PATIENCE_S)

    async def leave(path: Path) -> None:
        engine = SqliteEngine(path, readable=slow)
        await engine.open()
        late = asyncio.create_task(rows(engine, "SELECT n FROM numbers"))
        await until(entered.is_set)
        late.cancel()
        await engine.close()

    with logged(tmp_path / "n.db") as path:
        asyncio.run(leave(path))
        may_go_on.set()


@needs_descriptors
def test_a_connection_whose_loop_closed_during_opening_is_closed(tmp_path: Path) -> None:
    async def leave(file: SlowFile) -> None:
        worker = SqliteWorker(file, "catalog", everything)
        late = asyncio.create_task(worker.run(lambda connection: connection.versions(), PATIENCE_S))
        await until(file.is_open.is_set)
        await worker.close(0.01)
        late.cancel()

    with logged(tmp_path / "n.db") as path:
        file = SlowFile(path)
        asyncio.run(leave(file))
        file.may_go_on.set()


def everything(table: str, column: str, *, through: str | None = None) -> bool:
    return True


@contextmanager
def logged(path: Path) -> Generator[Path]:
    """Give a database in WAL mode; in the end, only its writer has the log open."""
    write(path, f"PRAGMA journal_mode = WAL; {NUMBERS}")
    others = connection_threads()
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO numbers VALUES (4)")
        yield path
        block_until(lambda: connection_threads() <= others)
        assert descriptors(path.with_name(f"{path.name}-wal")) == 1


STUCK = """
import asyncio, sys, threading
from resource_server.errors import DeadlineExceeded
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine

def forever(table, column, *, through=None):
    return threading.Event().wait()

async def main():
    engine = SqliteEngine(sys.argv[1], readable=forever)
    await engine.open()
    try:
        await engine.run_own(Statement("SELECT n FROM numbers"), limit=1, within=0.1)
    except DeadlineExceeded:
        print("late", flush=True)
    await engine.close()

asyncio.run(main())
"""


def test_a_stuck_statement_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    path = write(tmp_path / "n.db", NUMBERS)
    ended = subprocess.run(
        [sys.executable, "-c", STUCK, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert (ended.stdout, ended.stderr) == ("late\n", "")


async def test_a_closed_engine_can_be_opened_again(tmp_path: Path) -> None:
    engine = SqliteEngine(write(tmp_path / "n.db", NUMBERS))
    for _ in range(2):
        await engine.open()
        assert await rows(engine, "SELECT max(n) FROM numbers") == [(3,)]
        await engine.close()
