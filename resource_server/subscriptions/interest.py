"""The `Interest` of one mount: its subscribed paths, as the provider sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from contextlib import suppress

from typing_extensions import override

from resource_server.provider import Interest, Path
from resource_server.runtime import clock


class MountInterest(Interest):
    """The subscribed paths of one mount, and whether anybody follows its listing."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._added: set[Path] = set()
        self._removed: set[Path] = set()
        self._listing = False
        self._listing_since_ns = 0
        self._has_news = asyncio.Event()

    @property
    @override
    def paths(self) -> Set[Path]:
        return self._paths

    @property
    @override
    def listing(self) -> bool:
        return self._listing

    @listing.setter
    def listing(self, wanted: bool) -> None:
        if wanted != self._listing:
            self._listing_since_ns = clock.now_ns()
            self._listing = wanted
            self._has_news.set()

    @property
    @override
    def listing_since_ns(self) -> int:
        return self._listing_since_ns

    def add(self, path: Path) -> None:
        """Add a path if it is missing."""
        if path not in self._paths:
            self._paths.add(path)
            # It may still be in `_removed`: then the provider watches it anew.
            self._added.add(path)
            self._has_news.set()

    def remove(self, path: Path) -> None:
        """Remove a path, if it is there."""
        if path in self._paths:
            self._paths.remove(path)
            if path in self._added:
                self._added.remove(path)
            else:
                self._removed.add(path)
            self._has_news.set()

    def restart(self) -> None:
        """Report every path as added: the next watch knows none of them."""
        self._added = set(self._paths)
        self._removed = set()
        self._has_news.set()

    @override
    async def next(self, within: float | None = None) -> tuple[Set[Path], Set[Path]]:
        # A path that was removed and added again is in both sets.
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._has_news.wait()
        self._has_news.clear()
        added, self._added = self._added, set()
        removed, self._removed = self._removed, set()
        return added, removed
