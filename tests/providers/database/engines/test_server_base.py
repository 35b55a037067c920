"""Shared connections and commit watches of a database server."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

from resource_server.access import Access, Caller, acting
from resource_server.catalog.catalog import Catalog
from resource_server.errors import DeadlineExceeded, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.server_base import (
    POOL_SIZE,
    ServerEngine,
    SharedCommits,
)
from resource_server.providers.database.options import Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.broker import Broker
from tests.listeners import IMPATIENT, Recorder, mounted, uri_of
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import timed_database
from tests.providers.database.servers import PATIENCE_S, PORTS, Proxy, proxy_to, with_parts
from tests.waiting import quiet_for, until

pytestmark = pytest.mark.anyio

TABLES = ("t0", "t1", "t2", "t3")
CONNECTIONS = {
    "postgresql": "select count(*) from pg_stat_activity where datname = current_database()",
    "mariadb": "select count(*) from information_schema.processlist where db = database()",
}
QUESTIONS = {
    "server": {"postgresql": b"SELECT 1 FROM pg_catalog.pg_class", "mariadb": b"CHECK_CONSTRAINTS"},
    "privileges": {"postgresql": b"pg_has_role", "mariadb": b"SHOW GRANTS"},
}
"""Text that identifies the queries of a start, in their order."""


async def connections(owner: Owner) -> int:
    ((count,),) = await owner.rows(CONNECTIONS[owner.engine])
    return int(count)


async def until_alone(owner: Owner) -> None:
    """Wait until the owner's own connection is the only one, also of those of the test before."""

    async def is_alone() -> bool:
        return await connections(owner) == 1

    await until(is_alone)


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_callers_who_see_parts_of_a_database_share_its_connections(
    owner: Owner, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owner.run(*(f"create table {name} (id integer primary key)" for name in TABLES))
    await until_alone(owner)
    tables = {name: TableOptions(access=Access(scopes=(name,))) for name in TABLES}
    database = Database(url=url, tables=tables, interval=Duration(0.05))
    held = [some for count in range(5) for some in combinations(TABLES, count)]
    recorders = {some: Recorder() for some in held}
    async with Catalog([mounted(database)]) as catalog:
        live = Broker(catalog, IMPATIENT)
        for some, recorder in recorders.items():
            with acting(Caller("somebody", frozenset(some))):
                paths = [entry.resource.path for entry in (await catalog.list()).entries]
                assert {path[-1] for path in paths if path} & set(TABLES) == set(some)
                await live.subscribe(uri_of(""), recorder)
                for name in some:
                    await live.subscribe(uri_of(owner.prefix + name), recorder)
        # The pool's connections, and the commit watch's.
        assert await connections(owner) - 1 <= POOL_SIZE + 1
        await owner.insert("t0", (1,))
        for some, recorder in recorders.items():
            if "t0" in some:
                await recorder.of(f"{owner.prefix}t0")
        for some, recorder in recorders.items():
            assert "t0" in some or recorder.told == []
        await live.close()
    await until_alone(owner)


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_connections_are_kept_until_the_last_caller_has_left(owner: Owner, url: str) -> None:
    await until_alone(owner)
    async with Database(url=url) as whole:
        async with whole.narrowed(frozenset()) as part:
            await part.list((), after=None, limit=9)
            kept = await connections(owner)
        assert await connections(owner) == kept > 1


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_closed_database_opens_no_connection(owner: Owner, url: str) -> None:
    database = timed_database(Timing(schema_cache_s=0.0), url=url)
    for _ in range(2):
        async with database:
            await database.list((), after=None, limit=9)
        with pytest.raises(ResourceBusy, match="closed"):
            await database.list((), after=None, limit=9)


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_an_aborted_start_leaves_no_connections(
    owner: Owner, url: str, asked: str, *, is_lost: bool
) -> None:
    parts = urlsplit(url)
    place = parts.hostname or "127.0.0.1", parts.port or PORTS[owner.engine]
    async with proxy_to(*place, hold=QUESTIONS[asked][owner.engine]) as proxy:
        database = Database(url=with_parts(url, port=proxy.port))
        starting = asyncio.create_task(database.__aenter__())
        async with asyncio.timeout(PATIENCE_S):
            await proxy.holding.wait()
        if is_lost:
            await proxy.cut()
            with pytest.raises((ResourceBusy, MountUnavailable)):
                await starting
            await proxy.restore()
        else:
            starting.cancel()
            proxy.release()
            with pytest.raises(asyncio.CancelledError):
                await starting
        await until_alone(owner)
        async with database:
            await database.list((), after=None, limit=9)
        await until_alone(owner)


def engine_on(url: str, port: int, *, unused_s: float = PATIENCE_S) -> ServerEngine:
    """Return the engine of a server behind a proxy; its transactions wait for their reads."""
    make = PostgresEngine if url.startswith("postgresql") else MysqlEngine
    engine = make(with_parts(url, port=port))
    engine.unused_s = unused_s
    return engine


async def ids(engine: ServerEngine) -> list[object]:
    rows = await engine.run_own(
        Statement("select id from t order by id"), limit=99, within=PATIENCE_S
    )
    return [row[0] for row in rows.rows]


NO_WAIT = {"postgresql": "set lock_timeout = 1", "mariadb": "set lock_wait_timeout = 0"}
TIDYING = {
    "postgresql": [b"ROLLBACK"],
    "mariadb": [b"ROLLBACK", b"SET NAMES", b"START TRANSACTION"],
}
"""Text that identifies the messages after a response, in their order."""


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[Proxy]:
    """A proxy to the server, which holds back what follows the next response."""
    parts = urlsplit(url)
    port = parts.port or PORTS["postgresql" if url.startswith("postgresql") else "mariadb"]
    async with proxy_to(parts.hostname or "127.0.0.1", port, hold=b"ROLLBACK") as made:
        yield made


@pytest.fixture
async def served(owner: Owner, url: str, proxy: Proxy) -> AsyncIterator[ServerEngine]:
    """The engine of that database, with a table `t`, in a transaction that nothing was read in."""
    await owner.run("create table t (id integer primary key)")
    proxy.release()
    engine = engine_on(url, proxy.port)
    await engine.open()
    assert await ids(engine) == []
    await begun(proxy, owner.engine)
    yield engine
    await engine.close()


async def begun(proxy: Proxy, engine: str) -> None:
    """Wait until the next transaction has begun."""
    await until(lambda: TIDYING[engine][-1] in proxy.sent[-1])


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_read_is_one_message_and_sees_what_was_committed_before_it(
    served: ServerEngine, owner: Owner, proxy: Proxy
) -> None:
    for number in range(5):
        await owner.insert("t", (number,))
        await begun(proxy, owner.engine)
        proxy.sent.clear()
        assert await ids(served) == list(range(number + 1))
        await begun(proxy, owner.engine)
        read, *tidying = proxy.sent
        assert not any(text in read for text in TIDYING[owner.engine])
        expected = zip(tidying, TIDYING[owner.engine], strict=True)
        assert all(text in message for message, text in expected)


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_response_does_not_wait_for_what_follows_it_but_the_next_statement_does(
    owner: Owner, url: str, proxy: Proxy
) -> None:
    await owner.run("create table t (id integer primary key)")
    engine = engine_on(url, proxy.port)
    await engine.open()  # its statement is answered while the end of its transaction is held back
    await proxy.holding.wait()
    for is_cancelled in (True, False):
        waiting = asyncio.create_task(ids(engine))
        await quiet_for(0.05)
        assert not waiting.done()
        if is_cancelled:
            waiting.cancel()
    proxy.release()
    assert await waiting == []
    await begun(proxy, owner.engine)
    # Of one connection: when it was made, and each time that a transaction began.
    assert sum(b"READ ONLY" in message for message in proxy.sent) == 4
    assert await ids(engine) == []
    await engine.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_definitions_do_not_wait_for_a_transaction_that_waits_for_its_read(
    served: ServerEngine, owner: Owner, proxy: Proxy
) -> None:
    before = len(proxy.sent)
    await owner.run(NO_WAIT[owner.engine], "alter table t add column name text", "drop table t")
    await owner.run("create table t (id integer primary key, other integer)")
    assert len(proxy.sent) == before
    assert await ids(served) == []


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_transaction_without_a_read_is_ended_soon(
    owner: Owner, url: str, proxy: Proxy
) -> None:
    await owner.run("create table t (id integer primary key)")
    proxy.release()
    engine = engine_on(url, proxy.port, unused_s=0.05)
    await engine.open()

    def is_ended() -> bool:
        *_, begin, end = proxy.sent
        return TIDYING[owner.engine][-1] in begin and end.rstrip(b"\0").endswith(b"ROLLBACK")

    for _ in range(2):
        await until(is_ended)
        assert await ids(engine) == []
    await engine.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_connection_lost_while_its_transaction_waits_is_replaced(
    served: ServerEngine, proxy: Proxy
) -> None:
    for _ in range(3):
        await proxy.cut()
        await proxy.restore()
        assert await ids(served) == []


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that can cancel a task before one of the callbacks to come."""

    _left = 0
    _task: asyncio.Task[object] | None = None

    def cancel_before(self, callback: int, task: asyncio.Task[object]) -> None:
        self._left, self._task = callback, task

    @override
    def call_soon(self, *given: Any, **options: Any) -> asyncio.Handle:
        self._left -= 1
        if self._left == 0 and self._task is not None:
            super().call_soon(self._task.cancel)
        return super().call_soon(*given, **options)


async def is_cancelled_in(step: str, callback: int, url: str) -> bool:
    """Start, read or close a database, cancelled before a callback; return whether it was."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    sleep = "select pg_sleep(30)" if url.startswith("postgresql") else "select sleep(30) as s"
    queries = {"quick": Query(sql="select 1 as one"), "slow": Query(sql=sleep)}
    database = timed_database(Timing(schema_cache_s=0.0), url=url, queries=queries)
    running: list[asyncio.Task[object]] = []
    if step != "start":
        await database.__aenter__()
    if step == "list":
        await database.list((), after=None, limit=9)
    if step == "close":
        running.append(asyncio.create_task(database.read(("~query", "slow"), {})))
        await database.list((), after=None, limit=9)
    steps: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "start": database.__aenter__,
        "read": lambda: database.read(("~query", "quick"), {}),
        "list": lambda: database.list((), after=None, limit=9),
        "close": database.__aexit__,
    }
    task = asyncio.create_task(steps[step]())
    loop.cancel_before(callback, task)
    await asyncio.wait([task])
    if step == "list":
        await database.list((), after=None, limit=9)
    if step in ("read", "list") or (step == "start" and not task.cancelled()):
        await database.__aexit__()
    for error in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(error, DeadlineExceeded | ResourceBusy)
    assert task.cancelled() or task.exception() is None
    return task.cancelled()


@pytest.mark.parametrize("step", ["start", "read", "list", "close"])
@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_cancellation_leaves_no_connection_wherever_it_comes(
    url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unclosed: list[object] = []

    def keep(found: Any) -> None:
        unclosed.append(found.exc_value)

    monkeypatch.setattr(sys, "unraisablehook", keep)
    gc.collect()
    unclosed.clear()
    for callback in range(2, 1000):  # before the first one, nothing has begun
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            is_cancelled = runner.run(is_cancelled_in(step, callback, url))
        gc.collect()
        assert (callback, unclosed) == (callback, [])
        if not is_cancelled:
            break

    async def all_closed() -> None:
        async with owner_of(url) as owner:
            await until_alone(owner)

    asyncio.run(all_closed())


class Source:
    """A commit watch that the test controls."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self._news = asyncio.Queue[Exception | None]()

    async def notice(self) -> AsyncGenerator[None, None]:
        self.begun += 1
        try:
            while True:
                error = await self._news.get()
                if error is not None:
                    raise error
                yield None
        finally:
            self.ended += 1

    def say(self, error: Exception | None = None) -> None:
        self._news.put_nowait(error)


async def test_one_commit_watch_serves_all_followers_and_ends_with_the_last(
    anyio_backend: object,
) -> None:
    source = Source()
    commits = SharedCommits(source.notice)
    async with asyncio.timeout(PATIENCE_S):
        for number in range(1, 3):
            async with aclosing(commits.follow()) as one, aclosing(commits.follow()) as other:
                first = asyncio.ensure_future(anext(one))
                source.say()
                await first
                # A later follower learns at once that the watch has started.
                await anext(other)
                source.say()
                await asyncio.gather(anext(one), anext(other))
                assert (source.begun, source.ended) == (number, number - 1)
            assert (source.begun, source.ended) == (number, number)


async def test_followers_get_the_error_that_ended_the_commit_watch(anyio_backend: object) -> None:
    source = Source()
    commits = SharedCommits(source.notice)
    async with asyncio.timeout(PATIENCE_S):
        async with aclosing(commits.follow()) as one, aclosing(commits.follow()) as other:
            waiting = [asyncio.ensure_future(anext(each)) for each in (one, other)]
            await asyncio.sleep(0)
            source.say(OSError())
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in found] == [OSError, OSError]
        async with aclosing(commits.follow()) as again:
            source.say()
            await anext(again)
    assert (source.begun, source.ended) == (2, 2)
