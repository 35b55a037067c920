"""Masks of values."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.masks import Masker
from tests.cases import for_each


@given(st.text() | st.integers() | st.binary() | st.floats() | st.decimals() | st.none())
def test_no_mask_reveals_more_than_the_last_half_of_a_value(value: object) -> None:
    for mask in ("hash", "redact", "last4"):
        shown = Masker(mask, b"key")(value)
        assert (shown is None) == (value is None)
        if shown is not None and shown.startswith("…"):
            assert len(shown) == 5
            assert len(str(value)) >= 8


@for_each(
    ("value", "shown"),
    [
        ("12345678", "…5678"),
        ("1234567", "***"),
        ("", "***"),
        (4111111111111234, "…1234"),
        (Decimal("12345678.90"), "…8.90"),
        (b"0123456789", "***"),
        (True, "***"),
        (1234567.25, "***"),
        (None, None),
    ],
)
def test_last4_shows_four_characters_of_eight_or_more(value: object, shown: str | None) -> None:
    assert Masker("last4", b"")(value) == shown


def test_equal_values_have_equal_hashes_and_others_do_not() -> None:
    hashed = Masker("hash", b"key")
    assert hashed(None) is None
    for same in (
        (1, 1.0, Decimal("1.00"), True),
        (100, Decimal("1E+2"), 100.0),
        (0, -0.0, Decimal("0.000")),
        (0.1, Decimal("0.10")),
        (-5, Decimal("-5.0")),
        ("5f6a1a3c-0000-4000-8000-000000000000", UUID("5f6a1a3c-0000-4000-8000-000000000000")),
        ("2026-01-31", date(2026, 1, 31)),
        (b"x", bytearray(b"x")),
    ):
        assert len({hashed(value) for value in same}) == 1
    different = (1, "1", b"1", 10, 0.1, -1, "", b"", float("inf"), float("-inf"), float("nan"), "a")
    assert len({hashed(value) for value in different}) == len(different)
    huge = (Decimal("1E+999999"), Decimal("0." + "1" * 60), Decimal("0." + "1" * 59))
    assert len({hashed(value) for value in huge}) == 3
    assert hashed("\udc80") != hashed("\udc81")


@given(st.text(max_size=50))
def test_a_hash_has_twelve_characters_that_depend_on_its_key(text: str) -> None:
    first, other = Masker("hash", b"one")(text), Masker("hash", b"two")(text)
    assert first is not None
    assert len(first) == 12
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyz234567")
    assert first != other
