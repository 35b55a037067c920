"""Workers for the SQL of callers: one for each policy, in which only what it shows exists."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Final

from resource_server.providers.database.engines.contract import VisibleTables
from resource_server.providers.database.engines.duckdb.current_worker import CurrentWorker
from resource_server.providers.database.engines.duckdb.data_files import (
    DatabaseSource,
    FilesSource,
)
from resource_server.providers.database.engines.duckdb.messages import (
    CallerTable,
    CallerTables,
    Run,
    RunFailed,
    RunResult,
)
from resource_server.providers.database.masks import MaskKind

MAX_POLICIES: Final = 4
"""Policies with a worker; the one that was not used for longest ends."""


class CallerWorkers:
    """Runs the statements of callers, each in the worker of its policy."""

    def __init__(self, source: DatabaseSource | FilesSource) -> None:
        self._source = source
        self._workers: OrderedDict[CallerTables, CurrentWorker] = OrderedDict()
        self._known: deque[tuple[VisibleTables, CallerTables]] = deque(maxlen=MAX_POLICIES)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, policy: VisibleTables, job: Run) -> RunResult | RunFailed:
        """Run a statement. Raises as `CurrentWorker.run`."""
        return await self._worker(policy).run(job)

    def is_copying(self, policy: VisibleTables) -> bool:
        """Return whether what a policy shows is being copied."""
        return self._worker(policy).is_copying

    async def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            self._close_later(worker)
        self._workers.clear()
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _worker(self, policy: VisibleTables) -> CurrentWorker:
        visible = self._visible(policy)
        worker = self._workers.get(visible)
        if worker is None:
            worker = self._workers[visible] = CurrentWorker(self._source, visible)
        self._workers.move_to_end(visible)
        idle = [key for key, each in self._workers.items() if not each.is_busy and each != worker]
        for key in idle[: max(0, len(self._workers) - MAX_POLICIES)]:
            self._close_later(self._workers.pop(key))
        return worker

    def _visible(self, policy: VisibleTables) -> CallerTables:
        for known, visible in self._known:
            if known is policy:
                return visible
        self._known.append((policy, caller_tables(policy)))
        return self._known[-1][1]

    def _close_later(self, worker: CurrentWorker) -> None:
        task = asyncio.get_running_loop().create_task(worker.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def caller_tables(policy: VisibleTables) -> CallerTables:
    """Return a policy as the worker takes it."""
    tables: list[CallerTable] = []
    key = b""
    for name, table in policy.by_name.items():
        masks: list[tuple[str, MaskKind]] = []
        for column, mask in table.masks.items():
            masks.append((column, mask.kind))
            key = mask.key
        schema = table.name.schema or "main"
        columns, where = table.columns, table.where
        tables.append(CallerTable(name, schema, table.name.name, columns, tuple(masks), where))
    return CallerTables(tuple(tables), key)
