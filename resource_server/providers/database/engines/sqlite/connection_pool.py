"""Lanes to a SQLite file: statements in order, each until its deadline, none in the way of others.

A statement that SQLite does not stop keeps its thread; the caller is answered, the connection
replaced, and after some of these the lane is closed for a while.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import aiosqlite

from resource_server.errors import DeadlineExceeded, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.sqlite.authorizer import Readable, Role
from resource_server.providers.database.engines.sqlite.connection import (
    Connection,
    Interrupted,
    Outdated,
    Work,
)
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile, Identity

T = TypeVar("T")

_GRACE = 0.25
"""Seconds that an interrupted statement has to come back."""
_PATIENCE = 30.0
"""Seconds after which opening a connection is given up."""
_ATTEMPTS = 5
"""How often a statement is run again on another connection."""
_STUCK = 3
"""So many threads that did not come back within `_MEMORY` seconds close a lane for `_PAUSE`."""
_MEMORY = 60.0
_PAUSE = 30.0
_MOST_STUCK = 8
"""With so many threads still out a lane stays closed."""
_MOST_WAITING = 1024


class _Moved(Exception):
    """The connection was given up, and the statement may be run on the next."""


class _Nothing:
    """Stands for a connection that could not be opened."""

    def close(self) -> None:
        """Do nothing."""


class Breaker:
    """Closes a lane when its threads do not come back."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._closed_until = 0.0
        self.threads: set[asyncio.Future[Any]] = set()
        """Those that are still out."""

    def check(self) -> None:
        """Refuse while the lane is closed.

        Raises:
            ResourceBusy: it is.
        """
        now = asyncio.get_running_loop().time()
        if now < self._closed_until or len(self.threads) >= _MOST_STUCK:
            raise ResourceBusy("the database is overloaded: statements do not end")

    def stuck(self, thread: asyncio.Future[Any]) -> None:
        """Note a thread that did not come back; `thread` is done when it does."""
        now = asyncio.get_running_loop().time()
        self.threads.add(thread)
        thread.add_done_callback(self.threads.discard)
        self._times = [*(time for time in self._times if now - time < _MEMORY), now]
        if len(self._times) >= _STUCK:
            self._closed_until = now + _PAUSE


class _Thread:
    """A connection in its thread."""

    def __init__(self, open: Callable[[], Connection], identity: Identity, lane: Lane) -> None:
        self.identity = identity
        self.given_up = False
        self._lane = lane
        self._waiting: dict[Work[object], asyncio.Timeout] = {}
        self._connection: Connection | None = None
        self.failure: Exception | None = None

        def connect() -> Connection | _Nothing:
            try:
                self._connection = open()
            except Exception as error:
                # aiosqlite would end the thread without telling when.
                self.failure = error
                return _Nothing()
            return self._connection

        # What aiosqlite calls of a connection is what `Connection` has.
        connector = cast("Callable[[], sqlite3.Connection]", connect)
        self._driver = aiosqlite.Connection(connector, 64)
        self._loop = asyncio.get_running_loop()
        thread = self._driver._thread  # pyright: ignore[reportPrivateUsage] - has no public name
        # A statement that does not end must not keep the process.
        thread.daemon = True
        thread.run = partial(self._run, thread.run)
        self.opened: asyncio.Future[aiosqlite.Connection] = asyncio.ensure_future(self._driver)

    def _run(self, until_stopped: Callable[[], None]) -> None:
        try:
            until_stopped()
        except RuntimeError:
            # What came of the last statement cannot be told to a loop that is closed.
            if not self._loop.is_closed():
                raise
        finally:
            # The driver does not close what it was not told to, nor what it gave up to open.
            if self._connection is not None:
                self._connection.close()
                # Else it warns that it was not closed.
                self._driver._connection = None  # pyright: ignore[reportPrivateUsage]

    @property
    def is_fresh(self) -> bool:
        """Whether what others commit can be seen; not known before it is open."""
        return self._connection is None or self._connection.log.is_still()

    async def run(self, function: Callable[[Connection], T], deadline: float) -> T:
        """Run a function of the connection, after those that came before."""
        work = Work(function)
        kept = cast("Work[object]", work)
        timeout = asyncio.timeout_at(deadline)
        try:
            async with timeout:
                self._waiting[kept] = timeout
                done = await self._driver.execute_fetchall("", (work,))
        except TimeoutError:
            self._give_up(kept)
            if self.given_up and self._loop.time() < deadline:
                raise _Moved from None
            raise DeadlineExceeded from None
        except asyncio.CancelledError:
            self._give_up(kept)
            raise
        except (Interrupted, ValueError):
            # Meant for the statement before it, or the connection was closed in between.
            raise _Moved from None
        finally:
            self._waiting.pop(kept, None)
        (result,) = cast("list[T]", done)
        return result

    def _give_up(self, work: Work[object]) -> None:
        work.abandoned = True
        if self._runs(work):
            self._loop.call_later(_GRACE / 2, self._interrupt_again, work)

    def _runs(self, work: Work[object]) -> bool:
        """Return whether the work is running; if so it has been interrupted."""
        connection = self._connection
        if connection is None or connection.running is not work:
            return False
        try:
            connection.interrupt()
        except sqlite3.ProgrammingError:
            return False
        return True

    def _interrupt_again(self, work: Work[object]) -> None:
        # Between two statements of one work there was nothing to interrupt.
        if self._runs(work):
            self._loop.call_later(_GRACE / 2, self._expect, work)

    def _expect(self, work: Work[object]) -> None:
        if not self.given_up and self._runs(work):
            self._lane.replace(self, stuck=True)
            for timeout in self._waiting.values():
                if not timeout.expired():
                    timeout.reschedule(self._loop.time())

    def stop(self) -> asyncio.Future[Any]:
        """Close the connection behind what still waits; the future is done when it is closed."""
        self.given_up = True
        stop = cast("Callable[[], asyncio.Future[Any]]", self._driver.stop)  # pyright: ignore[reportUnknownMemberType]
        return stop()

    def interrupt(self) -> None:
        """Stop everything that runs or waits."""
        for work in list(self._waiting):
            work.abandoned = True
            self._runs(work)


class Lane:
    """One connection after another to the same path, for statements that follow each other."""

    def __init__(
        self, file: DatabaseFile, role: Role, readable: Readable, breaker: Breaker | None = None
    ) -> None:
        self._file = file
        self._role: Role = role
        self._readable = readable
        self._breaker = breaker or Breaker()
        self._current: _Thread | None = None
        self._closing: set[asyncio.Future[Any]] = set()
        """Connections given up, until they are closed; of those not open yet, until they are."""
        self._waiting = 0
        self._closed = False
        self.opened = 0
        """How many connections there have been."""

    @property
    def identity(self) -> Identity | None:
        """The file that the present connection reads."""
        return self._current.identity if self._current else None

    async def run(self, function: Callable[[Connection], T], within: float) -> T:
        """Run a function of the connection in its thread, and return what it returns.

        It may be run again from its beginning, when the connection was replaced.

        Raises:
            DeadlineExceeded: it took longer than `within` seconds.
            ResourceBusy, MountUnavailable: as `Engine` has them.
            Refused: SQLite does not run a statement.
        """
        if self._waiting >= _MOST_WAITING:
            raise ResourceBusy
        deadline = asyncio.get_running_loop().time() + within
        self._waiting += 1
        try:
            for _ in range(_ATTEMPTS):
                self._breaker.check()
                thread = await self._thread(deadline)
                try:
                    return await thread.run(function, deadline)
                except _Moved:
                    continue
                except (Outdated, MountUnavailable) as error:
                    self.replace(thread)
                    if isinstance(error, MountUnavailable):
                        raise
        finally:
            self._waiting -= 1
        raise ResourceBusy

    async def _thread(self, deadline: float) -> _Thread:
        if self._closed:
            raise ResourceBusy("the database is being closed")
        thread = self._current
        if thread is not None and not (self._file.is_still(thread.identity) and thread.is_fresh):
            self.replace(thread)
        if self._current is None:
            self._current = self._open()
        thread = self._current
        if not thread.opened.done():
            remaining = deadline - asyncio.get_running_loop().time()
            await asyncio.wait((thread.opened,), timeout=max(remaining, 0))
            if not thread.opened.done():
                raise DeadlineExceeded
        if thread.failure is not None:
            self.replace(thread)
            raise thread.failure
        return thread

    def _open(self) -> _Thread:
        identity = self._file.identify()
        file, role, readable = self._file, self._role, self._readable
        thread = _Thread(lambda: Connection(file, identity, role, readable), identity, self)
        self.opened += 1
        loop = asyncio.get_running_loop()
        loop.call_later(_PATIENCE, self._expect, thread)
        return thread

    def _expect(self, thread: _Thread) -> None:
        if self._current is thread and not thread.opened.done():
            self.replace(thread, stuck=True)

    def replace(self, thread: _Thread, *, stuck: bool = False) -> None:
        """Let the next statement open another connection."""
        if self._current is thread:
            self._current = None
        if thread.given_up:
            return
        thread.given_up = True
        if not thread.opened.done():
            self._closing.add(thread.opened)
            thread.opened.add_done_callback(lambda _: self._stop(thread))
            thread.opened.add_done_callback(self._closing.discard)
            if stuck:
                self._breaker.stuck(thread.opened)
            return
        stopped = self._stop(thread)
        if stuck:
            self._breaker.stuck(stopped)

    def _stop(self, thread: _Thread) -> asyncio.Future[Any]:
        stopped = thread.stop()
        self._closing.add(stopped)
        stopped.add_done_callback(self._closing.discard)
        return stopped

    async def close(self, within: float) -> None:
        """Stop what runs and close the connection; what does not end in time is left behind."""
        self._closed = True
        thread = self._current
        if thread is not None:
            thread.interrupt()
            self.replace(thread)
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        # Again for what was being opened: it is closed after that.
        while self._closing and loop.time() < until:
            await asyncio.wait(tuple(self._closing), timeout=until - loop.time())


class Pool:
    """Lanes for statements that may take long: each has one to itself, opened when needed."""

    def __init__(
        self, file: DatabaseFile, readable: Readable, *, lanes: int = 4, queue: int = 64
    ) -> None:
        breaker = Breaker()
        self._lanes = [Lane(file, "reader", readable, breaker) for _ in range(lanes)]
        self._idle = self._lanes[::-1]
        self._free = asyncio.Semaphore(lanes)
        self._queue = queue
        self._waiting = 0

    async def run(self, function: Callable[[Connection], T], within: float) -> T:
        """Run a function of a connection. See `Lane.run`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        if self._free.locked():
            if self._waiting >= self._queue:
                raise ResourceBusy
            self._waiting += 1
            try:
                async with asyncio.timeout_at(deadline):
                    await self._free.acquire()
            except TimeoutError:
                raise DeadlineExceeded from None
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        lane = self._idle.pop()
        try:
            result = await lane.run(function, deadline - loop.time())
        except BaseException:
            # Its thread may still be on the way back.
            self._idle.insert(0, lane)
            raise
        else:
            self._idle.append(lane)
            return result
        finally:
            self._free.release()

    async def close(self, within: float) -> None:
        """Close every lane. See `Lane.close`."""
        await asyncio.gather(*(lane.close(within) for lane in self._lanes))
