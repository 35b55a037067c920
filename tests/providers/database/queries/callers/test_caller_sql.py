"""The tool `query_database`: SQL of callers on a database whose manifest allows it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

from resource_server.access import Access, Caller, acting
from resource_server.providers.database.options import (
    CallerSqlOptions,
    ColumnOptions,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.testing import check_provider
from tests.protocol.tools.tooled import called, refusal
from tests.protocol.wire import Wire, server_of
from tests.providers.database.served import FRESH, timed_database
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

LATEST = "2025-11-25"
SQL = """
create table orders (id integer primary key, status text, total integer, card text, note text);
insert into orders values (1, 'paid', 10, '41111111', 'x'), (2, 'draft', 20, '42222222', 'y'),
  (3, 'open', 30, '43333333', 'z');
create table staff (id integer primary key, name text);
insert into staff values (1, 'Ada');
create table audit (id integer primary key);
"""
TABLES: dict[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("note",), mask={"card": "last4"}), where="status <> 'draft'"
    ),
    "audit": False,
    "staff": TableOptions(access=Access(scopes=("hr",))),
}


def shop(path: Path, *, timing: Timing = DEFAULT_TIMING, **options: Any) -> Database:
    if not (path / "shop.db").exists():
        with sqlite3.connect(path / "shop.db") as database:
            database.executescript(SQL)
        database.close()
    given: dict[str, Any] = {"tables": TABLES, "sql": True, **options}
    return timed_database(timing, url=f"sqlite:///{path / 'shop.db'}", **given)


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    server = await server_of(shop(tmp_path))
    async with server:
        yield Wire(server, LATEST)


async def rows(wire: Wire, sql: str, **arguments: object) -> Any:
    result = await called(wire, "query_database", LATEST, sql=sql, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]["rows"]


async def refused(wire: Wire, sql: str, **arguments: object) -> str:
    return refusal(await called(wire, "query_database", LATEST, sql=sql, **arguments))


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_statement_sees_the_visible_rows_columns_and_masks(wire: Wire) -> None:
    assert await rows(wire, "select * from orders order by id") == [
        [1, "paid", 10, "…1111"],
        [3, "open", 30, "…3333"],
    ]


async def test_parameters_are_bound_by_their_names(wire: Wire) -> None:
    sql = "select id from orders where status = :status and total < :most or :status = :no"
    given = {"status": "paid", "most": 99.5, "no": None}
    assert await rows(wire, sql, parameters=given) == [[1]]


async def test_a_result_over_its_limit_says_so(wire: Wire) -> None:
    result = await called(wire, "query_database", LATEST, sql="select id from orders", limit=1)
    assert result["structuredContent"]["truncated"] is True
    assert "More rows follow" in result["content"][0]["text"]


async def test_a_large_value_without_an_address_says_how_to_select_the_rest(wire: Wire) -> None:
    given = {"long": "x" * 60_000}
    result = await called(wire, "query_database", LATEST, sql="select :long as x", parameters=given)
    structured = result["structuredContent"]
    assert structured["rows"][0][0]["characters"] == 60_000
    assert "substr(note, 10001, 10000)" in structured["note"]
    assert structured["note"] in result["content"][0]["text"]
    sql = "select substr(:long, 10001, 10000) as x"
    assert await rows(wire, sql, parameters=given) == [["x" * 10_000]]
    result = await called(wire, "query_database", LATEST, sql="select 1")
    assert "note" not in result["structuredContent"]


@pytest.mark.parametrize(
    ("sql", "arguments", "reason"),
    [
        ("select note from orders", {}, "No such column: note"),
        ("select crd from orders", {}, "did you mean 'card'? (columns: test://one/orders/~schema)"),
        ("select * from audit", {}, "No such table: audit"),
        ("select * from ordrs", {}, "No such table: ordrs; did you mean 'orders'?"),
        ("delete from orders", {}, "is not a SELECT"),
        ("select 1; select 2", {}, "sql"),
        ("", {}, "is empty"),
        ("select :a, :b", {"parameters": {"c": 1}}, ":a has no value; :b has no value"),
        ("select :a", {"parameters": {"a": [1]}}, ":a must be text"),
        ("select :a", {"parameters": {"a": 2**64}}, "64 bits"),
        ("select :a", {"parameters": {"a": "\0"}}, "NUL"),
        (f"select '{'x' * 100_001}'", {}, "more than 100000 characters"),
        ("select json('x')", {}, "alformed JSON"),
    ],
)
async def test_a_refusal_says_why_in_visible_names(
    wire: Wire, sql: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason.casefold() in (await refused(wire, sql, **arguments)).casefold()


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_caller_reads_only_the_tables_of_its_scopes(wire: Wire) -> None:
    assert await rows(wire, "select name from staff") == [["Ada"]]
    with acting(Caller(subject="guest", scopes=frozenset())):
        assert "No such table: staff" in await refused(wire, "select name from staff")
        assert len(await rows(wire, "select id from orders")) == 2
    with acting(Caller(subject="boss", scopes=frozenset(["hr"]))):
        assert await rows(wire, "select name from staff") == [["Ada"]]


async def _names(wire: Wire) -> set[str]:
    return {tool["name"] for tool in (await wire.result("tools/list", {}))["tools"]}


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_the_tool_is_offered_only_where_the_manifest_allows_it(tmp_path: Path) -> None:
    for sql, scopes, offered in (
        (False, frozenset[str](), False),
        (True, frozenset[str](), True),
        (CallerSqlOptions(scopes=("sql",)), frozenset[str](), False),
        (CallerSqlOptions(scopes=("sql",)), frozenset(["sql"]), True),
    ):
        server = await server_of(shop(tmp_path, sql=sql))
        async with server:
            with acting(Caller(subject="someone", scopes=scopes)):
                assert ("query_database" in await _names(Wire(server, LATEST))) is offered


async def test_a_database_with_the_tool_keeps_the_contract(tmp_path: Path) -> None:
    await check_provider(shop(tmp_path, timing=FRESH))


async def test_tables_without_exposed_rows_are_not_read(tmp_path: Path) -> None:
    server = await server_of(shop(tmp_path, tables={"staff": TableOptions(rows=False)}))
    async with server:
        assert "No such table: staff" in await refused(Wire(server, LATEST), "select * from staff")


async def test_a_statement_beyond_its_deadline_ends(tmp_path: Path) -> None:
    limits = ReadLimits(query_timeout=type(ReadLimits().query_timeout)(0.2))
    server = await server_of(shop(tmp_path, limits=limits))
    endless = (
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    )
    async with server:
        assert "Time limit" in await refused(Wire(server, LATEST), endless)


async def test_a_caller_who_sends_many_statements_is_told_to_wait(tmp_path: Path) -> None:
    server = await server_of(shop(tmp_path, timing=Timing(statement_interval_s=PATIENCE_S * 60)))
    async with server:
        wire = Wire(server, LATEST)
        for _ in range(30):
            assert await rows(wire, "select 1") == [[1]]
        assert "too many" in (await refused(wire, "select 1")).casefold()


async def test_a_change_of_the_schema_is_seen_by_the_next_statement(
    wire: Wire, tmp_path: Path
) -> None:
    assert len(await rows(wire, "select * from orders")) == 2
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("alter table orders add column place text default 'here'")
    database.close()
    found: Any = None
    for _ in range(100):
        found = await rows(wire, "select * from orders where id = 1")
        if len(found[0]) == 5:
            break
    assert found == [[1, "paid", 10, "…1111", "here"]]


async def test_a_name_that_differs_by_the_case_of_other_letters_is_a_near_one(
    tmp_path: Path,
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute('create table "Öffen" (a)')
    database.close()
    server = await server_of(shop(tmp_path, tables={}))
    async with server:
        told = await refused(Wire(server, LATEST), "select * from öffen")
    assert told == "No such table: öffen; did you mean 'Öffen'?"


def test_sql_of_callers_needs_a_login_of_its_own_on_a_server() -> None:
    with pytest.raises(ValueError, match=r"needs a login .* sql --policy"):
        Database("postgresql://localhost/shop", sql=True)
    with pytest.raises(ValueError, match="a file needs no login"):
        Database("sqlite:///shop.db", sql=CallerSqlOptions(url="postgresql://localhost/shop"))


async def test_duckdb_takes_sql_of_callers_by_their_scopes(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        for sql in SQL.split(";"):
            connection.execute(sql)
    url = f"duckdb:///{tmp_path / 'shop.duckdb'}"
    server = await server_of(Database(url, tables=TABLES, sql=True))
    async with server:
        wire = Wire(server, LATEST)
        shown = [[1, "paid", 10, "…1111"], [3, "open", 30, "…3333"]]
        assert await rows(wire, "select * from orders order by id") == shown
        assert await rows(wire, "from orders where id = :id", parameters={"id": 3}) == shown[1:]
        assert await rows(wire, "select name from staff") == [["Ada"]]
        assert await rows(wire, f"select {'(' * 200}1{')' * 200}") == [[1]]
        assert await rows(wire, "select list_resize([1], 2, 0), 'ä' || ':id' -- :no") == [
            [[1, 0], "ä:id"]
        ]
        near = "did you mean 'card'? (columns: test://one/main/orders/~schema)"
        assert near in await refused(wire, "select crd from orders")
        for sql, reason in (
            ("select note from orders", "No such column: note"),
            ("select * from audit", "No such table: audit"),
            ("select * from ordrs", "did you mean 'orders'?"),
            ("delete from orders", "is not a SELECT"),
            ("with x as (delete from orders returning *) from x", "changes data"),
            ("select 1; select 2", "more than one statement"),
            ("select from where", "sql: syntax error at or near"),
            (f"select {'(' * 2000}1{')' * 2000}", "nested too deeply"),
            (f"select * from {'(' * 9000}staff{')' * 9000}", "nested too deeply: write fewer"),
            (f"select staff{'.a' * 9900} from staff", "a name of more than 64 parts"),
            (f"select staff{' . /**/a' * 1400} from staff", "a name of more than 64 parts"),
            ("select txid_current()", "No such function: txid_current"),
            ("select current_setting('threads')", "No such function: current_setting"),
            ("from glob('*')", "No such function: glob"),
            ("select nothing(1)", "No such function or type: nothing"),
            ("select :a", ":a has no value"),
            (f"select '{'x' * 20_001}'", "more than 20000 characters"),
            ("select status::integer from orders", "Could not convert string 'paid'"),
        ):
            assert reason.casefold() in (await refused(wire, sql)).casefold()
        with acting(Caller(subject="guest", scopes=frozenset())):
            assert "No such table: staff" in await refused(wire, "select name from staff")
            assert await rows(wire, "select count(*) from orders") == [[2]]
