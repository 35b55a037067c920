"""An event that is small until somebody waits for it.

`asyncio.Event` has a queue of waiters from the start, which takes 760 bytes. A client has several
events, and most are never waited for.
"""

from __future__ import annotations

import asyncio
from typing import Literal


class LazyEvent:
    """Does what `asyncio.Event` does."""

    __slots__ = ("_is_set", "_waited")

    def __init__(self) -> None:
        self._is_set = False
        self._waited: asyncio.Event | None = None
        """What is waited for, until it is set."""

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake all that wait, and let nobody wait until `clear`."""
        self._is_set = True
        waited, self._waited = self._waited, None
        if waited is not None:
            waited.set()

    def clear(self) -> None:
        """Let whoever comes from now on wait."""
        self._is_set = False

    async def wait(self) -> Literal[True]:
        """Wait until it is set; whoever waits then is woken, even if it is cleared at once."""
        if not self._is_set:
            if self._waited is None:
                self._waited = asyncio.Event()
            await self._waited.wait()
        return True
