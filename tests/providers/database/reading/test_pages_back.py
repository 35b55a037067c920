"""Pages walked to the end and back: `until` ends a page with the row that the next one follows."""

from __future__ import annotations

import os
import random
from itertools import chain
from typing import Any

import pytest

from resource_server.errors import InvalidParameter
from resource_server.provider import ByteSize
from resource_server.providers.database.options import ReadLimits, TableOptions
from resource_server.runtime.option_types import Duration
from tests.providers.database.owners import Owner
from tests.providers.database.reading.test_documents import KINDS, NO_KEYS, Kind, make
from tests.providers.database.served import Served, served
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

_FIRST = int(os.environ.get("PAGES_FIRST", "0"))
_SEEDS = int(os.environ.get("PAGES_SEEDS", "4"))
_MOST = 500
"""Pages of a table, at most."""


async def _forth(it: Served, path: str) -> tuple[list[list[Any]], str]:
    """Return the rows of every page, and the path of the page before the last."""
    found: list[list[Any]] = []
    last = path
    while path:
        page = await it.json(path)
        assert page.keys() == {"rows", "next", "more"}, "a page forth says more than before"
        found.append(page["rows"])
        last, path = path, (page["next"] or "").removeprefix(it.base)
        assert len(found) < _MOST
    return found, last.replace("after=", "until=")


async def _back(it: Served, path: str) -> list[list[Any]]:
    """Return the rows of every page from this one back to the first, the first page first."""
    found: list[list[Any]] = []
    while path:
        page = await it.json(path)
        found.insert(0, page["rows"])
        path = page.get("previous", "").removeprefix(it.base)
        assert len(found) < _MOST
    return found


def _parameters(dice: random.Random) -> str:
    names = dice.sample(("v0", "v1", "v2", "k0"), k=dice.randrange(4))
    order = ",".join(dice.choice(("", "-")) + name for name in names)
    given = [f"limit={dice.choice((1, 3, 7, 30))}", f"sort={order}" if order else "cell=90"]
    given.append(dice.choice(("", "where.v0.null=true", "where.v1.null=false", "columns=v1")))
    return "&".join(filter(None, given))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
async def test_the_way_back_has_the_pages_of_the_way_forth(owner: Owner, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test table, no secret
    kinds = [
        each for name, each in KINDS[owner.engine].items() if (owner.engine, name) not in NO_KEYS
    ]
    values: list[Kind] = dice.choices(kinds, k=3)
    await make(owner, dice, dice.choices(kinds, k=dice.choice((1, 2))), values, 40)
    async with served(owner) as it:
        for _ in range(8):
            parameters = _parameters(dice)
            pages, before = await _forth(it, f"t/~rows?{parameters}")
            if len(pages) > 1:
                assert await _back(it, before) == pages[:-1], parameters


async def _numbers(owner: Owner, numbers: range) -> None:
    await owner.run("create table t (id integer primary key, v integer)")
    await owner.insert("t", *[(each, each % 5 or None) for each in numbers])


def _ids(page: Any) -> list[int]:
    return [row["id"] for row in page["rows"]]


async def test_rows_that_come_and_go_leave_the_others_at_their_places(owner: Owner) -> None:
    await _numbers(owner, range(0, 60, 2))
    async with served(owner) as it:
        for step, order in enumerate(("", "&sort=-v", "&sort=v,-id")):
            everything = f"t/~rows?limit=100{order}"
            kept = _ids(await it.json(everything))[:-10]
            deleted = 0
            _, path = await _forth(it, f"t/~rows?limit=4{order}")
            seen: list[int] = []
            new = 1001 + 100 * step
            while path:
                page = await it.json(path)
                seen[:0] = _ids(page)
                path = page.get("previous", "").removeprefix(it.base)
                # The row where the next page ends goes, and another one comes.
                at = kept.index(seen[0]) if seen[0] in kept else 0
                for gone in kept[at - 1 : at] if at % 8 > 3 else ():
                    kept.remove(gone)
                    deleted += 1
                    await owner.run(f"delete from t where id = {gone}")
                await owner.insert("t", (new, new % 5))
                new += 1
            now = _ids(await it.json(everything))
            assert deleted > 1
            assert len(seen) == len({*seen}), order
            assert [each for each in now if each in seen] == [each for each in seen if each in now]
            assert {*kept} <= {*seen}, order


async def test_a_first_page_that_is_reached_backwards_may_be_shorter(owner: Owner) -> None:
    await _numbers(owner, range(10, 50, 10))
    async with served(owner) as it:
        _, before = await _forth(it, "t/~rows?limit=2")
        await owner.insert("t", (5, 1))
        assert [[row["id"] for row in page] for page in await _back(it, before)] == [[5], [10, 20]]
        await owner.run("delete from t where id < 30")
        assert await it.json(before) == {"rows": [], "next": None, "more": False}


async def test_rows_without_a_key_come_back_as_well(owner: Owner) -> None:
    await owner.run("create table plain (v integer, w varchar(9))")
    await owner.insert("plain", *[(each % 4, "ab"[each % 2]) for each in range(11)])
    await owner.run("create table unsure (k integer unique, w varchar(9))")
    await owner.insert("unsure", *[(each or None, "x") for each in (3, 0, 5, 1, 0, 0, 9)])
    async with served(owner, tables={"unsure": TableOptions(key=("k",))}) as it:
        for path in (
            "plain/~rows?limit=3",
            "plain/~rows?limit=3&sort=-v",
            *(f"unsure/~rows?limit={limit}" for limit in (1, 2, 3, 5)),
        ):
            pages, before = await _forth(it, path)
            assert await _back(it, before) == pages[:-1], path


async def test_a_page_back_has_the_last_of_the_rows_that_do_not_fit(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, v varchar(400))")
    await owner.insert("t", *[(each, "x" * (37 * each % 400)) for each in range(40)])
    patience = Duration(PATIENCE_S)
    limits = ReadLimits(bytes=ByteSize(1500), timeout=patience, query_timeout=patience)
    async with served(owner, limits=limits) as it:
        pages, before = await _forth(it, "t/~rows?limit=30")
        found = await _back(it, before)
        assert [*chain(*found)] == [*chain(*pages[:-1])]
        assert all(found)
        assert 1 < max(map(len, found)) < 30


async def test_a_page_back_leads_forth_again(owner: Owner) -> None:
    await _numbers(owner, range(20))
    async with served(owner) as it:
        for format, order in (("", ""), ("&format=columns", "&sort=-v")):
            query = f"limit=6{format}{order}"
            first = await it.json(f"t/~rows?{query}")
            second = await it.json(first["next"].removeprefix(it.base))
            before = await it.json(first["next"].removeprefix(it.base).replace("after=", "until="))
            assert before["rows"] == first["rows"]
            assert before["more"]
            assert await it.json(before["next"].removeprefix(it.base)) == second


async def test_a_mistake_with_until_is_named(owner: Owner) -> None:
    await _numbers(owner, range(3))
    async with served(owner) as it:
        _, before = await _forth(it, "t/~rows?limit=1")
        cursor = before.partition("until=")[2].partition("&")[0]
        for parameters, message in (
            (f"after={cursor}&until={cursor}", "leave out one"),
            ("until=x", "invalid cursor"),
            (f"until={cursor}&sort=v", "cursor"),
            (f"count&until={cursor}", "leave out until"),
        ):
            with pytest.raises(InvalidParameter, match=message):
                await it.read(f"t/~rows?{parameters}")
