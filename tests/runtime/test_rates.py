"""Limits of requests by caller, and delays between attempts."""

from __future__ import annotations

from resource_server.runtime.rates import MAX_CALLERS, Backoff, RateLimiter
from tests.cases import for_each


def test_each_caller_has_a_bucket_and_the_number_of_buckets_is_bounded() -> None:
    rates = RateLimiter(0.001, 1)
    assert rates.take("first") == 0
    for _ in range(2):
        assert 999 < rates.take("first") <= 1000
    for number in range(MAX_CALLERS):
        assert rates.take(str(number)) == 0
    assert rates.take("first") == 0
    assert rates.take(str(MAX_CALLERS - 1)) > 0


@for_each("burst", [1, 3, 400])
def test_requests_within_the_burst_are_never_refused(burst: int) -> None:
    # Rounding is no reason, whatever the rate.
    for rate in range(1, 200):
        rates = RateLimiter(rate / 7e6, burst)
        for _ in range(burst):
            assert rates.take("one") == 0
        assert rates.take("one") > 0


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_reset_starts_from_the_first_delay() -> None:
    backoff = Backoff(1.0, 5.0)
    backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 1.0
