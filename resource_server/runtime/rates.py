"""Rates: a limit of requests for each caller, and the delay before each next attempt."""

from __future__ import annotations

import time
from collections import OrderedDict

_ROUNDING_S = 1e-6
MAX_CALLERS = 10_000
"""Maximum callers remembered; a forgotten one starts with a full bucket."""


class RateLimiter:
    """Allows each caller `rate` requests per second on average, and bursts of `burst`."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        # When each caller's bucket is full again; the least recent caller first.
        self._full_at = OrderedDict[str | None, float]()

    def take(self, caller: str | None) -> float:
        """Count one request and return 0, or count nothing and return the seconds to wait."""
        now = time.monotonic()
        full_at = max(self.full_at(caller), now) + 1 / self._rate
        wait = full_at - now - self._burst / self._rate
        if wait > _ROUNDING_S:
            return wait
        self.remember(caller, full_at)
        return 0.0

    def charge(self, caller: str | None, requests: int) -> None:
        """Count requests after the fact; the caller's next `take` waits the longer."""
        now = time.monotonic()
        self.remember(caller, max(self.full_at(caller), now) + requests / self._rate)

    def learn(self, caller: str | None, wait_s: float) -> None:
        """Take over from others in how many seconds a caller's bucket is full again."""
        self.remember(caller, time.monotonic() + wait_s)

    def full_at(self, caller: str | None) -> float:
        """Return when a caller's bucket is full again, by `time.monotonic`; 0 if it is unknown."""
        return self._full_at.get(caller, 0.0)

    def remember(self, caller: str | None, full_at: float) -> None:
        """Note when a caller's bucket is full again."""
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)


class Backoff:
    """Delays that double from `first_s` up to `longest_s`; seconds."""

    __slots__ = ("_first_s", "_longest_s", "_next_s")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return the delay before the next attempt; the one after that is twice as long."""
        delay = self._next_s
        self._next_s = min(delay * 2, self._longest_s)
        return delay

    def reset(self) -> None:
        """Start again from `first_s`, after a success."""
        self._next_s = self._first_s
