"""What is subscribed to in one mount, as its provider sees it: the `Interest` of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from contextlib import suppress

from resource_server.provider import Interest, Path
from resource_server.runtime import clock


class MountInterest:
    """The paths of one mount that somebody subscribes to, and whether its listing matters."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._came: set[Path] = set()
        self._went: set[Path] = set()
        self._listing = False
        self._listing_since_ns = 0
        self._news = asyncio.Event()

    @property
    def paths(self) -> Set[Path]:
        """See `Interest.paths`."""
        return self._paths

    @property
    def listing(self) -> bool:
        """See `Interest.listing`."""
        return self._listing

    @listing.setter
    def listing(self, wanted: bool) -> None:
        if wanted != self._listing:
            self._listing_since_ns = clock.now_ns()
            self._listing = wanted
            self._news.set()

    @property
    def listing_since_ns(self) -> int:
        """See `Interest.listing_since_ns`."""
        return self._listing_since_ns

    def add(self, path: Path) -> None:
        """Begin to be interested in a path; one that is known already is left as it is."""
        if path not in self._paths:
            self._paths.add(path)
            # Not taken from `_went`, if it is there: so what is watched is watched anew.
            self._came.add(path)
            self._news.set()

    def remove(self, path: Path) -> None:
        """Be interested no longer."""
        if path in self._paths:
            self._paths.remove(path)
            if path in self._came:
                self._came.remove(path)
            else:
                self._went.add(path)
            self._news.set()

    def restart(self) -> None:
        """Tell everything again: whoever asks next knows nothing yet."""
        self._came = set(self._paths)
        self._went = set()
        self._news.set()

    async def next(self, within: float | None = None) -> tuple[Set[Path], Set[Path]]:
        """See `Interest.next`. A path that went and came again is among both."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()
        self._news.clear()
        came, self._came = self._came, set()
        went, self._went = self._went, set()
        return came, went


_: type[Interest] = MountInterest
