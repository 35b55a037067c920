from __future__ import annotations

import pytest

from tests.cases import for_each
from tests.providers.database.owners import owner_of
from tests.providers.database.served import served

pytestmark = pytest.mark.anyio

LETTERS = ["z", "m", "a", "10", "9"]
ENUM = f"ENUM({', '.join(map(repr, LETTERS))})"


async def test_enumerations_in_a_key_are_paged_in_their_own_order(mariadb_url: str) -> None:
    async with owner_of(mariadb_url) as owner:
        await owner.clear()
        await owner.run(
            f"CREATE TABLE one (k {ENUM} PRIMARY KEY)",
            f"CREATE TABLE three (a INT, k {ENUM}, b INT, PRIMARY KEY (a, k, b))",
            f"INSERT INTO one VALUES {', '.join(f'({letter!r})' for letter in LETTERS)}",
            "INSERT INTO three SELECT a.seq, k, b.seq FROM one, seq_1_to_2 a, seq_1_to_2 b",
        )
        async with served(owner, page_size=2) as shop:
            pages = await shop.pages("one/~rows?limit=2")
            assert [row["k"] for page in pages for row in page] == LETTERS
            assert await shop.rows("one") == [f"one/{letter}" for letter in LETTERS]
            pages = await shop.pages("three/~rows?limit=3")
            expected = [(a, k, b) for a in (1, 2) for k in LETTERS for b in (1, 2)]
            assert [tuple(row.values()) for page in pages for row in page] == expected
            assert await shop.rows("three/2") == [f"three/2/{letter}" for letter in LETTERS]
            assert await shop.json("three/2/10/1") == {"a": 2, "k": "10", "b": 1}


@for_each(("type", "values"), [("SET('x', 'y')", "'x'"), ("FLOAT", "0.1"), ("BIT(8)", "b'101'")])
async def test_a_column_whose_values_do_not_match_themselves_is_no_key(
    mariadb_url: str, type: str, values: str
) -> None:
    async with owner_of(mariadb_url) as owner:
        await owner.clear()
        await owner.run(
            f"CREATE TABLE alone (k {type} PRIMARY KEY)",
            f"CREATE TABLE other (k {type} PRIMARY KEY, id INT NOT NULL UNIQUE)",
            f"INSERT INTO alone VALUES ({values})",
            f"INSERT INTO other VALUES ({values}, 7)",
        )
        async with served(owner) as shop:
            assert await shop.rows("alone") == []
            assert len((await shop.json("alone/~rows"))["rows"]) == 1
            assert await shop.rows("other") == ["other/7"]
            assert (await shop.json("other/7"))["id"] == 7
