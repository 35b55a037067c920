from __future__ import annotations

import base64
import ipaddress
import re
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.providers.database.addressing.key_codec import (
    MAX_CURSOR_LENGTH,
    PageCursor,
    decode_cursor,
    encode_cursor,
)

TABLE = "3f2a9c01"

# PostgreSQL has time zones with seconds.
zones = st.integers(-86_000, 86_000).map(lambda seconds: timezone(timedelta(seconds=seconds)))
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.binary().map(
    lambda data: data.decode("utf-8", "surrogateescape")
)
decimals = st.decimals(allow_nan=False) | st.just(Decimal("NaN"))
values = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    st.binary(),
    decimals.filter(lambda value: not value.is_finite() or abs(value.adjusted()) < 10_000),
    st.dates(),
    # No database stores `fold`.
    (st.times() | st.times(timezones=zones)).map(lambda value: value.replace(fold=0)),
    (st.datetimes() | st.datetimes(timezones=zones)).map(lambda value: value.replace(fold=0)),
    st.timedeltas(timedelta(hours=-838), timedelta(hours=838)),
    st.uuids(),
)
keys = st.lists(values, max_size=4).map(tuple)


def looks(value: object) -> str:
    """Return the differences between values that compare equal."""
    return f"{type(value).__name__} {value!r}"


@given(keys, st.booleans(), texts.filter(str.isascii))
@example((-0.0,), False, "")
@example((0, False, 0.0, Decimal(0), "0", b"0"), True, TABLE)
@example((2**64, -(2**63) - 1, Decimal("1.10"), Decimal("0E-10")), False, TABLE)
@example((datetime(2026, 11, 20, 10), time(10)), False, TABLE)  # noqa: DTZ001
def test_a_cursor_round_trips(key: tuple[object, ...], descending: bool, fingerprint: str) -> None:
    text = encode_cursor(PageCursor(fingerprint, key, descending))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert uris.quote_segment(text) == text
    cursor = decode_cursor(text, fingerprint=fingerprint, columns=len(key))
    assert (cursor.fingerprint, cursor.descending) == (fingerprint, descending)
    assert [looks(value) for value in cursor.key] == [looks(value) for value in key]


@given(keys, st.text("0123456789abcdef", min_size=1))
def test_a_cursor_of_another_table_has_expired(key: tuple[object, ...], other: str) -> None:
    if other != TABLE:
        with pytest.raises(InvalidParameter, match=r"cursor expired.*begin again"):
            decode_cursor(
                encode_cursor(PageCursor(TABLE, key)), fingerprint=other, columns=len(key)
            )


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_cursor_with_another_number_of_values_is_refused(columns: int) -> None:
    text = encode_cursor(PageCursor(TABLE, (1, 2)))
    assert decode_cursor(text, fingerprint=TABLE, columns=2)
    with pytest.raises(InvalidParameter):
        decode_cursor(text, fingerprint=TABLE, columns=columns)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="cursor"):
        decode_cursor(text, fingerprint=TABLE, columns=1)


@pytest.mark.parametrize("extra", ["=", "\n", " ", "!", "+", "%", "\0", "é"])
def test_a_cursor_with_invalid_characters_is_refused(extra: str) -> None:
    text = encode_cursor(PageCursor(TABLE, (5,)))
    for damaged in (text + extra, extra + text, text[:4] + extra + text[4:]):
        with pytest.raises(InvalidParameter):
            decode_cursor(damaged, fingerprint=TABLE, columns=1)


@given(st.data(), keys.filter(bool))
def test_a_damaged_cursor_has_bindable_values_or_is_refused(
    data: st.DataObject, key: tuple[object, ...]
) -> None:
    text = encode_cursor(PageCursor(TABLE, key))
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + data.draw(st.characters(codec="ascii")) + text[place + 1 :]
    try:
        cursor = decode_cursor(damaged, fingerprint=TABLE, columns=len(key))
    except InvalidParameter:
        return
    again = decode_cursor(encode_cursor(cursor), fingerprint=TABLE, columns=len(key))
    assert [looks(value) for value in again.key] == [looks(value) for value in cursor.key]


def forged(key: object, *, version: object = 1, descending: object = False) -> str:
    """Return a cursor forged by a client."""
    packed = msgspec.msgpack.encode([version, TABLE, descending, key])
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def test_a_forged_cursor_that_is_valid_is_accepted() -> None:
    assert decode_cursor(forged([("i", b"5")]), fingerprint=TABLE, columns=1) == PageCursor(
        TABLE, (5,)
    )


@pytest.mark.parametrize(
    "value",
    [
        ("n", b""),
        ("o", b"2"),
        ("o", b""),
        ("i", b""),
        ("i", b"05"),
        ("i", b"-0"),
        ("i", b"1_0"),
        ("i", b" 5"),
        ("i", "\u0665".encode()),
        ("i", b"9" * 4200),
        ("r", b"1234567"),
        ("d", b"sNaN"),
        ("d", b"NaN1"),
        ("d", b"-NaN"),
        ("d", b"1E+999999999"),
        ("d", b"1E-999999999"),
        ("d", b"0E+999999999"),
        ("d", b"1_0"),
        ("d", b"x"),
        ("y", b"20261120"),
        ("y", b"2026-02-30"),
        ("s", b"2026-11-20 10:00:00"),
        ("h", b"24:00:00"),
        ("l", b"9" * 30),
        ("u", b"1" * 15),
        ("z", b""),
        ("", b""),
        ("ii", b"5"),
        ("i", 5),
        ("i", b"5", b"6"),
        ("t", ["a"]),
        5,
        {},
    ],
)
def test_a_forged_value_that_no_key_can_have_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        decode_cursor(forged([value]), fingerprint=TABLE, columns=1)


@pytest.mark.parametrize("version", [0, 2, -1, "1", None])
def test_a_cursor_of_another_version_is_refused(version: object) -> None:
    with pytest.raises(InvalidParameter):
        decode_cursor(forged([], version=version), fingerprint=TABLE, columns=0)


def test_a_deeply_nested_cursor_is_refused() -> None:
    honest = msgspec.msgpack.encode([1, TABLE, False, []])[:-1]
    text = base64.urlsafe_b64encode(honest + b"\x91" * 8000).rstrip(b"=").decode()
    with pytest.raises(InvalidParameter):
        decode_cursor(text, fingerprint=TABLE, columns=1)


def test_the_size_of_a_cursor_is_limited() -> None:
    long = "a" * (MAX_CURSOR_LENGTH * 3 // 4 - 50)
    assert decode_cursor(
        encode_cursor(PageCursor(TABLE, (long,))), fingerprint=TABLE, columns=1
    ).key == (long,)
    for value in ("a" * MAX_CURSOR_LENGTH, b"a" * 10_000_000, 10**5000, Decimal("1E+999999")):
        with pytest.raises(ValueError, match="too long"):
            encode_cursor(PageCursor(TABLE, (value,)))
    with pytest.raises(InvalidParameter):
        decode_cursor(forged([("b", b"a" * MAX_CURSOR_LENGTH)]), fingerprint=TABLE, columns=1)


def test_a_cursor_keeps_its_uri_within_the_length_limit() -> None:
    after = encode_cursor(PageCursor(TABLE, ("a" * (MAX_CURSOR_LENGTH * 3 // 4 - 50),)))
    uri = uris.join("sqlite://shop/", ("orders", "~rows"), {"after": after})
    assert uris.parse(uri).query == {"after": after}


@pytest.mark.parametrize("value", [None, "\ud800", "\udcc3\udca9", [1], object(), Decimal("sNaN")])
def test_a_value_that_no_key_can_have_is_not_encoded_in_a_cursor(value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encode_cursor(PageCursor(TABLE, (value,)))


def test_a_network_address_is_decoded_as_text() -> None:
    text = encode_cursor(PageCursor(TABLE, (ipaddress.ip_interface("10.0.0.1/8"),)))
    assert decode_cursor(text, fingerprint=TABLE, columns=1).key == ("10.0.0.1/8",)
