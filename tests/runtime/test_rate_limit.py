"""How often one caller may ask."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.runtime.rate_limit import MAX_CALLERS, Rate, RateLimiter


def test_each_caller_has_a_bucket_and_the_memory_of_them_is_bounded() -> None:
    rates = RateLimiter(0.001, 1)
    assert rates.take("first") == 0
    for _ in range(2):
        assert 999 < rates.take("first") <= 1000
    for number in range(MAX_CALLERS):
        assert rates.take(str(number)) == 0
    assert rates.take("first") == 0
    assert rates.take(str(MAX_CALLERS - 1)) > 0


@pytest.mark.parametrize("burst", [1, 3, 400])
def test_as_many_as_the_burst_are_never_refused(burst: int) -> None:
    # Rounding is no reason, whatever the rate.
    for rate in range(1, 200):
        rates = RateLimiter(rate / 7e6, burst)
        for _ in range(burst):
            assert rates.take("one") == 0
        assert rates.take("one") > 0


@pytest.mark.parametrize(
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
def test_a_rate_is_of_a_second_or_says_of_what(written: object, a_second: float) -> None:
    assert Rate.parse(written) == a_second


@pytest.mark.parametrize(
    "written",
    [
        *("", "200s", "0/s", "-1/s", "/s", "1/d", "1e3/s", "٣/s", "1/s/s"),
        *(0, -1, True, None, 10**400, 1e-300, float("nan"), float("inf"), []),
    ],
)
def test_anything_else_is_refused_with_how_to_write_one(written: object) -> None:
    with pytest.raises(ValueError, match="not a rate above 0; write how many a second"):
        Rate.parse(written)


@given(st.text("0123456789./smh ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 < Rate.parse(text) < float("inf")
