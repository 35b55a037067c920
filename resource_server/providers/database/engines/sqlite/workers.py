"""SQLite workers: connections in threads of their own, with deadlines that always hold.

A statement that SQLite does not stop keeps its thread. Its caller is answered all the same, the
statements behind it move to a new connection, and a circuit breaker limits such threads.

They are daemons, so a statement that does not end keeps no process; and they run whole jobs, so a
cursor, its rows and its end take one trip.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from resource_server.errors import DeadlineExceeded, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.contract import VisibleTables
from resource_server.providers.database.engines.slots import MAX_WAITING, Slots
from resource_server.providers.database.engines.sqlite.authorizer import Readable, Role
from resource_server.providers.database.engines.sqlite.connection import (
    SchemaChanged,
    SqliteConnection,
    StatementInterrupted,
)
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
)
from resource_server.providers.database.engines.sqlite.policy_connection import PolicyConnection

T = TypeVar("T")

_GRACE_S = 0.25
"""Time in which an interrupted statement must end."""
_OPEN_TIMEOUT_S = 30.0
CLOSING = "the database is being closed"
_MAX_ATTEMPTS = 20
"""How often a statement is moved to another connection: a busy writer outdates several."""
_MAX_RECENTLY_STUCK = 3
"""Threads stuck within `_STUCK_WINDOW_S` that open the circuit breaker for `_BREAK_S`."""
_STUCK_WINDOW_S = 60.0
_BREAK_S = 30.0
_MAX_STUCK = 8
"""Threads stuck at the same time that keep the circuit breaker open."""
_MAX_QUEUED = 1024
"""Maximum statements that wait for one worker."""


class _Superseded(Exception):
    """The connection was given up, and the statement may run on the next one."""


class _Job:
    """A function that waits for its turn with the connection."""

    __slots__ = ("abandoned", "function", "result", "timeout")

    def __init__(
        self, function: Callable[[SqliteConnection], Any], result: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.result = result
        self.timeout: asyncio.Timeout | None = None
        self.abandoned = False
        """Whether its caller has stopped waiting."""


class CircuitBreaker:
    """Refuses statements after several have not ended."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._open_until = 0.0
        self._stuck: set[asyncio.Future[None]] = set()

    def check(self) -> None:
        """Let a statement pass.

        Raises:
            ResourceBusy: the circuit breaker is open.
        """
        now = asyncio.get_running_loop().time()
        if now < self._open_until or len(self._stuck) >= _MAX_STUCK:
            raise ResourceBusy("the database is overloaded: statements do not end")

    def count(self, closed: asyncio.Future[None]) -> None:
        """Count a stuck thread; `closed` is done when the thread ends after all."""
        now = asyncio.get_running_loop().time()
        self._stuck.add(closed)
        closed.add_done_callback(self._stuck.discard)
        self._times = [*(time for time in self._times if now - time < _STUCK_WINDOW_S), now]
        if len(self._times) >= _MAX_RECENTLY_STUCK:
            self._open_until = now + _BREAK_S


class _ConnectionThread:
    """A connection in a thread, which runs functions in order until it is stopped."""

    def __init__(
        self, open: Callable[[], SqliteConnection], identity: FileIdentity, worker: SqliteWorker
    ) -> None:
        self.identity = identity
        self.failure: Exception | None = None
        """The reason why the connection could not be opened."""
        self.is_stopped = False
        self._open = open
        self._worker = worker
        self._connection: SqliteConnection | None = None
        self._running: _Job | None = None
        self._waiting: set[_Job] = set()
        self._queue = SimpleQueue[_Job | None]()
        self._loop = asyncio.get_running_loop()
        self.opened = self._loop.create_future()
        self.closed = self._loop.create_future()
        # A daemon: a statement that does not end must not keep the process.
        Thread(target=self._serve, name="sqlite-connection", daemon=True).start()

    # -- in the thread

    def _serve(self) -> None:
        try:
            self._connection = self._open()
        except Exception as error:
            self.failure = error
        if self._post(self.opened, None):
            self._run_jobs()
        if self._connection is not None:
            self._connection.close()
        self._post(self.closed, None)

    def _run_jobs(self) -> None:
        while (job := self._queue.get()) is not None:
            outcome: Any
            self._running = job
            try:
                if job.abandoned or self._connection is None:
                    raise StatementInterrupted
                outcome = self._connection.run(job.function)
            except Exception as error:
                outcome = error
            self._running = None
            if not self._post(job.result, outcome):
                return

    def _post(self, future: asyncio.Future[Any], outcome: object) -> bool:
        """Post the outcome to the loop; return False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(_resolve, future, outcome)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    # -- in the event loop

    @property
    def is_current(self) -> bool:
        """Whether the connection notices others' commits; unknown before it is open."""
        return self._connection is None or self._connection.log.is_current()

    async def run(self, function: Callable[[SqliteConnection], T], deadline: float) -> T:
        """Run a function of the connection after those that came before."""
        if self.is_stopped:
            raise _Superseded
        job = _Job(function, self._loop.create_future())
        self._waiting.add(job)
        try:
            async with asyncio.timeout_at(deadline) as job.timeout:
                self._queue.put(job)
                return await job.result
        except TimeoutError:
            self._abandon(job)
            if self.is_stopped and self._loop.time() < deadline:
                raise _Superseded from None
            raise DeadlineExceeded from None
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        except StatementInterrupted:
            # The interrupt was for the statement before this one.
            raise _Superseded from None
        finally:
            self._waiting.discard(job)

    def _abandon(self, job: _Job) -> None:
        job.abandoned = True
        if self._interrupt(job):
            self._loop.call_later(_GRACE_S / 2, self._interrupt_again, job)

    def _interrupt(self, job: _Job) -> bool:
        """Interrupt a job if it is running; return whether it is."""
        if self._running is not job or self._connection is None:
            return False
        try:
            self._connection.interrupt()
        except sqlite3.ProgrammingError:  # it has just been closed
            return False
        return True

    def _interrupt_again(self, job: _Job) -> None:
        # The first interrupt may have come between two statements of the job.
        if self._interrupt(job):
            self._loop.call_later(_GRACE_S / 2, self._give_up_on, job)

    def _give_up_on(self, job: _Job) -> None:
        if self.is_stopped or not self._interrupt(job):
            return
        self._worker.replace(self, stuck=True)
        for other in self._waiting:
            if other.timeout is not None and not other.timeout.expired():
                other.timeout.reschedule(self._loop.time())

    def stop(self) -> asyncio.Future[None]:
        """Close the connection after the jobs that wait; the future is done when it is closed."""
        self.is_stopped = True
        self._queue.put(None)
        return self.closed

    def interrupt(self) -> None:
        """Stop all jobs, running and waiting."""
        for job in self._waiting:
            job.abandoned = True
            self._interrupt(job)


def _resolve(future: asyncio.Future[Any], outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class SqliteWorker:
    """Runs functions in order on a connection, which it replaces when it is outdated or stuck."""

    def __init__(
        self,
        file: DatabaseFile,
        role: Role,
        readable: Readable,
        breaker: CircuitBreaker | None = None,
        policy: VisibleTables | None = None,
    ) -> None:
        self._file = file
        self._policy = policy
        """What the SQL of callers may read; None for a connection of our own statements."""
        self._role: Role = role
        self._readable = readable
        self._breaker = breaker or CircuitBreaker()
        self._current: _ConnectionThread | None = None
        self._closing: set[asyncio.Future[None]] = set()
        """Threads that were stopped, until they end."""
        self._waiting = 0
        self._is_closed = False

    @property
    def identity(self) -> FileIdentity | None:
        """The file that the current connection reads."""
        return self._current.identity if self._current else None

    async def run(self, function: Callable[[SqliteConnection], T], within: float) -> T:
        """Run a function of the connection in its thread; again from the start if it is replaced.

        Raises:
            DeadlineExceeded: it took longer than `within` seconds.
            ResourceBusy, MountUnavailable: as `Engine` raises them.
            StatementRefused: SQLite refuses a statement.
        """
        if self._waiting >= _MAX_QUEUED:
            raise ResourceBusy
        deadline = asyncio.get_running_loop().time() + within
        self._waiting += 1
        try:
            for _ in range(_MAX_ATTEMPTS):
                self._breaker.check()
                thread: _ConnectionThread | None = None
                try:
                    thread = await self._opened_thread(deadline)
                    return await thread.run(function, deadline)
                except _Superseded:
                    continue
                except SchemaChanged:
                    self.replace(thread)
                except MountUnavailable:
                    self.replace(thread)
                    raise
        finally:
            self._waiting -= 1
        raise ResourceBusy

    async def _opened_thread(self, deadline: float) -> _ConnectionThread:
        if self._is_closed:
            raise ResourceBusy(CLOSING)
        thread = self._current
        if thread is not None and not (
            self._file.is_current(thread.identity) and thread.is_current
        ):
            self.replace(thread)
        thread = self._current or self._start_thread()
        if not thread.opened.done():
            remaining = deadline - asyncio.get_running_loop().time()
            await asyncio.wait((thread.opened,), timeout=max(remaining, 0))
            if not thread.opened.done():
                raise DeadlineExceeded
        if thread.failure is not None:
            self.replace(thread)
            if not self._file.is_current(thread.identity):
                raise _Superseded
            raise thread.failure
        return thread

    def _start_thread(self) -> _ConnectionThread:
        identity = self._file.identify()
        file, role, readable = self._file, self._role, self._readable

        policy = self._policy

        def open() -> SqliteConnection:
            if policy is not None:
                return PolicyConnection(file, identity, policy)
            return SqliteConnection(file, identity, role, readable)

        thread = self._current = _ConnectionThread(open, identity, self)
        asyncio.get_running_loop().call_later(_OPEN_TIMEOUT_S, self._give_up_opening, thread)
        return thread

    def _give_up_opening(self, thread: _ConnectionThread) -> None:
        if self._current is thread and not thread.opened.done():
            self.replace(thread, stuck=True)

    def replace(self, thread: _ConnectionThread | None, *, stuck: bool = False) -> None:
        """Stop a thread, and let the next statement open another connection."""
        if thread is None:
            return
        if self._current is thread:
            self._current = None
        if thread.is_stopped:
            return
        closed = thread.stop()
        self._closing.add(closed)
        closed.add_done_callback(self._closing.discard)
        if stuck:
            self._breaker.count(closed)

    async def close(self, within: float) -> None:
        """Stop running statements and close; abandon threads that take longer than `within` s."""
        self._is_closed = True
        thread = self._current
        if thread is not None:
            thread.interrupt()
            self.replace(thread)
        if self._closing:
            await asyncio.wait(tuple(self._closing), timeout=within)


class WorkerPool:
    """Workers for statements that may take long: each has a worker to itself."""

    def __init__(
        self,
        file: DatabaseFile,
        readable: Readable,
        *,
        size: int = 4,
        max_waiting: int = MAX_WAITING,
        policy: VisibleTables | None = None,
    ) -> None:
        breaker = CircuitBreaker()
        self._workers = [
            SqliteWorker(file, "reader", readable, breaker, policy) for _ in range(size)
        ]
        self._idle = self._workers[::-1]
        self._slots = Slots(size, max_waiting=max_waiting)
        self._using = 0
        """Number of functions that run or wait."""
        self._unused = asyncio.Event()
        self._unused.set()

    async def run(self, function: Callable[[SqliteConnection], T], within: float) -> T:
        """Run a function of a connection. See `SqliteWorker.run`."""
        self._using += 1
        self._unused.clear()
        try:
            return await self._run(function, asyncio.get_running_loop().time() + within)
        finally:
            self._using -= 1
            if not self._using:
                self._unused.set()

    async def _run(self, function: Callable[[SqliteConnection], T], deadline: float) -> T:
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise DeadlineExceeded from None
        worker = self._idle.pop()
        try:
            result = await worker.run(function, deadline - asyncio.get_running_loop().time())
        except BaseException:
            # Last in line, because its thread may still be busy.
            self._idle.insert(0, worker)
            raise
        else:
            self._idle.append(worker)
            return result
        finally:
            self._slots.release()

    async def close(self, within: float) -> None:
        """Close all workers. See `SqliteWorker.close`."""
        await asyncio.gather(*(worker.close(within) for worker in self._workers))

    async def close_when_idle(self, within: float) -> None:
        """Close all workers after the last function has ended."""
        await self._unused.wait()
        await self.close(within)
