"""Completion of template variables, as clients get it."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.runtime.timing import DEFAULT_TIMING
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio


async def suggested(it: Served, typed: str, table: str = "t", variable: str = "key") -> list[str]:
    """Return the suggestions for a key of a table, or for another variable."""
    schema = it.base.partition("://")[2].split("/")[1:-1]
    given = {"table": table, **({"schema": schema[0]} if schema else {})}
    given.pop(variable, None)
    template = await row_template(it)
    return list((await it.catalog.complete(template, variable, typed, given)).values)


async def row_template(it: Served) -> str:
    templates = (await it.catalog.templates()).templates
    return next(each.uri_template for each in templates if each.template.name == "row")


async def numbers(owner: Owner, *values: int) -> None:
    await owner.run("CREATE TABLE t (id bigint PRIMARY KEY)")
    await owner.insert("t", *((value,) for value in values))


async def test_integers_with_the_typed_prefix_are_suggested_in_numeric_order(owner: Owner) -> None:
    least, greatest = -(2**63), 2**63 - 1
    values = (4, 5, 6, 49, 50, 59, 60, 500, 5999, 59_999_999, 6000, -5, -6, -50, -599, 0)
    await numbers(owner, *values, least, greatest)
    async with served(owner) as it:
        assert await suggested(it, "5") == ["5", "50", "59", "500", "5999", "59999999"]
        assert await suggested(it, "59") == ["59", "5999", "59999999"]
        assert await suggested(it, "-5") == ["-5", "-50", "-599"]
        assert await suggested(it, "0") == ["0"]
        assert await suggested(it, "922337203685477580") == [str(greatest)]
        assert await suggested(it, "-922337203685477580") == [str(least)]
        assert set(await suggested(it, "")) == {str(value) for value in (*values, least, greatest)}
        for typed in ("05", "5x", "x", "--5", "9" * 30, "-0", "5.0", "5/"):
            assert await suggested(it, typed) == []


async def test_suggestions_are_limited_to_a_hundred(owner: Owner) -> None:
    await numbers(owner, *range(1, 1200))
    async with served(owner) as it:
        assert await suggested(it, "") == [str(number) for number in range(1, 101)]
        assert (await suggested(it, "1"))[:3] == ["1", "10", "11"]
        assert len(await suggested(it, "1")) == 100
        given = (
            {"schema": owner.prefix.rstrip("/"), "table": "t"} if owner.prefix else {"table": "t"}
        )
        assert (await it.catalog.complete(await row_template(it), "key", "1", given)).total > 100
        assert await suggested(it, "119") == ["119", *(f"119{last}" for last in range(10))]


async def test_texts_with_the_typed_prefix_are_suggested(owner: Owner) -> None:
    await owner.run("CREATE TABLE t (k varchar(40) PRIMARY KEY)")
    await owner.insert("t", *((k,) for k in ("Ada", "Adam", "Bob", "a/b", "~x", "5", "été")))
    async with served(owner) as it:
        assert await suggested(it, "Ad") == ["Ada", "Adam"]
        assert await suggested(it, "Adam") == ["Adam"]
        assert await suggested(it, "Adx") == []
        assert await suggested(it, "5") == ["5"]
        # Values are plain: a client expands the template with them. Typed text may be encoded.
        assert await suggested(it, "é") == ["été"]
        assert await suggested(it, "%C3%A9") == ["été"]
        every = await suggested(it, "")
        assert sorted(every) == ["5", "Ada", "Adam", "Bob", "~ta~2Fb", "~t~7Ex", "été"]
        for key in every:
            assert (await it.entry(f"t/{key}")).uri == f"{it.base}t/{quote(key)}"


async def test_keys_of_several_columns_are_suggested_one_after_another(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE t (land varchar(9), number integer, x integer, PRIMARY KEY (land, number))"
    )
    await owner.insert("t", ("DE", 1, 0), ("DE", 10, 0), ("DE", 2, 0), ("DK", 1, 0), ("FR", 3, 0))
    async with served(owner) as it:
        assert await suggested(it, "D") == ["DE/", "DK/"]
        assert await suggested(it, "DE") == ["DE/"]
        assert await suggested(it, "DE/") == ["DE/1", "DE/2", "DE/10"]
        assert await suggested(it, "DE/1") == ["DE/1", "DE/10"]
        for typed in ("XX/", "DE/1/", "DE/1/0", "/", "~n/", "~rows"):
            assert await suggested(it, typed) == []


async def test_keys_of_other_types_are_suggested_too(owner: Owner) -> None:
    kind = "uuid" if owner.engine != "sqlite" else "text"
    await owner.run(
        f"CREATE TABLE t (a {kind}, d date, PRIMARY KEY (a, d))",
        "CREATE TABLE u (a date PRIMARY KEY)",
    )
    a = uuid.UUID(int=0xABC << 116)
    await owner.run(f"INSERT INTO t VALUES ('{a}', '2026-11-20'), ('{a}', '2026-12-01')")
    async with served(owner) as it:
        assert await suggested(it, "abc") == [f"{a}/"]
        assert await suggested(it, f"{a}/2026-1") == [f"{a}/2026-11-20", f"{a}/2026-12-01"]
        assert await suggested(it, f"{a}/2026-12-01") == [f"{a}/2026-12-01"]
        assert await suggested(it, "", "u") == []


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_labels_of_an_enumeration_are_suggested(owner: Owner) -> None:
    await owner.run(
        "CREATE TYPE mood AS ENUM ('sad', 'so-so', 'happy')",
        "CREATE TABLE t (k mood PRIMARY KEY)",
        "INSERT INTO t VALUES ('sad'), ('so-so'), ('happy')",
    )
    async with served(owner) as it:
        assert await suggested(it, "s") == ["sad", "so-so"]
        assert await suggested(it, "happy") == ["happy"]


@pytest.mark.parametrize(
    "options",
    [
        TableOptions(columns=ColumnOptions(hide=("id",))),
        TableOptions(columns=ColumnOptions(mask={"id": "last4"})),
        TableOptions(where="id < 0"),
        TableOptions(rows=False),
        False,
    ],
    ids=["hidden", "masked", "kept out", "without rows", "hidden table"],
)
async def test_hidden_keys_are_not_suggested(owner: Owner, options: TableOptions | bool) -> None:
    await numbers(owner, 5, 55)
    async with served(owner, tables={"t": options}) as it:
        for typed in ("", "5"):
            # SQLite has another key: the rowid.
            assert {"5", "55"}.isdisjoint(await suggested(it, typed))


async def test_tables_without_keys_have_no_suggestions(owner: Owner) -> None:
    await owner.run("CREATE VIEW v AS SELECT 5 AS a", "CREATE VIEW w AS SELECT NULL AS a")
    async with served(owner, tables={"w": TableOptions(key=("a",))}) as it:
        for table in ("v", "w", "missing", "..", "~query", ""):
            assert await suggested(it, "", table) == []
        assert (await it.catalog.complete(await row_template(it), "key", "5")).values == []


async def test_a_table_is_suggested_in_its_uri_form(owner: Owner) -> None:
    await owner.run(f"CREATE TABLE {owner.quoted('~a/b')} (id integer PRIMARY KEY)")
    await owner.insert("~a/b", (5,))
    async with served(owner) as it:
        (name,) = await suggested(it, "", variable="table")
        assert name == "~t~7Ea~2Fb"
        assert await suggested(it, "5", name) == ["5"]


async def test_slow_suggestions_are_abandoned(owner: Owner) -> None:
    await owner.run("CREATE TABLE base (id integer PRIMARY KEY)")
    await owner.insert("base", (1,), (2,))
    endless = " CROSS JOIN ".join(f"base t{place}" for place in range(60))
    await owner.run(f"CREATE VIEW t AS SELECT count(*) AS id FROM {endless}")
    async with served(owner, timing=DEFAULT_TIMING, tables={"t": TableOptions(key=("id",))}) as it:
        assert await suggested(it, "5") == []


async def test_texts_that_are_not_utf_8_are_suggested(tmp_path: Path) -> None:
    file = tmp_path / "it.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (k text PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (CAST(x'61ff' AS TEXT)), ('b')")
    async with owner_of(f"sqlite:///{file}") as owner, served(owner) as it:
        assert await suggested(it, "a") == ["a%FF"]
        assert await suggested(it, "a%FF") == ["a%FF"]
