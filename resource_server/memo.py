"""A bounded memory of what was made, for what is asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps the values of keys that are put twice, at most `max_values`, oldest out first.

    One pass over a large tree puts each key once: that costs little and pushes nothing out.
    """

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._kept = OrderedDict[K, V]()
        self._seen = set[int]()
        self.get: Callable[[K], V | None] = self._kept.get
        """Returns the value kept for a key, or None."""

    def put(self, key: K, value: V) -> None:
        """Keep `value`, if its key was put before."""
        mark = hash(key)
        if mark not in self._seen:
            if len(self._seen) >= 4 * self._max_values:
                self._seen.clear()
            self._seen.add(mark)
            return
        self._kept[key] = value
        if len(self._kept) > self._max_values:
            self._kept.popitem(last=False)
