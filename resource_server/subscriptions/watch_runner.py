"""Runs the watch of one mount: starts it on demand and restarts it when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from resource_server.catalog.mount import Mount, describe_error
from resource_server.provider import Change
from resource_server.runtime.rates import Backoff
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.subscriptions.interest import MountInterest

logger = logging.getLogger(__name__)

EVERYTHING = Change((), "tree")


class WatchRunner:
    """Passes each change of a mount to `on_change` until it is closed.

    A mount that cannot start is retried; once it starts, everything in it counts as changed.
    """

    def __init__(
        self, mount: Mount, on_change: Callable[[Change], None], timing: Timing = DEFAULT_TIMING
    ) -> None:
        self.mount = mount
        self.interest = MountInterest()
        self.comparisons: set[asyncio.Future[None]] = set()
        """Comparisons of topics that wait for the provider."""
        self._on_change = on_change
        self._timing = timing
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Start the watch if it is not running."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop the watch; if the provider does not stop in time, stop waiting for it."""
        self._is_closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=self._timing.watch_close_s)
            if not self._task.done():
                logger.warning("mount %s does not end its watch", self.mount.name)

    async def _run(self) -> None:
        backoff = Backoff(self._timing.watch_retry_s, self._timing.watch_retry_max_s)
        while not self._is_closing:
            if await self.mount.wait_until_started():
                self._on_change(EVERYTHING)
            if not self.mount.can_watch:
                return
            has_reported = False

            def on_change(change: Change) -> None:
                nonlocal has_reported
                has_reported = True
                self._on_change(change)

            try:
                await self.mount.provider.watch(self.interest, on_change)
                if self._is_closing:
                    return
                logger.warning("mount %s has ended its watch", self.mount.name)
            except Exception as error:
                reason = describe_error(error)
                logger.warning("the watch of mount %s has failed: %s", self.mount.name, reason)
                logger.debug("the watch of mount %s", self.mount.name, exc_info=error)
            if has_reported:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())
            self.interest.restart()
            # Changes since it ended went unseen.
            self._on_change(EVERYTHING)
