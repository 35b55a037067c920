"""Which suggestions come first: those that begin as typed, then those that hold it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from resource_server.provider import MaybeAwaitable

MAX_COMPLETIONS = 100
_MANY = 4096
"""More than these are ranked in a worker thread."""


def ranked(typed: str, found: Sequence[str]) -> MaybeAwaitable[tuple[list[str], int]]:
    """Return the best of `found`, best first, and how many different ones there are."""
    if len(found) <= _MANY:
        return _best(typed, found)
    from anyio import to_thread

    return to_thread.run_sync(_best, typed, found)


def _best(typed: str, found: Sequence[str]) -> tuple[list[str], int]:
    every = set(found)
    best = heapq.nsmallest(MAX_COMPLETIONS, every, key=lambda candidate: _rank(typed, candidate))
    return best, len(every)


def _rank(typed: str, candidate: str) -> tuple[int, int, str]:
    lower, prefix = candidate.lower(), typed.lower()
    if candidate.startswith(typed):
        match = 0
    elif lower.startswith(prefix):
        match = 1
    else:
        match = (
            2 if lower.rstrip("/").rpartition("/")[2].startswith(prefix.rpartition("/")[2]) else 3
        )
    return match, len(candidate), candidate
