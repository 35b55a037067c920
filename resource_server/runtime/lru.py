"""A bounded memory of what was made, for what is asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps the values of keys that are asked for twice, at most `max_values`, oldest out first.

    One pass over a large tree asks for each key once: that costs little and pushes nothing out.
    """

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._asked = set[int]()
        self._kept = OrderedDict[K, V]()

    def is_new(self, key: K) -> bool:
        """Tell whether nobody asked for this key lately; if so its value is not worth keeping."""
        mark = hash(key)
        if mark in self._asked:
            return False
        if len(self._asked) >= 4 * self._max_values:
            self._asked.clear()
        self._asked.add(mark)
        return True

    def get(self, key: K) -> V | None:
        """Return the value kept for a key, or None."""
        return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._kept[key] = value
        if len(self._kept) > self._max_values:
            self._kept.popitem(last=False)
