from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from resource_server.providers.database.engines.contract import RawText
from resource_server.providers.database.engines.reflection import ColumnKind
from resource_server.providers.database.engines.sqlite.key_types import Collation, StoredValues
from tests.cases import for_each
from tests.providers.database.addressing.spelled import (
    NO_SEGMENTS,
    assert_canonical,
    assert_not_found,
    survives,
    texts,
)

KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
TYPES = {kind: StoredValues(kind) for kind in KINDS}
STRICT = {kind: StoredValues(kind, is_strict=True) for kind in KINDS}
"""Where a text is no value of a column of numbers."""

integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False)
# Values that SQLite may return from any column, whatever its declared type.
storage = st.one_of(integers, floats, texts, st.binary())


def same(one: object, other: object) -> bool:
    """Return whether two values have the same class and value, including signed zeros."""
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and one == other


@given(st.sampled_from(KINDS), storage)
@example("real", -0.0)
@example("any", -0.0)
@example("numeric", -0.0)
@example("numeric", 0.1)
@example("numeric", 1e300)
@example("integer", -(2**63))
@example("date", "2026-11-20")
@example("datetime", "2026-11-20 10:00:00")
@example("boolean", 2)
@example("text", "\udcff")
def test_any_stored_value_round_trips(kind: ColumnKind, value: object) -> None:
    type = TYPES[kind]
    segment = type.segment(value)
    assert same(type.decode(segment), value)
    assert type.segment(type.decode(segment)) == segment
    survives(segment)


@given(st.sampled_from(KINDS), storage, storage)
@example("any", 5, "5")
@example("any", 5, 5.0)
@example("any", "5", b"5")
@example("text", "é", "e\u0301")
@example("text", "DE", "de")
@example("date", "2026-11-20", "20261120")
@example("text", "", "~t")
def test_different_values_have_different_spellings(
    kind: ColumnKind, one: object, other: object
) -> None:
    assert (TYPES[kind].encode(one) == TYPES[kind].encode(other)) is same(one, other)


@given(st.sampled_from(KINDS), st.text() | texts)
def test_any_segment_is_a_value_or_not_found(kind: ColumnKind, segment: str) -> None:
    assert_canonical(TYPES[kind], segment)


@for_each(
    ("kind", "value", "segment"),
    [
        ("integer", 5, "5"),
        ("integer", 5.5, "~r5.5"),
        ("integer", "5", "~t5"),
        ("real", 5.5, "5.5"),
        ("real", -0.0, "-0.0"),
        ("real", 1e300, "1e+300"),
        ("real", 5, "~i5"),
        ("real", math.inf, "~rinf"),
        ("numeric", 5, "5"),
        ("numeric", 5.0, "5.0"),
        ("numeric", -math.inf, "~r-inf"),
        ("text", "DE", "DE"),
        ("text", "5", "5"),
        ("text", "", "~t"),
        ("text", "..", "~t.."),
        ("text", "a/b", "~ta~2Fb"),
        ("text", "~schema", "~t~7Eschema"),
        ("text", "a~b", "a~b"),
        ("text", b"\0\xff", "~bAP8"),
        ("blob", b"", "~b"),
        ("blob", "abc", "~tabc"),
        ("any", 5, "~i5"),
        ("any", 5.0, "~r5.0"),
        ("any", "5", "~t5"),
        ("boolean", 0, "false"),
        ("boolean", 2, "~i2"),
        ("date", "2026-11-20", "2026-11-20"),
        ("date", "20261120", "~t20261120"),
        ("date", "0000-00-00", "~t0000-00-00"),
        ("time", "10:00:00", "10:00:00"),
        ("time", "-25:00:00.000001", "-25:00:00.000001"),
        ("time", "10:00", "~t10:00"),
        ("datetime", "2026-11-20T10:00:00", "2026-11-20T10:00:00"),
        ("datetime", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
        ("datetime", "2026-11-20 10:00:00", "~t2026-11-20 10:00:00"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a"),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "~t00000000-0000-0000-0000-00000000000A"),
        ("json", '{"a": 1}', '{"a": 1}'),
    ],
)
def test_each_value_has_its_canonical_spelling(
    kind: ColumnKind, value: object, segment: str
) -> None:
    assert TYPES[kind].encode(value) == segment


@for_each(
    ("kind", "segment", "value"),
    [
        ("integer", "+05", 5),
        ("integer", "~i5", 5),
        ("real", "5", 5.0),
        ("numeric", "1e3", 1000.0),
        ("numeric", "1.10", 1.1),
        ("numeric", str(2**63 - 1), 2**63 - 1),
        ("numeric", str(2**63), 9223372036854775808.0),
        ("numeric", "~i5", 5),
        ("text", "~t~FF", "\udcff"),
        ("boolean", "1", 1),
        ("datetime", "2026-11-20 10:00", "2026-11-20T10:00:00"),
        ("datetime", "2026-11-20T12:00:00+02:00", "2026-11-20T10:00:00Z"),
        ("time", "10:00", "10:00:00"),
        ("uuid", "0000000000000000000000000000000A", "00000000-0000-0000-0000-00000000000a"),
    ],
)
def test_another_spelling_has_the_same_value(kind: ColumnKind, segment: str, value: object) -> None:
    assert same(TYPES[kind].decode(segment), value)


NO_VALUES: Mapping[ColumnKind, Sequence[str]] = {
    "integer": ("a", "1_0", "\u0665", " 5", "5\n"),
    "any": ("~i" + str(2**63),),
    "real": ("inf", "nan", "NaN", "0x1p3", "1_0", ".", "\u0665"),
    "numeric": ("inf", "NaN", "sNaN", "1_0", "1e9999999"),
    "boolean": ("yes", "TRUE", "t"),
    "date": ("2026-02-30", "2026-W01-1", "now"),
    "time": ("24:00", "10:60:00", "1000:00:00"),
    "datetime": ("2026-11-20T25:00", "0001-01-01T00:00:00+02:00", "now"),
    "uuid": ("x", "0" * 31 + "_"),
}


@for_each("kind", KINDS)
def test_a_segment_that_no_key_can_have_is_not_found(kind: ColumnKind) -> None:
    assert_not_found(STRICT[kind], [*NO_SEGMENTS, *NO_VALUES.get(kind, ())])


@for_each(
    ("kind", "segment", "value"),
    [
        ("integer", "a", "a"),
        ("real", "Infinity", math.inf),
        ("any", "5", 5),
        ("any", "05", "05"),
        ("blob", "1.5", 1.5),
        ("date", "20261120", 20261120),
        ("uuid", "x", "x"),
    ],
)
def test_a_value_as_it_is_shown_is_a_key(kind: ColumnKind, segment: str, value: object) -> None:
    assert same(TYPES[kind].decode(segment), value)


@for_each("value", [None, True, [1], object(), "\ud800"])
def test_a_value_that_sqlite_cannot_store_is_refused(value: object) -> None:
    for type in TYPES.values():
        with pytest.raises(ValueError, match=r"\w"):
            type.segment(value)


# --- comparison with SQLite

AFFINITIES: list[tuple[str, ColumnKind]] = [
    ("INT", "integer"),
    ("REAL", "real"),
    ("DECIMAL(10, 2)", "numeric"),
    ("TEXT", "text"),
    ("", "any"),
    ("BLOB", "any"),
    ("BOOLEAN", "boolean"),
    ("DATE", "date"),
    ("DATETIME", "datetime"),
    ("UUID", "uuid"),
    ("JSON", "json"),
]


def unescaped(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def bound(value: object) -> tuple[str, object]:
    """Return a value and its placeholder; `+` removes the affinity of casts."""
    if isinstance(value, str):
        return "+cast(? as text)", value.encode("utf-8", "surrogateescape")
    return ("+cast(? as text)" if isinstance(value, RawText) else "?"), value


@given(
    st.sampled_from(AFFINITIES),
    st.sampled_from(["BINARY", "NOCASE", "RTRIM"]),
    st.lists(storage, min_size=1, max_size=8),
)
@example(("BLOB", "any"), "BINARY", [5, "5", b"5", 5.5, "5.5"])
@example(("", "any"), "BINARY", [0.0, "0", "-0.0", b"", ""])
@example(("REAL", "real"), "BINARY", [5, 2**62, 1e-320, math.inf, "inf", b"5", "x"])
@example(("DECIMAL(10, 2)", "numeric"), "BINARY", [0.1, 5.0, 1e16, -(2**63), "1.10", "x"])
@example(("INT", "integer"), "BINARY", [5.5, 9.3e18, "x", -(2**63), 2**63 - 1])
@example(("DATE", "date"), "BINARY", ["2026-11-20", "2026", "20261120", 5, 0.5])
@example(("TEXT", "text"), "BINARY", ["é", "e\u0301", "DE", "de", "\udcff", "a\0b", "~n", ""])
@example(("TEXT", "text"), "NOCASE", ["B", "a", "_", "a\0b", "a\0", "Z", "É", "é"])
@example(("TEXT", "text"), "RTRIM", ["a", "a  b", " ", "b ", "\0 "])
def test_every_row_is_found_by_its_segment_in_its_order(
    declared: tuple[str, ColumnKind], collation: Collation, values: list[object]
) -> None:
    type = StoredValues(declared[1], collation)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.text_factory = unescaped
        connection.execute(f"create table t (k {declared[0]} collate {collation} primary key, n)")
        for number, value in enumerate(values):
            place, sent = bound(value)
            insert = f"insert or ignore into t values ({place}, {number})"
            connection.execute(insert, (sent,))
        rows = connection.execute("select k, n from t order by k").fetchall()
        for key, number in rows:
            place, sent = bound(type.bind(type.decode(type.encode(key))))
            select = f"select n from t where k is {place}"
            assert connection.execute(select, (sent,)).fetchall() == [(number,)]
    places = [type.order(key) for key, _ in rows]
    known = [place for place in places if place is not None]
    assert known == sorted(known)
    assume(known)


@given(storage)
def test_everything_decoded_can_be_bound(value: object) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for type in TYPES.values():
            connection.execute("select ?", (type.bind(type.decode(type.encode(value))),))
