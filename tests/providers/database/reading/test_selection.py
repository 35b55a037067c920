"""Filtered, sorted and counted rows, compared with the engine's own SELECT."""

from __future__ import annotations

import os
import random
from urllib.parse import quote

import pytest

from resource_server.errors import DeadlineExceeded, InvalidParameter
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from tests.providers.database.owners import Owner
from tests.providers.database.reading.test_documents import KINDS, NO_KEYS, Kind, form, make
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio

_FIRST = int(os.environ.get("PAGES_FIRST", "0"))
_SEEDS = int(os.environ.get("PAGES_SEEDS", "4"))

ORDERS = (
    "create table orders (id integer primary key, status varchar(20), total integer,"
    " paid_at varchar(20), card varchar(20), note varchar(99))",
    "insert into orders values (1, 'paid', 10, '2026-01-01', '4111', 'first 50%'),"
    " (2, 'open', 20, null, '4222', 'second'), (3, 'paid', 30, '2026-01-03', '4333', 'Third_one'),"
    " (4, 'sent', null, null, '4444', null), (5, 'paid', 30, '2026-01-02', '4555', 'a,b')",
)


def _order(columns: list[tuple[str, bool]]) -> tuple[str, str]:
    """Return the URI parameter and the SQL of an order, in which the key is the last."""
    parameter = ",".join(f"-{name}" if descends else name for name, descends in columns)
    given = {name for name, _ in columns}
    every = [*columns, *([] if "k0" in given else [("k0", columns[-1][1])])]
    return parameter, ", ".join(f"{name} desc" if descends else name for name, descends in every)


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
async def test_pages_of_any_order_equal_a_direct_select(owner: Owner, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test table, no secret
    kinds = [
        each for name, each in KINDS[owner.engine].items() if (owner.engine, name) not in NO_KEYS
    ]
    values: list[Kind] = dice.choices(kinds, k=3)
    await make(owner, dice, [dice.choice(kinds)], values, 60)
    types = {name: each.type for name, each in zip(("v0", "v1", "v2"), values, strict=True)}
    async with served(owner) as it:
        for _ in range(4):
            names = dice.sample(("v0", "v1", "v2", "k0"), k=dice.randrange(1, 4))
            parameter, order = _order([(name, dice.random() < 0.5) for name in names])
            expected = [
                tuple(form(value, types[name]) for name, value in zip(types, row, strict=True))
                for row in await owner.rows(f"select v0, v1, v2 from t order by {order}")
            ]
            for limit in (1, 7, 100):
                pages = await it.pages(f"t/~rows?sort={parameter}&limit={limit}")
                found = [tuple(row[name] for name in types) for page in pages for row in page]
                assert found == expected, (parameter, limit, types)


async def test_rows_without_a_key_are_paged_to_their_end_in_any_order(owner: Owner) -> None:
    await owner.run("create table t (v0 integer, v1 varchar(9))")
    rows = [(place % 3 or None, "ab"[place % 2]) for place in range(17)]
    await owner.insert("t", *rows, *rows)
    async with served(owner) as it:
        for order, place in (("v0", 0), ("-v0", 0), ("v1,-v0", 1)):
            sql = order.replace("-v0", "v0 desc")
            expected = await owner.rows(f"select * from t order by {sql}")
            pages = await it.pages(f"t/~rows?sort={order}&limit=5")
            found = [(row["v0"], row["v1"]) for page in pages for row in page]
            assert sorted(found, key=repr) == sorted(map(tuple, expected), key=repr), order
            assert [row[place] for row in found] == [row[place] for row in expected], order


async def _ids(it: Served, parameters: str) -> list[int]:
    return [row["id"] for row in (await it.json(f"orders/~rows?{parameters}"))["rows"]]


FILTERS = {
    "where.status=paid": [1, 3, 5],
    "where.status.eq=paid&where.total.gt=10": [3, 5],
    "where.status.ne=paid": [2, 4],
    "where.total.lt=30": [1, 2],
    "where.total.le=20": [1, 2],
    "where.total.ge=30": [3, 5],
    "where.total.gt=10&where.total.lt=30": [2],
    "where.status.in=open,sent": [2, 4],
    "where.note.in=%22a,b%22,second": [2, 5],
    "where.paid_at.null=true": [2, 4],
    "where.paid_at.null=false": [1, 3, 5],
    "where.note.like=%25ir%25": [1, 3],
    "where.note.like=FIRST%25": [1],
    "where.note.like=%2550%5C%25": [1],
    "where.note.like=third%5C_%25": [3],
    "where.note.like=third!%25": [],
    "where.total.like=3%25": [3, 5],
    "where.status=nothing": [],
    "where.id=3&where.status=paid": [3],
}


async def test_a_filter_gives_the_rows_that_match(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner) as it:
        found = {parameters: sorted(await _ids(it, parameters)) for parameters in FILTERS}
        assert found == FILTERS
        for parameters, ids in FILTERS.items():
            counted = await it.json(f"orders/~rows?count&{parameters}")
            assert counted["rows"] == [{"count": len(ids)}], parameters


SPELLINGS = {
    "where.code=5": ["integer", "text"],
    "where.code=05": [],
    "where.code=~t5": [],
    "where.code.ne=5": ["word", "stamp"],
    "where.code.in=5,tea": ["integer", "text", "word"],
    "where.code.gt=5": ["text", "word", "stamp"],
    "where.code.ge=u": ["stamp"],
    "where.at=2026-11-20T10:00:00Z": ["word"],
    "where.at=2026-11-20 10:00:00": ["integer"],
    "where.at=1700000000": ["text"],
    "where.at.ge=2026-11-20T00:00:00": ["word"],
    "where.at.ge=2026-11-20": ["integer", "word"],
    "where.at.lt=1800000000": ["text"],
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_filter_of_sqlite_means_every_spelling_of_its_text(owner: Owner) -> None:
    await owner.run(
        "create table codes (id integer primary key, name text, code, at datetime)",
        "insert into codes values (1, 'integer', 5, '2026-11-20 10:00:00'),"
        " (2, 'text', '5', 1700000000), (3, 'word', 'tea', '2026-11-20T10:00:00Z'),"
        " (4, 'stamp', 'x', null), (5, 'none', null, null)",
    )
    found: dict[str, list[str]] = {}
    async with served(owner) as it:
        for parameters in SPELLINGS:
            page = await it.json(f"codes/~rows?{parameters.replace(' ', '%20')}")
            found[parameters] = [row["name"] for row in page["rows"]]
    assert found == SPELLINGS


async def test_a_date_is_the_start_of_its_day_in_a_column_of_times(owner: Owner) -> None:
    await owner.run(
        "create table events (id integer primary key, placed timestamp)",
        "insert into events values (1, '2026-11-19 23:59:59'), (2, '2026-11-20 00:00:00'),"
        " (3, '2026-11-20 10:00:00'), (4, '2026-11-21 00:00:00')",
    )
    async with served(owner) as it:
        day = "where.placed.ge=2026-11-20&where.placed.lt=2026-11-21"
        rows = (await it.json(f"events/~rows?{day}"))["rows"]
    assert [row["id"] for row in rows] == [2, 3]


async def test_pages_go_on_with_their_filters_and_their_order(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner) as it:
        pages = await it.pages("orders/~rows?where.status=paid&sort=-total,id&limit=1&columns=note")
    assert [row for page in pages for row in page] == [
        {"note": "Third_one"},
        {"note": "a,b"},
        {"note": "first 50%"},
    ]


async def test_a_cursor_of_another_order_is_refused(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner) as it:
        page = await it.json("orders/~rows?sort=total&limit=1")
        cursor = page["next"].partition("after=")[2].partition("&")[0]
        with pytest.raises(InvalidParameter):
            await it.json(f"orders/~rows?sort=-total&limit=1&after={cursor}")


MASKED = TableOptions(
    columns=ColumnOptions(hide=("note",), mask={"card": "last4"}), where="status <> 'sent'"
)
REFUSED = {
    "where.card=4111": "masked",
    "where.card.like=4%25": "masked",
    "where.card.null=true": "masked",
    "sort=card": "masked",
    "where.note=first": "no column note",
    "sort=-note": "no column note",
    "where.nothing=first": "no column nothing",
    "where.statsu=paid": "did you mean 'status'?",
    "where.status.between=a": "no operator between",
    "where.total=ten": "is no value of total",
    "where.total.in=1,ten": "is no value of total",
    "where.status.in=paid%0A": "not separated by commas as in CSV",
    "where.total.null=1": "true or false",
    "where.status.like=%5C": "no pattern",
    f"where.status.like={'a' * 201}": "at most 200",
    f"where.total.in={','.join('1' * 101)}": "1 to 100",
    "sort=": "no column",
    "sort=total,total": "given twice",
    "where.=1": "no column",
    "where=1": "unknown query parameter",
    "count=5": "count has no value",
    "count&limit=5": "leave out limit",
    "~summary?by=card": "masked",
    "~summary?max=card": "masked",
    "~summary?by=note": "no column note",
    "~summary?sum=status": "has no sum of values of type",
    "~summary?by=id,status,total,paid_at": "at most 3",
    "~summary?by=status&sort=sum.total": "no column 'sum.total'",
    "~summary?by=status&after=nonsense": "cursor",
    "~summary?columns=a": "unknown query parameter",
}


async def test_what_cannot_be_selected_is_refused_with_its_reason(owner: Owner) -> None:
    await owner.run(*ORDERS)
    said: dict[str, str] = {}
    async with served(owner, tables={"orders": MASKED}) as it:
        for parameters in REFUSED:
            if owner.engine == "sqlite" and "ten" in parameters:
                said[parameters] = REFUSED[parameters]  # any value may be in any of its columns
                continue
            document = parameters if parameters.startswith("~") else f"~rows?{parameters}"
            try:
                said[parameters] = f"not refused: {await it.text(f'orders/{document}')}"
            except InvalidParameter as error:
                said[parameters] = str(error)
    wrong = {each: said[each] for each, reason in REFUSED.items() if reason not in said[each]}
    assert wrong == {}


async def test_hidden_rows_are_in_no_count_and_no_group(owner: Owner) -> None:
    await owner.run(*ORDERS)
    async with served(owner, tables={"orders": MASKED}) as it:
        assert (await it.json("orders/~rows?count"))["rows"] == [{"count": 4}]
        assert (await it.json("orders/~rows?count&where.status=sent"))["rows"] == [{"count": 0}]
        groups = await it.json("orders/~summary?by=status")
    assert groups["rows"] == [{"status": "open", "count": 1}, {"status": "paid", "count": 3}]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_read_beyond_its_deadline_names_the_index_that_would_help(owner: Owner) -> None:
    await owner.run(
        "create table big (id integer primary key, kind text, size integer)",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000)"
        " insert into big select i, 'k' || (i % 7), i * 7919 % 1000003 from n",
    )
    limits = ReadLimits(timeout=type(ReadLimits().timeout)(0.005))
    async with served(owner, limits=limits) as it:
        with pytest.raises(DeadlineExceeded, match=r"an index of big on \(kind, size\)"):
            await it.json("big/~rows?where.kind=k1&sort=-size")


async def test_values_of_any_text_are_bound(owner: Owner) -> None:
    await owner.run(*ORDERS)
    texts = ["'; drop table orders; --", "~tabc", "a/b", "%", "", "\\", "😀", "x" * 3000]
    async with served(owner) as it:
        for text in texts:
            given = quote(text, safe="")
            assert await _ids(it, f"where.status={given}") == []
        assert len(await _ids(it, "limit=9")) == 5


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
async def test_an_enumeration_is_filtered_and_sorted_in_its_order(owner: Owner) -> None:
    if owner.engine == "postgresql":
        await owner.run("create type mood as enum ('sad', 'ok', 'happy')")
    mood = "mood" if owner.engine == "postgresql" else "enum('sad', 'ok', 'happy')"
    await owner.run(
        f"create table t (id integer primary key, mood {mood})",
        "insert into t values (1, 'happy'), (2, 'sad'), (3, 'ok'), (4, null)",
    )
    async with served(owner) as it:
        above = await it.json("t/~rows?where.mood.gt=sad&sort=mood")
        assert [row["id"] for row in above["rows"]] == [3, 1]
        pages = await it.pages("t/~rows?sort=-mood&limit=1&where.mood.null=false")
        assert [row["id"] for page in pages for row in page] == [1, 3, 2]
        with pytest.raises(InvalidParameter, match="one of sad, ok, happy"):
            await it.json("t/~rows?where.mood=angry")
