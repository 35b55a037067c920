"""The clock that the times of files are taken from."""

from __future__ import annotations

import sys
import time

_COARSE = 5
"""CLOCK_REALTIME_COARSE of <linux/time.h>."""
TICK_NS = 20_000_000
"""Changes within one tick of the kernel's clock may leave the same time behind: 10 ms at most."""


def now_ns() -> int:
    """Return the time that a change of this moment leaves behind, or one that is earlier."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(_COARSE)
    return time.time_ns() - TICK_NS
