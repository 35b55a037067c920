from __future__ import annotations

import ipaddress
import math
import re
import sqlite3
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import AnyUrl

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_codec import (
    MAX_LENGTH,
    RawText,
    decode_key,
    decode_text,
    encode_key,
    encode_text,
    storage_value,
)
from resource_server.providers.database.engines.reflection import Column, ColumnKind

KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
COLUMNS = {kind: Column("k", "", kind) for kind in KINDS}
BASE = "sqlite://shop/"

# Text from a driver: Unicode, with lone surrogates for bytes that are not UTF-8.
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.text("ab5.-+~%/?#&=_:T\0\n\\ éÉ\u0301\u202e\U0001f600\udcff", max_size=8),
    st.from_regex(r"~?[nirtb]?[0-9.~/]{0,4}", fullmatch=True),
    st.sampled_from(
        (
            *("", ".", "..", "...", "~", "~schema", "~rows", "~cell", "~query", "~n", "~i5", "~t"),
            *("5", "5.0", "-0", "1e5", "inf", "NaN", "true", "%2F", "%2e%2e", "a/b", "\0", "+"),
            *("2026-11-20", "2026-11-20T10:00:00", "2026-11-20T10:00:00Z", "2026-11-20 10:00:00"),
            *("10:00:00", "25:00:00", "550e8400-e29b-41d4-a716-446655440000", "0000-00-00"),
        )
    ),
    st.dates().map(str),
    st.datetimes().map(str),
    st.uuids().map(str),
)
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False)
# Values that SQLite may return from any column, whatever its declared type.
storage = st.one_of(st.none(), integers, floats, texts, st.binary())

decimals = st.decimals(allow_nan=False, allow_infinity=False)
# PostgreSQL has time zones with seconds.
zones = st.integers(-86_000, 86_000).map(lambda seconds: timezone(timedelta(seconds=seconds)))
aware = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=zones)  # noqa: DTZ001
natural: dict[ColumnKind, st.SearchStrategy[object]] = {
    "integer": integers,
    "real": st.floats(),
    "numeric": decimals,
    "text": texts,
    "blob": st.binary(),
    "boolean": st.booleans(),
    "date": st.dates(),
    "time": st.times() | st.times(timezones=zones),
    "datetime": st.datetimes() | aware,
    "uuid": st.uuids(),
    "json": texts,
    "any": storage,
    "other": texts,
}


def same(one: object, other: object) -> bool:
    """Return whether two values have the same class and value, including signed zeros and NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and one == other


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def survives(segment: str) -> None:
    uri = uris.join(BASE, ("t", segment, "~cell", "c"))
    assert uris.parse(uri).path == ("t", segment, "~cell", "c")
    assert str(AnyUrl(uri)) == uri


# --- canonical spelling of values


@pytest.mark.slow
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
def test_any_value_stored_by_sqlite_round_trips(kind: ColumnKind, value: object) -> None:
    decoded = storage_value(decode_key(encode_key(value, COLUMNS[kind]), COLUMNS[kind]))
    if isinstance(decoded, RawText):
        decoded = decoded.decode("utf-8", "surrogateescape")
    assert same(decoded, value)


@given(st.data(), st.sampled_from(KINDS))
def test_a_value_of_each_column_kind_round_trips(data: st.DataObject, kind: ColumnKind) -> None:
    value = data.draw(natural[kind])
    decoded = decode_key(encode_key(value, COLUMNS[kind]), COLUMNS[kind])
    assert decoded == value or (is_nan(decoded) and is_nan(value))


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
    column = COLUMNS[kind]
    # Numbers have one spelling if the column converts them all to one type.
    assume(not (kind in ("numeric", "boolean") and one == other))
    assert (encode_key(one, column) == encode_key(other, column)) is same(one, other)


@pytest.mark.slow
@given(st.sampled_from(KINDS), storage)
def test_a_canonical_spelling_is_stable(kind: ColumnKind, value: object) -> None:
    column = COLUMNS[kind]
    segment = encode_key(value, column)
    decoded = decode_key(segment, column)
    # A number's storage class depends on the row, and dates may be stored as text.
    assume(not (kind == "numeric" and isinstance(value, float)))
    assert encode_key(decoded, column) == segment


@given(st.sampled_from(KINDS), storage)
def test_a_spelling_survives_uris_and_url_libraries(kind: ColumnKind, value: object) -> None:
    survives(encode_key(value, COLUMNS[kind]))


@given(st.data(), st.sampled_from(KINDS))
def test_the_spelling_of_a_typed_value_survives_too(data: st.DataObject, kind: ColumnKind) -> None:
    survives(encode_key(data.draw(natural[kind]), COLUMNS[kind]))


@pytest.mark.parametrize(
    ("kind", "value", "segment"),
    [
        ("integer", 5, "5"),
        ("integer", True, "1"),
        ("integer", 5.5, "~r5.5"),
        ("integer", "5", "~t5"),
        ("integer", None, "~n"),
        ("real", 5.5, "5.5"),
        ("real", -0.0, "-0.0"),
        ("real", 1e300, "1e+300"),
        ("real", 5, "~i5"),
        ("real", math.inf, "~rinf"),
        ("real", math.nan, "~rnan"),
        ("numeric", Decimal("1.10"), "1.10"),
        ("numeric", Decimal("1.1"), "1.1"),
        ("numeric", Decimal("0E-10"), "0.0000000000"),
        ("numeric", Decimal("1E+3"), "1000"),
        ("numeric", Decimal("-Infinity"), "~r-inf"),
        ("numeric", 2**70, "1180591620717411303424"),
        ("text", "DE", "DE"),
        ("text", "5", "5"),
        ("text", "", "~t"),
        ("text", ".", "~t."),
        ("text", "..", "~t.."),
        ("text", "a/b", "~ta~2Fb"),
        ("text", "a\0b", "~ta~00b"),
        ("text", "~schema", "~t~7Eschema"),
        ("text", "a~b", "a~b"),
        ("text", "a~b/", "~ta~7Eb~2F"),
        ("text", b"\0\xff", "~bAP8"),
        ("blob", b"", "~b"),
        ("blob", "abc", "~tabc"),
        ("any", 5, "~i5"),
        ("any", 5.0, "~r5.0"),
        ("any", "5", "~t5"),
        ("boolean", True, "true"),
        ("boolean", 0, "false"),
        ("boolean", 2, "~i2"),
        ("date", date(2026, 11, 20), "2026-11-20"),
        ("date", "2026-11-20", "2026-11-20"),
        ("date", "20261120", "~t20261120"),
        ("date", "0000-00-00", "~t0000-00-00"),
        ("time", time(10, 0), "10:00:00"),
        ("time", timedelta(hours=-25, microseconds=-1), "-25:00:00.000001"),
        ("time", timedelta(hours=838, minutes=59, seconds=59), "838:59:59"),
        ("datetime", datetime(2026, 11, 20, 10), "2026-11-20T10:00:00"),  # noqa: DTZ001
        ("datetime", datetime(2026, 11, 20, 10, tzinfo=UTC), "2026-11-20T10:00:00Z"),
        ("datetime", "2026-11-20 10:00:00", "~t2026-11-20 10:00:00"),
        ("uuid", UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a"),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "~t00000000-0000-0000-0000-00000000000A"),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("other", ipaddress.ip_network("10.0.0.0/8"), "~t10.0.0.0~2F8"),
        ("other", 5, "~i5"),
        ("text", date(2026, 11, 20), "2026-11-20"),
    ],
)
def test_each_value_has_its_canonical_spelling(
    kind: ColumnKind, value: object, segment: str
) -> None:
    assert encode_key(value, COLUMNS[kind]) == segment


# --- lookups in SQLite

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


def bound(value: object) -> tuple[str, object]:
    """Return a value and its placeholder; `+` removes the affinity of casts."""
    if isinstance(value, str):
        return "+cast(? as text)", value.encode("utf-8", "surrogateescape")
    return ("+cast(? as text)" if isinstance(value, RawText) else "?"), value


def unescaped(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@pytest.mark.slow
@given(st.sampled_from(AFFINITIES), st.lists(storage, min_size=1, max_size=8))
@example(("BLOB", "any"), [5, "5", b"5", 5.5, "5.5", None])
@example(("", "any"), [0.0, "0", "-0.0", b"", ""])
@example(("REAL", "real"), [5, 2**62, 1e-320, math.inf, "inf", b"5", "x"])
@example(("DECIMAL(10, 2)", "numeric"), [0.1, 5.0, 1e16, 1e300, -(2**63), "1.10", "x", math.inf])
@example(("INT", "integer"), [5.5, 9.3e18, "x", -(2**63), 2**63 - 1])
@example(("DATE", "date"), ["2026-11-20", "2026", "20261120", 5, 0.5])
@example(("TEXT", "text"), ["é", "e\u0301", "DE", "de", "\udcff", "a\0b", "~n", ""])
def test_every_row_of_sqlite_is_found_by_its_own_segment(
    declared: tuple[str, ColumnKind], values: list[object]
) -> None:
    column = Column("k", *declared)
    connection = sqlite3.connect(":memory:")
    connection.text_factory = unescaped
    try:
        connection.execute(f"create table t (k {column.type} primary key, n)")
        for number, value in enumerate(values):
            place, sent = bound(value)
            if value is not None or None not in values[:number]:
                insert = f"insert or ignore into t values ({place}, {number})"
                connection.execute(insert, (sent,))
        for key, number in connection.execute("select k, n from t").fetchall():
            place, sent = bound(storage_value(decode_key(encode_key(key, column), column)))
            select = f"select n from t where k is {place}"
            assert connection.execute(select, (sent,)).fetchall() == [(number,)]
    finally:
        connection.close()


# --- other spellings


@pytest.mark.parametrize(
    ("kind", "segment", "value"),
    [
        ("integer", "+05", 5),
        ("integer", "~i5", 5),
        ("real", "5", 5.0),
        ("numeric", "1e3", Decimal(1000)),
        ("numeric", "1.1", Decimal("1.10")),
        ("numeric", str(2**63 - 1), 2**63 - 1),
        ("numeric", str(2**63), Decimal(2**63)),
        ("numeric", "~r1.10", Decimal("1.1")),
        ("numeric", "~i5", 5),
        ("text", "~tabc", "abc"),
        ("text", "~t~C3~a9", "é"),
        ("text", "~t~FF", "\udcff"),
        ("boolean", "1", True),
        ("datetime", "2026-11-20 10:00", datetime(2026, 11, 20, 10)),  # noqa: DTZ001
        ("datetime", "2026-11-20T12:00:00+02:00", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("time", "10:00", time(10)),
        ("time", "25:00:00", "25:00:00"),
        ("uuid", "0000000000000000000000000000000A", UUID(int=10)),
        ("uuid", "00000000-0000-0000-0000-00000000000A", UUID(int=10)),
    ],
)
def test_another_spelling_has_the_same_value(kind: ColumnKind, segment: str, value: object) -> None:
    decoded = decode_key(segment, COLUMNS[kind])
    assert decoded == value
    assert type(decoded) is type(value)


def test_a_datetime_has_a_zone_if_its_column_has_one() -> None:
    zoned = Column("k", "timestamp with time zone", "datetime")
    bare = Column("k", "timestamp without time zone", "datetime")
    moment = datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert decode_key("2026-11-20T10:00:00", zoned) == moment
    assert decode_key("2026-11-20T10:00:00Z", zoned) == moment
    assert decode_key("2026-11-20T10:00:00", bare) == moment.replace(tzinfo=None)
    with pytest.raises(ResourceNotFound):
        decode_key("2026-11-20T10:00:00Z", bare)


@pytest.mark.parametrize("value", [datetime.min, datetime.max])  # noqa: DTZ901
def test_infinity_round_trips_as_in_the_driver_of_postgresql(value: datetime) -> None:
    zoned = Column("k", "timestamp with time zone", "datetime")
    assert decode_key(encode_key(value, zoned), zoned) == value


def test_an_unsigned_column_allows_unsigned_64_bit_integers() -> None:
    unsigned = Column("k", "bigint(20) unsigned", "integer")
    assert decode_key(encode_key(2**64 - 1, unsigned), unsigned) == 2**64 - 1
    with pytest.raises(ResourceNotFound):
        decode_key(str(2**64), unsigned)


@given(storage)
def test_everything_decoded_can_be_bound_by_sqlite(value: object) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        for column in COLUMNS.values():
            bound = storage_value(decode_key(encode_key(value, column), column))
            if isinstance(bound, str):
                # Lone surrogates are bound as the bytes that they stand for.
                bound = bound.encode("utf-8", "surrogateescape")
            connection.execute("select ?", (bound,))
    finally:
        connection.close()


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64 - 1])
def test_an_integer_too_long_for_sqlite_is_bound_as_sqlite_reads_it(value: int) -> None:
    with sqlite3.connect(":memory:") as connection:
        (itself,) = connection.execute(f"select {value}").fetchone()
    connection.close()
    assert storage_value(value) == itself


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (10**400, math.inf),
        (Decimal("-1E+999"), -math.inf),
        (timedelta(days=1000), "1000 days, 0:00:00"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "0001-01-01 00:00:00+02:00"),
    ],
)
def test_values_that_sqlite_cannot_store_can_still_be_bound(value: object, stored: object) -> None:
    assert storage_value(value) == stored


# --- segments that are no keys


@pytest.mark.parametrize(
    ("kind", "segment"),
    [
        *[(kind, segment) for kind in KINDS for segment in ("", ".", "..", "a/b", "\0", "~")],
        *[(kind, segment) for kind in KINDS for segment in ("~x", "~nn", "~i", "~i5.0", "~schema")],
        *[(kind, segment) for kind in KINDS for segment in ("~rows", "~r1e999999", "~r0x1", "~N")],
        *[(kind, segment) for kind in KINDS for segment in ("~bA", "~b+/", "~bAP8=", "~b\n")],
        *[(kind, segment) for kind in KINDS for segment in ("~ta~", "~t~2", "~t~GG", "~ta~~")],
        *[(kind, segment) for kind in KINDS for segment in ("\ud800", "\udcc3\udca9", "~t\ud800")],
        *[(kind, segment) for kind in KINDS for segment in ("a" * 20_000, "~i" + "9" * 16_000)],
        *[("integer", s) for s in ("a", "5.0", "1_0", "\u0665", " 5", "5\n", "9" * 19, "1e3")],
        ("integer", str(2**63)),
        ("any", "~i" + str(2**63)),
        *[("real", s) for s in ("inf", "nan", "1e999", "NaN", "0x1p3", "1_0", ".", "\u0665")],
        *[
            ("numeric", s)
            for s in ("inf", "NaN", "sNaN", "1e99999", "1e-99999", "1_0", "1e9999999")
        ],
        *[("boolean", s) for s in ("2", "yes", "TRUE", "t")],
        *[("date", s) for s in ("2026-02-30", "20261120", "2026-W01-1", "2026-11-20T10:00:00")],
        *[("time", s) for s in ("24:00", "10", "10:60:00", "1000:00:00", "\u0661\u0660:00:00")],
        *[("datetime", s) for s in ("2026-11-20", "0001-01-01T00:00:00+02:00", "now", "x" * 19)],
        *[("uuid", s) for s in ("5", "{00000000-0000-0000-0000-00000000000a}", "0" * 31 + "_")],
        *[(kind, segment) for kind in ("any", "blob") for segment in ("5", "abc")],
    ],
)
def test_a_segment_that_no_key_can_have_is_not_found(kind: ColumnKind, segment: str) -> None:
    with pytest.raises(ResourceNotFound):
        decode_key(segment, COLUMNS[kind])


@pytest.mark.slow
@given(st.sampled_from(KINDS), st.text() | texts)
def test_any_segment_is_a_value_or_not_found(kind: ColumnKind, segment: str) -> None:
    column = COLUMNS[kind]
    try:
        value = decode_key(segment, column)
    except ResourceNotFound:
        return
    canonical = encode_key(value, column)
    again = decode_key(canonical, column)
    assert again == value or is_nan(value)
    assert encode_key(again, column) == canonical
    survives(canonical)


# --- values without an address


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [
        "a" * (MAX_LENGTH + 1),
        "é" * (MAX_LENGTH // 6 + 1),
        "/" * (MAX_LENGTH // 3),
        b"a" * MAX_LENGTH,
        "\ud800",
        "\udcc3\udca9",
        Decimal("1E+999999"),
        Decimal("1E-999999"),
        timedelta(hours=839),
        timedelta.max,
        [1],
        object(),
    ],
    ids=lambda value: re.sub(r"\W", "", repr(value))[:12],
)
def test_a_value_that_no_uri_can_hold_is_refused(kind: ColumnKind, value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encode_key(value, COLUMNS[kind])


@pytest.mark.parametrize("kind", ["integer", "any", "text"])
def test_an_integer_beyond_64_bit_is_refused_if_the_column_cannot_hold_it(kind: ColumnKind) -> None:
    with pytest.raises(ValueError, match="64 bit"):
        encode_key(2**64, COLUMNS[kind])


@pytest.mark.parametrize("value", ["a" * MAX_LENGTH, "é" * (MAX_LENGTH // 6), b"a" * 11_000])
def test_a_key_of_the_maximum_length_has_an_address(value: object) -> None:
    segment = encode_key(value, COLUMNS["text"])
    assert decode_key(segment, COLUMNS["text"]) == value
    assert uris.parse(uris.join(BASE, ("t", segment))).path == ("t", segment)


# --- names and other texts


@given(texts)
def test_a_text_round_trips_through_its_segment(text: str) -> None:
    segment = encode_text(text)
    assert decode_text(segment) == text
    survives(segment)


@pytest.mark.parametrize("segment", ["~n", "~i5", "~query", "~", "", ".", "..", "a/b", "~t~"])
def test_a_segment_that_is_not_text_is_not_found(segment: str) -> None:
    with pytest.raises(ResourceNotFound):
        decode_text(segment)


def test_an_interval_cannot_be_a_key() -> None:
    assert encode_key(timedelta(days=1), COLUMNS["time"]) == "24:00:00"
    with pytest.raises(ValueError, match="interval"):
        encode_key(timedelta(days=1), COLUMNS["other"])
