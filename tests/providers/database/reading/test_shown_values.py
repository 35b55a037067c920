"""Values as pages show them, taken again by filters, orders, groups and addresses."""

from __future__ import annotations

import msgspec
import pytest

from resource_server.errors import InvalidParameter, ResourceNotFound
from tests.providers.database.owners import Owner
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio


async def _ids(it: Served, parameters: str) -> list[int]:
    return [row["id"] for row in (await it.json(f"t/~rows?{parameters}"))["rows"]]


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("url", ["duckdb"], indirect=True)
async def test_pages_go_on_after_an_infinite_timestamp(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, ts timestamp)",
        "insert into t values (1, '2024-01-01'), (2, 'infinity'), (3, '2024-01-02')",
    )
    async with served(owner) as it:
        pages = await it.pages("t/~rows?sort=ts&limit=2")
        assert [[row["id"] for row in page] for page in pages] == [[1, 3], [2]]
        assert await _ids(it, "where.ts=infinity") == [2]
        assert await _ids(it, "where.ts.lt=infinity") == [1, 3]


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_infinite_number_of_sqlite_finds_its_row(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, r real, free)",
        "insert into t values (1, 9e999, '05'), (2, -9e999, 5), (3, 'n/a', x'00ff')",
    )
    async with served(owner) as it:
        assert await _ids(it, "where.r=Infinity") == [1]
        assert await _ids(it, "where.r=-Infinity") == [2]
        assert await _ids(it, "where.r=n/a") == [3]
        assert await _ids(it, "where.free=05") == [1]
        assert await _ids(it, "where.free=5") == [2]
        assert await _ids(it, 'where.free={"$blob":"AP8=","bytes":2}') == [3]
        assert await _ids(it, "where.r.like=%25inf%25") == [1, 2]


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_zero_date_of_mariadb_is_not_null(owner: Owner) -> None:
    await owner.run(
        "set sql_mode = ''",
        "create table t (id integer primary key, d date not null, at datetime)",
        "insert into t values (1, '0000-00-00', '0000-00-00'), (2, '2026-11-20', null)",
    )
    async with served(owner) as it:
        assert await _ids(it, "where.d.null=true") == []
        assert await _ids(it, "where.d.null=false") == [1, 2]
        assert await _ids(it, "where.at.null=true") == [2]
        assert await _ids(it, "where.d=0000-00-00") == [1]
        assert await _ids(it, "where.at=0000-00-00%2000:00:00") == [1]
        assert await _ids(it, "where.d.gt=0000-00-00") == [2]


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_bits_of_mariadb_are_numbers_and_sets_are_lists(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, deleted bit(1), flags bit(9), s set('b', 'a'))",
        "insert into t values (1, 1, 256, 'a,b'), (2, 0, 1, ''), (3, 1, null, 'a')",
    )
    async with served(owner) as it:
        assert await _ids(it, "where.deleted=1") == [1, 3]
        assert await _ids(it, "where.flags.gt=1") == [1]
        assert await _ids(it, "sort=-flags&where.flags.null=false") == [1, 2]
        assert await _ids(it, "where.s=b,a") == [1]
        orders = {"s": [2, 3, 1], "deleted": [2, 1, 3], "flags": [3, 2, 1], "-deleted": [3, 1, 2]}
        for sort, expected in orders.items():
            pages = await it.pages(f"t/~rows?sort={sort}&limit=1")
            assert [row["id"] for page in pages for row in page] == expected
        groups = await it.json("t/~summary?by=deleted&sum=flags&sort=deleted")
        assert groups["rows"] == [
            {"deleted": 0, "count": 1, "sum.flags": 1},
            {"deleted": 1, "count": 2, "sum.flags": 256},
        ]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_an_aggregate_that_postgresql_lacks_is_refused_by_name(owner: Owner) -> None:
    types = ("uuid", "bytea", "jsonb", "boolean", "macaddr")
    columns = ", ".join(f"c{place} {type}" for place, type in enumerate(types))
    await owner.run(f"create table t (id integer primary key, {columns})")
    async with served(owner) as it:
        for place, type in enumerate(types):
            for function in ("min", "max", "sum"):
                reason = f"no {function} of values of type {type} .c{place}."
                with pytest.raises(InvalidParameter, match=reason):
                    await it.json(f"t/~summary?{function}=c{place}")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_the_least_network_is_spelt_as_its_row_has_it(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, c cidr)",
        "insert into t values (1, '10.0.0.1'), (2, '::/0'), (3, null)",
    )
    async with served(owner) as it:
        (found,) = (await it.json("t/~summary?min=c&max=c"))["rows"]
        assert found == {"count": 3, "min.c": "10.0.0.1/32", "max.c": "::/0"}
        for name, row in {"min.c": 1, "max.c": 2}.items():
            assert await _ids(it, f"where.c={found[name]}") == [row]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_values_beyond_the_calendar_of_python_find_their_rows(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key,"
        ' d date, f float8, c "char", bits bit(3), r int4range)',
        "insert into t values (1, '0044-03-15 BC', 'NaN', 'a', '101', '[1,5)'),"
        " (2, 'infinity', '-Infinity', '', '001', 'empty')",
    )
    async with served(owner) as it:
        (first, second) = (await it.json("t/~rows"))["rows"]
        assert (first["c"], second["c"]) == ("a", "")
        for row in (first, second):
            for name in ("d", "f", "c", "bits", "r"):
                assert await _ids(it, f"where.{name}={row[name]}") == [row["id"]], name
                pages = await it.pages(f"t/~rows?sort={name}&limit=1")
                assert sorted(row["id"] for (row,) in pages) == [1, 2], name
        with pytest.raises(InvalidParameter, match="shown otherwise"):
            await _ids(it, "where.f.like=N%25")


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("url", ["duckdb", "postgresql", "sqlite"], indirect=True)
async def test_json_null_is_not_null(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, j json)",
        "insert into t values (1, 'null'), (2, null), (4, '\"null\"'),"
        ' (3, \'{"$blob": "QQ=="}\')',
    )
    async with served(owner) as it:
        shown = {row["id"]: row["j"] for row in (await it.json("t/~rows"))["rows"]}
        assert await _ids(it, "where.j.null=true") == [2]
    assert shown == {
        1: {"$json": "null"},
        2: None,
        3: {"$json": '{"$blob": "QQ=="}'},
        4: "null",
    }


@pytest.mark.parametrize("url", ["duckdb"], indirect=True)
async def test_json_inside_a_list_is_shown_as_it_is(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, j json[], huge uhugeint)",
        "insert into t values (1, ['1', '\"x\"']::json[], 340282366920938463463374607431768211455)",
    )
    async with served(owner) as it:
        assert '"j":[1,"x"]' in await it.text("t/~rows")
        assert await _ids(it, "where.huge=340282366920938463463374607431768211455") == [1]


@pytest.mark.guarantee("as-shown-so-taken")
@pytest.mark.parametrize("url", ["mariadb", "postgresql", "duckdb", "sqlite"], indirect=True)
async def test_json_with_numbers_that_are_shown_as_text_finds_its_row(owner: Owner) -> None:
    type = "jsonb" if owner.engine == "postgresql" else "json"
    held = (
        '{"big": 12345678901234567890, "list": [0.12345678901234567891, "x"]}',
        '{"big": "12345678901234567890", "n": 98765432109876543210}',
        '{"12345678901234567890": "12345678901234567890"}',
    )
    rows = ", ".join(f"({place}, '{json}')" for place, json in enumerate(held, start=1))
    await owner.run(
        f"create table t (id integer primary key, j {type})", f"insert into t values {rows}"
    )
    async with served(owner) as it:
        text = await it.text("t/~rows")
        decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
        shown = msgspec.json.decode(text, type=dict[str, msgspec.Raw])["rows"]
        for row in msgspec.json.decode(bytes(shown), type=list[msgspec.Raw]):
            values = decoder.decode(bytes(row))
            assert '"12345678901234567890"' in (json := bytes(values["j"]).decode())
            assert await _ids(it, f"where.j={json}") == [int(bytes(values["id"]))], json


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_json_key_as_it_is_shown_reads_its_row(owner: Owner) -> None:
    await owner.run(
        "create table t (j jsonb primary key, id integer)",
        """insert into t values ('{"n": 12345678901234567890}', 1),
        ('{"n": "12345678901234567890"}', 2), ('[98765432109876543210]', 3), ('"1"', 4)""",
    )
    async with served(owner) as it:
        # The same text: the value that it spells comes first.
        assert (await it.json('t/{"n": "12345678901234567890"}'))["id"] == 2
        assert (await it.json('t/{"n": 12345678901234567890}'))["id"] == 1
        assert (await it.json('t/["98765432109876543210"]'))["id"] == 3
        assert (await it.json("t/1"))["id"] == 4


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_untyped_key_of_sqlite_as_it_is_shown_reads_its_row(owner: Owner) -> None:
    await owner.run(
        "create table t (k primary key, id)",
        "insert into t values ('20261120', 1), (20261121, 2), (5, 3), ('5', 4)",
        "create table both (k, n, id, primary key (k, n)) without rowid",
        "insert into both values ('20261120', '7', 1), (8, '7', 2)",
    )
    async with served(owner) as it:
        for path, id in {"20261120": 1, "20261121": 2, "5": 3, "~t5": 4}.items():
            assert (await it.json(f"t/{path}"))["id"] == id
        for path, id in {"20261120/7": 1, "8/7": 2, "~i8/~t7": 2}.items():
            assert (await it.json(f"both/{path}"))["id"] == id
        for path in ("t/20261122", "t/~t20261121", "both/8/8"):
            with pytest.raises(ResourceNotFound):
                await it.json(path)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_composite_of_any_type_is_shown(owner: Owner) -> None:
    await owner.run(
        "create type part as (f real, four char(4), d date, lsn pg_lsn)",
        "create table t (id integer primary key, f real, p part, many real[], lsn pg_lsn)",
        "insert into t values (1, 0.1, row(16777216.5, 'ab', '2026-11-20', '16/B374D848'),"
        " '{0.1,NaN,1e20,3.4028235e38,-1.1754944e-38,1e-45,0}', '16/B374D848')",
    )
    async with served(owner) as it:
        row = await it.json("t/1")
        assert row["p"] == {
            "f": 16777216.0,
            "four": "ab  ",
            "d": "2026-11-20",
            "lsn": "16/B374D848",
        }
        assert row["many"] == [0.1, "NaN", 1e20, 3.4028235e38, -1.1754944e-38, 1e-45, 0.0]
        assert (row["f"], row["lsn"]) == (0.1, "16/B374D848")
        assert await _ids(it, "where.f=0.1") == [1]
