"""Base class of the engines for database servers: pools, deadlines, the read-only envelope.

Our own statements and the manifest author's queries run on different connections: nothing that a
query leaves behind in its session reaches ours. A connection is cleaned up after the caller has
been answered, and the transaction of its next statement begins then, so that a read waits for
nothing but its rows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakSet

from typing_extensions import override

from resource_server.errors import DeadlineExceeded, ResourceBusy, ResourceServerError
from resource_server.providers.database.engines.causes import failure, unavailable, url_problem
from resource_server.providers.database.engines.contract import Engine, QueryEngine, Rows, Statement
from resource_server.providers.database.engines.server_url import ServerUrl, parse_server_url
from resource_server.providers.database.engines.slots import Slots, acquire_all, release_all
from resource_server.runtime import causes
from resource_server.runtime.causes import Causes
from resource_server.runtime.eager import settle
from resource_server.runtime.rates import Backoff

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

T = TypeVar("T")

POOL_SIZE = 4
"""Maximum connections for our own statements."""
SLOW_SLOTS = 2
"""How many of them slow statements may take."""
AUTHOR_POOL_SIZE = 2
"""Maximum connections for the manifest's queries."""
CONNECT_TIMEOUT_S = 5.0
CATALOG_TIMEOUT_S = 5.0
"""Timeout of one catalog query."""
_CHECK_TIMEOUT_S = 5.0
_MAX_RETRY_S = 5.0
"""Longest delay between two attempts to reconnect."""
_MAX_WORDS = 200
"""Characters of a server's message that the operator is shown."""
_NOTICED_S = 1.0
"""A statement that is lost in this time was sent to a server that had gone, and is sent again."""
_RECOVERY_TIMEOUT_S = 5.0
"""A connection that cannot be cleaned up in this time is dropped."""

DriverConnection: TypeAlias = Any
"""asyncpg's or asyncmy's connection; the two have no type in common."""
Work: TypeAlias = Callable[[DriverConnection], Awaitable[T]]

_log = logging.getLogger(__name__)


class ConnectionLost(Exception):
    """Every idle connection was dead, as after a restart of the server."""


class PooledConnection:
    """A connection of a pool, and the transaction that waits for its next statement."""

    __slots__ = ("begun_s", "connection", "tidying")

    def __init__(self, connection: DriverConnection) -> None:
        self.connection = connection
        """None once it is dropped."""
        self.begun_s: float | None = None
        """The timeout of the statements of that transaction; None if none has begun."""
        self.tidying: asyncio.Task[None] | None = None
        """What cleans up after the last statement."""

    @property
    def is_tidy(self) -> bool:
        """Whether the next statement may run."""
        return self.tidying is None or self.tidying.done()


class ConnectionPool:
    """Idle connections of one kind. `slots` bounds how many exist."""

    def __init__(
        self, connect: Callable[[], Awaitable[DriverConnection]], size: int, *, for_author: bool
    ) -> None:
        self.size = size
        self.slots = Slots(size)
        self.for_author = for_author
        """Whether it serves the manifest's queries."""
        self._connect = connect
        self._idle: list[PooledConnection] = []

    async def take(self) -> PooledConnection:
        """Return the tidy connection used last, or a new one. The caller holds a slot."""
        while self._idle:
            tidy = (each for each in reversed(self._idle) if each.is_tidy)
            taken = next(tidy, self._idle[-1])
            self._idle.remove(taken)
            if taken.tidying is not None and not taken.is_tidy:
                try:
                    await asyncio.wait((taken.tidying,))
                except asyncio.CancelledError:
                    self._idle.append(taken)
                    raise
            if taken.connection is not None:
                return taken
        return PooledConnection(await self._connect())

    def give_back(self, pooled: PooledConnection) -> None:
        """Keep a connection for the next statement, which waits until it is tidy."""
        self._idle.append(pooled)

    def begun(self) -> list[PooledConnection]:
        """Return the idle connections whose next transaction has begun."""
        return [each for each in self._idle if each.begun_s is not None]

    def drain(self) -> list[DriverConnection]:
        """Empty the pool and return its connections, for closing."""
        idle, self._idle = self._idle, []
        return [each.connection for each in idle if each.connection is not None]


class ServerEngine(Engine, QueryEngine, ABC):
    """One database on a server. Subclasses add what differs by driver and SQL dialect."""

    driver: str
    """The driver's module, and its name in an SQLAlchemy URL."""
    title: str
    """Its name for people."""
    statement_causes: Causes
    connect_causes: Causes
    """Causes of errors of statements, and of attempts to connect, by their codes."""
    unused_s = 1.0
    """Longest time in seconds that a transaction waits for its first statement."""

    def __init__(self, url: str, *, interval: float) -> None:
        self._given_url = url
        self._interval = interval
        """Seconds between two looks for commits."""
        self._dialect: Dialect | None = None
        self._pool = self._make_pool(POOL_SIZE, for_author=False)
        self._author_pool = self._make_pool(AUTHOR_POOL_SIZE, for_author=True)
        self._slow_slots = Slots(SLOW_SLOTS)
        self._opened = WeakSet[DriverConnection]()
        """All connections of the pools, idle or not."""
        self._deadlines: set[asyncio.Timeout] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unused_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._commits = SharedCommits(self._watch_commits)

    @property
    @override
    def dialect(self) -> Dialect:
        if self._dialect is None:
            self._import_driver()
            from sqlalchemy.engine import URL

            self._dialect = URL.create(f"{self.name}+{self.driver}").get_dialect()()
        return self._dialect

    @property
    @override
    def open_timeout_s(self) -> float:
        return max(super().open_timeout_s, self._connect_timeout_s + CATALOG_TIMEOUT_S)

    @override
    async def _connect_and_check(self) -> None:
        self._is_closed = False
        try:
            await self._run(self._probe, within=self.open_timeout_s)
        except DeadlineExceeded:
            raise self._refusal(TimeoutError()) from None

    @override
    async def _close_everything(self) -> None:
        self._is_closed = True
        try:
            await self._end_statements()
            idle = [*self._pool.drain(), *self._author_pool.drain()]
            await asyncio.gather(*map(self._close_politely, idle))
        finally:
            if self._unused_timer is not None:
                self._unused_timer.cancel()
                self._unused_timer = None
            # Those that are left if this was cancelled, whoever uses them.
            for connection in tuple(self._opened):
                self._drop(connection)

    async def _end_statements(self) -> None:
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                while self._deadlines or self._tasks:
                    for deadline in self._deadlines:
                        if not deadline.expired():
                            deadline.reschedule(0)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            # Those that they start, too, or a connection stays open when the event loop ends.
            while self._tasks:
                await asyncio.wait(self._tasks)

    @override
    async def run_own(
        self, statement: Statement, *, limit: int, within: float, slow: bool = False
    ) -> Rows:
        async def work(connection: DriverConnection) -> Rows:
            return await self._select(connection, statement, limit, within)

        binds = bool(statement.parameters)
        return await self._run(work, within=within, slow=slow, binds=binds)

    @override
    async def run_authored(self, statement: Statement, *, limit: int, within: float) -> Rows:
        async def work(connection: DriverConnection) -> Rows:
            return await self._select_wrapped(connection, statement, limit)

        return await self._run(work, within=within, author=True)

    @override
    async def check_authored(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        async def work(connection: DriverConnection) -> Sequence[str] | None:
            try:
                return await self._describe(connection, sql, len(parameters))
            except Exception as error:
                if self._is_passing(error):
                    raise
                words = self._message(error)
                raise ValueError(f"{self.title} refuses the query: {words}") from None

        return await self._run(work, within=_CHECK_TIMEOUT_S, author=True)

    @override
    async def refusal(self, sql: str) -> str | None:
        try:
            await self.check_authored(sql, ())
        except ValueError as error:
            return str(error).partition("\n")[0]
        return None

    @override
    def commits(self) -> AsyncGenerator[None, None]:
        return self._commits.follow()

    # -- abstract members

    @abstractmethod
    def _poll_commits(self, connection: DriverConnection) -> AsyncGenerator[None, None]:
        """Yield after every possible commit, and once at the start, until the connection fails."""

    @abstractmethod
    def _import_driver(self) -> None:
        """Import the driver.

        Raises:
            MountUnavailable: it is not installed; the message names the extra.
        """

    @abstractmethod
    async def _connect(self, *, author: bool) -> DriverConnection:
        """Open a read-only session.

        Raises:
            MountUnavailable, ResourceBusy: the connection was refused.
        """

    @abstractmethod
    async def _disconnect(self, connection: DriverConnection) -> None:
        """Close a connection gracefully: the server is notified."""

    @abstractmethod
    def _drop(self, connection: DriverConnection) -> None:
        """Close a connection without waiting for the server, whatever its state."""

    @abstractmethod
    async def _begin(self, connection: DriverConnection, within: float) -> None:
        """Begin a transaction that cannot become writable."""

    @abstractmethod
    async def _limit(self, connection: DriverConnection, within: float) -> None:
        """Set the timeout of the statements of a transaction that has begun."""

    @abstractmethod
    async def _roll_back(self, connection: DriverConnection) -> None:
        """End a transaction that ran no statement."""

    @abstractmethod
    async def _end(self, connection: DriverConnection, *, author: bool) -> None:
        """Roll back, and undo what a statement left in its session."""

    async def _renew(self, connection: DriverConnection, within: float, *, author: bool) -> bool:
        """End a transaction whose statements succeeded; return whether the next one has begun."""
        await self._end(connection, author=author)
        await self._begin(connection, within)
        return True

    def _is_spent(self, connection: DriverConnection, *, author: bool) -> bool:
        """Return whether a session cannot be made clean enough for another statement."""
        del connection, author
        return False

    @abstractmethod
    async def _stop(self, connection: DriverConnection) -> bool:
        """Stop a cancelled statement on the server; return whether the connection survives."""

    @abstractmethod
    async def _probe(self, connection: DriverConnection) -> None:
        """Detect the server's version and abilities."""

    @abstractmethod
    async def _select(
        self, connection: DriverConnection, statement: Statement, limit: int, within: float
    ) -> Rows:
        """Run one of our own statements."""

    @abstractmethod
    async def _select_wrapped(
        self, connection: DriverConnection, statement: Statement, limit: int
    ) -> Rows:
        """Run a query of the manifest as a subquery of our SELECT."""

    @abstractmethod
    async def _describe(
        self, connection: DriverConnection, sql: str, parameters: int
    ) -> Sequence[str] | None:
        """Prepare a query of the manifest as `_select_wrapped` would run it."""

    @abstractmethod
    def _is_lost(self, error: BaseException) -> bool:
        """Whether the connection is gone."""

    @abstractmethod
    def _codes(self, error: Exception) -> Iterator[str]:
        """Yield the codes of an error in the tables of causes, the most specific one first."""

    @abstractmethod
    def _message(self, error: Exception) -> str:
        """Return the server's or driver's own words for an error."""

    # -- connections

    async def _watch_commits(self) -> AsyncGenerator[None, None]:
        """Yield as `commits` does, on a connection of its own.

        Reconnects after a failure, and then yields for the commits of the time between.
        """
        backoff = Backoff(self._interval, _MAX_RETRY_S)
        while True:
            connection: DriverConnection = None
            try:
                connection = await self._connect(author=False)
                async with aclosing(self._poll_commits(connection)) as commits:
                    async for _ in commits:
                        backoff.reset()
                        yield None
            except Exception as error:
                self._raise_unless_temporary(error)
            finally:
                if connection is not None:
                    self._drop(connection)
            await asyncio.sleep(backoff.next_s())

    def _make_pool(self, size: int, *, for_author: bool) -> ConnectionPool:
        async def connect() -> DriverConnection:
            self._import_driver()
            connection = await self._connect(author=for_author)
            self._opened.add(connection)
            return connection

        return ConnectionPool(connect, size, for_author=for_author)

    @cached_property
    def _url(self) -> ServerUrl:
        try:
            return parse_server_url(self._given_url)
        except ValueError as error:
            raise url_problem(error) from None

    @property
    def _connect_timeout_s(self) -> float:
        # As in libpq, 0 waits for ever: then the deadline of the statement ends it.
        given = int(self._url.parameters.get("connect_timeout", CONNECT_TIMEOUT_S))
        return given if given > 0 else CONNECT_TIMEOUT_S

    def _check_files(self, *names: str) -> None:
        """Check the files that parameters of the URL name.

        Raises:
            MountUnavailable: one cannot be read.
        """
        for name in names:
            file = self._url.parameters.get(name, "system")
            if file != "system" and not os.access(file, os.R_OK):
                raise url_problem(f"{name}: there is no file that may be read: {file}")

    async def _close_politely(self, connection: DriverConnection) -> None:
        try:
            with suppress(Exception):
                async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                    await self._disconnect(connection)
        finally:
            self._drop(connection)

    # -- one statement

    async def _run(
        self,
        work: Work[T],
        *,
        within: float,
        slow: bool = False,
        author: bool = False,
        binds: bool = True,
    ) -> T:
        """Run `work` in a read-only transaction, within `within` seconds, queueing included.

        `binds` tells whether an unfit value may be one of the caller.
        """
        return await settle(self._run_in_task(work, within, slow=slow, author=author, binds=binds))

    async def _run_in_task(
        self, work: Work[T], within: float, *, slow: bool, author: bool, binds: bool
    ) -> T:
        pool = self._author_pool if author else self._pool
        needed = (self._slow_slots, pool.slots) if slow else (pool.slots,)
        held: list[Slots] = []
        waiting = True
        deadline = asyncio.timeout(within)
        try:
            async with deadline:
                self._deadlines.add(deadline)
                if self._is_closed:  # a watch that ends later would open a connection again
                    raise ResourceBusy("the database is closed")
                await acquire_all(needed, held)
                waiting = False
                return await self._run_on_connection(pool, held, work, within)
        except TimeoutError as error:
            if not deadline.expired():
                raise self._refusal(error) from None
            if waiting:
                raise ResourceBusy("the database is overloaded") from None
            raise DeadlineExceeded from None
        except Exception as error:
            mapped = self._mapped(error, author=author, binds=binds)
            if mapped is error:
                raise
            raise mapped from None
        finally:
            self._deadlines.discard(deadline)

    def _mapped(self, error: Exception, *, author: bool, binds: bool = True) -> Exception:
        """Map a driver's error to one of ours; any other is returned as it is."""
        if isinstance(error, ResourceServerError):
            return error
        if isinstance(error, ConnectionLost) or self._is_lost(error):
            return ResourceBusy("the connection to the database was lost")
        return self._failure(error, author=author, binds=binds)

    def _is_passing(self, error: Exception) -> bool:
        """Return whether an error does not lie in a query."""
        kind = causes.find(self.statement_causes, self._codes(error))[0].kind
        is_lost = self._is_lost(error) or kind in ("busy", "resources", "stopped")
        return is_lost or not self._is_drivers(error)

    def _is_drivers(self, error: Exception) -> bool:
        return type(error).__module__.partition(".")[0] == self.driver

    def _failure(self, error: Exception, *, author: bool, binds: bool = True) -> Exception:
        """Map an error of a statement. A login for callers' SQL has its own words for some."""
        found = causes.find(self.statement_causes, self._codes(error))
        if found[0] is causes.UNKNOWN and not self._is_drivers(error):
            return error
        return failure(found, of_query=author, has_values=binds)

    def _refusal(self, error: Exception) -> Exception:
        """Return what is raised for a failed attempt to connect."""
        found = causes.find(self.connect_causes, self._codes(error))
        if found[0].kind == "busy":
            return ResourceBusy(found[0].told)
        url = self._url
        hosts = [f"{each.name}:{each.port}" if each.port else each.name for each in url.hosts]
        user = f"user {url.user}" if url.user else ""
        place = ", ".join(filter(None, (*hosts, user)))
        is_told = found[0].kind in ("options", "unknown")
        return unavailable(found, place, self._words(error) if is_told else "")

    def _words(self, error: Exception) -> str:
        """Return the first line of an error's message, without the password of the URL."""
        words = self._message(error).partition("\n")[0][:_MAX_WORDS]
        password = self._url.password
        return words.replace(password, "***") if password else words

    def _raise_unless_temporary(self, error: Exception) -> None:
        """Raise errors that a retry cannot fix; an unreachable server may come back."""
        temporary = isinstance(error, TimeoutError | ResourceServerError)
        if not temporary and self._mapped(error, author=False) is error:
            raise error

    async def _run_on_connection(
        self, pool: ConnectionPool, held: list[Slots], work: Work[T], within: float
    ) -> T:
        """Run `work` on a pooled connection; release the held slots when others may have it."""
        pooled: PooledConnection | None = None
        is_retry = False
        try:
            while True:
                pooled = await self._begun(pool, within, probe=is_retry)
                sent_at = time.monotonic()
                try:
                    result = await work(pooled.connection)
                    break
                except Exception as error:
                    was_waiting = pooled.begun_s is not None and not is_retry
                    is_new = time.monotonic() - sent_at < _NOTICED_S
                    if not (was_waiting and is_new and self._is_lost(error)):
                        raise
                    self._drop(pooled.connection)
                    pooled, is_retry = None, True
        except BaseException as error:
            if pooled is None:
                release_all(held)
                if is_retry and isinstance(error, Exception):
                    raise ConnectionLost from None
            elif self._is_lost(error):
                self._drop(pooled.connection)
                release_all(held)
            else:
                stopped = isinstance(error, asyncio.CancelledError)
                self._start(self._recover(pool, pooled.connection, held, stopped=stopped))
            raise
        if self._is_spent(pooled.connection, author=pool.for_author):
            self._start(self._retire(pooled.connection, held))
        else:
            pooled.begun_s = None
            pooled.tidying = self._start(self._tidy(pool, pooled, within))
            pool.give_back(pooled)
            release_all(held)
        return result

    async def _begun(self, pool: ConnectionPool, within: float, *, probe: bool) -> PooledConnection:
        """Return a connection in a transaction without statements.

        Passes over those that died while idle, but for transactions that waited, without `probe`.
        """
        for _ in range(pool.size + 1):
            pooled = await pool.take()
            try:
                if pooled.begun_s is None:
                    await self._begin(pooled.connection, within)
                elif probe or pooled.begun_s != within:
                    await self._limit(pooled.connection, within)
            except asyncio.CancelledError:
                # Nothing to stop on the server: BEGIN is quick unless the server is gone.
                self._drop(pooled.connection)
                raise
            except Exception as error:
                self._drop(pooled.connection)
                if not self._is_lost(error):
                    raise
            else:
                return pooled
        raise ConnectionLost

    async def _tidy(
        self, pool: ConnectionPool, pooled: PooledConnection, within: float | None
    ) -> None:
        """Clean up after a statement, or none if `within` is None; begin the next transaction.

        A connection that cannot be cleaned up is dropped.
        """
        connection, pooled.connection, pooled.begun_s = pooled.connection, None, None
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                if within is None:
                    await self._roll_back(connection)
                elif await self._renew(connection, within, author=pool.for_author):
                    pooled.begun_s = within
            pooled.connection = connection
        except Exception:
            _log_dropped()
        finally:
            if pooled.connection is None:
                self._drop(connection)
        if pooled.begun_s is not None and self._unused_timer is None:
            loop = asyncio.get_running_loop()
            self._unused_timer = loop.call_later(self.unused_s, self._end_unused)

    def _end_unused(self) -> None:
        """End the transactions that wait, so that they keep nobody else waiting."""
        self._unused_timer = None
        for pool in (self._pool, self._author_pool):
            for pooled in pool.begun():
                pooled.tidying = self._start(self._tidy(pool, pooled, None))

    async def _recover(
        self,
        pool: ConnectionPool,
        connection: DriverConnection,
        held: list[Slots],
        *,
        stopped: bool,
    ) -> None:
        """Clean up after a statement that failed or was cancelled, or drop the connection."""
        usable = False
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                if not stopped or await self._stop(connection):
                    if self._is_spent(connection, author=pool.for_author):
                        await self._disconnect(connection)
                    else:
                        await self._end(connection, author=pool.for_author)
                        usable = True
        except Exception:
            _log_dropped()
        finally:
            if usable:
                pool.give_back(PooledConnection(connection))
            else:
                self._drop(connection)
            release_all(held)

    async def _retire(self, connection: DriverConnection, held: list[Slots]) -> None:
        try:
            await self._close_politely(connection)
        finally:
            release_all(held)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _log_dropped() -> None:
    # Without the reason: drivers' messages hold names of users and hosts.
    _log.info("dropped a database connection that could not be cleaned up")


WatchCommits: TypeAlias = Callable[[], AsyncGenerator[None, None]]
"""Yields as `Engine.commits` does."""


class SharedCommits:
    """One commit watch, shared by all followers; it runs while there are any."""

    def __init__(self, watch: WatchCommits) -> None:
        self._watch = watch
        self._running: _CommitWatch | None = None

    async def follow(self) -> AsyncGenerator[None, None]:
        """Yield as `Engine.commits` does; raise the error that ends the watch."""
        if self._running is None or self._running.task.done():
            self._running = _CommitWatch(self._watch)
        watch = self._running
        committed = watch.join()
        try:
            while True:
                await committed.wait()
                committed.clear()
                if watch.task.done():
                    watch.task.result()
                    return
                yield None
        finally:
            watch.followers.discard(committed)
            if not watch.followers:
                if self._running is watch:
                    self._running = None
                await watch.end()


class _CommitWatch:
    """The running watch, and one event for each follower."""

    def __init__(self, watch: WatchCommits) -> None:
        self.followers = set[asyncio.Event]()
        self._watch = watch
        self._is_armed = False
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(lambda _: self._wake())

    def join(self) -> asyncio.Event:
        """Add a follower; return its event."""
        committed = asyncio.Event()
        if self._is_armed:
            # Every commit from here on will be noticed.
            committed.set()
        self.followers.add(committed)
        return committed

    async def end(self) -> None:
        """Stop watching."""
        self.task.cancel()
        await asyncio.wait((self.task,))
        if not self.task.cancelled():
            self.task.exception()  # the followers have seen it

    async def _run(self) -> None:
        async with aclosing(self._watch()) as commits:
            async for _ in commits:
                self._is_armed = True
                self._wake()

    def _wake(self) -> None:
        for committed in self.followers:
            committed.set()
