from __future__ import annotations

import asyncio
import pathlib
import random
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing

import pytest

from resource_server.providers.database.engines.sqlite import commits
from resource_server.providers.database.engines.sqlite.commits import SqliteCommitWatch, file_events
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
)
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.providers.database.sqlite_databases import PATIENCE_S, SlowFile, opened, write
from tests.waiting import connection_threads, quiet_for, steady, until

pytestmark = pytest.mark.anyio

ORDERS = "CREATE TABLE orders(id INTEGER PRIMARY KEY, n); INSERT INTO orders VALUES (1, 0);"
JOURNALS = ["DELETE", "WAL", "TRUNCATE", "PERSIST", "MEMORY"]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Heard:
    """Counts the commits that a follower noticed."""

    def __init__(self) -> None:
        self.count = 0
        self._noticed = asyncio.Event()

    async def follow(self, engine: SqliteEngine) -> None:
        async for _ in engine.commits():
            self.count += 1
            self._noticed.set()

    async def beyond(self, count: int) -> int:
        """Wait until more than `count` commits were noticed."""
        async with asyncio.timeout(PATIENCE_S):
            while self.count <= count:
                self._noticed.clear()
                await self._noticed.wait()
        return self.count


@asynccontextmanager
async def following(path: pathlib.Path) -> AsyncGenerator[Heard]:
    async with opened(path) as engine, followed(engine) as heard:
        yield heard


@asynccontextmanager
async def followed(engine: SqliteEngine) -> AsyncGenerator[Heard]:
    heard = Heard()
    task = asyncio.create_task(heard.follow(engine))
    try:
        yield heard
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("journal", JOURNALS)
async def test_every_commit_of_another_connection_is_noticed(
    tmp_path: pathlib.Path, journal: str
) -> None:
    path = write(tmp_path / "shop.db", f"PRAGMA journal_mode = {journal};" + ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        assert count == 1
        with closing(sqlite3.connect(path)) as writer:
            writer.execute(f"PRAGMA journal_mode = {journal}")
            for _ in range(5):
                with writer:
                    writer.execute("UPDATE orders SET n = n + 1")
                count = await heard.beyond(count)


async def test_schema_changes_are_noticed(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        for script in ("CREATE TABLE other(x)", "DROP TABLE orders", "VACUUM"):
            write(path, script)
            count = await heard.beyond(count)


async def test_only_commits_are_noticed(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        with closing(sqlite3.connect(path)) as writer:
            writer.execute("UPDATE orders SET n = n + 1")
            writer.rollback()
            writer.execute("UPDATE orders SET n = n + 1 WHERE id = 99")
            writer.rollback()
            await quiet_for(0.3)
            assert heard.count == count
            with writer:
                writer.execute("UPDATE orders SET n = n + 1")
            await heard.beyond(count)


async def test_a_replaced_file_is_noticed(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        write(tmp_path / "new.db", ORDERS).replace(path)
        count = await heard.beyond(count)
        write(path, "UPDATE orders SET n = n + 1")
        await heard.beyond(count)


async def test_a_file_that_vanishes_and_returns_is_noticed_twice(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        path.rename(tmp_path / "away.db")
        count = await heard.beyond(count)
        (tmp_path / "away.db").rename(path)
        await heard.beyond(count)


async def test_a_commit_behind_a_lock_is_noticed(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with following(path) as heard:
        count = await heard.beyond(0)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            writer.execute("UPDATE orders SET n = n + 1")
            await quiet_for(0.5)
            writer.execute("COMMIT")
            await heard.beyond(count)


@pytest.mark.skipif(sys.platform != "linux", reason="events of files are those of inotify")
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
async def test_file_events_reveal_a_commit_before_the_next_poll(
    tmp_path: pathlib.Path, journal: str
) -> None:
    path = write(tmp_path / "shop.db", f"PRAGMA journal_mode = {journal};" + ORDERS)
    # Its first poll comes long after the test has failed.
    engine = SqliteEngine(path, interval=600)
    await engine.open()
    async with followed(engine) as heard:
        count = await heard.beyond(0)
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as writer:
            for _ in range(10):
                with writer:
                    writer.execute("UPDATE orders SET n = n + 1")
                count = await heard.beyond(count)
    await engine.close()


class CountedFile(DatabaseFile):
    """Counts the looks at it."""

    looks = 0

    def is_current(self, identity: FileIdentity) -> bool:
        self.looks += 1
        return super().is_current(identity)


@pytest.mark.skipif(sys.platform != "linux", reason="events of files are those of inotify")
async def test_a_file_without_commits_is_rarely_looked_at(tmp_path: pathlib.Path) -> None:
    file = CountedFile(write(tmp_path / "shop.db", ORDERS))
    commits = SqliteCommitWatch(file, 0.02).follow()
    await anext(commits)
    following = asyncio.ensure_future(anext(commits))
    await steady(lambda: file.looks, 0.5)  # the looks after the first one
    file.looks = 0
    await quiet_for(2.0)
    assert file.looks <= 4  # one a second, instead of a hundred
    write(pathlib.Path(file.path), "UPDATE orders SET n = n + 1")
    async with asyncio.timeout(PATIENCE_S):
        await following
    await commits.aclose()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
async def test_the_last_of_many_commits_is_never_missed(
    tmp_path: pathlib.Path, journal: str
) -> None:
    path = write(tmp_path / "shop.db", f"PRAGMA journal_mode = {journal};" + ORDERS)
    chance = random.Random(journal)  # noqa: S311
    async with following(path) as heard:
        await heard.beyond(0)
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as writer:
            for _ in range(30):
                count = heard.count
                for _ in range(chance.randrange(1, 10)):
                    with writer:
                        writer.execute("UPDATE orders SET n = n + 1")
                # Nothing was awaited, so all of them came after `count`.
                await heard.beyond(count)


async def test_two_followers_notice_the_same_commits_and_end_separately(
    tmp_path: pathlib.Path,
) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with opened(path) as engine, followed(engine) as first:
        count = await first.beyond(0)
        async with followed(engine) as second:
            other = await second.beyond(0)
            write(path, "UPDATE orders SET n = n + 1")
            count = await first.beyond(count)
            await second.beyond(other)
        write(path, "UPDATE orders SET n = n + 1")
        await first.beyond(count)


@pytest.mark.parametrize("content", [b"", b"no database" * 100], ids=["database", "other file"])
def test_nothing_runs_on_after_a_watch_that_ends_while_it_opens(
    tmp_path: pathlib.Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that answers an event loop that is closed prints a traceback."""
    path = tmp_path / "shop.db"
    path.write_bytes(content)
    printed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)  # the only way to see them

    async def begin(turns: int) -> None:
        commits = SqliteCommitWatch(DatabaseFile(path), 0.1).follow()
        beginning = asyncio.ensure_future(anext(commits))
        for _ in range(turns):
            await asyncio.sleep(0)
        beginning.cancel()
        await asyncio.wait((beginning,))

    for turns in range(100):
        asyncio.run(begin(turns))
    assert printed == []


async def test_a_watch_that_is_cancelled_twice_while_it_opens_is_closed(
    tmp_path: pathlib.Path,
) -> None:
    file = SlowFile(write(tmp_path / "shop.db", ORDERS))
    beginning = asyncio.ensure_future(anext(SqliteCommitWatch(file, 0.1).follow()))
    await until(file.is_open.is_set)
    for _ in range(2):
        beginning.cancel()
        await asyncio.sleep(0)
    file.may_go_on.set()
    await asyncio.wait((beginning,))
    await until(lambda: not connection_threads())


async def hears(nudged: asyncio.Event, path: pathlib.Path) -> None:
    """Write to a file, and wait for its event."""
    await asyncio.sleep(0)
    nudged.clear()
    path.write_bytes(b"x")  # noqa: ASYNC240
    async with asyncio.timeout(PATIENCE_S):
        await nudged.wait()


@pytest.mark.parametrize("has_inotify", [pytest.param(True, marks=linux_only), False])
async def test_writes_to_the_database_and_its_journals_are_reported(
    tmp_path: pathlib.Path, *, has_inotify: bool
) -> None:
    nudged = asyncio.Event()
    path = tmp_path / "shop.db"
    async with file_events(str(path), nudged.set, has_inotify=has_inotify) as are_arriving:
        await until(are_arriving)
        for name in ("shop.db", "shop.db-wal", "shop.db-journal"):
            await hears(nudged, tmp_path / name)


@linux_only
async def test_other_files_are_not_reported(tmp_path: pathlib.Path) -> None:
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        await until(are_arriving)
        nudged.clear()
        (tmp_path / "other.db").write_bytes(b"x")
        await hears(nudged, tmp_path / "shop.db")


@linux_only
async def test_the_journals_beside_the_target_of_a_symlink_are_watched(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "shop.db").symlink_to(tmp_path / "real/orders.db")
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        await until(are_arriving)
        await hears(nudged, tmp_path / "real/orders.db-wal")


@pytest.mark.parametrize("has_inotify", [pytest.param(True, marks=linux_only), False])
async def test_a_folder_that_is_replaced_is_watched_again(
    tmp_path: pathlib.Path, *, has_inotify: bool
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    nudged = asyncio.Event()
    async with file_events(
        str(folder / "shop.db"), nudged.set, has_inotify=has_inotify
    ) as are_arriving:
        await until(are_arriving)
        nudged.clear()
        folder.rename(tmp_path / "away")
        async with asyncio.timeout(PATIENCE_S):
            await nudged.wait()
        await until(lambda: not are_arriving())
        folder.mkdir()
        await until(are_arriving)
        await hears(nudged, folder / "shop.db")


@linux_only
async def test_events_of_a_network_file_system_are_not_relied_upon(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote(_: str) -> str:
        return "remote"

    # Patched: there is no network file system at hand.
    monkeypatch.setattr(commits, "file_system_kind", remote)
    nudged = asyncio.Event()
    async with file_events(str(tmp_path / "shop.db"), nudged.set) as are_arriving:
        assert not are_arriving()
        await hears(nudged, tmp_path / "shop.db")
