"""The table of causes of SQLite: each row by an error of a real file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from resource_server.errors import (
    MountUnavailable,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import Statement, UnfitParameter
from resource_server.providers.database.engines.sqlite import causes
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

_VIEWS = """
PRAGMA legacy_alter_table = 1;
CREATE TABLE kept (id INTEGER PRIMARY KEY, x TEXT, hidden TEXT);
INSERT INTO kept VALUES (1, '{', 'secret_zq'), (9223372036854775807, 'b', '');
CREATE TABLE gone_zq (a); CREATE VIEW of_gone AS SELECT * FROM gone_zq; DROP TABLE gone_zq;
CREATE TABLE short_zq (a, b); CREATE VIEW of_column AS SELECT b FROM short_zq;
DROP TABLE short_zq; CREATE TABLE short_zq (a);
CREATE VIEW of_function AS SELECT own_zq(id) AS x FROM kept;
CREATE TABLE computed (a, b AS (own_zq(a)));
CREATE TABLE collated (a TEXT COLLATE own_zq); INSERT INTO collated VALUES ('a'), ('b');
CREATE VIEW summed AS SELECT sum(id) AS s FROM kept;
CREATE VIEW unsafe AS SELECT load_extension('zq') AS x FROM kept;
CREATE VIEW forbidden AS SELECT zeroblob(2000000000) AS x FROM kept;
CREATE VIRTUAL TABLE text USING fts5(x); CREATE VIRTUAL TABLE absent USING fts5(x);
INSERT INTO text VALUES ('a');
"""
_ABSENT = "CREATE VIRTUAL TABLE absent USING absent_zq(x)"

PROVOKED: dict[str, str] = {
    "SQLITE_AUTH": "SELECT hidden FROM kept",
    "SQLITE_ERROR_MISSING_COLLSEQ": "SELECT * FROM collated ORDER BY a",
    "integer overflow": "SELECT * FROM summed",
    "malformed JSON": "SELECT json_extract(x, '$') FROM kept",
    "no such column": "SELECT * FROM of_column",
    "no such function": "SELECT * FROM of_function",
    "no such module": "SELECT * FROM absent",
    "no such table": "SELECT * FROM of_gone",
    "not authorized to use function": "SELECT * FROM forbidden",
    "unknown function": "SELECT * FROM computed",
    "unsafe use of": "SELECT * FROM unsafe",
    "SQLITE_MISMATCH": "SELECT id FROM kept LIMIT 'x'",
}
ELSEWHERE = {
    "SQLITE_BUSY": "test_a_file_that_a_writer_locks_is_busy",
    "SQLITE_CORRUPT_VTAB": "test_a_damaged_index_of_text_leaves_the_other_tables",
    "SQLITE_INTERRUPT": "test_workers",
    "SQLITE_LOCKED": "a cache that is shared by connections, which this engine has not",
    "SQLITE_PROTOCOL": "a race for the locks of a log",
    "SQLITE_NOMEM": "test_connection",
    "SQLITE_TOOBIG": "test_connection",
    "SQLITE_FULL": "a temporary table of more pages than a file may have",
    "MemoryError": "memory of the process",
    "OverflowError": "test_a_value_that_sqlite_cannot_hold_is_the_callers",
    "ValueError": "test_a_value_that_sqlite_cannot_hold_is_the_callers",
}


def _same(value: int) -> int:
    return value


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("causes") / "causes.db"
    database = sqlite3.connect(file)
    database.create_function("own_zq", 1, _same, deterministic=True)
    database.create_collation("own_zq", lambda one, other: (one > other) - (one < other))
    database.executescript(_VIEWS)
    database.execute("PRAGMA writable_schema = 1")
    database.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'absent'", (_ABSENT,))
    database.execute("UPDATE text_data SET block = x'00ff' WHERE id > 10")
    database.commit()
    database.close()
    return file


def _visible(table: str, column: str, *, through: str | None = None) -> bool:
    return column != "hidden"


async def failure_of(path: Path, sql: str, *parameters: object) -> ResourceError:
    engine = SqliteEngine(path, readable=_visible)
    await engine.open()
    try:
        with pytest.raises(ResourceError) as raised:
            await engine.run_own(Statement(sql, parameters), limit=5, within=PATIENCE_S)
        return raised.value
    finally:
        await engine.close()


def test_each_row_of_the_table_has_a_test() -> None:
    assert {*PROVOKED, *ELSEWHERE} == causes.STATEMENT.keys()
    assert {*FILES, *UNTRIED} == causes.FILE.keys()


@pytest.mark.parametrize(("code", "sql"), PROVOKED.items())
async def test_an_error_of_a_statement_has_its_cause(
    path: Path, caplog: pytest.LogCaptureFixture, code: str, sql: str
) -> None:
    cause = causes.STATEMENT[code]
    error = await failure_of(path, sql)
    logged = [record.getMessage() for record in caplog.records]
    assert "zq" not in "".join([str(error), *logged])
    if cause.kind == "hidden":
        assert (type(error), str(error)) == (ResourceNotFound, "resource not found")
        assert not logged
    elif cause.kind == "operation":
        assert str(error) == cause.told
    else:
        assert (type(error), str(error)) == (ResourceUnreadable, f"cannot be read: {cause.told}")
        assert cause.kind == "value" or logged == [
            f"database error {code} ({cause.kind}): {cause.remedy}"
        ]


async def test_a_value_that_sqlite_cannot_hold_is_the_callers(path: Path) -> None:
    for value in (2**64, "\ud800"):
        error = await failure_of(path, "SELECT id FROM kept WHERE x = ?", value)
        assert type(error) is UnfitParameter


async def test_a_damaged_index_of_text_leaves_the_other_tables(path: Path) -> None:
    error = await failure_of(path, "SELECT * FROM text WHERE text MATCH 'a'")
    assert str(error) == f"cannot be read: {causes.STATEMENT['SQLITE_CORRUPT_VTAB'].told}"


async def test_a_file_that_a_writer_locks_is_busy(tmp_path: Path) -> None:
    file = tmp_path / "locked.db"
    database = sqlite3.connect(file)
    database.executescript("CREATE TABLE t (a); BEGIN EXCLUSIVE")
    engine = SqliteEngine(file)
    with pytest.raises(ResourceBusy, match="the database is locked by a writer"):
        await engine.open()
    await engine.close()
    database.close()


# Files.


def _changed(file: Path, place: int, data: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[place : place + len(data)] = data
    file.write_bytes(content)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _journal(file: Path) -> None:
    """Leave the journal of a writer that was killed, where it cannot be rolled back."""
    copy = file.read_bytes()
    database = sqlite3.connect(file)
    database.executescript(
        "PRAGMA journal_mode = delete; PRAGMA cache_size = 1; BEGIN; UPDATE t SET a = a || 'x'"
    )
    journal = file.with_name(f"{file.name}-journal").read_bytes()
    changed = file.read_bytes()
    database.close()
    file.write_bytes(changed if len(changed) == len(copy) else copy)
    file.with_name(f"{file.name}-journal").write_bytes(journal)


FILES: dict[str, Callable[[Path], object]] = {
    "SQLITE_CORRUPT": lambda file: _changed(file, 100, b"\xff" * 1000),
    "SQLITE_NOTADB": lambda file: file.write_bytes(os.urandom(8192)),
    "SQLITE_READONLY": _journal,
    "unsupported file format": lambda file: _changed(file, 44, b"\0\0\0\x09"),
    "FileNotFoundError": lambda file: file.unlink(),
    "IsADirectoryError": _folder,
    "SpecialFileError": _fifo,
}
UNTRIED = {
    "SQLITE_BUSY": "it is the cause of a statement, but where another driver opens the file",
    "SQLITE_CANTOPEN": "test_a_file_that_this_user_may_not_read, for another user than root",
    "SQLITE_IOERR": "a broken disk",
    "SQLITE_PERM": "no version of SQLite returns it for a file",
    "OSError": "a broken disk",
    "PermissionError": "test_a_file_that_this_user_may_not_read, for another user than root",
}


async def _read_all(engine: SqliteEngine) -> None:
    await engine.open()
    await engine.tables()
    await engine.run_own(Statement("SELECT * FROM t"), limit=1000, within=PATIENCE_S)


@pytest.mark.parametrize(("code", "change"), FILES.items())
async def test_a_file_that_cannot_be_read_has_its_cause(
    tmp_path: Path, code: str, change: Callable[[Path], object]
) -> None:
    file = tmp_path / "secret_zq.db"
    database = sqlite3.connect(file)
    database.executescript("CREATE TABLE t (a)")
    database.executemany("INSERT INTO t VALUES (?)", [("text" * 100,)] * 100)
    database.commit()
    database.close()
    change(file)
    engine = SqliteEngine(file)
    with pytest.raises(MountUnavailable) as raised:
        await _read_all(engine)
    await engine.close()
    cause = causes.FILE[code]
    assert str(raised.value) == f"{cause.told} (error {code}); {cause.remedy}"
    assert (raised.value.told, raised.value.is_temporary) == (cause.told, False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
@pytest.mark.parametrize("of_folder", [False, True])
async def test_a_file_that_this_user_may_not_read(tmp_path: Path, *, of_folder: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file.db").touch()
    closed = folder if of_folder else folder / "file.db"
    closed.chmod(0)
    try:
        with pytest.raises(MountUnavailable, match="may not be read by this process"):
            await SqliteEngine(folder / "file.db").open()
    finally:
        closed.chmod(0o700)
