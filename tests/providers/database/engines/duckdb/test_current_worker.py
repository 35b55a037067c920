"""The worker that has its files open as they are now."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from resource_server.providers.database.engines.duckdb.current_worker import CurrentWorker
from resource_server.providers.database.engines.duckdb.data_sources import FilesSource, State
from resource_server.providers.database.engines.duckdb.messages import Open, Run, RunResult
from tests.providers.database.engines.duckdb.processes import children_of, ended
from tests.waiting import block_until

pytestmark = pytest.mark.anyio

CSV = "id,name\n1,Ann\n"


class ReplacedMeanwhile(FilesSource):
    """Files of which the first is replaced after each of the first looks."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(f"{folder}/*.csv", "people")
        self._folder = folder
        self._left = times

    def look(self, *, is_open: bool) -> tuple[State, Open]:
        found = super().look(is_open=is_open)
        if self._left:
            self._left -= 1
            (first, *_) = self.files()
            Path(first.path).unlink()
            (self._folder / f"{self._left}.csv").write_text(CSV)
        return found


async def test_files_that_are_replaced_before_they_are_opened_are_looked_for_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "first.csv").write_text(CSV)
    worker = CurrentWorker(ReplacedMeanwhile(tmp_path, 3))
    try:
        found = await worker.run(Run(0, "SELECT name FROM people", (), 1))
        assert isinstance(found, RunResult)
        assert found.rows == [("Ann",)]
    finally:
        await worker.close()


def test_a_worker_ends_with_a_loop_that_leaves_no_time_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "first.csv").write_text(CSV)
    before, started = children_of(os.getpid()), set[int]()
    closing: list[Coroutine[Any, Any, None]] = []

    async def main() -> None:
        worker = CurrentWorker(FilesSource(f"{tmp_path}/*.csv", "people"))
        await worker.run(Run(0, "SELECT name FROM people", (), 1))
        started.update(children_of(os.getpid()) - before)
        closing.append(worker.close())
        closing[0].send(None)  # the loop ends before the tasks that this starts have begun

    asyncio.run(main())
    closing.pop().close()
    gc.collect()  # an open channel fails this
    assert started
    block_until(lambda: all(map(ended, started)))
