from __future__ import annotations

import datetime
import enum
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from resource_server.providers.database.engines.contract import Rows, TruncatedValue
from resource_server.providers.database.engines.generic.reading import decoded_json, fetched_rows
from tests.cases import for_each

MIB = 1024 * 1024
_HOURS = datetime.timedelta(hours=2)
_EAST, _WEST = datetime.timezone(_HOURS), datetime.timezone(-_HOURS)

_MORNING = datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC)


class _Text(str):
    """A class of a driver."""


class _Number(enum.IntEnum):
    ONE = 1


class _Broken:
    def __str__(self) -> str:
        raise RuntimeError("geheim")


def _rows(sql: str, limit: int = 10, convert: Callable[[bytes], object] | None = None) -> Rows:
    """Return rows of SQLite, whose columns of the type `odd` are as `convert` makes them."""
    if convert is not None:
        sqlite3.register_converter("odd", convert)
    types = {"detect_types": sqlite3.PARSE_COLNAMES}
    engine = sa.create_engine("sqlite://", connect_args=types)
    try:
        with engine.connect() as connection:
            return fetched_rows(connection.exec_driver_sql(sql), limit)
    finally:
        engine.dispose()


def _shown(value: object) -> object:
    ((found,),) = _rows("select 'x' as \"v [odd]\"", convert=lambda _: value).rows
    return found


@for_each(
    ("value", "shown"),
    [
        (_Text("a"), "a"),
        (_Number.ONE, 1),
        (bytearray(b"a\0"), b"a\0"),
        (memoryview(b"abcd")[::2], b"ac"),
        (_Broken(), "[_Broken]"),
        (1j, "1j"),
        (datetime.datetime(2026, 1, 1, 3, tzinfo=_EAST), _MORNING),
        (datetime.datetime(1, 1, 1, tzinfo=_EAST), "0001-01-01T00:00:00+02:00"),
        (datetime.datetime(9999, 12, 31, 23, tzinfo=_WEST), "9999-12-31T23:00:00-02:00"),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_value_of_a_class_of_a_driver_is_one_that_all_engines_share(
    value: object, shown: object
) -> None:
    found = _shown(value)
    assert found == shown
    assert type(found) is type(shown)


def test_values_of_numpy_are_those_of_python() -> None:
    numpy: Any = pytest.importorskip("numpy")
    assert type(_shown(numpy.int16(3))) is int
    assert _shown(numpy.arange(3)) == [0, 1, 2]
    assert _shown(numpy.longdouble(1)) == "1.0"


def test_values_and_rows_over_the_limits_of_memory_are_cut() -> None:
    whole, cut = _rows(f"select zeroblob({16 * MIB}), zeroblob({16 * MIB + 1})").rows[0]
    assert whole == bytes(16 * MIB)
    assert cut == TruncatedValue(bytes(64 * 1024), 16 * MIB + 1)
    found = _rows(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 400)"
        " select zeroblob(512 * 1024) from n",
        400,
    )
    assert found.more
    assert len(found.rows) <= 64 * 2 + 100


def test_rows_are_as_many_as_asked_for_and_more_only_if_there_are() -> None:
    three = "select 1 as a union all select 2 union all select 3"
    assert _rows(three, 3) == Rows(("a",), [(1,), (2,), (3,)])
    assert _rows(three, 2) == Rows(("a",), [(1,), (2,)], more=True)
    assert _rows(three, 0) == Rows(("a",), [], more=True)


@for_each("text", ["", "no JSON", "[" * 100_000, "9" * 5000, b'"\xff"', b"\xff"], ids=range(6))
def test_json_that_python_cannot_read_is_the_text_that_is_stored(text: str | bytes) -> None:
    stored = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    assert decoded_json(text) == stored
