from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_types import (
    Binary,
    Decimals,
    Enumerated,
    Integers,
    KeyType,
    Reals,
    Texts,
    comes_after,
    parse_datetime,
    parse_time,
    parse_uuid,
)
from resource_server.providers.database.addressing.segments import MAX_LENGTH
from tests.cases import for_each
from tests.providers.database.addressing.spelled import (
    NO_SEGMENTS,
    assert_canonical,
    assert_not_found,
    assert_round_trip,
    texts,
)

unicode_texts = st.text(st.characters(exclude_categories=["Cs"]))
values = ("z", "a", "", "é")
TYPES: list[tuple[KeyType, st.SearchStrategy[object]]] = [
    (Integers(), st.integers(-(2**63), 2**63 - 1)),
    (Integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    (Reals(finite=True), st.floats(allow_nan=False, allow_infinity=False)),
    (Reals(finite=False), st.floats().filter(lambda value: math.copysign(1, value) == 1)),
    (Decimals(finite=True), st.decimals(allow_nan=False, allow_infinity=False)),
    (Decimals(finite=False), st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(Decimal)),
    (Texts(), unicode_texts),
    (Enumerated(values=values), st.sampled_from(values)),
    (Binary(), st.binary()),
]


@given(st.data(), st.sampled_from(TYPES))
def test_a_value_round_trips_through_its_segment(
    data: st.DataObject, typed: tuple[KeyType, st.SearchStrategy[object]]
) -> None:
    assert_round_trip(typed[0], data.draw(typed[1]))


@given(st.sampled_from([type for type, _ in TYPES]), st.text() | texts)
def test_any_segment_is_a_value_or_not_found(type: KeyType, segment: str) -> None:
    assert_canonical(type, segment)


@pytest.mark.parametrize("type", [type for type, _ in TYPES], ids=repr)
def test_a_segment_that_no_key_can_have_is_not_found(type: KeyType) -> None:
    assert_not_found(type, NO_SEGMENTS)


@for_each(
    ("type", "segments"),
    [
        (Integers(), "a 5.0 1_0 \u0665 1e3 9223372036854775808 ~r5.0 ~t5 ~bNQ true"),
        (Integers(-128, 127), "128 -129 1000"),
        (Reals(finite=True), "inf nan 1e999 NaN 0x1p3 1_0 . \u0665 ~rinf ~rnan ~t5 ~bNQ"),
        (Reals(finite=False), "infi ~rInfinity ~r+inf ~t5"),
        (Decimals(finite=True), "inf NaN sNaN 1e99999 1e-99999 1_0 1e9999999 ~rinf ~rnan ~t5"),
        (Decimals(finite=False), "sNaN ~rsNaN ~rInfinity"),
        (Texts(), "~i5 ~r5.0 ~bNQ \udcff"),
        (Texts(most=3), "abcd éé"),
        (Enumerated(values=values), "b Z ~i0 za"),
        (Binary(), "abc ~tabc 5"),
    ],
)
def test_a_segment_of_another_value_is_not_found(type: KeyType, segments: str) -> None:
    for segment in segments.split(" "):
        with pytest.raises(ResourceNotFound):
            type.decode(segment)


@for_each(
    ("type", "segment", "value"),
    [
        (Integers(), "+05", 5),
        (Integers(), "~i5", 5),
        (Integers(), "05", 5),
        (Reals(finite=True), "5", 5.0),
        (Reals(finite=True), "~i5", 5.0),
        (Decimals(finite=True), "1e3", Decimal(1000)),
        (Decimals(finite=True), "~r1.10", Decimal("1.10")),
        (Decimals(finite=True), "~i5", Decimal(5)),
        (Texts(), "~tabc", "abc"),
        (Texts(), "~t~C3~a9", "é"),
    ],
)
def test_another_spelling_has_the_same_value(type: KeyType, segment: str, value: object) -> None:
    decoded = type.decode(segment)
    assert decoded == value
    assert decoded.__class__ is value.__class__


@pytest.mark.parametrize(
    ("type", "value"),
    [
        *[(type, value) for type, _ in TYPES for value in (None, [1], object())],
        (Integers(), True),
        (Integers(), 2**63),
        (Integers(), 5.0),
        (Reals(finite=True), "5"),
        (Decimals(finite=True), 5.0),
        (Decimals(finite=True), Decimal("1E+999999")),
        (Decimals(finite=True), Decimal("1E-999999")),
        (Texts(), "\ud800"),
        (Texts(), b"a"),
        (Texts(), "a" * (MAX_LENGTH + 1)),
        (Texts(), "é" * (MAX_LENGTH // 6 + 1)),
        (Texts(), "/" * (MAX_LENGTH // 3)),
        (Binary(), b"a" * MAX_LENGTH),
        (Binary(), "a"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_that_no_uri_can_hold_is_refused(type: KeyType, value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        type.segment(value)


@for_each("value", ["a" * MAX_LENGTH, "é" * (MAX_LENGTH // 6)])
def test_a_key_of_the_maximum_length_has_an_address(value: str) -> None:
    assert Texts().decode(Texts().segment(value)) == value


def bounds(type: KeyType, begun: str) -> list[object]:
    return list(type.prefix_bounds(begun))


def test_integers_that_begin_alike_have_a_bound_for_each_length() -> None:
    assert bounds(Integers(0, 999), "5") == [5, 50, 500]
    assert bounds(Integers(-99, 99), "-5") == [-5, -59]
    assert bounds(Integers(), "0") == [0]
    assert bounds(Integers(), "") == [None]
    assert bounds(Integers(), "x") == [None]
    assert bounds(Texts(), "ab") == ["ab"]
    assert bounds(Enumerated(values=values), "z") == [None]


# --- order


INTEGERS, TEXTS = Integers(), Texts()


@for_each(
    ("key", "other", "expected"),
    [
        ((2,), (1,), True),
        ((1,), (1,), False),
        ((1,), (2,), False),
        ((1, 3), (1, 2), True),
        ((2, 1), (1, 2), True),
        ((1, 2), (1, 2), False),
        (("b",), ("a",), True),
        (("a",), ("b",), True),  # only the engine knows its collation
        (("a",), ("a",), False),
        (("a", 1), ("a", 2), False),
        (("a", 1), ("b", 2), True),
    ],
)
def test_a_key_comes_after_another(
    key: tuple[object, ...], other: tuple[object, ...], expected: bool
) -> None:
    types = [TEXTS if isinstance(value, str) else INTEGERS for value in key]
    assert comes_after(key, other, types) is expected


def test_numbers_that_are_not_finite_are_ordered_as_in_postgresql() -> None:
    floats = [-math.inf, -1.0, 0.0, math.inf, math.nan]
    decimals = [Decimal(text) for text in ("-Infinity", "-1", "0", "Infinity", "NaN")]
    assert sorted({*floats}, key=Reals(finite=False).order)[:4] == floats[:4]
    assert sorted({*decimals}, key=Decimals(finite=False).order)[:4] == decimals[:4]
    assert not comes_after((math.nan,), (math.nan,), (Reals(finite=False),))
    assert not comes_after((-0.0,), (0.0,), (Reals(finite=False),))


# --- dates and UUIDs


def test_dates_and_uuids_are_read_in_the_forms_of_their_standards() -> None:
    assert parse_datetime("2026-11-20T12:00+02:00") == parse_datetime("2026-11-20 10:00:00Z")
    assert str(parse_time("10:00+02:03:04")) == "10:00:00+02:03:04"
    assert parse_uuid("0" * 31 + "A") == parse_uuid("00000000-0000-0000-0000-00000000000a")
    for text in ("now", "2026-11-20", "2026-W01-1T00:00", "\u0662026-11-20T10:00:00"):
        with pytest.raises(ValueError, match=r"^$|\w"):
            parse_datetime(text)
    for text in ("24:00", "10", "10:60:00", "\u0661\u0660:00:00"):
        with pytest.raises(ValueError, match=r"^$|\w"):
            parse_time(text)
    for text in ("5", "{00000000-0000-0000-0000-00000000000a}", "0" * 31 + "_"):
        with pytest.raises(ValueError, match=r"^$|\w"):
            parse_uuid(text)
