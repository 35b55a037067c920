from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from resource_server.runtime.option_types import ByteSize, Duration, Rate, short_size
from tests.cases import for_each


@for_each(
    ("written", "seconds"),
    [
        ("0s", 0), ("250ms", 0.25), ("2s", 2), ("1.5 s", 1.5), ("30m", 1800), ("1h", 3600),
        ("1d", 86400), (5, 5), (0.5, 0.5), (" 2s ", 2),
    ],
)  # fmt: skip
def test_a_duration_has_a_unit_or_is_in_seconds(written: object, seconds: float) -> None:
    assert Duration.parse(written) == seconds


@for_each(
    "written",
    ["", "5", "-1s", "1w", "s", "1e3s", "٣s", -1, True, None, float("nan"), float("inf"), []],
)
def test_anything_but_a_duration_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="not a length of time; write one with a unit: 250ms"):
        Duration.parse(written)


@given(st.text("0123456789.msh d", max_size=40))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 <= Duration.parse(text) < float("inf")


# -- sizes


@for_each(
    ("written", "size"),
    [
        (0, 0),
        (4096, 4096),
        ("4096", 4096),
        ("512B", 512),
        ("1kB", 1000),
        ("1k", 1000),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        (" 64kib ", 65536),
        ("1.5MiB", 1572864),
        ("10MB", 10_000_000),
        ("2GiB", 2 * 1024**3),
        ("1TB", 10**12),
    ],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(written: object, size: int) -> None:
    assert ByteSize.parse(written) == size


@for_each(
    "written", ["", "KiB", "-1", "1e3", "10 bytes", "0x10", "1 K i B", "٣", -1, True, None, 1.5, []]
)
def test_anything_but_a_size_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="64KiB"):
        ByteSize.parse(written)


@given(st.integers(min_value=0, max_value=2**63))
def test_a_plain_number_is_exact_in_every_spelling(size: int) -> None:
    assert ByteSize.parse(size) == size
    assert ByteSize.parse(str(size)) == size


def test_a_size_option_reports_the_expected_form() -> None:
    option = TypeAdapter(ByteSize)
    assert option.validate_python("64KiB") == 65536
    with pytest.raises(ValidationError, match="not a size"):
        option.validate_python("much")


@for_each("written", ["9" * 400, "9" * 400 + "TiB"], ids=["plain", "with a unit"])
def test_an_absurd_size_is_refused_like_any_invalid_size(written: str) -> None:
    with pytest.raises(ValueError, match="64KiB"):
        ByteSize.parse(written)


@given(st.from_regex(r"\A[0-9]{1,3}(\.[0-9])? ?[kKmMgGtT]?[iI]?[bB]?\Z"))
def test_the_json_schema_of_a_size_accepts_exactly_the_valid_sizes(written: str) -> None:
    number, text = TypeAdapter(ByteSize).json_schema()["anyOf"]
    assert number == {"minimum": 0, "type": "integer"}
    try:
        ByteSize.parse(written)
    except ValueError:
        assert not re.search(text["pattern"], written)
    else:
        assert re.search(text["pattern"], written)


# -- rates


@for_each(
    ("written", "a_second"),
    [
        ("200/s", 200),
        ("1.5 / s", 1.5),
        ("30/m", 0.5),
        ("36/h", 0.01),
        ("200", 200),
        (200, 200),
        (0.5, 0.5),
    ],
)
def test_a_rate_is_per_second_or_has_a_unit(written: object, a_second: float) -> None:
    assert Rate.parse(written) == a_second


@for_each(
    "written",
    [
        *("", "200s", "0/s", "-1/s", "/s", "1/d", "1e3/s", "٣/s", "1/s/s"),
        *(0, -1, True, None, 10**400, 1e-300, float("nan"), float("inf"), []),
    ],
)
def test_anything_but_a_rate_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="not a rate above 0; write how many a second"):
        Rate.parse(written)


@given(st.text("0123456789./smh ", max_size=40))
def test_any_text_is_a_rate_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 < Rate.parse(text) < float("inf")


@for_each(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0K"),
        (1023, "1.0K"),
        (10_137, "9.9K"),
        (10_200, "10K"),
        (1024**2 - 1, "1.0M"),
        (5 * 1024**3, "5.0G"),
    ],
)
def test_human_readable_sizes_are_short(count: int, text: str) -> None:
    assert short_size(count) == text
