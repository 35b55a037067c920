"""Progress notifications of one request, at a bounded rate."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import msgspec

from resource_server.protocol.outbox import Send
from resource_server.protocol.params import RequestId
from resource_server.runtime.rates import RateLimiter

_BURST = 10
"""Maximum steps of a tool that are reported without delay."""

_encode = msgspec.json.Encoder().encode


class ProgressReporter:
    """Sends progress that only grows, at most once per `interval_s`."""

    def __init__(
        self, token: RequestId, send: Send, interval_s: float, *, has_messages: bool = True
    ) -> None:
        self._token = token
        self._has_messages = has_messages
        self._begun = time.monotonic()
        self._tick: asyncio.TimerHandle | None = None
        self._send = send
        self._interval_s = interval_s
        self._done = self._ticked = -math.inf
        self._sent_at = time.monotonic()
        self._rates = RateLimiter(1 / interval_s, _BURST) if interval_s else None

    def __call__(self, done: float, total: float | None = None) -> None:
        """Report progress counted by the server; nothing in a request's first interval."""
        if done > 0 and time.monotonic() - self._sent_at >= self._interval_s:
            self._report(done, total)

    def tick_every(self, seconds: float) -> None:
        """Report how long the request runs, as long as nothing else is reported, until `stop`."""

        def tick() -> None:
            if self._done != self._ticked:
                return
            self._ticked = elapsed = round(time.monotonic() - self._begun, 1)
            self._report(elapsed, None, f"running for {elapsed:g} s")
            self.tick_every(seconds)

        self._tick = asyncio.get_running_loop().call_later(seconds, tick)

    def stop(self) -> None:
        """Report no time any more."""
        if self._tick is not None:
            self._tick.cancel()

    def step(self, done: float, total: float | None = None) -> None:
        """Report a step that a tool has chosen to report; the first few without delay."""
        is_number = math.isfinite(done) and (total is None or math.isfinite(total))
        if is_number and (self._rates is None or not self._rates.take(None)):
            self._report(done, total)

    def _report(self, done: float, total: float | None, message: str | None = None) -> None:
        if done <= self._done:
            return
        self._done, self._sent_at = done, time.monotonic()
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and self._has_messages:
            params["message"] = message
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        self._send(_encode(notification))
