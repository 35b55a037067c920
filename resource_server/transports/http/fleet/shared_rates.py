"""Rates that the servers of a fleet count together.

A server decides by what it knows, and learns from the store a moment later what the others have
counted: no request waits for the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from typing_extensions import override

from resource_server.runtime.rates import RateLimiter
from resource_server.transports.http.fleet.store import FleetStore, StoreUnavailable

_MAX_BURSTS = 100
"""Requests that may be counted after the fact, such as those of a batch, in bursts."""


class SharedRateLimiter(RateLimiter):
    """A limit of requests for each caller, at all servers of a fleet together.

    `name` tells it from others. Without the store, every server allows its share.
    """

    def __init__(self, rate: float, burst: int, store: FleetStore, name: str) -> None:
        super().__init__(rate, burst)
        self._second_share = 1 / rate
        self._max_s = _MAX_BURSTS * burst / rate
        self._store = store
        self._name = name
        self._uncounted = Counter[str | None]()
        """Requests that the store does not know of yet, by caller."""
        self._counting: asyncio.Task[None] | None = None

    @override
    def take(self, caller: str | None) -> float:
        wait_s = super().take(caller)
        if not wait_s:
            self._count(caller, 1)
        return wait_s

    @override
    def charge(self, caller: str | None, requests: int) -> None:
        super().charge(caller, requests)
        self._count(caller, requests)

    def _count(self, caller: str | None, requests: int) -> None:
        self._uncounted[caller] += requests
        if self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._uncounted:
                caller, requests = self._uncounted.popitem()
                name, used_s = f"{self._name} {caller}", requests * self._second_share
                try:
                    wait_s = await self._store.count(name, used_s, self._max_s)
                    await self._store.beat()
                except StoreUnavailable:
                    # The others admit as many.
                    super().charge(caller, requests * (self._store.replicas - 1))
                else:
                    since = self._uncounted.get(caller, 0)
                    self.learn(caller, wait_s + since * self._second_share)
        finally:
            self._counting = None
