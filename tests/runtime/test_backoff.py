from __future__ import annotations

from resource_server.runtime.backoff import Backoff


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_reset_starts_from_the_first_delay() -> None:
    backoff = Backoff(1.0, 5.0)
    backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 1.0
