"""One worker of DuckDB: answers by their numbers, cancellation and loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from resource_server.providers.database.engines.duckdb.messages import (
    Open,
    Opened,
    Run,
    RunFailed,
    RunResult,
)
from resource_server.providers.database.engines.duckdb.process import WorkerLost, WorkerProcess
from tests.providers.database.engines.duckdb.numbered import write
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

ENDLESS = Run(0, "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) = 7", (), 1)


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[WorkerProcess]:
    worker = WorkerProcess(PATIENCE_S)
    try:
        found = await worker.open(Open(str(write(folder / "it.duckdb"))))
        assert isinstance(found, Opened)
        async with asyncio.timeout(PATIENCE_S):
            yield worker
    finally:
        await worker.end()
    assert worker.process.poll() is not None


async def test_each_statement_gets_its_own_answer(tmp_path: Path) -> None:
    async with opened(tmp_path) as worker:
        jobs = [Run(0, "SELECT name FROM t WHERE id = $1", (at,), 1) for at in range(20)]
        jobs.append(Run(0, "SELECT error('x')", (), 1))
        *found, failed = await asyncio.gather(*map(worker.run, jobs))
        assert [each.rows for each in found if isinstance(each, RunResult)] == [
            [(f"name {at}",)] for at in range(20)
        ]
        assert isinstance(failed, RunFailed)
        assert not worker.is_busy


async def test_a_cancelled_statement_ends_without_its_worker(tmp_path: Path) -> None:
    async with opened(tmp_path) as worker:
        running = asyncio.create_task(worker.run(ENDLESS))
        await asyncio.sleep(0)
        assert worker.is_busy
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        async def is_idle() -> bool:
            return not worker.is_busy

        await until(is_idle)
        assert not worker.is_lost
        found = await worker.run(Run(0, "SELECT count(*) FROM t", (), 1))
        assert isinstance(found, RunResult)
        assert found.rows == [(1000,)]


async def test_a_statement_of_a_worker_that_is_killed_fails(tmp_path: Path) -> None:
    async with opened(tmp_path) as worker:
        running = asyncio.create_task(worker.run(ENDLESS))
        await asyncio.sleep(0)
        worker.process.kill()
        for lost in (running, worker.run(ENDLESS)):
            with pytest.raises(WorkerLost):
                await lost
