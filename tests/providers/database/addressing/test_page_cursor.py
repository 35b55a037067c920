from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.providers.database.addressing.key_types import Decimals, Integers, KeyType
from resource_server.providers.database.addressing.page_cursor import (
    MAX_CURSOR_LENGTH,
    decode_cursor,
    decode_position,
    decode_row_count,
    encode_cursor,
    encode_row_count,
)
from resource_server.providers.database.engines.sqlite.key_types import StoredValues
from tests.cases import for_each
from tests.providers.database.addressing.spelled import texts

TABLE = "3f2a9c01"
ANY, INTEGER, DECIMAL = StoredValues("any"), Integers(), Decimals(finite=False)

keys = st.lists(
    st.one_of(
        st.tuples(st.just(ANY), texts | st.binary() | st.floats(allow_nan=False)),
        st.tuples(st.just(INTEGER), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(
            st.just(DECIMAL), st.decimals(allow_nan=False).filter(lambda n: n.adjusted() < 99)
        ),
    ),
    max_size=4,
)


def split(key: Sequence[tuple[KeyType, object]]) -> tuple[tuple[object, ...], list[KeyType]]:
    return tuple(value for _, value in key), [type for type, _ in key]


def cursor(*values: object, type: KeyType = INTEGER) -> str:
    return encode_cursor(values, [type] * len(values), fingerprint=TABLE)


def decoded(text: str, *types: KeyType) -> tuple[object, ...]:
    return decode_cursor(text, types, fingerprint=TABLE)


@given(keys, texts.filter(str.isascii))
@example([(ANY, -0.0)], "")
@example([(ANY, b"0"), (ANY, "0"), (ANY, "\udcff")], TABLE)
@example([(DECIMAL, Decimal("1.10")), (DECIMAL, Decimal("Infinity"))], TABLE)
def test_a_cursor_round_trips(key: list[tuple[KeyType, object]], fingerprint: str) -> None:
    values, types = split(key)
    text = encode_cursor(values, types, fingerprint=fingerprint)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert uris.quote_segment(text) == text
    again = decode_cursor(text, types, fingerprint=fingerprint)
    assert again == values
    assert encode_cursor(again, types, fingerprint=fingerprint) == text


@given(keys, st.text("0123456789abcdef", min_size=1))
def test_a_cursor_of_another_table_has_expired(
    key: list[tuple[KeyType, object]], other: str
) -> None:
    values, types = split(key)
    if other != TABLE:
        text = encode_cursor(values, types, fingerprint=TABLE)
        with pytest.raises(InvalidParameter, match=r"cursor expired.*begin again"):
            decode_cursor(text, types, fingerprint=other)


@for_each("columns", [0, 1, 3])
def test_a_cursor_with_another_number_of_values_is_refused(columns: int) -> None:
    assert decoded(cursor(1, 2), INTEGER, INTEGER) == (1, 2)
    with pytest.raises(InvalidParameter):
        decoded(cursor(1, 2), *[INTEGER] * columns)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="cursor"):
        decoded(text, INTEGER)


@for_each("extra", ["=", "\n", " ", "!", "+", "%", "\0", "é"])
def test_a_cursor_with_invalid_characters_is_refused(extra: str) -> None:
    text = cursor(5)
    for damaged in (text + extra, extra + text, text[:4] + extra + text[4:]):
        with pytest.raises(InvalidParameter):
            decoded(damaged, INTEGER)


@given(st.data(), keys.filter(bool))
def test_a_damaged_cursor_has_values_of_its_columns_or_is_refused(
    data: st.DataObject, key: list[tuple[KeyType, object]]
) -> None:
    values, types = split(key)
    text = encode_cursor(values, types, fingerprint=TABLE)
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + data.draw(st.characters(codec="ascii")) + text[place + 1 :]
    try:
        again = decoded(damaged, *types)
    except InvalidParameter:
        return
    for type, value in zip(types, again, strict=True):
        assert type.encode(type.decode(type.encode(value))) == type.encode(value)


def forged(*segments: Any, version: object = 2) -> str:
    """Return a cursor forged by a client."""
    packed = msgspec.msgpack.encode([version, TABLE, segments])
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def test_a_forged_cursor_that_is_valid_is_accepted() -> None:
    assert decoded(forged(b"5"), INTEGER) == (5,)


@for_each(
    "segment",
    [b"", b"~n", b"x", b"5.0", b"~r5", b"~t5", b"1_0", b"9" * 20, b"\xff", 5, None, [b"5"], {}],
)
def test_a_forged_segment_is_checked_as_in_an_address(segment: object) -> None:
    with pytest.raises(InvalidParameter):
        decoded(forged(segment), INTEGER)


@for_each("version", [0, 1, 3, -1, "2", None])
def test_a_cursor_of_another_version_is_refused(version: object) -> None:
    with pytest.raises(InvalidParameter):
        decoded(forged(version=version))


def test_a_deeply_nested_cursor_is_refused() -> None:
    honest = msgspec.msgpack.encode([2, TABLE, []])[:-1]
    text = base64.urlsafe_b64encode(honest + b"\x91" * 8000).rstrip(b"=").decode()
    with pytest.raises(InvalidParameter):
        decoded(text, INTEGER)


def test_the_size_of_a_cursor_is_limited() -> None:
    long = "a" * (MAX_CURSOR_LENGTH * 3 // 4 - 50)
    assert decoded(cursor(long, type=ANY), ANY) == (long,)
    for value in ("a" * MAX_CURSOR_LENGTH, b"a" * 10_000_000):
        with pytest.raises(ValueError, match="too long"):
            cursor(value, type=ANY)
    with pytest.raises(InvalidParameter):
        decoded(forged(b"a" * MAX_CURSOR_LENGTH), ANY)


def test_a_cursor_keeps_its_uri_within_the_length_limit() -> None:
    after = cursor("a" * (MAX_CURSOR_LENGTH * 3 // 4 - 50), type=ANY)
    uri = uris.join("sqlite://shop/", ("orders", "~rows"), {"after": after})
    assert uris.parse(uri).query == {"after": after}


@for_each("value", [None, "\ud800", "\udcc3\udca9", [1], object()])
def test_a_value_that_no_key_can_have_is_not_encoded_in_a_cursor(value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        cursor(value, type=ANY)


def test_a_cursor_after_rows_without_a_key_holds_their_number() -> None:
    text = encode_row_count(5, fingerprint=TABLE)
    assert decode_row_count(text, fingerprint=TABLE) == 5
    assert decode_row_count(cursor(5), fingerprint=TABLE) is None
    for types in ([], [INTEGER]):
        with pytest.raises(InvalidParameter):
            decode_cursor(text, types, fingerprint=TABLE)
    for rows in (0, -1, 2**53 + 1):
        with pytest.raises(InvalidParameter):
            decode_row_count(encode_row_count(rows, fingerprint=TABLE), fingerprint=TABLE)
    with pytest.raises(InvalidParameter, match="expired"):
        decode_row_count(text, fingerprint="other")


def test_a_position_is_the_key_of_a_cursor_or_a_number_of_rows() -> None:
    assert decode_position(cursor(5), [INTEGER], fingerprint=TABLE) == (5,)
    counted = encode_row_count(5, fingerprint=TABLE)
    assert decode_position(counted, [INTEGER], fingerprint=TABLE) == 5
    for text in (cursor(5), encode_row_count(0, fingerprint=TABLE)):
        with pytest.raises(InvalidParameter):
            decode_position(text, (), fingerprint=TABLE)
