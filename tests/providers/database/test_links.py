"""Links from rows to the rows that they reference, and to the whole of truncated values."""

from __future__ import annotations

from typing import Any

import pytest

from resource_server.provider import ByteSize
from resource_server.providers.database.options import (
    ColumnOptions,
    ReadLimits,
    TableOptions,
)
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio

TEXT = "varchar(20)"


async def links(it: Served, path: str) -> dict[str, str]:
    """Return the links of a row as paths; asserts that each can be read."""
    row: dict[str, Any] = await it.json(path)
    found: dict[str, str] = row.get("_links", {})
    for uri in found.values():
        assert (await it.catalog.metadata(uri)).uri == uri
    return {name: uri.removeprefix(it.base) for name, uri in found.items()}


async def test_columns_of_a_foreign_key_may_be_in_any_order(owner: Owner) -> None:
    await owner.run(
        f"CREATE TABLE shops (land {TEXT}, number integer, PRIMARY KEY (land, number),"
        " UNIQUE (number, land))",
        f"CREATE TABLE orders (id integer PRIMARY KEY, shop integer, place {TEXT},"
        " FOREIGN KEY (shop, place) REFERENCES shops (number, land))",
    )
    await owner.insert("shops", ("DE", 7))
    await owner.insert("orders", (1, 7, "DE"), (2, 7, None), (3, None, "DE"))
    async with served(owner) as it:
        assert await links(it, "orders/1") == {"shop, place": "shops/DE/7"}
        assert await links(it, "orders/2") == {}
        assert await links(it, "orders/3") == {}


async def test_a_foreign_key_to_more_columns_than_the_key_links_to_the_row(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE people (id integer PRIMARY KEY, tenant integer, UNIQUE (tenant, id))",
        "CREATE TABLE orders (id integer PRIMARY KEY, tenant integer, buyer integer,"
        " FOREIGN KEY (tenant, buyer) REFERENCES people (tenant, id))",
    )
    await owner.insert("people", (5, 1))
    await owner.insert("orders", (1, 1, 5))
    async with served(owner) as it:
        assert await links(it, "orders/1") == {"tenant, buyer": "people/5"}


async def test_a_foreign_key_to_non_key_columns_is_described_but_not_a_link(
    owner: Owner,
) -> None:
    await owner.run(
        f"CREATE TABLE people (id integer PRIMARY KEY, name {TEXT} NOT NULL UNIQUE)",
        f"CREATE TABLE orders (id integer PRIMARY KEY, buyer {TEXT},"
        " FOREIGN KEY (buyer) REFERENCES people (name))",
    )
    await owner.insert("people", (5, "Ada"))
    await owner.insert("orders", (1, "Ada"))
    async with served(owner) as it:
        assert await links(it, "orders/1") == {}
        (foreign,) = (await it.json("orders/~schema?format=json"))["foreignKeys"]
        assert foreign["table"]["name"] == "people"
        assert (foreign["columns"], foreign["referred"]) == (["buyer"], ["name"])
    # Until that column is the key.
    async with served(owner, tables={"people": TableOptions(key=("name",))}) as it:
        assert await links(it, "orders/1") == {"buyer": "people/Ada"}


async def test_several_foreign_keys_of_the_same_columns_have_distinct_links(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE people (id integer PRIMARY KEY)",
        "CREATE TABLE buyers (id integer PRIMARY KEY)",
        "CREATE TABLE orders (id integer PRIMARY KEY, buyer integer, seller integer,"
        " FOREIGN KEY (buyer) REFERENCES people (id), FOREIGN KEY (buyer) REFERENCES buyers (id),"
        " FOREIGN KEY (seller) REFERENCES people (id))",
    )
    await owner.insert("people", (5,), (6,))
    await owner.insert("buyers", (5,))
    await owner.insert("orders", (1, 5, 6))
    schema = owner.prefix.replace("/", ".")
    async with served(owner) as it:
        assert await links(it, "orders/1") == {
            f"buyer ({schema}people)": "people/5",
            f"buyer ({schema}buyers)": "buyers/5",
            "seller": "people/6",
        }
    async with served(owner, tables={"buyers": False}) as it:
        assert await links(it, "orders/1") == {"buyer": "people/5", "seller": "people/6"}


async def test_a_row_may_refer_to_its_own_table(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE parts (id integer PRIMARY KEY, of integer,"
        " FOREIGN KEY (of) REFERENCES parts (id))"
    )
    rows = [(1, None), (2, 1), (3, 3)]
    if owner.engine == "duckdb":
        rows.pop()  # there a row must be there before another refers to it
    for row in rows:
        await owner.insert("parts", row)
    async with served(owner) as it:
        assert await links(it, "parts/1") == {}
        assert await links(it, "parts/2") == {"of": "parts/1"}
        if len(rows) == 3:
            assert await links(it, "parts/3") == {"of": "parts/3"}


@pytest.mark.parametrize(
    ("people", "orders"),
    [
        (ColumnOptions(mask={"id": "hash"}), ColumnOptions()),
        (ColumnOptions(), ColumnOptions(mask={"buyer": "hash"})),
        (ColumnOptions(), ColumnOptions(hide=("buyer",))),
    ],
)
async def test_a_foreign_key_masked_or_hidden_on_either_side_is_not_a_link(
    owner: Owner, people: ColumnOptions, orders: ColumnOptions
) -> None:
    await owner.run(
        "CREATE TABLE people (id integer PRIMARY KEY)",
        "CREATE TABLE orders (id integer PRIMARY KEY, buyer integer,"
        " FOREIGN KEY (buyer) REFERENCES people (id))",
    )
    await owner.insert("people", (57,))
    await owner.insert("orders", (1, 57))
    tables = {"people": TableOptions(columns=people), "orders": TableOptions(columns=orders)}
    async with served(owner, tables=tables) as it:
        assert await links(it, "orders/1") == {}
        assert "people" not in await it.text("orders/~schema?format=json")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_foreign_key_may_link_to_another_schema(owner: Owner) -> None:
    await owner.run(
        "DROP SCHEMA IF EXISTS sales CASCADE",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.people (id integer PRIMARY KEY)",
        "CREATE TABLE people (id integer PRIMARY KEY)",
        "CREATE TABLE orders (id integer PRIMARY KEY, buyer integer REFERENCES sales.people,"
        " seller integer REFERENCES people)",
        "INSERT INTO people VALUES (6)",
        "INSERT INTO sales.people VALUES (5)",
        "INSERT INTO orders VALUES (1, 5, 6)",
    )
    async with served(owner) as it:
        root = it.base.removesuffix("public/")
        assert (await it.json("orders/1"))["_links"] == {
            "buyer": f"{root}sales/people/5",
            "seller": f"{root}public/people/6",
        }
    async with served(owner, tables={"sales.people": False}) as it:
        assert await links(it, "orders/1") == {"seller": "people/6"}
    async with served(owner, schemas=("public",)) as it:
        assert await links(it, "orders/1") == {"seller": "people/6"}
    await owner.run("DROP SCHEMA sales CASCADE")


async def test_an_integer_may_refer_to_a_number_of_another_type(postgres_url: str) -> None:
    async with owner_of(postgres_url) as owner:
        await owner.clear()
        await owner.run(
            "CREATE TABLE a (k numeric PRIMARY KEY); CREATE TABLE b (k float8 PRIMARY KEY)",
            "CREATE TABLE t (id int PRIMARY KEY, a int REFERENCES a, b int REFERENCES b)",
            "INSERT INTO a VALUES (5); INSERT INTO b VALUES (6); INSERT INTO t VALUES (1, 5, 6)",
        )
        async with served(owner) as it:
            assert await links(it, "t/1") == {"a": "a/5", "b": "b/6.0"}
            assert (await it.json("a/5"), await it.json("b/6.0")) == ({"k": "5"}, {"k": 6.0})


# Whole values.

SHORT = ReadLimits(cell=ByteSize(20))
LONG = "a long text of sixty characters, more than fits into one cell"
DATA = bytes(range(256)) * 8


async def large_values(owner: Owner) -> None:
    blob = "bytea" if owner.engine == "postgresql" else "blob"
    name = owner.quoted("a/b c")
    await owner.run(
        f"CREATE TABLE notes (day integer, name varchar(9), {name} varchar(99), file {blob},"
        " PRIMARY KEY (day, name))"
    )
    await owner.insert("notes", (1, "a b", LONG, DATA), (1, "c", "short", b"\x01"))


async def test_a_truncated_value_has_the_uri_of_the_whole_one(owner: Owner) -> None:
    await large_values(owner)
    async with served(owner, limits=SHORT) as it:
        for row in (
            await it.json("notes/1/a%20b"),
            (await it.json("notes/~rows"))["rows"][0],
            (await it.json("notes/~rows?columns=a%2Fb%20c,file"))["rows"][0],
        ):
            text, file = row["a/b c"], row["file"]
            assert (text["$text"], text["characters"], text["truncated"]) == (LONG[:20], 61, True)
            assert (file["bytes"], file["truncated"]) == (2048, True)
            assert await it.text(text["uri"].removeprefix(it.base)) == LONG
            (whole,) = (await it.catalog.read(file["uri"])).items
            assert whole.content is not None
            assert whole.content.data == DATA
        second = (await it.json("notes/~rows?format=columns"))["rows"][1]
        assert second == [1, "c", "short", {"$blob": "AQ==", "bytes": 1}]


async def test_every_format_has_the_uri_of_the_whole_value(owner: Owner) -> None:
    await large_values(owner)
    async with served(owner, limits=SHORT) as it:
        row = await it.json("notes/1/a%20b")
        text, file = row["a/b c"]["uri"], row["file"]["uri"]
        csv = await it.text("notes/~rows?format=csv")
        assert f"[61 characters: {text}] " in csv
        assert f"[2048 bytes: {file}] " in csv
        page = await it.text("notes/~rows?format=markdown")
        assert f"[61 characters](<{text}>) " in page
        assert f"[blob, 2048 bytes](<{file}>)" in page
        # A table for reading has no bytes, however few.
        assert "[blob, 1 bytes](<" in page
        (_, first, *_) = (await it.json("notes/~rows?format=columns&limit=1"))["rows"][0]
        assert first == "a b"


async def test_values_without_an_address_have_no_uri(owner: Owner) -> None:
    await owner.run("CREATE TABLE loose (note varchar(99))")
    await owner.insert("loose", (LONG,))
    await owner.run("CREATE VIEW shown AS SELECT note FROM loose")
    cut = {"note": {"$text": LONG[:20], "characters": 61, "truncated": True}}
    async with served(owner, limits=SHORT) as it:
        assert (await it.json("shown/~rows"))["rows"] == [cut]
        assert "*61 characters* " in await it.text("shown/~rows?format=markdown")
