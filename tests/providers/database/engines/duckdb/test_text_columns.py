"""Types of columns of texts: those that spell every one of their values as it is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server.providers.database.engines.duckdb import text_columns
from resource_server.providers.database.engines.duckdb.text_columns import TextRows
from tests.cases import for_each


@contextmanager
def staged() -> Generator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        database.execute(f"ATTACH ':memory:' AS {text_columns.STAGE} (COMPRESS)")
        yield database


def table(database: duckdb.DuckDBPyConnection, texts: TextRows) -> list[tuple[Any, ...]]:
    """Return the types of the columns, then the rows as DuckDB spells them."""
    columns = text_columns.typed(database, texts)
    database.execute(f"CREATE OR REPLACE TABLE made AS SELECT {columns} FROM ({texts.select})")
    names = [each.name for each in texts.columns]
    types = ", ".join(f'any_value(typeof("{name}"))' for name in names)
    found = database.execute(f"SELECT {types} FROM made").fetchall()
    spelt = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in names)
    return found + database.execute(f"SELECT {spelt} FROM made").fetchall()


@for_each(
    ("texts", "type"),
    [
        (["1", "-20", ""], "BIGINT"),
        (["00123", "4"], "VARCHAR"),
        (["9223372036854775808"], "VARCHAR"),
        (["2.75", "3"], "DOUBLE"),
        (["-0", "1"], "VARCHAR"),
        (["19.90", "-0.05"], "DECIMAL(38,2)"),
        (["19.90", "5"], "VARCHAR"),
        (["true", "false"], "BOOLEAN"),
        (["true", "t"], "VARCHAR"),
        (["2026-01-31"], "DATE"),
        (["2026-02-31"], "VARCHAR"),
        (["2026-01-31T12:30:00", "2026-01-31 12:30:00"], "TIMESTAMP"),
        (["23:59:59"], "TIME"),
        (["24:00:00"], "VARCHAR"),
        (["", ""], "VARCHAR"),
    ],
)
def test_a_column_has_the_type_that_fits_all_of_its_texts(texts: list[str], type: str) -> None:
    with staged() as database:
        rows = text_columns.stage_rows(database, "s", ["c"], iter([[text] for text in texts]))
        assert table(database, rows)[0] == (type,)


CELLS = st.text("0019.-+e:T tru\x1d\x1e\x1f,'\ufffd", max_size=6)


@pytest.fixture(scope="module")
def database() -> Generator[duckdb.DuckDBPyConnection]:
    with staged() as database:
        yield database


@example(cells=[["a\x1eb", "c\x1fd"], ["\x1d", "\x1dx"]])
@given(cells=st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_each_text_is_spelt_as_it_was(
    database: duckdb.DuckDBPyConnection, cells: Sequence[list[str]]
) -> None:
    database.execute(f"DROP TABLE IF EXISTS {text_columns.STAGE}.main.s")
    rows = text_columns.stage_rows(database, "s", ["c"], iter([[*row] for row in cells]))
    _, *found = table(database, rows)
    assert rows.rows == len(found) == len(cells)
    for row, spelt in zip(cells, found, strict=True):
        padded = [*row, *[""] * (len(spelt) - len(row))]
        for text, value in zip(padded, spelt, strict=True):
            assert value in (text or None, f"{text}.0", text.replace("T", " ")), (text, value)


def test_values_keep_their_types_and_null_is_no_empty_text() -> None:
    given: list[list[Any]] = [
        [1, date(2026, 1, 31), "", [1, None]],
        [2**70, None, None, {"a": "x"}],
        ["-", "-", "-", "-"],
    ]
    with staged() as database:
        rows = text_columns.stage_values(
            database, "s", iter(given[:2]), lambda width: [f"c{at}" for at in range(width)]
        )
        assert table(database, rows) == [
            ("HUGEINT", "DATE", "VARCHAR", "JSON"),
            ("1", "2026-01-31", "", "[1, null]"),
            (str(2**70), None, None, '{"a": "x"}'),
        ]
        rows = text_columns.stage_values(
            database, "n", iter(given[::2]), lambda width: ["a", "b", "c", "d"], null="-"
        )
        assert table(database, rows)[0][:2] == ("BIGINT", "DATE")
        assert table(database, rows)[2] == (None,) * 4


def test_tables_are_united_by_the_names_of_their_columns_and_the_types_of_both() -> None:
    with staged() as database:
        one = text_columns.stage_rows(database, "one", ["id", "n"], iter([["1", "2"]]))
        two = text_columns.stage_rows(database, "two", ["N", "x"], iter([["x", "2026-01-31"]]))
        both = text_columns.united([one, two])
        assert both.rows == 2
        assert table(database, both) == [
            ("BIGINT", "VARCHAR", "DATE"),
            ("1", "2", None),
            (None, "x", "2026-01-31"),
        ]
        day, text = (
            text_columns.stage_values(database, f"v{at}", iter([[value]]), lambda _: ["c"])
            for at, value in enumerate((date(2026, 1, 31), "2026-1-31"))
        )
        both = text_columns.united([day, text])
        assert table(database, both) == [("VARCHAR",), ("2026-01-31",), ("2026-1-31",)]
