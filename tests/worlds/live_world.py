"""A server in this process with a folder, a database and notes, its clients, and its writers."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from tests.listeners import IMPATIENT
from tests.providers.database.owners import Owner
from tests.waiting import pause, until
from tests.worlds.engines import Engine, Urls

_BOARD = Path(__file__).with_name("board.py")
PATIENCE_S = 20.0
"""Timeout of a notification on a busy machine."""
TIMING = replace(IMPATIENT, sweep_s=3600.0, watch_retry_s=0.05, compare_retry_s=0.05)
"""Without sweeps, which would find what no watch has noticed."""
_ABSENT = "absent"
"""What a client knows of a resource that it may not read, for whatever reason."""
_UNREAD = "unread"
FILES, ROWS, NOTES = "test://files/", "test://rows/", "test://notes/"


class Writer:
    """An application with one connection; a statement that fails ends its transaction."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def write(self, *statements: str) -> None:
        try:
            for sql in statements:
                await self._owner.run(sql)
        except Exception:  # of each driver its own: conflicts, locks, tables that are gone
            await self.end()

    async def end(self) -> None:
        """End a transaction that is still open."""
        with suppress(Exception):  # there was none
            await self._owner.run("rollback")


class Subscriber(ABC):
    """Remembers each resource as it was read after the last notification."""

    def __init__(self) -> None:
        self.events = 0
        self.known: dict[str, Hashable] = {}
        self.listed: Hashable = _UNREAD
        self.strangers: list[str] = []
        """Notifications without a subscription."""
        self._unread: dict[str, None] = {}
        self._must_list = True
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        """Serializes reads, so that an earlier one never overwrites a later one."""

    @abstractmethod
    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            ErrorReply: the server answered with an error.
        """

    def told(self, message: dict[str, Any]) -> None:
        """Take a notification."""
        self.events += 1
        if message["method"] == "notifications/resources/list_changed":
            self._must_list = True
        elif message["method"] == "notifications/resources/updated":
            uri = message["params"]["uri"]
            if uri not in self.known:
                self.strangers.append(uri)
            self._unread[uri] = None
        self._news.set()

    def note(self, *uris: str) -> None:
        """Read these resources soon."""
        self._unread.update(dict.fromkeys(uris))
        self._news.set()

    async def run(self) -> None:
        """Read what it is notified of."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.read_unread()

    async def read_unread(self) -> None:
        async with self._turn:
            while self._unread or self._must_list:
                if self._must_list:
                    self._must_list = False
                    self.listed = await self.list()
                else:
                    uri, _ = self._unread.popitem()
                    now = await self.read(uri)
                    if uri in self.known:
                        self.known[uri] = now

    async def read(self, uri: str) -> Hashable:
        """Return what a client reads, again if a part could not be read then."""
        try:
            reading = await self.request("resources/read", {"uri": uri})
            while "_meta" in reading:
                await pause(0.01)
                reading = await self.request("resources/read", {"uri": uri})
        except ErrorReply:
            return _ABSENT
        contents: list[dict[str, Any]] = reading["contents"]
        return tuple((each["uri"], each.get("text", each.get("blob"))) for each in contents)

    async def list(self) -> Hashable:
        """Return the URIs of everything that is listed."""
        found = set[str]()
        cursor: str | None = ""
        while cursor is not None:
            page = await self.request("resources/list", {"cursor": cursor} if cursor else {})
            found |= {each["uri"] for each in page["resources"]}
            cursor = page.get("nextCursor")
        return frozenset(found)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result, asking again while the server says that it may."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await self.ask(method, params)
                except ErrorReply as error:
                    details: dict[str, Any] = error.data or {}
                    if not details.get("retryable"):
                        raise
                await pause(0.01)

    async def missed(self, reader: Subscriber) -> list[str]:
        """Return what changed without a notification, as a client of another server reads it.

        A read on this one could let it notice what its watch did not.
        """
        await self.read_unread()
        found: list[str] = []
        for uri, known in list(self.known.items()):
            now = await reader.read(uri)
            if known != now:
                found.append(f"{uri} was {known} and is {now}")
        listed = await reader.list()
        if self.listed != listed:
            found.append(f"the listing was {self.listed} and is {listed}")
        return found


class Client(Subscriber):
    """A subscriber of a server in this process."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.local = LocalClient(server, on_notification=self.told, follows_list=True)

    @override
    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self.local.request(method, dict(params))

    async def subscribe(self, uri: str) -> None:
        if uri in self.known:
            return
        self.known[uri] = _UNREAD
        try:
            await self.request("resources/subscribe", {"uri": uri})
        except ErrorReply:
            del self.known[uri]
        else:
            self.note(uri)

    async def unsubscribe(self, uri: str) -> None:
        if uri in self.known:
            await self.local.request("resources/unsubscribe", {"uri": uri})
            self.known.pop(uri, None)
            self._unread.pop(uri, None)

    @override
    async def missed(self, reader: Subscriber) -> list[str]:
        told = [f"told of {uri}, unasked" for uri in self.strangers]
        return [*await super().missed(reader), *told]


class World:
    """A server in this process, its clients, and the applications that write what it serves."""

    def __init__(self, place: Path, engine: Engine, urls: Urls) -> None:
        self.place = place
        self.engine = engine
        self.urls = urls
        self.manifest = place / "mcp-resources.yaml"
        self.folder = place / "files"
        self.folder.mkdir()
        self.notes: dict[str, str] = {}
        self.writers: list[Writer] = []
        self.clients: list[Client] = []
        self._version = 0
        self.write_notes()
        self.write_manifest(frozenset())

    def write_notes(self) -> None:
        beside = self.place / "notes.json.tmp"
        beside.write_text(json.dumps(self.notes))
        beside.replace(self.place / "notes.json")

    def write_manifest(self, options: frozenset[str]) -> None:
        """Write the manifest; `options` say how it differs from the plainest one."""
        self._version += 1
        beside = self.place / "manifest.tmp"
        # JSON is YAML.
        beside.write_text(json.dumps(self._manifest(options)))
        beside.replace(self.manifest)

    def _manifest(self, options: frozenset[str]) -> dict[str, Any]:
        def chosen(**each: Any) -> dict[str, Any]:
            return {key: value for key, value in each.items() if value is not None}

        table = chosen(
            where="x < 3" if "where" in options else None,
            columns={"hide": ["y"]} if "hide" in options else None,
        )
        files = chosen(
            path="files",
            uri=FILES,
            include=["*.txt"] if "include" in options else None,
            listed=False if "unlisted-files" in options else None,
        )
        rows = chosen(
            url=self.urls.server,
            uri="test://elsewhere/" if "moved-rows" in options else ROWS,
            interval="20ms",
            tables={
                f"{self.engine.prefix}t".replace("/", "."): False if "no-t" in options else table,
                "few": {"key": ["id"]},
            },
            queries={"sums": {"sql": "select y, sum(x) as s from t group by y order by y"}},
        )
        notes = {"use": str(_BOARD), "uri": NOTES, "notes": str(self.place / "notes.json")}
        return {
            "version": 1,
            "server": {"title": str(self._version)},
            "roots": {"files": files},
            "databases": {"rows": rows},
            "providers": {} if "no-notes" in options else {"notes": notes},
        }

    async def has_reloaded(self, server: Server) -> None:
        """Wait until the server has taken over the last manifest."""
        await until(lambda: server.info.get("title") == str(self._version))
