"""Exponential backoff: the delay before each next attempt."""

from __future__ import annotations


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
