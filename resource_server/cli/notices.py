"""What a server has told its client of changes, until the client looks at it."""

from __future__ import annotations

import asyncio

from resource_server.cli.client import Json

SETTLE_S = 0.1
"""More than a server takes to tell all that happens at one moment."""


class Notices:
    """Notifications of changes. Each is given out a moment after it came.

    So a save in several steps is one change, and whoever looks then sees the end of it.
    """

    def __init__(self) -> None:
        self.relisted = asyncio.Event()
        """Set when other resources may be listed than before."""
        self._updated: dict[str, float] = {}
        self._any = asyncio.Event()

    def take(self, notification: Json) -> None:
        """Take a notification of the server."""
        match notification:
            case {"method": "notifications/resources/updated", "params": {"uri": str(uri)}}:
                self._updated.setdefault(uri, asyncio.get_running_loop().time())
                self._any.set()
            case {"method": "notifications/resources/list_changed"}:
                self.relisted.set()
            case _:
                pass

    async def updated(self) -> str:
        """Return the URI that was told of first, once that is a moment ago."""
        await self._any.wait()
        uri, told_at = next(iter(self._updated.items()))
        await asyncio.sleep(told_at + SETTLE_S - asyncio.get_running_loop().time())
        del self._updated[uri]
        if not self._updated:
            self._any.clear()
        return uri
