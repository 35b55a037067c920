"""Quick statements of a policy, which the event loop reads, and those that it leaves to workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from resource_server.providers.database.engines.contract import (
    OutdatedPolicy,
    Rows,
    Statement,
    VisibleTable,
    VisibleTables,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.sqlite.connection import SchemaChanged
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    schema_state,
)
from resource_server.providers.database.engines.sqlite.policy_connection import PolicyConnection
from resource_server.providers.database.engines.sqlite.policy_workers import PolicyWorkers
from resource_server.providers.database.masks import Masker
from tests.providers.database.sqlite_databases import PATIENCE_S, write
from tests.waiting import connection_threads, pause, until

pytestmark = pytest.mark.anyio

SHOP = """
create table orders (id integer primary key, status text, mail text, card text);
insert into orders values (1, 'paid', 'a@x', 'c1'), (2, 'draft', 'b@x', 'c2'), (3, 'open', '', '');
create table plain (id integer primary key, name text, class text);
insert into plain values (1, 'one', 'a'), (2, 'two', 'b');
create table computed (a, b generated always as (a like '%a%a%'));
insert into computed (a) values ('aaa');
create virtual table articles using fts5(body);
insert into articles values ('tea time');
create view shouted as select upper(name) as name from plain;
"""
MASKS = {"mail": Masker("redact", b"")}
POLICY = VisibleTables(
    (
        VisibleTable(TableName(None, "orders"), ("id", "status", "mail"), MASKS, "status <> 'x'"),
        *[VisibleTable(TableName(None, n)) for n in ("plain", "computed", "articles", "shouted")],
    )
)
QUICK = (
    "select * from plain",
    "select * from orders order by id",
    "select count(*), max(id) from orders group by status",
    "select id, id from plain order by id limit 1",
    "select p.name, o.mail from plain p join orders o on o.id = p.id limit 5 -- limit 5",
    "with x as (select id from orders) select * from x where id > ? limit 2",
    "values (1, 'a'), (2, 'b')",
)
UNEVEN = (
    "select * from plain where name like ?",
    "select * from plain where name glob 'o*'",
    "select upper(name) from plain",
    "select * from shouted",
    "select * from computed",
    "select count(*) from computed",
    "select * from articles",
    "select * from articles where articles match 'tea'",
    "select value from json_each('[1]')",
    "select group_concat(name) from plain",
    "select hex(name) from plain",
)


def connected(path: Path, policy: VisibleTables = POLICY) -> PolicyConnection:
    file = DatabaseFile(path)
    return PolicyConnection(file, file.identify(), policy)


def of(sql: str) -> Statement:
    return Statement(sql, ("1",) * sql.count("?"))


def test_only_statements_of_short_steps_are_quick(tmp_path: Path) -> None:
    with closing(connected(write(tmp_path / "shop.db", SHOP))) as connection:
        for sql in UNEVEN:
            found, is_quick = connection.run_confined(of(sql), 10)
            assert not is_quick, sql
            assert connection.at_once(of(sql), 10) is None
            assert found.rows is not None
        for sql in QUICK:
            # It may have to wait on a busy machine.
            assert any(connection.run_confined(of(sql), 10)[1] for _ in range(100)), sql


def test_a_statement_gives_the_same_rows_each_time(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    for sql in QUICK:
        for limit in (1, 2, 10):
            with closing(connected(path)) as one, closing(connected(path)) as other:
                first, _ = one.run_confined(of(sql), limit)
                again, _ = one.run_confined(of(sql), limit)
                inline = [other.at_once(of(sql), limit) for _ in range(3)]
            assert [again, *inline] == [first] * 4, sql
            assert len(first.rows) <= limit


@asynccontextmanager
async def workers(path: Path) -> AsyncGenerator[PolicyWorkers]:
    def readable(table: str, column: str, *, through: str | None = None) -> bool:
        return False  # for our own statements only

    others = connection_threads()
    found = PolicyWorkers(DatabaseFile(path), POLICY, readable, size=1, max_waiting=5)
    try:
        yield found
    finally:
        await found.close(PATIENCE_S)
        await until(lambda: connection_threads() <= others)


async def test_commits_and_schema_changes_are_seen_by_quick_statements(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    async with workers(path) as running:

        async def asked(sql: str) -> Rows:
            return await running.run(Statement(sql), limit=10, within=PATIENCE_S)

        names = "select name from plain order by id limit 9"
        for number in range(3, 40):
            assert len((await asked(names)).rows) == number - 1
            change = f"create table later_{number} (a);" if number % 5 == 0 else ""
            write(path, f"{change} insert into plain values ({number}, 'more', '')")
            if number == 10:
                break
        assert len((await asked("select * from orders")).columns) == 3


async def test_a_quick_statement_that_gets_slow_delays_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    sql = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
        " select max(i) from n"
    )
    async with workers(path) as running:
        shares: list[float] = []
        for _ in range(3):  # one of them without a collection of garbage
            for _ in range(20):
                found = await running.run(Statement(sql, (2,)), limit=1, within=PATIENCE_S)
                assert found.rows == [(2,)]
                await pause(0.01)
            slow = asyncio.create_task(
                running.run(Statement(sql, (400_000,)), limit=1, within=PATIENCE_S)
            )
            longest, began = 0.0, time.process_time()
            while not slow.done():
                started = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - started)
            assert slow.result().rows == [(400_000,)]
            shares.append(longest / (time.process_time() - began))
        # Shares of processor time, which do not depend on other processes.
        assert min(shares) < 0.25


def test_views_of_another_schema_are_never_used(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.db", SHOP)
    identity = DatabaseFile(path).identify()
    with closing(connected(path)) as connection:
        fitting = POLICY._replace(schema_state=schema_state(connection.schema_version(), identity))
        connected(path, fitting).close()
        asked = Statement("select * from plain")
        assert connection.at_once(asked, 5) is not None
        write(path, "create table later (a)")
        for ask in (connection.run_confined, connection.at_once):
            with pytest.raises(SchemaChanged):
                ask(asked, 5)
            with pytest.raises(SchemaChanged):
                ask(Statement("select count(*) from later"), 5)
    with pytest.raises(OutdatedPolicy):
        connected(path, fitting)
