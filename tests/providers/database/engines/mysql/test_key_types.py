from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.mysql.key_types import key_type
from tests.cases import for_each
from tests.providers.database.addressing.spelled import (
    NO_SEGMENTS,
    assert_canonical,
    assert_round_trip,
    texts,
)


def of(type: str, *values: str) -> KeyType:
    found = key_type(type.split("(")[0].split(" ")[0], type, values)
    assert found is not None
    return found


LETTERS = ("z", "a\\b", "M")
NATURAL: dict[str, st.SearchStrategy[object]] = {
    "tinyint(1)": st.integers(-128, 127),
    "tinyint(4)": st.integers(-128, 127),
    "bigint(20) unsigned": st.integers(0, 2**64 - 1),
    "year(4)": st.integers(1901, 2155) | st.just(0),
    "decimal(10,2)": st.decimals(allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "varchar(9)": st.text(st.characters(exclude_categories=["Cs"])),
    "binary(2)": st.binary(),
    "date": st.dates() | st.sampled_from(["0000-00-00", "2026-00-00"]),
    "datetime(6)": st.datetimes().map(lambda value: value.replace(fold=0))
    | st.just("0000-00-00 00:00:00.000000"),
    "time(6)": st.timedeltas(timedelta(hours=-838), timedelta(hours=838)),
    "uuid": st.uuids().map(str),
    "inet6": st.just("::1"),
}


@given(st.data(), st.sampled_from(sorted(NATURAL)))
def test_a_value_round_trips_through_its_segment(data: st.DataObject, type: str) -> None:
    assert_round_trip(of(type), data.draw(NATURAL[type]))


@given(st.sampled_from(sorted(NATURAL)), st.text() | texts)
def test_any_segment_is_a_value_or_not_found(type: str, segment: str) -> None:
    assert_canonical(of(type), segment)


@for_each("type", [*NATURAL, "enum"])
def test_a_segment_that_no_key_can_have_is_not_found(type: str) -> None:
    for segment in NO_SEGMENTS:
        with pytest.raises(ResourceNotFound):
            of(type, *LETTERS).decode(segment)


@for_each(
    "type", ["bit(8)", "float", "float(7,3)", "set('a')", "json", "point", "geometry", "vector(3)"]
)
def test_any_other_type_is_no_key(type: str) -> None:
    found = key_type(type.split("(")[0], type, ("a",))
    assert found is None or not (found.is_key and found.is_compared)


@for_each("values", [("a", "b", "A"), ("e", "\u00e9"), ("x", "x ")])
def test_an_enumeration_whose_values_may_be_equal_is_not_ordered(values: tuple[str, ...]) -> None:
    for collation, is_ordered in {"utf8mb4_general_ci": False, "utf8mb4_bin": True}.items():
        found = key_type("enum", "enum(…)", values, collation=collation)
        assert found is not None
        assert bool(found.ranks) is is_ordered


@for_each(
    ("declared", "collation", "is_compared"),
    [
        ("varchar(40)", "utf8mb4_uca1400_as_cs", False),
        ("text", "uca1400_german2_as_ci", False),
        ("char(9)", "utf8mb4_uca1400_as_cs", True),
        ("varchar(40)", "utf8mb4_uca1400_ai_ci", True),
        ("varchar(40)", "utf8mb4_bin", True),
    ],
)
def test_texts_that_mariadb_may_sort_otherwise_than_it_compares_are_not_sorted(
    declared: str, collation: str, is_compared: bool
) -> None:
    found = key_type(declared.partition("(")[0], declared, (), collation=collation)
    assert found is not None
    assert found.is_compared is is_compared


def test_an_enumeration_of_the_empty_text_is_no_key() -> None:
    found = key_type("enum", "enum('a','')", ("a", ""))
    assert found is not None
    assert not found.is_compared


@for_each(
    ("type", "value", "segment"),
    [
        ("tinyint(1)", 0, "false"),
        ("tinyint(1)", 1, "true"),
        ("tinyint(1)", -1, "~i-1"),
        ("decimal(10,2)", Decimal("1.10"), "1.10"),
        ("decimal(10,10)", Decimal("1E-10"), "0.0000000001"),
        ("date", date(2026, 11, 20), "2026-11-20"),
        ("date", "0000-00-00", "~t0000-00-00"),
        ("datetime", datetime(2026, 11, 20, 10), "2026-11-20T10:00:00"),  # noqa: DTZ001
        ("time", timedelta(hours=-25, microseconds=-1), "-25:00:00.000001"),
        ("time", timedelta(hours=838, minutes=59, seconds=59), "838:59:59"),
        ("binary(2)", b"\0\xff", "~bAP8"),
    ],
)
def test_each_value_has_its_canonical_spelling(type: str, value: object, segment: str) -> None:
    assert of(type).encode(value) == segment


@for_each(
    ("type", "segments"),
    [
        ("tinyint(1)", ["128", "yes", "~i128"]),
        ("int(11) unsigned", ["-1", "4294967296"]),
        ("year(4)", ["5", "70", "1900", "2156", "~i5"]),
        ("decimal(10,2)", ["~rinf", "~rnan", "Infinity", "~t5"]),
        ("double", ["~rinf", "1e999"]),
        ("date", ["2026-02-30", "2026-11-20T10:00:00", "~tnow", "~t2026-11-20 10:00:00", "~i5"]),
        ("datetime", ["2026-11-20T10:00:00Z", "2026-11-20", "~t2026-11-20"]),
        ("time", ["839:00:00", "10:60:00", "1000:00:00", "now"]),
        ("varchar(9)", ["a\udcff", "~i5"]),
        ("uuid", ["5"]),
    ],
)
def test_a_segment_of_another_value_is_not_found(type: str, segments: list[str]) -> None:
    for segment in segments:
        with pytest.raises(ResourceNotFound):
            pytest.fail(f"{segment} is {of(type).decode(segment)!r}")


def test_values_are_bound_as_texts_that_mariadb_reads_exactly() -> None:
    assert str(of("decimal(20,10)").bind(Decimal("1E+3"))) == "1000"
    assert of("time").bind(timedelta(hours=-25)) == "-25:00:00"
    assert of("date").bind("0000-00-00") == "0000-00-00"
    assert of("datetime").bind(datetime(2026, 11, 20, 10)) == "2026-11-20 10:00:00"  # noqa: DTZ001


def test_enumerations_are_ordered_by_position() -> None:
    type = of("enum", *LETTERS)
    assert type.ranks == ("", *LETTERS)
    assert sorted(LETTERS, key=type.order) == list(LETTERS)
    assert of("datetime").order("0000-00-00 00:00:00") < of("datetime").order(datetime(1, 1, 1))  # noqa: DTZ001


def test_a_char_whose_collation_compares_spaces_is_no_key() -> None:
    nopad = "utf8mb4_unicode_520_nopad_ci"
    for type, collation, is_compared in (
        ("char", nopad, False),
        ("char", "utf8mb4_general_ci", True),
        ("varchar", nopad, True),
    ):
        found = key_type(type, f"{type}(10)", (), collation=collation)
        assert found is not None
        assert found.is_compared is is_compared
