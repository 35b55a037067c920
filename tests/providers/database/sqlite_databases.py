from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from resource_server.providers.database.engines.contract import (
    Rows,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import Table, TableName
from resource_server.providers.database.engines.sqlite.authorizer import Readable
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
    WriteAheadLog,
)
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.waiting import PATIENCE_S, connection_threads, until

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
"""Runs forever, and can be interrupted."""

UNSTOPPABLE = "SELECT instr(hay, needle) FROM heap"
"""Searches the whole heap for a good while before SQLite notices an interrupt."""

HEAP = """
CREATE TABLE heap(hay, needle);
WITH RECURSIVE c(x) AS (SELECT 'aaaaaaaa' UNION ALL SELECT x || x FROM c WHERE length(x) < 250000)
INSERT INTO heap SELECT x, substr(x, 1, 100000) || 'b'
FROM c ORDER BY length(x) DESC LIMIT 1;
"""

needs_descriptors = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


def write(path: Path, script: str) -> Path:
    """Run statements as the application that owns the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def asked(path: Path, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    """Return the rows that SQLite itself returns."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, parameters).fetchall()


@asynccontextmanager
async def opened(path: Path, readable: Readable | None = None) -> AsyncGenerator[SqliteEngine]:
    others = connection_threads()
    engine = SqliteEngine(path) if readable is None else SqliteEngine(path, readable=readable)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()
        # A stuck thread notifies its loop when it ends.
        await until(lambda: connection_threads() <= others)


async def rows(
    engine: SqliteEngine, sql: str, *parameters: object, limit: int = 100
) -> Sequence[tuple[object, ...]]:
    """Return the rows of a generated statement."""
    found = await engine.run_own(Statement(sql, parameters), limit=limit, within=PATIENCE_S)
    return found.rows


_policies: WeakKeyDictionary[SqliteEngine, VisibleTables] = WeakKeyDictionary()


async def whole(engine: SqliteEngine) -> VisibleTables:
    """Return the policy of a manifest that exposes everything."""
    tables = tuple([VisibleTable(info.name) for info in await engine.tables()])
    known = _policies.get(engine)
    if known is None or known.tables != tables:
        known = _policies[engine] = VisibleTables(tables, is_author=True)
    return known


async def query(engine: SqliteEngine, statement: Statement, *, limit: int, within: float) -> Rows:
    """Run a query of a manifest that exposes everything."""
    return await engine.run_confined(statement, await whole(engine), limit=limit, within=within)


async def queried(
    engine: SqliteEngine, sql: str, *parameters: object, within: float = PATIENCE_S
) -> Sequence[tuple[object, ...]]:
    """Return the rows of such a query."""
    return (await query(engine, Statement(sql, parameters), limit=100, within=within)).rows


async def check(engine: SqliteEngine, sql: str, *parameters: object) -> None:
    """Check such a query."""
    await engine.check_confined(Statement(sql, parameters), await whole(engine))


async def reflected(engine: SqliteEngine, name: str) -> Table:
    return await engine.table(TableName(None, name))


def contents(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


class SlowFile(DatabaseFile):
    """Opens its log, and returns only when it is released."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_open, self.may_go_on = threading.Event(), threading.Event()

    def log(self, identity: FileIdentity) -> WriteAheadLog:
        log = super().log(identity)
        self.is_open.set()
        self.may_go_on.wait(PATIENCE_S)
        return log


def descriptors(path: Path) -> int:
    """Return how many descriptors of this process are open on a file."""
    number = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            number += descriptor.readlink() == path
    return number
