"""Workers for the SQL of callers: one for each policy, in which only what it shows exists."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Final

from resource_server.providers.database.engines.contract import SqlPolicy
from resource_server.providers.database.engines.duckdb.current_worker import CurrentWorker
from resource_server.providers.database.engines.duckdb.data_files import (
    DatabaseSource,
    FilesSource,
)
from resource_server.providers.database.engines.duckdb.messages import (
    Failed,
    Result,
    Run,
    Visible,
    VisibleRelation,
)
from resource_server.providers.database.masks import MaskKind
from resource_server.providers.database.queries.sql_names import sql_names

MAX_POLICIES: Final = 4
"""Policies with a worker; the one that was not used for longest ends."""


class CallerWorkers:
    """Runs the statements of callers, each in the worker of its policy."""

    def __init__(self, source: DatabaseSource | FilesSource) -> None:
        self._source = source
        self._workers: OrderedDict[Visible, CurrentWorker] = OrderedDict()
        self._known: deque[tuple[SqlPolicy, Visible]] = deque(maxlen=MAX_POLICIES)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, policy: SqlPolicy, job: Run) -> Result | Failed:
        """Run a statement. Raises as `CurrentWorker.run`."""
        return await self._worker(policy).run(job)

    def is_copying(self, policy: SqlPolicy) -> bool:
        """Return whether what a policy shows is being copied."""
        return self._worker(policy).is_copying

    async def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            self._close_later(worker)
        self._workers.clear()
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _worker(self, policy: SqlPolicy) -> CurrentWorker:
        visible = self._visible(policy)
        worker = self._workers.get(visible)
        if worker is None:
            worker = self._workers[visible] = CurrentWorker(self._source, visible)
        self._workers.move_to_end(visible)
        idle = [key for key, each in self._workers.items() if not each.is_busy and each != worker]
        for key in idle[: max(0, len(self._workers) - MAX_POLICIES)]:
            self._close_later(self._workers.pop(key))
        return worker

    def _visible(self, policy: SqlPolicy) -> Visible:
        for known, visible in self._known:
            if known is policy:
                return visible
        self._known.append((policy, visible_of(policy)))
        return self._known[-1][1]

    def _close_later(self, worker: CurrentWorker) -> None:
        task = asyncio.get_running_loop().create_task(worker.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def visible_of(policy: SqlPolicy) -> Visible:
    """Return a policy as the worker takes it."""
    tables = {table.name: table for table in policy.tables}
    relations: list[VisibleRelation] = []
    key = b""
    for name, table in sql_names(tables).items():
        shown = tables[table]
        masks: list[tuple[str, MaskKind]] = [(c, mask.kind) for c, mask in shown.masks.items()]
        schema = table.schema or "main"
        relations.append(
            VisibleRelation(name, schema, table.name, shown.columns, tuple(masks), shown.where)
        )
        for mask in shown.masks.values():
            key = mask.key
    return Visible(tuple(relations), key)
