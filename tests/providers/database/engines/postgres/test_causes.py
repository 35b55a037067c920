"""The table of causes of PostgreSQL: each row by an error of the server itself.

Errors that need a full disk or damaged files are raised by a function, with their SQLSTATE; those
of a server that starts up, by a server of the test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceError,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.causes import NETWORK
from resource_server.providers.database.engines.contract import Statement, UnfitParameter
from resource_server.providers.database.engines.postgres import causes
from resource_server.providers.database.engines.postgres.engine import PostgresEngine
from resource_server.providers.database.engines.reflection import TableName
from resource_server.runtime.causes import UNKNOWN, Cause
from tests.cases import for_each
from tests.providers.database import postgres_databases
from tests.providers.database.postgres_databases import Database, rows
from tests.providers.database.servers import with_parts
from tests.waiting import PATIENCE_S

asyncpg: Any = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.anyio

database, engine = postgres_databases.database, postgres_databases.engine

_SETUP = """
CREATE EXTENSION postgres_fdw; CREATE EXTENSION file_fdw;
CREATE SERVER gone FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER gone OPTIONS (user 'a', password 'b');
CREATE FOREIGN TABLE far (a int) SERVER gone;
CREATE SERVER trusting FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1');
CREATE USER MAPPING FOR PUBLIC SERVER trusting OPTIONS (user 'a');
CREATE FOREIGN TABLE open (a int) SERVER trusting;
CREATE SERVER unmapped FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1');
CREATE FOREIGN TABLE unmapped (a int) SERVER unmapped;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE lost_file (a int) SERVER files OPTIONS (filename '/absent_zq');
CREATE MATERIALIZED VIEW unpopulated AS SELECT 1 AS a WITH NO DATA;
CREATE FUNCTION fails(code text) RETURNS int LANGUAGE plpgsql
  AS 'BEGIN RAISE EXCEPTION ''secret_zq'' USING ERRCODE = code; END';
CREATE FUNCTION reads_missing() RETURNS int LANGUAGE plpgsql
  AS 'BEGIN RETURN (SELECT a FROM absent_zq); END';
CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN deep(n + 1); END';
CREATE FUNCTION either(a int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION either(a date) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE unreadable (a int); CREATE VIEW of_another AS SELECT * FROM unreadable;
CREATE VIEW halved AS SELECT 1 / (id - id) AS half FROM customers;
CREATE VIEW over_unpopulated AS SELECT * FROM unpopulated;
CREATE TABLE texts (x text COLLATE "C", y text COLLATE "POSIX");
INSERT INTO texts VALUES ('a', 'b');
CREATE ROLE {role}_owner; ALTER VIEW of_another OWNER TO {role}_owner;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA public
  TO {role}; REVOKE ALL ON unreadable, forbidden FROM {role}
"""

PROVOKED: dict[str, str] = {
    "08": "SELECT * FROM far",
    "22": "SELECT * FROM halved",
    "22003": "SELECT 99999999999::int",
    "22007": "SELECT 'x'::date",
    "22008": "SELECT '2024-02-31'::date",
    "22015": "SELECT '1e100 days'::interval",
    "22021": r"SELECT convert_from('\xff', 'UTF8')",
    "22025": r"SELECT 'ab' LIKE E'a\\'",
    "22P02": "SELECT 'x'::int",
    "22P05": "SELECT convert_to('€', 'LATIN1')",
    "25006": "SELECT nextval('counter')",
    "2F003": "SELECT * FROM open",
    "3F000": "SELECT absent_zq.f()",
    "42 inside": "SELECT reads_missing()",
    "42501": "SELECT * FROM of_another",
    "42703": "SELECT absent_zq FROM customers",
    "42704": "SELECT * FROM unmapped",
    "42725": "SELECT either(NULL)",
    "42804": "SELECT CASE WHEN true THEN 1 ELSE 'x'::text END",
    "42846": "SELECT 1::date",
    "42883": "SELECT min('{}'::jsonb)",
    "42P01": "SELECT * FROM absent_zq",
    "42P21": """SELECT 'a' COLLATE "C" < 'b' COLLATE "POSIX" """,
    "42P22": "SELECT x < y FROM texts",
    "54": "SELECT deep(1)",
    "55000": "SELECT currval('counter')",
    "55000 ExecOpenScanRelation": "SELECT * FROM over_unpopulated",
    "58P01": "SELECT * FROM lost_file",
}
"""Statements whose error has the code."""
RAISED = {
    code: f"SELECT fails('{code.ljust(5, '0') if code != 'P0' else 'P0001'}')"
    for code in (
        *("0A000", "22P03", "2F", "38", "39", "40", "53", "53100", "53200", "53300", "53400"),
        *("55006", "55P03", "57", "57014", "58", "HV", "P0", "XX", "XX001", "XX002"),
    )
}
"""The same, by a function: these need a full disk, damaged files or other transactions."""
ELSEWHERE = {
    causes.STATEMENT_MODE: "test_pooler",
    "22000": "test_a_value_that_does_not_fit_is_not_the_tables_fault",
    "InterfaceError": "test_a_value_that_does_not_fit_is_not_the_tables_fault",
    "UnicodeError": "test_a_value_that_does_not_fit_is_not_the_tables_fault",
}


@pytest.fixture(scope="module", autouse=True)
def _filled(database: Database) -> Iterator[None]:
    asyncio.run(database.execute(_SETUP.format(role=database.role)))
    yield
    asyncio.run(database.execute(f"DROP VIEW of_another; DROP ROLE {database.role}_owner"))


def test_each_row_of_the_table_has_a_test() -> None:
    assert {*PROVOKED, *RAISED, *ELSEWHERE} == causes.STATEMENT.keys()
    assert {*(key for key, _ in CONNECTS), *UNTRIED} == causes.CONNECT.keys()


def expected(cause: Cause) -> tuple[type[ResourceError], str]:
    if cause.kind == "stopped":
        return DeadlineExceeded, "time limit exceeded"
    if cause.is_temporary:
        return ResourceBusy, cause.told
    if cause.kind == "operation":
        return InvalidParameter, cause.told
    return ResourceUnreadable, f"cannot be read: {cause.told}"


@pytest.mark.parametrize(("code", "sql"), {**PROVOKED, **RAISED}.items())
async def test_an_error_of_a_statement_has_its_cause(
    engine: PostgresEngine, caplog: pytest.LogCaptureFixture, code: str, sql: str
) -> None:
    cause = causes.STATEMENT[code]
    kind, told = expected(cause)
    with pytest.raises(ResourceError) as raised:
        await rows(engine, sql)
    assert (type(raised.value), str(raised.value)) == (kind, told)
    logged = [record.getMessage() for record in caplog.records]
    if cause.kind not in ("busy", "changed", "stopped", "operation", "value"):
        assert logged == [f"database error {code} ({cause.kind}): {cause.remedy}"]
    assert "zq" not in "".join(logged)


async def test_a_query_of_the_manifest_tells_the_cause_and_not_the_error(
    engine: PostgresEngine, caplog: pytest.LogCaptureFixture
) -> None:
    for sql, told in {
        "SELECT * FROM unpopulated": ": it is not populated",
        "SELECT fails('99999')": ", for a reason that the server's log has",
    }.items():
        with pytest.raises(InvalidParameter, match=f"^the database refuses this query{told}$"):
            await engine.run_authored(Statement(sql), limit=1, within=PATIENCE_S)
    assert "database error 99999 exec_stmt_raise (unknown)" in caplog.text
    assert "zq" not in caplog.text


async def test_an_unknown_error_names_no_cause(engine: PostgresEngine) -> None:
    with pytest.raises(ResourceUnreadable) as raised:
        await rows(engine, "SELECT fails('99999')")
    assert str(raised.value) == "cannot be read, for a reason that the server's log has"


async def test_a_value_that_does_not_fit_is_not_the_tables_fault(engine: PostgresEngine) -> None:
    for sql, value in (
        ("SELECT $1::int", "x"),
        ("SELECT 1 WHERE $1::text::int = 1", "x"),
        ("SELECT $1::text", "\ud800"),
    ):
        with pytest.raises(UnfitParameter):
            await rows(engine, sql, value)


async def test_a_table_that_the_login_may_not_read_is_no_missing_one(
    engine: PostgresEngine,
) -> None:
    with pytest.raises(ResourceUnreadable, match="the owner of a view, lacks a privilege"):
        await engine.table(TableName("public", "forbidden"))


# Attempts to connect.


@contextlib.asynccontextmanager
async def answering(state: str) -> AsyncGenerator[int]:
    """A server that answers the first message with an error; yields its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1024)
        if len(first) == 8:  # a request for TLS
            writer.write(b"N")
            await reader.read(1024)
        fields = b"SFATAL\0VFATAL\0C%b\0Mrefused ***\0\0" % state.encode()
        if state:
            writer.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        else:
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


CONNECTS: list[tuple[str, Callable[[str], str] | str]] = [
    ("gaierror", lambda url: url.replace("127.0.0.1", "absent-zq.invalid")),
    ("ConnectionRefusedError", lambda url: with_parts(url, port=1)),
    ("FileNotFoundError", lambda url: f"postgresql:///{url.rpartition('/')[2]}?host=/absent_zq"),
    ("ConnectionError", lambda url: f"{url}?sslmode=require"),
    ("28", lambda url: with_parts(url, login="nobody_zq:hunter2secret")),
    ("3D000", lambda url: with_parts(url, database="absent_zq")),
    ("42501", lambda url: f"{url}_closed"),
    ("53300", lambda url: with_parts(url, login=url.split(":")[1][2:] + "_full:x")),
    ("55000", lambda url: with_parts(url, database="template0")),
    ("InterfaceError", lambda url: f"{url}?sslmode=verify-full"),
    ("TargetServerAttributeNotMatched", lambda url: f"{url}?target_session_attrs=standby"),
    *((code, f"{code}000"[:5]) for code in ("08P01", "0A000", "22023", "42704", "53", "57")),
    ("08", ""),
]
"""URLs, or the SQLSTATE of a server that cannot be had here."""
UNTRIED = {
    "ConnectionResetError": "08: asyncpg has an error of its own",
    "ConnectionAbortedError": "as ConnectionResetError, on Windows",
    "OSError": "a network without a route",
    "SSLCertVerificationError": "the server of the tests has no TLS",
    "SSLError": "the server of the tests has no TLS",
    "TimeoutError": "takes five seconds",
    "TypeError": "a driver that has no such option",
    "ValueError": "a driver that checks an option by itself",
}


@for_each(("code", "change"), CONNECTS, ids=[code for code, _ in CONNECTS])
async def test_a_refused_connection_has_its_cause_and_names_host_and_user(
    database: Database, code: str, change: Callable[[str], str] | str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(change, str):
            url = with_parts(database.url, port=await stack.enter_async_context(answering(change)))
        else:
            url = change(database.url)
        if code == "42501":
            await database.execute(f"CREATE DATABASE {database.name}_closed", database="postgres")
            await database.execute(
                f"REVOKE ALL ON DATABASE {database.name}_closed FROM PUBLIC", database="postgres"
            )
            stack.push_async_callback(
                database.execute, f"DROP DATABASE {database.name}_closed", database="postgres"
            )
        if code == "53300":
            await database.execute(f"CREATE ROLE {database.role}_full LOGIN CONNECTION LIMIT 0")
            stack.push_async_callback(database.execute, f"DROP ROLE {database.role}_full")
        engine = PostgresEngine(url)
        with pytest.raises((MountUnavailable, ResourceBusy)) as raised:
            await engine.open()
        await engine.close()
    cause = causes.CONNECT[code]
    text = str(raised.value)
    assert "hunter2" not in text
    if isinstance(raised.value, ResourceBusy):
        assert (text, cause.kind) == (cause.told, "busy")
        return
    assert text.startswith(f"{cause.told} (")
    assert text.endswith(cause.remedy)
    assert (raised.value.told, raised.value.is_temporary) == (cause.told, cause.is_temporary)
    if code != "FileNotFoundError":
        host = "absent-zq.invalid" if code == "gaierror" else "127.0.0.1"
        assert host in text
        assert "user " in text
    assert NETWORK.get(code, cause) is cause
    assert cause is not UNKNOWN
