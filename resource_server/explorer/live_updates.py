"""Live pages: a stream of server-sent events, one for each change of the resource on the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from resource_server.explorer.page import CLIENT, Visit
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server

_KEEP_ALIVE_S = 15


class LiveUpdates(StreamingResponse):
    """The changes of a resource, subscribed to as by any client, until the stream has to end."""

    def __init__(self, server: Server, uri: str, visit: Visit) -> None:
        super().__init__(self._events(), media_type="text/event-stream")
        self._client = LocalClient(
            server,
            on_notification=self._notified,
            follows_list=True,
            owner=visit.owner,
            name=CLIENT,
            address=visit.address,
        )
        self._uri = uri
        self._ended = visit.ended
        self._changed = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Subscribe, and send the stream.

        Raises:
            ErrorReply: the resource cannot be subscribed to.
        """
        async with self._client:
            await self._client.request("resources/subscribe", {"uri": self._uri})
            await super().__call__(scope, receive, send)

    def _notified(self, message: dict[str, Any]) -> None:
        if message["method"].startswith("notifications/resources/"):
            self._changed.set()

    async def _events(self) -> AsyncIterator[str]:
        yield "event: subscribed\ndata:\n\n"
        waiting = [asyncio.create_task(self._ended.wait())]
        try:
            while not self._ended.is_set():
                waiting[1:] = [asyncio.create_task(self._changed.wait())]
                await asyncio.wait(
                    waiting, timeout=_KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                waiting[1].cancel()
                if self._changed.is_set():
                    self._changed.clear()
                    yield "event: changed\ndata:\n\n"
                else:
                    yield ":\n\n"
        finally:
            for each in waiting:
                each.cancel()
