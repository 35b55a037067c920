"""Random changes by another process against random subscriptions: nothing that matters is missed.

A client reads what it is told of, and only that. When all is quiet, what it has read last is what
is there. `WATCH_MODEL_SEEDS=500` runs so many seeds instead of a few; `WATCH_MODEL_FIRST=7` begins
with another than the first, so that a failure can be looked at by itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.subscriptions.broker import Broker
from tests.listeners import BASE, IMPATIENT, PATIENCE_S, impatient_folder, mounted
from tests.providers.filesystem.watch.changes import PATHS
from tests.waiting import pause, steady

pytestmark = pytest.mark.anyio

_FIRST = int(os.environ.get("WATCH_MODEL_FIRST", "0"))
_SEEDS = int(os.environ.get("WATCH_MODEL_SEEDS", "12"))
_OPERATIONS = int(os.environ.get("WATCH_MODEL_OPERATIONS", "150"))
_AT_ONCE = 4
_QUIET_S = 0.15
_SCRIPT = Path(__file__).with_name("changes.py")
_ABSENT = "absent"
_NOTHING = "nothing"


class Client:
    """Knows of each resource it subscribes to what it read when it was last told of it."""

    def __init__(self, live: Broker, dice: random.Random) -> None:
        self.known: dict[str, Hashable] = {}
        self.listed = frozenset[Hashable]()
        """What is listed, as it read it last."""
        self.follows = False
        """Whether it is told when that changes."""
        self.strangers: list[str] = []
        """What it was told of without having subscribed to it."""
        self.events = 0
        self._live = live
        self._dice = dice
        self._untold: dict[str, None] = {}
        self._relist = False
        self._news = asyncio.Event()

    # -- what it is told

    def updated(self, uri: str) -> None:
        self.events += 1
        if uri not in self.known:
            self.strangers.append(uri)
        self._read(uri)

    def list_changed(self) -> None:
        self.events += 1
        self._relist = True
        self._news.set()

    # -- what it does

    async def run(self) -> None:
        """Read what it is told of, some at once and some later."""
        while True:
            await self._news.wait()
            self._news.clear()
            await pause(self._dice.choice((0, 0, 0.001, 0.01)))
            await self.read_what_it_was_told_of()

    async def read_what_it_was_told_of(self) -> None:
        while self._untold:
            uri, _ = self._untold.popitem()
            now = await present(self._live.catalog, uri)
            if uri in self.known:
                self.known[uri] = now
        if self._relist:
            self._relist = False
            now = await listing(self._live.catalog)
            if self.follows:
                self.listed = now

    async def subscribe(self, uri: str) -> None:
        if uri in self.known:
            return
        self.known[uri] = _NOTHING
        try:
            await self._live.subscribe(uri, self)
        except ResourceNotFound:
            del self.known[uri]
        else:
            self._read(uri)

    def _read(self, uri: str) -> None:
        self._untold[uri] = None
        self._news.set()

    def unsubscribe(self, uri: str) -> None:
        self._live.unsubscribe(uri, self)
        self.known.pop(uri, None)
        self._untold.pop(uri, None)

    def follow_list(self) -> None:
        self._live.follow_list(self)
        self.follows = True
        self._relist = True
        self._news.set()

    def unfollow_list(self) -> None:
        self._live.unfollow_list(self)
        self.follows = False

    async def act(self) -> None:
        """Do something at random."""
        what = self._dice.random()
        uri = uris.join(BASE, tuple(filter(None, self._dice.choice(PATHS).split("/"))))
        if what < 0.6:
            await self.subscribe(uri)
        elif what < 0.9 and self.known:
            self.unsubscribe(self._dice.choice(list(self.known)))
        elif what < 0.95:
            self.follow_list()
        else:
            self.unfollow_list()


async def present(catalog: Catalog, uri: str) -> Hashable:
    """Return what reading a resource would tell apart: a version, or children with theirs."""
    try:
        entry = await catalog.metadata(uri)
        if entry.resource.type == "document":
            return entry.resource.version
        children: list[Hashable] = []
        after: str | None = ""
        while after is not None:
            page = await catalog.list(uri, after or None)
            for child in page.entries:
                version = child.resource.version if child.resource.type == "document" else None
                children.append((child.uri, version))
            after = page.next_cursor
        return tuple(children)
    except (ResourceNotFound, NotACollection):
        return _ABSENT


async def listing(catalog: Catalog) -> frozenset[Hashable]:
    """Return the URIs of all that is listed, and of what type they are."""
    found = list[Hashable]()
    after: str | None = ""
    while after is not None:
        page = await catalog.list(None, after or None)
        found += [(entry.uri, entry.resource.type) for entry in page.entries]
        after = page.next_cursor
    return frozenset(found)


class Changer:
    """The other process, which changes a folder at random."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def change(self, root: Path, seed: int, count: int) -> list[str]:
        """Make so many changes; return what they were."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{root} {seed} {count}\n".encode())
        done: list[str] = []
        while (line := (await self._process.stdout.readline()).decode().strip()) != "done":
            assert line, "the other process has ended"
            done.append(line)
        return done


@asynccontextmanager
async def changer() -> AsyncGenerator[Changer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_SCRIPT), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Changer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def trial(changes: Changer, root: Path, seed: int, **options: Any) -> str | None:
    """Run one seed; return what was missed."""
    dice = random.Random(seed)  # noqa: S311
    root.mkdir()  # noqa: ASYNC240
    await changes.change(root, seed + 1_000_000, 40)
    catalog = Catalog([mounted(impatient_folder(root, **options))])
    live = Broker(catalog, IMPATIENT)
    clients = [Client(live, random.Random(seed + number)) for number in range(2)]  # noqa: S311
    reading = [asyncio.create_task(client.run()) for client in clients]
    try:
        for client in clients:
            for _ in range(dice.randrange(40)):
                await client.act()
        if dice.random() < 0.7:
            clients[0].follow_list()
        working = asyncio.create_task(changes.change(root, seed, _OPERATIONS))
        while not working.done():
            await asyncio.wait([working], timeout=dice.random() * 0.05)
            if dice.random() < 0.7:
                await dice.choice(clients).act()
        done = working.result()
        await quiet(clients)
        missed = [await missing(client, catalog) for client in clients]
        until = time.monotonic() + PATIENCE_S
        while any(missed) and time.monotonic() < until:
            await pause(_QUIET_S)  # on a slow machine it may come late
            missed = [await missing(client, catalog) for client in clients]
    finally:
        for task in reading:
            task.cancel()
        await live.close()
        await asyncio.gather(*reading, return_exceptions=True)
    if not any(missed):
        return None
    told = "\n".join((*done[-40:], *filter(None, missed)))
    return f"seed {seed}, {options}:\n{told}"


async def quiet(clients: list[Client]) -> None:
    await steady(lambda: sum(client.events for client in clients), _QUIET_S)


async def missing(client: Client, catalog: Catalog) -> str:
    """Return what is not as the client knows it, though nobody told it."""
    await client.read_what_it_was_told_of()
    found = [f"told of {uri}, unasked" for uri in client.strangers]
    for uri, known in client.known.items():
        now = await present(catalog, uri)
        if known != now:
            found.append(f"{uri} was {known} and is {now}")
    if client.follows:
        now = await listing(catalog)
        if now != client.listed:
            found.append(f"listed and not told of: {now - client.listed}")
            found.append(f"not listed any more and not told of: {client.listed - now}")
    return "\n".join(found)


@pytest.mark.guarantee("updates-arrive")
@pytest.mark.timeout(30 + _SEEDS * 5)
async def test_no_change_in_a_random_history_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = iter(range(_FIRST, _FIRST + _SEEDS))

    async def run() -> None:
        async with changer() as changes:
            for seed in seeds:
                options: dict[str, Any] = {"watch": os.environ.get("WATCH_MODEL_OPTION", "auto")}
                if seed % 3 == 2:
                    options["symlinks"] = "within-root"
                missed = await trial(changes, tmp_path / f"root{seed}", seed, **options)
                assert missed is None, missed

    async with asyncio.TaskGroup() as side_by_side:
        for _ in range(_AT_ONCE):
            side_by_side.create_task(run())
