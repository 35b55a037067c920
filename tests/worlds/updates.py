"""Every update: at rest, no subscriber holds an old version.

Applications write a folder, a database and a plugin's notes while clients subscribe, watches are
interrupted and the manifest is reloaded. A client reads what it is notified of, and only that. Once
notifications have ended, what it has read last is what a fresh read returns.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from resource_server.cli.reload import ReloadingServer
from resource_server.errors import ResourceError
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from resource_server.provider import Change
from resource_server.providers.database.change_detection import ChangeDetector
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.topic import Topic
from resource_server.subscriptions.watch_runner import EVERYTHING
from tests.listeners import IMPATIENT
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.writer import TABLES, WORDS
from tests.worlds import engines, logs
from tests.worlds.engines import Engine, Urls
from tests.worlds.harness import Property, Tally, Violation

_BOARD = Path(__file__).with_name("board.py")
_CLIENTS = 2
_WRITERS = 2
_QUIET_S = 0.2
_PATIENCE_S = 20.0
"""Timeout of a notification on a busy machine."""
_TIMING = replace(IMPATIENT, sweep_s=3600.0, watch_retry_s=0.05, compare_retry_s=0.05)
"""Without sweeps, which would find what no watch has noticed."""
_ABSENT = "absent"
_UNREAD = "unread"
_FILES, _ROWS, _NOTES = "test://files/", "test://rows/", "test://notes/"


# -- what happens


class Step(ABC):
    """Something that happens in a world."""

    @abstractmethod
    async def happen(self, world: World) -> None:
        """Let it happen; what cannot be done, is not done."""


@dataclass(frozen=True)
class Write(Step):
    """An application runs statements on its connection to the database."""

    writer: int
    statements: tuple[str, ...]

    async def happen(self, world: World) -> None:
        if world.writers:
            await world.writers[self.writer].write(*self.statements)


@dataclass(frozen=True)
class Put(Step):
    """A file is written in place, or saved beside it first; with None it is removed."""

    path: str
    text: str | None
    is_saved: bool = False

    async def happen(self, world: World) -> None:
        path = world.folder / self.path
        with suppress(OSError):
            if self.text is None:
                _remove(path)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self.is_saved:
                path.write_text(self.text)
                return
            beside = path.with_name(f".{path.name}.tmp")
            beside.write_text(self.text)
            beside.replace(path)


@dataclass(frozen=True)
class Move(Step):
    """A file or directory gets another name."""

    path: str
    to: str

    async def happen(self, world: World) -> None:
        with suppress(OSError):
            (world.folder / self.path).rename(world.folder / self.to)


@dataclass(frozen=True)
class Pin(Step):
    """A note is written, or with None removed."""

    name: str
    text: str | None

    async def happen(self, world: World) -> None:
        world.notes.pop(self.name, None)
        if self.text is not None:
            world.notes[self.name] = self.text
        world.write_notes()


@dataclass(frozen=True)
class Subscribe(Step):
    """A client subscribes to a resource, and reads it."""

    client: int
    uri: str

    async def happen(self, world: World) -> None:
        await world.clients[self.client].subscribe(self.uri)


@dataclass(frozen=True)
class Unsubscribe(Step):
    """A client unsubscribes from a resource."""

    client: int
    uri: str

    async def happen(self, world: World) -> None:
        await world.clients[self.client].unsubscribe(self.uri)


@dataclass(frozen=True)
class Reload(Step):
    """The manifest is written anew."""

    options: frozenset[str]

    async def happen(self, world: World) -> None:
        world.write_manifest(self.options)


@dataclass(frozen=True)
class Interrupt(Step):
    """A watch ends for a reason of its own: lost connections, a replaced folder, a bug."""

    what: str
    """`files`, `rows` or `notes`."""

    async def happen(self, world: World) -> None:
        match self.what:
            case "files":
                away = world.folder.with_name("away")
                world.folder.rename(away)
                await asyncio.sleep(0.02)
                away.rename(world.folder)
            case "rows":
                await world.engine.disconnect(world.urls)
            case _:
                world.place.joinpath("notes.json.fail").touch()


@dataclass(frozen=True)
class Wait(Step):
    """Some time passes."""

    ms: int

    async def happen(self, world: World) -> None:
        await asyncio.sleep(self.ms / 1000)


@dataclass(frozen=True)
class History:
    """All that happens in one world."""

    engine: str
    steps: tuple[Step, ...]


# -- the world


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


class Client:
    """A subscriber that remembers each resource as it read it after the last notification."""

    def __init__(self, server: Server) -> None:
        self.events = 0
        self.known: dict[str, Hashable] = {}
        self.listed: Hashable = _UNREAD
        self._strangers: list[str] = []
        """Notifications without a subscription."""
        self._unread: dict[str, None] = {}
        self._must_list = True
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        """Serializes reads, so that an earlier one never overwrites a later one."""
        self.local = LocalClient(server, on_notification=self._told, follows_list=True)

    def _told(self, message: dict[str, Any]) -> None:
        self.events += 1
        if message["method"] == "notifications/resources/list_changed":
            self._must_list = True
        elif message["method"] == "notifications/resources/updated":
            uri = message["params"]["uri"]
            if uri not in self.known:
                self._strangers.append(uri)
            self._unread[uri] = None
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
                    self.listed = await self._list()
                else:
                    uri, _ = self._unread.popitem()
                    now = await self._read(uri)
                    if uri in self.known:
                        self.known[uri] = now

    async def _read(self, uri: str) -> Hashable:
        """Return what a client reads, again if a part could not be read then."""
        try:
            reading = await self._request("resources/read", {"uri": uri})
            while "_meta" in reading:
                await asyncio.sleep(0.01)
                reading = await self._request("resources/read", {"uri": uri})
        except ErrorReply as error:
            return _refusal(error.message)
        contents: list[dict[str, Any]] = reading["contents"]
        return tuple((each["uri"], each.get("text", each.get("blob"))) for each in contents)

    async def _list(self) -> Hashable:
        found = set[str]()
        cursor: str | None = ""
        while cursor is not None:
            page = await self._request("resources/list", {"cursor": cursor} if cursor else {})
            found |= {each["uri"] for each in page["resources"]}
            cursor = page.get("nextCursor")
        return frozenset(found)

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result, asking again while the server says that it may."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                try:
                    return await self.local.request(method, dict(params))
                except ErrorReply as error:
                    details: dict[str, Any] = error.data or {}
                    if not details.get("retryable"):
                        raise
                await asyncio.sleep(0.01)

    async def subscribe(self, uri: str) -> None:
        if uri in self.known:
            return
        self.known[uri] = _UNREAD
        try:
            await self._request("resources/subscribe", {"uri": uri})
        except ErrorReply:
            del self.known[uri]
        else:
            self._unread[uri] = None
            self._news.set()

    async def unsubscribe(self, uri: str) -> None:
        if uri in self.known:
            await self.local.request("resources/unsubscribe", {"uri": uri})
            self.known.pop(uri, None)
            self._unread.pop(uri, None)

    async def missed(self, server: Server) -> list[str]:
        """Return what changed without a notification."""
        await self.read_unread()
        found = [f"told of {uri}, unasked" for uri in self._strangers]
        for uri, known in list(self.known.items()):
            now = await present(server, uri)
            if known != now:
                found.append(f"{uri} was {known} and is {now}")
        listed = await self._list()
        if self.listed != listed:
            found.append(f"the listing was {self.listed} and is {listed}")
        return found


async def present(server: Server, uri: str) -> Hashable:
    """Return what a client would read now, without the server taking note of it."""
    try:
        items = (await server.catalog.read(uri)).items
    except ResourceError as error:
        return _refusal(str(error))
    return tuple((item.uri, "" if item.content is None else item.content.data) for item in items)


def _refusal(text: str) -> Hashable:
    return _ABSENT, text.lower()


class World:
    """A server in this process, its clients, and the applications that write what it serves."""

    def __init__(self, place: Path, engine: Engine, urls: Urls) -> None:
        self.place = place
        self.engine = engine
        self.urls = urls
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
        beside.replace(self.place / "mcp-resources.yaml")

    def _manifest(self, options: frozenset[str]) -> dict[str, Any]:
        def chosen(**each: Any) -> dict[str, Any]:
            return {key: value for key, value in each.items() if value is not None}

        table = chosen(
            where="x < 3" if "where" in options else None,
            columns={"hide": ["y"]} if "hide" in options else None,
        )
        files = chosen(
            path="files",
            uri=_FILES,
            include=["*.txt"] if "include" in options else None,
            listed=False if "unlisted-files" in options else None,
        )
        rows = chosen(
            url=self.urls.server,
            uri="test://elsewhere/" if "moved-rows" in options else _ROWS,
            interval="20ms",
            tables={
                f"{self.engine.prefix}t".replace("/", "."): False if "no-t" in options else table,
                "few": {"key": ["id"]},
            },
            queries={"sums": {"sql": "select y, sum(x) as s from t group by y order by y"}},
        )
        notes = {"use": str(_BOARD), "uri": _NOTES, "notes": str(self.place / "notes.json")}
        return {
            "version": 1,
            "server": {"title": str(self._version)},
            "roots": {"files": files},
            "databases": {"rows": rows},
            "providers": {} if "no-notes" in options else {"notes": notes},
        }

    async def has_reloaded(self, server: Server) -> None:
        """Wait until the server has taken over the last manifest."""
        async with asyncio.timeout(_PATIENCE_S):
            while server.info.get("title") != str(self._version):  # noqa: ASYNC110  # polled by it
                await asyncio.sleep(0.02)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@asynccontextmanager
async def _folder() -> AsyncGenerator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


async def check(case: History, tally: Tally) -> None:
    """Let everything happen; then compare what clients hold with what is there."""
    engine = engines.ENGINES[case.engine]
    async with AsyncExitStack() as stack:
        stack.enter_context(logs.no_errors())
        place = await stack.enter_async_context(_folder())
        urls = await stack.enter_async_context(engine.database(place))
        owner = await stack.enter_async_context(owner_of(urls.owner))
        await owner.run(*engine.preparation, *TABLES)
        world = World(place, engine, urls)
        for _ in range(_WRITERS):
            one = await stack.enter_async_context(owner_of(urls.owner))
            await one.run(*engine.impatience)
            world.writers.append(Writer(one))
        reloading = ReloadingServer(
            str(place / "mcp-resources.yaml"), allow_plugins=True, timing=_TIMING
        )
        server = await stack.enter_async_context(reloading)
        for _ in range(_CLIENTS):
            client = Client(server)
            await stack.enter_async_context(client.local)
            world.clients.append(client)
        reading = [asyncio.create_task(client.run()) for client in world.clients]
        try:
            for step in case.steps:
                await step.happen(world)
            for writer in world.writers:
                await writer.end()
            await world.has_reloaded(server)
            missed = await _missed_at_rest(world.clients, server)
        finally:
            await server.broker.close()
            for task in reading:
                task.cancel()
            ends = await asyncio.gather(*reading, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
    if missed:
        raise Violation("\n".join(missed))
    tally.count("steps", len(case.steps))
    tally.count("notifications", sum(client.events for client in world.clients))
    tally.count("versions compared", sum(len(client.known) for client in world.clients))


async def _missed_at_rest(clients: Sequence[Client], server: Server) -> list[str]:
    missed: list[str] = []
    until = time.monotonic() + _PATIENCE_S
    while True:
        count = -1
        while count != (count := sum(client.events for client in clients)):  # noqa: ASYNC110
            await asyncio.sleep(_QUIET_S)
        missed = [each for client in clients for each in await client.missed(server)]
        if not missed or time.monotonic() > until:
            return missed


# -- generated histories

_NAMES = st.sampled_from(("x.txt", "y.txt", "z.log", "a", "a/x.txt", "a/b", "a/b/x.txt", ".env"))
_TEXTS = st.sampled_from(("one", "two", "other", ""))
_KEYS = st.integers(0, 5)
_OPTIONS = ("where", "hide", "include", "unlisted-files", "moved-rows", "no-t", "no-notes")


def _statements(engine: Engine) -> st.SearchStrategy[str]:
    values = st.integers(0, 5)
    into = engine.insertion.format
    return st.one_of(
        st.builds(into("t", "{}, {}, {}").format, _KEYS, values, values),
        st.builds(into("pairs", "{}, {}, {}").format, _KEYS, _KEYS, values),
        st.builds(into("words", "'{}', {}").format, st.sampled_from(WORDS), values),
        st.builds("update t set x = {} where id = {}".format, values, _KEYS),
        st.builds("update t set y = {} where id > {}".format, values, _KEYS),
        st.builds("update t set id = id + {} where id = {}".format, st.just(1), _KEYS),
        st.builds("update pairs set x = {} where a = {}".format, values, _KEYS),
        st.builds("update words set x = {} where k = '{}'".format, values, st.sampled_from(WORDS)),
        st.builds("delete from t where id = {}".format, _KEYS),
        st.builds("delete from pairs where a = {}".format, _KEYS),
        st.builds("delete from words where k = '{}'".format, st.sampled_from(WORDS)),
        st.sampled_from(
            (
                "alter table t add column z integer",
                "alter table t drop column z",
                "drop table words",
                TABLES[2],
                "drop table t",
                TABLES[0],
                "drop view few",
                TABLES[3],
                "alter table pairs rename to peers",
                "alter table peers rename to pairs",
                "create table more (id integer primary key)",
                "drop table more",
            )
        ),
    )


@st.composite
def _writes(draw: st.DrawFn, engine: Engine) -> Write:
    """Statements each by itself, a whole transaction, or part of one."""
    statements = draw(st.lists(_statements(engine), min_size=1, max_size=3))
    match draw(st.sampled_from(("alone", "whole", "whole", "begin", "commit", "rollback"))):
        case "whole":
            statements = ["begin", *statements, "commit"]
        case "begin":
            statements = ["begin", *statements]
        case "commit" | "rollback" as end:
            statements = [*statements, end]
        case _:
            pass
    return Write(draw(st.integers(0, _WRITERS - 1)), tuple(statements))


def _uris(engine: Engine) -> st.SearchStrategy[str]:
    paths = (
        *("t", "t/~rows", "t/~schema", "t/0", "t/1", "t/2", "t/3", "t/1/~cell/x", "t/2/~cell/y"),
        *("pairs", "pairs/~rows", "pairs/0", "pairs/1", "pairs/0/0", "pairs/1/2", "pairs/2/1"),
        *("words", "words/~rows", "words/a", "words/~tb~2Fc", "words/~t~7Ed", "words/0"),
        *("few", "few/~rows", "few/0", "few/1", "peers", "more", "t/~rows?limit=2"),
    )
    rows = [*(f"{_ROWS}{engine.prefix}{path}" for path in paths), f"{_ROWS}~query/sums"]
    files = ("", "x.txt", "y.txt", "z.log", "a", "a/x.txt", "a/b", "a/b/x.txt")
    return st.one_of(
        st.sampled_from(rows),
        st.sampled_from(rows),
        st.sampled_from([f"{_FILES}{path}" for path in files]),
        st.sampled_from([f"{_NOTES}{path}" for path in ("", "one", "two")]),
        st.just(_ROWS),
    )


@st.composite
def _histories(draw: st.DrawFn) -> History:
    engine = engines.ENGINES[draw(st.sampled_from(engines.listening()))]
    clients = st.integers(0, _CLIENTS - 1)
    subscriptions = st.builds(Subscribe, clients, _uris(engine))
    writes = _writes(engine)
    steps = st.one_of(
        *(subscriptions, subscriptions, writes, writes, writes),
        st.builds(Unsubscribe, clients, _uris(engine)),
        st.builds(Put, _NAMES, st.none() | _TEXTS, st.booleans()),
        st.builds(Put, st.sampled_from((".gitignore", "a/.gitignore")), st.just("x.txt\n")),
        st.builds(Move, _NAMES, _NAMES),
        st.builds(Pin, st.sampled_from(("one", "two")), st.none() | _TEXTS),
        st.builds(Interrupt, st.sampled_from(("files", "rows", "notes"))),
        st.builds(Reload, st.sets(st.sampled_from(_OPTIONS), max_size=2).map(frozenset)),
        st.builds(Wait, st.sampled_from((1, 5, 20, 100, 600))),
    )
    first = draw(st.lists(st.one_of(subscriptions, writes), min_size=2, max_size=20))
    return History(engine.name, (*first, *draw(st.lists(steps, min_size=2, max_size=30))))


# -- sabotages


@contextmanager
def _patched(owner: object, name: str, by: Callable[..., Any]) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, by)
        yield


def _an_event_dropped() -> Any:
    """Let the broker drop every third change."""
    changed = Broker._changed  # pyright: ignore[reportPrivateUsage]
    count = 0

    def drop(broker: Broker, mount: Any, change: Change) -> None:
        nonlocal count
        count += 1
        if change is EVERYTHING or count % 3:
            changed(broker, mount, change)

    return _patched(Broker, "_changed", drop)


def _a_commit_unnoticed() -> Any:
    """Let change detection ignore every third commit."""
    committed = ChangeDetector._committed  # pyright: ignore[reportPrivateUsage]
    count = 0

    async def ignore(detector: ChangeDetector, paths: Any) -> AsyncGenerator[Change]:
        nonlocal count
        count += 1
        if count % 3:
            async for change in committed(detector, paths):
                yield change

    return _patched(ChangeDetector, "_committed", ignore)


def _a_subscription_lost_at_reload() -> Any:
    """Let the reloaded catalog forget where topics lead."""
    connect = Broker._connect  # pyright: ignore[reportPrivateUsage]

    def forget(broker: Broker, topic: Topic) -> bool:
        return topic.runner is None and not topic.listeners and connect(broker, topic)

    return _patched(Broker, "_connect", forget)


PROPERTY = Property(
    name="updates",
    cases=_histories(),
    check=check,
    sabotages={
        "event-dropped": _an_event_dropped,
        "commit-unnoticed": _a_commit_unnoticed,
        "subscription-lost-at-reload": _a_subscription_lost_at_reload,
    },
)
