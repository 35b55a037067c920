"""Progress of one request, told to a client that has asked for it."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec

from resource_server.protocol import params
from resource_server.protocol.outbox import Send
from resource_server.runtime.rate_limit import RateLimiter

INTERVAL_S = 0.1
"""Between two of them."""
_BURST = 10

_encode = msgspec.json.Encoder().encode


class ProgressReporter:
    """Tells how much is done: only forwards, and not more often than it is of use."""

    def __init__(self, token: params.RequestId, send: Send) -> None:
        self._token = token
        self._send = send
        self._done = -math.inf
        self._told_at = time.monotonic()
        self._rates = RateLimiter(1 / INTERVAL_S, _BURST) if INTERVAL_S else None

    def __call__(self, done: float, total: float | None = None) -> None:
        """Tell what the server has counted: none that takes less than the interval does."""
        if done > 0 and time.monotonic() - self._told_at >= INTERVAL_S:
            self._tell(done, total)

    def step(self, done: float, total: float | None = None) -> None:
        """Tell of a step that a tool has chosen to tell of: the first few at once."""
        is_number = math.isfinite(done) and (total is None or math.isfinite(total))
        if is_number and (self._rates is None or not self._rates.take(None)):
            self._tell(done, total)

    def _tell(self, done: float, total: float | None) -> None:
        if done <= self._done:
            return
        self._done, self._told_at = done, time.monotonic()
        body: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            body["total"] = total
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": body}
        self._send(_encode(note))
