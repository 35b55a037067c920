from __future__ import annotations

import asyncio
import contextlib
import itertools
import pathlib
import sqlite3
from collections.abc import AsyncGenerator

import pytest

from resource_server.providers.database.engines.contract import Rows, Statement
from resource_server.providers.database.engines.sqlite.authorizer import Readable
from resource_server.providers.database.engines.sqlite.connection import SqliteConnection
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile
from resource_server.providers.database.engines.sqlite.inline_reader import InlineReader
from tests.providers.database.sqlite_databases import (
    SlowFile,
    descriptors,
    needs_descriptors,
    write,
)
from tests.waiting import quiet_for, until

pytestmark = pytest.mark.anyio

ONE = Statement("SELECT id, word FROM t WHERE id = ?", (1,))
TABLE = "CREATE TABLE t(id INTEGER PRIMARY KEY, word); INSERT INTO t VALUES(1, 'one');"
NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {})"


def _all(table: str, column: str, *, through: str | None = None) -> bool:
    return True


def reading(file: DatabaseFile, readable: Readable = _all) -> InlineReader:
    """Return a reader with a clock of its calls, so that a busy machine makes no read slow."""
    return InlineReader(
        file,
        lambda identity: SqliteConnection(file, identity, "reader", readable, busy_timeout_s=0.0),
        clock=itertools.count(0, 0.004).__next__,  # a pause is over after few looks
    )


@contextlib.asynccontextmanager
async def warm(path: pathlib.Path, readable: Readable = _all) -> AsyncGenerator[InlineReader]:
    """Give a reader whose connection is open and not resting."""
    reader = reading(DatabaseFile(path), readable)
    try:
        await answered(reader, Statement("SELECT 1"))
        yield reader
    finally:
        reader.close()


async def answered(reader: InlineReader, statement: Statement) -> Rows:
    """Select until the reader returns rows."""
    found: Rows | str = ""

    def has_rows() -> bool:
        nonlocal found
        found = reader.select(statement, 1)
        return isinstance(found, Rows)

    await until(has_rows)
    assert isinstance(found, Rows)
    return found


async def test_rows_are_read_inline_once_the_connection_is_open(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", TABLE)
    reader = reading(DatabaseFile(path))
    assert reader.select(ONE, 1) == "hot"
    assert await answered(reader, ONE) == Rows(("id", "word"), [(1, "one")], more=False)
    reader.close()


@pytest.mark.parametrize(("limit", "more"), [(1, True), (2, True), (3, False), (4, False)])
async def test_more_is_exact(tmp_path: pathlib.Path, limit: int, more: bool) -> None:
    async with warm(write(tmp_path / "shop.db", TABLE)) as reader:
        found = reader.select(Statement(f"{NUMBERS.format(3)} SELECT x FROM n"), limit)
        assert found == Rows(("x",), [(1,), (2,), (3,)][:limit], more=more)


async def test_short_statements_are_never_stopped(tmp_path: pathlib.Path) -> None:
    async with warm(write(tmp_path / "shop.db", TABLE)) as reader:
        statement = Statement(f"{NUMBERS.format(200)} SELECT x FROM n")
        found = [reader.select(statement, 256) for _ in range(500)]
        assert set(map(type, found)) == {Rows}


async def test_a_statement_of_many_steps_is_left_to_the_slow_workers(
    tmp_path: pathlib.Path,
) -> None:
    async with warm(write(tmp_path / "shop.db", TABLE)) as reader:
        endless = NUMBERS.replace("LIMIT {}", "")
        statement = Statement(f"{endless} SELECT max(x) FROM n")
        assert reader.select(statement, 1) == "slow"
        assert reader.select(ONE, 1) == "hot"
        await answered(reader, ONE)


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT zeros FROM t2", id="a large value"),
        pytest.param("SELECT CAST(x'ff' AS TEXT)", id="no UTF-8"),
        pytest.param(f"SELECT {', '.join(map(str, range(129)))}", id="many columns"),
        pytest.param("SELECT missing FROM t", id="no such column"),
        pytest.param("SELECT secret FROM t2", id="hidden"),
        pytest.param("SELECT count(*) FROM pragma_table_list", id="refused"),
        pytest.param("INSERT INTO t VALUES(2, 'two')", id="a write"),
        pytest.param("SELECT 1; SELECT 2", id="two statements"),
    ],
)
async def test_anything_unusual_is_left_to_the_hot_worker(tmp_path: pathlib.Path, sql: str) -> None:
    def readable(table: str, column: str, *, through: str | None = None) -> bool:
        return column != "secret"

    path = write(
        tmp_path / "shop.db",
        f"{TABLE} CREATE TABLE t2(zeros, secret); INSERT INTO t2 VALUES(zeroblob(2100000), 1);",
    )
    async with warm(path, readable) as reader:
        assert reader.select(Statement(sql), 1) == "hot"
        assert await answered(reader, ONE)


async def test_more_rows_than_a_page_are_not_read_inline(tmp_path: pathlib.Path) -> None:
    async with warm(write(tmp_path / "shop.db", TABLE)) as reader:
        assert isinstance(reader.select(ONE, 1024), Rows)
        assert reader.select(ONE, 1025) == "hot"


async def test_the_event_loop_never_waits_for_a_writer(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", TABLE)
    loop, times = asyncio.get_running_loop(), list[float]()
    for _ in range(5):  # a busy machine delays some
        async with warm(path) as reader:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
                writer.execute("BEGIN EXCLUSIVE")
                begun = loop.time()
                assert reader.select(ONE, 1) == "hot"
                times.append(loop.time() - begun)
                writer.execute("COMMIT")
            await answered(reader, ONE)
    assert min(times) < 0.2, "less than the patience of a worker"


async def test_a_replaced_file_is_no_longer_read(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", TABLE)
    async with warm(path) as reader:
        other = write(tmp_path / "other.db", TABLE.replace("'one'", "'other'"))
        other.replace(path)
        assert (await answered(reader, ONE)).rows == [(1, "other")]
        path.unlink()
        assert reader.select(ONE, 1) == "hot"


async def test_commits_of_other_connections_are_read(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", TABLE)
    async with warm(path) as reader:
        for word, script in (
            ("two", "UPDATE t SET word = 'two'"),
            ("three", "ALTER TABLE t ADD COLUMN more; UPDATE t SET word = 'three'"),
            ("four", "DROP TABLE t; CREATE TABLE t(id, word); INSERT INTO t VALUES(1, 'four')"),
        ):
            write(path, script)
            assert (await answered(reader, ONE)).rows == [(1, word)]


@needs_descriptors
async def test_a_connection_given_up_while_it_opens_is_closed(
    tmp_path: pathlib.Path,
) -> None:
    path = write(tmp_path / "shop.db", f"PRAGMA journal_mode = WAL; {TABLE}")
    log = tmp_path / "shop.db-wal"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO t VALUES(2, 'two')")
        before = descriptors(log)
        file = SlowFile(path)
        reader = reading(file)
        assert reader.select(ONE, 1) == "hot"
        await until(file.is_open.is_set)
        assert descriptors(log) > before
        reader.close()
        await quiet_for(0.01)
        file.may_go_on.set()
        await until(lambda: descriptors(log) <= before)


async def test_a_table_created_later_is_read(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "shop.db", TABLE)
    async with warm(path) as reader:
        write(path, "CREATE TABLE later(word); INSERT INTO later VALUES('new')")
        assert (await answered(reader, Statement("SELECT word FROM later"))).rows == [("new",)]
