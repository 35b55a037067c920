"""MariaDB or MySQL as a service: queues, deadlines, failures, commits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from resource_server.providers.database.engines.reflection import TableName
from tests.providers.database import mysql_databases
from tests.providers.database.mysql_databases import ADMIN, Database, connect, rows
from tests.providers.database.postgres_databases import ADMIN as POSTGRES
from tests.providers.database.servers import (
    PATIENCE_S,
    Commits,
    assert_secrets_kept,
    proxy_to,
    with_parts,
)
from tests.waiting import quiet_for, until

pytestmark = pytest.mark.anyio

database, engine = mysql_databases.database, mysql_databases.engine


@contextmanager
def connecting(meanwhile: Callable[[], Awaitable[None]]) -> Generator[None]:
    """Run `meanwhile` when a connection is made, before its caller learns of it."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def held(*given: Any, **options: Any) -> tuple[asyncio.Transport, asyncio.Protocol]:
        made = await connect(*given, **options)
        try:
            await meanwhile()
        except BaseException:
            made[0].close()
            raise
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "create_connection", held)
        yield


# Limits.


async def test_stuck_queries_do_not_delay_rows(engine: MysqlEngine) -> None:
    sleep = Statement("SELECT SLEEP(60) AS s")
    stuck = [
        *(asyncio.create_task(engine.run_authored(sleep, limit=1, within=60)) for _ in range(6)),
        *(
            asyncio.create_task(engine.run_own(sleep, limit=1, within=60, slow=True))
            for _ in range(6)
        ),
    ]
    await asyncio.sleep(0)
    assert (await rows(engine, "SELECT COUNT(*) FROM victims")).rows == [(50,)]
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_the_server_stops_the_statement_of_a_cancelled_caller(
    engine: MysqlEngine, database: Database
) -> None:
    # The server's own timeout would stop it much later.
    endless = Statement("SELECT BENCHMARK(1000000000000, MD5('cancelled'))")
    task = asyncio.create_task(engine.run_own(endless, limit=1, within=600))
    running = (
        "SELECT id FROM information_schema.processlist WHERE info LIKE '%MD5(''cancelled%'"
        f" AND user = '{database.user}'"
    )

    async def runs() -> bool:
        return bool(await database.run(running))

    async def stopped() -> bool:
        return not await runs()

    await until(runs)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(stopped)


async def test_a_cancellation_that_arrives_with_the_connection_is_not_lost(
    database: Database,
) -> None:
    engine = MysqlEngine(database.url)

    async def cancel() -> None:
        asking.cancel()

    with connecting(cancel):
        asking = asyncio.create_task(rows(engine, "SELECT 1"))
        with pytest.raises(asyncio.CancelledError):
            await asking
    await engine.close()


@pytest.mark.deep
async def test_nothing_is_left_open_of_a_connect_that_outlasts_the_close() -> None:
    reached = asyncio.Event()

    def be_silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.append(writer)
        reached.set()

    kept: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engine = MysqlEngine(f"mysql://me@127.0.0.1:{port}/d")
        before = asyncio.all_tasks()
        opening = asyncio.create_task(engine.open())
        await reached.wait()
        opening.cancel()
        await asyncio.wait([opening])
        await engine.close()
        assert asyncio.all_tasks() == before
        for writer in kept:
            writer.close()


async def test_timeouts_in_the_url_are_ignored(database: Database) -> None:
    # The driver's timeouts lose cancellations.
    engine = MysqlEngine(f"{database.url}?read_timeout=1&connect_timeout=0")
    assert (await rows(engine, "SELECT SLEEP(1.2)")).rows == [(0,)]
    await engine.close()


async def test_closing_stops_running_statements(database: Database) -> None:
    engine = MysqlEngine(database.url)
    await engine.open()
    task = asyncio.create_task(
        engine.run_authored(Statement("SELECT SLEEP(60) AS closing"), limit=1, within=60)
    )
    connected = f"SELECT id FROM information_schema.processlist WHERE user = '{database.user}'"

    async def runs() -> bool:
        return bool(await database.run(connected + " AND info LIKE '%closing%'"))

    async def gone() -> bool:
        return not await database.run(connected)

    await until(runs)
    await engine.close()
    with pytest.raises(DeadlineExceeded):
        await task
    await until(gone)


# Failures.

UNUSABLE: list[tuple[Callable[[str], str], str]] = [
    (lambda url: url.replace("hunter2secret", "hunter2wrong"), "refuses the login"),
    (lambda url: with_parts(url, login="nobody_zq:hunter2secret"), "refuses the login"),
    (
        lambda url: with_parts(url, database="absent_zq"),
        "may not use|no such database",
    ),
    (lambda url: with_parts(url, database=""), "names no database"),
    (lambda url: with_parts(url, port=1), "cannot be reached"),
    (lambda url: url.replace("127.0.0.1", "absent-zq.invalid"), "cannot be reached"),
    (lambda url: url + "?conect_timeout=1", "'conect_timeout' is unknown; did you mean 'connect_t"),
    (lambda _: "hunter2secret", "not the URL of a database server"),
    (lambda url: with_parts(url, port=99999), "99999 is no port"),
    (
        lambda url: with_parts(url, port=urlsplit(POSTGRES).port) + "?connect_timeout=1",
        "no server of MariaDB or MySQL answers",
    ),
]


@pytest.mark.parametrize(("change", "says"), UNUSABLE)
async def test_an_unavailable_database_reveals_no_password(
    database: Database,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[str], str],
    says: str,
) -> None:
    caplog.set_level(0)
    engine = MysqlEngine(change(database.url))
    with pytest.raises(MountUnavailable, match=says) as raised:
        await engine.open()
    async with asyncio.timeout(4):  # a mount that cannot start must not run out of time
        await engine.close()
    assert_secrets_kept(raised.value, caplog, "hunter2secret", "hunter2wrong")


async def test_a_missing_driver_names_its_extra(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncmy", None)
    with pytest.raises(
        MountUnavailable, match=r"needs more packages; install them: .*\[(.*,)?mysql[,\]]"
    ):
        await MysqlEngine(database.url).open()


async def test_the_engine_reconnects_to_a_restarted_server(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 3306) as proxy:
        engine = MysqlEngine(with_parts(database.url, port=proxy.port))
        await engine.open()
        try:
            await asyncio.gather(*(rows(engine, "SELECT SLEEP(0.1)") for _ in range(4)))
            running = asyncio.create_task(rows(engine, "SELECT SLEEP(60) AS cut"))
            active = (
                "SELECT id FROM information_schema.processlist WHERE info LIKE '%AS cut%'"
                f" AND user = '{database.user}'"
            )
            await until(lambda: database.run(active))
            await proxy.cut()
            with pytest.raises(ResourceBusy) as lost:
                await running
            with pytest.raises(MountUnavailable) as unreachable:
                await rows(engine, "SELECT 1")
            await proxy.restore()
            assert (await rows(engine, "SELECT 1")).rows == [(1,)]
        finally:
            await engine.close()
    for error in (lost.value, unreachable.value):
        assert_secrets_kept(error, caplog, "hunter2")


async def test_dead_idle_connections_are_replaced(engine: MysqlEngine, database: Database) -> None:
    await asyncio.gather(*(rows(engine, "SELECT SLEEP(0.1)") for _ in range(4)))
    ids = await database.run(
        f"SELECT id FROM information_schema.processlist WHERE user = '{database.user}'"
    )
    await database.run(*(f"KILL {number}" for (number,) in ids))
    for _ in range(6):
        assert (await rows(engine, "SELECT 1")).rows == [(1,)]


# Commits.


async def test_every_commit_is_detected(engine: MysqlEngine, database: Database) -> None:
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        for sql in (
            "UPDATE victims SET name = 'changed' WHERE id = 50",
            "INSERT INTO old VALUES (5)",
            "TRUNCATE old",
            "CREATE TABLE noticed (x int)",
            "DROP TABLE noticed",
        ):
            seen = commits.seen
            await database.run(sql)
            await commits.beyond(seen)
        connection = await connect(database.name)
        async with connection.cursor() as cursor:
            await cursor.execute("BEGIN")
            await cursor.execute("UPDATE victims SET name = 'later' WHERE id = 49")
            await commits.quiet(0.5)
            seen = commits.seen
            await cursor.execute("COMMIT")
        await connection.ensure_closed()
        await commits.beyond(seen)
    finally:
        await commits.stop()


async def test_a_definition_that_waits_for_a_lock_is_detected_when_it_ends(
    engine: MysqlEngine, database: Database
) -> None:
    commits = Commits(engine)
    reader = await connect(database.name)
    try:
        await database.run("CREATE TABLE held (x int)")
        async with reader.cursor() as cursor:
            await cursor.execute("BEGIN")
            await cursor.execute("SELECT * FROM held")
            dropping = asyncio.create_task(database.run("DROP TABLE held"))
            await commits.quiet(0.5)
            assert not dropping.done()
            seen = commits.seen
            await cursor.execute("ROLLBACK")
            await dropping
        await commits.beyond(seen)
    finally:
        await reader.ensure_closed()
        await commits.stop()


async def test_a_table_is_listed_while_its_altered_copy_takes_its_place(
    engine: MysqlEngine, database: Database
) -> None:
    await database.run("CREATE TABLE copied (x int)", "CREATE VIEW seen AS SELECT x FROM copied")
    name, view = TableName(None, "copied"), TableName(None, "seen")
    wanted = await engine.tables()

    async def alter() -> None:
        for number in range(150):
            await database.run(f"ALTER TABLE copied COMMENT '{number}', ALGORITHM = COPY")

    altering = asyncio.create_task(alter())
    while not altering.done():
        assert [info.name for info in await engine.tables()] == [info.name for info in wanted]
        assert (name, "x") in (await engine.view_reads([view]))[view]
    await altering


async def test_the_state_differs_after_a_catalog_without_a_table_that_is_back(
    engine: MysqlEngine, database: Database
) -> None:
    await database.run("CREATE TABLE back (x int)")
    before = await engine.schema_state()
    await database.run("DROP TABLE back")
    assert "back" not in [info.name.name for info in await engine.tables()]
    await database.run("CREATE TABLE back (x int)")
    assert await engine.schema_state() != before


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("is_reached", [True, False])
async def test_a_commit_watch_can_end_while_it_connects(
    engine: MysqlEngine, turns: int, *, is_reached: bool
) -> None:
    ending = asyncio.get_running_loop().create_future()

    async def end() -> None:
        if not ending.done():
            ending.set_result(asyncio.create_task(commits.stop()))
            for _ in range(turns):
                await asyncio.sleep(0)
        if not is_reached:
            raise ConnectionRefusedError

    with connecting(end):
        commits = Commits(engine)
        async with asyncio.timeout(PATIENCE_S):
            await (await ending)


async def test_commits_during_an_outage_are_noticed(
    database: Database,
) -> None:
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 3306) as proxy:
        engine = MysqlEngine(with_parts(database.url, port=proxy.port), interval=0.05)
        await engine.open()
        commits = Commits(engine)
        try:
            await commits.beyond(0)
            await proxy.cut()
            await database.run("UPDATE victims SET name = 'away' WHERE id = 47")
            # Long enough for an attempt to fail.
            await quiet_for(0.3)
            seen = commits.seen
            await proxy.restore()
            await commits.beyond(seen)
            seen = commits.seen
            await database.run("UPDATE victims SET name = 'again' WHERE id = 47")
            await commits.beyond(seen)
        finally:
            await commits.stop()
            await engine.close()


# URLs.


async def test_urls_of_other_programs_connect(database: Database) -> None:
    parts = urlsplit(database.url)
    login, place = parts.netloc.rpartition("@")[::2]
    for url in (
        f"mysql2://{login}@{place}/{database.name}?encoding=utf8mb4&pool=5&reconnect=true",
        f"mariadb://{login}@127.0.0.1:1,{place}/{database.name}?ssl-mode=PREFERRED",
        f"mysql://{login}@{place}/{database.name}?charset=utf8&connect_timeout=5&program_name=x",
        f"mysql:///{database.name}?host=127.0.0.1&port={parts.port or 3306}"
        f"&user={database.user}&password=hunter2secret",
    ):
        engine = MysqlEngine(url)
        await engine.open()
        try:
            assert (await rows(engine, "SELECT DATABASE()")).rows == [(database.name,)]
        finally:
            await engine.close()


async def test_a_server_without_tls_is_not_used_where_the_url_requires_it(
    database: Database,
) -> None:
    ((has_tls,),) = await database.run("SELECT @@have_ssl")
    engine = MysqlEngine(f"{database.url}?ssl-mode=REQUIRED")
    if has_tls == "YES":
        pytest.skip("this server has TLS")
    with pytest.raises(MountUnavailable):
        await engine.open()
    await engine.close()
