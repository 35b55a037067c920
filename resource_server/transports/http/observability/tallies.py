"""What is counted of requests: plain numbers, added to while a request is answered.

Whatever is made of them is made when somebody asks; `metrics.py` does.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from resource_server.transports.http.app.exchange import Exchange, Volume

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the times that are told apart."""


class Kind(NamedTuple):
    """What requests are told apart by: few of each, whatever clients send."""

    is_mcp: bool
    is_stateless: bool
    method: str
    status: int
    """Of HTTP; 0 where nobody waited for the end of the answer."""
    code: int | None
    """Of the JSON-RPC error that was the answer."""


class Tally:
    """How often requests of a kind were answered, and in what time."""

    __slots__ = ("seconds", "times")

    def __init__(self) -> None:
        self.times = [0] * (len(BUCKETS_S) + 1)
        """For each bucket, and for whatever took longer."""
        self.seconds = 0.0
        """All together."""

    @property
    def count(self) -> int:
        """How often."""
        return sum(self.times)


class Tallies:
    """All that is counted, since the beginning."""

    def __init__(self) -> None:
        self.volume = Volume()
        # By the members of a `Kind`: to make one takes longer than to count.
        self._tallies: dict[tuple[bool, bool, str, int, int | None], Tally] = {}

    def __iter__(self) -> Iterator[tuple[Kind, Tally]]:
        """Give each kind of request that there was."""
        return ((Kind(*members), tally) for members, tally in self._tallies.items())

    def add(self, exchange: Exchange) -> None:
        """Count a request whose answer has ended."""
        seconds = time.perf_counter() - exchange.begun
        status = exchange.status if exchange.is_over else 0
        members = exchange.is_mcp, exchange.is_stateless, exchange.method, status, exchange.code
        tally = self._tallies.get(members)
        if tally is None:
            tally = self._tallies[members] = Tally()
        tally.times[bisect_left(BUCKETS_S, seconds)] += 1
        tally.seconds += seconds
