"""Settings of callers on PostgreSQL: the owner's row-level security decides, for each read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from resource_server.access import Caller, acting
from resource_server.errors import MountUnavailable, ResourceNotFound
from resource_server.providers.database.options import Query, TableOptions
from resource_server.providers.database.provider import Database
from tests.cases import for_each
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import FRESH, Served, served
from tests.providers.database.servers import unique_name, with_parts

pytestmark = pytest.mark.anyio

SETTINGS = {"request.jwt.claims": "claims", "app.user": "claims.sub"}
PEOPLE = ("alice", "bob", "o'brien", 'say "hi"', "back\\slash", "\u2028", "%s $1 :x")


class _Reader(Owner):
    """The owner of a database, with the URL of a login that may only read."""

    engine = "postgresql"
    prefix = "public/"

    def __init__(self, owner: Owner, url: str) -> None:
        super().__init__(url)
        self.owner = owner

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def clear(self) -> None: ...

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return await self.owner.rows(sql, *values)


def _of_admin(url: str) -> str:
    from tests.providers.database.postgres_databases import ADMIN

    return with_parts(ADMIN, database=urlsplit(url).path[1:])


@pytest.fixture
async def reader(postgres_url: str) -> AsyncGenerator[_Reader]:
    role = unique_name()
    async with owner_of(_of_admin(postgres_url)) as owner:
        await owner.clear()
        await owner.run(
            "create table docs (id integer primary key, owner text, note text)",
            "create table notes (id integer primary key, person text)",
            "create table plain (id integer primary key)",
            "insert into plain values (1)",
            f"create role {role} login password 'hunter2secret'",
            f"grant usage on schema public to {role}",
            f"grant select on all tables in schema public to {role}",
            "alter table docs enable row level security",
            "alter table notes enable row level security",
            "create policy mine on docs using"
            " (owner = current_setting('request.jwt.claims', true)::json ->> 'sub')",
            "create policy own on notes using (person = current_setting('app.user', true))",
        )
        for place, person in enumerate(PEOPLE):
            for n in range(3):
                await owner.insert("docs", (10 * place + n, person, f"note {n}"))
            await owner.insert("notes", (place, person))
        try:
            yield _Reader(owner, with_parts(postgres_url, login=f"{role}:hunter2secret"))
        finally:
            await owner.clear()
            await owner.run(f"drop owned by {role}", f"drop role {role}")


@asynccontextmanager
async def serving(reader: Owner, **options: Any) -> AsyncGenerator[Served]:
    options = {"settings": SETTINGS, "timing": FRESH, **options}
    async with served(reader, **options) as it:
        yield it


def caller(**claims: Any) -> Caller:
    return Caller("somebody", frozenset(), claims=claims)


async def ids(it: Served, table: str, **claims: Any) -> list[int]:
    with acting(caller(**claims)):
        return [row["id"] for row in (await it.json(f"{table}/~rows?columns=id"))["rows"]]


@pytest.mark.guarantee("rows-are-the-callers")
async def test_row_level_security_decides_by_the_claims_of_each_caller(reader: _Reader) -> None:
    queries = {"all": Query(sql="select id from docs order by id")}
    async with serving(reader, queries=queries) as it:
        for place, person in enumerate(PEOPLE):
            own = [10 * place + n for n in range(3)]
            assert await ids(it, "docs", sub=person) == own
            assert await ids(it, "notes", sub=person) == [place]
            with acting(caller(sub=person)):
                assert [row["id"] for row in await it.query("all")] == own
                assert (await it.json("docs/~rows?count"))["rows"] == [{"count": 3}]
                details = str((await it.entry("docs")).resource.details)
                assert "'rowCount': 3, 'rowCountKind': 'exact'" in details
        assert await ids(it, "docs", sub="nobody") == []


@pytest.mark.guarantee("rows-are-the-callers")
async def test_without_a_claim_that_a_setting_has_there_are_no_rows(reader: _Reader) -> None:
    # The policies of this owner let everybody see everything who is nobody.
    for table, column in (("docs", "owner"), ("notes", "person")):
        await reader.run(
            f"create policy open on {table} using ({column} <> '' and"
            " coalesce(current_setting('app.user', true), '') = '')"
        )
    async with serving(reader) as it:
        for claims in ({}, {"sub": None}, {"sub": {"a": 1}}, {"sub": "a\0"}, {"sub": "x" * 5000}):
            for table in ("docs", "notes", "plain"):
                assert await ids(it, table, **claims) == [], claims
        assert await ids(it, "notes", sub="bob") == [1]
        for table in ("docs", "notes", "plain"):  # a caller without tokens
            with pytest.raises(ResourceNotFound):
                await it.read(f"{table}/~rows")
        explained = await it.catalog.explain(f"{it.base}docs")
        assert "`server.claims` has no claims, sub" in explained


@pytest.mark.guarantee("rows-are-the-callers")
async def test_no_connection_keeps_the_settings_of_a_caller(reader: _Reader) -> None:
    async with serving(reader) as it:

        async def reads(place: int, person: str) -> None:
            for _ in range(10):
                assert await ids(it, "notes", sub=person) == [place]
                with acting(caller(sub=person)):
                    row = await it.json(f"docs/{10 * place}")
                    assert row["owner"] == person
                    with pytest.raises(ResourceNotFound):
                        await it.read(f"docs/{10 * ((place + 1) % len(PEOPLE))}")

        await asyncio.gather(*(reads(*each) for each in enumerate(PEOPLE)))
        # A statement that sets nothing, on each connection of the pool.
        whole: Any = it.catalog.mounts[0].provider
        engine = whole._provider.engine
        from resource_server.providers.database.engines.contract import Statement

        sql = "select coalesce(current_setting('app.user', true), ''), pg_sleep(0.05)"
        every = (engine.run_own(Statement(sql, ()), limit=1, within=30) for _ in range(8))
        assert {rows.rows[0][0] for rows in await asyncio.gather(*every)} == {""}


async def test_settings_hold_when_a_statement_is_prepared_again(reader: _Reader) -> None:
    async with serving(reader) as it:
        assert await ids(it, "docs", sub="bob") == [10, 11, 12]
        with acting(caller(sub="bob")):
            for type in ("varchar(99)", "text"):
                await it.text("docs/~rows")
                await reader.run(f"alter table docs alter column note type {type}")
                text = await it.text("docs/~rows")
                assert "bob" in text
                assert "alice" not in text


async def test_notifications_are_of_the_rows_that_the_database_shows(reader: _Reader) -> None:
    from resource_server.subscriptions.broker import Broker
    from tests.listeners import Recorder

    async with serving(reader) as it:
        broker = Broker(it.catalog, FRESH)
        told = {name: Recorder() for name in ("alice", "bob")}
        for name, recorder in told.items():
            with acting(caller(sub=name)):
                await broker.subscribe(f"{it.base}docs/~rows", recorder)
        await reader.run("update docs set note = 'new' where owner = 'bob'")
        await told["bob"].of("public/docs/~rows")
        await reader.run("update docs set note = 'new' where owner = 'alice'")
        await told["alice"].of("public/docs/~rows")
        await broker.close()


async def test_a_login_that_bypasses_row_level_security_is_refused(postgres_url: str) -> None:
    database = Database(_of_admin(postgres_url), settings={"app.user": "claims.sub"})
    with pytest.raises(MountUnavailable, match="bypasses row-level security"):
        async with database:
            pass


async def test_tables_without_row_level_security_are_named(reader: _Reader) -> None:
    async with serving(reader) as it:
        _, warnings = await it.catalog.mounts[0].survey()
        (warning,) = [each for each in warnings if "row-level security" in each]
        assert warning.startswith("'plain' shows all rows to every caller")


@for_each(
    ("settings", "message"),
    [
        ({"role": "claims.role"}, "settings.role: expected a setting of your own"),
        ({"a.b; drop": "claims"}, "expected a setting of your own"),
        ({"a.b": "sub"}, "settings.a.b: expected claims or claims.NAME"),
        ({"a.b": "claims."}, "settings.a.b: expected claims or claims.NAME"),
        ({"a.b": "claims.a..b"}, "expected the name of a claim"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=r"settings|claim") as refused:
        Database("postgresql://a@localhost/b", settings=settings)
    assert message in str(refused.value)


def test_other_engines_have_no_settings() -> None:
    with pytest.raises(ValueError, match="only PostgreSQL"):
        Database("sqlite:///x.db", settings={"a.b": "claims"})
    with pytest.raises(ValueError, match="same rows to every caller"):
        Database("postgresql://a@localhost/b", settings={"a.b": "claims"}, sql=True)


async def test_a_condition_and_settings_hold_together(reader: _Reader) -> None:
    tables = {"docs": TableOptions(where="note = :claims.note")}
    async with serving(reader, tables=tables) as it:
        assert await ids(it, "docs", sub="bob", note="note 1") == [11]
        assert await ids(it, "docs", sub="bob") == []
