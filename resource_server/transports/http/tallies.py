"""What is counted of requests: plain numbers, each added to while a request is answered.

Whatever is made of them is made when somebody asks; `metrics.py` does.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from resource_server.transports.http.exchange import Exchange

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the times that are told apart."""

_LASTING = frozenset(("subscriptions/listen", "GET"))
"""These end when their client has enough of them."""


class Kind(NamedTuple):
    """What requests are told apart by: of each there are few, whatever clients send."""

    is_stateless: bool
    method: str
    outcome: str


class Times:
    """How often something took how long."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        """For each bucket, and for whatever took longer."""
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count once more."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds


class Tallies:
    """All that is counted, since the beginning."""

    def __init__(self) -> None:
        self.requests = Counter[Kind]()
        self.times: dict[str, Times] = {}
        """By method, without streams that wait for changes."""
        self.errors = Counter[int]()
        """By the code of JSON-RPC."""
        self.statuses = Counter[int]()
        self.bytes = 0
        self.events = 0

    def sent(self, size: int, events: int) -> None:
        """Count what is sent, before it is: streams last for long."""
        self.bytes += size
        self.events += events

    def add(self, exchange: Exchange) -> None:
        """Count a request whose answer has ended."""
        if exchange.status:
            self.statuses[exchange.status] += 1
        if not exchange.is_mcp:
            return
        method = exchange.method
        self.requests[Kind(exchange.is_stateless, method, exchange.outcome)] += 1
        if exchange.code is not None:
            self.errors[exchange.code] += 1
        if method not in _LASTING:
            times = self.times.get(method)
            if times is None:
                times = self.times[method] = Times()
            times.add(time.perf_counter() - exchange.begun)
