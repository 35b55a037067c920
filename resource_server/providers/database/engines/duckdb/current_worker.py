"""A worker that has its files open as they are now: started on need, replaced when they change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from resource_server.errors import IN_CHECK, InvalidParameter, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.causes import failure, unavailable
from resource_server.providers.database.engines.contract import VisibleTables
from resource_server.providers.database.engines.duckdb import causes
from resource_server.providers.database.engines.duckdb.data_sources import (
    DatabaseSource,
    FilesSource,
    State,
    settling_s,
    state_of_files,
)
from resource_server.providers.database.engines.duckdb.messages import (
    CallerTable,
    CallerTables,
    DataTable,
    Open,
    Opened,
    OpenRefused,
    Run,
    RunFailed,
    RunResult,
)
from resource_server.providers.database.engines.duckdb.process import WorkerLost, WorkerProcess
from resource_server.providers.database.masks import MaskKind

_log = logging.getLogger(__name__)

START_S: Final = 120.0
"""Time to open the files, and to copy what callers may read of them."""
_MAX_ATTEMPTS: Final = 5
_MAX_LOST: Final = 2
"""Workers that the statement of a caller may end."""
_IDLE_S: Final = 60.0
"""Time without a statement after which the worker ends."""
CLOSING: Final = "the database is being closed"
_CHANGING: Final = "the database changes faster than it can be read; try again"
_ENDS: Final = "the process that reads the database ends again and again; try again"
_ENDS_WORKER: Final = "it ends the process that reads it, or takes too long; replace or remove it"
_MAX_POLICIES: Final = 4
"""Policies with a worker; the one that was not used for longest ends."""


class _FilesReplaced(Exception):
    """A data file was replaced or removed between the look and its opening."""


class CurrentWorker:
    """Runs statements in a worker that has the files open as they are now.

    Whatever was read while a file changed is discarded and read again. Copies for callers are as
    old as their statement at most.

    Args:
        source: the files.
        visible: what exists for callers, whose statements alone are run then.
    """

    def __init__(
        self, source: DatabaseSource | FilesSource, visible: CallerTables | None = None
    ) -> None:
        self._source = source
        self._visible = visible
        self._worker: WorkerProcess | None = None
        self.state: State = ()
        """The state of the files that the worker has open."""
        self.opened = Opened((), "")
        """What the worker said of them."""
        self.left_out: Sequence[str] = ()
        """Data files that are left out or unusual, each with the reason."""
        self._tables: Sequence[tuple[DataTable, State]] = ()
        """The data tables that the worker has open, each with the state of its files."""
        self._fatal: set[tuple[DataTable, State]] = set()
        """Data tables that have ended a worker."""
        self.is_known = visible is not None
        """Whether the files were there: they may be gone then."""
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._refused: tuple[State, Exception] | None = None
        self._is_closed = False
        self._is_outdated = False
        """Whether other files match the pattern than the worker has open."""
        self._next_walk = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the worker starts or runs a statement."""
        is_starting = self._starting is not None and not self._starting.done()
        return is_starting or (self._worker is not None and self._worker.is_busy)

    @property
    def is_copying(self) -> bool:
        """Whether what callers may read is being copied."""
        return self._visible is not None and self._worker is None and self.is_busy

    def reopen(self) -> None:
        """Take statements again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """End the worker."""
        self._is_closed = True
        self.is_known = self._visible is not None
        if self._idle is not None:
            self._idle.cancel()
        self._replace()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    async def refresh(self, table: str | None = None) -> None:
        """Have the files open as they are now, and the files that match the pattern now.

        With a `table` whose files have not changed, the others are opened meanwhile.

        Raises:
            MountUnavailable, ResourceBusy: they cannot be opened.
        """
        has_files = self._worker is not None and isinstance(self._source, FilesSource)
        # Whoever starts a worker looks for the files.
        if has_files and time.monotonic() >= self._next_walk:
            await self._find_files()
        place = None if table is None else self.opened.sources.get(table.lower())
        if self._serving() and place is not None and self._is_as_opened((place,)):
            if self._usable() is None:
                self._start_soon()
            return
        await self._current()

    def look_soon(self) -> None:
        """Look for other files at the next refresh: there may be some."""
        self._next_walk = 0.0

    async def run(self, job: Run) -> RunResult | RunFailed:
        """Run a statement, again if the files changed meanwhile.

        Raises:
            MountUnavailable, ResourceBusy: the files cannot be read.
            InvalidParameter: what callers may read does not fit into memory.
        """
        reason = _CHANGING
        broken: State | None = None
        lost = 0
        is_patient = False
        if self._worker is not None and not self.state:
            await self._find_files()  # none was left
        for _ in range(_MAX_ATTEMPTS):
            # Tables of the files that did not change need no worker with the others.
            worker = None if is_patient else self._serving()
            worker = worker or await self._current()
            tables, state = self._tables, self.state
            is_copy = self.opened.is_copy
            if is_copy and self._source.state() != state:
                continue  # copied while they changed
            try:
                answer = await worker.run(job)
            except WorkerLost:
                reason = _ENDS
                self._replace(worker)
                lost += 1
                if self._visible is not None and lost == _MAX_LOST:
                    break
                continue
            finally:
                self._end_when_idle()
            read = answer.sources if isinstance(answer, RunResult) else None
            if not is_copy and not self._is_as_opened(read, tables, state):
                reason, is_patient = _CHANGING, True
                continue
            if isinstance(answer, RunResult) or answer.failure != "broken":
                return _of_sound_files(answer)
            self._replace(worker)
            if self._visible is not None:
                return answer
            if state == broken:
                raise unavailable((causes.FILE["damaged"], ""), "")
            broken = state
        raise ResourceBusy(reason)

    async def _find_files(self) -> None:
        """Replace the worker if other files match the pattern than before."""
        begun = time.monotonic()
        try:
            found = await asyncio.to_thread(self._source.found)
        except MountUnavailable:
            found = None
        ended = time.monotonic()
        self._next_walk = ended + (ended - begun) * self._source.walk_share
        if found != self.state:
            self._is_outdated = True

    # -- the worker

    def _serving(self) -> WorkerProcess | None:
        """Return the worker that has data files open, though some may have changed."""
        worker = self._worker
        is_there = worker is not None and not worker.is_lost and bool(self._tables)
        return worker if is_there and not self.opened.is_copy else None

    def _is_as_opened(
        self,
        places: Sequence[int] | None,
        tables: Sequence[tuple[DataTable, State]] | None = None,
        state: State | None = None,
    ) -> bool:
        """Return whether the files of these data tables, or all files, are as they were opened."""
        tables = self._tables if tables is None else tables
        if not tables:
            return self._source.state() == state
        chosen = tables if places is None else [tables[place] for place in places]
        return all(state_of_files((table,)) == opened for table, opened in chosen)

    def _usable(self) -> WorkerProcess | None:
        worker = self._worker
        is_current = worker is not None and not worker.is_lost and not self._is_outdated
        return worker if is_current and self._source.state() == self.state else None

    async def _current(self) -> WorkerProcess:
        """Return a worker that has the files open as they are now.

        A start goes on if it is no longer waited for.
        """
        worker = self._usable()
        if worker is not None:
            return worker
        starting = self._start_soon()
        await asyncio.wait((starting,))
        if starting.cancelled():
            raise ResourceBusy(CLOSING)
        return starting.result()

    def _start_soon(self) -> asyncio.Task[WorkerProcess]:
        """Return the start of a worker that has the files open as they are now.

        Raises:
            ResourceBusy: no more workers are started.
        """
        if self._starting is None or self._starting.done():
            if self._is_closed:
                raise ResourceBusy(CLOSING)
            if self._serving() is None:
                self._replace()
            self._starting = asyncio.get_running_loop().create_task(self._started())
            self._starting.add_done_callback(_seen)
        return self._starting

    async def _started(self) -> WorkerProcess:
        try:
            async with asyncio.timeout(START_S):
                while True:
                    with suppress(_FilesReplaced):
                        return await self._start()
        except TimeoutError:
            raise ResourceBusy("the database takes too long to open") from None

    async def _start(self) -> WorkerProcess:
        look = partial(self._source.look, is_open=self.is_known)
        state, opening = await asyncio.to_thread(look)
        while (pause := settling_s(state)) > 0:
            # A later write could have the same times as the last one.
            await asyncio.sleep(pause)
            state, opening = await asyncio.to_thread(look)
        if self._refused is not None and self._refused[0] == state:
            raise self._refused[1]
        states = [(table, state_of_files((table,))) for table in opening.tables]
        opening = msgspec.structs.replace(opening, visible=self._visible)
        try:
            worker, answer, tables = await self._open(opening, states)
        except InvalidParameter as error:
            self._refused = state, error
            raise
        except MountUnavailable:
            if states and self._source.state() != state:
                raise _FilesReplaced from None
            raise
        self._replace(is_gentle=True)
        self._worker, self.state, self.opened = worker, state, answer
        self._tables, self._is_outdated = tables, False
        lost = [each for each in states if each not in tables]
        left = [f"a data file is left out: {table.name}: {_ENDS_WORKER}" for table, _ in lost]
        before = self._source.problems if isinstance(self._source, FilesSource) else ()
        problems = [*before, *answer.problems, *left]
        if problems != self.left_out:
            self.left_out = problems
            for problem in problems if self._visible is None else ():
                _log.warning("%s", problem, extra=IN_CHECK)
        self._end_when_idle()
        return worker

    async def _open(
        self, opening: Open, states: Sequence[tuple[DataTable, State]]
    ) -> tuple[WorkerProcess, Opened, Sequence[tuple[DataTable, State]]]:
        """Return a worker with an open database, and the data tables that it has.

        A data file that ends the worker is left out from then on.

        Raises:
            MountUnavailable, ResourceBusy, InvalidParameter: it cannot be opened.
        """
        self._fatal &= set(states)
        while True:
            tables = [each for each in states if each not in self._fatal]
            opening = msgspec.structs.replace(opening, tables=tuple(table for table, _ in tables))
            worker = WorkerProcess()
            try:
                answer = await worker.open(opening)
                break
            except WorkerLost:
                self._end(worker)
                if worker.opening is None:
                    raise unavailable((causes.FILE["damaged"], "WorkerLost"), "") from None
                self._fatal.add(tables[worker.opening])
            except BaseException:
                self._end(worker)
                raise
        if isinstance(answer, OpenRefused):
            self._end(worker)
            found = causes.FILE[answer.reason], answer.reason
            if found[0].kind in ("busy", "operation"):
                raise failure(found)
            raise unavailable(found, "")
        return worker, answer, tables

    def _replace(self, worker: WorkerProcess | None = None, *, is_gentle: bool = False) -> None:
        """End the current worker, if it is this one; if `is_gentle`, after its statements."""
        current = self._worker
        if current is not None and worker in (None, current):
            self._worker = None
            self._end(current, is_gentle=is_gentle)

    def _end(self, worker: WorkerProcess, *, is_gentle: bool = False) -> None:
        end = worker.end_when_done() if is_gentle else worker.end()
        task = asyncio.get_running_loop().create_task(end)
        self._ending.add(task)
        task.add_done_callback(partial(self._ended, worker))

    def _ended(self, worker: WorkerProcess, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if task.cancelled():  # perhaps before its first step
            worker.end_at_once()

    def _end_when_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        self._idle = None
        if self.is_busy:
            self._end_when_idle()
        else:
            self._replace()


def _of_sound_files(answer: RunResult | RunFailed) -> RunResult | RunFailed:
    """Return an answer.

    Raises:
        ResourceUnreadable: a data file is damaged where it was read.
    """
    if isinstance(answer, RunFailed) and answer.failure == "damaged":
        code = answer.code or "IOException"
        raise failure((causes.STATEMENT[code], code))
    return answer


def _seen(starting: asyncio.Task[WorkerProcess]) -> None:
    """Take the exception of a start that nobody waits for any more."""
    if not starting.cancelled():
        starting.exception()


class CallerWorkers:
    """Runs the statements of callers, each in the worker of its policy."""

    def __init__(self, source: DatabaseSource | FilesSource) -> None:
        self._source = source
        self._workers: OrderedDict[CallerTables, CurrentWorker] = OrderedDict()
        self._known: deque[tuple[VisibleTables, CallerTables]] = deque(maxlen=_MAX_POLICIES)
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
        for key in idle[: max(0, len(self._workers) - _MAX_POLICIES)]:
            self._close_later(self._workers.pop(key))
        return worker

    def _visible(self, policy: VisibleTables) -> CallerTables:
        for known, visible in self._known:
            if known is policy:
                return visible
        self._known.append((policy, _caller_tables(policy)))
        return self._known[-1][1]

    def _close_later(self, worker: CurrentWorker) -> None:
        task = asyncio.get_running_loop().create_task(worker.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _caller_tables(policy: VisibleTables) -> CallerTables:
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
