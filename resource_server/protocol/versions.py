"""What a client was given by its last reads: what it takes for the present state."""

from __future__ import annotations

from collections.abc import Hashable

MIN_KEPT = 1024


class Versions:
    """Remembers the version of the last `MIN_KEPT` resources read, and at most twice as many."""

    def __init__(self) -> None:
        self._recent: dict[str, Hashable] = {}
        self._older: dict[str, Hashable] = {}

    def put(self, uri: str, version: Hashable) -> None:
        """Remember what was given of a resource, as `Topic.given`, by its canonical URI."""
        self._recent[uri] = version
        if len(self._recent) >= MIN_KEPT:
            self._older, self._recent = self._recent, {}

    def get(self, uri: str) -> Hashable:
        """Return what was given last; None where that is not known (any more)."""
        recent = self._recent.get(uri)
        return self._older.get(uri) if recent is None else recent
