"""Behaviour of databases on every engine: SQLite, PostgreSQL, MariaDB, DuckDB and the generic one.

Each test creates tables as their owner and reads them through a catalog, as clients do.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import Any, Literal, cast

import pytest
from msgspec.structs import replace

from resource_server import uris
from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.provider import ByteSize, Change, Path
from resource_server.providers.database.options import (
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.runtime.option_types import Duration
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.interest import MountInterest
from tests.listeners import BASE, IMPATIENT, LIST, PATIENCE_S, Recorder
from tests.providers.database.conftest import EVERYWHERE
from tests.providers.database.owners import Owner, numbered
from tests.providers.database.served import FRESH, UNHURRIED, Served
from tests.providers.database.served import served as served_as_usual
from tests.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.guarantee("other-drivers-answer-the-same"),
    EVERYWHERE,
]

TEXT = {
    "sqlite": "text",
    "duckdb": "text",
    "postgresql": "text",
    "mariadb": "varchar(700) character set utf8mb4 collate utf8mb4_nopad_bin",
    "firebird": "varchar(700)",
}
BYTES = {
    "firebird": "varchar(100) character set octets",
    "sqlite": "blob",
    "duckdb": "blob",
    "postgresql": "bytea",
    "mariadb": "varbinary(100)",
}
served = partial(served_as_usual, timing=FRESH)
PEOPLE = (
    "create table people (id integer primary key, name varchar(50), salary integer,"
    " mail varchar(50))",
    "insert into people values (1, 'Ada', 9000, 'ada@example.org'),"
    " (2, 'Bo', 7000, 'bo@example.org'), (3, 'Cy', NULL, NULL)",
)


# -- definitions and names


async def test_the_schema_of_a_table_names_columns_and_key(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer not null, b varchar(20) default 'x', primary key (a))"
    )
    async with served(owner) as it:
        schema = await it.json("t/~schema?format=json")
        assert schema["name"] == "t"
        assert schema["key"] == {"kind": "primary", "columns": ["a"]}
        assert [column["name"] for column in schema["columns"]] == ["a", "b"]
        assert [column["nullable"] for column in schema["columns"]] == [False, True]
        assert [column["kind"] for column in schema["columns"]] == ["integer", "text"]
        words = await it.text("t/~schema")
        assert "not null, primary key\n" in words


async def test_any_table_or_column_name_is_served(owner: Owner) -> None:
    names = ["~query", "~rows", "Übung 1", 'a"b`c', "semi;colon", "a.b", "%41", "select", "x/y"]
    if owner.is_generic and owner.engine == "mariadb":
        names.remove('a"b`c')  # SQLAlchemy reflects it with two backquotes
    for name in names:
        quoted = owner.quoted(name)
        await owner.run(f"create table {quoted} (id integer primary key, {quoted} varchar(9))")
        await owner.insert(name, (1, "value"))
    async with served(owner) as it:
        tables = await it.entries("")
        assert sorted(entry.resource.name for entry in tables) == sorted(names)
        for table in tables:
            path, name = table.uri.removeprefix(it.base), table.resource.name
            assert await it.json(f"{path}/1") == {"id": 1, name: "value"}
            assert (await it.json(f"{path}/~rows"))["rows"] == [{"id": 1, name: "value"}]
            assert name in await it.text(f"{path}/~schema?format=json") or '"' in name


# -- rows


async def test_a_row_is_equal_in_its_document_and_its_page(owner: Owner) -> None:
    await numbered(owner, 3)
    async with served(owner) as it:
        page = (await it.json("t/~rows"))["rows"]
        assert page == [{"id": number, "name": f"name {number}"} for number in (1, 2, 3)]
        assert [await it.json(path) for path in await it.rows("t")] == page
        body = await it.read("t/2")
        assert body.entry.uri == it.base + "t/2"
        assert body.entry.resource.mime_type == "application/json"


async def test_a_changed_row_has_a_new_version(owner: Owner) -> None:
    await numbered(owner, 2)
    async with served(owner) as it:
        before = [(await it.entry(path)).resource.version for path in ("t/1", "t/2")]
        await owner.run("update t set name = 'other' where id = 1")
        after = [(await it.entry(path)).resource.version for path in ("t/1", "t/2")]
        assert before[0] != after[0]
        assert before[1] == after[1]
        listed = [entry.resource.version for entry in (await it.entries("t"))[2:]]
        assert listed == after
        assert (await it.read("t/1")).entry.resource.version == after[0]


async def test_a_composite_key_is_browsed_column_by_column(owner: Owner) -> None:
    await owner.run(
        f"create table t (a integer, b {TEXT[owner.engine]}, c integer, x integer,"
        " primary key (a, b, c))"
    )
    keys = [(1, "x", 1), (1, "x", 2), (1, "y", 1), (2, "", 7), (2, "..", 7), (10, "x", -1)]
    await owner.insert("t", *((*key, place) for place, key in enumerate(keys)))
    for page_size in (1, 100):
        async with served(owner, page_size=page_size) as it:
            assert await it.rows("t") == ["t/1", "t/2", "t/10"]
            assert await it.rows("t/1") == ["t/1/x", "t/1/y"]
            assert await it.rows("t/1/x") == ["t/1/x/1", "t/1/x/2"]
            assert await it.rows("t/10/x") == ["t/10/x/-1"]
            found = [
                await it.json(row)
                for first in await it.rows("t")
                for second in await it.rows(first)
                for row in await it.rows(second)
            ]
    assert [(row["a"], row["b"], row["c"], row["x"]) for row in found] == [
        (*key, place) for place, key in enumerate(keys)
    ]


async def test_a_prefix_of_keys_is_a_collection_if_rows_have_it(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer, b integer, primary key (a, b))",
        "insert into t values (1, 1), (1, 2)",
    )
    async with served(owner) as it:
        assert (await it.entry("t/1")).resource.type == "collection"
        reading = await it.catalog.read(it.base + "t/1")
        assert [body.uri for body in reading.items] == [it.base + "t/1/1", it.base + "t/1/2"]
        for path in ("t/2", "t/x", "t/1/3", "t/1/1/1", "t/~n"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
        with pytest.raises(NotACollection):
            await it.children("t/1/1")


AWKWARD_TEXTS = (
    *("", ".", "..", "~", "~x", "~rows", "~schema", "~cell", "~n", "~i5", "~t", "5", "-0", "a/b"),
    *(
        "/",
        "//",
        "a//b",
        " ",
        " a",
        "a ",
        "%",
        "%2F",
        "%2e",
        "+",
        "?x=1",
        "#",
        "&",
        "a,b",
        "'",
        '"',
    ),
    *(
        "`",
        "\\",
        "\t",
        "\n",
        "null",
        "true",
        "A",
        "a",
        "ä",
        "a\u0308",
        "ß",
        "İ",
        "\u202e",
        "😀",
        "😁",
    ),
    *("👩\u200d👩\u200d👧", "\U0010ffff", "x" * 700, "😀" * 300, ":", "a:b", "[", "{x}", "*", "_"),
)


async def test_rows_with_awkward_text_keys_are_found_at_their_address(owner: Owner) -> None:
    keys = AWKWARD_TEXTS
    if owner.engine == "firebird":  # spaces at the end make no other key
        keys = tuple([key for key in keys if not key.endswith(" ")])
    await owner.run(f"create table t (k {TEXT[owner.engine]} primary key, place integer)")
    await owner.insert("t", *((key, place) for place, key in enumerate(keys)))
    async with served(owner, page_size=7) as it:
        await found_where_they_are_listed(it, "t", keys)


def _days(*texts: str) -> list[datetime.date]:
    return list(map(datetime.date.fromisoformat, texts))


KEYS: dict[str, tuple[str | dict[str, str], Sequence[Any]]] = {
    "integers": ("bigint", [0, 1, -1, 7, -7, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]),
    "decimals": ("decimal(20, 4)", list(map(Decimal, ("0", "1.1", "-1.1", "0.0001", "12345.6")))),
    "dates": ("date", _days("2026-11-20", "1970-01-01", "1000-01-01", "9999-12-31")),
    "bytes": (BYTES, [b"", b"\0", b"\xff\xfe", b"abc", bytes(range(100))]),
}


async def test_rows_with_typed_keys_are_found_at_their_address(owner: Owner) -> None:
    made: dict[str, Sequence[Any]] = {}
    for kind, (declared, keys) in KEYS.items():
        if owner.is_generic and owner.engine == "postgresql" and kind == "dates":
            keys = keys[:-1]  # the owner writes the last day as infinity, which psycopg refuses
        if owner.engine == "firebird":
            # Zeros at the end make no other key, and the index has the least integer at 0.
            keys = [key for key in keys if key not in (b"\0", -(2**63))]
        declared = declared if isinstance(declared, str) else declared[owner.engine]
        made[kind] = keys
        await owner.run(f"create table {kind} (k {declared} primary key, place integer)")
        held = [
            str(key) if owner.engine == "sqlite" and kind in ("decimals", "dates") else key
            for key in keys
        ]
        await owner.insert(kind, *((key, place) for place, key in enumerate(held)))
    async with served(owner, page_size=7) as it:
        for kind, keys in made.items():
            await found_where_they_are_listed(it, kind, keys)


async def test_rows_with_uuid_keys_are_found_at_their_address(owner: Owner) -> None:
    declared = "text" if owner.engine == "sqlite" else "uuid"
    await owner.run(f"create table t (k {declared} primary key, place integer)")
    keys = [str(uuid.UUID(int=number << 100)) for number in (0, 1, 12345678)]
    as_is = owner.engine != "postgresql"
    await owner.insert("t", *((key if as_is else uuid.UUID(key), n) for n, key in enumerate(keys)))
    async with served(owner, page_size=7) as it:
        await found_where_they_are_listed(it, "t", keys)
        assert [path.removeprefix("t/") for path in await it.rows("t")] == keys


async def found_where_they_are_listed(it: Served, table: str, keys: Sequence[object]) -> None:
    """Assert that each row has one address, which leads to it, and appears once in the pages."""
    paths = await it.rows(table)
    assert len(set(paths)) == len(paths)
    rows = [await it.json(path) for path in paths]
    assert sorted(row["place"] for row in rows) == list(range(len(keys))), table
    for path in paths:
        assert uris.parse(it.base + path).path[-1] not in ("", ".", "..")
        assert (await it.entry(path)).uri == it.base + path
    pages = await it.pages(f"{table}/~rows?limit=4")
    assert [row for page in pages for row in page] == rows


async def test_a_key_too_long_for_a_uri_is_only_in_pages(owner: Owner) -> None:
    if owner.engine in ("mariadb", "firebird"):
        pytest.skip("it has no keys of so many characters")
    await owner.run("create table t (k text primary key, place integer)")
    long = "x" * 20_000
    await owner.insert("t", ("a", 1), (long, 2), ("z", 3))
    async with served(owner) as it:
        assert await it.rows("t") == ["t/a", "t/z"]
        assert [row["place"] for row in (await it.json("t/~rows"))["rows"]] == [1, 2, 3]
        with pytest.raises(ResourceNotFound):
            await it.read(f"t/{long[:12_000]}")


async def test_every_spelling_of_a_key_has_one_canonical_address(owner: Owner) -> None:
    await owner.run(
        f"create table t (k {TEXT[owner.engine]} primary key)",
        "create table n (k integer primary key)",
        "insert into n values (5)",
    )
    await owner.insert("t", ("a b",), ("c",))
    async with served(owner) as it:
        for path, canonical in (
            ("t/a%20b", "t/a%20b"),
            ("t/%61%20b", "t/a%20b"),
            ("t/~tc", "t/c"),
            ("n/5", "n/5"),
            ("n/05", "n/5"),
            ("n/~i5", "n/5"),
            ("n/%35", "n/5"),
        ):
            assert (await it.entry(path)).uri == it.base + canonical, path


async def test_no_name_of_an_index_tells_that_a_hidden_column_is_unique(owner: Owner) -> None:
    columns = "code varchar(20) unique, card varchar(20) {}, mail varchar(20) unique"
    hiding = {"codes": TableOptions(columns=ColumnOptions(hide=("card",)))}
    shown: list[str] = []
    for unique in ("", "unique"):
        await owner.run("drop table if exists codes")
        await owner.run(f"create table codes (id integer primary key, {columns.format(unique)})")
        if unique:
            await owner.run("create index card_and_code on codes (card, code)")
        await owner.run("create index mail_beside_card on codes (mail)")
        async with served(owner, tables=hiding) as it:
            shown.append(
                await it.text("codes/~schema") + await it.text("codes/~schema?format=json")
            )
    assert shown[0] == shown[1]
    assert "card" not in shown[0]
    assert '{"columns":["mail"],"unique":false}' in shown[0]
    async with served(owner) as it:
        assert "mail_beside_card" in await it.text("codes/~schema")


async def test_a_cell_is_read_in_full(owner: Owner) -> None:
    large = {"mariadb": "longtext", "firebird": "blob sub_type text"}
    declared = large.get(owner.engine, "text")
    await owner.run(f"create table t (id integer primary key, x {declared})")
    long = "é" * 100_000
    await owner.insert("t", (1, long))
    async with served(owner) as it:
        cut = {
            "$text": long[: 64 * 1024],
            "characters": 100_000,
            "truncated": True,
            "uri": f"{it.base}t/1/~cell/x",
        }
        assert (await it.json("t/1"))["x"] == cut
        assert (await it.json("t/~rows"))["rows"] == [{"id": 1, "x": cut}]
        assert await it.text("t/1/~cell/x") == long
        for path in ("t/1/~cell/y", "t/2/~cell/x", "t/1/~cell", "t/~cell/x", "t/1/1/~cell/x"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)


# -- tables without a key


@pytest.mark.guarantee("every-row-once")
async def test_a_view_is_paged_to_its_end_and_has_no_rows_with_addresses(owner: Owner) -> None:
    await numbered(owner, 5)
    await owner.run("create view v as select id, name from t union all select id, name from t")
    async with served(owner) as it:
        assert await it.children("v") == ["v/~rows", "v/~schema"]
        for limit in (1, 2, 3, 10, 11):
            pages = await it.pages(f"v/~rows?limit={limit}")
            found = [row["id"] for page in pages for row in page]
            assert found == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
            assert {len(page) for page in pages[:-1]} <= {limit}
        content = (await it.read("v/~rows?limit=2")).content
        assert content is not None
        assert content.truncated is not None
        assert content.truncated.next is not None
        assert (await it.json("v/~rows"))["more"] is False
        after = (await it.json("t/~rows?limit=2"))["next"].partition("after=")[2].partition("&")[0]
        for path in (
            f"v/~rows?after={after}",
            "v/~rows?after=",
            "t/~rows?after=",
            "t/~rows?sort=name&after=",
            "t/~summary?by=name&after=",
        ):
            with pytest.raises(InvalidParameter, match="cursor"):
                await it.read(path)
        with pytest.raises(ResourceNotFound):
            await it.read("v/1")


async def test_a_table_without_a_key_has_no_row_addresses_or_a_rowid(owner: Owner) -> None:
    await owner.run("create table t (x integer)", "insert into t values (1), (1)")
    has_rowid = owner.engine in ("sqlite", "duckdb") and not owner.is_generic
    kind = "rowid" if has_rowid else "none"
    async with served(owner) as it:
        details = (await it.entry("t")).resource.details
        assert details is not None
        assert details["table"]["keyKind"] == kind
        assert (await it.json("t/~rows"))["rows"] == [{"x": 1}, {"x": 1}]
        assert len(await it.rows("t")) == (2 if kind == "rowid" else 0)


async def test_a_view_with_a_declared_key_is_like_a_table(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, kind varchar(20), x integer)",
        "insert into t values (1, 'b', 1), (2, 'a', 2), (3, 'a', 3), (4, 'c', 4)",
        "create view v as select kind, id, x from t where x < 4",
    )
    options = {"v": TableOptions(key=("kind", "id"))}
    async with served(owner, tables=options) as it:
        assert await it.rows("v") == ["v/a", "v/b"]
        assert await it.rows("v/a") == ["v/a/2", "v/a/3"]
        assert await it.json("v/a/3") == {"kind": "a", "id": 3, "x": 3}
        with pytest.raises(ResourceNotFound):
            await it.read("v/c/4")
        pages = await it.pages("v/~rows?limit=1")
        assert [row["id"] for (row,) in pages] == [2, 3, 1]
        schema = await it.json("v/~schema?format=json")
        assert schema["key"] == {"kind": "declared", "columns": ["kind", "id"]}


# -- links


@asynccontextmanager
async def linked(owner: Owner, **tables: Any) -> AsyncGenerator[Served]:
    text = TEXT[owner.engine]
    await owner.run(
        f"create table shops (land {text}, number integer, primary key (land, number))",
        "create table people (id integer primary key)",
        f"create table orders (id integer primary key, buyer integer, land {text}, number integer,"
        " foreign key (buyer) references people (id),"
        " foreign key (land, number) references shops (land, number))",
        "insert into shops values ('a/b', 7)",
        "insert into people values (5)",
        "insert into orders values (1, 5, 'a/b', 7), (2, NULL, NULL, 7)",
    )
    async with served(owner, tables=tables) as it:
        yield it


async def test_a_row_links_to_the_rows_it_refers_to(owner: Owner) -> None:
    async with linked(owner) as it:
        row = await it.json("orders/1")
        assert row.pop("_links") == {
            "buyer": f"{it.base}people/5",
            "land, number": f"{it.base}shops/~ta~2Fb/7",
        }
        assert row == {"id": 1, "buyer": 5, "land": "a/b", "number": 7}
        for uri in (await it.json("orders/1"))["_links"].values():
            assert (await it.catalog.metadata(uri)).uri == uri
        assert "_links" not in await it.json("orders/2")


@pytest.mark.parametrize(
    "hidden",
    [False, TableOptions(rows=False), TableOptions(columns=ColumnOptions(hide=("id",)))],
    ids=["the table", "its rows", "its key"],
)
async def test_a_row_does_not_link_to_hidden_tables_or_columns(
    owner: Owner, hidden: TableOptions | Literal[False]
) -> None:
    async with linked(owner, people=hidden) as it:
        assert (await it.json("orders/1"))["_links"].keys() == {"land, number"}
        schema = await it.text("orders/~schema?format=json")
        assert ("people" in schema) == (hidden is not False and not hidden.columns.hide)


# -- values

VALUES: dict[str, dict[str, tuple[str, str, object]]] = {
    # For each engine: name, column type, value in SQL and JSON form.
    "sqlite": {
        "integer": ("integer", "9223372036854775807", str(2**63 - 1)),
        "least": ("integer", "-9223372036854775807 - 1", str(-(2**63))),
        "real": ("real", "0.1", 0.1),
        "infinite": ("real", "-9e999", "-Infinity"),
        "decimal": ("decimal(10, 2)", "1.10", 1.1),
        "boolean": ("boolean", "1", True),
        "truth": ("boolean", "7", 7),
        "text": ("text", "'é😀'", "é😀"),
        "bad_text": ("text", "cast(x'61ff' as text)", {"$blob": "Yf8=", "bytes": 2}),
        "blob": ("blob", "x'00ff'", {"$blob": "AP8=", "bytes": 2}),
        "date": ("date", "'2026-11-20'", "2026-11-20"),
        "timestamp": ("timestamp", "'2026-11-20 10:00'", "2026-11-20 10:00"),
        "dirty": ("date", "'not a date'", "not a date"),
        "json": ("json", """'{"a": [1, 2.50]}'""", {"a": [1, 2.5]}),
        "bad_json": ("json", "'{nope'", "{nope"),
    },
    "postgresql": {
        "integer": ("bigint", "9223372036854775807", str(2**63 - 1)),
        "least": ("bigint", "-9223372036854775808", str(-(2**63))),
        "real": ("double precision", "0.1", 0.1),
        "single": ("real", "0.5", 0.5),
        "not_a_number": ("double precision", "'NaN'", "NaN"),
        "infinite": ("double precision", "'-Infinity'", "-Infinity"),
        "decimal": ("numeric(10, 2)", "1.1", "1.10"),
        "large": ("numeric", "18446744073709551616", "18446744073709551616"),
        "decimal_nan": ("numeric", "'NaN'", "NaN"),
        "boolean": ("boolean", "true", True),
        "text": ("text", "'é😀'", "é😀"),
        "padded": ("char(3)", "'a'", "a  "),
        "enumeration": ("mood", "'it''s ok'", "it's ok"),
        "blob": ("bytea", r"'\x00ff'", {"$blob": "AP8=", "bytes": 2}),
        "date": ("date", "'2026-11-20'", "2026-11-20"),
        "time": ("time", "'10:00:00.5'", "10:00:00.500000"),
        "timestamp": ("timestamp", "'2026-11-20 10:00'", "2026-11-20T10:00:00"),
        "instant": ("timestamptz", "'2026-11-20 10:00+02'", "2026-11-20T08:00:00Z"),
        "uuid": (
            "uuid",
            "'6F9619FF-8B86-D011-B42D-00CF4FC964FF'",
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        ),
        "address": ("inet", "'10.0.0.1'", "10.0.0.1"),
        "network": ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
        "json": ("jsonb", """'{"a": [1, 2.50]}'""", {"a": [1, 2.5]}),
        "array": ("integer[]", "'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
        "composite": ("pair", "row(1, 'x')", {"a": 1, "b": "x"}),
        "range": ("int4range", "'[1,5)'", "[1,5)"),
        "point": ("point", "'(1,2.5)'", "(1,2.5)"),
        "bits": ("bit(3)", "B'101'", "101"),
    },
    "firebird": {
        "integer": ("bigint", "9223372036854775807", str(2**63 - 1)),
        "least": ("bigint", "-9223372036854775807 - 1", str(-(2**63))),
        "small": ("smallint", "-7", -7),
        "real": ("double precision", "0.1", 0.1),
        "single": ("float", "0.1", 0.1),
        "decimal": ("decimal(10, 2)", "1.1", "1.10"),
        "boolean": ("boolean", "true", True),
        "text": ("blob sub_type text", "'é😀'", "é😀"),
        "padded": ("char(3)", "'a'", "a  "),
        "blob": ("blob", "x'00ff'", {"$blob": "AP8=", "bytes": 2}),
        "bytes": ("varchar(3) character set octets", "x'00ff'", {"$blob": "AP8=", "bytes": 2}),
        "date": ("date", "'2026-11-20'", "2026-11-20"),
        "time": ("time", "'10:00:00.5'", "10:00:00.500000"),
        "timestamp": ("timestamp", "'2026-11-20 10:00'", "2026-11-20T10:00:00"),
    },
    "mariadb": {
        "integer": ("bigint", "9223372036854775807", str(2**63 - 1)),
        "least": ("bigint", "-9223372036854775808", str(-(2**63))),
        "large": ("bigint unsigned", "18446744073709551615", str(2**64 - 1)),
        "real": ("double", "0.1", 0.1),
        "decimal": ("decimal(10, 2)", "1.1", "1.10"),
        "boolean": ("boolean", "true", True),
        "truth": ("boolean", "7", 7),
        "text": ("text", "'é😀'", "é😀"),
        "enumeration": ("enum('sad', 'it''s ok')", "'it''s ok'", "it's ok"),
        "members": ("set('x', 'y', 'z')", "'z,x'", "x,z"),
        "blob": ("blob", "x'00ff'", {"$blob": "AP8=", "bytes": 2}),
        "date": ("date", "'2026-11-20'", "2026-11-20"),
        "time": ("time(1)", "'-100:00:00.5'", "-100:00:00.500000"),
        "timestamp": ("datetime", "'2026-11-20 10:00'", "2026-11-20T10:00:00"),
        "uuid": (
            "uuid",
            "'6F9619FF-8B86-D011-B42D-00CF4FC964FF'",
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        ),
        "json": ("json", """'{"a": [1, 2.50]}'""", {"a": [1, 2.5]}),
        "bits": ("bit(5)", "b'101'", 5),
    },
    "duckdb": {
        "integer": ("bigint", "9223372036854775807", str(2**63 - 1)),
        "least": ("bigint", "-9223372036854775808", str(-(2**63))),
        "large": ("ubigint", "18446744073709551615", str(2**64 - 1)),
        "huge": ("hugeint", "170141183460469231731687303715884105727", str(2**127 - 1)),
        "real": ("double", "0.1", 0.1),
        "single": ("float", "0.1", 0.1),
        "not_finite": ("double", "'-infinity'", "-Infinity"),
        "decimal": ("decimal(10, 2)", "1.1", "1.10"),
        "boolean": ("boolean", "true", True),
        "text": ("text", "'é😀'", "é😀"),
        "enumeration": ("enum('sad', 'it''s ok')", "'it''s ok'", "it's ok"),
        "blob": ("blob", r"'\x00\xff'::blob", {"$blob": "AP8=", "bytes": 2}),
        "date": ("date", "'2026-11-20'", "2026-11-20"),
        "endless": ("date", "'infinity'", "infinity"),
        "time": ("time", "'10:00:00.5'", "10:00:00.500000"),
        "timestamp": ("timestamp", "'2026-11-20 10:00'", "2026-11-20T10:00:00"),
        "instant": ("timestamptz", "'2026-11-20 10:00+02'", "2026-11-20T08:00:00Z"),
        "fine": (
            "timestamp_ns",
            "'2026-11-20 10:00:00.123456789'",
            "2026-11-20 10:00:00.123456789",
        ),
        "duration": ("interval", "interval '1 month 3 days'", "1 month 3 days"),
        "uuid": (
            "uuid",
            "'6F9619FF-8B86-D011-B42D-00CF4FC964FF'",
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        ),
        "json": ("json", """'{"a": [1, 2.50]}'""", {"a": [1, 2.5]}),
        "array": ("integer[][]", "[[1, 2], [3, NULL]]", [[1, 2], [3, None]]),
        "instants": ("timestamptz[]", "['2026-11-20 10:00+02']", ["2026-11-20 08:00:00+00"]),
        "composite": ("struct(a integer, b text)", "{'a': 1, 'b': 'x'}", {"a": 1, "b": "x"}),
        "map": ("map(text, integer)", "map {'a': 1}", {"a": 1}),
        "union": ("union(number integer, word text)", "5", 5),
        "bits": ("bit", "'101'", "101"),
    },
}


DRIVERS_OWN = ("composite", "range", "json")
"""Types whose values are shown as their driver has them: JSON of MariaDB is text by its type."""


async def test_every_type_has_its_documented_form(owner: Owner) -> None:
    if owner.engine == "postgresql":
        await owner.run(
            "create type mood as enum ('sad', 'it''s ok')",
            "create type pair as (a integer, b text)",
        )
    values = VALUES[owner.engine]
    if owner.is_generic:
        values = {name: each for name, each in values.items() if name not in DRIVERS_OWN}
    columns = ", ".join(f"{name}_ {declared}" for name, (declared, _, _) in values.items())
    literals = ", ".join(literal for _, literal, _ in values.values())
    nulls = ", ".join(["NULL"] * len(values))
    await owner.run(
        f"create table t (id integer primary key, {columns})",
        f"insert into t values (1, {literals}), (2, {nulls})",
    )
    expected = {"id": 1} | {f"{name}_": form for name, (_, _, form) in values.items()}
    empty = {"id": 2} | {f"{name}_": None for name in values}
    async with served(owner) as it:
        assert await it.json("t/1") == expected
        assert (await it.json("t/~rows"))["rows"] == [expected, empty]
        by_column = await it.json("t/~rows?format=columns")
        assert by_column["columns"] == list(expected)
        assert by_column["rows"] == [list(expected.values()), list(empty.values())]
        for format in ("csv", "markdown"):
            assert len((await it.text(f"t/~rows?format={format}")).splitlines()) >= 3
        for name in values:
            assert (await it.read(f"t/1/~cell/{name}_")).content is not None
            assert await it.text(f"t/2/~cell/{name}_") == "null"


async def test_a_blob_is_truncated_in_its_row_and_complete_as_a_cell(owner: Owner) -> None:
    declared = {"postgresql": "bytea", "mariadb": "mediumblob"}.get(owner.engine, "blob")
    data = bytes(range(256)) * 20
    await owner.run(f"create table t (id integer primary key, x {declared})")
    await owner.insert("t", (1, data))
    async with served(owner) as it:
        short = {
            "$blob": b64encode(data[:1024]).decode(),
            "bytes": len(data),
            "truncated": True,
            "uri": f"{it.base}t/1/~cell/x",
        }
        assert (await it.json("t/1"))["x"] == short
        content = (await it.read("t/1/~cell/x")).content
        assert content is not None
        assert content.data == data


# -- pages


async def table_of_texts(owner: Owner) -> None:
    await owner.run(
        f"create table t (id integer primary key, x {TEXT[owner.engine]}, n integer)",
    )
    await owner.insert("t", (1, 'a "b", c', 5), (2, None, None), (3, "d|e\nf", -1))


FORMATS = {
    "json": '{"rows":[{"id":1,"x":"a \\"b\\", c","n":5},{"id":2,"x":null,"n":null},'
    '{"id":3,"x":"d|e\\nf","n":-1}],"next":null,"more":false}',
    "columns": '{"columns":["id","x","n"],"rows":[[1,"a \\"b\\", c",5],[2,null,null],'
    '[3,"d|e\\nf",-1]],"next":null,"more":false}',
    "csv": 'id,x,n\r\n1,"a ""b"", c",5\r\n2,,\r\n3,"d|e\nf",-1\r\n',
}
MIME_TYPES = {"csv": "text/csv", "markdown": "text/markdown"}


async def test_a_page_is_in_the_requested_format(owner: Owner) -> None:
    await table_of_texts(owner)
    async with served(owner) as it:
        for format, text in FORMATS.items():
            content = (await it.read(f"t/~rows?format={format}")).content
            assert content is not None
            assert content.data == text
            assert content.mime_type == MIME_TYPES.get(format, "application/json")


async def test_a_page_in_markdown_is_one_table(owner: Owner) -> None:
    await table_of_texts(owner)
    async with served(owner) as it:
        lines = (await it.text("t/~rows?format=markdown&limit=2")).splitlines()
        assert lines[0] == "# t"
        assert [line.count("|") for line in lines[2:6]] == [4] * 4
        assert "\\*" not in lines[5]
        assert "*NULL*" in lines[5]
        following = lines[-1].partition("<")[2].partition(">")[0]
        assert lines[-1] == f"More rows follow: <{following}>"
        rest = (await it.text(following.removeprefix(it.base))).splitlines()
        assert len(rest) == 5
        assert rest[-1].count("|") - rest[-1].count("\\|") == 4


async def test_a_page_has_the_requested_columns_in_order(owner: Owner) -> None:
    await table_of_texts(owner)
    async with served(owner) as it:
        assert await it.text("t/~rows?columns=n,id&format=csv") == "n,id\r\n5,1\r\n,2\r\n-1,3\r\n"
        page = await it.json("t/~rows?columns=n&limit=1")
        assert page["rows"] == [{"n": 5}]
        assert page["next"].startswith(f"{it.base}t/~rows?")
        assert await it.pages("t/~rows?columns=n&limit=1") == [[{"n": n}] for n in (5, None, -1)]


async def test_the_next_page_keeps_the_requested_options(owner: Owner) -> None:
    await table_of_texts(owner)
    async with served(owner) as it:
        page = await it.json("t/~rows?format=columns&columns=x,id&limit=1")
        following = await it.json(page["next"].removeprefix(it.base))
        assert following["columns"] == ["x", "id"]
        assert following["rows"] == [[None, 2]]


async def test_the_rows_of_a_page_are_limited(owner: Owner) -> None:
    await numbered(owner, 30)
    async with served(owner, limits=ReadLimits(rows=4, max_rows=9)) as it:
        assert len((await it.json("t/~rows"))["rows"]) == 4
        assert len((await it.json("t/~rows?limit=6"))["rows"]) == 6
        assert len((await it.json("t/~rows?limit=100"))["rows"]) == 9
        for query in ("", "?limit=6", "?limit=100"):
            pages = await it.pages(f"t/~rows{query}")
            assert [row["id"] for page in pages for row in page] == list(range(1, 31))


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_truncated_page_is_marked_with_its_continuation(owner: Owner) -> None:
    await owner.run(f"create table t (id integer primary key, x {TEXT[owner.engine]})")
    await owner.insert("t", *((number, str(number) * 300) for number in range(1, 9)))
    async with served(owner, limits=ReadLimits(bytes=ByteSize(1500))) as it:
        found: list[int] = []
        path = "t/~rows"
        while path:
            body = await it.read(path)
            assert body.content is not None
            assert len(body.content.data) <= 1500
            found += [row["id"] for row in json.loads(body.content.data)["rows"]]
            path = (body.next_uri or "").removeprefix(it.base)
            assert (body.content.truncated is None) == (not path)
        assert found == list(range(1, 9))
        content = (await it.read("t/~rows")).content
        assert content is not None
        assert content.truncated is not None
        assert (content.truncated.reason, content.truncated.unit) == ("limit", "rows")


@pytest.mark.guarantee("nothing-is-silently-short")
async def test_a_truncated_value_is_marked(owner: Owner) -> None:
    await owner.run(f"create table t (id integer primary key, x {TEXT[owner.engine]})")
    await owner.insert("t", (1, "é" * 100), (2, "é" * 10))
    async with served(owner, limits=ReadLimits(cell=ByteSize(20))) as it:
        uri = f"{it.base}t/1/~cell/x"
        cut = {"$text": "é" * 20, "characters": 100, "truncated": True, "uri": uri}
        assert (await it.json("t/1"))["x"] == cut
        assert [row["x"] for row in (await it.json("t/~rows"))["rows"]] == [cut, "é" * 10]


async def test_a_cursor_of_a_changed_table_is_refused(owner: Owner) -> None:
    await numbered(owner, 3)
    async with served(owner) as it:
        path = (await it.json("t/~rows?limit=1"))["next"].removeprefix(it.base)
        assert [row["id"] for row in (await it.json(path))["rows"]] == [2]
        await owner.run("alter table t add column more integer")
        with pytest.raises(InvalidParameter, match="expired"):
            await it.read(path)


async def test_a_cursor_of_another_table_is_refused(owner: Owner) -> None:
    await numbered(owner, 3)
    await owner.run("create table u (id integer primary key)")
    async with served(owner) as it:
        following = (await it.json("t/~rows?limit=1"))["next"]
        with pytest.raises(InvalidParameter):
            await it.read(following.removeprefix(it.base).replace("t/", "u/", 1))


@pytest.mark.guarantee("every-row-once")
async def test_paging_is_stable_while_rows_are_added_and_removed(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key)")
    await owner.insert("t", *((number,) for number in range(0, 100, 10)))
    async with served(owner) as it:
        page = await it.json("t/~rows?limit=4")
        assert [row["id"] for row in page["rows"]] == [0, 10, 20, 30]
        await owner.run(
            "insert into t values (-5)",  # behind
            "insert into t values (25)",
            "insert into t values (35)",  # before
            "delete from t where id = 30",  # where the page ended
            "delete from t where id = 60",
        )
        path = page["next"].removeprefix(it.base)
        found = [row["id"] for page in await it.pages(path) for row in page]
        assert found == [35, 40, 50, 70, 80, 90]


# -- hidden data


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_a_hidden_table_is_invisible_everywhere(owner: Owner) -> None:
    await numbered(owner, 1)
    await owner.run(
        "create table audit_log (id integer primary key)",
        "create table audit_old (id integer primary key)",
    )
    async with served(owner, tables={"audit_*": False}) as it:
        assert await it.children() == ["t"]
        assert not any("audit" in entry.uri for entry in await it.entries())
        for path in ("audit_log", "audit_log/~rows", "audit_log/~schema", "audit_old/1"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
        template = next(t for t in await templates(it) if "~rows" in t)
        completion = await it.catalog.complete(template, "table", "")
        assert list(completion.values) == ["t"]


async def templates(it: Served) -> list[str]:
    return [entry.uri_template for entry in (await it.catalog.templates()).templates]


HIDING = TableOptions(
    columns=ColumnOptions(hide=("salary",), mask={"mail": "redact"}), where="name <> 'Bo'"
)


PROTECTED = (
    *("people", "people/1", "people/1/~cell/mail", "people/~schema", "people/~schema?format=json"),
    *("people/~rows", *(f"people/~rows?format={each}" for each in ("columns", "csv", "markdown"))),
)


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_hidden_and_masked_content_is_protected_on_every_path(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    async with served(owner, tables={"people": HIDING}) as it:
        for path in PROTECTED:
            reading = await it.catalog.read(it.base + path)
            shown = "".join(
                str(body.content.data) for body in reading.items if body.content is not None
            )
            assert shown, path
            for secret in ("ada@", "9000", "Bo", "bo@", "7000", "salary"):
                assert secret not in shown, path
            if "schema" not in path:
                assert "***" in shown.replace("\\", ""), path


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_hidden_content_is_not_found(owner: Owner) -> None:
    paths = ("people/2", "people/1/~cell/salary", "people/2/~cell/name", "people/2/~cell/salary")
    await owner.run(*PEOPLE)
    async with served(owner) as it:
        for path in paths:
            await it.read(path)
    async with served(owner, tables={"people": HIDING}) as it:
        for path in paths:
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"read {path}: {await it.read(path)}")
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"metadata of {path}: {await it.entry(path)}")


async def test_a_hidden_column_is_refused_like_an_unknown_one(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    async with served(owner, tables={"people": HIDING}) as it:
        for query in ("columns=salary", "columns=id,salary", "columns=SALARY"):
            with pytest.raises(InvalidParameter) as refused:
                await it.read(f"people/~rows?{query}")
            with pytest.raises(InvalidParameter) as unknown:
                await it.read(f"people/~rows?{query.replace('salary', 'celery')}")
            assert str(refused.value) == str(unknown.value).replace("celery", "salary")


async def test_each_mask_has_its_documented_form(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, a varchar(20), b varchar(20), c varchar(20))",
        "insert into t values (1, '1234567890', 'x', 'x'), (2, '1234', 'x', 'y'),"
        " (3, NULL, NULL, NULL)",
    )
    masks = TableOptions(columns=ColumnOptions(mask={"a": "last4", "b": "hash", "c": "redact"}))
    async with served(owner, tables={"t": masks}) as it:
        rows = (await it.json("t/~rows"))["rows"]
        assert [row["a"] for row in rows] == ["…7890", "***", None]
        assert rows[0]["b"] == rows[1]["b"] not in ("x", None)
        assert rows[2]["b"] is None
        assert [row["c"] for row in rows] == ["***", "***", None]
        assert await it.text("t/1/~cell/a") == "…7890"
        assert await it.json("t/1") == rows[0]


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_where_applies_to_listings_prefixes_counts_and_versions(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer, b integer, secret integer, primary key (a, b))",
        "insert into t values (1, 1, 0), (1, 2, 1), (2, 1, 1), (3, 1, 0)",
    )
    async with served(owner, tables={"t": TableOptions(where="secret = 0")}) as it:
        assert await it.rows("t") == ["t/1", "t/3"]
        assert await it.rows("t/1") == ["t/1/1"]
        assert await it.rows("t/2") == []
        for path in ("t/2", "t/2/1", "t/1/2", "t/1/2/~cell/a"):
            with pytest.raises(ResourceNotFound):
                await it.entry(path)
        details = (await it.entry("t")).resource.details
        assert details is not None
        assert details["table"]["rowCount"] == 2
        assert [len(page) for page in await it.pages("t/~rows?limit=1")] == [1, 1]


async def test_where_may_read_a_hidden_column(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    options = TableOptions(columns=ColumnOptions(hide=("salary",)), where="salary > 8000")
    async with served(owner, tables={"people": options}) as it:
        assert await it.rows("people") == ["people/1"]
        assert (await it.json("people/~rows"))["rows"] == [
            {"id": 1, "name": "Ada", "mail": "ada@example.org"}
        ]


async def test_where_is_always_a_single_condition(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    where = "name = 'Ada' or name = 'x' -- or '"
    async with served(owner, tables={"people": TableOptions(where=where)}) as it:
        assert await it.rows("people") == ["people/1"]
        with pytest.raises(ResourceNotFound):
            await it.read("people/2")


async def test_a_table_with_hidden_rows_shows_only_its_schema(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    async with served(owner, tables={"people": TableOptions(rows=False)}) as it:
        assert await it.children("people") == ["people/~schema"]
        assert "name" in await it.text("people/~schema")
        for path in ("people/1", "people/~rows", "people/1/~cell/name"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
        details = (await it.entry("people")).resource.details
        assert details is not None
        assert "rowCount" not in details["table"]


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_hidden_values_are_not_suggested(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    queries = {"q": Query(sql="select 1 as one")}
    async with served(owner, tables={"people": HIDING}, queries=queries) as it:
        for entry in (await it.catalog.templates()).templates:
            for variable in uris.template_variables(entry.uri_template):
                for typed in ("", "2", "B", "s", "bo"):
                    given = {"schema": owner.prefix.rstrip("/"), "table": "people"}
                    found = await it.catalog.complete(entry.uri_template, variable, typed, given)
                    assert {"2", "Bo", "salary", "bo@example.org"}.isdisjoint(found.values)


# -- declared queries

GOODS = (
    "create table goods (id integer primary key, s varchar(20), i bigint, n double precision,"
    " b boolean, d date, w timestamp)",
    "insert into goods values (1, 'x''y', 9223372036854775807, 0.5, true, '2026-01-31',"
    " '2026-01-31{}12:30:00'), (2, 'z', -7, 2, false, '2027-01-31', '2027-01-31{}12:30:00')",
)
PARAMETERS: dict[str, tuple[Any, str, str]] = {
    # A parameter type and the values that find each of the two rows.
    "s": ("string", "x%27y", "z"),
    "i": ("integer", "9223372036854775807", "-7"),
    "n": ("number", "0.5", "2"),
    "b": ("boolean", "true", "0"),
    "d": ("date", "2026-01-31", "2027-01-31"),
    "w": ("datetime", "2026-01-31T12:30:00", "2027-01-31T12:30"),
}


async def goods(owner: Owner) -> None:
    make, fill = GOODS
    if owner.engine == "mariadb":
        # MariaDB updates timestamps by itself.
        make = make.replace("timestamp", "datetime")
    # SQLite stores dates as text.
    await owner.run(make, fill.replace("{}", "T" if owner.engine == "sqlite" else " "))


def query(sql: str, **parameters: Parameter) -> dict[str, Query]:
    return {"q": Query(sql=sql, parameters=parameters)}


async def test_a_query_takes_parameters_of_every_type(owner: Owner) -> None:
    await goods(owner)
    queries = {
        f"by_{name}": Query(
            sql=f"select id from goods where {name} = :{name}",
            parameters={name: Parameter(type=type_)},
        )
        for name, (type_, _, _) in PARAMETERS.items()
    }
    async with served(owner, queries=queries) as it:
        for name, (type_, first, second) in PARAMETERS.items():
            assert await it.query(f"by_{name}?{name}={first}") == [{"id": 1}], name
            assert await it.query(f"by_{name}?{name}={second}") == [{"id": 2}], name
            with pytest.raises(InvalidParameter, match=f"{name} is required"):
                await it.query(f"by_{name}")
            if type_ != "string":
                for wrong in ("", "x", "1%27", "1;drop%20table%20goods", "nan", "2026-13-01"):
                    with pytest.raises(InvalidParameter, match=f"{name} must be"):
                        await it.query(f"by_{name}?{name}={wrong}")


async def test_a_text_parameter_is_never_interpreted_as_sql(owner: Owner) -> None:
    await goods(owner)
    queries = query("select id from goods where s = :s", s=Parameter())
    async with served(owner, queries=queries) as it:
        for text in (
            "' or 1=1 --",
            "x'y' or '",
            "\\' or 1=1 -- ",
            "%",
            "%s",
            ":s",
            "$1",
            "?",
            "\n",
        ):
            assert await it.query(f"q?s={uris.quote_segment(text).replace('&', '%26')}") == []


async def test_a_parameter_is_within_its_bounds(owner: Owner) -> None:
    await goods(owner)
    queries = query(
        "select id from goods where id >= :low and s <> :word",
        low=Parameter(type="integer", minimum=1, maximum=2),
        word=Parameter(max_length=3, default="none"[:3]),
    )
    async with served(owner, queries=queries) as it:
        assert await it.query("q?low=2") == [{"id": 2}]
        for wrong in ("0", "3", "1.5"):
            with pytest.raises(InvalidParameter, match="from 1 to 2"):
                await it.query(f"q?low={wrong}")
        with pytest.raises(InvalidParameter, match="at most 3"):
            await it.query("q?low=1&word=four")


async def test_a_parameter_has_one_of_its_values(owner: Owner) -> None:
    await goods(owner)
    queries = query(
        "select id from goods where s = :s and id = :id",
        s=Parameter(enum=("x'y", "z")),
        id=Parameter(type="integer", enum=(1, 2), default=2),
    )
    async with served(owner, queries=queries) as it:
        assert await it.query("q?s=z") == [{"id": 2}]
        assert await it.query("q?s=z&id=1") == []
        with pytest.raises(InvalidParameter, match="one of"):
            await it.query("q?s=y")
        template = next(each for each in await templates(it) if "/~query/q" in each)
        completion = await it.catalog.complete(template, "s", "")
        assert set(completion.values) == {"x'y", "z"}


async def test_an_omitted_optional_parameter_is_null(owner: Owner) -> None:
    await goods(owner)
    queries = query(
        "select id from goods where (s = :s or :s is null) and (i = :i or :i is null) order by id",
        s=Parameter(optional=True),
        i=Parameter(type="integer", optional=True),
    )
    async with served(owner, queries=queries) as it:
        assert await it.query("q") == [{"id": 1}, {"id": 2}]
        assert await it.query("q?s=z") == [{"id": 2}]
        assert await it.query("q?s=z&i=-7") == [{"id": 2}]
        assert await it.query("q?i=5") == []


async def test_all_problems_of_query_parameters_are_reported_together(owner: Owner) -> None:
    await goods(owner)
    queries = query(
        "select id from goods where i = :i and s = :s", i=Parameter(type="integer"), s=Parameter()
    )
    async with served(owner, queries=queries) as it:
        with pytest.raises(InvalidParameter) as refused:
            await it.query("q?i=x&more=1")
        for told in ("i must be an integer", "s is required", "more"):
            assert told in str(refused.value)


async def test_a_query_is_listed_as_a_document(owner: Owner) -> None:
    await goods(owner)
    queries = {
        "all": Query(sql="select id from goods order by id", title="All goods"),
        "one": Query(sql="select id from goods where id = :id", parameters={"id": Parameter()}),
    }
    async with served(owner, queries=queries) as it:
        entries = [entry for entry in await it.entries() if entry.uri.startswith(f"{BASE}~query")]
        # A query with a required parameter cannot be read as it is listed: it is a template.
        assert [entry.uri for entry in entries] == [f"{BASE}~query", f"{BASE}~query/all"]
        children = await it.catalog.list(f"{BASE}~query")
        assert [entry.uri for entry in children.entries] == [f"{BASE}~query/all"]
        assert children.next_cursor is None
        templates = [each.uri_template for each in (await it.catalog.templates()).templates]
        assert any(each.startswith(f"{BASE}~query/one?") for each in templates), templates
        assert (await it.catalog.metadata(f"{BASE}~query/one")).resource.name == "one"
        assert entries[1].resource.title == "All goods"
        formats = {format.name for format in entries[1].resource.formats}
        assert formats - {"svg", "png"} == {"columns", "csv", "markdown", "vega-lite"}
        (body,) = (await it.catalog.read(f"{BASE}~query/all?format=csv")).items
        assert body.content is not None
        assert body.content.data == "id\r\n1\r\n2\r\n"
        with pytest.raises(ResourceNotFound):
            await it.query("none")


async def test_the_rows_of_a_query_are_limited(owner: Owner) -> None:
    await numbered(owner, 20)
    queries = {
        "some": Query(sql="select id from t order by id", rows=3),
        "many": Query(
            sql="select id from t order by id",
            parameters={"limit": Parameter(type="integer", default=2, maximum=10)},
        ),
    }
    async with served(owner, queries=queries) as it:
        for name, expected in (("some", 3), ("many", 2), ("many?limit=7", 7)):
            (body,) = (await it.catalog.read(f"{BASE}~query/{name}")).items
            assert body.content is not None
            result = json.loads(body.content.data)
            assert [row["id"] for row in result["rows"]] == list(range(1, expected + 1))
            assert (result["more"], result["next"]) == (True, None)
            assert body.content.truncated is not None
            assert body.content.truncated.reason == "limit"
        with pytest.raises(InvalidParameter):
            await it.query("many?limit=11")


async def test_a_refused_query_reveals_nothing_of_its_sql(owner: Owner) -> None:
    await numbered(owner, 1)
    queries = query("select secret_column from t")
    async with served(owner, queries=queries) as it:
        with pytest.raises(InvalidParameter) as refused:
            await it.query("q")
        assert "secret" not in str(refused.value)


# -- schemas that change


async def test_an_added_column_is_visible(owner: Owner) -> None:
    await numbered(owner, 1)
    async with served(owner) as it:
        before = await it.text("t/~schema")
        assert await it.json("t/1") == {"id": 1, "name": "name 1"}
        await owner.run("alter table t add column more integer default 7")
        row = {"id": 1, "name": "name 1", "more": 7}
        assert await it.json("t/1") == row
        assert (await it.json("t/~rows"))["rows"] == [row]
        assert await it.text("t/1/~cell/more") == "7"
        after = await it.text("t/~schema")
        assert "more" in after
        assert "more" not in before


async def test_a_dropped_column_is_gone(owner: Owner) -> None:
    await numbered(owner, 1)
    async with served(owner) as it:
        await it.read("t/1/~cell/name")
        await owner.run("alter table t drop column name")
        assert await it.json("t/1") == {"id": 1}
        with pytest.raises(ResourceNotFound):
            await it.read("t/1/~cell/name")
        with pytest.raises(InvalidParameter):
            await it.read("t/~rows?columns=name")


async def test_dropped_tables_are_gone_and_created_tables_are_listed(owner: Owner) -> None:
    await numbered(owner, 1)
    await owner.run("create table stays (id integer primary key)")
    async with served(owner) as it:
        await it.read("t/1")
        await owner.run("drop table t", "create table new (id integer primary key)")
        assert await it.children() == ["new", "stays"]
        for path in ("t", "t/1", "t/~rows", "t/~schema"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
        assert (await it.json("new/~rows"))["rows"] == []


async def test_a_changed_primary_key_changes_the_addresses_of_rows(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer not null, b integer not null, primary key (a))",
        "insert into t values (1, 10)",
    )
    async with served(owner) as it:
        assert await it.rows("t") == ["t/1"]
        await owner.run(
            "drop table t",
            "create table t (a integer not null, b integer not null, primary key (b))",
            "insert into t values (1, 10)",
        )
        assert await it.rows("t") == ["t/10"]
        with pytest.raises(ResourceNotFound):
            await it.read("t/1")


# -- changes


class Subscribed:
    """A client with subscriptions to a database, and its notifications."""

    def __init__(self, it: Served, owner: Owner) -> None:
        self.it = it
        self._owner = owner
        self._live = Broker(it.catalog, IMPATIENT)
        self._recorder = Recorder()

    async def subscribe(self, *paths: str) -> None:
        for path in paths:
            base = BASE if path.startswith("~query") else self.it.base
            await self._live.subscribe((base + path).rstrip("/"), self._recorder)

    async def tells(self, expected: Sequence[str], *statements: str) -> None:
        """Assert that these statements lead to exactly these notifications."""
        await self._owner.run(*statements)
        root = self._owner.prefix.rstrip("/")
        above = ("", root, "~query/q", "~query/d")
        paths = {path if path in above else self._owner.prefix + path for path in expected}
        await self._recorder.of(*paths)
        # Notifications of a later commit come last.
        await self._owner.run("update marker set x = x + 1")
        await self._recorder.of(f"{self._owner.prefix}marker/1")
        told = {*await self._recorder.quiet(0.1)} - {f"{self._owner.prefix}marker/1"}
        assert told == paths, statements

    async def close(self) -> None:
        await self._live.close()


MARKER = (
    "create table marker (id integer primary key, x integer)",
    "insert into marker values (1, 0)",
)


@asynccontextmanager
async def subscribed(owner: Owner, *paths: str, **options: Any) -> AsyncGenerator[Subscribed]:
    await owner.run(*MARKER)
    async with served(owner, interval=0.02, **options) as it:
        client = Subscribed(it, owner)
        try:
            await client.subscribe("marker/1", *paths)
            yield client
        finally:
            await client.close()


WATCHED = ("t", "t/1", "t/2", "t/~rows", "t/~schema", "t/1/~cell/name", "~query/q", "u/1", "u")
ROW_1 = ["t", "t/1", "t/1/~cell/name", "t/~rows", "~query/q"]
ROW_2 = ["t", "t/2", "t/~rows", "~query/q"]
TOLD: dict[str, tuple[tuple[str, ...], list[str]]] = {
    # One after the other, each with the statements of a change and what is notified of it.
    "a row is updated": (("update t set name = 'x' where id = 1",), ROW_1),
    "another row is updated": (("update t set name = 'x' where id = 2",), ROW_2),
    "an update changes nothing": (("update t set name = name",), []),
    "an update is of no row": (("update t set name = 'y' where id = 7",), []),
    "a transaction is rolled back": (
        ("begin", "update t set name = 'y'", "delete from u", "rollback"),
        [],
    ),
    "a row is as it was at the end": (
        (
            "begin",
            "update t set name = 'y' where id = 1",
            "update t set name = 'x' where id = 1",
            "commit",
        ),
        [],
    ),
    "a row is deleted and inserted again": (
        ("begin", "delete from t where id = 1", "insert into t values (1, 'x')", "commit"),
        [],
    ),
    "two tables are changed": (
        ("begin", "update u set x = 5", "update t set name = 'y' where id = 2", "commit"),
        sorted([*ROW_2, "u", "u/1"]),
    ),
    "a table that nobody watches is changed": (("insert into w values (1)",), []),
    "a row is deleted": (("delete from t where id = 2",), ROW_2),
    "a row is inserted": (("insert into t values (3, 'x')",), ["t", "t/~rows", "~query/q"]),
}


async def watched_tables(owner: Owner) -> None:
    await numbered(owner, 2)
    await owner.run(
        "create table u (id integer primary key, x integer)",
        "create table w (id integer primary key)",
        "insert into u values (1, 0)",
    )


@pytest.mark.guarantee("updates-arrive")
async def test_subscribers_are_notified_of_exactly_what_changed(owner: Owner) -> None:
    await watched_tables(owner)
    queries = query("select id, name from t order by id")
    async with subscribed(owner, *WATCHED, queries=queries) as client:
        for statements, expected in TOLD.values():
            await client.tells(expected, *statements)


async def test_a_parameterized_query_notifies_only_if_its_result_changes(
    owner: Owner,
) -> None:
    await watched_tables(owner)
    by_id = "select name from t where id = :id"
    queries = {
        "q": Query(sql=by_id, parameters={"id": Parameter(type="integer")}),
        "d": Query(sql=by_id, parameters={"id": Parameter(type="integer", default=1)}),
    }
    paths = ("~query/q?id=1", "~query/d?id=2")
    async with subscribed(owner, *paths, queries=queries, tables={"w": False}) as client:
        await client.tells([], "insert into w values (1)")
        await client.tells([], "create table hidden (id integer)", "drop table hidden")
        await client.tells(["~query/d"], "update t set name = 'x' where id = 2")
        await client.tells(["~query/q"], "update t set name = 'x' where id = 1")
        await client.tells([], "update t set name = name", "insert into t values (3, 'x')")


async def test_a_query_with_missing_parameters_never_changes(owner: Owner) -> None:
    await watched_tables(owner)
    queries = query("select name from t where id = :id", id=Parameter(type="integer"))
    async with subscribed(owner, "~query/q", queries=queries) as client:
        await client.tells([], "update t set name = 'x' where id = 1")


async def test_a_restored_row_is_notified(owner: Owner) -> None:
    await watched_tables(owner)
    async with subscribed(owner, "t/1") as client:
        await client.tells(["t/1"], "delete from t where id = 1")
        await client.tells([], "insert into t values (2001, 'x')")
        await client.tells(["t/1"], "insert into t values (1, 'name 1')")
        await client.tells(["t/1"], "update t set name = 'y' where id = 1")


async def test_a_row_whose_key_changes_its_case_is_notified(owner: Owner) -> None:
    if owner.engine == "duckdb":
        pytest.skip("columns with a collation are no keys of DuckDB tables")
    collation = {
        "sqlite": "nocase",
        "postgresql": "anycase",
        "mariadb": "utf8mb4_general_ci",
        "firebird": "unicode_ci",
    }
    if owner.engine == "postgresql":
        await owner.run(
            "create collation anycase (provider = icu, locale = 'und-u-ks-level2',"
            " deterministic = false)"
        )
    await owner.run(
        f"create table t (k varchar(9) collate {collation[owner.engine]}, x integer,"
        " primary key (k))",
        "insert into t values ('ada', 0)",
    )
    async with subscribed(owner, "t/ada") as client:
        assert (await client.it.entry("t/ADA")).uri == client.it.base + "t/ada"
        await client.tells(["t/ada"], "update t set k = 'ADA'")
        await client.tells(["t/ada"], "update t set x = 1")
        await client.tells(["t/ada"], "update t set x = 2")


async def test_a_row_that_changes_its_key_is_notified_at_both_addresses(owner: Owner) -> None:
    await watched_tables(owner)
    async with subscribed(owner, "t/1", "t/02") as client:
        moves = "update t set id = 7 where id = 1", "update t set id = 1 where id = 2"
        await client.tells(["t/1", "t/2"], "begin", *moves, "commit")
        await client.tells(["t/2"], "update t set id = 2 where id = 7")


async def test_a_row_beyond_the_first_page_is_notified_with_its_table(owner: Owner) -> None:
    await numbered(owner, 150)
    async with subscribed(owner, "t", "t/~rows", "t/140") as client:
        await client.tells(["t", "t/140"], "update t set name = 'x' where id = 140")
        await client.tells(["t", "t/~rows"], "delete from t where id = 1")


async def test_a_row_read_in_a_transient_state_is_reported_again(owner: Owner) -> None:
    await watched_tables(owner)
    await owner.run(*MARKER)
    async with Database(url=owner.url, interval=Duration(0.02), limits=UNHURRIED) as database:
        row, marker = (tuple(f"{owner.prefix}{path}".split("/")) for path in ("t/1", "marker"))
        interest = MountInterest()
        async with aclosing(cast("AsyncGenerator[Change]", database.changes(interest))) as changes:

            async def suggested() -> set[Path]:
                """Return the possible changes of all commits so far."""
                found: set[Path] = set()
                for _ in range(2):
                    await owner.run("update marker set x = x + 1")
                    async with asyncio.timeout(PATIENCE_S):
                        while (path := (await anext(changes)).path) != marker:
                            found.add(path)
                return found

            interest.add(row)
            interest.add(marker)
            await suggested()
            await owner.run("update t set name = 'x' where id = 1")
            assert row in await suggested()

            async def is_settled() -> bool:
                return row not in await suggested()

            await until(is_settled)
            # The server reads later than the watch and gets the state of that moment.
            await owner.run("update t set name = 'y' where id = 1")
            await database.metadata(row)
            await owner.run("update t set name = 'x' where id = 1")
            assert row in await suggested()


async def test_an_unneeded_watch_can_end_at_any_moment(
    owner: Owner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = replace(IMPATIENT, watch_close_s=PATIENCE_S)
    await watched_tables(owner)
    # Every commit needs another worker of DuckDB.
    step = 5 if owner.engine == "duckdb" else 1
    async with served(owner, interval=0.02) as it:
        for turns in range(0, 40, step):
            live, recorder = Broker(it.catalog, timing), Recorder()
            topic = await live.subscribe(f"{it.base}t/1", recorder)
            await owner.run(f"update t set name = 'turn {turns}' where id = 1")
            await recorder.until(lambda told=recorder: bool(told.told))
            live.unsubscribe(topic.uri, recorder)
            for _ in range(turns):
                await asyncio.sleep(0)
            await live.close()
            assert "does not end" not in caplog.text


async def test_a_prefix_of_keys_is_notified_when_its_rows_change(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer, b integer, x integer, primary key (a, b))",
        "insert into t values (1, 1, 0), (1, 2, 0), (2, 1, 0)",
    )
    async with subscribed(owner, "t", "t/1", "t/2", "t/1/2") as client:
        # `~rows` of the table has changed, too.
        await client.tells(["t", "t/1", "t/1/2"], "update t set x = 1 where a = 1 and b = 2")
        await client.tells(["t", "t/2"], "insert into t values (2, 5, 0)")
        await client.tells(["t"], "insert into t values (3, 1, 0)")
        await client.tells(["t", "t/2"], "delete from t where a = 2")


async def test_a_view_and_its_rows_are_notified_when_its_tables_change(owner: Owner) -> None:
    await numbered(owner, 3)
    await owner.run("create view v as select id, name from t where id < 3")
    options = {"v": TableOptions(key=("id",))}
    async with subscribed(owner, "v", "v/1", "v/~rows", tables=options) as client:
        await client.tells(
            [
                "v",
                "v/1",
                "v/~rows",
            ],
            "update t set name = 'x' where id = 1",
        )
        await client.tells([], "update t set name = 'x' where id = 3")


@pytest.mark.guarantee("hidden-does-not-exist")
async def test_changes_of_hidden_content_are_not_notified(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    paths = ("people", "people/1", "people/~rows", "people/~schema")
    async with subscribed(owner, *paths, tables={"people": HIDING}) as client:
        for silent in (
            "update people set salary = 1",
            "update people set mail = 'other'  where id = 1",
            "delete from people where id = 2",
            "insert into people values (4, 'Bo', 1, 'x')",
        ):
            await client.tells([], silent)
        await client.tells(
            [
                "people",
                "people/1",
                "people/~rows",
            ],
            "update people set name = 'Bo' where id = 1",
        )


async def test_an_added_column_is_notified(owner: Owner) -> None:
    await watched_tables(owner)
    async with subscribed(owner, "t", "t/1", "t/~rows", "t/~schema", "u/~schema", "") as client:
        await client.tells(
            ["t", "t/1", "t/~rows", "t/~schema"], "alter table t add column more integer default 7"
        )
        assert (await client.it.json("t/1"))["more"] == 7


async def test_dropped_and_created_tables_are_notified(owner: Owner) -> None:
    await watched_tables(owner)
    async with subscribed(owner, "t", "t/1", "t/~rows", "t/~schema", "u/1", "u", "") as client:
        root = owner.prefix.rstrip("/")
        await client.tells(["t", "t/1", "t/~rows", "t/~schema", root], "drop table t")
        await client.tells(
            ["t", "t/~rows", "t/~schema", root], "create table t (id integer primary key)"
        )


async def test_list_changed_is_sent_for_tables_and_not_for_rows(owner: Owner) -> None:
    await watched_tables(owner)
    async with served(owner, interval=0.02) as it:
        live, recorder = Broker(it.catalog, IMPATIENT), Recorder()
        await live.subscribe(f"{it.base}t/1", recorder)
        live.follow_list(recorder)
        await recorder.quiet(0.1)
        await owner.run("insert into t values (7, 'x')", "delete from t where id = 2")
        await owner.run("update t set name = 'y' where id = 1")
        await recorder.of(f"{owner.prefix}t/1")
        assert LIST not in await recorder.quiet(0.1)
        await owner.run("create table new (id integer primary key)")
        await recorder.of(LIST)
        await live.close()


async def test_unsubscribed_listeners_are_not_notified(owner: Owner) -> None:
    await watched_tables(owner)
    async with served(owner, interval=0.02) as it:
        live, gone, stays = Broker(it.catalog, IMPATIENT), Recorder(), Recorder()
        topic = await live.subscribe(f"{it.base}t/1", gone)
        await live.subscribe(f"{it.base}t/1", stays)
        live.unsubscribe(topic.uri, gone)
        await owner.run("update t set name = 'x' where id = 1")
        await stays.of(f"{owner.prefix}t/1")
        assert gone.take() == []
        await live.close()


# -- errors


NOT_THERE = (
    *("none", "none/1", "none/~rows", "none/~schema", "T%00", "information_schema", "pg_class"),
    *("sqlite_schema", "t/99", "t/x", "t/1.5", "t/99999999999999999999", "t/1/2", "t/~i", "t/~x"),
    *("t/~n", "t/~b%21", "t/~cell", "t/~rows/1", "t/~schema/1", "t/1/~cell/none"),
    *("t/1/~cell/name/x", "t/~cell/name"),
)


async def test_names_that_do_not_exist_are_not_found(owner: Owner) -> None:
    await numbered(owner, 1)
    async with served(owner) as it:
        live = Broker(it.catalog, IMPATIENT)
        for path in NOT_THERE:
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"read {path}: {await it.read(path)}")
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"metadata of {path}: {await it.entry(path)}")
            with pytest.raises(ResourceNotFound):
                await live.subscribe(it.base + path, Recorder())
        await live.close()


REFUSED = {
    "t/~rows?format=xml": "json, columns, csv, markdown",
    "t/~rows?limit=0": "limit",
    "t/~rows?limit=-1": "limit",
    "t/~rows?limit=x": "limit",
    "t/~rows?limit=1.5": "limit",
    "t/~rows?limit=%D9%A1": "limit",
    "t/~rows?limit=1&limit=2": "limit",
    "t/~rows?after=x": "cursor",
    "t/~rows?after=": "cursor",
    "t/~rows?columns=none": "none",
    "t/~rows?columns=": "column",
    "t/~rows?columns=id,,name": "column",
    "t/~rows?where=1": "where",
    "t/1?format=csv": "format",
    "t/1/~cell/name?x=1": "x",
    "t/~schema?format=csv": "markdown or json",
    "t?limit=1": "collection",
}


async def test_unusable_uri_parameters_are_refused_with_the_reason(owner: Owner) -> None:
    await numbered(owner, 1)
    async with served(owner) as it:
        for path, told in REFUSED.items():
            with pytest.raises(InvalidParameter, match=told):
                pytest.fail(f"read {path}: {await it.read(path)}")


async def test_a_document_has_no_children(owner: Owner) -> None:
    await numbered(owner, 1)
    async with served(owner) as it:
        for path in ("t/~rows", "t/~schema", "t/1", "t/1/~cell/name"):
            with pytest.raises(NotACollection):
                await it.children(path)


async def test_a_key_of_another_type_than_its_column_is_not_found(owner: Owner) -> None:
    await numbered(owner, 1)
    await owner.run(f"create table texts (k {TEXT[owner.engine]} primary key)")
    await owner.insert("t", (0, "zero"))
    await owner.insert("texts", ("5x",), ("y",))
    async with served(owner) as it:
        for path in ("t/~tx", "t/~t1x", "t/~bMQ", "t/~r1.5", "texts/~i5", "texts/~i0", "texts/~b"):
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"metadata of {path}: {await it.entry(path)}")
