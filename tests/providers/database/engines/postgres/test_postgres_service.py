"""PostgreSQL as a service: queues, deadlines, failures, commits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    ResourceBusy,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.server_base import POOL_SIZE
from resource_server.providers.database.engines.slots import MAX_WAITING
from tests.cases import for_each
from tests.providers.database import postgres_databases
from tests.providers.database.mysql_databases import ADMIN as MARIADB
from tests.providers.database.postgres_databases import ADMIN, Database, rows
from tests.providers.database.servers import (
    PATIENCE_S,
    Commits,
    assert_secrets_kept,
    proxy_to,
    with_parts,
)
from tests.waiting import quiet_for, until

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine


# Limits.


async def test_stuck_queries_do_not_delay_rows(engine: PostgresEngine) -> None:
    sleeps = [
        asyncio.create_task(
            engine.run_authored(Statement("SELECT pg_sleep(60)"), limit=1, within=60)
        )
        for _ in range(6)
    ]
    slow = [
        asyncio.create_task(
            engine.run_own(Statement("SELECT pg_sleep(60)"), limit=1, within=60, slow=True)
        )
        for _ in range(6)
    ]
    await asyncio.sleep(0)
    found = await rows(engine, "SELECT count(*) FROM victims")
    assert found.rows == [(50,)]
    for task in (*sleeps, *slow):
        task.cancel()
    await asyncio.gather(*sleeps, *slow, return_exceptions=True)


async def test_requests_beyond_the_queue_are_refused_at_once(engine: PostgresEngine) -> None:
    sleep = Statement("SELECT pg_sleep(600)")
    waiting = [
        asyncio.create_task(engine.run_own(sleep, limit=1, within=600))
        for _ in range(POOL_SIZE + MAX_WAITING)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ResourceBusy):
            await engine.run_own(Statement("SELECT 1"), limit=1, within=600)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await rows(engine, "SELECT 1")).rows == [(1,)]


async def test_a_caller_that_gets_no_connection_in_time_is_told_that_the_database_is_busy(
    engine: PostgresEngine,
) -> None:
    async def one() -> str:
        try:
            await engine.run_own(Statement("SELECT pg_sleep(600)"), limit=1, within=0.4)
        except (ResourceBusy, DeadlineExceeded) as error:
            return type(error).__name__
        return "answered"

    outcomes = await asyncio.gather(*(one() for _ in range(20)))
    assert set(outcomes) == {"ResourceBusy", "DeadlineExceeded"}
    assert (await rows(engine, "SELECT 1")).rows == [(1,)]


async def test_the_server_stops_the_statement_of_a_cancelled_caller(
    engine: PostgresEngine, database: Database
) -> None:
    # The server's own timeout would stop it much later.
    sleep = Statement("SELECT pg_sleep(600) AS cancelled")
    task = asyncio.create_task(engine.run_own(sleep, limit=1, within=600))
    running = (
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%AS cancelled' AND state = 'active'"
        f" AND usename = '{database.role}'"
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


async def test_closing_stops_running_statements(database: Database) -> None:
    engine = PostgresEngine(database.url)
    await engine.open()
    task = asyncio.create_task(
        engine.run_authored(Statement("SELECT pg_sleep(60) AS closing"), limit=1, within=60)
    )
    connected = f"SELECT pid FROM pg_stat_activity WHERE usename = '{database.role}'"

    async def runs() -> bool:
        return bool(await database.run(connected + " AND query LIKE '%closing%'"))

    async def gone() -> bool:
        return not await database.run(connected)

    await until(runs)
    await engine.close()
    with pytest.raises(DeadlineExceeded):
        await task
    await until(gone)


# Failures.


UNUSABLE: list[tuple[Callable[[str], str], str]] = [
    (lambda url: with_parts(url, login="nobody_zq:hunter2secret"), "refuses the login"),
    (lambda url: with_parts(url, database="absent_zq"), "no such database"),
    (lambda url: with_parts(url, database="template0"), "takes no connections"),
    (lambda url: with_parts(url, port=1), "cannot be reached"),
    (lambda url: url.replace("127.0.0.1", "absent-zq.invalid"), "cannot be reached"),
    (lambda url: url + "?conect_timeout=1", "'conect_timeout' is unknown; did you mean 'connect_t"),
    (lambda _: "postgresql://user:hunter2secret@[:1/x", "misplaced special characters"),
    (lambda _: "hunter2secret", "not the URL of a database server"),
    (lambda url: with_parts(url, port=99999), "99999 is no port"),
    (lambda url: with_parts(url, port=urlsplit(MARIADB).port), "or it is not PostgreSQL"),
]


@pytest.mark.parametrize(("change", "says"), UNUSABLE)
async def test_an_unavailable_database_reveals_no_password(
    database: Database,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[str], str],
    says: str,
) -> None:
    caplog.set_level(0)
    engine = PostgresEngine(change(database.url))
    with pytest.raises(MountUnavailable, match=says) as raised:
        await engine.open()
    await engine.close()
    assert_secrets_kept(raised.value, caplog, "hunter2secret", "hunter2wrong")


async def test_a_missing_driver_names_its_extra(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(
        MountUnavailable, match=r"needs more packages; install them: .*\[(.*,)?postgres[,\]]"
    ):
        await PostgresEngine(database.url).open()


async def test_the_engine_reconnects_to_a_restarted_server(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        engine = PostgresEngine(with_parts(database.url, port=proxy.port))
        await engine.open()
        try:
            await asyncio.gather(*(rows(engine, "SELECT pg_sleep(0.1)") for _ in range(4)))
            running = asyncio.create_task(rows(engine, "SELECT pg_sleep(60) AS cut"))
            active = (
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%AS cut%' AND state = 'active'"
                f" AND usename = '{database.role}'"
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


async def test_dead_idle_connections_are_replaced(
    engine: PostgresEngine, database: Database
) -> None:
    await asyncio.gather(*(rows(engine, "SELECT pg_sleep(0.1)") for _ in range(4)))
    await database.run(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{database.role}'"
    )
    for _ in range(6):
        assert (await rows(engine, "SELECT 1")).rows == [(1,)]


# Commits.


async def test_only_commits_are_detected(engine: PostgresEngine, database: Database) -> None:
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        for sql in (
            "UPDATE victims SET name = 'changed' WHERE id = 50",
            "CREATE TABLE noticed (x integer)",
            "DROP TABLE noticed",
        ):
            seen = commits.seen
            await database.execute(sql)
            await commits.beyond(seen)
        connection = await asyncpg.connect(with_parts(ADMIN, database=database.name))
        await connection.execute("BEGIN; UPDATE victims SET name = 'later' WHERE id = 49")
        await commits.quiet(0.5)
        seen = commits.seen
        await connection.execute("COMMIT")
        await connection.close()
        await commits.beyond(seen)
    finally:
        await commits.stop()


async def test_reading_does_not_count_as_a_commit(
    engine: PostgresEngine, database: Database
) -> None:
    # The snapshot covers the whole cluster, where other tests write.
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        await commits.quiet(0.3)
    finally:
        await commits.stop()


async def test_a_notification_wakes_the_watch_before_its_next_poll(
    database: Database,
) -> None:
    engine = PostgresEngine(database.url, interval=1000.0, notify=True, channel="changed now")
    await engine.open()
    commits = Commits(engine)
    try:
        await commits.beyond(0)
        seen = commits.seen
        async with asyncio.timeout(PATIENCE_S):
            await database.execute(
                "UPDATE victims SET name = 'told' WHERE id = 48; NOTIFY \"changed now\""
            )
            await commits.beyond(seen)
    finally:
        await commits.stop()
        await engine.close()


async def test_a_commit_watch_that_ends_while_it_starts_listening_leaves_nothing(
    database: Database,
) -> None:
    parts = urlsplit(ADMIN)
    connected = f"SELECT pid FROM pg_stat_activity WHERE usename = '{database.role}'"

    async def gone() -> bool:
        return not await database.run(connected)

    place = parts.hostname or "127.0.0.1", parts.port or 5432
    async with proxy_to(*place, hold=b"LISTEN") as proxy:
        engine = PostgresEngine(with_parts(database.url, port=proxy.port), notify=True)
        await engine.open()
        commits = Commits(engine)
        async with asyncio.timeout(PATIENCE_S):
            await proxy.holding.wait()
            await commits.stop()
        proxy.release()
        await engine.close()
        # Before the proxy ends, which would cut all connections.
        await until(gone)


@for_each("notify", [False, True])
async def test_commits_during_an_outage_are_noticed(database: Database, *, notify: bool) -> None:
    parts = urlsplit(ADMIN)
    async with proxy_to(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        url = with_parts(database.url, port=proxy.port)
        engine = PostgresEngine(url, interval=0.05, notify=notify)
        await engine.open()
        commits = Commits(engine)
        try:
            await commits.beyond(0)
            await proxy.cut()
            await database.execute("UPDATE victims SET name = 'away' WHERE id = 47")
            # Long enough for an attempt to fail.
            await quiet_for(0.3)
            seen = commits.seen
            await proxy.restore()
            await commits.beyond(seen)
            seen = commits.seen
            await database.execute("UPDATE victims SET name = 'again' WHERE id = 47")
            await commits.beyond(seen)
        finally:
            await commits.stop()
            await engine.close()


# URLs.


async def settings(url: str) -> Sequence[str]:
    """Return the settings of a session that a URL opens, and the login."""
    engine = PostgresEngine(url)
    await engine.open()
    try:
        names = "application_name", "work_mem", "default_transaction_read_only"
        shown = ", ".join(f"current_setting('{name}')" for name in names)
        found = await rows(engine, f"SELECT {shown}, session_user::text")
        return [str(value) for value in found.rows[0]]
    finally:
        await engine.close()


async def test_urls_of_other_programs_connect(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = urlsplit(database.url)
    login, place = parts.netloc.rpartition("@")[::2]
    alone = f"{database.role}@{place}/{database.name}"
    (tmp_path / "pass").write_text(f"*:*:*:{database.role}:hunter2secret\n")
    (tmp_path / "pass").chmod(0o600)
    (tmp_path / "services").write_text(
        f"[shop]\nhost={parts.hostname}\nport={parts.port or 5432}\nuser={database.role}\n"
        f"password=hunter2secret\ndbname={database.name}\napplication_name=served\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    expected = ["resource-server", "4MB", "on", database.role]
    for url, name in {
        # Case: Databases 2.
        f"postgresql://{login}@{place}/{database.name}"
        "?channel_binding=prefer&connect_timeout=5&application_name=x": "x",
        f"postgres://{login}@{place}/{database.name}": None,
        f"pgsql://{login}@127.0.0.1:1,{place}/{database.name}?target_session_attrs=primary": None,
        f"postgres://{alone}?passfile={tmp_path}/pass&gssencmode=prefer&sslmode=disable": None,
        "postgres://?service=shop": "served",
        f"postgres:///{database.name}?host=127.0.0.1&port={parts.port or 5432}"
        f"&user={database.role}&password=hunter2secret&fallback_application_name=f": "f",
    }.items():
        assert await settings(url) == [name or expected[0], *expected[1:]]
    found = await settings(f"{database.url}?options=-c%20work_mem%3D3MB%20-cgeqo=off")
    assert found == ["resource-server", "3MB", "on", database.role]


@for_each(
    ("query", "says"),
    [
        ("sslrootcert=/none/ca.pem", "sslrootcert: there is no file that may be read: /none/ca"),
        ("sslmode=require", "."),
        ("service=absent", "service=absent: neither"),
        ("target_session_attrs=standby", "."),
    ],
)
async def test_a_url_that_cannot_be_honoured_by_the_server_connects_to_nothing(
    database: Database, query: str, says: str
) -> None:
    engine = PostgresEngine(f"{database.url}?{query}")
    with pytest.raises(MountUnavailable, match=says):
        await engine.open()
    await engine.close()
