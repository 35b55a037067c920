"""SQL of callers on database servers: logins that read the views of a policy, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_server.access import Access, Caller, acting
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
)
from resource_server.protocol.server import Server
from resource_server.providers.database.engines.contract import Rows, Statement
from resource_server.providers.database.engines.factory import make_sql_login
from resource_server.providers.database.engines.sql_login import SqlLogin
from resource_server.providers.database.options import (
    CallerSqlOptions,
    ColumnOptions,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.callers.caller_sql import CallerSql
from resource_server.runtime.option_types import Duration
from tests.protocol.tools.tooled import called, refusal
from tests.protocol.wire import Wire, server_of
from tests.providers.database.asking import answer, caller_sql
from tests.providers.database.engines.caller_statements import legitimate
from tests.providers.database.engines.server_attacks import (
    SEARCHES,
    costly,
    refused,
    statements,
)
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.policy_logins import drop_statements, login_url, policy_statements
from tests.providers.database.servers import PORTS, proxy_to, with_parts
from tests.waiting import PATIENCE_S, until

Raw: TypeAlias = Callable[[str], Awaitable[list[Any]]]

pytestmark = pytest.mark.anyio

TABLES: dict[str, TableOptions | Literal[False]] = {
    "orders": TableOptions(
        columns=ColumnOptions(
            hide=("card", "memo"), mask={"mail": "redact", "phone": "last4", "pin": "redact"}
        ),
        # Dearer than a caller's conditions, which a planner would evaluate first.
        where="replace(replace(replace(replace(status, 'x', 'y'), 'x', 'y'), 'x', 'y'), 'x', 'y')"
        " <> 'draft' and id not in (select id from blocked)",
    ),
    "secrets": False,
    "blocked": False,
    "leak": False,
    "orders_of_2025": TableOptions(expose=False, optional=True),  # in one of the worlds
}
_COMMON = (
    "create table products (id int primary key, name varchar(20))",
    "insert into products values (1, 'tea'), (2, 'pot')",
)
WORLDS = (
    (
        "create table orders (id int primary key, status varchar(20), price int, doc varchar(50),"
        " mail varchar(50), phone varchar(20), pin varchar(9), card varchar(20))",
        "insert into orders values"
        " (1, 'paid', 10, '{\"a\": 1}', 'a@x.org', '5550001234', '1', 'S1'),"
        " (2, 'draft', 7, 'no json', 'b@x.org', '5550005678', '2', 'S2'),"
        " (3, 'open', 30, '[1]', 'c@x.org', '5550009999', '3', 'S3'),"
        " (4, 'paid', 7, '{broken', 'd@x.org', '1', '4', 'S4')",
        "alter table orders add memo varchar(20)",
        "create table blocked (id int)",
        "insert into blocked values (4)",
        "create table secrets (a varchar(20), b varchar(20))",
        "insert into secrets values ('PLANTED', 'S9')",
        "create view leak as select * from secrets",
        "create table orders_of_2025 (id int)",
    ),
    (
        "create table orders (id int primary key, memo varchar(20), status varchar(20), price int,"
        " doc varchar(50), mail varchar(50), phone varchar(20), pin varchar(9))",
        "insert into orders values"
        " (1, 'T1', 'paid', 10, '{\"a\": 1}', 'q@y.org', '7771231234', 'z'),"
        " (3, null, 'open', 30, '[1]', 'q@y.org', '8881239999', 'x'),"
        " (5, 'T5', 'draft', 70, '{}', 'd@x.org', '1', '4')",
        "alter table orders add card varchar(20)",
        "create table blocked (id int)",
    ),
)
SECRETS_OF = {
    "postgresql": "create function secrets_of(x int) returns text language sql security definer as"
    " $$ select max(a) from secrets $$",
    "mariadb": "create function secrets_of(x int) returns varchar(20) reads sql data return"
    " (select max(a) from secrets)",
}


LATEST = "2025-11-25"


@dataclasses.dataclass
class World:
    """A database, and a second login for its policy."""

    engine: str
    url: str
    sql_url: str
    mount: str
    admin: Any
    """Runs statements as the administrator."""
    database: str = ""

    def provider(self, **options: Any) -> Database:
        given: dict[str, Any] = {"tables": TABLES, **options}
        return Database(self.url, **given)

    async def make_policy(self, provider: Database | None = None) -> None:
        """Run what `sql --policy` prints."""
        provider = provider or self.provider()
        for sql in await policy_statements(provider, self.engine, self.mount):
            await self.admin(sql)

    @asynccontextmanager
    async def login(self, provider: Database | None = None) -> AsyncGenerator[SqlLogin]:
        """Open the login; fails as the server's does."""
        login = make_sql_login(self.sql_url, (provider or self.provider()).policy_digest)
        try:
            await login.open()
            yield login
        finally:
            await login.close()

    @asynccontextmanager
    async def asking(self, limits: ReadLimits | None = None) -> AsyncGenerator[CallerSql]:
        """Open what answers callers."""
        provider = self.provider()
        async with provider, self.login() as login:
            yield caller_sql(provider.engine, TABLES, login=login, limits=limits)

    @asynccontextmanager
    async def raw(self) -> AsyncGenerator[Raw]:
        """Open what runs SQL over the views of the policy as it is written, on the same engine."""
        if self.engine == "postgresql":
            async with self.login() as login:

                async def run(sql: str) -> list[Any]:
                    found = await login.run_authored(Statement(sql), limit=1000, within=PATIENCE_S)
                    return list(map(tuple, found.rows))

                yield run
        else:
            setting = "set sql_mode = '', time_zone = '+00:00'"

            async def run_in_views(sql: str) -> list[Any]:
                return await self.admin(setting, sql, database=f"{self.database}_sql")

            yield run_in_views


@contextmanager
def _world(engine: str) -> Generator[World]:
    with ExitStack() as stack:
        if engine == "postgresql":
            from tests.providers.database.postgres_databases import empty_postgres_database

            made = stack.enter_context(empty_postgres_database())
            stack.callback(lambda: asyncio.run(_drop_role(made)))
            admin: Any = made.execute
        else:
            from tests.providers.database.mysql_databases import empty_mysql_database

            made = stack.enter_context(empty_mysql_database())
            admin = made.run
            stack.callback(lambda: asyncio.run(made.run(*drop_statements("mariadb", made.name))))
        url = login_url(made.url, engine, made.name)
        yield World(engine, made.url, url, made.name, admin, made.name)


async def _drop_role(made: Any) -> None:
    await made.execute(f'drop owned by "{made.name}_sql"')
    await made.execute(f'drop role "{made.name}_sql"')


@pytest.fixture(params=["postgresql", "mariadb"], scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def _filled(world: World, *sql: str) -> AsyncGenerator[Owner]:
    async with owner_of(world.url) as owner:
        await owner.clear()
        await owner.run(*sql, *_COMMON)
        yield owner


@pytest.fixture(scope="module")
def one(engine: str) -> Iterator[World]:
    with _world(engine) as world:
        yield world


@pytest.fixture(scope="module")
def two(engine: str) -> Iterator[World]:
    with _world(engine) as world:
        yield world


@pytest.mark.guarantee("sql-of-callers-is-confined")
@pytest.mark.guarantee("hidden-changes-nothing")
async def test_no_statement_tells_two_worlds_apart_that_differ_in_what_is_hidden(
    one: World, two: World
) -> None:
    must_fail = set(refused(one.engine, "THEIRS"))
    tried = list(dict.fromkeys((*must_fail, *statements(one.engine, "THEIRS"))))
    assert len(tried) >= 300
    async with (
        _filled(one, *WORLDS[0], SECRETS_OF[one.engine]),
        _filled(two, *WORLDS[1]),
    ):
        if one.engine == "postgresql":
            await one.admin("revoke all on function secrets_of from public")
        await one.make_policy()
        await two.make_policy()
        async with one.asking() as first, two.asking() as second:
            for sql in tried:
                found = await answer(first, sql.replace("THEIRS", one.database))
                other = await answer(second, sql.replace("THEIRS", two.database))
                told = repr(found).replace(one.database, "THEIRS")
                assert told == repr(other).replace(two.database, "THEIRS"), sql
                assert not any(planted in told for planted in ("PLANTED", "'S1'", "'S2'")), sql
                assert "_sql" not in told.replace("THEIRS_sql.orders", ""), sql
                if sql in must_fail:
                    assert told.startswith("('InvalidParameter'"), sql


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_statement_gives_what_the_engine_gives_over_the_views(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers, one.raw() as raw:
            for sql in legitimate(one.engine):
                found = await answer(callers, sql)
                assert found[1] == await raw(sql), sql


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_column_without_a_name_is_not_named_after_the_views(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers:
            for sql, name in (
                ("select (select max(status) from orders)", "max"),
                ("select exists(select 1 from orders where id = 1)", "exists"),
                ("with w as (select * from orders) select (select max(id) from w)", "max"),
                ("select * from (select coalesce((select max(id) from orders), 1)) x", "coalesce"),
            ):
                columns, _, _ = await answer(callers, sql)
                assert columns == (name if one.engine == "postgresql" else "column1",)


_NUMBERS: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(["id", "price", "1", "0", "-2", "7", "null", "length(status)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        ),
        inner.map("abs({})".format),
        st.tuples(inner, inner).map("coalesce({0[0]}, {0[1]})".format),
        st.tuples(inner, inner).map("nullif({0[0]}, {0[1]})".format),
        st.tuples(inner, inner).map("case when {0[0]} > {0[1]} then {0[0]} end".format),
    ),
    max_leaves=4,
)
_TEXTS: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(["status", "mail", "phone", "pin", "'a'", "'%'", "'it''s'", "'\\\\'", "null"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("concat({0[0]}, {0[1]})".format),
        inner.map("upper({})".format),
        st.tuples(inner, st.integers(1, 3)).map("substring({0[0]}, {0[1]})".format),
        inner.map("replace({}, 'a', 'it''s')".format),
    ),
    max_leaves=3,
)
_CONDITIONS: st.SearchStrategy[str] = st.recursive(
    st.one_of(
        st.tuples(_NUMBERS, st.sampled_from(["=", "<>", "<", ">="]), _NUMBERS).map(" ".join),
        st.tuples(_TEXTS, st.sampled_from(["=", "like", "not like", ">"]), _TEXTS).map(" ".join),
        _NUMBERS.map("{} is null".format),
        st.tuples(_NUMBERS, _NUMBERS).map("{0[0]} in (1, {0[1]})".format),
        st.tuples(_NUMBERS, _NUMBERS).map("{0[0]} between 0 and {0[1]}".format),
        _NUMBERS.map("exists (select 1 from products p where p.id = {})".format),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        ),
        inner.map("not ({})".format),
    ),
    max_leaves=3,
)


@st.composite
def _selects(draw: st.DrawFn) -> str:
    condition, number, text = draw(_CONDITIONS), draw(_NUMBERS), draw(_TEXTS)
    source = draw(st.sampled_from(["orders", "(select * from orders) orders", "w"]))
    before = "with w as (select * from orders) " if source == "w" else ""
    if draw(st.booleans()):
        aggregate = draw(
            st.sampled_from(["count(*)", "sum(price)", "max(id)", "count(distinct pin)"])
        )
        columns = f"{text} as t, {aggregate} as a"
        rest = f"group by 1 having count(*) > {draw(st.integers(0, 1))} order by 1, 2"
    else:
        columns = f"{number} as n, {text} as t, rank() over (order by id) as r"
        rest = f"order by 3, 1, 2 limit {draw(st.integers(0, 5))}"
    return f"{before}select {columns} from {source} where {condition} {rest}"


@pytest.mark.deep
async def test_generated_statements_give_what_the_engine_gives_over_the_views(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers, one.raw() as raw:
            loop = asyncio.get_running_loop()

            async def compare(sql: str) -> None:
                try:
                    expected = await raw(sql)
                except Exception:  # of two drivers: both must fail
                    expected = None
                found = await answer(callers, sql)
                assert (found[1] if found[0] != "InvalidParameter" else None) == expected, sql

            @settings(max_examples=60, deadline=None)
            @given(_selects())
            def search(sql: str) -> None:
                asyncio.run_coroutine_threadsafe(compare(sql), loop).result(30)

            await asyncio.to_thread(search)


async def test_values_are_bound_by_the_type_that_they_are_compared_with(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers:
            sql = "select id from orders where status = :status and price > :least"
            for least in (1, 1.0, "1"):
                given = {"status": "open", "least": least}
                assert (await callers.run(sql, given, 5)).rows == [(3,)]
            assert (await callers.run(sql, {"status": "' or 1=1 --", "least": 1}, 5)).rows == []
            sql = "select id from orders where status = :s or :d > now() order by id"
            assert (await callers.run(sql, {"s": "paid", "d": "2001-01-01"}, 5)).rows == [(1,)]


async def test_a_statement_that_comes_again_is_neither_explained_nor_confused_with_another(
    one: World,
) -> None:
    place = urlsplit(one.sql_url)
    shows = "select concat(:v, '')" if one.engine == "mariadb" else "select :v::text"
    values = (1, "1"), (True, "1" if one.engine == "mariadb" else "true"), ("1", "1")
    async with (
        proxy_to(place.hostname or "", place.port or PORTS[one.engine]) as proxy,
        _filled(one, *WORLDS[0]) as owner,
    ):
        behind = dataclasses.replace(one, sql_url=with_parts(one.sql_url, port=proxy.port))
        await one.make_policy()
        async with behind.asking() as callers:
            for _ in range(2):
                for value, text in values:
                    assert (await callers.run(shows, {"v": value}, 5)).rows == [(text,)]
            explained: list[bool] = []
            for number in range(3, 6):
                proxy.sent.clear()
                sql = "select count(*) from products where id > :least"
                found = await callers.run(sql, {"least": 0}, 5)
                assert found.rows == [(number - 1,)]
                explained.append(any(b"EXPLAIN" in message for message in proxy.sent))
                await owner.insert("products", (number, "cup"))
            assert explained == [one.engine == "postgresql", False, False]


async def test_a_costly_statement_ends_and_its_result_is_not_kept_whole(one: World) -> None:
    limits = ReadLimits(query_timeout=Duration(1))
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking(limits) as callers:
            for sql in costly(one.engine):
                try:
                    found = await callers.run(sql, {}, 1000)
                except (DeadlineExceeded, InvalidParameter, ResourceBusy):
                    continue
                assert _size(found) < 70_000_000

            async def answers() -> bool:
                # A statement that was stopped may keep a busy server for a while.
                with suppress(DeadlineExceeded, ResourceBusy):
                    return (await callers.run("select 1", {}, 1)).rows == [(1,)]
                return False

            await until(answers)


async def test_a_search_that_the_server_could_not_stop_is_short(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking(ReadLimits(query_timeout=Duration(PATIENCE_S))) as callers:
            for sql in SEARCHES[one.engine]:
                assert len((await callers.run(sql, {}, 1)).rows) == 1, sql
            with pytest.raises(InvalidParameter, match="at most 1000 characters"):
                await callers.run("select 'a' like :long", {"long": "a" * 1001}, 1)


def _size(found: Rows) -> int:
    return sum(len(str(value)) for row in found.rows for value in row)


_DOUBLED = {
    "postgresql": "with recursive n(i, s) as (select 1, 'aaaaaaaaaa'"
    " union all select i + 1, s || s from n where i < {0}) select {1}s from n",
    "mariadb": "with recursive n(i, s) as (select 1, cast('aaaaaaaaaa' as char(16000000))"
    " union all select i + 1, concat(s, s) from n where i < {0}) select {1}s from n",
}


async def test_a_row_of_more_than_a_megabyte_is_refused_and_a_long_result_ends(
    one: World,
) -> None:
    doubled = _DOUBLED[one.engine]
    rows = " cross join (with recursive m(i) as (select 1 union all select i + 1 from m"
    rows += " where i < 900) select i from m) m where n.i = 16"
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers:
            for sql in (doubled.format(18, ""), doubled.format(17, "s, ")):
                with pytest.raises(InvalidParameter, match="more than 1 MB"):
                    await callers.run(sql, {}, 1000)
            assert len((await callers.run(doubled.format(17, ""), {}, 1000)).rows) == 17
            found = await callers.run(doubled.format(16, "") + rows, {}, 1000)
            assert found.more
            assert 60_000_000 < _size(found) < 80_000_000
            assert (await callers.run("select 1", {}, 1)).rows == [(1,)]


async def test_a_long_statement_is_parsed_beside_the_event_loop(one: World) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking() as callers:
            await answer(callers, "select 1")
            for sql, is_long in (("select 1 where", False), (f"select {'1 + ' * 1_900}", True)):
                ticks = -2  # before and after
                ticking = asyncio.create_task(tick())
                assert "cannot be parsed" in (await answer(callers, sql))[1]
                ticking.cancel()
                assert (ticks > 3) == is_long


async def test_postgresql_refuses_what_cannot_end_in_time_but_tells_nothing_of_hidden_rows(
    one: World,
) -> None:
    if one.engine != "postgresql":
        pytest.skip("EXPLAIN needs rights on the tables of the views")
    sql = "select count(*) from {} t, generate_series(1, 1000000) a, generate_series(1, 1000000) b"
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        async with one.asking(ReadLimits(query_timeout=Duration(0.5))) as callers:
            for table in ("products", "(select 1) as x cross join products"):
                with pytest.raises(InvalidParameter, match="by the planner's estimate"):
                    await callers.run(sql.format(table), {}, 5)
            with pytest.raises(DeadlineExceeded):
                await callers.run(sql.format("orders"), {}, 5)


TOO_MANY = {
    "postgresql": (
        ('grant select on orders to "{login}"', "SELECT on public.orders"),
        ('grant select (a) on secrets to "{login}"', "SELECT on public.secrets"),
        ('grant insert on products to "{login}"', "INSERT on public.products"),
        ("grant select on products to public", "SELECT on public.products"),
        ('grant select on "{login}"."~key" to "{login}"', "SELECT on {login}.~key"),
        ('grant pg_read_all_data to "{login}"', "member of pg_read_all_data"),
        ("grant execute on function secrets_of to public", "EXECUTE on public.secrets_of"),
        ('grant create on schema public to "{login}"', "CREATE on schema public"),
        ('grant execute on function pg_read_file(text) to "{login}"', "EXECUTE on pg_read_file"),
        ('grant usage on sequence counter to "{login}"', "SELECT on public.counter"),
        ('alter role "{login}" createrole', "CREATEROLE"),
        ('alter role "{login}" nocreaterole bypassrls', "BYPASSRLS"),
        ('alter role "{login}" nobypassrls', None),
        ('alter role "{login}" set search_path = "{login}", public', "a search path of other"),
    ),
    "mariadb": (
        ("grant select on {db}.orders to `{login}`", "SELECT on {db}.orders"),
        ("grant select (id) on {db}.products to `{login}`", "SELECT (`id`) on {db}.products"),
        ("grant insert on {db}_sql.orders to `{login}`", "SELECT, INSERT on {db}_sql.orders"),
        ("grant select on {db}_sql.* to `{login}`", "SELECT on {db}_sql.*"),
        ("grant file on *.* to `{login}`", "FILE on *.*"),
        ("grant execute on function {db}.secrets_of to `{login}`", "EXECUTE on {db}.secrets_of"),
        ("grant select on {db}_sql.`~key` to `{login}`", "a right on the table ~key"),
        ("grant select on {db}.* to public", "SELECT on {db}.*"),
        ("grant select on {db}_sql.orders to `{login}` with grant option", "on {db}_sql.orders"),
    ),
}
"""Statements, each with the right that it gives."""


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_right_too_many_is_named_and_no_statement_runs(one: World) -> None:
    login = f"{one.mount}_sql"
    async with _filled(one, *WORLDS[0], SECRETS_OF[one.engine]):
        if one.engine == "postgresql":
            await one.admin("create sequence counter")
            await one.admin("grant usage on schema public to public")
            await one.admin("revoke all on function secrets_of from public")
        await one.make_policy()
        async with one.login() as proved:
            for sql, named in TOO_MANY[one.engine]:
                given = sql.format(login=login, db=one.database)
                await one.admin(given)
                told = await _refused_login(one)
                assert (named or "").format(login=login, db=one.database) in told, sql
                if given.startswith("grant"):
                    back = given.removesuffix(" with grant option")
                    await one.admin(back.replace("grant", "revoke", 1).replace(" to ", " from "))
                assert named or not told
            await one.make_policy()
            assert not await _refused_login(one)
            assert (await proved.visible()).tables


async def _refused_login(world: World) -> str:
    """Return why the login is refused, or nothing."""
    try:
        async with world.login():
            return ""
    except MountUnavailable as error:
        return str(error)


async def test_a_statement_says_that_its_login_failed_and_needs_all_scopes(
    one: World,
) -> None:
    tables = {**TABLES, "products": TableOptions(access=Access(scopes=("sales",)))}
    sql = CallerSqlOptions(url=one.sql_url, scopes=("sql",))
    async with _filled(one, *WORLDS[0]):
        await one.make_policy(one.provider(tables=tables))
        for scopes, is_there in (({"sql"}, False), ({"sales"}, False), ({"sql", "sales"}, True)):
            async with _offered(one.provider(tables=tables, sql=sql), scopes) as (server, offered):
                assert offered is is_there
                if offered:
                    given = {"sql": "select nme from orders o join products p on o.id = p.id"}
                    wire = Wire(server, LATEST)
                    told = refusal(await called(wire, "query_database", LATEST, **given))
                    assert "did you mean 'name'?" in told
                    assert "test://one/" in told
        restricted = {**tables, "products": TableOptions(where="id = 1")}
        changed = one.provider(tables=restricted, sql=sql)
        async with _offered(changed, {"sql", "sales"}) as (server, offered):
            assert offered  # hosts remember tools
            wire = Wire(server, LATEST)
            told = refusal(await called(wire, "query_database", LATEST, sql="select 1"))
            assert told == (
                "SQL of callers cannot be run: the login for it is not that of the policy. "
                "The server's operator has to mend it."
            )
            assert dict(await changed.warnings(thorough=True))["sql"].startswith(
                "sql: the policy has changed"
            )


@asynccontextmanager
async def _offered(database: Database, scopes: set[str]) -> AsyncGenerator[tuple[Server, bool]]:
    """Open a server; also tell whether a caller with these scopes is offered the tool."""
    server = await server_of(database)
    async with server:
        with acting(Caller(subject="someone", scopes=frozenset(scopes))):
            tools = (await Wire(server, LATEST).result("tools/list", {}))["tools"]
            yield server, "query_database" in {tool["name"] for tool in tools}


@pytest.mark.guarantee("sql-of-callers-is-confined")
async def test_a_changed_policy_is_noticed(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        await one.make_policy()
        changed = one.provider(tables={**TABLES, "products": TableOptions(where="id = 1")})
        with pytest.raises(MountUnavailable, match="policy has changed"):
            async with one.login(changed):
                pass
        await one.make_policy(changed)
        async with one.login(changed):
            pass


async def test_a_login_without_views_is_refused(one: World) -> None:
    async with _filled(one, *WORLDS[0]):
        login = make_sql_login(one.url, "any")
        with pytest.raises(MountUnavailable):
            await login.open()
        await login.close()


async def test_hash_masks_are_keyed_and_equal_for_equal_values(one: World) -> None:
    tables = {"staff": TableOptions(columns=ColumnOptions(mask={"name": "hash", "age": "hash"}))}
    provider = one.provider(tables=tables)
    sql = "SELECT name, age FROM staff ORDER BY id LIMIT 5"
    async with _filled(
        one,
        "create table staff (id int primary key, name varchar(20), age decimal(5, 2))",
        "insert into staff values (1, 'Ada', 36), (2, 'Ada', 36.00), (3, 'Alan', null)",
    ) as owner:
        codes: list[Any] = []
        for _ in range(2):
            await one.make_policy(provider)
            async with one.login(provider) as login:
                found = await login.rows(Statement(sql), limit=5, within=PATIENCE_S)
                codes.append(list(found.rows))
        hashed = await owner.rows("select md5('Ada')")
    assert codes[0] == codes[1]
    (first, second, third) = codes[0]
    assert first == second
    assert third[1] is None
    assert len({first[0], first[1], third[0]}) == 3
    assert first[0] != hashed[0][0]
