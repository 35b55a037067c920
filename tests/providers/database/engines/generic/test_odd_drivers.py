"""Drivers that block, lose connections and return odd values, behind an unknown dialect."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from resource_server.access import Caller, acting
from resource_server.errors import (
    DeadlineExceeded,
    ResourceBusy,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.generic.engine import GenericEngine
from resource_server.providers.database.engines.generic.worker_threads import MAX_LEFT_BEHIND
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from tests.providers.database import odd_dialect
from tests.providers.database.odd_dialect import ODD, UNREADABLE
from tests.providers.database.owners import Owner, SqliteOwner
from tests.providers.database.served import served
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "odd.db"
    connection = sqlite3.connect(path)
    connection.executescript("""
        create table odd (id integer primary key, x text);
        create table blocks (id integer primary key);
        create table loses (id integer primary key);
        create table fine (id integer primary key, name varchar(9), "per%cent" varchar(9),
          "co:lon" varchar(9), "q'u""o" varchar(9), "do.t s" varchar(9), "%(x)s" varchar(9));
        insert into fine values (1, 'a', 'b', 'c', 'd', 'e', 'f');
        insert into fine values (2, null, 'b', 'c', 'd', 'e', 'f');
        create view seen as select name from fine;
        insert into blocks values (1); insert into loses values (1);
    """)
    connection.executemany("insert into odd (x) values (?)", [(f"odd:{name}",) for name in ODD])
    connection.commit()
    connection.close()
    return path


@pytest.fixture
async def owner(file: Path) -> AsyncIterator[Owner]:
    owner = SqliteOwner(f"odd:///{file}")
    owner.own_url, owner.is_generic = f"sqlite:///{file}", True
    await owner.open()
    yield owner
    await owner.close()


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    odd_dialect.BLOCKED.clear()
    yield
    odd_dialect.BLOCKED.set()


KEYS = {
    name: TableOptions(key=("id",)) for name in ("odd", "fine", "blocks", "loses")
}  # of this dialect it is not known that keys are enforced


async def test_every_value_that_a_driver_may_return_is_shown(owner: Owner) -> None:
    async with served(owner, tables=KEYS) as it:
        for format in ("csv", "markdown", "columns"):
            await it.text(f"odd/~rows?format={format}")
        rows = (await it.json("odd/~rows"))["rows"]
        assert [row["x"] for row in rows] == [shown for _, shown in ODD.values()]
        for place, (_, shown) in enumerate(ODD.values(), 1):
            assert (await it.json(f"odd/{place}"))["x"] == shown
            assert (await it.read(f"odd/{place}/~cell/x")).content is not None


@pytest.mark.parametrize("text", UNREADABLE)
async def test_a_row_that_the_driver_cannot_read_is_there(owner: Owner, text: str) -> None:
    await owner.run(f"update fine set name = '{text}' where id = 2")
    async with served(owner, tables=KEYS) as it:
        for path in ("fine/2", "fine/~rows", "fine/~rows?where.id=2", "fine/~rows?where.id.gt=1"):
            with pytest.raises(ResourceUnreadable, match="a value that it computes"):
                await it.read(path)
        for path in ("fine/3", "fine/2x"):
            with pytest.raises(ResourceNotFound) as missing:
                await it.read(path)
            assert not isinstance(missing.value, ResourceUnreadable)
        assert (await it.json("fine/1"))["name"] == "a"


async def test_keys_of_an_unknown_dialect_are_those_of_the_manifest(owner: Owner) -> None:
    async with served(owner) as it:
        assert (await it.json("fine/~schema?format=json"))["key"] == {"kind": "none", "columns": []}
        assert await it.rows("fine") == []
        async with Database(url=owner.url) as provider:
            said = " ".join(message for _, message in await provider.warnings())
        assert "the dialect odd is not known: keys need `key` in `tables`" in said
        assert "sessions of odd cannot be made read-only" in said
    async with served(owner, tables=KEYS) as it:
        assert await it.rows("fine") == ["fine/1", "fine/2"]
        assert [row["id"] for row in (await it.json("fine/~rows?sort=-name"))["rows"]] == [1, 2]
        pages = await it.pages("fine/~rows?sort=name&limit=1")
        assert [row["id"] for page in pages for row in page] == [2, 1]
        assert (await it.json("seen/~rows"))["rows"] == [{"name": "a"}, {"name": None}]


@pytest.mark.guarantee("rows-are-the-callers")
async def test_rows_by_caller_of_an_unknown_dialect_are_those_of_other_types_than_text(
    owner: Owner,
) -> None:
    await owner.run(
        "create table mine (id integer primary key, n integer, name varchar(9), yes boolean)",
        "insert into mine values (1, 5, 'a', 1), (2, 6, 'A', 0), (3, null, null, null)",
    )
    cases: dict[str, dict[Any, list[int]]] = {
        "n": {5: [1], "5": [1], 6: [2], 7: [], "5.0": [], "05": [], "": [], 5.5: []},
        "yes": {True: [1], False: [2], "true": [], "1": []},
    }
    for column, claims in cases.items():
        options = TableOptions(where=f"{column} = :claims.x", key=("id",))
        async with served(owner, tables={"mine": options}) as it:
            for claim, found in (*claims.items(), (None, []), ({"x": 5}, []), ("5" * 5000, [])):
                with acting(Caller("somebody", frozenset(), claims={"x": claim})):
                    rows = (await it.json("mine/~rows"))["rows"]
                    assert [row["id"] for row in rows] == found, (column, claim)
    options = TableOptions(where="name = :claims.x", key=("id",))
    async with served(owner, tables={"mine": options, **KEYS}) as it:
        with (
            acting(Caller("somebody", frozenset(), claims={"x": "a"})),
            pytest.raises(ResourceNotFound),
        ):
            await it.read("mine/~rows")
        assert await it.rows("fine") == ["fine/1", "fine/2"]
    async with Database(url=owner.url, tables={"mine": options}) as provider:
        problems = dict(await provider.warnings(thorough=False))
    assert problems["tables.mine.where"] == (
        "of 'mine': 'name' is text, and it is not known how odd compares texts; compare the claim "
        "with a column of integers, dates, booleans or UUIDs. The table is not served until this "
        "is right"
    )


async def test_names_with_signs_of_sql_are_columns(owner: Owner) -> None:
    async with served(owner, tables=KEYS) as it:
        row = await it.json("fine/1")
        assert list(row.values()) == [1, "a", "b", "c", "d", "e", "f"]
        for name in ("per%25cent", "co:lon", "q'u%22o", "do.t%20s", "%25(x)s"):
            found = await it.json(f"fine/~rows?where.{name}.ne=z&count")
            assert found["rows"] == [{"count": 2}], name


async def test_a_connection_that_is_lost_in_each_statement_is_told_as_busy(owner: Owner) -> None:
    async with served(owner, tables=KEYS) as it:
        for _ in range(3):
            with pytest.raises(ResourceBusy, match="connection to the database was lost"):
                await it.read("loses/~rows")
        assert (await it.json("fine/~rows"))["rows"][0]["id"] == 1


async def test_a_driver_that_blocks_keeps_nothing_else_from_working(file: Path) -> None:
    engine = GenericEngine(f"odd:///{file}", interval=0)
    await engine.open()
    before = threading.active_count()
    blocking = Statement("select * from blocks")
    for _ in range(MAX_LEFT_BEHIND):
        rows = await engine.run_own(Statement("select 1"), limit=1, within=PATIENCE_S)
        assert rows.rows == [(1,)]
        with pytest.raises(DeadlineExceeded):
            await engine.run_own(blocking, limit=1, within=0.05)
    with pytest.raises(ResourceBusy, match="8 statements run on after their time limits"):
        await engine.run_own(Statement("select 1"), limit=1, within=1)
    assert threading.active_count() <= before + 2 * MAX_LEFT_BEHIND
    async with asyncio.timeout(PATIENCE_S):
        await engine.close()


async def test_a_statement_waits_for_one_that_was_left_behind(file: Path) -> None:
    engine = GenericEngine(f"odd:///{file}", interval=0)
    await engine.open()
    for _ in range(MAX_LEFT_BEHIND):
        with pytest.raises(DeadlineExceeded):
            await engine.run_own(Statement("select * from blocks"), limit=1, within=0.05)
    waiting = asyncio.create_task(engine.run_own(Statement("select 1"), limit=1, within=PATIENCE_S))
    for _ in range(9):
        await asyncio.sleep(0)  # it has found the eight
    odd_dialect.BLOCKED.set()
    assert (await waiting).rows == [(1,)]
    await engine.close()


async def test_parts_that_are_opened_at_once_share_one_pool(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    create = sqlalchemy.create_engine

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return create(*arguments, **options)

    monkeypatch.setattr(sqlalchemy, "create_engine", counted)
    engine = GenericEngine(f"odd:///{file}", interval=0)
    await asyncio.gather(*(engine.open() for _ in range(8)))
    assert len(made) == 1
    for _ in range(8):
        await engine.close()


async def test_a_cancelled_read_gives_its_place_to_others(file: Path) -> None:
    engine = GenericEngine(f"odd:///{file}", interval=0)
    await engine.open()
    for _ in range(6):
        reading = asyncio.create_task(
            engine.run_own(Statement("select * from blocks"), limit=1, within=PATIENCE_S)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    rows = await engine.run_own(Statement("select 1"), limit=1, within=PATIENCE_S)
    assert rows.rows == [(1,)]
    await engine.close()


async def test_a_time_limit_reaches_the_client_and_others_are_served(owner: Owner) -> None:
    limits = ReadLimits(timeout=Duration(0.1))
    async with served(owner, tables=KEYS, limits=limits) as it:
        with pytest.raises(DeadlineExceeded):
            await it.read("blocks/~rows")


async def test_schemas_by_the_thousand_are_not_asked_for(file: Path) -> None:
    async with Database(url=f"odd:///{file}", schemas=("main",)) as provider:
        page = await provider.list((), after=None, limit=10)
        assert [each.path for each in page] == [("main",)]
    async with Database(url=f"odd:///{file}", schemas=("main", "nothing")) as provider:
        page = await provider.list((), after=None, limit=10)
        assert [each.path for each in page] == [("main",)]
        assert ("schemas", "schema 'nothing' has no table that the login may read") in (
            await provider.warnings()
        )


async def test_a_huge_value_is_truncated_and_a_huge_page_is_cut(owner: Owner) -> None:
    await owner.run("create table huge (id integer primary key, x text)")
    for place in range(3):
        await owner.rows("insert into huge values (?, ?)", place, "x" * (17 * 1024 * 1024))
    async with served(owner, tables={"huge": TableOptions(key=("id",))}) as it:
        row = await it.json("huge/1")
        assert row["x"]["characters"] == 17 * 1024 * 1024
        assert row["x"]["truncated"] is True
