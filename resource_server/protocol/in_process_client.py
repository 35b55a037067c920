"""A client in the server's process, for the command line and tests: sees what any client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from resource_server import __version__, uris
from resource_server.catalog.near_resources import near_resources
from resource_server.protocol import revisions
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ErrorReply(Exception):
    """The server answered with an error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


async def error_in_words(server: Server, error: ErrorReply) -> str:
    """Return an error response in words, with its URI, and what to read instead."""
    about: dict[str, Any] = error.data or {}
    text = error.message[:1].lower() + error.message[1:]
    if "uri" in about:
        text += f": {about['uri']}"
    if "next" in about:
        text += f" (readable from {about['next']})"
    if "uri" in about and error.code == revisions.LATEST_HANDSHAKE.resource_not_found:
        near = await near_resources(server.catalog, about["uri"], elsewhere=True)
        if near:
            text += f"; did you mean {' or '.join(map(uris.readable, near))}?"
    return text


class LocalClient:
    """Exchanges encoded messages with a server, without a transport.

    Each notification is passed to `on_notification`, by default collected in `notifications`. Only
    with `follows_list` does the client receive changes of the list of resources. `owner` is the
    key by which limits count its requests; `name` and `address` are those of the record of reads.
    In a stateless revision, each request has its envelope.
    """

    def __init__(
        self,
        server: Server,
        revision: str = "2025-11-25",
        *,
        on_notification: Callable[[dict[str, Any]], None] | None = None,
        follows_list: bool = False,
        owner: str | None = None,
        name: str = "resource-server",
        address: str | None = None,
    ) -> None:
        self._connection = ClientConnection(server, push=self._receive)
        self._connection.owner = owner
        self._connection.address = address
        self._info = {"name": name, "version": __version__}
        self._revision = revision
        self._envelope: dict[str, Any] | None = None
        if revision in revisions.MODERN:
            self._envelope = {
                revisions.PROTOCOL_VERSION: revision,
                revisions.CLIENT_CAPABILITIES: {},
                revisions.CLIENT_INFO: self._info,
            }
        self._follows_list = follows_list
        self.sent = 0
        """Number of requests sent, with the first, `initialize`."""
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.notifications: list[dict[str, Any]] = []
        """Every notification received, oldest first."""
        self._on_notification = on_notification or self.notifications.append

    async def __aenter__(self) -> LocalClient:
        if self._envelope is not None:
            return self
        asked = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": self._info}
        await self.request("initialize", asked)
        if self._follows_list:
            self._send({"method": "notifications/initialized"})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its result; the request is cancelled with its task.

        Raises:
            ErrorReply: the server answered with an error.
        """
        self.sent += 1
        request_id = self.sent
        waiting = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        params = params or {}
        if self._envelope is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), **self._envelope}}
        self._send({"id": request_id, "method": method, "params": params})
        try:
            reply = await waiting
        except asyncio.CancelledError:
            self._waiting.pop(request_id, None)
            cancelled = {"requestId": request_id}
            self._send({"method": "notifications/cancelled", "params": cancelled})
            raise
        if "error" in reply:
            error = reply["error"]
            raise ErrorReply(error["code"], error["message"], error.get("data"))
        return reply["result"]

    def _send(self, message: dict[str, Any]) -> None:
        data = _encode({"jsonrpc": "2.0", **message})
        self._connection.receive(data, self._receive, self._receive)

    def _receive(self, data: bytes) -> None:
        message = _decode(data)
        waiting = self._waiting.pop(message.get("id"), None)
        if waiting is None:
            self._on_notification(message)
        elif not waiting.done():
            waiting.set_result(message)
