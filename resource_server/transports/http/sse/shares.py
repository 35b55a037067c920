"""How many of what there is enough of for some each has, so that nobody has all."""

from __future__ import annotations

from collections import Counter


class Shares:
    """Counts what each owner has."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def add(self, owner: str) -> None:
        """Count one more."""
        self._counts[owner] += 1

    def remove(self, owner: str) -> None:
        """Count one less."""
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]

    def richer(self, owner: str) -> str | None:
        """Return who has most, if they would still have as many with one less."""
        most = max(self._counts, key=self._counts.__getitem__, default=owner)
        # Among two who have about as many nothing goes back and forth.
        return most if self._counts[most] > self._counts[owner] + 1 else None
