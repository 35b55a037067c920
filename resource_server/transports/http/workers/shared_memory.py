"""Shared memory of the workers of one server: the counts of each, and the callers' rates."""

from __future__ import annotations

import mmap
from typing import Final

from typing_extensions import override

from resource_server.runtime.rates import RateLimiter

_STATE_BYTES: Final = 1 << 20
"""Room for one state; memory that is never written takes no space."""
_WORD: Final = 8
_RATES: Final = ("requests", "refusals", "tools")
_CALLERS: Final = 1 << 15
"""Room for callers of one limit; one that others have displaced starts with a full bucket."""
_PROBES: Final = 8
_HASHES: Final = 1 << 64


class SharedMemory:
    """Memory of a process and those that it forks later; it holds no content and no secret.

    A worker that dies leaves its state, with which the next one of its number begins.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._memory = memoryview(mmap.mmap(-1, workers * 2 * (_STATE_BYTES + _WORD)))
        # How often each worker has shown a state; they lie at two places in turn.
        self._shown = memoryview(mmap.mmap(-1, workers * _WORD)).cast("Q")
        self._rates = {name: mmap.mmap(-1, _CALLERS * 2 * _WORD) for name in _RATES}

    def publish(self, worker: int, state: bytes) -> bool:
        """Show the others a state; return False if it is too long, and the last one stays."""
        if len(state) > _STATE_BYTES:
            return False
        # The other place: a worker that dies here leaves the last state whole.
        place = self._place(worker, self._shown[worker] + 1)
        place[:_WORD] = len(state).to_bytes(_WORD, "big")
        place[_WORD : _WORD + len(state)] = state
        self._shown[worker] += 1
        return True

    def state(self, worker: int) -> bytes:
        """Return the last state of a worker; empty if it has shown none."""
        while True:
            shown = self._shown[worker]
            place = self._place(worker, shown)
            state = bytes(place[_WORD : _WORD + int.from_bytes(place[:_WORD], "big")])
            if shown == self._shown[worker]:  # otherwise it may be half of a later one
                return state

    def _place(self, worker: int, shown: int) -> memoryview:
        size = _STATE_BYTES + _WORD
        start = (2 * worker + shown % 2) * size
        return self._memory[start : start + size]

    def rate_limiter(self, name: str, rate: float, burst: int) -> RateLimiter:
        """Return the limiter that counts the requests of a caller at all workers."""
        return _MemoryRateLimiter(rate, burst, memoryview(self._rates[name]))


class _MemoryRateLimiter(RateLimiter):
    """Counts in shared memory, without a lock: one of two simultaneous requests may not count."""

    def __init__(self, rate: float, burst: int, memory: memoryview) -> None:
        super().__init__(rate, burst)
        self._names = memory.cast("Q")
        self._times = memory.cast("d")

    @override
    def full_at(self, caller: str | None) -> float:
        name, place = self._found(caller)
        return self._times[place + 1] if self._names[place] == name else 0.0

    @override
    def remember(self, caller: str | None, full_at: float) -> None:
        name, place = self._found(caller)
        self._names[place], self._times[place + 1] = name, full_at

    def _found(self, caller: str | None) -> tuple[int, int]:
        """Return the name of a caller, and the place of it or of one that may be forgotten."""
        # Secret, and the same in all processes that are forked from one.
        name = hash(caller) % _HASHES or 1
        places = [(name + probe) % _CALLERS * 2 for probe in range(_PROBES)]
        for place in places:
            if self._names[place] == name:
                return name, place
        return name, min(places, key=lambda place: self._times[place + 1])
