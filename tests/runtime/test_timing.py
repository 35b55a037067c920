from __future__ import annotations

import pytest

from resource_server.runtime.timing import DEFAULT_TIMING, Timing


@pytest.mark.parametrize(("spent_s", "pause_s"), [(0, 30), (0.1, 30), (1, 300), (60, 18_000)])
def test_sweeps_take_a_small_share_of_the_time(spent_s: float, pause_s: float) -> None:
    assert DEFAULT_TIMING.pause_after_sweep(spent_s) == pause_s
    assert Timing(sweep_s=0.01).pause_after_sweep(spent_s) >= max(0.01, spent_s)


def test_delays_that_double_have_a_longest_one_that_is_not_below_the_first() -> None:
    times = {name: getattr(DEFAULT_TIMING, name) for name in DEFAULT_TIMING.__struct_fields__}
    assert all(value > 0 for value in times.values())
    doubled = [name for name in times if name.endswith("_retry_max_s")]
    assert len(doubled) == 6
    for name in doubled:
        first = name.replace("_max_s", "_s")
        assert times.get(first, times.get(name.replace("_max_s", "_first_s"))) <= times[name]
