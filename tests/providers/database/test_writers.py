"""Random writers in their own processes against random subscriptions: no change is missed.

A client reads what it is told of, and only that. When all is quiet, what it has read last is what
is there. `WRITERS_SEEDS=100` runs so many seeds of each engine instead of a few; `WRITERS_FIRST=7`
begins with another than the first, so that a failure can be looked at by itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceNotFound
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from resource_server.providers.database.options import Query, TableOptions
from tests.listeners import BASE, IMPATIENT
from tests.providers.database.owners import Owner
from tests.providers.database.served import served
from tests.providers.database.writer import TABLES
from tests.waiting import PATIENCE_S, pause, steady

pytestmark = pytest.mark.anyio

_FIRST = int(os.environ.get("WRITERS_FIRST", "0"))
_SEEDS = int(os.environ.get("WRITERS_SEEDS", "2"))
_TRANSACTIONS = int(os.environ.get("WRITERS_TRANSACTIONS", "60"))
_WRITERS = 3
_QUIET_S = 0.15
_NO_SWEEP = replace(IMPATIENT, sweep_s=3600.0)
"""No sweep during the test: it would find missed changes."""
_NOT_FOUND = -32002
_ABSENT = "absent"
_UNREAD = "unread"
_ROOT = Path(__file__).parents[3]
_PATHS = (
    *("", "t", "t/~rows", "t/~schema", *(f"t/{key}" for key in range(12)), "t/0/~cell/x"),
    *("t/1/~cell/y", "pairs", "pairs/~rows", "pairs/0", "pairs/1", "pairs/2", "words"),
    *(f"pairs/{a}/{b}" for a in range(3) for b in range(6)),
    *("words/a", "words/~tb~2Fc", "words/~t~7Ed", "words/~t..", "words/%F0%9F%98%80", "words/0"),
    *("few", "few/~rows", "few/0", "few/1", "few/2"),
)
_QUERY = f"{BASE}~query/sums"


class Writers:
    """Processes that write a database concurrently."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def write(self, url: str, seed: int) -> None:
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            process.stdin.write(f"{url} {seed * _WRITERS + number} {_TRANSACTIONS}\n".encode())
        for process in self._processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"done\n", "a writer has failed"


@asynccontextmanager
async def writing() -> AsyncGenerator[Writers]:
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.providers.database.writer"),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(_WRITERS)
    ]
    try:
        yield Writers(processes)
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


class Follower:
    """A subscriber that remembers each resource as it read it at the last notification."""

    def __init__(self, server: Server, dice: random.Random, uris: list[str]) -> None:
        self.events = 0
        self._known: dict[str, Hashable] = {}
        self._strangers: list[str] = []
        """Notifications without a subscription."""
        self._dice = dice
        self._uris = uris
        self._untold: dict[str, None] = {}
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        """Serializes reads, so that a later one is never overwritten by an earlier one."""
        self.client = LocalClient(server, on_notification=self._told)

    def _told(self, message: dict[str, Any]) -> None:
        uri = message["params"]["uri"]
        self.events += 1
        if uri not in self._known:
            self._strangers.append(uri)
        self._untold[uri] = None
        self._news.set()

    async def run(self) -> None:
        """Read the notified resources, some at once and some later."""
        while True:
            await self._news.wait()
            self._news.clear()
            await pause(self._dice.choice((0, 0, 0.001, 0.01)))
            await self._read_what_it_was_told_of()

    async def _read_what_it_was_told_of(self) -> None:
        async with self._turn:
            while self._untold:
                uri, _ = self._untold.popitem()
                now = await self._content(uri)
                if uri in self._known:
                    self._known[uri] = now

    async def _content(self, uri: str) -> Hashable:
        """Return the content of a document, or of a collection's rows."""
        while True:
            try:
                reading = await self.client.request("resources/read", {"uri": uri})
            except ErrorReply as error:
                if error.code == _NOT_FOUND:
                    return _ABSENT
                # A writer's transaction holds the lock.
                await pause(0.01)
                continue
            return shown(uri, [(each["uri"], each.get("text")) for each in reading["contents"]])

    async def act(self) -> None:
        """Subscribe or unsubscribe at random."""
        if self._dice.random() < 0.65:
            await self._subscribe(self._dice.choice(self._uris))
        elif self._known:
            uri = self._dice.choice(list(self._known))
            await self.client.request("resources/unsubscribe", {"uri": uri})
            self._known.pop(uri, None)
            self._untold.pop(uri, None)

    async def _subscribe(self, uri: str) -> None:
        if uri in self._known:
            return
        self._known[uri] = _UNREAD
        try:
            await self.client.request("resources/subscribe", {"uri": uri})
        except ErrorReply:
            del self._known[uri]
        else:
            self._untold[uri] = None
            self._news.set()

    async def missed(self, catalog: Catalog) -> list[str]:
        """Return the resources that changed without a notification."""
        await self._read_what_it_was_told_of()
        found = [f"told of {uri}, unasked" for uri in self._strangers]
        for uri, known in list(self._known.items()):
            now = await present(catalog, uri)
            if known != now:
                found.append(f"{uri} was {known} and is {now}")
        return found


def shown(uri: str, contents: list[tuple[str, object]]) -> Hashable:
    """Return the comparable part of a read; pages and schemas have topics of their own."""
    return tuple(
        (each, text) for each, text in contents if each == uri or not each.endswith("/~schema")
    )


async def present(catalog: Catalog, uri: str) -> Hashable:
    """Return what a client would read now, without the server recording a version."""
    try:
        bodies = (await catalog.read(uri)).items
    except ResourceNotFound:
        return _ABSENT
    return shown(uri, [(body.uri, body.content.data if body.content else "") for body in bodies])


async def missed_at_last(followers: list[Follower], catalog: Catalog) -> list[str]:
    """Return the missed changes once notifications have ended."""
    await steady(lambda: sum(follower.events for follower in followers), _QUIET_S)
    missed: list[str] = []
    for _ in range(int(PATIENCE_S / _QUIET_S)):
        missed = [each for follower in followers for each in await follower.missed(catalog)]
        if not missed:
            break
        await pause(_QUIET_S)
    return missed


async def trial(owner: Owner, writers: Writers, seed: int) -> list[str]:
    """Run one seed; return the missed changes."""
    dice = random.Random(seed)  # noqa: S311
    tables = {"few": TableOptions(key=("id",))}
    queries = {"sums": Query(sql="select y, sum(x) as s from t group by y order by y")}
    async with (
        served(owner, tables=tables, queries=queries, interval=0.02) as it,
        Server(it.catalog, timing=_NO_SWEEP) as server,
    ):
        uris = [*((it.base + path).rstrip("/") for path in _PATHS), *[_QUERY] * 3]
        followers = [
            Follower(server, random.Random(seed + number), uris)  # noqa: S311
            for number in range(2)
        ]
        async with followers[0].client, followers[1].client:
            reading = [asyncio.create_task(follower.run()) for follower in followers]
            try:
                for follower in followers:
                    for _ in range(dice.randrange(80)):
                        await follower.act()
                work = asyncio.create_task(writers.write(owner.url, seed))
                while not work.done():
                    await asyncio.wait([work], timeout=dice.random() * 0.05)
                    if dice.random() < 0.7:
                        await dice.choice(followers).act()
                work.result()
                return await missed_at_last(followers, it.catalog)
            finally:
                await server.broker.close()
                for task in reading:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task


@pytest.fixture
async def tables(owner: Owner, request: pytest.FixtureRequest) -> Owner:
    if owner.engine == "sqlite":
        await owner.run(f"pragma journal_mode = {request.param}")
    await owner.run(*TABLES)
    return owner


@pytest.mark.deep
@pytest.mark.guarantee("updates-arrive")
@pytest.mark.parametrize(
    ("url", "tables"),
    [("sqlite", "wal"), ("sqlite", "delete"), ("postgresql", ""), ("mariadb", "")],
    indirect=True,
)
@pytest.mark.timeout(60 + _SEEDS * 20)
async def test_no_commit_of_any_writer_is_missed(tables: Owner) -> None:
    async with writing() as writers:
        for seed in range(_FIRST, _FIRST + _SEEDS):
            missed = await trial(tables, writers, seed)
            assert not missed, f"seed {seed}: {missed}"
