from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from ipaddress import ip_address, ip_interface, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.postgres.key_types import key_type
from tests.cases import for_each
from tests.providers.database.addressing.spelled import (
    NO_SEGMENTS,
    assert_canonical,
    assert_round_trip,
    texts,
)


def of(base: str, *, is_bytewise: bool = False) -> KeyType:
    found = key_type(base, is_bytewise=is_bytewise)
    assert found is not None
    return found


ALLOWED = """
bool bpchar bytea char cidr citext date float4 float8 inet int2 int4 int8 interval jsonb macaddr
macaddr8 numeric oid text time timestamp timestamptz timetz uuid varchar
""".split()

# PostgreSQL has time zones with seconds.
zones = st.integers(-57_000, 57_000).map(lambda seconds: timezone(timedelta(seconds=seconds)))
far_dates = st.sampled_from(["infinity", "-infinity", "1000000-01-01", "0001-01-01 BC"])
NATURAL: dict[str, st.SearchStrategy[object]] = {
    "bool": st.booleans(),
    "char": st.binary(min_size=1, max_size=1),
    "date": st.dates() | far_dates,
    "time": st.times().map(lambda value: value.replace(fold=0)) | st.just("24:00:00"),
    "timetz": st.times(timezones=zones).map(lambda value: value.replace(fold=0))
    | st.just("24:00:00+01:02:03"),
    "timestamp": st.datetimes().map(lambda value: value.replace(fold=0))
    | st.sampled_from(["infinity", "-infinity", "100000-01-01 00:00:00"]),
    "timestamptz": st.datetimes(timezones=st.just(UTC)) | st.just("10000-01-01 00:00:00+00"),
    "interval": st.sampled_from(["1 mon", "30 days", "1 year -3 days +04:05:06.7", "00:00:00"]),
    "uuid": st.uuids(),
    "inet": st.ip_addresses() | st.just(ip_interface("10.0.0.1/8")),
    "cidr": st.sampled_from([ip_network("10.0.0.0/8"), ip_network("::/0")]),
    "macaddr": st.just("08:00:2b:01:02:03"),
    "macaddr8": st.just("08:00:2b:01:02:03:04:05"),
    "jsonb": st.just('{"a": 1}'),
}


@given(st.data(), st.sampled_from(sorted(NATURAL)))
def test_a_value_round_trips_through_its_segment(data: st.DataObject, base: str) -> None:
    assert_round_trip(of(base), data.draw(NATURAL[base]))


@given(st.sampled_from(ALLOWED), st.text() | texts)
def test_any_segment_is_a_value_or_not_found(base: str, segment: str) -> None:
    assert_canonical(of(base), segment)


@for_each("base", ALLOWED)
def test_a_segment_that_no_key_can_have_is_not_found(base: str) -> None:
    for segment in NO_SEGMENTS:
        with pytest.raises(ResourceNotFound):
            of(base).decode(segment)


@for_each(
    "base",
    """
    _text bit hstore int4range int8multirange json line ltree money oidvector pg_lsn pg_snapshot
    point record regclass regtype tid tsquery tsvector varbit xid xid8 xml made_up
    """.split(),
)
def test_any_other_type_is_no_key(base: str) -> None:
    found = key_type(base, is_bytewise=False)
    assert found is None or not (found.is_key and found.is_compared)


@for_each(
    ("base", "value", "segment"),
    [
        ("date", date(2026, 11, 20), "2026-11-20"),
        ("date", "1000000-01-01", "~t1000000-01-01"),
        ("date", "infinity", "~tinfinity"),
        ("timestamp", datetime(2026, 11, 20, 10), "2026-11-20T10:00:00"),  # noqa: DTZ001
        ("timestamptz", datetime(2026, 11, 20, 10, tzinfo=UTC), "2026-11-20T10:00:00Z"),
        ("time", "24:00:00", "24:00:00"),
        ("timetz", time(10, tzinfo=timezone(timedelta(seconds=7384))), "10:00:00+02:03:04"),
        ("timetz", "24:00:00-01:02:03", "~t24:00:00-01:02:03"),
        ("interval", "1 mon", "1 mon"),
        ("cidr", ip_network("10.0.0.0/8"), "~t10.0.0.0~2F8"),
        ("inet", ip_address("10.0.0.1"), "10.0.0.1"),
        ("char", b"a", "a"),
        ("char", b"\0", "~t"),
        ("char", b"\xc3", "\\303"),
        ("bool", True, "true"),
    ],
)
def test_each_value_has_its_canonical_spelling(base: str, value: object, segment: str) -> None:
    assert of(base).encode(value) == segment


@for_each(
    ("base", "segments"),
    [
        ("bool", ["2", "yes", "TRUE", "~i2", "~ttrue"]),
        ("char", ["ab", "é", "~b", "~bYWI"]),
        ("date", ["2026-02-30", "20261120", "~tnow", "~t9999999-01-01", "~i5"]),
        ("timestamp", ["2026-11-20T10:00:00Z", "now", "~t", "~t300000-01-01"]),
        ("timestamptz", ["0001-01-01T00:00:00+02:00", "2026-11-20"]),
        ("time", ["24:00", "24:00:01", "10", "25:00:00"]),
        ("interval", ["", "now", "1 fortnight"]),
        ("oid", ["-1", "4294967296"]),
        ("int2", ["32768"]),
        ("text", ["a\udcff", "~ta~00b", "~i5"]),
        ("inet", ["10.0.0", "10.0.0.1~2F8", "~t10.0.0.1~2F33", "fe80::1%eth0"]),
        ("cidr", ["~t10.0.0.1~2F8"]),
        ("macaddr", ["08:00:2b:01:02", "x"]),
        ("uuid", ["5", "0" * 31 + "_"]),
    ],
)
def test_a_segment_of_another_value_is_not_found(base: str, segments: list[str]) -> None:
    for segment in segments:
        with pytest.raises(ResourceNotFound):
            pytest.fail(f"{segment} is {of(base).decode(segment)!r}")


def test_a_name_has_at_most_63_bytes() -> None:
    name = of("name", is_bytewise=True)
    assert name.decode("a" * 63) == "a" * 63
    with pytest.raises(ResourceNotFound):
        name.decode("é" * 32)


@for_each(
    ("base", "values"),
    [
        ("date", ["-infinity", "4713-01-01 BC", date(1, 1, 1), "10000-01-01", "infinity"]),
        ("timetz", ["10:00:00+02:00:01", "10:00:00+02:00", "10:00:00+01:59:59"]),
        ("interval", ["-1 days", "00:00:00", "29 days", "1 mon", "1 mon 1 day"]),
        ("macaddr", ["08:00:2b:01:02:03", "08:00:2b:01:02:04"]),
        ("bytea", [b"", b"\0", b"\xff"]),
    ],
)
def test_values_are_ordered_as_by_postgresql(base: str, values: list[object]) -> None:
    type = of(base)
    if base == "timetz":
        values = [time.fromisoformat(str(value)) for value in values]
    assert sorted({*values}, key=type.order) == values


def test_texts_are_ordered_only_in_a_collation_of_bytes() -> None:
    assert of("text").order("a") is None
    assert of("text", is_bytewise=True).order("a") == b"a"
    assert of("bpchar", is_bytewise=True).order("a  ") == b"a"
    assert of("citext", is_bytewise=True).order("a") is None
    assert of("interval").order("1 mon") == of("interval").order("30 days")
