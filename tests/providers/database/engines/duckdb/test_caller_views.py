"""SQL of callers on DuckDB: what a policy hides does not exist, whatever a statement tries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
)
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.caller_sql import CallerSql
from resource_server.runtime.option_types import Duration
from tests.providers.database.asking import answer, caller_sql
from tests.providers.database.engines.duckdb.attacks import attacks
from tests.providers.database.engines.duckdb.test_query_attacks import (
    SCHEMAS,
    SECRET,
    WORLDS,
    World,
    database_url,
    files_url,
)

pytestmark = pytest.mark.anyio

TABLES: Mapping[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(hide=("card",), mask={"mail": "redact"}),
        # Dearer than a caller's conditions, which an optimizer would evaluate first.
        where="replace(replace(replace(status, 'x', 'y'), 'x', 'y'), 'x', 'y') <> 'draft'",
    ),
    **{name: options for name, options in SCHEMAS.items() if name != "orders"},
}
OF_FILES = {name: options for name, options in TABLES.items() if not name.startswith("back")}
MASKS_AND_ROWS = """
select mail from orders
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
from read_csv('{dir}/secret.csv')
with "{dir}/secret.csv" as (select 1 as z) select * from (select 2 as y) q, "{dir}/secret.csv"
select * from (with "{dir}/secret.csv" as (select 1) select 1) q, "{dir}/secret.csv"
"""


@asynccontextmanager
async def _asking(url: str, tables: Any, **more: Any) -> AsyncGenerator[CallerSql]:
    async with Database(url=url, tables=tables) as database:
        yield caller_sql(database.engine, tables, **more)


class Arena:
    """The worlds, each with what answers its callers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sides: list[tuple[CallerSql, str]] = []

    async def answers(self, sql: str, value: str | None) -> list[str]:
        """Return what callers get in each of the worlds."""
        return await asyncio.gather(*(self._answer(sql, value, *side) for side in self.sides))

    async def _answer(self, sql: str, value: str | None, callers: CallerSql, folder: str) -> str:
        written = sql.replace("{dir}", folder).replace("{db}", self.name)
        given = {} if value is None else {"p": value.replace("{dir}", folder)}
        found = await answer(callers, written, given)
        if len(found) == 3 and "order by" not in sql:
            found = found[0], sorted(found[1], key=repr), found[2]
        # Names are folded to lower case.
        return repr(found).replace(folder, "{dir}").replace(folder.lower(), "{dir}")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["database", "files"])
async def arena(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Arena]:
    is_database = request.param == "database"
    arena = Arena("it" if is_database else "memory")
    async with AsyncExitStack() as stack:
        for world in WORLDS:
            folder = tmp_path_factory.mktemp("world")
            (folder / "secret.csv").write_text(f"word\n{world.word}\n")
            url = (database_url if is_database else files_url)(folder, world)
            if is_database:
                _add_types(folder, world)
            asking = _asking(url, TABLES if is_database else OF_FILES)
            arena.sides.append((await stack.enter_async_context(asking), str(folder)))
        yield arena


def _add_types(folder: Path, world: World) -> None:
    with duckdb.connect(folder / "it.duckdb") as connection:
        connection.execute(f"create type mood as enum ('{world.word}')")


@pytest.mark.slow
async def test_no_statement_tells_two_worlds_apart_that_differ_in_what_is_hidden(
    arena: Arena,
) -> None:
    # Of values that are equally frequent, DuckDB gives any.
    tried = [(each.sql, each.value) for each in attacks() if "mode(" not in each.sql]
    tried += [(sql, None) for sql in MASKS_AND_ROWS.strip().splitlines()]
    assert len(tried) >= 600
    refused = 0
    for sql, value in tried:
        one, other = await arena.answers(sql, value)
        assert one == other, sql[:200]
        assert SECRET not in one or SECRET in sql or SECRET in (value or ""), sql[:200]
        refused += one.startswith("('InvalidParameter")
    assert len(tried) / 3 < refused < len(tried)


LEGITIMATE: Mapping[str, Sequence[object]] = {
    "select id, total, status, mail from orders order by id": [
        (1, 5, "sent", "***"),
        (3, 7, "10%", "***"),
    ],
    "select name, count(*) as n from customers c join orders o on o.customer = c.id group by all"
    " order by all": [("Ann", 1), ("Bo", 1)],
    "with x as (select * from orders) select sum(total) from x": [(12,)],
    "select x from strasse": [(1,)],
    "select id, rank() over (order by total desc) as r from orders order by id": [(1, 2), (3, 1)],
    "select unnest([1, 2]) as n": [(1,), (2,)],
    "select * from range(2)": [(0,), (1,)],
    "select * from (pivot (select id, status from orders) on status in ('10%', 'sent')"
    " using count(*)) order by all": [
        (1, 0, 1),
        (3, 1, 0),
    ],
    "select id from orders where total > $least order by id": [(3,)],
}


@pytest.mark.parametrize("sql", LEGITIMATE)
async def test_a_statement_of_what_is_visible_is_answered(tmp_path: Path, sql: str) -> None:
    given = {"least": 6} if "$least" in sql else {}
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES) as callers:
        found = await callers.run(sql.replace("$", ":"), given, 50)
    assert [tuple(row) for row in found.rows] == LEGITIMATE[sql]


async def test_views_follow_the_schema(tmp_path: Path) -> None:
    url = database_url(tmp_path, WORLDS[0])
    async with _asking(url, TABLES) as callers:
        assert "no such table: later" in str(await answer(callers, "select * from later")).lower()
        with duckdb.connect(tmp_path / "it.duckdb") as connection:
            connection.execute("create table later as select 1 as a")
            connection.execute("drop table strasse")
        assert (await callers.run("select * from later", {}, 5)).rows == [(1,)]
        assert (
            "no such table: strasse" in str(await answer(callers, "select * from strasse")).lower()
        )


async def test_hash_and_last4_mask_in_comparisons_too(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "it.duckdb") as connection:
        connection.execute("create table staff (name varchar, phone varchar, born date)")
        connection.execute("insert into staff values ('Ada', '5550001234', '2000-01-01')")
        connection.execute("insert into staff values ('Ada', '12', null)")
    masks: Any = {"name": "hash", "phone": "last4", "born": "last4"}
    tables = {"staff": TableOptions(columns=ColumnOptions(mask=masks))}
    async with _asking(f"duckdb:///{tmp_path}/it.duckdb", tables) as callers:
        rows = (await callers.run("select * from staff order by phone", {}, 5)).rows
        ((first, *_), (second, *_)) = rows
        assert [row[1:] for row in rows] == [("***", None), ("…1234", "***")]
        assert first == second
        assert len(str(first)) == 16
        for sql in ("name = 'Ada'", "phone = '5550001234'", "name = sha256('Ada')", "born > now()"):
            found = await answer(callers, f"select 1 from staff where {sql}")
            assert isinstance(found, tuple)
            assert not found[1] or found[0] == "InvalidParameter"


COSTLY = (
    "select count(*) from range(100000000000)",
    "select count(*) from range(1000000) a, range(1000000) b",
    "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "with recursive n(s) as (select 'a' union all select s || s from n) select length(s) from n",
    "select repeat('x', 1000000000)",
    "select repeat('x', 10000000) from range(1000)",
    "select list(i) from range(100000000) t(i)",
    "select lpad('x', 2000000000, 'y')",
    "select regexp_matches(repeat('a', 50), '(a*)*(a*)*(a*)*b')",
)


@pytest.mark.slow
async def test_a_costly_statement_ends_and_the_next_is_answered(tmp_path: Path) -> None:
    limits = ReadLimits(query_timeout=Duration(3))
    async with _asking(database_url(tmp_path, WORLDS[0]), TABLES, limits=limits) as callers:
        for sql in COSTLY:
            try:
                found = await callers.run(sql, {}, 1000)
            except (DeadlineExceeded, InvalidParameter, ResourceBusy, MountUnavailable):
                continue
            assert sum(len(str(value)) for row in found.rows for value in row) < 70_000_000
        assert (await callers.run("select 1", {}, 1)).rows == [(1,)]
