"""SQL of callers on SQLite: what a policy hides does not exist, whatever a statement tries."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    ResourceBusy,
    ResourceError,
)
from resource_server.providers.database.engines.contract import (
    RefusedStatement,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.sqlite.engine import SqliteEngine
from resource_server.providers.database.masks import Masker
from tests.providers.database.engines.sqlite.attacks import COSTLY, SOURCES, statements
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

VISIBLE = ("id", "status", "price", "doc", "mail", "phone", "pin")
CONDITION = "status <> 'draft' and not exists (select 1 from blocked where blocked.id = orders.id)"
MASKS = {"mail": Masker("redact", b""), "phone": Masker("last4", b""), "pin": Masker("redact", b"")}
POLICY = VisibleTables(
    (
        VisibleTable(TableName(None, "orders"), VISIBLE, MASKS, CONDITION),
        VisibleTable(TableName(None, "products")),
        VisibleTable(TableName(None, "open_orders")),
        VisibleTable(TableName(None, "notes"), ("body",)),
        VisibleTable(TableName(None, "articles")),
        VisibleTable(TableName(None, "keyed"), ("id", "a")),
    )
)
DECLARED = POLICY._replace(is_author=True)
_COMMON = """
create table products (id integer primary key, name text);
insert into products values (1, 'tea'), (2, 'pot');
create virtual table articles using fts5(body);
insert into articles values ('tea time'), ('a pot of tea');
create table keyed (id integer primary key, a, card);
insert into keyed values (1, 2, 'same'), (2, 3, 'same');
create view open_orders as select id, status from orders where status = 'open';
create index orders_status on orders (status);
"""
WORLDS = (
    _COMMON
    + """
create table orders (id integer primary key autoincrement, status text, price integer, doc text,
  mail text, phone text, pin text, card text);
insert into orders values (1, 'paid', 10, '{"a": 1}', 'a@x.org', '5550001234', '1111', 'S1'),
  (2, 'draft', 9223372036854775807, 'no json', 'b@x.org', '5550005678', '2222', 'S2'),
  (3, 'open', 30, '[1]', 'c@x.org', '5550009999', '3333', 'S3'),
  (4, 'paid', -9223372036854775807, '{broken', 'd@x.org', '1', '4', 'S4');
create table blocked (id integer);
insert into blocked values (4);
create table secrets (a, b);
insert into secrets values ('PLANTED', 'S9');
create view leak as select * from secrets;
create virtual table notes using fts5(body, secret);
insert into notes values ('shown', 'PLANTED');
""",
    _COMMON
    + """
create table orders (id integer primary key, card text, status text, price integer, doc text,
  mail text, phone text, pin text, note text);
insert into orders values (1, 'T1', 'paid', 10, '{"a": 1}', 'q@y.org', '7771231234', '9', null),
  (3, null, 'open', 30, '[1]', 'q@y.org', '8881239999', 'x', 'T'),
  (4, 'T4', 'draft', 1, '{}', 'd@x.org', '1', '4', 'T4');
create table blocked (id integer);
create virtual table notes using fts5(body, other);
insert into notes values ('shown', 'else');
""",
)


def make(path: Path, sql: str) -> SqliteEngine:
    with sqlite3.connect(path) as database:
        database.executescript("pragma foreign_keys = off;" + sql.replace(_COMMON, "") + _COMMON)
    database.close()
    return SqliteEngine(path)


@asynccontextmanager
async def opened(path: Path, sql: str) -> AsyncGenerator[SqliteEngine]:
    engine = make(path, sql)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def answer(
    engine: SqliteEngine, sql: str, *values: object, within: float = PATIENCE_S
) -> object:
    """Return all that a caller gets for a statement."""
    try:
        found = await engine.run_confined(Statement(sql, values), POLICY, limit=50, within=within)
    except RefusedStatement as error:
        return str(error), error.table, error.column
    except (InvalidParameter, DeadlineExceeded, ResourceBusy) as error:
        return type(error).__name__
    return found.columns, [tuple(row) for row in found.rows], found.more


async def declared(engine: SqliteEngine, sql: str) -> object:
    """Return what anybody gets for a query of the manifest."""
    try:
        found = await engine.run_confined(Statement(sql), DECLARED, limit=50, within=PATIENCE_S)
    except ResourceError as error:
        return error.__class__
    assert "PLANTED" not in repr(found)
    return found


@pytest.mark.guarantee("sql-sees-the-policy")
@pytest.mark.guarantee("hidden-changes-nothing")
async def test_no_statement_tells_two_worlds_apart_that_differ_in_what_is_hidden(
    tmp_path: Path,
) -> None:
    tried = list(dict.fromkeys(statements()))
    assert len(tried) >= 300
    async with (
        opened(tmp_path / "one.db", WORLDS[0]) as one,
        opened(tmp_path / "two.db", WORLDS[1]) as two,
    ):
        for sql in tried:
            found, other = await answer(one, sql), await answer(two, sql)
            assert found == other, sql
            # What was quick is read in another way the next time.
            assert found == await answer(one, sql) == await answer(two, sql), sql
            assert await declared(one, sql) == await declared(two, sql), sql
            assert not any(planted in repr(found) for planted in ("PLANTED", "'S1'", "'S2'")), sql


@pytest.mark.guarantee("refusal-looks-like-absence")
@pytest.mark.parametrize("source", SOURCES)
async def test_what_is_not_visible_is_refused_like_what_is_not_there(
    tmp_path: Path, source: str
) -> None:
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        with pytest.raises(RefusedStatement):
            await engine.run_confined(
                Statement(f"select * from {source}"), POLICY, limit=5, within=PATIENCE_S
            )


LEGITIMATE: Sequence[str] = (
    "select * from orders order by id",
    "select id, mail, phone, pin from orders order by id desc",
    "select status, count(*) as n, sum(price) from orders group by status order by n, status",
    "select phone from orders where phone like '%1234'",
    "select p.name, o.id from products p join orders o on o.id = p.id order by 1",
    "select id, rank() over (order by price desc) from orders order by id",
    "with x as (select id from orders) select max(id) from x",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select * from n",
    "select id from orders union select id from products order by 1",
    "select name, (select count(*) from orders where orders.id = products.id) from products",
    "select * from open_orders",
    "select value from json_each('[1, 2]')",
    "select doc ->> '$.a' from orders order by id",
    "select id from orders where id in (select id from products) order by id",
    "select count(*) from orders a natural join orders b",
    "select body from notes",
    "select upper(name), length(name), substr(name, 2) from products order by 1",
    "select date('2026-01-01', '+1 day'), round(2.5), coalesce(null, 1)",
    "select * from products where rowid = 1",
    "select id from keyed order by id",
    "select count(*) from keyed",
    "select id from keyed where id = 2",
    "select 1 from keyed, products",
    "values (1, 'a'), (2, 'b')",
)
_VIEWS = """
create temp view orders as select id, status, price, doc, '***' as mail,
  case when length(phone) >= 8 then '…' || substr(phone, -4) else '***' end as phone, '***' as pin
  from main.orders where status <> 'draft' and id not in (select id from main.blocked);
create temp view notes as select body from main.notes;
create temp view keyed as select id, a from main.keyed;
"""


@pytest.mark.guarantee("sql-sees-the-policy")
@pytest.mark.parametrize("sql", LEGITIMATE)
async def test_a_statement_gives_what_sqlite_gives_over_equivalent_views(
    tmp_path: Path, sql: str
) -> None:
    path = tmp_path / "one.db"
    async with opened(path, WORLDS[0]) as engine:
        found = await engine.run_confined(Statement(sql), POLICY, limit=50, within=PATIENCE_S)
    plain = sqlite3.connect(path)
    plain.executescript(_VIEWS)
    expected = plain.execute(sql).fetchall()
    plain.close()
    assert [tuple(row) for row in found.rows] == expected
    assert expected


async def test_full_text_search_works_in_a_table_that_is_wholly_visible(tmp_path: Path) -> None:
    sql = "select body from articles where articles match 'time'"
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        found = await engine.run_confined(Statement(sql), POLICY, limit=50, within=PATIENCE_S)
    assert list(found.rows) == [("tea time",)]


async def test_values_are_bound(tmp_path: Path) -> None:
    sql = "select id from orders where status = ? and price > ?"
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        assert await answer(engine, sql, "open", 1) == (("id",), [(3,)], False)
        assert await answer(engine, sql, "' or 1 --", 1) == (("id",), [], False)


async def test_rows_beyond_the_limit_are_left_out_with_a_mark(tmp_path: Path) -> None:
    sql = (
        "select i from (with recursive n(i) as (values (1) union all select i + 1 from n) select *"
    )
    sql += " from n limit 99)"
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        found = await engine.run_confined(Statement(sql), POLICY, limit=5, within=PATIENCE_S)
    assert len(found.rows) == 5
    assert found.more


@pytest.mark.parametrize("place", range(len(COSTLY)))
async def test_a_costly_statement_ends_in_time_and_delays_no_read(
    tmp_path: Path, place: int
) -> None:
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        asked = asyncio.create_task(answer(engine, COSTLY[place], within=1))
        read = Statement("SELECT name FROM main.products")
        for _ in range(5):
            assert len((await engine.run_own(read, limit=5, within=PATIENCE_S)).rows) == 2
        async with asyncio.timeout(PATIENCE_S):
            await asked
        assert await answer(engine, "select count(*) from products", within=PATIENCE_S) == (
            ("count(*)",),
            [(2,)],
            False,
        )


async def test_a_cancelled_request_stops_its_statement(tmp_path: Path) -> None:
    async with opened(tmp_path / "one.db", WORLDS[0]) as engine:
        for _ in range(3):  # more than there are workers
            asked = asyncio.create_task(answer(engine, COSTLY[0], within=60))
            await asyncio.sleep(0)
            await answer(engine, "select 1")
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert await answer(engine, "select 1", within=PATIENCE_S) == (("1",), [(1,)], False)


@pytest.mark.guarantee("sql-sees-the-policy")
async def test_a_table_made_later_is_hidden_and_an_altered_one_is_read_as_it_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "one.db"
    async with opened(path, WORLDS[0]) as engine:
        assert await answer(engine, "select count(*) from products") == (
            ("count(*)",),
            [(2,)],
            False,
        )
        with sqlite3.connect(path) as database:
            database.executescript(
                "create table later (a); insert into later values (1);"
                "alter table products add column price default 5;"
            )
        database.close()
        assert await answer(engine, "select * from later") == (
            "no such table: later",
            "later",
            None,
        )
        found = await answer(engine, "select price from products")
        assert found == (("price",), [(5,), (5,)], False)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
async def test_masks_and_text_hold_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text.db"
    with sqlite3.connect(path) as database:
        database.execute(f"pragma encoding = '{encoding}'")
        database.execute("create table t (a text, b text)")
        database.execute("insert into t values ('käse 12345', 'tea')")
        database.execute("insert into t values (cast(x'ff41424344454647ff' as text), 'x')")
    database.close()
    engine = SqliteEngine(path)
    policy = VisibleTables(
        (VisibleTable(TableName(None, "t"), ("a", "b"), {"a": Masker("last4", b"")}),)
    )
    await engine.open()
    try:
        sql = Statement("select a, b from t where b = 'tea' or a like '%' order by b")
        found = await engine.run_confined(sql, policy, limit=5, within=PATIENCE_S)
        assert found.rows[0] == ("…2345", "tea")
        assert len(found.rows) == 2
        plain = await engine.run_confined(
            Statement("select b from t"), policy, limit=5, within=PATIENCE_S
        )
        assert sorted(plain.rows) == [("tea",), ("x",)]
    finally:
        await engine.close()
