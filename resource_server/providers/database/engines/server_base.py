"""What database servers share: pooled connections, the read-only envelope, deadlines, queues.

Statements of ours and those of the manifest's author run on different connections, so that what
an author's statement leaves behind never meets one of ours. A connection whose statement was not
finished in time is put right after the answer, which waits for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
    ResourceServerError,
)
from resource_server.providers.database.engines.contract import Lane, Privilege, Rows, Statement
from resource_server.providers.database.engines.reflection import Table, TableInfo, TableName
from resource_server.providers.database.engines.shared_commits import SharedCommits
from resource_server.providers.database.queries.sql_tokenizer import EngineName
from resource_server.runtime.eager import settle

if TYPE_CHECKING:
    from sqlalchemy.engine import URL
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.ext.asyncio import AsyncEngine

T = TypeVar("T")

POOL_SIZE = 4
"""Connections for statements of ours."""
SLOW_PLACES = 2
"""As many of them may run what takes long."""
AUTHOR_POOL_SIZE = 2
"""Connections for queries of the manifest."""
MAX_WAITING = 64
"""More requests than these are turned away."""
CONNECT_S = 5.0
"""So long a server may take to accept a connection."""
CATALOG_S = 5.0
"""So long a question about the schema may take."""
CHECK_S = 5.0
"""So long the check of a query may take."""
_OPEN_S = 10.0
_RECOVERY_S = 5.0
"""After so long a connection that does not come to rest is given up."""

Connection: TypeAlias = Any
"""A connection of the driver's own; drivers have no type in common."""
Work: TypeAlias = Callable[[Connection], Awaitable[T]]

_log = logging.getLogger(__name__)


class Lost(Exception):
    """A pooled connection has died since it was last used; another one may do."""


class Places:
    """So many at a time, and a bounded number waiting in order."""

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)
        self._waiting = 0

    async def enter(self) -> None:
        """Wait for a place.

        Raises:
            ResourceBusy: too many are waiting.
        """
        if self._waiting >= MAX_WAITING:
            raise ResourceBusy("the database is overloaded")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

    def leave(self) -> None:
        """Give the place to the next."""
        self._free.release()


class Pool:
    """Connections of one kind; each is used by one statement at a time."""

    def __init__(self, engine: AsyncEngine, size: int) -> None:
        self.engine = engine
        self.size = size
        self.places = Places(size)


class ServerEngine(ABC):
    """One database of a server, opened for reading and nothing else; what engines have in common.

    An engine says how its driver connects, begins, ends and fails.
    """

    driver: str
    """The dialect and driver, as in an SQLAlchemy URL."""
    engine_options: Mapping[str, Any] = MappingProxyType({})
    """More options of SQLAlchemy's engine."""

    def __init__(self, url: str) -> None:
        self._given_url = url
        self._url: URL | None = None
        self._ours: Pool | None = None
        self._authors: Pool | None = None
        self._slow = Places(SLOW_PLACES)
        self._deadlines: set[asyncio.Timeout] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._users = 0
        """As many have opened it: a database as a whole, and its parts that some may see."""
        self._commits = SharedCommits(self._notice_commits)

    @property
    def dialect(self) -> Dialect:
        """What compiles and quotes statements for it.

        Raises:
            MountUnavailable: the URL cannot be used, or the driver is not installed.
        """
        return self._pool(author=False).engine.sync_engine.dialect

    async def open(self) -> None:
        """Connect and see whether the database can be read.

        Raises:
            MountUnavailable: it cannot.
        """
        self._users += 1
        try:
            await self._run(self._probe, within=_OPEN_S)
        except DeadlineExceeded:
            raise MountUnavailable("the database server does not answer") from None

    async def close(self) -> None:
        """Give up every connection, unless others have opened it; what still runs is stopped."""
        self._users = max(self._users - 1, 0)
        if self._users:
            return
        try:
            async with asyncio.timeout(_RECOVERY_S):
                while self._deadlines or self._tasks:
                    for deadline in self._deadlines:
                        if not deadline.expired():
                            deadline.reschedule(0)
                    await asyncio.sleep(0.005)
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
        pools = [pool for pool in (self._ours, self._authors) if pool is not None]
        self._ours = self._authors = None
        for pool in pools:
            await pool.engine.dispose()

    async def fetch(
        self, statement: Statement, *, limit: int, within: float, lane: Lane = "hot"
    ) -> Rows:
        """Run one SELECT of ours and return at most `limit` rows, within so many seconds.

        Raises:
            Unfit: a value does not fit where it is bound.
        """

        async def work(connection: Connection) -> Rows:
            return await self._select(connection, statement, limit, within)

        return await settle(self._run(work, within=within, lane=lane))

    async def query(self, statement: Statement, *, limit: int, within: float) -> Rows:
        """Run a query of the manifest's author, who may be wrong or worse.

        Raises:
            InvalidParameter: the database refuses it; the message says nothing of its SQL.
        """

        async def work(connection: Connection) -> Rows:
            return await self._select_wrapped(connection, statement, limit)

        return await self._run(work, within=within, author=True)

    async def check(self, sql: str, parameters: Sequence[str]) -> Sequence[str] | None:
        """Prepare a query without running it; return its columns, or None where that is unknown.

        Raises:
            ValueError: it is refused; the message is for the manifest's author.
        """

        async def work(connection: Connection) -> Sequence[str] | None:
            return await self._describe(connection, sql, len(parameters))

        return await self._run(work, within=CHECK_S, author=True)

    # How a driver does it.

    @abstractmethod
    async def _connect(self, *, author: bool) -> Connection:
        """Connect for reading.

        Raises:
            MountUnavailable, ResourceBusy: as `_failure` says.
        """

    @abstractmethod
    async def _begin(self, connection: Connection, within: float) -> None:
        """Begin a transaction that cannot write, and cannot be made to."""

    @abstractmethod
    async def _end(self, connection: Connection, *, author: bool) -> None:
        """Roll back; after an author's statement bring the session back to its beginning."""

    @abstractmethod
    async def _stop(self, connection: Connection) -> bool:
        """Stop a statement that was cancelled; return whether the connection can go on."""

    @abstractmethod
    async def _probe(self, connection: Connection) -> None:
        """Learn what the engine has to know of the server."""

    @abstractmethod
    async def _select(
        self, connection: Connection, statement: Statement, limit: int, within: float
    ) -> Rows:
        """Run a statement of ours."""

    @abstractmethod
    async def _select_wrapped(
        self, connection: Connection, statement: Statement, limit: int
    ) -> Rows:
        """Run an author's statement as a table of a SELECT of ours."""

    @abstractmethod
    async def _describe(
        self, connection: Connection, sql: str, parameters: int
    ) -> Sequence[str] | None:
        """Prepare an author's statement as `_select_wrapped` would run it."""

    @abstractmethod
    def _is_lost(self, error: BaseException) -> bool:
        """Whether the connection is gone."""

    @abstractmethod
    def _failure(self, error: Exception, *, author: bool) -> Exception:
        """Return what the error of a driver means; the same where it means nothing."""

    @abstractmethod
    def _import_driver(self) -> None:
        """Import the driver.

        Raises:
            MountUnavailable: it is not installed; names what brings it.
        """

    # Pools.

    def _pool(self, *, author: bool) -> Pool:
        if self._ours is None or self._authors is None:
            self._ours = self._make_pool(author=False)
            self._authors = self._make_pool(author=True)
        return self._authors if author else self._ours

    def _make_pool(self, *, author: bool) -> Pool:
        self._import_driver()
        from sqlalchemy.ext.asyncio import create_async_engine

        async def connect() -> Connection:
            return await self._connect(author=author)

        size = AUTHOR_POOL_SIZE if author else POOL_SIZE
        engine = create_async_engine(
            self._parsed_url(),
            async_creator=connect,
            pool_size=size,
            max_overflow=0,
            # Every statement is rolled back here, with a deadline.
            pool_reset_on_return=None,
            **self.engine_options,
        )
        return Pool(engine, size)

    def _parsed_url(self) -> URL:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        if self._url is None:
            try:
                url = make_url(self._given_url).set(drivername=self.driver)
            except (ArgumentError, ValueError):
                raise MountUnavailable("the database's URL cannot be read") from None
            self._url = url
        return self._url

    def _connect_options(self) -> dict[str, Any]:
        """Return the driver's own options of the URL."""
        _, options = self.dialect.create_connect_args(self._parsed_url())
        return dict(cast("dict[str, Any]", options))

    # One statement.

    async def _run(
        self, work: Work[T], *, within: float, lane: Lane = "hot", author: bool = False
    ) -> T:
        """Do something on a connection inside the envelope, in its turn and within seconds."""
        pool = self._pool(author=author)
        lanes = (self._slow, pool.places) if lane == "slow" and not author else (pool.places,)
        entered: list[Places] = []
        waiting = True
        deadline = asyncio.timeout(within)
        try:
            async with deadline:
                self._deadlines.add(deadline)
                await _enter(lanes, entered)
                waiting = False
                return await self._hold(pool, entered, work, within, author)
        except TimeoutError:
            if not deadline.expired():
                raise MountUnavailable("the database server does not answer") from None
            if waiting:
                raise ResourceBusy("the database is overloaded") from None
            raise DeadlineExceeded from None
        except Exception as error:
            failure = self._mapped(error, author=author)
            if failure is error:
                raise
            raise failure from None
        finally:
            self._deadlines.discard(deadline)

    def _mapped(self, error: Exception, *, author: bool) -> Exception:
        if isinstance(error, ResourceServerError):
            return error
        if isinstance(error, Lost):
            return ResourceBusy("the connection to the database was lost")
        failure = self._failure(error, author=author)
        if failure is not error:
            return failure
        from sqlalchemy.exc import SQLAlchemyError

        if isinstance(error, SQLAlchemyError):
            return MountUnavailable("the database server is not one that can be used")
        return error

    def _raise_unless_passing(self, error: Exception) -> None:
        """Raise what no second attempt can mend; a server that cannot be reached may come back."""
        passing = isinstance(error, TimeoutError | ResourceServerError)
        if not passing and self._failure(error, author=False) is error:
            raise error

    async def _hold(
        self, pool: Pool, entered: list[Places], work: Work[T], within: float, author: bool
    ) -> T:
        """Do something on a connection, which goes back to its pool, and leave the places."""
        pooled: Any = None
        try:
            pooled = await self._ready(pool, within)
            result = await work(pooled.driver_connection)
            await self._end(pooled.driver_connection, author=author)
        except BaseException as error:
            if pooled is None:
                _leave(entered)
            elif self._is_lost(error):
                _give_up(pooled)
                _leave(entered)
            else:
                stopped = isinstance(error, asyncio.CancelledError)
                self._start(self._recover(pooled, entered, stopped=stopped, author=author))
            raise
        pooled.close()
        _leave(entered)
        return result

    async def _ready(self, pool: Pool, within: float) -> Any:
        """Return a pooled connection whose transaction has begun.

        Connections may have died while nobody used them, all of them if the server was restarted.
        """
        for _ in range(pool.size + 1):
            pooled: Any = await pool.engine.raw_connection()
            try:
                await self._begin(pooled.driver_connection, within)
            except asyncio.CancelledError:
                # Nothing to stop: BEGIN does not take long unless the server is gone.
                _give_up(pooled)
                raise
            except Exception as error:
                _give_up(pooled)
                if not self._is_lost(error):
                    raise
            else:
                return pooled
        raise Lost

    async def _recover(
        self, pooled: Any, entered: list[Places], *, stopped: bool, author: bool
    ) -> None:
        """Put a connection right whose statement failed or was cancelled, or give it up."""
        usable = False
        try:
            async with asyncio.timeout(_RECOVERY_S):
                connection = pooled.driver_connection
                if not stopped or await self._stop(connection):
                    await self._end(connection, author=author)
                    usable = True
        except Exception:
            # Why is not logged: messages of drivers hold names of users and hosts.
            _log.info("gave up a connection to a database that did not come to rest")
        finally:
            if usable:
                pooled.close()
            else:
                _give_up(pooled)
            _leave(entered)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What engines do differently as a whole.

    @property
    @abstractmethod
    def name(self) -> EngineName:
        """`postgresql`, `mysql` or `mariadb`."""

    @property
    @abstractmethod
    def has_schemas(self) -> bool:
        """Whether tables lie in schemas that are part of their address."""

    @abstractmethod
    async def tables(self) -> Sequence[TableInfo]:
        """Return every table and view a user would count as one, ordered by schema and name."""

    @abstractmethod
    async def table(self, name: TableName) -> Table:
        """Return one table as reflected now.

        Raises:
            ResourceNotFound: there is none of this name, or it may not be read.
        """

    @abstractmethod
    async def estimate(self, name: TableName) -> int | None:
        """Return about how many rows a table has, from statistics; None where there are none."""

    @abstractmethod
    async def schema_state(self) -> object:
        """Return what differs when any table was made, changed or dropped."""

    @abstractmethod
    async def privileges(self) -> Sequence[Privilege]:
        """Return what the login may do beyond reading."""

    def commits(self) -> AsyncGenerator[None, None]:
        """Yield whenever something may have been committed, and once at the beginning."""
        return self._commits.follow()

    @abstractmethod
    def _notice_commits(self) -> AsyncGenerator[None, None]:
        """Yield as `commits`, on a connection of its own."""


async def _enter(lanes: Sequence[Places], entered: list[Places]) -> None:
    try:
        for places in lanes:
            await places.enter()
            entered.append(places)
    except BaseException:
        _leave(entered)
        raise


def _leave(entered: list[Places]) -> None:
    while entered:
        entered.pop().leave()


def _give_up(pooled: Any) -> None:
    """Close a connection at once, whatever its state, and take it out of its pool."""
    if pooled.dbapi_connection is not None:
        pooled.invalidate()
        pooled.close()
