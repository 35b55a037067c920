"""The request that calls a provider's tool, as the provider sees it."""

from __future__ import annotations

import asyncio

from resource_server import uris
from resource_server.protocol.call import Call
from resource_server.provider.tools import ElicitationAnswer, LogLevel, Schema, ToolRequest

_LONGEST_LOG = 8 * 1024


class AskedCall:
    """What a tool can tell and ask while it runs. The time that people take is none of its own."""

    def __init__(self, call: Call, limit: asyncio.Timeout) -> None:
        self._call = call
        self._limit = limit
        self._open = 0
        """Questions that nobody has answered."""
        self._left: float | None = None
        """Seconds of its own that the tool had when it began to ask."""

    @property
    def can_elicit(self) -> bool:
        """See `ToolRequest.can_elicit`."""
        return self._call.asker.can("elicitation")

    def progress(self, done: float, total: float | None = None) -> None:
        """See `ToolRequest.progress`."""
        if self._call.progress is not None:
            self._call.progress.step(done, total)

    def log(self, level: LogLevel, text: str) -> None:
        """See `ToolRequest.log`."""
        self._call.log(level, uris.display(text[:_LONGEST_LOG]))

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `ToolRequest.elicit`."""
        self._open += 1
        if self._open == 1:
            self._pause()
        try:
            return await self._call.asker.elicit(key, message, schema)
        finally:
            self._open -= 1
            if self._open == 0:
                self._resume()

    def _pause(self) -> None:
        until = self._limit.when()
        if until is not None and not self._limit.expired():
            self._left = until - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def _resume(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + left)


_: type[ToolRequest] = AskedCall
