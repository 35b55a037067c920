"""One look for commits, by one connection, however many wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

Notice: TypeAlias = Callable[[], AsyncGenerator[None, None]]
"""Yields as `Engine.commits`."""


class SharedCommits:
    """Runs what notices commits once, as long as anybody follows it."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._look: _Look | None = None

    async def follow(self) -> AsyncGenerator[None, None]:
        """Yield as `Engine.commits`. Raises what notices them."""
        if self._look is None or self._look.task.done():
            self._look = _Look(self._notice)
        look = self._look
        news = look.join()
        try:
            while True:
                await news.wait()
                news.clear()
                if look.task.done():
                    look.task.result()
                    return
                yield None
        finally:
            look.followers.discard(news)
            if not look.followers:
                if self._look is look:
                    self._look = None
                await look.end()


class _Look:
    """What notices commits, running; and the events of those who wait for them."""

    def __init__(self, notice: Notice) -> None:
        self.followers = set[asyncio.Event]()
        self._notice = notice
        self._is_armed = False
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(lambda _: self._tell())

    def join(self) -> asyncio.Event:
        """Return an event for one more who follows."""
        news = asyncio.Event()
        if self._is_armed:
            # Whatever is committed from here on will be noticed.
            news.set()
        self.followers.add(news)
        return news

    async def end(self) -> None:
        """Notice nothing any more."""
        self.task.cancel()
        await asyncio.wait((self.task,))
        if not self.task.cancelled():
            self.task.exception()  # whoever followed has been told

    async def _run(self) -> None:
        async with aclosing(self._notice()) as commits:
            async for _ in commits:
                self._is_armed = True
                self._tell()

    def _tell(self) -> None:
        for news in self.followers:
            news.set()
