"""The clock of file times, which is coarser than the clock of the process."""

from __future__ import annotations

import sys
import time

_CLOCK_REALTIME_COARSE = 5
"""From <linux/time.h>."""
TICK_NS = 20_000_000
"""Resolution of file times: changes that follow each other sooner may have the same time."""


def now_ns() -> int:
    """Return the time that a file changed now gets, or a slightly earlier one."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    return time.time_ns() - TICK_NS
