from __future__ import annotations

import math
import struct

from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.single_precision import shortest
from tests.cases import for_each


def _single(value: float) -> float:
    return struct.unpack("!f", struct.pack("!f", value))[0]


def _digits(value: float) -> int:
    return len(f"{value:.9g}".partition("e")[0].replace(".", "").strip("-0"))


@for_each(
    ("value", "shown"),
    [
        (0.1, 0.1),
        (16777216.0, 16777216.0),
        (3.4028234663852886e38, 3.4028235e38),  # the greatest
        (2.0**-126, 1.1754944e-38),  # the least with all its digits
        (2.0**-149, 1e-45),  # the least
        (2.0**-148, 3e-45),
        (9.8e-45, 1e-44),
        (-0.3, -0.3),
        (33554432.0, 33554432.0),  # below a power of two, its neighbours are nearer
    ],
)
def test_limits_of_singles_are_written_as_postgresql_does(value: float, shown: float) -> None:
    assert shortest(_single(value)) == shown


def test_what_has_no_digits_is_left_alone() -> None:
    assert math.isnan(shortest(math.nan))
    assert shortest(-math.inf) == -math.inf
    assert math.copysign(1, shortest(-0.0)) == -1


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_single_with_the_fewest_digits(value: float) -> None:
    found = shortest(value)
    assert _single(found) == value
    if abs(value) < 3e38:
        shorter = (float(f"{value:.{digits}g}") for digits in range(1, _digits(found)))
        assert all(_single(each) != value for each in shorter)
