"""The request that calls a provider's tool, as the provider sees it."""

from __future__ import annotations

import asyncio

from resource_server import uris
from resource_server.protocol.call import Call
from resource_server.tool import Answer, Asked, LogLevel, Schema

_LONGEST_LOG = 8 * 1024


class AskedCall:
    """What a tool can tell and ask while it runs. The time that people take is none of its own."""

    def __init__(self, call: Call, limit: asyncio.Timeout) -> None:
        self._call = call
        self._limit = limit

    @property
    def can_ask(self) -> bool:
        """See `Asked.can_ask`."""
        return self._call.asker.can("elicitation")

    def progress(self, done: float, total: float | None = None) -> None:
        """See `Asked.progress`."""
        if self._call.progress is not None:
            self._call.progress.step(done, total)

    def log(self, level: LogLevel, text: str) -> None:
        """See `Asked.log`."""
        self._call.log(level, uris.display(text[:_LONGEST_LOG]))

    async def ask(self, key: str, message: str, schema: Schema) -> Answer:
        """See `Asked.ask`."""
        loop = asyncio.get_running_loop()
        until = self._limit.when()
        left = None if until is None else until - loop.time()
        self._limit.reschedule(None)
        try:
            return await self._call.asker.elicit(key, message, schema)
        finally:
            self._limit.reschedule(None if left is None else loop.time() + left)


_: type[Asked] = AskedCall
