"""Rows whose keys have NULL, or text that drivers cannot bind."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.masks import MaskKind
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.reading.like_patterns import LIKE_ESCAPE, like_pattern
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import ServerKey
from tests.cases import for_each
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import Served, served

pytestmark = pytest.mark.anyio

KEYED = {"v": TableOptions(key=("a", "b"))}


async def every_row(it: Served, path: str = "v/~rows?format=columns") -> list[list[Any]]:
    """Return the rows of all pages, in order."""
    return [row for page in await it.pages(path) for row in page]


# NULL in a key.


async def view_of(owner: Owner, *rows: Sequence[object]) -> None:
    await owner.run(
        "CREATE TABLE t (a integer, b varchar(9), n integer)",
        "CREATE VIEW v AS SELECT a, b, n FROM t",
    )
    await owner.insert("t", *rows)


async def test_pages_show_rows_with_null_in_their_key_last(owner: Owner) -> None:
    addressed = [(1, "x", 0), (1, "y", 1), (2, "x", 2), (3, "x", 3)]
    null = [(None, "x", 4), (2, None, 5), (None, None, 6), (None, None, 6)]
    await view_of(owner, *null, *addressed)
    for limit in (1, 2, 3, 4, 5, 7, 8, 100):
        async with served(owner, tables=KEYED, limits=ReadLimits(rows=limit)) as it:
            page, found = await it.json("v/~rows?format=columns"), []
            while page["next"] is not None:
                assert len(page["rows"]) == limit
                found += page["rows"]
                page = await it.json(page["next"].removeprefix(it.base))
            found += page["rows"]
            assert page["more"] is False
            assert [tuple(row) for row in found[:4]] == addressed
            assert Counter(tuple(row) for row in found[4:]) == Counter(null)


async def test_rows_without_a_key_that_are_too_many_to_sort_have_a_first_page(
    tmp_path: Path,
) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run(
            "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
            " SELECT x FROM c"
        )
        async with served(owner, limits=ReadLimits(rows=3, timeout=Duration(0.2))) as it:
            for _ in range(2):
                page = await it.json("v/~rows?format=columns")
                assert (page["rows"], page["next"], page["more"]) == ([[1], [2], [3]], None, True)


async def masked_rows(owner: Owner) -> None:
    await owner.run(
        "CREATE TABLE t (a integer, m varchar(60))",
        "CREATE INDEX i ON t (a, m)",
        "CREATE VIEW v AS SELECT a, m FROM t",
    )
    # Not in the order of the values.
    numbers = [place * 37 % 80 for place in range(80)]
    await owner.insert("t", *((1, f"value-{number:04}") for number in numbers), (1, None))


async def test_pages_show_each_row_of_a_table_without_a_key_whose_masked_values_differ(
    owner: Owner,
) -> None:
    await masked_rows(owner)
    masks: tuple[tuple[MaskKind, int], ...] = (("hash", 81), ("last4", 81), ("redact", 2))
    for mask, different in masks:
        options = TableOptions(columns=ColumnOptions(mask={"m": mask}))
        async with served(owner, tables={"v": options}, limits=ReadLimits(rows=7)) as it:
            found = Counter(m for _, m in await every_row(it))
            assert (sum(found.values()), len(found)) == (81, different)
            assert found[None] == 1


async def test_the_order_of_pages_does_not_tell_the_order_of_masked_values(owner: Owner) -> None:
    await masked_rows(owner)
    options = TableOptions(columns=ColumnOptions(mask={"m": "last4"}))
    async with served(owner, tables={"v": options}, limits=ReadLimits(rows=7)) as it:
        found = [m for _, m in await every_row(it) if m is not None]
        assert found not in (sorted(found), sorted(found, reverse=True))
        again = [m for _, m in await every_row(it) if m is not None]
        assert again == found
    async with served(owner, tables={"v": options}, key=ServerKey(bytes(32))) as it:
        # By a secret, not by a digest that clients can compute.
        assert [m for _, m in await every_row(it) if m is not None] != found


async def test_masked_values_of_sqlite_in_no_encoding_are_paged(tmp_path: Path) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run(
            "CREATE TABLE t (a, m)",
            "CREATE VIEW v AS SELECT a, m FROM t",
            "INSERT INTO t VALUES (1, CAST(x'61ff' AS TEXT)), (1, x'61ff'), (1, 1), (1, 1.0),"
            " (1, '1'), (1, NULL)",
        )
        options = TableOptions(columns=ColumnOptions(mask={"m": "hash"}))
        async with served(owner, tables={"v": options}, limits=ReadLimits(rows=2)) as it:
            assert len(await every_row(it)) == 6


async def test_rows_with_null_in_their_key_have_no_address(owner: Owner) -> None:
    await view_of(owner, (None, "x", 0), (1, None, 1), (2, "x", 2), (2, None, 3), (None, None, 4))
    async with served(owner, tables=KEYED, page_size=2) as it:
        assert await it.rows("v") == ["v/2"]
        assert await it.rows("v/2") == ["v/2/x"]
        assert (await it.json("v/2/x"))["n"] == 2
        for path in ("v/~n", "v/1", "v/~n/x", "v/2/~n", "v/~n/~n", "v/2/~n/~cell/n"):
            with pytest.raises(ResourceNotFound):
                pytest.fail(f"{path} is there: {await it.entry(path)}")


async def test_a_row_with_null_in_its_key_hides_no_other_rows(owner: Owner) -> None:
    await owner.run("CREATE TABLE t (a integer, n integer)", "CREATE VIEW v AS SELECT a, n FROM t")
    await owner.insert("t", *((number, 0) for number in range(1, 6)), (None, 0), (None, 0))
    async with served(owner, tables={"v": TableOptions(key=("a",))}, page_size=2) as it:
        assert await it.rows("v") == [f"v/{number}" for number in range(1, 6)]


async def test_a_row_filter_applies_to_rows_with_null_in_their_key(owner: Owner) -> None:
    await view_of(owner, (None, "x", 0), (None, "x", 9), (1, "x", 0), (1, "y", 9))
    options = TableOptions(key=("a", "b"), where="n < 5")
    async with served(owner, tables={"v": options}) as it:
        assert await every_row(it) == [[1, "x", 0], [None, "x", 0]]
        assert await every_row(it, "v/~rows?format=columns&columns=n") == [[0], [0]]


async def test_null_in_a_primary_key_of_sqlite_loses_no_row(tmp_path: Path) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await owner.run("CREATE TABLE t (k text PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('b')")
        async with served(owner) as it:
            assert await it.rows("t") == ["t/a", "t/b"]
            await owner.run("INSERT INTO t VALUES (NULL), (NULL)")
            assert await it.rows("t") == ["t/a", "t/b"]
            assert await every_row(it, "t/~rows?format=columns") == [["a"], ["b"], [None], [None]]


# Text of SQLite that is not UTF-8.

TEXTS = [b"a", b"a\0\xff", b"a\xc0\x80", b"b", b"z\xff", b"\xed\xa0\x80", b"\xff", b"\xff\xfe"]
"""Bytes, in SQLite's order of their texts."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "it.db"


def make(file: Path, table: str, *texts: Sequence[object]) -> None:
    """Create a table whose keys are texts of these bytes, with their position."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(table)
        for place, row in enumerate(texts):
            places = ", ".join(["CAST(? AS TEXT)"] * len(row))
            connection.execute(f"INSERT INTO t VALUES ({places}, ?)", (*row, place))


@pytest.mark.parametrize("kind", ["text", "any", "varchar(9) collate nocase"])
async def test_rows_with_texts_that_are_not_utf_8_are_found_at_their_address(
    file: Path, kind: str
) -> None:
    table = f"CREATE TABLE t (k {kind} PRIMARY KEY, n integer) WITHOUT ROWID"
    make(file, table, *[(data,) for data in TEXTS])
    async with owner_of(f"sqlite:///{file}") as owner:
        expected = [n for (n,) in await owner.rows("SELECT n FROM t ORDER BY k")]
        assert len(expected) == len(TEXTS)
        async with served(owner, page_size=1, limits=ReadLimits(rows=1)) as it:
            paths = await it.rows("t")
            assert [(await it.json(path))["n"] for path in paths] == expected
            assert await every_row(it, "t/~rows?format=columns&columns=n") == [
                [n] for n in expected
            ]
            for path in paths:
                assert (await it.entry(path)).uri == it.base + path
                assert await it.text(f"{path}/~cell/n")


async def test_texts_that_are_not_utf_8_may_begin_a_composite_key(file: Path) -> None:
    table = "CREATE TABLE t (a text, b text, n integer, PRIMARY KEY (a, b)) WITHOUT ROWID"
    make(file, table, *[(one, other) for one in TEXTS for other in TEXTS])
    async with owner_of(f"sqlite:///{file}") as owner, served(owner, page_size=3) as it:
        firsts = await it.rows("t")
        assert len(firsts) == len(TEXTS)
        rows = [path for first in firsts for path in await it.rows(first)]
        assert [(await it.json(path))["n"] for path in rows] == list(range(len(TEXTS) ** 2))
        assert await every_row(it, "t/~rows?format=columns&limit=7&columns=n") == [
            [n] for n in range(len(TEXTS) ** 2)
        ]


async def test_numbers_sort_before_texts_that_are_not_utf_8(file: Path) -> None:
    make(file, "CREATE TABLE t (k PRIMARY KEY, n integer) WITHOUT ROWID", (b"1\xff",), (b"9",))
    async with owner_of(f"sqlite:///{file}") as owner:
        await owner.rows("INSERT INTO t VALUES (5, 2), (?, 3)", b"9")
        async with served(owner, limits=ReadLimits(rows=1)) as it:
            assert await every_row(it, "t/~rows?format=columns&columns=n") == [[2], [0], [1], [3]]


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
async def test_a_utf_16_database_never_confuses_bytes_with_another_text(
    file: Path, encoding: str
) -> None:
    async with owner_of(f"sqlite:///{file}") as owner:
        await owner.run(
            f"PRAGMA encoding = '{encoding}'",
            "CREATE TABLE t (k text PRIMARY KEY, n integer) WITHOUT ROWID",
        )
        await owner.insert("t", *((text, n) for n, text in enumerate(["ab", *"aéｿ☃𝄞"])))
        async with served(owner, page_size=1, limits=ReadLimits(rows=1)) as it:
            paths = await it.rows("t")
            expected = [n for (n,) in await owner.rows("SELECT n FROM t ORDER BY k")]
            assert [(await it.json(path))["n"] for path in paths] == expected
            assert len(await every_row(it, "t/~rows?format=columns")) == 6
            # In UTF-16 these bytes are one character, or the last one is incomplete.
            for path in ("t/%FF%7F", "t/%7F%FF", "t/ab%FF"):
                with pytest.raises(ResourceNotFound):
                    pytest.fail(f"{path} is there: {await it.entry(path)}")


def is_like(text: str, pattern: str) -> bool:
    """Return whether SQLite matches a text against a pattern."""
    connection = sqlite3.connect(":memory:")
    try:
        sql = "SELECT ? LIKE ? ESCAPE ?"
        [(fits,)] = connection.execute(sql, (text, pattern, LIKE_ESCAPE)).fetchall()
    finally:
        connection.close()
    return bool(fits)


@for_each(
    ("text", "pattern"),
    [
        ("tea", "%tea%"),
        ("10%", "%10!%%"),
        ("a_b", "%a!_b%"),
        ("wow!", "%wow!!%"),
        ("a\\b", "%a\\b%"),
        ("茶", "%茶%"),
        ("é crème", "% cr%"),
        ("привет", None),
        ("привет 5", "% 5%"),
        ("\0", None),
        ("\ud800", None),
        ("a\0bc", "%bc%"),
    ],
)
def test_a_pattern_uses_the_longest_part_that_engines_compare_alike(
    text: str, pattern: str | None
) -> None:
    assert like_pattern(text) == pattern


def test_a_pattern_has_one_wildcard_at_either_end_and_is_never_too_long_for_sqlite() -> None:
    for text in ("%" * 1000, "é%" * 500, "茶" * 1000, "!_%" * 333):
        pattern = like_pattern(text)
        assert pattern is not None
        assert len(pattern.encode()) < 1000
        assert len(re.findall(r"(?:!.|[^%])|(%)", pattern)) >= 3
        assert re.sub("!.", "", pattern)[0] == re.sub("!.", "", pattern)[-1] == "%"
        assert re.sub("!.", "", pattern).count("%") == 2
        assert is_like(f"x{text}x", pattern)


_TEXT = st.text(st.sampled_from("aA%_!\\'é茶 K"), max_size=6)


@given(_TEXT, _TEXT.filter(bool))
def test_every_value_that_contains_the_text_matches_its_pattern(text: str, sought: str) -> None:
    pattern = like_pattern(sought)
    if sought.casefold() in text.casefold():
        assert pattern is None or is_like(text, pattern)


@given(_TEXT, st.text(st.sampled_from("aA%_!\\'茶 "), min_size=1, max_size=4))
def test_an_ascii_pattern_matches_only_values_that_contain_the_text(text: str, sought: str) -> None:
    pattern = like_pattern(sought)
    assert pattern is not None
    assert is_like(text, pattern) == (sought.lower() in text.lower())
