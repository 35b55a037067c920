"""What a rule of the policy would not protect is not served, on every engine."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from resource_server.access import Access
from resource_server.catalog.catalog import Catalog
from resource_server.errors import InvalidParameter, ResourceError, RuleUnmatched
from resource_server.errors import ResourceNotFound as NotFound
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.eager import TimeLimit, settle
from resource_server.runtime.timing import Timing
from resource_server.testing.tool_rules import SilentToolRequest
from tests.listeners import BASE, mounted
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import FRESH, Served, served, timed_database
from tests.providers.database.servers import unique_name, with_parts

pytestmark = pytest.mark.anyio

PEOPLE = (
    "create table customers (id integer primary key, name varchar(9), ssn varchar(20))",
    "insert into customers values (1, 'Ann', 'secret 4711')",
    "create table orders (id integer primary key, total integer)",
    "insert into orders values (1, 5)",
    "create view cards as select id, ssn from customers",
)
QUERIES = {
    "everyone": Query(sql="select * from customers"),
    "all_orders": Query(sql="select * from orders"),
}


def hiding(*names: str, **more: Any) -> TableOptions:
    return TableOptions(columns=ColumnOptions(hide=names), **more)


def masking(name: str) -> TableOptions:
    return TableOptions(columns=ColumnOptions(mask={name: "hash"}))


def prefix(owner: Owner) -> tuple[str, ...]:
    return tuple(owner.prefix.split("/")[:-1])


async def assert_gone(it: Served, table: str = "customers") -> None:
    """Assert that no request finds a table, and that another one is as it was."""
    for path in (
        "",
        "/1",
        "/~rows",
        "/~schema",
        "/~summary",
        "/~rows?columns=name",
        "/1/~cell/ssn",
    ):
        with pytest.raises(ResourceError) as caught:
            await it.read(f"{table}{path}")
        assert table not in str(caught.value)
    assert not [child for child in await it.children() if table in child]
    assert not [entry.uri for entry in await it.entries() if table in entry.uri]
    with pytest.raises(InvalidParameter):
        await it.query("everyone")
    schema = it.base.removeprefix(BASE).strip("/")
    template = f"{BASE}{'{schema}/' if schema else ''}{{table}}/~rows"
    tables = await it.catalog.complete(
        template, "table", "", given={"schema": schema} if schema else {}
    )
    assert "orders" in tables.values
    assert table not in tables.values
    assert await it.json("orders/1") == {"id": 1, "total": 5}
    assert await it.query("all_orders")
    for needle in ("secret", "Ann", table):
        assert not (await it.catalog.search(needle)).hits


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"customers": hiding("sn")}, "hide: no column 'sn' in table 'customers'; did you mean"),
        ({"customers": hiding("notacol")}, "hide: no column 'notacol' in table 'customers'. The t"),
        ({"customers": masking("snn")}, "mask: no column 'snn' in table 'customers'; did you"),
        ({"cust*": hiding("snn")}, "hide: no column 'snn' in table 'customers'; did you mean"),
        ({"customers": TableOptions(where="tenant = 1")}, "where: of 'customers': "),
        # Never used, as the pattern comes first.
        (
            {"cust*": TableOptions(title="C"), "customers": hiding("ssn")},
            "tables.customers: is never used; an earlier entry matches the same tables. The table",
        ),
    ],
)
async def test_a_table_is_not_served_if_a_rule_would_not_protect_it(
    owner: Owner, entries: Mapping[str, Any], says: str
) -> None:
    await owner.run(*PEOPLE)
    tables = {**entries, "cards": False}
    async with served(owner, tables=tables, queries=QUERIES, timing=FRESH) as it:
        await assert_gone(it)
        provider = it.catalog.mounts[0].provider
        told = [f"{option}: {text}" for option, text in await provider.warnings(thorough=False)]
        assert len(told) == 1
        assert says in told[0]
        assert "not served until this is right" in told[0]
        # What is not served is not counted as hidden by a rule.
        assert [path for path, _ in await provider.hides(limit=9) if "customers" in path] == []
        path = (*prefix(owner), "customers", "1")
        assert "does not hold" in await provider.explain(path)


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
async def test_rules_that_hold_leave_tables_as_they_are(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    tables = {
        "CUSTOMERS": hiding("SSN", where="id < 9"),
        "orders": masking("Total"),
        "customer_notes": hiding("note", optional=True),
        "nothing_like_it": False,
    }
    async with served(owner, tables=tables, timing=FRESH) as it:
        assert await it.json("customers/1") == {"id": 1, "name": "Ann"}
        assert "cards" not in str(await it.children())
        told = await it.catalog.mounts[0].provider.warnings(thorough=False)
        missing = ("tables.nothing_like_it", "no table 'nothing_like_it'")
        assert told == ([] if owner.engine == "mariadb" else [missing])


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_condition_that_compares_text_in_the_place_of_a_column_is_a_mistake(
    owner: Owner,
) -> None:
    await owner.run(*PEOPLE[:-1])
    for where, holds in (
        ('"name" <> 0', False),
        ('id = 1 and "Name" not in (1)', False),
        ('name <> "name"', True),
        ('"name" = name or id = 1', False),
        ('name in ("name", "Ann")', True),
    ):
        async with served(owner, tables={"customers": TableOptions(where=where)}) as it:
            told = str(await it.catalog.mounts[0].provider.warnings(thorough=False))
            assert ("is text here; write `" in told) != holds, where
            assert ("customers" in str(await it.children())) == holds


async def test_a_condition_with_a_percent_sign_holds(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, name varchar(9))",
        "insert into t values (1, 'abc'), (2, 'xyz')",
    )
    async with served(owner, tables={"t": TableOptions(where="name like 'a%'")}) as it:
        assert [row["id"] for row in (await it.json("t/~rows"))["rows"]] == [1]


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
async def test_a_misspelt_table_customer_beside_customers_is_not_served(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    for entry in (hiding("ssn"), TableOptions(expose=False), TableOptions(where="id = 2"), False):
        with pytest.raises(RuleUnmatched, match="no table 'customer'; did you mean") as caught:
            async with Database(url=owner.url, tables={"customer": entry}):
                pass
        assert caught.value.option == "tables.customer"
    # An entry of its own is no reason to serve the table: one of the two is meant for it.
    for own in (TableOptions(listed=False), TableOptions(where="id = 1"), hiding("name")):
        with pytest.raises(RuleUnmatched):
            async with Database(
                url=owner.url, tables={"customers": own, "customer": hiding("ssn")}
            ):
                pass
    for name in ("customer", "cust*"):
        later = {name: hiding("ssn", optional=True)}
        async with Database(url=owner.url, tables=later):
            pass


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_server_may_hide_tables_that_the_login_does_not_see(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    tables: dict[str, Any] = {
        "orders_audit": False,
        "customers": hiding("ssn"),
        "secret_*": False,
        "orders_2": False,
    }
    async with Database(url=owner.url, tables=tables) as database:
        assert await database.warnings(thorough=False) == []


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_rule_for_a_table_that_the_login_may_not_read_is_no_mistake(owner: Owner) -> None:
    await owner.run(
        *PEOPLE[:-1],
        "create table orders_old (id integer primary key, ssn text)",
        "create table orders_parts (id integer) partition by list (id)",
        "create table orders_1 partition of orders_parts for values in (1)",
    )
    name, database = unique_name(), owner.url.rpartition("/")[2]
    from tests.providers.database.postgres_databases import ADMIN

    async with owner_of(with_parts(ADMIN, database=database)) as admin:
        await admin.run(
            f"create role {name} login password 'hunter2secret'",
            f"grant usage on schema public to {name}",
            f"grant select on orders, orders_parts to {name}",
        )
        try:
            url = with_parts(owner.url, login=f"{name}:hunter2secret")
            right: dict[str, Any] = {
                "orders_old": False,
                "customers": hiding("ssn"),
                "orders_1": False,
            }
            async with Database(url=url, tables=right) as reader:
                assert await reader.warnings(thorough=False) == []
            async with Database(url=url, tables={"audit.*": False}) as reader:
                told = await reader.warnings(thorough=False)
                assert told == [("tables.audit.*", "no table matches this pattern")]
            with pytest.raises(RuleUnmatched, match="no table 'order'; did you mean 'orders'"):
                async with Database(url=url, tables={"order": False}):
                    pass
        finally:
            await admin.run(f"drop owned by {name}; drop role {name}")


async def test_a_misspelt_pattern_of_a_part_of_a_name_stops_what_it_may_mean(owner: Owner) -> None:
    await owner.run(
        "create table employees_salary_history (id integer primary key, ssn varchar(9))",
        "create table logins (id integer primary key)",
    )
    for pattern, meant in (("employe_*", "employees"), ("*histroy", "history")):
        for entry in (hiding("ssn"), TableOptions(expose=False)):
            with pytest.raises(RuleUnmatched, match=f"did you mean '{meant}'"):
                async with Database(url=owner.url, tables={pattern: entry}):
                    pass
    tables = {pattern: hiding("x") for pattern in ("employees_*", "*_history", "tmp_*", "audit*")}
    async with served(owner, tables={**tables, "emp*": hiding("ssn", optional=True)}) as it:
        assert await it.entries("logins")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_rule_for_shadow_tables_is_no_mistake(owner: Owner) -> None:
    await owner.run("create virtual table docs_fts using fts5(body)")
    async with served(owner, tables={"docs_fts_*": False}) as it:
        assert await it.entries("docs_fts")
        assert await it.catalog.mounts[0].provider.warnings(thorough=False) == []


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
async def test_a_table_goes_when_its_hidden_column_is_renamed_and_comes_back(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.run(*PEOPLE)
    tables = {"customers": hiding("ssn")}
    async with served(owner, tables=tables, queries=QUERIES, timing=FRESH) as it:
        assert await it.json("customers/1") == {"id": 1, "name": "Ann"}
        await it.catalog.wait_for_mistakes(20)
        with caplog.at_level(logging.WARNING):
            await owner.run("drop view cards", "alter table customers rename column ssn to social")
            await assert_gone(it)
            await owner.run("create view seen as select social from customers")
            assert "seen" not in str(await it.children())
            await assert_gone(it)
        told = [text for text in caplog.messages if text.startswith("tables.")]
        assert told == [
            "tables.customers.columns.hide: no column 'ssn' in table 'customers'. "
            "The table is not served until this is right"
        ]
        await owner.run("drop view seen", "alter table customers rename column social to ssn")
        assert await it.json("customers/1") == {"id": 1, "name": "Ann"}


async def test_a_table_that_is_renamed_takes_everything_along_until_it_is_right(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.run(*PEOPLE[:-1])
    async with served(owner, tables={"customers": hiding("ssn")}, timing=FRESH) as it:
        assert await it.json("customers/1") == {"id": 1, "name": "Ann"}
        await owner.run("alter table customers rename to customers2")
        for path in ("customers2/1", "customers/1", "orders/1"):
            with pytest.raises(NotFound):
                await it.read(path)
        assert "no table 'customers'; did you mean 'customers2'?" in caplog.text
        await owner.run("alter table customers2 rename to customers")
        assert await it.json("customers/1") == {"id": 1, "name": "Ann"}


async def test_what_is_renamed_since_the_last_look_at_the_schema_is_not_shown(
    owner: Owner,
) -> None:
    await owner.run(*PEOPLE[:-1])
    slow = Timing(schema_cache_s=60.0)
    async with served(owner, tables={"customers": hiding("ssn")}, timing=slow) as it:
        assert await it.json("orders/1")
        await owner.run("alter table customers rename column ssn to social")
        with pytest.raises(NotFound):
            await it.read("customers/1")
        await owner.run("alter table customers rename to customers2")
        with pytest.raises(NotFound):
            await it.read("customers2/1")


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("\"state\" <> 'draft'", False),
        ("id in (select id from customers where \"state\" <> 'draft')", False),
        ("\"Name\" <> 'draft'", True),
        ("id in (select id from customers where \"Name\" <> 'draft')", True),
        ('"main"."customers"."rowid" = cast(1 as "integer")', True),
        ('"lower"(name) = \'ANN\' collate "nocase"', True),
    ],
)
async def test_sqlite_takes_no_quoted_name_of_a_missing_column_for_text(
    where: str, holds: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run(*PEOPLE)
        entry = TableOptions(where=where)
        async with served(owner, tables={"customers": entry}, timing=FRESH) as it:
            told = await it.catalog.mounts[0].provider.warnings(thorough=False)
            if holds:
                assert await it.json("customers/1")
                assert told == []
            else:
                assert "no such column: state" in str(told)
                with pytest.raises(NotFound):
                    await it.read("customers/1")
    assert "database error" not in caplog.text  # of no view, and with another remedy


@pytest.mark.parametrize("url", ["sqlite", "duckdb"], indirect=True)
async def test_sql_of_callers_finds_no_table_that_is_not_protected(owner: Owner) -> None:
    await owner.run(*PEOPLE[:-1])
    tables = {"customers": hiding("ssn"), "orders": TableOptions()}
    async with served(owner, tables=tables, sql=True, timing=FRESH) as it:
        provider = it.catalog.mounts[0].provider

        async def rows(sql: str) -> str:
            called = {"sql": sql}
            request, limit = SilentToolRequest(), TimeLimit(20)
            return str(await provider.call_tool("query_database", called, request, limit))

        assert "Ann" in await rows("select * from customers")
        await owner.run("alter table customers rename column ssn to social")
        for sql in ("select * from customers", "select social from customers"):
            with pytest.raises(InvalidParameter, match="no such table"):
                await rows(sql)
        assert "5" in await rows("select total from orders")


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_a_hidden_column_that_the_login_may_not_read_is_no_mistake(owner: Owner) -> None:
    """The login that `resource-server sql --role` advises has no right to hidden columns."""
    is_postgres = owner.engine == "postgresql"
    if is_postgres:
        from tests.providers.database.postgres_databases import ADMIN
    else:
        from tests.providers.database.mysql_databases import ADMIN
    await owner.run(*PEOPLE[:-1], "create table notes (id integer primary key, name varchar(9))")
    name, database = unique_name(), owner.url.rpartition("/")[2]
    user = (
        f"create role {name} login password" if is_postgres else f"create user {name} identified by"
    )
    dropped = f"drop owned by {name}; drop role {name}" if is_postgres else f"drop user {name}"
    async with owner_of(with_parts(ADMIN, database=database)) as admin:
        await admin.run(
            f"{user} 'hunter2secret'",
            *([f"grant usage on schema public to {name}"] if is_postgres else ()),
            f"grant select (id, name) on customers to {name}",
            f"grant select (id, name) on notes to {name}",
            f"grant select on orders to {name}",
        )
        try:
            url = with_parts(owner.url, login=f"{name}:hunter2secret")
            tables = {"customers": hiding("ssn"), "orders": hiding("totl"), "notes": hiding("nam")}
            async with Database(url=url, tables=tables) as reader:
                found = dict(await reader.warnings(thorough=False))
                assert set(found) == {"tables.orders.columns.hide", "tables.notes.columns.hide"}
                await settle(reader.metadata((*prefix(owner), "customers", "1")))
                for table in ("orders", "notes"):
                    with pytest.raises(NotFound):
                        await reader.metadata((*prefix(owner), table))
        finally:
            await admin.run(dropped)


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
async def test_data_files_follow_the_same_gate(tmp_path: Path) -> None:
    file = tmp_path / "customers.csv"
    file.write_text("id,name,ssn\n1,Ann,4711\n")
    tables = {"customers": hiding("ssn")}
    url = f"files:{tmp_path}/*.csv"
    provider = timed_database(FRESH, url=url, tables=tables)
    async with Catalog([mounted(provider)]) as catalog:
        assert await catalog.start() == {}
        it = Served(catalog, "")
        assert await it.json("customers/1") == {"name": "Ann", "id": 1}
        file.write_text("id,name,social\n1,Ann,4711\n")
        with pytest.raises(NotFound):
            await it.read("customers/1")
    with pytest.raises(RuleUnmatched):
        async with Database(url=url, tables={"customer": hiding("ssn")}):
            pass


async def test_callers_with_fewer_scopes_meet_the_same_gate(owner: Owner) -> None:
    await owner.run(*PEOPLE[:-1])
    tables = {
        "customers": hiding("snn"),
        "orders": TableOptions(access=Access(scopes=("sales",))),
        "order": TableOptions(access=Access(scopes=("sales",)), optional=True),
    }
    async with Database(url=owner.url, tables=tables) as whole:
        async with whole.narrowed(frozenset()) as database:
            assert await database.list((), after=None, limit=9) == []
            assert "tables.order" not in dict(await database.warnings(thorough=False))
        async with whole.narrowed(frozenset({"sales"})) as database:
            assert await database.metadata((*prefix(owner), "orders"))
            with pytest.raises(NotFound):
                await database.metadata((*prefix(owner), "customers"))
