"""Functions that declared queries call, which may read what is hidden."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from resource_server.errors import InvalidParameter
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.queries.shop import (
    RESTRICTED,
    SHOP,
    spelled,
)
from tests.providers.database.served import served
from tests.providers.database.servers import with_parts

pytestmark = pytest.mark.anyio


CALLS_REFUSED = {
    "postgresql": """
select query_to_xml('select * from orders', true, false, '')::text as n
select pg_catalog.query_to_xml('select * from orders', true, false, '')::text as n
select "query_to_xml"('select * from audit', true, false, '')::text as n from customers
select x::text from customers, lateral table_to_xml('audit', true, false, '') x
select x::text from table_to_xml('audit', true, false, '') x
select xmlforest(schema_to_xml('public', true, false, '') as y)::text as n
select (select database_to_xml(true, false, ''))::text as n
with x as (select query_to_xml('table orders', true, false, '')::text as y) select y from x
select id from customers where query_to_xml('select 1', true, false, '') is not null
select id from customers order by query_to_xml('select 1', true, false, '')::text
select coalesce(null, table_to_xml('audit', true, false, '')::text) as n
select count(*) filter (where table_to_xml('audit', true, true, '') is null) as n from audit
select * from ts_stat('select to_tsvector(card) from orders')
select ts_rewrite('a'::tsquery, 'select ''a''::tsquery, ''card''::tsquery from orders')::text as n
select cursor_to_xml('c', 1, true, false, '')::text as n
select pg_get_viewdef('recent'::regclass) as n
select pg_read_file('PG_VERSION') as n
select lo_get(1)::text as n
select currval('numbers') as n
select most() as n
select public.most() as n
select s.most() as n
select MOST() as n
select * from lines()
select c.worth from customers c
select name from customers group by name having most() > 1
select most_common_vals::text from pg_stats
select tablename from pg_catalog.pg_stats
select table_name from information_schema.tables
""",
    "mariadb": """
select most() as n
select `most`() as n
select MOST() as n
select {d}.most() as n
select id from customers where most() > 1
select id from customers order by most()
with x as (select most() as y) select y from x
select concat(most(), '') as n
select load_file('/etc/hostname') as n
select table_name from information_schema.tables
""",
}
CALLS_ANSWERED = {
    "postgresql": """
select lower(name) as n, now() > '2020-01-01' as m, random() < 2 as r from customers
select to_char(sum(total), '999') as n from orders
select pg_catalog.count(*) as n from orders
select json_agg(c.name)::text as n from customers c
select string_agg(name, ',' order by name) as n from customers
select percentile_cont(0.5) within group (order by total) as n from orders
select row_number() over (order by id) as n from orders
select n from generate_series(1, 3) n
select u from unnest(array[1, 2]) u
select format('%s', name) as n, current_setting('server_version') as v from customers
select twice(total) as n from orders
select e.key from jsonb_each('{{"a": 1}}') e
select c.name, o.total from customers c join orders o on o.customer = c.id
""",
    "mariadb": """
select lower(name) as n, now() > '2020-01-01' as m, rand() < 2 as r from customers
select twice(total) as n from orders
select group_concat(name order by name separator ',') as n from customers
select inet_aton('1.2.3.4') as n, date_format(now(), '%%Y') as y
select row_number() over (order by id) as n from orders
""",
}
FUNCTIONS = {
    "postgresql": (
        "drop schema if exists s cascade",
        "create sequence numbers",
        "select nextval('numbers')",
        "create function most() returns integer stable language sql as"
        " 'select max(total) from orders'",
        "create schema s",
        "create function s.most() returns integer volatile language plpgsql as"
        " 'begin return (select max(total) from public.orders); end'",
        "create function lines() returns setof audit stable language sql as 'table audit'",
        "create function worth(customers) returns integer stable language sql as"
        " 'select max(total) from orders where customer = $1.id'",
        "create function twice(integer) returns integer immutable language sql as 'select 2 * $1'",
    ),
    "mariadb": (
        "create function most() returns integer reads sql data"
        " return (select max(total) from orders)",
        "create function twice(n integer) returns integer no sql return 2 * n",
    ),
}


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_functions_that_may_read_tables_are_refused_where_anything_is_hidden(
    owner: Owner,
) -> None:
    await owner.run(*SHOP, *FUNCTIONS[owner.engine])
    reading = {f"r{n}": sql for n, sql in enumerate(_lines(CALLS_REFUSED, owner))}
    harmless = {f"h{n}": sql for n, sql in enumerate(_lines(CALLS_ANSWERED, owner))}
    queries = {name: Query(sql=sql) for name, sql in (reading | harmless).items()}

    async def refused(tables: Mapping[str, Any]) -> dict[str, str]:
        async with Database(url=owner.url, tables=tables, queries=queries) as database:
            found = await database.warnings()
        return {option.split(".")[1]: said for option, said in found if option.startswith("q")}

    for of in ({}, {"orders": TableOptions(title="x")}, {"nowhere": False}):
        assert await refused(of) == {}
    said = await refused(RESTRICTED)
    assert sorted(said) == sorted(reading)
    for name, message in said.items():
        assert re.search(r"which (may (read|tell) what )?is hidden", message), reading[name]
    async with served(owner, tables=RESTRICTED, queries=queries) as it:
        for name, sql in reading.items():
            with pytest.raises(InvalidParameter, match="refuses this query"):
                await it.query(name)
            assert sql
        for name, sql in harmless.items():
            assert await it.query(name), sql


def _lines(statements: Mapping[str, str], owner: Owner) -> list[str]:
    return [spelled(sql, owner) for sql in statements[owner.engine].splitlines() if sql]


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_functions_may_be_called_by_a_login_that_reads_nothing_hidden(owner: Owner) -> None:
    await owner.run(*SHOP, *FUNCTIONS[owner.engine])
    # Imported here: tests are skipped without the drivers.
    from tests.providers.database import mysql_databases, postgres_databases

    role, of_postgres = f"reader_{uuid.uuid4().hex[:12]}", owner.engine == "postgresql"
    database = owner.url.rpartition("/")[2]
    made = (
        (
            f"create role {role} login password 'x'",
            f"grant usage on schema public to {role}",
            f"grant select on customers to {role}",
        )
        if of_postgres
        else (
            f"create user {role} identified by 'x'",
            f"grant select on {database}.customers to {role}",
            f"grant execute on {database}.* to {role}",
        )
    )
    some = f"select (id, total) on {'orders' if of_postgres else f'{database}.orders'} to {role}"
    sql = "select most() as n"
    if of_postgres:
        sql = "select query_to_xml('select name from customers', true, false, '')::text as n"
    queries = {"q": Query(sql=sql)}
    tables: dict[str, Any] = {
        "orders": TableOptions(columns=ColumnOptions(hide=("card",))),
        "audit": False,
    }
    url = with_parts(owner.url, login=f"{role}:x")

    async def refused() -> bool:
        async with Database(url=url, tables=tables, queries=queries) as provider:
            found = await provider.warnings()
        return any("which may read what is hidden" in said for _, said in found)

    admin = (postgres_databases if of_postgres else mysql_databases).ADMIN
    async with owner_of(with_parts(admin, database=database)) as server:
        try:
            await server.run(*made)
            assert not await refused()
            await server.run(f"grant {some}")
            assert not await refused()
            await server.run(f"grant {some.replace('(id, total) ', '')}")
            assert await refused()
        finally:
            dropped = (f"drop owned by {role}", f"drop role {role}")
            await server.run(*(dropped if of_postgres else (f"drop user {role}",)))
