"""Callers: clients of each revision, with and without scopes, that record every byte they get."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from resource_server.access import Caller, acting
from resource_server.explorer.application import Explorer
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from tests.worlds.pages import Opening, PageStream

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
GUEST_SCOPES = frozenset(("mcp:read",))
CLIENT = {"name": "worlds", "version": "0"}
ENVELOPE: Mapping[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}


@dataclass(frozen=True)
class CallerKind:
    """A caller: its protocol revision, and whether it has a token, which lacks scopes."""

    revision: str = "2025-11-25"
    has_token: bool = False

    @property
    def is_modern(self) -> bool:
        """Whether each request carries an envelope instead of following a handshake."""
        return self.revision == MODERN

    @property
    def caller(self) -> Caller:
        """The caller as a transport knows it."""
        return Caller("guest", GUEST_SCOPES) if self.has_token else Caller()


callers = st.builds(CallerKind, st.sampled_from((*HANDSHAKE, MODERN)), st.booleans())


class Exchange(NamedTuple):
    """A request, or a page that was opened, and the bytes of the response."""

    request: str
    response: bytes
    is_page: bool = False


class Asker(Protocol):
    """A client that sends one request at a time and records every exchange."""

    kind: CallerKind
    exchanges: list[Exchange]
    """Every exchange, in order."""

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, record the exchange and return the decoded response."""
        ...

    async def open(self, opening: Opening) -> None:
        """Open a page of the explorer and record the exchange."""
        ...


class Client:
    """A client in the server's process, which sends one request at a time."""

    def __init__(self, server: Server, kind: CallerKind) -> None:
        self.kind = kind
        self.exchanges: list[Exchange] = []
        self.notifications: list[bytes] = []
        """What was pushed outside of any exchange."""
        self._explorer = Explorer(server)
        self._connection = ClientConnection(server, push=self.notifications.append)
        self._ids = itertools.count(1)

    async def begin(self) -> None:
        """Shake hands, or discover the server."""
        if self.kind.is_modern:
            await self.ask("server/discover")
            return
        version = {"protocolVersion": self.kind.revision}
        await self.ask("initialize", {**version, "capabilities": {}, "clientInfo": CLIENT})
        self._receive({"method": "notifications/initialized"}, self.notifications.append)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, record the exchange and return the decoded response."""
        message = self._request(method, params)
        replied = asyncio.get_running_loop().create_future()
        self._receive(message, replied.set_result)
        response = await replied
        self.exchanges.append(Exchange(json.dumps(message), response))
        return json.loads(response)

    async def open(self, opening: Opening) -> None:
        """Open a page of the explorer and record the exchange."""
        response = await self.watch(opening).answer(is_live=opening.is_live)
        self.exchanges.append(Exchange(str(opening), response, is_page=True))

    def watch(self, opening: Opening) -> PageStream:
        """Open a page of the explorer, which is not waited for."""
        return PageStream(self._explorer, self.kind.caller, opening)

    def listen(self, uris: list[str]) -> None:
        """Follow the list and these resources, in 2026-07-28."""
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
        message = self._request("subscriptions/listen", {"notifications": wanted})
        self._receive(message, self.notifications.append)

    async def close(self) -> None:
        """End the connection."""
        self._explorer.close()
        await self._connection.close()

    def _request(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        given = dict(params or {})
        if self.kind.is_modern:
            given["_meta"] = ENVELOPE
        return {"id": next(self._ids), "method": method, "params": given}

    def _receive(self, message: Mapping[str, Any], reply: Any) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode("utf-8", "surrogatepass")
        with acting(self.kind.caller):
            self._connection.receive(data, reply, self.notifications.append)


@asynccontextmanager
async def client_of(server: Server, kind: CallerKind) -> AsyncGenerator[Client]:
    """Connect a client that has shaken hands."""
    client = Client(server, kind)
    await client.begin()
    try:
        yield client
    finally:
        await client.close()
