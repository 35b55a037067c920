"""Numbers of 32 bits, which Python has as the nearest of 64 bits."""

from __future__ import annotations

import math
import struct
from typing import Final

_SINGLE: Final = struct.Struct("!f")


def shortest(value: float) -> float:
    """Return the number with the fewest digits that is this single, and no other: 0.1.

    It is the one that PostgreSQL writes.
    """
    if not math.isfinite(value):
        return value
    half = math.ulp(value) * 2**28 if abs(value) >= 2**-126 else 2**-150
    # Each has six digits at least, but those next to zero.
    for digits in range(6 if half > 2**-150 else 1, 9):
        shown = float(f"{value:.{digits}g}")
        distance = shown - value
        # Below a power of two, singles are twice as close.
        is_near = abs(distance) < half
        if is_near and (distance * value > 0 or _SINGLE.unpack(_SINGLE.pack(shown))[0] == value):
            return shown
    return float(f"{value:.9g}")
