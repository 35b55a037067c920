from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing

import pytest

from resource_server.errors import MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.providers.database.sqlite_databases import (
    PATIENCE_S,
    asked,
    contents,
    opened,
    queried,
    reflected,
    rows,
    write,
)

pytestmark = pytest.mark.anyio

ORDERS = """
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
INSERT INTO orders SELECT x, 'customer ' || x FROM c;
"""
ROOT = pathlib.Path(__file__).parents[5]
COUNT = "SELECT count(*) FROM orders"
SUM = "SELECT max(customer) FROM orders"


async def unusable(path: pathlib.Path) -> str:
    """Return why a file cannot be served; the message holds no part of its path."""
    engine = SqliteEngine(path)
    try:
        with pytest.raises(MountUnavailable) as caught:
            await engine.open()
    finally:
        await engine.close()
    assert path.name not in str(caught.value)
    assert str(path.parent) not in str(caught.value)
    return caught.value.told


async def test_a_missing_file_is_unavailable_and_not_created(tmp_path: pathlib.Path) -> None:
    assert await unusable(tmp_path / "shop.db") == "the database file does not exist"
    assert contents(tmp_path) == {}


async def test_an_empty_file_is_a_database_without_tables(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shop.db"
    path.touch()
    async with opened(path) as engine:
        assert await engine.tables() == []
        write(path, ORDERS)
        assert [info.name.name for info in await engine.tables()] == ["orders"]


async def test_a_folder_is_unavailable(tmp_path: pathlib.Path) -> None:
    assert await unusable(tmp_path) == "the database is a folder"


async def test_a_fifo_is_unavailable_without_blocking(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "shop.db")
    assert await unusable(tmp_path / "shop.db") == "the database is not a regular file"


@pytest.mark.parametrize("size", [2, 15, 100, 511, 512, 4096, 100_000])
async def test_a_file_that_is_no_database_is_unavailable(tmp_path: pathlib.Path, size: int) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(bytes((7 * n + 11) % 251 for n in range(size)))
    reason = await unusable(path)
    assert reason == "the file is not a SQLite database, or it is encrypted"


async def test_a_damaged_header_is_unavailable(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    assert "damaged" in await unusable(path)


async def test_damaged_pages_are_an_error_and_the_others_are_read(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    with path.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(b"\xff" * 4096)
    async with opened(path) as engine:
        with pytest.raises(MountUnavailable, match="damaged"):
            await rows(engine, SUM)
        first = "SELECT customer FROM orders WHERE id = 1"
        assert await rows(engine, first) == [("customer 1",)]


async def test_a_truncated_file_is_unavailable(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    os.truncate(path, path.stat().st_size // 2)
    assert "damaged" in await unusable(path)


async def test_a_file_truncated_while_it_is_served_is_unavailable_until_it_is_whole(
    tmp_path: pathlib.Path,
) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    whole = path.read_bytes()
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == [(2000,)]
        os.truncate(path, 5000)
        with pytest.raises(MountUnavailable):
            await rows(engine, SUM)
        path.write_bytes(whole)
        assert await rows(engine, SUM) == asked(path, SUM)


async def test_a_locked_database_is_busy_until_it_is_unlocked(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == [(2000,)]
        with Writer(path, "BEGIN EXCLUSIVE") as writer:
            for ask in (rows(engine, COUNT), queried(engine, COUNT), engine.schema_state()):
                with pytest.raises(ResourceBusy):
                    await ask
            fresh = SqliteEngine(path)
            with pytest.raises(ResourceBusy):
                await fresh.open()
            await fresh.close()
            writer.run("COMMIT")
            await fresh.open()
            await fresh.close()
        assert await rows(engine, COUNT) == [(2000,)]


async def test_a_wal_database_is_read_while_a_writer_has_it_locked(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", "PRAGMA journal_mode = WAL;" + ORDERS)
    with Writer(path, "BEGIN EXCLUSIVE; DELETE FROM orders") as writer:
        async with opened(path) as engine:
            assert await rows(engine, COUNT) == [(2000,)]
            writer.run("COMMIT")
            assert await rows(engine, COUNT) == [(0,)]


async def test_reading_never_blocks_a_commit(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with opened(path) as engine:
        for number in range(20):
            found = await rows(engine, "SELECT id FROM orders", limit=3)
            assert len(found) == 3
            # A read in a thread ends soon; one that waited for this loop never would.
            with closing(sqlite3.connect(path, timeout=5)) as writer, writer:
                writer.execute("DELETE FROM orders WHERE id = ?", (2000 - number,))
        assert await rows(engine, COUNT) == [(1980,)]


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
async def test_a_replacement_file_is_read_from_then_on(
    tmp_path: pathlib.Path, journal: str
) -> None:
    path = write(tmp_path / "shop.db", f"PRAGMA journal_mode = {journal};" + ORDERS)
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == [(2000,)]
        state = await engine.schema_state()
        remove_log(path)
        other = "CREATE TABLE orders(id TEXT PRIMARY KEY, extra); INSERT INTO orders VALUES (1, 2);"
        write(tmp_path / "new.db", other).replace(path)
        assert await rows(engine, "SELECT id, extra FROM orders") == [("1", 2)]
        assert await queried(engine, COUNT) == [(1,)]
        assert (await reflected(engine, "orders")).column_names == ("id", "extra")
        assert await engine.schema_state() != state


async def test_a_file_that_vanishes_is_unavailable_until_it_is_back(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", ORDERS)
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == [(2000,)]
        path.rename(tmp_path / "elsewhere.db")
        for ask in (rows(engine, COUNT), queried(engine, COUNT), engine.tables()):
            with pytest.raises(MountUnavailable, match="does not exist"):
                await ask
        write(path, "CREATE TABLE orders(id)")
        assert await rows(engine, COUNT) == [(0,)]


@pytest.mark.parametrize(
    "name",
    ["a b.db", "50%.db", "a?mode=rwc&x.db", "a#b.db", "ü.db", "a%3Fmode=rwc.db", "\udcff.db"],
)
async def test_no_file_name_is_taken_for_options(tmp_path: pathlib.Path, name: str) -> None:
    write(tmp_path / "plain.db", ORDERS).rename(tmp_path / name)
    before = contents(tmp_path)
    async with opened(tmp_path / name) as engine:
        assert await rows(engine, COUNT) == [(2000,)]
        assert contents(tmp_path) == before


async def test_a_hot_journal_is_left_for_the_application_to_recover(
    tmp_path: pathlib.Path,
) -> None:
    path = write(tmp_path / "live.db", ORDERS)
    spill = "PRAGMA cache_size = 2; BEGIN; UPDATE orders SET customer = customer || 'x'"
    with Writer(path, spill):
        shutil.copy(path, tmp_path / "shop.db")
        shutil.copy(f"{path}-journal", tmp_path / "shop.db-journal")
    before = contents(tmp_path)
    assert "recovered" in await unusable(tmp_path / "shop.db")
    assert contents(tmp_path) == before
    assert asked(tmp_path / "shop.db", COUNT) == [(2000,)]
    async with opened(tmp_path / "shop.db") as engine:
        assert await rows(engine, COUNT) == [(2000,)]


@pytest.fixture
def read_only() -> Iterator[pathlib.Path]:
    """A folder with a database in WAL mode that this user cannot write."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder / "shop.db", "PRAGMA journal_mode = WAL;" + ORDERS)
        (folder / "shop.db").chmod(0o644)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


DELETE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("DELETE FROM orders WHERE id > ?", sys.argv[2:])
database.close()
"""


def delete_beyond(number: int, path: pathlib.Path) -> None:
    """Delete orders in a program that opens the file only for that."""
    subprocess.run([sys.executable, "-c", DELETE, path, str(number)], check=True, timeout=60)


async def test_every_connection_reads_the_commits_of_short_lived_programs(
    tmp_path: pathlib.Path,
) -> None:
    path = write(tmp_path / "shop.db", "PRAGMA journal_mode = WAL;" + ORDERS)
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == await queried(engine, COUNT) == [(2000,)]
        for left in (3, 2, 1):
            # The last program to close the file deletes the log, unless it is being read.
            delete_beyond(left, path)
            assert await rows(engine, COUNT) == await queried(engine, COUNT) == [(left,)]


async def test_a_log_deleted_under_its_readers_is_detected(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", "PRAGMA journal_mode = WAL;" + ORDERS)
    async with opened(path) as engine:
        assert await rows(engine, COUNT) == await queried(engine, COUNT) == [(2000,)]
        for left in (3, 2, 1):
            # Reading the file, as a mounted folder does, drops this process's locks on it.
            path.read_bytes()
            delete_beyond(left, path)
            assert await rows(engine, COUNT) == await queried(engine, COUNT) == [(left,)]


READ = """
import asyncio, sys
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.anybody import like_anybody

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    for line in iter(sys.stdin.readline, ""):
        try:
            found = await engine.run_own(Statement(line), limit=9, within=60)
            print(found.rows[0][0], flush=True)
        except Exception as error:
            print(repr(error), flush=True)
    await engine.close()

with like_anybody():
    asyncio.run(main())
"""


def test_a_database_in_wal_mode_is_read_from_a_read_only_folder(read_only: pathlib.Path) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, str(read_only / "shop.db")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None

    def ask() -> str:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(COUNT + "\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

    try:
        assert ask() == "2000"
        assert set(contents(read_only)) == {"shop.db"}
        # Others still write, and their commits are read.
        read_only.chmod(0o755)
        write(read_only / "shop.db", "DELETE FROM orders WHERE id > 5")
        read_only.chmod(0o555)
        assert ask() == "5"
        reader.stdin.close()
        assert reader.wait(PATIENCE_S) == 0
    finally:
        reader.kill()
        reader.wait()
        reader.stdin.close()
        reader.stdout.close()


def remove_log(path: pathlib.Path) -> None:
    for name in (f"{path}-wal", f"{path}-shm"):
        pathlib.Path(name).unlink(missing_ok=True)


class Writer:
    """A writer in another process."""

    def __init__(self, path: pathlib.Path, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.run(script)

    def run(self, script: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(script + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in iter(sys.stdin.readline, ""):
    for statement in line.split(";"):
        connection.execute(statement)
    print("done", flush=True)
"""
