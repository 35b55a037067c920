"""The watch over one mount: started when somebody is interested, and again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, nullcontext, suppress
from typing import Any, cast

from resource_server.catalog.mount import FAILURES, Mount, describe_error
from resource_server.errors import ResourceBusy
from resource_server.provider import Change, SupportsWatch
from resource_server.runtime.eager import Turns, is_cancelled
from resource_server.subscriptions.interest import MountInterest

logger = logging.getLogger(__name__)

_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0
_LONGEST_END_S = 5.0

EVERYTHING = Change((), "tree")


class WatchRunner:
    """Runs a provider's `changes` and gives each to `changed`, for as long as it is not closed.

    A mount that cannot start is tried again; when it comes, everything in it has changed.
    """

    def __init__(self, mount: Mount, changed: Callable[[Change], None]) -> None:
        self.mount = mount
        self.interest = MountInterest()
        self.looks: set[asyncio.Future[None]] = set()
        """Comparisons that wait for the provider."""
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the watch; a provider that does not let go of it is left alone."""
        self._is_closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_LONGEST_END_S)
            if not self._task.done():
                logger.warning("mount %s does not end its watch", self.mount.name)

    async def _run(self) -> None:
        retry_after = _FIRST_RETRY_S
        while not self._is_closing:
            await self._until_started()
            watches = self.mount.watches
            if watches is None:
                return
            seen = False
            try:
                async for _ in self._watch(watches):
                    seen = True
                if self._is_closing:
                    return
                logger.warning("mount %s has ended its watch", self.mount.name)
            except (*FAILURES, asyncio.CancelledError) as error:
                if is_cancelled():
                    raise
                told = describe_error(error)
                logger.warning("the watch of mount %s has failed: %s", self.mount.name, told)
                logger.debug("the watch of mount %s", self.mount.name, exc_info=error)
            retry_after = _FIRST_RETRY_S if seen else min(retry_after * 2, _LONGEST_RETRY_S)
            await asyncio.sleep(retry_after)
            self.interest.restart()
            # What happened since it ended was seen by nobody.
            self._changed(EVERYTHING)

    async def _until_started(self) -> None:
        was_down = False
        while self.mount.problem is not None:
            with suppress(ResourceBusy):
                await self.mount.start()
                break
            was_down = True
            await asyncio.sleep(self.mount.retry_in_s + 0.01)
        if was_down:
            self._changed(EVERYTHING)

    async def _watch(self, watches: SupportsWatch) -> AsyncIterator[None]:
        """Take in the changes of one watch; yields once for each that was in order."""
        # Not every iterator can be closed early; a generator can, and has to be.
        changes = cast("Any", watches.changes(self.interest))
        async with aclosing(changes) if hasattr(changes, "aclose") else nullcontext():
            turns = Turns()
            async for change in changes:
                self._changed(change)
                await turns.others()
                yield
