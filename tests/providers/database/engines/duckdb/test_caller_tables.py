"""SQL of callers on DuckDB: what a policy hides does not exist, whatever a statement tries."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast, get_args

import duckdb
import msgspec
import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
)
from resource_server.providers.database.masks import MaskKind
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.callers.caller_sql import CallerSql
from resource_server.runtime.eager import settle
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import process_key
from resource_server.testing.tool_rules import SilentToolRequest
from tests.providers.database.asking import answer, caller_sql
from tests.providers.database.engines.duckdb import selects
from tests.providers.database.engines.duckdb.attacks import attacks
from tests.providers.database.engines.duckdb.processes import children_of
from tests.providers.database.engines.duckdb.test_query_attacks import (
    IDEAS,
    POLICY_OF_FILES,
    SCHEMAS,
    SECRET,
    WORLDS,
    World,
    database_url,
    files_url,
)
from tests.waiting import until

pytestmark = pytest.mark.anyio

TABLES: Mapping[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("card",), mask={"mail": "redact"}),
        # Dearer than a caller's conditions, which an optimizer would evaluate first.
        where="replace(replace(replace(status, 'x', 'y'), 'x', 'y'), 'x', 'y') <> 'draft'",
    ),
    "moved": TableOptions(columns=ColumnOptions(hide=("secret",))),
    "either": TableOptions(columns=ColumnOptions(hide=("secret",))),
    **{name: options for name, options in SCHEMAS.items() if name != "orders"},
}
OF_FILES = {**POLICY_OF_FILES, **{name: TABLES[name] for name in ("orders", "moved", "either")}}
MASKS_AND_ROWS = """
select mail from orders
select first(id) as f, last(id) as l, list(id) as m from orders
select * from moved
select * from either
select * from places
select id from places limit 1
select * from histogram('orders', 'total')
select * from customers, lateral histogram('orders', 'total') h
select * from customers join histogram('duckdb_databases', 'path') h on true
select * from main.range(3)
select id from orders where mail like 'SECRET%'
select id from orders where mail = '***'
select count(distinct mail) as n from orders
select mail, count(*) as n from orders group by mail
select length(mail) as n, md5(mail) as h, sha256(mail) as s from orders
select a.id from orders a join orders b on a.mail = b.mail order by all
select id from orders order by mail, id
select max(mail) as m, min(mail) as n from orders
select id from orders where error(total::varchar) is null
select id from orders where case when total > 100 then error('x') else true end order by id
select id from orders where 100 / (total - 1234) > -1 order by id
select id from orders where (100 // (total - 1234))::int is not null order by id
select id from orders where cast(status as int) > 0
select id from orders where try_cast(status as int) is null order by id
select id from orders where total::tinyint > 0 order by id
select sum(total::tinyint) as n from orders
select id from orders where (case when total > 100 then total - 6600 else 1 end)::tinyint = 1
select id from orders where (total * total * (total > 9000)::int)::smallint = 0 order by id
select id from orders where json(status) is not null
select id from orders where status::json is not null
select id from orders where strptime(status, '%Y') is not null
select list_transform([1], lambda x: error('x')) as l from orders where total > 1000
select id from orders using sample 100%
select * from orders tablesample 100%
select * from orders positional join customers
select * from orders asof join customers on orders.id >= customers.id
select null::main.mood
select null::it.main.mood
select main.twice(1)
select it.main.twice(1)
select twice(1)
select nosuch_function(1)
select leak()
select * from leak()
select leaked()
select relayed()
select nextval('numbers')
select currval('it.main.numbers')
select * from it.main.audit
select * from main.audit
select * from temp.main.audit
select * from temp.orders
select * from system.information_schema.tables
select * from secrets, (with secrets as (select 1 as z) select * from secrets) x
select * from audit, (with audit as (select 1 as z) select * from audit) x
select * from (with audit as (select 1 as z) select * from audit) x, audit
select * from (with recent as (select 1 as z) select * from recent) x, recent
with orders as (select 1 as z) select * from orders
with audit as (select * from audit) select * from audit
with recursive audit as (select 1 as n union all select n + 1 from audit where n < 3) from audit
select * from duckdb_views
with duckdb_views as (select 1) select * from duckdb_views
select enum_range(null::mood)
select stats(total) from orders
select current_query()
select orders.rowid from orders
select ordrs.id from orders
select crd from orders
select * from ordrs
select * from strase
select * from 'secret.csv'
select * from "secret.csv"
select txid_current()
select version()
select user, current_database(), current_schema()
select json_deserialize_sql('{"error": false, "statements": []}')
select from_json('[1]', '["INT"]')
select * from duckdb_settings()
select * from duckdb_connection_count()
from enable_logging()
from force_checkpoint()
with "du\u212adb_tables" as (select 1) from duckdb_tables
with secrets as (select 1) select * from (select * from secrets), (from audit)
from read_csv('{dir}/secret.csv')
with "{dir}/secret.csv" as (select 1 as z) select * from (select 2 as y) q, "{dir}/secret.csv"
select * from (with "{dir}/secret.csv" as (select 1) select 1) q, "{dir}/secret.csv"
"""


@asynccontextmanager
async def _asking(url: str, tables: Any, **more: Any) -> AsyncGenerator[CallerSql]:
    async with Database(url=url, tables=tables) as database:
        yield caller_sql(database.engine, tables, **more)


def _differ(folder: Path, world: World) -> None:
    """Let a database differ in more that is hidden: a type, an index, the places of rows."""
    with duckdb.connect(folder / "it.duckdb") as connection:
        connection.execute(f"create type mood as enum ('{world.word}')")
        connection.execute("create unique index cards on orders (id, card)")
        connection.execute("create table moved as select i as id, i as secret from range(3) r(i)")
        connection.execute("create unique index secrets on moved (secret)")
        connection.execute("create view places as select id from moved")
        connection.execute("create table either (c union(a integer, b varchar), secret integer)")
        connection.execute("insert into either values (union_value(a := 5), 1)")
        connection.execute("insert into either values (union_value(b := '5'), 2)")
        connection.execute("create unique index choices on either (secret)")
        if world is WORLDS[0]:
            connection.execute("update orders set card = card || 'x' where id = 1")
            connection.execute("update moved set secret = 9 where id = 0")
            connection.execute("update either set secret = 9 where secret = 1")
            connection.execute("checkpoint")


@pytest.mark.deep
@pytest.mark.guarantee("sql-of-callers-is-confined")
@pytest.mark.guarantee("hidden-changes-nothing")
@pytest.mark.parametrize("kind", ["database", "files"])
async def test_no_statement_tells_two_worlds_apart_that_differ_in_what_is_hidden(
    tmp_path: Path, kind: str
) -> None:
    is_database = kind == "database"
    tried = [(each.sql, each.value) for each in attacks() if each.idea in IDEAS[kind]]
    tried += [(sql, None) for sql in MASKS_AND_ROWS.strip().splitlines()]
    assert len(tried) > (650 if is_database else 300)
    async with AsyncExitStack() as stack:
        sides: list[tuple[CallerSql, str]] = []
        for place, world in enumerate(WORLDS):
            folder = tmp_path / str(place)
            folder.mkdir()
            (folder / "secret.csv").write_text(f"word\n{world.word}\n")
            url = (database_url if is_database else files_url)(folder, world)
            if is_database:
                _differ(folder, world)
            asking = _asking(url, TABLES if is_database else OF_FILES)
            sides.append((await stack.enter_async_context(asking), str(folder)))
        answered = 0
        for sql, value in tried:
            one, other = await asyncio.gather(
                *(_answer(side, sql, value, "it" if is_database else "files") for side in sides)
            )
            assert one == other, sql[:200]
            assert SECRET not in one or SECRET in sql or SECRET in (value or ""), sql[:200]
            answered += not one.startswith("('")
        assert len(tried) / 10 < answered < len(tried) / 2


async def _answer(side: tuple[CallerSql, str], sql: str, value: str | None, database: str) -> str:
    """Return what a caller gets, without the folder of the world."""
    callers, folder = side
    written = sql.replace("{dir}", folder).replace("{db}", database)
    given = {} if value is None else {"p": value.replace("{dir}", folder)}
    return repr(await answer(callers, written, given)).replace(folder, "{dir}")


REFUSED: Mapping[str, str] = {
    "select card from orders": "no such column: card",
    "select id from orders order by card": "no such column: card",
    "select * from audit": "no such table: audit",
    "select * from back.ledger": "no such table: back.ledger",
    "select * from duckdb_tables": "no such table: duckdb_tables",
    "select * from 'secret.csv'": "no such table: secret.csv",
    "select * from read_csv('{dir}/secret.csv')": "no such function: read_csv",
    "select * from leak()": "no such function: leak",
    "select getenv('HOME')": "no such function or type: getenv",
    "attach '{dir}/it.duckdb' as again": "is not a SELECT",
    "copy (select 1) to '{dir}/written.csv'": "is not a SELECT",
    "set enable_external_access = true": "is not a SELECT",
    "delete from orders": "is not a SELECT",
    "select 1; delete from orders": "more than one statement",
}
"""Statements that reach further than the policy, each with the reason of its refusal."""


_DEEP = "(repeat('[', 1000000) || repeat(']', 1000000))::json"
_TYPED = "has the type VARIANT"
ENDING: Mapping[str, str] = {
    f"select {_DEEP}::variant": _TYPED,
    f"select try_cast({_DEEP} as VARIANT[])": _TYPED,
    f"select {_DEEP}::struct(a variant)": _TYPED,
    f"select variant '1' where {_DEEP} is null": _TYPED,
    f'select {_DEEP}::"Variant"': _TYPED,
    f"select {_DEEP}::it.main.anything": "has a type with a schema",
    f"select cast_to_type({_DEEP}, null::variant)": "cast_to_type|VARIANT",
    f"select cast_to_type({_DEEP}, a) from anythings": "no such function: cast_to_type",
    f"select variant_group_array({_DEEP})": "no such function: variant_group_array",
    "select variant_group_object('a', a) from anythings": "no such function: variant_group_object",
    f"select json_contains({_DEEP}, '1')": "no such function: json_contains",
}
"""Statements that would end the process of DuckDB, each with the reason of its refusal."""


@pytest.mark.parametrize("sql", ENDING)
async def test_a_statement_that_would_end_the_process_is_refused(tmp_path: Path, sql: str) -> None:
    url = database_url(tmp_path, WORLDS[0])
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        connection.execute("create type anything as variant")
        connection.execute("create table anythings as select 1::variant as a")
    async with _asking(url, {}) as callers:
        with pytest.raises(InvalidParameter, match=ENDING[sql]):
            await callers.run(sql, {}, 9)


async def test_types_of_the_names_of_duckdb_are_cast_to(tmp_path: Path) -> None:
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        sql = "select '[1]'::json::integer[], {'a': '2'}::struct(a integer), try_cast('x' as date)"
        assert (await callers.run(sql, {}, 9)).rows == [([1], {"a": 2}, None)]


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_statement_that_reaches_further_than_the_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text(f"word\n{SECRET}\n")
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        for sql, reason in REFUSED.items():
            with pytest.raises(InvalidParameter, match=reason):
                await callers.run(sql.replace("{dir}", str(tmp_path)), {}, 9)
        found = await callers.run("select * from orders order by id", {}, 9)
        assert found.columns == ("id", "customer", "total", "status", "mail")
        assert found.rows == [(1, 1, 5, "sent", "***"), (3, 2, 7, "10%", "***")]


# -- the nearest statements that must work


SHOWN: Mapping[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("card",), mask={"mail": "redact"}),
        where="status <> 'draft' or status is null",
    )
}


@pytest.mark.deep
@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_statements_give_what_duckdb_gives_over_the_selects_of_the_policy(
    tmp_path: Path,
) -> None:
    path = tmp_path / "it.duckdb"
    with duckdb.connect(path) as connection:
        for sql in selects.TABLES:
            connection.execute(sql)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"attach '{path}' as source (read_only)")
        for sql in ("set TimeZone = 'UTC'", *selects.VIEWS):
            connection.execute(sql)
        async with _asking(f"duckdb:///{path}", SHOWN) as callers:
            for sql in (*selects.written(), *selects.generated(7, 150)):
                expected = connection.execute(sql).fetchall()
                found = (await callers.run(sql, {}, 1000)).rows
                assert _plain(found) == _plain(expected), sql


def _plain(value: object) -> str:
    """Return a value as text, as other types of the same value are written."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return f"{{{', '.join(f'{key}: {_plain(each)}' for key, each in items)}}}"
    return value.isoformat() if isinstance(value, datetime) else str(value)


# -- copies


_OF_EVERY_TYPE = (
    "12345678901",
    "12345678901234567890123::hugeint",
    "0.00000012::decimal(18, 8)",
    "1234567.25::decimal(12, 2)",
    "-0.0::double",
    "0.1::float",
    "'some text'",
    "date '2024-02-29'",
    "timestamp '2024-02-29 10:00:00.5'",
    "timestamptz '2024-02-29 10:00:00+02'",
    "time '10:00:00'",
    "interval '14 months'",
    "uuid '5f6a1a3c-0000-4000-8000-000000000000'",
    "'some bytes'::blob",
    "true",
    "[1, 2, 300000000]",
    "[date '2024-02-29']",
    "{'a': 1.5, 'b': 'x'}",
    "row(1, 'x')",
    "map {'a': date '2024-02-29'}",
    "'{\"a\": 1}'::json",
    "'longer word'::enum('longer word', 'other')",
    "'101010101'::bit",
    "null::varchar",
)


async def test_masked_values_are_those_of_rows(tmp_path: Path) -> None:
    columns = [f"{value} as c{place}" for place, value in enumerate(_OF_EVERY_TYPE)]
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        for kind in ("hash", "last4"):
            connection.execute(f"create table t_{kind} as select 1 as id, {', '.join(columns)}")
    tables = {
        f"t_{kind}": TableOptions(
            key=("id",),
            columns=ColumnOptions(mask={f"c{n}": kind for n in range(len(columns))}),
        )
        for kind in get_args(MaskKind)
        if kind != "redact"
    }
    url = f"duckdb:///{tmp_path}/it.duckdb"
    async with Database(url=url, tables=tables, sql=True) as database:
        database.mounted(lambda path, query=None: "/".join(path), process_key())
        for name in tables:
            (page,) = await database.read(("main", name, "~rows"), {"format": "columns"})
            called = {"sql": f"select * from {name}"}
            result = await settle(database.call_tool("query_database", called, SilentToolRequest()))
            found = msgspec.json.decode(msgspec.json.encode(result.structured))
            assert found["rows"] == msgspec.json.decode(page.data)["rows"]
            masked = f"select id from {name} where c6 = :c"
            rows = found["rows"][0]
            called = {"sql": masked, "parameters": {"c": rows[found["columns"].index("c6")]}}
            result = await settle(database.call_tool("query_database", called, SilentToolRequest()))
            assert msgspec.json.decode(msgspec.json.encode(result.structured))["rows"] == [[1]]


async def test_statements_follow_the_data_and_the_schema(tmp_path: Path) -> None:
    url = database_url(tmp_path, WORLDS[0])
    async with _asking(url, TABLES) as callers:
        assert "no such table: later" in str(await answer(callers, "select * from later"))
        with duckdb.connect(tmp_path / "it.duckdb") as connection:
            connection.execute("create table later as select 1 as a")
            connection.execute("drop table strasse")
            connection.execute("update orders set status = 'draft' where id = 1")
            connection.execute("alter table orders add column note varchar default 'new'")
        assert (await callers.run("select * from later", {}, 5)).rows == [(1,)]
        assert (await callers.run("select id, note from orders", {}, 5)).rows == [(3, "new")]
        assert "no such table: strasse" in str(await answer(callers, "select * from strasse"))


async def test_a_table_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        connection.execute("create table t as select 1 as a, 2 as b")
        connection.execute("create table gone as select 1 as a")
        connection.execute("create view broken as select * from gone")
        connection.execute("create view failing as select a::varchar || 'x' as a from t")
        connection.execute("create view wrong as select cast(a as integer) as a from failing")
        connection.execute("drop table gone")
    tables = {"t": TableOptions(columns=ColumnOptions(hide=("b",)))}
    async with _asking(f"duckdb:///{tmp_path}/it.duckdb", tables) as callers:
        assert (await callers.run("select * from t", {}, 5)).rows == [(1,)]
        for name in ("broken", "wrong"):
            assert "cannot be read" in str(await answer(callers, f"select * from {name}"))


async def test_a_name_that_differs_by_the_case_of_other_letters_is_a_near_one(
    tmp_path: Path,
) -> None:
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        connection.execute('create table "Öffen" as select 1 as a')
    async with _asking(f"duckdb:///{tmp_path}/it.duckdb", {}) as callers:
        assert (await callers.run("select * from ÖFFEN", {}, 5)).rows == [(1,)]
        told = str(await answer(callers, "select * from öffen"))
        assert "no such table: öffen; did you mean 'Öffen'?" in told
        assert "did you mean 'a'? (columns: " in str(await answer(callers, "select aa from ÖFFEN"))


async def test_a_file_is_used_as_it_is_if_everything_in_it_is_visible(tmp_path: Path) -> None:
    url = database_url(tmp_path, WORLDS[0])
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        connection.execute("create macro lower(x) as 'hijacked'")
        connection.execute(
            "create or replace view recent as select id, lower(status) s from orders"
        )
    async with _asking(url, {}) as callers:
        for sql, rows in (
            ("select count(*) from orders", [(3,)]),
            ("select line from ledger", [(WORLDS[0].word,)]),
            ("select lower('X')", [("x",)]),
            ("select distinct s from recent", [("hijacked",)]),
        ):
            assert (await callers.run(sql, {}, 5)).rows == rows
        for sql in (
            "select twice(1)",
            "from leak()",
            "select * from it.back.ledger",
            "from duckdb_tables",
        ):
            assert re.search("no such|not available", str(await answer(callers, sql)))


async def test_there_are_at_most_four_processes_with_copies(tmp_path: Path) -> None:
    url = database_url(tmp_path, WORLDS[0])
    before = children_of(os.getpid())
    async with Database(url=url) as database:
        for total in (0, 1, 2, 3, 5, 0):
            tables = {"orders": TableOptions(where=f"total > {total}")}
            callers = caller_sql(database.engine, tables)
            found = await callers.run("select count(*), min(total) from orders", {}, 1)
            assert found.rows == [(3, 5) if total < 5 else (2, 7)]
        async with asyncio.timeout(50):  # less than an idle process lives
            await until(lambda: len(children_of(os.getpid()) - before) <= 1 + 4)
    assert not children_of(os.getpid()) - before


async def test_a_result_that_is_not_read_to_its_end_keeps_no_memory(tmp_path: Path) -> None:
    # Two of them do not fit into the memory of the process.
    large = "SELECT i, repeat('x', 1000) || i AS s FROM range(280000) r(i) ORDER BY s"
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        for _ in range(4):
            assert (await callers.run(large, {}, 1)).more


async def test_what_does_not_fit_into_memory_is_refused_and_told_by_check(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "copy (select repeat('x', 200) || (i % 100) as a, 2 as b from range(3_000_000) r(i))"
            f" to '{tmp_path}/large.parquet'"
        )
    tables = {"large": TableOptions(columns=ColumnOptions(hide=("b",)))}
    async with Database(url=f"files:{tmp_path}/large.parquet", tables=tables, sql=True) as database:
        ((option, told),) = await database.warnings()
        assert option == "sql"
        assert told.startswith("the visible part of the database does not fit into memory (384 MB)")
        with pytest.raises(InvalidParameter, match="declare queries instead"):
            await caller_sql(database.engine, tables).run("select 1", {}, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux")
async def test_a_statement_whose_values_take_too_much_memory_is_refused(tmp_path: Path) -> None:
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        for sql in (
            "select len(range(100000000))",
            "select length(printf('%900000000d', 1))",
        ):
            with pytest.raises(InvalidParameter, match="too much memory"):
                await callers.run(sql, {}, 1)
            assert (await callers.run("select count(*) from orders", {}, 1)).rows == [(2,)]


async def test_a_row_that_is_too_large_for_an_answer_is_refused(tmp_path: Path) -> None:
    given = {"a": "a" * 9000, "b": "b" * 1700}
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        with pytest.raises(InvalidParameter, match="a row has more than 32 MB"):
            await callers.run("select s, s, s, s from (select replace(:a, 'a', :b) s)", given, 1)
        found = await callers.run(
            "select s, case when i = 1 then s end from (select replace(:a, 'a', :b) s),"
            " range(3) t(i) order by i",
            given,
            9,
        )
        assert (len(found.rows), found.more) == (2, True)


COSTLY = (
    "select count(*) from range(1000000) a, range(1000000) b",
    "with recursive n(s) as (select 'a' union all select s || s from n) select length(s) from n",
    "select repeat('x', 10000000) from range(1000)",
    "select list(i) from range(100000000) t(i)",
    "select lpad('x', 2000000000, 'y')",
    "select regexp_matches(repeat('a', 50), '(a*)*(a*)*(a*)*b')",
)


async def test_a_costly_statement_ends_and_the_next_is_answered(tmp_path: Path) -> None:
    limits = ReadLimits(query_timeout=Duration(1))
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES, limits=limits) as callers:
        for sql in COSTLY:
            try:
                found = await callers.run(sql, {}, 1000)
            except (DeadlineExceeded, InvalidParameter, ResourceBusy, MountUnavailable):
                continue
            assert sum(len(str(value)) for row in found.rows for value in row) < 70_000_000
        assert (await callers.run("select count(*) from orders", {}, 1)).rows == [(2,)]
