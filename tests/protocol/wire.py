"""A raw client of the engine: any bytes in, every message out, in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server, ServerLimits
from resource_server.protocol.tools.registry import ToolSettings
from resource_server.provider import Provider
from resource_server.runtime.lazy_event import LazyEvent
from resource_server.runtime.timing import Timing
from tests.waiting import PATIENCE_S, PATIENT, quiet_for

HANDSHAKE: tuple[str, ...] = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: tuple[str, ...] = ("2026-07-28",)
EVERY = HANDSHAKE + MODERN
CLIENT = {"name": "tests", "version": "0"}
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
QUIET_S = 0.15


async def server_of(
    *providers: Provider,
    limits: CatalogLimits | None = None,
    server_limits: ServerLimits | None = None,
    tools: ToolSettings | None = None,
    timing: Timing = PATIENT,
) -> Server:
    """Return a server of started mounts `one`, `two`, ... at `test://one/`, `test://two/`, ..."""
    names = ("one", "two", "three")
    mounts = [
        Mount(name, f"test://{name}/", provider)
        for name, provider in zip(names, providers, strict=False)
    ]
    catalog = Catalog(mounts, limits, timing)
    await catalog.start()
    return Server(catalog, limits=server_limits, tools=tools, timing=timing)


class Wire:
    """One connection. `messages` is all that came, `replies` what has an `id` (or is a batch)."""

    def __init__(
        self,
        server: Server,
        revision: str | None = None,
        *,
        room: asyncio.Event | LazyEvent | None = None,
        can: Mapping[str, Any] | None = None,
    ) -> None:
        self.connection = ClientConnection(server, push=self._take, room=room)
        self.messages: list[Any] = []
        self._arrived = asyncio.Event()
        self._next_id = 1000
        self.modern = revision in MODERN
        self._can = can or {}
        if revision is not None and not self.modern:
            self.send(initialize(revision, can=can))
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            self.messages.clear()

    @property
    def replies(self) -> list[Any]:
        return [
            each
            for each in self.messages
            if isinstance(each, list) or ("id" in each and "method" not in each)
        ]

    @property
    def questions(self) -> list[Any]:
        """What the client is asked, in order."""
        asked = (cast("dict[str, Any]", each) for each in self.messages if isinstance(each, dict))
        return [each for each in asked if "id" in each and "method" in each]

    async def asked(self, count: int = 1) -> Any:
        """Wait until the client was asked so many questions, and return the last."""
        await self.until(lambda: len(self.questions) >= count)
        return self.questions[count - 1]

    def answer(self, question: Mapping[str, Any], result: object) -> None:
        """Answer a question."""
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    @property
    def notifications(self) -> list[Any]:
        return [each for each in self.messages if isinstance(each, dict) and "id" not in each]

    def send(self, message: object) -> None:
        """Send bytes as they are, and anything else as JSON."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.connection.receive(data, self._take, self._take)

    def ask(self, message: object) -> Any:
        """Send a message that is answered at once, and return the answer."""
        before = len(self.replies)
        self.send(message)
        (reply,) = self.replies[before:]
        return reply

    def start(self, method: str, params: Mapping[str, Any] | None = None, id: object = None) -> Any:
        """Send a request, with the envelope where the revision has it; return its id."""
        if id is None:
            self._next_id += 1
            id = self._next_id
        self.send(self.request(method, params, id))
        return id

    def request(self, method: str, params: Mapping[str, Any] | None, id: object) -> dict[str, Any]:
        asked = dict(params or {})
        if self.modern:
            can = {"io.modelcontextprotocol/clientCapabilities": self._can}
            asked["_meta"] = {**ENVELOPE, **can, **asked.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": asked}

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return its reply, however long it takes (within reason)."""
        return await self.reply_to(self.start(method, params))

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return its result; an error fails the test."""
        reply = await self.call(method, params)
        assert "result" in reply, reply
        return reply["result"]

    async def error(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return its error; a result fails the test."""
        reply = await self.call(method, params)
        assert "error" in reply, reply
        return reply["error"]

    async def reply_to(self, id: object) -> Any:
        """Wait for the reply to the request `id`."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for reply in self.replies:
                    if not isinstance(reply, list) and reply["id"] == id:
                        return reply
                await self._wait()

    async def notified(self, count: int) -> list[Any]:
        """Wait until there are so many notifications, and return all there are."""
        await self.until(lambda: len(self.notifications) >= count)
        return self.notifications

    async def until(self, came: Callable[[], bool]) -> None:
        """Wait until what has come is enough."""
        async with asyncio.timeout(PATIENCE_S):
            while not came():
                await self._wait()

    async def next_reply(self) -> Any:
        """Wait until there is any reply, and return the last one."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.replies:
                await self._wait()
        return self.replies[-1]

    @property
    def updates(self) -> list[str]:
        """The URIs of all `resources/updated` so far."""
        method = "notifications/resources/updated"
        return [each["params"]["uri"] for each in self.notifications if each["method"] == method]

    async def quiet(self) -> None:
        """Wait for longer than it takes to tell of anything."""
        await quiet_for(QUIET_S)

    async def finished(self) -> None:
        """Wait until nothing is in flight any more, and everything it had to say has been said."""
        await self.connection.drain(PATIENCE_S)
        await asyncio.sleep(0)

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _take(self, data: bytes) -> None:
        self.messages.append(json.loads(data))
        self._arrived.set()


def initialize(
    revision: str = "2025-11-25", id: object = 0, can: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    asked = {"protocolVersion": revision, "capabilities": can or {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": asked}


def request(method: str, params: object = None, id: object = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}
