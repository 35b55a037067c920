"""Every server of a fleet: no update is missed, no session lost, whichever server is asked.

Clients of every revision subscribe and read through a balancer that gives each request to any
server, while applications write, servers are killed, and their store stops, forgets and is cut off.
At rest, each client that listens holds what a fresh read returns, ended sessions are no more, and
all servers answer byte for byte as one does that is alone.
"""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import strategies as st
from typing_extensions import override

from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.client_subscriptions import Subscriptions
from resource_server.protocol.server import Server
from resource_server.transports.http.fleet.shared_sessions import SharedSession, SharedSessions
from resource_server.transports.http.fleet.store import FleetStore, SharedState
from tests.protocol.wire import CLIENT, EVERY, MODERN
from tests.transports.http.fleet.store_wire import WireFault
from tests.waiting import pause, until
from tests.worlds import engines, grammar
from tests.worlds.fleet_clients import FleetClient, ListenClient, SessionClient
from tests.worlds.fleet_world import (
    FILES_AT_FIRST,
    FILES_LATER,
    ROWS_AT_FIRST,
    FleetWorld,
)
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.live_world import FILES, ROWS, Client
from tests.worlds.process_patches import Sabotages

_SHAPES = (
    ("sqlite-wal", (0, 60), 1),
    ("sqlite-wal", (0, 60), 1),
    ("sqlite-wal", (0, -60, 60, 0), 1),
    ("sqlite-wal", (0,), 2),
    ("postgresql", (-60, 0), 1),
)
"""Databases, how much the clock of each server is ahead, in seconds, and the workers of each."""
_PATIENCE_S = 30.0
"""Timeout of a notification on a busy machine."""
_ALIKE = 12
"""Requests whose responses are compared between servers."""


ClientStep: TypeAlias = Literal[
    "subscribe",
    "unsubscribe",
    "open",
    "close",
    "drop",
    "deafen",
    "level",
    "leave",
    "greet",
    "read",
]
_OFTEN: tuple[ClientStep, ...] = (
    *("subscribe", "subscribe", "subscribe", "subscribe", "subscribe"),
    *("unsubscribe", "unsubscribe", "open", "open", "close", "drop", "drop", "deafen"),
    *("level", "leave", "greet", "read"),
)
_NO_ARGUMENTS: dict[str, str] = {}


class Step(ABC):
    """Something that happens to a fleet."""

    @abstractmethod
    async def happen(self, run: Run) -> None:
        """Let it happen."""


@dataclass(frozen=True)
class Act(Step):
    """A client does something, after what it did before."""

    client: int
    what: ClientStep
    uri: str = ""

    @override
    async def happen(self, run: Run) -> None:
        run.put(self)

    async def act(self, client: FleetClient) -> None:
        match self.what:
            case "subscribe":
                await client.subscribe(self.uri)
            case "unsubscribe":
                await client.unsubscribe(self.uri)
            case "open":
                client.wanted.set()
            case "close":
                client.wanted.clear()
                await client.drop_stream()
            case "drop" | "deafen":
                await client.drop_stream(is_deaf=self.what == "deafen")
            case "level":
                await client.set_level()
            case "leave":
                await client.leave()
            case "greet":
                await client.greet()
            case "read":
                await client.read_something()


@dataclass(frozen=True)
class Write(Step):
    """An application changes a file or a row."""

    what: Literal["put", "remove", "row", "delete"]
    name: str | int

    @override
    async def happen(self, run: Run) -> None:
        match self.what:
            case "put":
                run.world.put(str(self.name))
            case "remove":
                run.world.remove(str(self.name))
            case "row":
                await run.world.write_row(int(self.name))
            case "delete":
                await run.world.delete_row(int(self.name))


@dataclass(frozen=True)
class Kill(Step):
    """A server ends, and starts again after a time."""

    replica: int
    down_ms: int
    is_asked: bool = False
    """Whether it may end as it wants."""

    @override
    async def happen(self, run: Run) -> None:
        number = signal.SIGTERM if self.is_asked else signal.SIGKILL
        await run.world.kill(run.world.replicas[self.replica], number, self.down_ms)


@dataclass(frozen=True)
class Fail(Step):
    """The store fails for a time, or the wire to it of one server."""

    how: Literal["stop", "end", "flush", "disconnect"] | WireFault
    ms: int = 0
    replica: int = 0

    @override
    async def happen(self, run: Run) -> None:
        if self.how in ("cut", "stall", "slow"):
            run.world.fail_wire(run.world.replicas[self.replica], self.how, self.ms)
        else:
            await run.world.fail_store(self.how, self.ms)


@dataclass(frozen=True)
class Wait(Step):
    """Some time passes."""

    ms: int

    @override
    async def happen(self, run: Run) -> None:
        await pause(self.ms / 1000)


@dataclass(frozen=True)
class Settle(Step):
    """All clients have done what they were to do."""

    @override
    async def happen(self, run: Run) -> None:
        await run.settled()


@dataclass(frozen=True)
class Fleet:
    """All that happens to one fleet."""

    engine: str
    revisions: tuple[str, ...]
    """One for each client."""
    skews: tuple[int, ...]
    """How much the clock of each server is ahead, in seconds."""
    dice: int
    """Seed of the balancer."""
    steps: tuple[Step, ...]
    is_store_away: bool = False
    """Whether the store is away when all responses are compared."""
    workers: int = 1
    """Processes of each server."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What the fleets of two cases must have in common, if they are one."""
        return self.engine, self.skews, self.workers


class Run:
    """One case while it happens."""

    def __init__(self, world: FleetWorld, clients: Sequence[FleetClient]) -> None:
        self.world = world
        self.clients = clients
        self._queues = [asyncio.Queue[Act]() for _ in clients]
        self._left = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, stack: AsyncExitStack) -> None:
        """Let all clients come."""
        stack.push_async_callback(self._end)
        for client, queue in zip(self.clients, self._queues, strict=True):
            await client.begin()
            for task in (client.run(), client.keep_stream(), self._act(client, queue)):
                self._tasks.append(asyncio.create_task(task))

    def put(self, step: Act) -> None:
        """Let a client do something after what it did before."""
        self._left += 1
        self._queues[step.client].put_nowait(step)

    async def _act(self, client: FleetClient, queue: asyncio.Queue[Act]) -> None:
        while True:
            step = await queue.get()
            await step.act(client)
            self._left -= 1

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self.clients:
            await client.drop_stream()
            client.close()

    def check(self) -> None:
        """Raise what a client has noticed."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def settled(self) -> None:
        """Wait until all clients have done what they were to do."""

        def is_done() -> bool:
            self.check()
            return not self._left

        await until(is_done)

    async def rested(self, single: Server) -> None:
        """Wait until every client that listens holds what one server has that is alone.

        Raises:
            Violation: one never does.
        """
        deadline = time.monotonic() + _PATIENCE_S
        reader = Client(single)
        async with reader.local:
            while missed := await self._missed(reader):
                self.check()
                if time.monotonic() > deadline:
                    for client in self.clients:
                        client.forget_lost()
                    if missed := await self._missed(reader):
                        self.world.tally.count("missed", len(missed))
                        raise Violation("\n".join(missed))
                await pause(0.02)

    async def _missed(self, reader: Client) -> list[str]:
        found = ["a client has no stream" for each in self.clients if not each.is_live]
        for number, client in enumerate(self.clients):
            found += [f"client {number}: {each}" for each in await client.missed(reader)]
        return found


async def check(case: Fleet, tally: Tally) -> None:
    """Let everything happen; then compare what clients hold, and what servers answer."""
    if case.engine not in engines.listening():
        return
    try:
        await _happen(case, await _world(case), tally)
    except BaseException:
        await _forget(case)
        raise


async def _happen(case: Fleet, world: FleetWorld, tally: Tally) -> None:
    clients: list[FleetClient] = [
        ListenClient(world) if each in MODERN else SessionClient(world, each)
        for each in case.revisions
    ]
    run = Run(world, clients)
    await world.begin(random.Random(case.dice), tally)  # noqa: S311
    async with AsyncExitStack() as stack:
        await run.begin(stack)
        for step in case.steps:
            run.check()
            await step.happen(run)
        await run.settled()
        await world.healed()
        for client in clients:
            client.wanted.set()
        single = await stack.enter_async_context(world.single())
        await run.rested(single)
        await world.change_everything()
        await run.rested(single)
        await _check_ends(run)
        if leaks := await asyncio.to_thread(world.leaks):
            raise Violation("\n".join(leaks))
        async with world.without_store() if case.is_store_away else nullcontext():
            await _check_alike(run, case, single)
    for client in clients:
        await client.end()
    tally.count("scenarios")
    tally.count("versions compared", sum(len(client.known) for client in clients))
    tally.count("notifications", sum(client.events for client in clients))
    tally.count("missed", 0)


_kept: dict[tuple[object, ...], tuple[FleetWorld, AsyncExitStack]] = {}
"""The fleets of a search: a process takes a second to start."""


async def _world(case: Fleet) -> FleetWorld:
    """Return the fleet of earlier cases of the same shape, or start one."""
    if case.shape in _kept:
        return _kept[case.shape][0]
    engine = engines.ENGINES[case.engine]
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = await stack.enter_async_context(engine.database(place))
        world = FleetWorld(place, engine, urls)
        await world.open(stack, case.skews, SABOTAGES, case.workers)
        _kept[case.shape] = world, stack.pop_all()
    return world


async def _forget(case: Fleet) -> None:
    """End a fleet of which the state is unknown."""
    if case.shape in _kept:
        await _kept.pop(case.shape)[1].aclose()


async def _end() -> None:
    """End all fleets."""
    while _kept:
        await _kept.popitem()[1][1].aclose()


async def _check_ends(run: Run) -> None:
    for client in run.clients:
        if isinstance(client, SessionClient):
            deadline = time.monotonic() + _PATIENCE_S
            while undead := await client.undead():
                if time.monotonic() > deadline:
                    raise Violation("\n".join(undead))


async def _check_alike(run: Run, case: Fleet, single: Server) -> None:
    """Send the same requests to every server, and to one that is alone."""
    dice = random.Random(case.dice)  # noqa: S311
    for client, revision in zip(run.clients, case.revisions, strict=True):
        alone = _Alone(single, revision)
        for _ in range(_ALIKE):
            await _compare(run, client, client.message(*_request(dice, case.engine)), alone)
        await alone.connection.close()


async def _compare(run: Run, client: FleetClient, message: dict[str, Any], alone: _Alone) -> None:
    """Compare the responses to one request; counts of rows are remembered for a second."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        expected = await alone.ask(client, message)
        asked = [client.send(message, replica) for replica in run.world.replicas]
        responses = [each.body for each in await asyncio.gather(*asked)]
        run.world.tally.count("responses compared", len(responses))
        if set(responses) == {expected}:
            return
        if time.monotonic() > deadline:
            raise Violation(f"{message}: {responses!r} instead of {expected!r}")
        await pause(0.2)


class _Alone:
    """A client of the server in this process, which takes responses as they are."""

    def __init__(self, server: Server, revision: str) -> None:
        self.connection = ClientConnection(server, push=lambda _: None)
        if revision not in MODERN:
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            self.connection.receive(grammar.encoded(first), lambda _: None, lambda _: None)

    async def ask(self, client: FleetClient, message: dict[str, Any]) -> bytes:
        found: list[bytes] = []
        self.connection.receive(client.post(message).body, found.append, lambda _: None)
        await until(lambda: found)
        return found[0]


def _request(dice: random.Random, engine: str) -> tuple[str, dict[str, Any]]:
    uri = dice.choice((*_uris(engine), f"{FILES}missing.txt", "test://elsewhere/"))
    tools = (
        ("list_resources", {"uri": uri}),
        ("read_resource", {"uri": uri}),
        ("nothing", _NO_ARGUMENTS),
    )
    name, arguments = dice.choice((*tools, ("search_resources", {"query": "contents"})))
    reference = {"type": "ref/resource", "uri": f"{ROWS}{{path}}"}
    return dice.choice(
        (
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": uri}),
            ("resources/read", {"uri": uri}),
            ("tools/list", {}),
            ("tools/call", {"name": name, "arguments": arguments}),
            ("tools/call", {"name": name, "arguments": arguments}),
            ("prompts/list", {}),
            ("prompts/get", {"name": "ask", "arguments": {"uri": uri}}),
            (
                "completion/complete",
                {"ref": reference, "argument": {"name": "path", "value": dice.choice(("", "t"))}},
            ),
        )
    )


# -- dice


def _uris(engine: str) -> Sequence[str]:
    prefix = engines.ENGINES[engine].prefix
    return (
        *(FILES, f"{FILES}d/", *(f"{FILES}{name}" for name in (*FILES_AT_FIRST, *FILES_LATER))),
        *(f"{ROWS}{prefix}t", f"{ROWS}{prefix}t/~rows", f"{ROWS}~query/latest"),
        *(f"{ROWS}{prefix}t/{key}" for key in (*ROWS_AT_FIRST, 7)),
    )


class _Dice:
    """Draws steps from one source of randomness."""

    def __init__(self, source: random.Random, engine: str, clients: int, replicas: int) -> None:
        self._source = source
        self._uris = _uris(engine)
        self._clients = clients
        self._replicas = replicas

    def steps(self) -> Sequence[Step]:
        """Return what clients begin with, and then everything else."""
        first: list[Step] = []
        for client in range(self._clients):
            if self._source.random() < 0.8:
                first.append(Act(client, "open"))
            uris = self._source.sample(self._uris, 4)
            first += [Act(client, "subscribe", uri) for uri in uris]
        if self._source.random() < 0.5:
            first.append(Settle())
        return (*first, *(self._step() for _ in range(self._source.choice((10, 25, 50)))))

    def _step(self) -> Step:
        draw = self._source.random()
        if draw < 0.35:
            return self._write()
        if draw < 0.7:
            return self._act()
        if draw < 0.76:
            return Settle()
        if draw < 0.88:
            return Wait(self._source.choice((1, 20, 100, 400)))
        if draw < 0.92:
            return Kill(
                self._source.randrange(self._replicas),
                self._source.choice((0, 300)),
                is_asked=self._source.random() < 0.3,
            )
        ms = self._source.choice((50, 400, 1500))
        how = self._source.choice(("stop", "end", "flush", "disconnect", "cut", "stall", "slow"))
        return Fail(how, ms, self._source.randrange(self._replicas))

    def _act(self) -> Act:
        client = self._source.randrange(self._clients)
        what = self._source.choice(_OFTEN)
        has_uri = what in ("subscribe", "unsubscribe")
        return Act(client, what, self._source.choice(self._uris) if has_uri else "")

    def _write(self) -> Write:
        choice = self._source.choice
        return choice(
            (
                *(Write("put", choice((*FILES_AT_FIRST, *FILES_LATER))),) * 4,
                *(Write("row", choice((*ROWS_AT_FIRST, 7))),) * 4,
                Write("remove", choice(FILES_AT_FIRST)),
                Write("delete", choice(ROWS_AT_FIRST)),
            )
        )


@st.composite
def _fleets(draw: st.DrawFn) -> Fleet:
    """Draw a seed and roll the rest; hypothesis makes a case smaller by leaving out steps."""
    source = random.Random(draw(st.binary(min_size=8, max_size=8)))  # noqa: S311
    shapes = [each for each in _SHAPES if each[0] in engines.listening()]
    engine, skews, workers = source.choice(shapes)
    revisions = tuple(source.choice((*EVERY, "2025-11-25")) for _ in range(3))
    steps = _Dice(source, engine, len(revisions), len(skews)).steps()
    case = Fleet(
        engine, revisions, skews, source.randrange(1000), (), source.random() < 0.2, workers
    )
    return replace(case, steps=tuple(step for step in steps if draw(st.integers(0, 30))))


# -- sabotages


def _ignored(*_: object) -> None:
    pass


def _forget_subscriptions(patch: pytest.MonkeyPatch) -> None:
    """Record no subscription."""

    async def subscribe(*_: object, **__: object) -> None:
        pass

    patch.setattr(FleetStore, "subscribe", subscribe)


def _hear_nothing(patch: pytest.MonkeyPatch) -> None:
    """Lose all messages of the other servers, and compare nothing now and then."""

    patch.setattr(SharedSessions, "_changed", _ignored)
    patch.setattr(SharedSessions, "_sync_all", _ignored)


def _resume_in_silence(patch: pytest.MonkeyPatch) -> None:
    """Notify of nothing when a stream comes from another server."""
    open_stream = SharedSession.open_stream

    async def silent(self: SharedSession, *, is_resumed: bool) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Subscriptions, "updated", _ignored)
            await open_stream(self, is_resumed=is_resumed)

    patch.setattr(SharedSession, "open_stream", silent)


def _ignore_ends(patch: pytest.MonkeyPatch) -> None:
    """Take sessions that have ended at another server for alive."""
    load = FleetStore.load

    async def lenient(self: FleetStore, session: bytes) -> SharedState | None:
        state = await load(self, session)
        if state is None or not state.is_ended:
            return state
        return SharedState("0", 0, False, None)

    patch.setattr(FleetStore, "load", lenient)


def _keep_ids(patch: pytest.MonkeyPatch) -> None:
    """Keep the ids of sessions in the store."""
    begin = SharedSession.begin

    async def telling(self: SharedSession) -> None:
        await begin(self)
        store = self._fleet.store  # pyright: ignore[reportPrivateUsage]
        await store.subscribe(self.key, [self.session.id])

    patch.setattr(SharedSession, "begin", telling)


SABOTAGES = Sabotages(
    __name__,
    "SABOTAGES",
    {
        "subscription-forgotten": _forget_subscriptions,
        "nothing-heard": _hear_nothing,
        "resumed-in-silence": _resume_in_silence,
        "end-ignored": _ignore_ends,
        "id-kept": _keep_ids,
    },
)

_LEAVES = st.builds(
    Fleet,
    engine=st.just("sqlite-wal"),
    revisions=st.just(("2025-11-25",) * 3),
    skews=st.just((0, 0)),
    dice=st.integers(0, 999),
    steps=st.just(tuple(Act(client, "leave", "") for client in range(3))),
    is_store_away=st.just(False),
)
"""Sessions that end without a fault meanwhile: else they may live on."""

PROPERTY = Property(
    name="fleet",
    cases=_fleets(),
    check=check,
    end=_end,
    weight=5,
    sabotages={name: partial(SABOTAGES.in_force, name) for name in SABOTAGES.patches},
    sabotaged={"end-ignored": _LEAVES},
)
