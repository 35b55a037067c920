"""Keys of every engine: each row has its own address, and pages have each row once."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from resource_server import uris
from resource_server.errors import InvalidParameter, NotACollection, ResourceNotFound
from resource_server.providers.database.addressing.key_types import Integers, KeyType
from resource_server.providers.database.engines.contract import Statement, UnfitParameter
from resource_server.providers.database.engines.mysql.engine import MysqlEngine
from resource_server.providers.database.engines.sqlite.key_types import StoredValues
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from tests.cases import for_each
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import Served, served
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


async def every_row_once(it: Served, table: str = "t", count: int | None = None) -> list[str]:
    """Assert that pages have each row once, and each address its own row; return the paths."""
    whole = [
        json.dumps(row) for page in await it.pages(f"{table}/~rows?limit=1000") for row in page
    ]
    for limit in (1, 2):
        pages = await it.pages(f"{table}/~rows?limit={limit}")
        paged = [json.dumps(row) for page in pages for row in page]
        assert paged == whole
    assert count is None or len(whole) == count
    paths = await it.rows(table)
    read = [json.dumps(await it.json(path)) for path in paths]
    assert Counter(read) == Counter(whole)
    for path in paths:
        assert (await it.entry(path)).uri.removeprefix(it.base) == path
    return paths


async def no_key(it: Served, table: str = "t", count: int | None = None) -> None:
    """Assert that a table has pages, and no addresses."""
    assert await it.rows(table) == []
    page = await it.json(f"{table}/~rows?limit=1000")
    assert page["more"] is False
    assert count is None or len(page["rows"]) == count


POSTGRES = {
    "date": "'0001-01-01 BC', '2026-11-20', '9999-12-31', '10000-01-01', '1000000-01-01',"
    " '5874897-12-31', 'infinity', '-infinity', '4713-01-01 BC'",
    "timestamp": "'0001-01-01 00:00:00 BC', '2026-11-20 10:00:00.000001', '294276-12-31',"
    " '100000-02-03 04:05:06.7', 'infinity', '-infinity'",
    "timestamptz": "'0001-01-01 00:00:00+00 BC', '2026-11-20 10:00:00+02', '294276-12-31+00',"
    " 'infinity', '-infinity'",
    "time": "'00:00', '24:00', '23:59:59.999999', '10:00:00.5'",
    "timetz": "'10:00:00+02:03:04', '10:00:00+02:03', '10:00:00+02:03:05', '24:00:00-01:02:03',"
    " '00:00+15:59:59', '10:00+00'",
    "interval": "'1 mon', '29 days', '-1 year', '1 year 2 mons -3 days 04:05:06.7', '0'",
    "numeric": "'NaN', 'Infinity', '-Infinity', 0, 0.1, 1.10, 1e100, -1e-20",
    "float8": "'NaN', 'Infinity', '-Infinity', '-0', 0.1, 1e300, 5e-324",
    "float4": "'NaN', 'Infinity', '-Infinity', 0.1, 16777216, 3.4e38, 1e-45",
    "bool": "true, false",
    "oid": "0, 2147483648, 4294967295",
    "int8": "-9223372036854775808, 9223372036854775807, 0",
    "int2": "-32768, 32767",
    "text": "'', '.', 'a/b', 'Zebra', 'apple', 'äpfel', '%(k0)s', ':k0', 'a''b', E'a\\\\b'",
    "char(5)": "'', 'a', 'ab', 'ab c'",
    "varchar(9)": "'', 'a', 'a ', 'A'",
    '"char"': "'', 'a', 'z', E'\\\\'",
    "name": "'', 'a', 'b', 'B'",
    "bytea": "'', '\\x00', '\\xff', '\\x6162'",
    "uuid": "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "jsonb": "'1', '\"a\"', '{\"a\": 1}', '[]', 'null', 'true'",
    "inet": "'10.0.0.1', '10.0.0.1/8', '::1', '10.0.0.1/31'",
    "cidr": "'10.0.0.0/8', '10.0.0.0/9', '::/0'",
    "macaddr": "'08:00:2b:01:02:03', '08:00:2b:01:02:04'",
    "macaddr8": "'08:00:2b:01:02:03:04:05', 'ff:00:2b:01:02:03:04:05'",
    "mood": "'z', 'a', '', 'M', E'a\\\\b', 'it''s'",
    "small": "1, 2, 99",
}
"""Values of types that may be keys."""

POSTGRES_WITHOUT_KEYS = {
    "moods": "'z', 'a'",
    "regclass": "'pg_class', 'pg_type', '0'",
    "regtype": "'text', 'int4', '0'",
    "xid8": "'1', '2', '18446744073709551615'",
    "money": "'1.10', '-5', '1000000'",
    "bit(3)": "'101', '000'",
    "tsvector": "'a b', 'c'",
    "pg_lsn": "'0/0', '16/B374D848'",
    "oidvector": "'1 2', '3'",
    "tid": "'(0,1)', '(1,2)'",
    "int4range": "'[1,5)', 'empty'",
    "text[]": "'{a}', '{}'",
}

MARIADB = {
    "year": "0, 1901, 2026, 2155",
    "tinyint(1)": "-1, 0, 1, 2",
    "tinyint unsigned": "0, 255",
    "int(8) zerofill": "5, 12345678",
    "bigint unsigned": "0, 18446744073709551615, 9223372036854775808",
    "decimal(65, 30)": "0, 0.1, -1.10, 99999999999999999999999999999999999",
    "double": "0, -1e300, 0.1, 0.30000000000000004, 1e-320, 123456789.12345678",
    "date": "'0000-00-00', '2026-11-20', '2026-00-00', '9999-12-31', '1000-01-01'",
    "datetime(6)": "'0000-00-00', '2026-11-20 10:00:00.000001', '9999-12-31 23:59:59.999999'",
    "datetime": "'2026-11-20 10:00:00', '2026-11-20 10:00:01'",
    "timestamp": "'1970-01-01 00:00:01', '2026-10-25 00:30:00', '2026-10-25 01:30:00'",
    "time(6)": "'-838:59:59', '838:59:59', '00:00:00.000001', '-00:00:00.000001', '10:00'",
    "char(5)": "'', 'a', 'ab'",
    "varchar(9)": "'', 'a', 'b', 'ä2', '%(k0)s', 'a''b', 'a\\\\b'",
    "varchar(9) collate utf8mb4_bin": "'', 'a', 'A', 'ä', 'B', '😀'",
    "varchar(9) charset latin1": "'', 'a', 'ä2', 'b'",
    "binary(2)": "'', 'a', x'00ff'",
    "varbinary(9)": "'', 'a', x'00ff', 'A', x'ff'",
    "enum('z', 'a', 'M')": "'z', 'a', 'M'",
    "enum('a\\\\b', 'it''s', 'x,y', '%s', 'l\\nf')": "'a\\\\b', 'it''s', 'x,y', '%s', 'l\\nf'",
    "uuid": "'123e4567-e89b-12d3-a456-426614174000', '00000000-0000-0000-0000-000000000000',"
    " '923e4567-e89b-12d3-a456-426614174000'",
    "inet6": "'::1', '::ffff:10.0.0.1', 'fe80::1'",
    "inet4": "'10.0.0.1', '9.0.0.1'",
}

MARIADB_WITHOUT_KEYS = {
    "set('x', 'y')": "'x', 'x,y'",
    "float": "0.1, 5",
    "bit(8)": "b'101', b'0'",
    "enum('a', '')": "'a', ''",
    "enum('a', '\U0001f600')": "'a', '\U0001f600'",
}

SQLITE = {
    "integer": "-9223372036854775808, 9223372036854775807, 5, 5.5, 'x', x'00'",
    "int": "9.3e18, 9223372036854775807, '5', x'05', -5",
    "real": "5, 5.5, '5.5x', 9e999, -9e999, 4611686018427387904",
    "numeric": "5, 0.1, '1.10x', 9e999, 1e300, 9223372036854775807",
    "text": "'', '.', '..', '~n', 'a/b', '5', 'A', 'a', x'61', '%(k0)s'",
    "text collate nocase": "'a', 'B', 'c', '', x'41'",
    "text collate rtrim": "'a', 'b  ', ' a', ''",
    "blob": "5, 5.5, '5', x'35', '', x'', 'a'",
    "": "5, '5', 5.5, x'35'",
    "boolean": "0, 1, 2, 'x'",
    "date": "'2026-11-20', '20261120', 5, '0000-00-00'",
    "datetime": "'2026-11-20 10:00:00', '2026-11-20T10:00:00', '2026-11-20T10:00:00Z'",
    "uuid": "'00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000B'",
    "json": "'{\"a\": 1}', '[]', '5'",
}


async def filled(owner: Owner, type: str, values: str) -> int:
    """Create the table `t` with one row for each value of its primary key; return their number."""
    if owner.engine == "postgresql":
        await owner.run(
            "DROP TYPE IF EXISTS mood CASCADE; DROP DOMAIN IF EXISTS small CASCADE",
            r"CREATE TYPE mood AS ENUM ('z', 'a', '', 'M', E'a\\b', 'it''s')",
            "CREATE DOMAIN small AS int2 CHECK (value < 100); CREATE DOMAIN moods AS mood",
        )
    if owner.engine == "mariadb":
        await owner.run("SET SESSION sql_mode = ''")
    without = " WITHOUT ROWID" if owner.engine == "sqlite" else ""
    await owner.run(f"CREATE TABLE t (n integer NOT NULL, k {type}, PRIMARY KEY (k)){without}")
    parts = owner_values(values)
    for number, value in enumerate(parts):
        await owner.run(f"INSERT INTO t VALUES ({number}, {value})")
    return len(parts)


def owner_values(values: str) -> list[str]:
    """Split SQL literals at commas outside of quotes."""
    parts, quoted = [""], False
    for character in values:
        quoted ^= character == "'"
        if character == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


@asynccontextmanager
async def serving(url: str, type: str, values: str) -> AsyncGenerator[tuple[Served, int]]:
    """Serve a table with a key of a type; yields it with its number of rows."""
    async with owner_of(url) as owner:
        await owner.clear()
        count = await filled(owner, type, values)
        async with served(owner) as it:
            yield it, count


@pytest.mark.guarantee("every-row-once")
@for_each(("type", "values"), POSTGRES.items())
async def test_every_row_of_postgresql_has_an_address(
    postgres_url: str, type: str, values: str
) -> None:
    async with serving(postgres_url, type, values) as (it, count):
        await every_row_once(it, count=count)


@pytest.mark.guarantee("every-row-once")
@for_each(("type", "values"), MARIADB.items())
async def test_every_row_of_mariadb_has_an_address(
    mariadb_url: str, type: str, values: str
) -> None:
    async with serving(mariadb_url, type, values) as (it, count):
        await every_row_once(it, count=count)


@pytest.mark.guarantee("every-row-once")
@pytest.mark.parametrize(("type", "values"), SQLITE.items())
async def test_every_row_of_sqlite_has_an_address(tmp_path: Path, type: str, values: str) -> None:
    async with serving(f"sqlite:///{tmp_path}/it.db", type, values) as (it, count):
        await every_row_once(it, count=count)


@for_each(("type", "values"), POSTGRES_WITHOUT_KEYS.items())
async def test_a_type_of_postgresql_that_is_not_known_is_no_key(
    postgres_url: str, type: str, values: str
) -> None:
    async with serving(postgres_url, type, values) as (it, count):
        await no_key(it, count=count)


@for_each(("type", "values"), MARIADB_WITHOUT_KEYS.items())
async def test_a_type_of_mariadb_that_does_not_match_itself_is_no_key(
    mariadb_url: str, type: str, values: str
) -> None:
    async with serving(mariadb_url, type, values) as (it, count):
        await no_key(it, count=count)


@pytest.mark.parametrize("name", ["%(k0)s", "%(limit)s", ":k0", "%s", "k0", "%%(k0)s", "?", "$1"])
async def test_a_column_may_be_named_like_a_placeholder(owner: Owner, name: str) -> None:
    quoted = owner.quoted(name)
    await owner.run(f"CREATE TABLE t ({quoted} integer NOT NULL PRIMARY KEY, b integer)")
    await owner.insert("t", (1, 2), (2, 3), (3, 4))
    where = f"{quoted} < 3"
    async with served(owner) as it:
        assert await every_row_once(it) == ["t/1", "t/2", "t/3"]
    async with served(owner, tables={"t": TableOptions(where=where)}) as it:
        assert await every_row_once(it) == ["t/1", "t/2"]


@pytest.mark.parametrize(
    "typed", ["~tacc", "~n", "~i5", "~r5.0", "~bAP8", "~t", "~t~2F", "~x", "~"]
)
async def test_a_typed_segment_at_any_level_is_a_resource_or_not_found(
    owner: Owner, typed: str
) -> None:
    await owner.run("CREATE TABLE acc (acc varchar(9), b integer, PRIMARY KEY (acc, b))")
    await owner.insert("acc", ("acc", 5), ("", 6), ("~tacc", 7))
    queries = {"acc": Query(sql="select 1 as n")}
    async with served(owner, queries=queries) as it:
        for path in (
            typed,
            f"acc/{typed}",
            f"acc/acc/{typed}",
            f"acc/acc/5/{typed}",
            f"acc/acc/5/~cell/{typed}",
            f"acc/{typed}/5",
            f"{typed}/~rows",
            f"{typed}/~schema",
            f"{typed}/acc/5",
            f"{typed}/acc/5/~cell/b",
            f"{typed}/{typed}/5",
        ):
            for ask in (it.catalog.metadata, it.catalog.read, it.catalog.list):
                with suppress(ResourceNotFound, NotACollection):
                    await ask(it.base + path)


async def test_a_key_is_chosen_from_visible_columns(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE t (a integer NOT NULL, bb integer NOT NULL, n integer NOT NULL,"
        " UNIQUE (a), UNIQUE (bb, n))"
    )
    await owner.insert("t", (1, 2, 3), (4, 5, 6))
    async with served(owner) as it:
        assert await it.rows("t") == ["t/1", "t/4"]
    for columns in (ColumnOptions(hide=("a",)), ColumnOptions(mask={"a": "hash"})):
        async with served(owner, tables={"t": TableOptions(columns=columns)}) as it:
            assert await it.rows("t") == ["t/2", "t/5"]
            assert await it.rows("t/2") == ["t/2/3"]
            assert (await it.json("t/2/3"))["n"] == 3


# Rows in several tables, and in several collations.


POSTGRES_TABLES = {
    "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE c () INHERITS (t);"
    "INSERT INTO t VALUES (1), (2); INSERT INTO c VALUES (1), (1)": None,
    "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE c (PRIMARY KEY (id)) INHERITS (t);"
    "INSERT INTO c VALUES (1), (2)": None,
    "CREATE TABLE t (a int, b int, PRIMARY KEY (a, b), UNIQUE (a)); CREATE TABLE c () INHERITS (t);"
    "INSERT INTO c VALUES (1, 1), (1, 1)": None,
    "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (PRIMARY KEY (id)) INHERITS (p);"
    "INSERT INTO p VALUES (1); INSERT INTO t VALUES (1), (2)": ["t/1", "t/2"],
    "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY LIST (id);"
    "CREATE TABLE c PARTITION OF t FOR VALUES IN (1);"
    "CREATE TABLE d PARTITION OF t DEFAULT; INSERT INTO t VALUES (1), (2), (3)": [
        "t/1",
        "t/2",
        "t/3",
    ],
    "CREATE TABLE t (k text COLLATE nd NOT NULL);"
    "CREATE UNIQUE INDEX ON t (k COLLATE \"C\"); INSERT INTO t VALUES ('a'), ('A')": None,
    "CREATE TABLE t (k text COLLATE nd PRIMARY KEY); INSERT INTO t VALUES ('a'), ('B')": [
        "t/a",
        "t/B",
    ],
    'CREATE TABLE t (k text COLLATE "C" NOT NULL);'
    "CREATE UNIQUE INDEX ON t (k COLLATE nd); INSERT INTO t VALUES ('a'), ('B')": ["t/B", "t/a"],
    'CREATE TABLE t (k text NOT NULL); CREATE UNIQUE INDEX ON t (k COLLATE "C");'
    "INSERT INTO t VALUES ('a'), ('b')": ["t/a", "t/b"],
    "CREATE TABLE t (k text NOT NULL); CREATE UNIQUE INDEX ON t (k text_pattern_ops);"
    "INSERT INTO t VALUES ('a'), ('b')": ["t/a", "t/b"],
    "CREATE TABLE t (k int NOT NULL, UNIQUE (k) DEFERRABLE); INSERT INTO t VALUES (1)": None,
    "CREATE TABLE t (k int NOT NULL); CREATE UNIQUE INDEX ON t (k) WHERE k < 5;"
    "INSERT INTO t VALUES (7), (7)": None,
    "CREATE TABLE t (k int, UNIQUE NULLS NOT DISTINCT (k)); INSERT INTO t VALUES (NULL), (1)": None,
    "CREATE DOMAIN d AS int NOT NULL; CREATE TABLE t (k d, UNIQUE (k));"
    "INSERT INTO t SELECT (SELECT k FROM t WHERE false) FROM generate_series(1, 2)": None,
}
"""Scripts that fill the table `t`, and the paths of its rows; None if it has no key."""


@for_each(("script", "paths"), POSTGRES_TABLES.items())
async def test_a_key_of_postgresql_is_unique_among_all_rows_of_the_table(
    postgres_url: str, script: str, paths: list[str] | None
) -> None:
    async with owner_of(postgres_url) as owner:
        await owner.clear()
        await owner.run(
            "CREATE COLLATION nd"
            " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        await owner.run(script)
        async with served(owner) as it:
            if paths is None:
                await no_key(it)
            else:
                assert await every_row_once(it) == paths


MARIADB_TABLES = {
    "CREATE TABLE one (id int PRIMARY KEY) ENGINE=MyISAM;"
    "CREATE TABLE two (id int PRIMARY KEY) ENGINE=MyISAM;"
    "CREATE TABLE t (id int PRIMARY KEY) ENGINE=MERGE UNION=(one, two);"
    "INSERT INTO one VALUES (1); INSERT INTO two VALUES (1)": None,
    "CREATE TABLE t (k varchar(2000) NOT NULL UNIQUE);"
    "INSERT INTO t SELECT concat(repeat('a', 1500), seq) FROM seq_1_to_5": None,
    "CREATE TABLE t (k text NOT NULL UNIQUE); INSERT INTO t VALUES ('a')": None,
    "CREATE TABLE t (n int, k varchar(700) NOT NULL UNIQUE);"
    "INSERT INTO t SELECT seq, concat(repeat('ä', 690), seq) FROM seq_1_to_3": [3],
    "CREATE TABLE t (id int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (3), (1)": [
        "t/1",
        "t/3",
    ],
    "CREATE TABLE t (k char(2) COLLATE utf8mb4_general_nopad_ci NOT NULL, PRIMARY KEY (k));"
    "INSERT INTO t VALUES ('a'), ('B')": None,
    "CREATE TABLE t (k char(10) CHARACTER SET ucs2, PRIMARY KEY (k)) ENGINE=Aria;"
    "INSERT INTO t VALUES ('/'), ('Straße')": None,
    "CREATE TABLE t (k char(10) CHARACTER SET ucs2, PRIMARY KEY (k)) ENGINE=InnoDB;"
    "INSERT INTO t VALUES ('a'), ('b')": ["t/a", "t/b"],
    "CREATE TABLE t (k int, UNIQUE (k)); INSERT INTO t VALUES (NULL), (NULL), (1)": None,
    "SET sql_mode = ''; CREATE TABLE t (e enum('b', 'a'), PRIMARY KEY (e));"
    "INSERT INTO t VALUES ('zz'), ('a'), ('b')": ["t/~t", "t/b", "t/a"],
}


@for_each(("script", "paths"), MARIADB_TABLES.items())
async def test_a_key_of_mariadb_is_unique_among_all_rows_of_the_table(
    mariadb_url: str, script: str, paths: list[str | int] | None
) -> None:
    async with owner_of(mariadb_url) as owner:
        await owner.clear()
        await owner.run(*script.split(";"))
        async with served(owner) as it:
            if paths is None:
                await no_key(it)
            else:
                found = await every_row_once(it)
                assert found == paths or [len(found)] == paths


SQLITE_TABLES = {
    "CREATE TABLE t (rowid TEXT, n); INSERT INTO t VALUES ('x', 1), ('x', 2), (NULL, 3)": [
        "t/1",
        "t/2",
        "t/3",
    ],
    "CREATE TABLE t (oid, RowID TEXT); INSERT INTO t VALUES (5, 'x'), (5, 'x')": ["t/1", "t/2"],
    "CREATE TABLE t (rowid TEXT PRIMARY KEY); INSERT INTO t VALUES ('x'), ('y')": ["t/x", "t/y"],
    "CREATE TABLE t (k TEXT COLLATE NOCASE NOT NULL, UNIQUE (k COLLATE BINARY));"
    "INSERT INTO t VALUES ('a'), ('A'), ('b')": ["t/1", "t/2", "t/3"],
    "CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY); INSERT INTO t VALUES ('B'), ('a')": [
        "t/a",
        "t/B",
    ],
    "CREATE TABLE t (k TEXT COLLATE RTRIM PRIMARY KEY, n) WITHOUT ROWID;"
    "INSERT INTO t VALUES ('b ', 1), ('a', 2)": ["t/a", "t/b%20"],
    "CREATE TABLE t (k PRIMARY KEY); INSERT INTO t VALUES (1), ('1'), (x'31'), (NULL), (NULL)": [
        "t/1",
        "t/2",
        "t/3",
        "t/4",
        "t/5",
    ],
}


@pytest.mark.parametrize(("script", "paths"), SQLITE_TABLES.items())
async def test_a_key_of_sqlite_is_unique_in_the_collation_of_its_column(
    tmp_path: Path, script: str, paths: list[str]
) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run(*script.split(";"))
        async with served(owner) as it:
            assert await every_row_once(it) == paths


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
async def test_text_keys_of_sqlite_are_paged_in_every_encoding(
    tmp_path: Path, encoding: str
) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run(
            f"PRAGMA encoding = '{encoding}'", "CREATE TABLE t (k TEXT PRIMARY KEY) WITHOUT ROWID"
        )
        await owner.insert(
            "t", *((text,) for text in ["a", "b", "ä", "\uff00", "\U0001f600", "āz"])
        )
        async with served(owner) as it:
            assert len(await every_row_once(it)) == 6


# Hidden rows and columns.


@pytest.mark.parametrize("rows", [[("a", 1), ("b", 2)], [("a", 1), ("b", 2), (None, 9), (None, 9)]])
async def test_a_hidden_row_with_null_in_its_key_changes_no_address(
    tmp_path: Path, rows: list[tuple[object, ...]]
) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER)")
        await owner.insert("t", *rows)
        async with served(owner, tables={"t": TableOptions(where="n < 5")}) as it:
            assert await every_row_once(it) == ["t/a", "t/b"]


async def test_a_hidden_column_named_rowid_is_not_readable_as_the_rowid(tmp_path: Path) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run('CREATE TABLE t ("ROWID" TEXT, n INTEGER)')
        await owner.insert("t", ("secret", 1))
        tables = {"t": TableOptions(columns=ColumnOptions(hide=("rowid",)))}
        queries = {"q": Query(sql="select t.rowid as r from t")}
        async with served(owner, tables=tables, queries=queries) as it:
            assert await it.rows("t") == []
            assert (await it.json("t/~rows"))["rows"] == [{"n": 1}]
            assert "secret" not in str(await it.query("q"))


async def test_the_seconds_of_an_offset_are_shown(postgres_url: str) -> None:
    async with owner_of(postgres_url) as owner:
        await owner.clear()
        await filled(
            owner, "timetz", "'10:00:00+02:03:04', '10:00:00+02:03:05', '10:00:00.5-00:00:01'"
        )
        async with served(owner) as it:
            paths = await every_row_once(it, count=3)
            assert [(await it.json(path))["k"] for path in paths] == [
                "10:00:00+02:03:05",
                "10:00:00+02:03:04",
                "10:00:00.500000-00:00:01",
            ]


# Cursors.


async def cursor_of(it: Served, table: str = "t") -> str:
    page = await it.json(f"{table}/~rows?limit=1")
    return str(page["next"]).partition("after=")[2].partition("&")[0]


def forged(cursor: str, *segments: bytes) -> str:
    """Return a cursor of the same table with other segments."""
    data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    version, fingerprint, *_ = msgspec.msgpack.decode(data)
    data = msgspec.msgpack.encode([version, fingerprint, segments])
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("type", "segment"),
    [
        ("decimal(10, 2)", b"~rinf"),
        ("decimal(10, 2)", b"~rnan"),
        ("decimal(10, 2)", b"Infinity"),
        ("integer", b"~tb"),
        ("integer", b"~r1.5"),
        ("integer", b"b"),
        ("integer", b"~n"),
        ("integer", b"~bYQ"),
        ("date", b"~tx"),
        ("date", b"infinite"),
    ],
)
async def test_a_forged_cursor_is_checked_as_an_address_is(
    owner: Owner, type: str, segment: bytes
) -> None:
    if owner.engine == "sqlite" and segment != b"~n":
        pytest.skip("SQLite stores any value in any column")
    if owner.engine == "postgresql" and segment in (b"~rinf", b"~rnan", b"Infinity"):
        pytest.skip("PostgreSQL stores them")
    await owner.run(f"CREATE TABLE t (a {type} NOT NULL PRIMARY KEY, b integer)")
    values = ("'2026-11-20'", "'2026-11-21'") if type == "date" else ("1", "2")
    await owner.run(*(f"INSERT INTO t VALUES ({value}, 1)" for value in values))
    async with served(owner) as it:
        cursor = forged(await cursor_of(it), segment)
        with pytest.raises(InvalidParameter, match="begin again"):
            await it.read(f"t/~rows?after={cursor}")
        assert await it.rows("t")


async def test_numbers_that_are_not_finite_are_never_written_into_sql(mariadb_url: str) -> None:
    async with owner_of(mariadb_url) as owner:
        await owner.clear()
        engine = MysqlEngine(owner.url)
        await engine.open()
        try:
            for value in (float("inf"), float("nan"), Decimal("Infinity"), Decimal("NaN")):
                with pytest.raises(UnfitParameter):
                    await engine.run_own(
                        Statement("SELECT %s", (value,)), limit=1, within=PATIENCE_S
                    )
        finally:
            await engine.close()


def two_less(_: KeyType, value: int) -> int:
    return value - 2


@for_each(("schema", "paths"), [("apart", []), ("public", ["t/a", "t/B", "t/c", "t/D"])])
async def test_citext_is_a_key_only_where_its_operators_are_found(
    postgres_url: str, schema: str, paths: list[str]
) -> None:
    async with owner_of(postgres_url) as owner:
        await owner.clear()
        await owner.run(
            "CREATE SCHEMA IF NOT EXISTS apart",
            f"CREATE EXTENSION citext SCHEMA {schema}",
            f"CREATE TABLE t (k {schema}.citext PRIMARY KEY)",
            "INSERT INTO t VALUES ('a'), ('B'), ('c'), ('D')",
        )
        try:
            async with served(owner) as it:
                assert await it.rows("t") == paths
                if paths:
                    await every_row_once(it)
                else:
                    await no_key(it, count=4)
        finally:
            await owner.run("DROP EXTENSION citext CASCADE")


async def test_a_declared_key_has_no_other_types_than_a_key_of_the_database(owner: Owner) -> None:
    types = {"postgresql": "money", "mariadb": "float", "sqlite": "integer", "duckdb": "float"}
    await owner.run(f"CREATE TABLE t (a integer, b {types[owner.engine]})")
    async with served(owner, tables={"t": TableOptions(key=("a", "b"))}) as it:
        exposed = (await it.entry("t")).resource.details or {}
        key = ["a", "b"] if owner.engine == "sqlite" else []
        assert exposed["table"]["key"] == key
        assert await it.rows("t") == []


async def test_a_view_over_a_domain_may_have_null_in_its_key(postgres_url: str) -> None:
    async with owner_of(postgres_url) as owner:
        await owner.clear()
        await owner.run(
            "CREATE DOMAIN d AS int NOT NULL; CREATE TABLE a (n int); CREATE TABLE b (k d, n int)",
            "CREATE VIEW t AS SELECT k, a.n FROM a LEFT JOIN b ON a.n = b.n",
            "INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (7, 1)",
        )
        async with served(owner, tables={"t": TableOptions(key=("k",))}) as it:
            rows = [row for page in await it.pages("t/~rows?limit=1") for row in page]
            assert rows == [{"k": 7, "n": 1}, {"k": None, "n": 2}]


async def test_a_table_may_be_named_like_a_part_of_a_statement(owner: Owner) -> None:
    for name in ("found", "some", "value", "p_found", "%(limit)s"):
        quoted = owner.quoted(name)
        await owner.run(
            f"CREATE TABLE {quoted} (a integer NOT NULL, value integer, PRIMARY KEY (a, value))"
        )
        await owner.insert(name, (1, 2), (3, 4))
        async with served(owner) as it:
            path = uris.quote_segment(name)
            assert await it.rows(path) == [f"{path}/1", f"{path}/3"]
            assert await it.rows(f"{path}/3") == [f"{path}/3/4"]
            pages = await it.pages(f"{path}/~rows?limit=1")
            assert [row["a"] for page in pages for row in page] == [1, 3]


async def test_the_values_of_an_enumeration_may_begin_a_key(mariadb_url: str) -> None:
    async with owner_of(mariadb_url) as owner:
        await owner.clear()
        await owner.run(
            "SET sql_mode = ''",
            "CREATE TABLE t (e enum('b', 'a'), id int, PRIMARY KEY (e, id))",
            "INSERT INTO t VALUES ('zz', 1), ('zz', 2), ('a', 3), ('b', 4)",
        )
        async with served(owner, page_size=1) as it:
            assert await it.rows("t") == ["t/~t", "t/b", "t/a"]
            assert await it.rows("t/~t") == ["t/~t/1", "t/~t/2"]
            assert (await it.json("t/~t/2"))["id"] == 2
            pages = await it.pages("t/~rows?limit=1")
            assert [row["id"] for page in pages for row in page] == [1, 2, 4, 3]


async def test_a_page_that_does_not_come_after_its_cursor_is_an_error(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Stands for a key type that binds a value as another one.
    await owner.run("CREATE TABLE t (a integer NOT NULL PRIMARY KEY, b integer)")
    await owner.insert("t", (1, 2), (2, 3), (3, 4), (4, 5))
    async with served(owner, page_size=3) as it:
        page = await it.json("t/~rows?limit=2")
        kind = Integers if owner.engine != "sqlite" else StoredValues
        monkeypatch.setattr(kind, "bind", two_less)
        with pytest.raises(InvalidParameter, match="does not come after"):
            await it.read(page["next"].removeprefix(it.base))
        with pytest.raises(InvalidParameter, match="does not come after"):
            await it.rows("t")
    assert "not in the order of their pages" in caplog.text
