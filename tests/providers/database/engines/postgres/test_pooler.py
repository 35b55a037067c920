"""PostgreSQL behind a connection pooler, which shares its sessions. Case: Databases 3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from resource_server.errors import MountUnavailable, ResourceError
from resource_server.providers.database.engines.contract import CommitDetection, Statement
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.provider import Database as Provider
from tests.cli.test_http_options import write_certificate
from tests.providers.database import postgres_databases
from tests.providers.database.engines.postgres.test_postgres_hostile import (
    ENDLESS,
    HOSTILE,
    LEGITIMATE,
    PASSING,
)
from tests.providers.database.poolers import IGNORED, pgbouncer, settings_of_others
from tests.providers.database.postgres_databases import Database, rows
from tests.providers.database.servers import Commits, attempt
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

database = postgres_databases.database

NAMED = "SELECT runs('PREPARE evil AS SELECT 1')"
"""Leaves a name in a session that others share; only an owner's function can do that."""


@pytest.fixture(params=["", IGNORED], ids=["refuses settings", "ignores settings"])
def pooled(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[str]:
    with pgbouncer(database, tmp_path, ignored=request.param) as url:
        yield url


@pytest.fixture
async def engine(pooled: str) -> AsyncIterator[PostgresEngine]:
    made = PostgresEngine(pooled, interval=0.05)
    await made.open()
    yield made
    await made.close()


async def test_hostile_queries_write_nothing_through_a_pooler_and_leave_no_settings_to_others(
    engine: PostgresEngine, database: Database, pooled: str
) -> None:
    before, settings = await database.checksum(), await settings_of_others(pooled)
    for sql in HOSTILE:
        assert await attempt(engine, sql) == "refused", sql
    for sql in PASSING:
        if sql != NAMED:
            assert await attempt(engine, sql) in {"answered", "refused"}, sql
            assert await settings_of_others(pooled) == settings, sql
    for sql in ENDLESS:
        assert await attempt(engine, sql) == "stopped"
    assert await database.checksum() == before
    assert await settings_of_others(pooled) == settings


@pytest.mark.guarantee("engines-enforce-read-only")
async def test_every_transaction_behind_a_pooler_is_read_only_with_its_own_settings(
    engine: PostgresEngine,
) -> None:
    names = "transaction_read_only", "lock_timeout", "jit", "standard_conforming_strings"
    shown = ", ".join(f"current_setting('{name}')" for name in names)
    sql = f"SELECT {shown}, pg_sleep(0.02)::text"
    expected = [("on", "500ms", "off", "on", "")]
    for _ in range(3):
        asked = (engine.run_authored(Statement(sql), limit=1, within=PATIENCE_S) for _ in range(2))
        own = (rows(engine, sql) for _ in range(4))
        assert [found.rows for found in await asyncio.gather(*asked, *own)] == [expected] * 6


async def test_a_database_behind_a_pooler_is_read_searched_and_watched(
    engine: PostgresEngine, database: Database
) -> None:
    for sql, count in LEGITIMATE:
        assert (
            len((await engine.run_authored(Statement(sql), limit=10, within=PATIENCE_S)).rows)
            == count
        )
    commits = Commits(engine)
    await commits.beyond(0)
    await commits.quiet(0.5)
    seen = commits.seen
    await database.execute("UPDATE victims SET name = name WHERE id = 1")
    await commits.beyond(seen)
    await commits.stop()


async def test_statements_of_many_connections_share_the_sessions_of_a_pooler(
    engine: PostgresEngine, pooled: str
) -> None:
    sql = "SELECT name, $1::int, pg_sleep(0.001)::text FROM victims WHERE id = $1"
    others = [PostgresEngine(pooled) for _ in range(3)]
    for other in others:
        await other.open()
    try:
        asked = [rows(one, sql, number) for number in range(1, 40) for one in (engine, *others)]
        for at, found in enumerate(await asyncio.gather(*asked)):
            assert found.rows == [(f"name {at // 4 + 1}", at // 4 + 1, "")]
    finally:
        for other in others:
            await other.close()


async def test_no_session_of_a_pooler_is_taken_between_two_reads(
    pooled: str, database: Database
) -> None:
    engine = PostgresEngine(pooled)
    engine.unused_s = PATIENCE_S
    await engine.open()
    await asyncio.gather(*(rows(engine, "SELECT pg_sleep(0.01)") for _ in range(4)))
    are_idle = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() HAVING bool_and(state = 'idle')"
    )
    await until(lambda: database.run(are_idle))
    await engine.close()


async def test_options_of_a_session_are_refused_behind_a_pooler_by_name(pooled: str) -> None:
    engine = PostgresEngine(f"{pooled}?options=-csearch_path=other")
    with pytest.raises(MountUnavailable, match="url: options: a connection pooler stands betw"):
        await engine.open()
    await engine.close()


async def test_notifications_are_replaced_by_polls_behind_a_pooler(
    pooled: str, caplog: pytest.LogCaptureFixture, database: Database
) -> None:
    engine = PostgresEngine(pooled, interval=0.05, notify=True)
    await engine.open()
    assert engine.commit_detection == CommitDetection("commits", 0.05)
    commits = Commits(engine)
    await commits.beyond(0)
    await commits.quiet(0.5)
    seen = commits.seen
    await database.execute("UPDATE victims SET name = name WHERE id = 1")
    await commits.beyond(seen)
    await commits.stop()
    await engine.close()
    told = [record.message for record in caplog.records if "pooler" in record.message]
    assert told == ["a connection pooler passes on no notifications: polling for changes"]


async def test_a_pooler_of_single_statements_is_refused_with_its_mode(
    database: Database, tmp_path: Path
) -> None:
    with pgbouncer(database, tmp_path, mode="statement") as url:
        engine = PostgresEngine(url)
        with pytest.raises(MountUnavailable, match="pool_mode=transaction"):
            await engine.open()
        await engine.close()


async def test_tables_are_served_from_behind_a_pooler(pooled: str) -> None:
    async with Provider(url=pooled) as provider:
        found = await provider.list(("public",), after=None, limit=100)
        assert ("public", "victims") in {each.path for each in found}
        (row,) = await provider.read(("public", "victims", "7"), {})
        assert "name 7" in str(row.data)
        with pytest.raises(ResourceError):
            await provider.read(("public", "victims", "7000"), {})


def certificate(folder: Path) -> Path:
    """Make a certificate of this machine that proves itself, with its key."""
    folder.mkdir(mode=0o755)
    both = folder / "both.pem"
    both.write_bytes(b"".join(path.read_bytes() for path in write_certificate(folder)))
    both.chmod(0o644)
    return both


async def test_the_parameters_of_libpq_for_tls_are_honoured(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own, other = certificate(tmp_path / "own"), certificate(tmp_path / "other")
    with pgbouncer(database, tmp_path, certificate=own) as url:
        for query, says in {
            "sslmode=require": None,
            "ssl=true": None,
            f"sslmode=verify-full&sslrootcert={own}": None,
            f"sslmode=verify-ca&sslrootcert={own}&sslnegotiation=postgres": None,
            "sslmode=disable": ".",
            f"sslmode=verify-ca&sslrootcert={other}": "certificate",
            "sslmode=verify-full&sslrootcert=system": "certificate",
            "sslmode=verify-full": "certificate",
            f"sslmode=verify-full&sslrootcert={tmp_path}/none.pem": "sslrootcert: there is no file",
        }.items():
            engine = PostgresEngine(f"{url}?{query}")
            if says is None:
                await engine.open()
            else:
                with pytest.raises(MountUnavailable, match=says):
                    await engine.open()
            await engine.close()
