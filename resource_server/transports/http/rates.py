"""How often one caller may ask: a token bucket each."""

from __future__ import annotations

import time
from collections import OrderedDict

from resource_server.transports.http.request import Refused

_ROUNDING_S = 1e-6
MAX_CALLERS = 10_000
"""As many are remembered; a caller who was forgotten begins with a full bucket."""


class Rates:
    """`rate` requests a second, and `burst` of them at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        # Of each caller when the bucket will be full again, the least recently seen first.
        self._full_at = OrderedDict[str, float]()

    def take(self, caller: str) -> None:
        """Count one request.

        Raises:
            Refused: the caller has to wait.
        """
        now = time.monotonic()
        full_at = max(self._full_at.get(caller, now), now) + 1 / self._rate
        wait = full_at - now - self._burst / self._rate
        if wait > _ROUNDING_S:
            raise Refused(429, "too many requests", [(b"retry-after", b"%d" % (wait + 1))])
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)
