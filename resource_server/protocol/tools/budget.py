"""The budget of a tool result: the characters that may reach a model."""

from __future__ import annotations

DEFAULT_CHARACTERS = 25_000
"""Below the limits of all known hosts; the smallest is about 40,000 characters."""
MAX_ADVERTISED = 500_000
"""Maximum `anthropic/maxResultSizeChars`; clients ignore a larger one."""


def characters(encoded: bytes) -> int:
    """Return the number of characters of text in UTF-8."""
    return len(encoded) if encoded.isascii() else len(encoded.decode("utf-8", "replace"))


class Budget:
    """Counts a result as text and as JSON: a host gives its model one of them, so both must fit.

    Notices are charged before items are taken, so that there is room for them at the end.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._text = self._json = self._taken = 0

    @property
    def left(self) -> int:
        """Characters that still fit, in either form."""
        return max(0, self.limit - max(self._text, self._json))

    def charge(self, text: str = "", json: bytes = b"") -> None:
        """Count what is sent in any case, such as a heading or a notice."""
        self._text += len(text)
        self._json += characters(json)

    def take(self, text: str, json: bytes = b"") -> bool:
        """Count the next item, and return True, if it fits in both forms.

        The first item always fits: a call that goes on must get somewhere.
        """
        fits = max(self._text + len(text), self._json + characters(json)) <= self.limit
        if fits or not self._taken:
            self.charge(text, json)
            self._taken += 1
            return True
        return False
