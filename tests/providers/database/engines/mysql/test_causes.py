"""The table of causes of MariaDB and MySQL: each row by an error of the server itself.

Errors that need a full disk or damaged files are signalled by a function, with their number; those
of a server that refuses a connection and cannot be had here, by a server of the test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceError,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import Statement, UnfitParameter
from resource_server.providers.database.engines.mysql import causes
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from resource_server.providers.database.engines.reflection import TableName
from resource_server.runtime.causes import Cause
from tests.cases import for_each
from tests.providers.database import mysql_databases
from tests.providers.database.mysql_databases import ADMIN, Database, rows
from tests.providers.database.servers import with_parts
from tests.waiting import PATIENCE_S

pytest.importorskip("asyncmy")
pytestmark = pytest.mark.anyio

database, engine = mysql_databases.database, mysql_databases.engine

_SETUP = (
    "CREATE TABLE gone_zq (a int)",
    "CREATE VIEW of_gone AS SELECT * FROM gone_zq",
    "DROP TABLE gone_zq",
    "CREATE DEFINER = 'absent_zq'@'%' VIEW of_nobody AS SELECT * FROM customers",
    "CREATE VIEW beyond AS SELECT id + 18446744073709551615 AS x FROM customers",
    "CREATE FUNCTION fails(number int) RETURNS int"
    " BEGIN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = number, MESSAGE_TEXT = 'secret_zq';"
    " RETURN 1; END",
    "CREATE FUNCTION deep() RETURNS int BEGIN RETURN deep(); END",
)

PROVOKED: dict[str, str] = {
    "1054": "SELECT absent_zq FROM customers",
    "1115": "SELECT CONVERT('a' USING absent_zq)",
    "1116": f"SELECT 1 FROM {', '.join(f'customers c{place}' for place in range(65))}",
    "1142": "SELECT * FROM mysql.global_priv",
    "1146": "SELECT * FROM absent_zq",
    "1235": "SELECT 1 WHERE 1 IN (SELECT id FROM victims LIMIT 1)",
    "1242": "SELECT (SELECT id FROM victims)",
    "1253": "SELECT _latin1'a' COLLATE utf8mb4_bin",
    "1267": "SELECT 'a' COLLATE utf8mb4_bin = 'b' COLLATE utf8mb4_general_ci",
    "1273": "SELECT 'a' COLLATE absent_zq",
    "1305": "SELECT absent_zq()",
    "1356": "SELECT * FROM of_gone",
    "1424": "SELECT deep()",
    "1045": "SELECT * FROM of_nobody",
    "1690": "SELECT * FROM beyond",
    "1792": "SELECT writes()",
}
"""Statements whose error has the number; the others are signalled."""
OF_THE_DRIVER = ("TypeError", "OverflowError", "UnicodeError")


@pytest.fixture(scope="module", autouse=True)
def _filled(database: Database) -> None:
    asyncio.run(database.run(*_SETUP))


def test_each_row_of_the_table_has_a_test() -> None:
    numbers = {code for code in causes.STATEMENT if code.isdecimal()}
    assert causes.STATEMENT.keys() == numbers | {*OF_THE_DRIVER}
    assert numbers > PROVOKED.keys()
    assert {*CONNECTS, *UNTRIED} == causes.CONNECT.keys()


def expected(cause: Cause) -> tuple[type[ResourceError], str]:
    if cause.kind == "stopped":
        return DeadlineExceeded, "time limit exceeded"
    if cause.is_temporary:
        return ResourceBusy, cause.told
    if cause.kind == "operation":
        return InvalidParameter, cause.told
    return ResourceUnreadable, f"cannot be read: {cause.told}"


async def test_an_error_of_a_statement_has_its_cause(
    engine: MysqlEngine, caplog: pytest.LogCaptureFixture
) -> None:
    for code, cause in causes.STATEMENT.items():
        if code in OF_THE_DRIVER:
            continue
        caplog.clear()
        with pytest.raises(ResourceError) as raised:
            await rows(engine, PROVOKED.get(code, f"SELECT fails({code})"))
        assert (type(raised.value), str(raised.value)) == expected(cause), code
        logged = [record.getMessage() for record in caplog.records]
        assert "zq" not in "".join(logged)
        if cause.kind not in ("busy", "changed", "stopped", "operation", "value"):
            assert logged == [f"database error {code} ({cause.kind}): {cause.remedy}"]


async def test_an_unknown_error_names_no_cause_and_is_logged(
    engine: MysqlEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ResourceUnreadable) as raised:
        await rows(engine, "SELECT fails(4999)")
    assert str(raised.value) == "cannot be read, for a reason that the server's log has"
    with pytest.raises(InvalidParameter, match="the database refuses this query, for a reason"):
        await engine.run_authored(Statement("SELECT fails(4999)"), limit=1, within=PATIENCE_S)
    assert caplog.text.count("database error 4999 (unknown)") == 2
    assert "zq" not in caplog.text


async def test_a_value_that_the_driver_cannot_write_is_the_callers(engine: MysqlEngine) -> None:
    with pytest.raises(UnfitParameter):
        await rows(engine, "SELECT %s", "\ud800")


async def test_a_broken_view_is_no_missing_table(engine: MysqlEngine) -> None:
    with pytest.raises(ResourceUnreadable, match="it is a view, and something that it uses is mi"):
        await engine.table(TableName(None, "of_gone"))


# Attempts to connect.


@contextlib.asynccontextmanager
async def answering(number: int) -> AsyncGenerator[int]:
    """A server that refuses every connection with an error; yields its port."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        error = b"\xff" + number.to_bytes(2, "little") + b"refused"
        writer.write(len(error).to_bytes(3, "little") + b"\0" + error)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


CONNECTS: dict[str, Callable[[str], str] | int] = {
    "gaierror": lambda url: url.replace("127.0.0.1", "absent-zq.invalid"),
    "ConnectionRefusedError": lambda url: with_parts(url, port=1),
    "FileNotFoundError": lambda url: f"{url}?unix_socket=/absent_zq",
    "1044": lambda url: with_parts(url, database="absent_zq"),
    "1045": lambda url: url.replace("hunter2secret", "hunter2wrong"),
    "1049": lambda _: with_parts(ADMIN, database="absent_zq"),
    **dict.fromkeys(("1040", "1129", "1130", "1203", "1226"), 0),
    **dict.fromkeys(("1251", "1698", "1820", "1862", "2013", "3118", "3159", "4151"), 0),
}
"""URLs, or a server of the test that refuses by this number."""
UNTRIED = {
    "2006": "as 2013",
    "AttributeError": "a character set that the driver has not",
    "ConnectionAbortedError": "as ConnectionResetError, on Windows",
    "ConnectionResetError": "2013: asyncmy has an error of its own",
    "OSError": "a network without a route",
    "SSLCertVerificationError": "the server of the tests has no TLS",
    "SSLError": "the server of the tests has no TLS",
    "TimeoutError": "takes five seconds",
    "TypeError": "the URL is checked before",
    "ValueError": "the URL is checked before",
}


@for_each(("code", "change"), CONNECTS.items(), ids=CONNECTS)
async def test_a_refused_connection_has_its_cause_and_names_host_and_user(
    database: Database, code: str, change: Callable[[str], str] | int
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(change, int):
            port = await stack.enter_async_context(answering(int(code)))
            engine = MysqlEngine(with_parts(database.url, port=port))
        else:
            engine = MysqlEngine(change(database.url))
        with pytest.raises((MountUnavailable, ResourceBusy)) as raised:
            await engine.open()
        await engine.close()
    cause = causes.CONNECT[code]
    text = str(raised.value)
    assert "hunter2" not in text
    if isinstance(raised.value, ResourceBusy):
        assert (text, cause.kind) == (cause.told, "busy")
        return
    host = "absent-zq.invalid" if code == "gaierror" else "127.0.0.1"
    assert text.startswith(f"{cause.told} ({host}:")
    assert ", user " in text
    assert text.endswith(cause.remedy)
    assert (raised.value.told, raised.value.is_temporary) == (cause.told, cause.is_temporary)
