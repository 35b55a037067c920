"""One running watch of a provider: what it yields, and whether it begins and ends as it should."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self, cast, get_args, get_type_hints

from resource_server.provider import Change, Path, SupportsWatch
from resource_server.subscriptions.interest import MountInterest
from resource_server.testing.calls import SEGMENTS, SIGNATURE, Calls, is_addressable, is_path, show

_GOES_ON = "changes goes on until it is closed"
_ENDS = "changes ends at once, and without an error, when it is closed"
_LONGEST_END_S = 5.0
_QUIET_S = 0.3
_STEP = 256
"""Changes that are taken in before others have their turn."""
_KINDS = get_args(get_type_hints(Change)["kind"])


class Watcher:
    """Iterates `changes` as the server does; what comes wrongly or late is written down."""

    def __init__(self, calls: Calls, watches: SupportsWatch, within_s: float) -> None:
        self.within_s = within_s
        self.told: set[Change] = set()
        """What was told, each once, until somebody clears it."""
        self._unarmed: set[Path] = set()
        """The paths of the interest that nothing was told of yet."""
        self._interest = MountInterest()
        self._calls = calls
        self._watches = watches
        self._count = 0
        self._most: int | None = None
        self._news = asyncio.Event()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._task.cancel()
            await self._end()

    async def close_at(self, path: Path) -> None:
        """Close it when it tells of one more path, and not, as otherwise, while it waits."""
        self._most = self._count + 1
        self.subscribe([path])
        if await self.until(lambda: self._is_closing):
            await self._end()

    def subscribe(self, paths: Iterable[Path], *, listing: bool = False) -> None:
        """Be interested in more paths, and perhaps in the listing."""
        for path in paths:
            self._unarmed.add(path)
            self._interest.add(path)
        if listing:
            self._interest.listing = True

    def unsubscribe(self) -> None:
        """Be interested in nothing."""
        for path in [*self._interest.paths]:
            self._interest.remove(path)
        self._interest.listing = False

    async def is_armed(self, rule: str) -> bool:
        """Wait until something was told of every path; `rule` says why it has to be."""
        if await self.until(lambda: not self._unarmed):
            return True
        if not self._task.done():  # what ended is told already
            for path in sorted(self._unarmed):
                self._calls.broken(
                    rule, f"no Change of {show(path)} came within {self.within_s:g} s"
                )
        return False

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something holds that only changes bring about; no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.within_s if seconds is None else seconds):
                while not holds() and not self._task.done():
                    self._news.clear()
                    await self._news.wait()
        return holds()

    async def is_quiet(self, seconds: float) -> bool:
        """Wait until nothing comes for a short while; False if that takes longer."""
        end = time.monotonic() + seconds
        short = min(_QUIET_S, self.within_s / 10)
        while time.monotonic() < end:
            count = self._count
            if not await self.until(lambda count=count: self._count > count, short):
                return True
        return False

    async def _run(self) -> None:
        try:
            changes = cast("object", self._watches.changes(self._interest))
            if not isinstance(changes, AsyncIterator):
                self._refuse(changes)
                return
            iterator = cast("AsyncIterator[object]", changes)
            async with _closing(iterator):
                await self._iterate(iterator)
            if not self._is_closing:
                self._calls.broken(_GOES_ON, "it ended")
        except Exception as error:
            rule = _ENDS if self._is_closing else _GOES_ON
            self._calls.broken(rule, f"it raised {type(error).__name__}: {error}")
        finally:
            self._news.set()

    async def _iterate(self, changes: AsyncIterator[object]) -> None:
        async for change in changes:
            if self._is_closing:
                self._calls.broken(_ENDS, f"it then yielded {show(change)}")
                return
            self._take(change)
            self._count += 1
            self._news.set()
            if self._count == self._most:
                self._is_closing = True
                return
            if self._count % _STEP == 0:
                await asyncio.sleep(0)

    async def _end(self) -> None:
        longest = min(_LONGEST_END_S, self.within_s)
        await asyncio.wait([self._task], timeout=longest)
        if not self._task.done():
            self._calls.broken(_ENDS, f"it went on for {longest:g} s")
            self._task.cancel()

    def _refuse(self, changes: object) -> None:
        self._calls.broken(SIGNATURE, f"changes() returned {show(changes)}")
        if asyncio.iscoroutine(changes):
            changes.close()

    def _take(self, change: object) -> None:
        seen = f"changes yielded {show(change)}"
        if not isinstance(change, Change) or not is_path(change.path) or change.kind not in _KINDS:
            self._calls.broken(SIGNATURE, seen)
        elif not is_addressable(change.path):
            self._calls.broken(SEGMENTS, seen)
        else:
            self.told.add(change)
            self._unarmed.discard(change.path)
            if change.kind == "tree":
                depth = len(change.path)
                self._unarmed -= {path for path in self._unarmed if path[:depth] == change.path}


def _closing(changes: AsyncIterator[object]) -> contextlib.AbstractAsyncContextManager[object]:
    # Not every iterator can be closed; a generator can, and has to be.
    if hasattr(changes, "aclose"):
        return contextlib.aclosing(cast("Any", changes))
    return contextlib.nullcontext()
