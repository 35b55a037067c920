"""The table of causes of DuckDB: each row by an error of a real file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    ResourceError,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import Statement, UnfitParameter
from resource_server.providers.database.engines.duckdb import causes
from resource_server.providers.database.engines.duckdb.data_sources import (
    DatabaseSource,
    FilesSource,
)
from resource_server.providers.database.engines.duckdb.engine import DuckdbEngine
from resource_server.providers.database.engines.duckdb.messages import RefusalReason
from resource_server.providers.database.options import ColumnOptions, TableOptions
from tests.providers.database.asking import answer, caller_sql
from tests.waiting import PATIENCE_S

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.anyio

PROVOKED: dict[str, str] = {
    "extension": "SELECT st_point(1, 2)",
    "No function matches": "SELECT sum(x) FROM kept",
    "BinderException": "SELECT absent_zq FROM kept",
    "CatalogException": "SELECT * FROM absent_zq",
    "ConversionException": "SELECT x::int FROM kept",
    "InvalidInputException": "SELECT error('secret_zq')",
    "OutOfRangeException": "SELECT 9223372036854775807 + id FROM kept",
    "PermissionException": "SELECT * FROM read_csv('/etc/passwd')",
}
ELSEWHERE = {
    "Parameter not supported": "test_an_error_of_a_statement_has_its_cause",
    "IOException": "test_isolation",
    "InterruptException": "test_isolation",
    "MemoryError": "memory of the process",
    "OutOfMemoryException": "test_isolation",
    "FatalException": "a defect of DuckDB",
    "InternalException": "a defect of DuckDB",
    "NotImplementedException": "what later versions add",
    "SerializationException": "a file of a later version",
    "TypeMismatchException": "no statement of this version raises it",
}
FILES: dict[RefusalReason, bytes] = {"damaged": os.urandom(12_288)}
OTHER_FILES = {
    "extra": "an extension that is not installed here",
    "locked": "test_isolation",
    "memory": "test_caller_tables",
    "version": "a file of a later version",
    "missing": "a file that is removed between two looks at it",
}


def test_each_row_of_the_tables_has_a_test() -> None:
    assert {*PROVOKED, *ELSEWHERE} == causes.STATEMENT.keys()
    assert {*FILES, *OTHER_FILES} == causes.FILE.keys()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("causes") / "secret_zq.duckdb"
    with duckdb.connect(str(file)) as database:
        database.execute("CREATE TABLE kept AS SELECT 1 AS id, 'x' AS x")
    return file


async def test_an_error_of_a_statement_has_its_cause(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = DuckdbEngine(DatabaseSource(str(path)))
    await engine.open()
    try:
        for code, sql in PROVOKED.items():
            caplog.clear()
            cause = causes.STATEMENT[code]
            with pytest.raises(ResourceError) as raised:
                await engine.run_own(Statement(sql), limit=5, within=PATIENCE_S)
            told = str(raised.value)
            if cause.kind == "operation":
                assert (type(raised.value), told) == (InvalidParameter, cause.told)
            else:
                assert type(raised.value) is ResourceUnreadable, code
                assert told == f"cannot be read: {cause.told}"
            assert "zq" not in told + caplog.text
        ordered = Statement("SELECT id FROM kept ORDER BY $1", ("x",))
        with pytest.raises(InvalidParameter, match="a parameter stands where the database takes"):
            await engine.run_authored(ordered, limit=5, within=PATIENCE_S)
        with pytest.raises(UnfitParameter):
            await engine.run_own(Statement("SELECT $1::int", ("x",)), limit=5, within=PATIENCE_S)
        for sql, told in {
            "SELECT * FROM absent_zq": "the database refuses this query",
            "SELECT error('zq') FROM kept": "the database refuses this query: a value that it "
            "computes does not exist",
        }.items():
            with pytest.raises(InvalidParameter) as refused:
                await engine.run_authored(Statement(sql), limit=5, within=PATIENCE_S)
            assert str(refused.value) == told
    finally:
        await engine.close()


@pytest.mark.parametrize("hidden", [(), ("n",)])
async def test_a_damaged_data_file_is_no_missing_table(
    tmp_path: Path, hidden: tuple[str, ...]
) -> None:
    """Case: a damaged data file said `No such table: orders; did you mean 'orders'?`."""
    file = tmp_path / "orders.parquet"
    duckdb.sql("SELECT i AS id, md5(i::text) AS t, i AS n FROM range(9000) r (i)").write_parquet(
        str(file)
    )
    whole = file.read_bytes()
    file.write_bytes(whole[:200] + os.urandom(len(whole) - 2200) + whole[-2000:])
    (tmp_path / "other.csv").write_text("id,t\n1,x\n")
    engine = DuckdbEngine(FilesSource(str(tmp_path / "*.*"), None))
    await engine.open()
    try:
        damaged = "cannot be read: its file is damaged, or not what its name says"
        with pytest.raises(ResourceUnreadable, match=damaged):
            await engine.run_own(
                Statement("SELECT sum(length(t)) FROM orders"), limit=1, within=PATIENCE_S
            )
        options = TableOptions(columns=ColumnOptions(hide=hidden))
        callers = caller_sql(engine, {"orders": options} if hidden else {})
        kind, told = await answer(callers, "SELECT sum(length(t)) FROM orders")
        assert told in (
            damaged,
            "the table orders cannot be read; a read of orders/~rows gives the cause",
        ), kind
        assert (await answer(callers, "SELECT t FROM other"))[1] == [("x",)]
    finally:
        await engine.close()


@pytest.mark.parametrize("reason", FILES)
async def test_a_file_that_cannot_be_opened_has_its_cause(
    tmp_path: Path, reason: RefusalReason
) -> None:
    file = tmp_path / "secret_zq.duckdb"
    file.write_bytes(FILES[reason])
    engine = DuckdbEngine(DatabaseSource(str(file)))
    with pytest.raises(MountUnavailable) as raised:
        await engine.open()
    await engine.close()
    cause = causes.FILE[reason]
    assert str(raised.value) == f"{cause.told} (error {reason}); {cause.remedy}"
    assert (raised.value.told, raised.value.is_temporary) == (cause.told, False)
