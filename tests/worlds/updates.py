"""Every update: at rest, no subscriber holds an old version.

Applications write a folder, a database and a plugin's notes while clients subscribe, watches are
interrupted and the manifest is reloaded. A client reads what it is notified of, and only that. Once
notifications have ended, what it has read last is what a fresh read returns.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from resource_server.provider import Change
from resource_server.providers.database.change_detection import ChangeDetector
from resource_server.serving import server_builder
from resource_server.serving.reload import ReloadingServer
from resource_server.subscriptions.broker import Broker
from resource_server.subscriptions.topic import Topic
from resource_server.subscriptions.watch_runner import EVERYTHING
from tests.providers.database.owners import owner_of
from tests.providers.database.writer import TABLES, WORDS
from tests.waiting import steady
from tests.worlds import engines, logs
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.histories import (
    CLIENTS,
    WRITERS,
    History,
    HistoryDice,
    Interrupt,
    Reload,
    Subscribe,
    Wait,
    Write,
)
from tests.worlds.live_world import PATIENCE_S, ROWS, TIMING, Client, World, Writer

_QUIET_S = 0.2


async def check(case: History, tally: Tally) -> None:
    """Let everything happen; then compare what clients hold with what is there."""
    if case.engine not in engines.listening():
        return
    engine = engines.ENGINES[case.engine]
    async with AsyncExitStack() as stack:
        stack.enter_context(logs.no_errors())
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = await stack.enter_async_context(engine.database(place))
        owner = await stack.enter_async_context(owner_of(urls.owner))
        await owner.run(*engine.preparation, *TABLES)
        await owner.insert("t", *((key, key, 0) for key in range(3)))
        await owner.insert("pairs", (0, 0, 0), (1, 2, 0))
        await owner.insert("words", *((word, 0) for word in WORDS))
        world = World(place, engine, urls)
        for _ in range(WRITERS):
            one = await stack.enter_async_context(owner_of(urls.owner))
            await one.run(*engine.impatience)
            world.writers.append(Writer(one))
        reloading = ReloadingServer(str(world.manifest), allow_plugins=True, timing=TIMING)
        server = await stack.enter_async_context(reloading)
        for _ in range(CLIENTS):
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
            missed = await _missed_at_rest(world)
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


async def _missed_at_rest(world: World) -> list[str]:
    missed: list[str] = []
    until = time.monotonic() + PATIENCE_S
    manifest = server_builder.load_manifest(str(world.manifest), allow_plugins=True)
    async with server_builder.build_server(manifest, allow_plugins=True, timing=TIMING) as other:
        reader = Client(other)
        async with reader.local:
            while True:
                await _quiet(world.clients)
                missed = [each for one in world.clients for each in await one.missed(reader)]
                if not missed or time.monotonic() > until:
                    return missed


async def _quiet(clients: Sequence[Client]) -> None:
    await steady(lambda: sum(client.events for client in clients), _QUIET_S)


@st.composite
def _histories(draw: st.DrawFn) -> History:
    """Draw a seed and roll the rest; hypothesis makes a history smaller by leaving out steps."""
    engine = engines.ENGINES[draw(st.sampled_from(engines.listening()))]
    source = random.Random(draw(st.binary(min_size=8, max_size=8)))  # noqa: S311
    steps = HistoryDice(source, engine).steps()
    return History(engine.name, tuple(step for step in steps if draw(st.integers(0, 30))))


# -- sabotages


@contextmanager
def _patched(owner: object, name: str, by: Callable[..., Any]) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, by)
        yield


def _an_event_dropped() -> Any:
    """Let the broker drop every second change."""
    changed = Broker._changed  # pyright: ignore[reportPrivateUsage]
    count = 0

    def drop(broker: Broker, mount: Any, change: Change) -> None:
        nonlocal count
        count += 1
        if change is EVERYTHING or count % 2:
            changed(broker, mount, change)

    return _patched(Broker, "_changed", drop)


def _a_commit_unnoticed() -> Any:
    """Let change detection ignore every second commit."""
    committed = ChangeDetector._committed  # pyright: ignore[reportPrivateUsage]
    count = 0

    async def ignore(detector: ChangeDetector, paths: Any) -> AsyncGenerator[Change]:
        nonlocal count
        count += 1
        if count % 2:
            async for change in committed(detector, paths):
                yield change

    return _patched(ChangeDetector, "_committed", ignore)


def _a_subscription_lost_at_reload() -> Any:
    """Let the reloaded catalog forget where topics lead."""
    connect = Broker._connect  # pyright: ignore[reportPrivateUsage]

    def forget(broker: Broker, topic: Topic) -> bool:
        return topic.runner is None and not topic.listeners and connect(broker, topic)

    return _patched(Broker, "_connect", forget)


_LISTING_BEFORE_WATCH = History("sqlite-wal", (Write(0, ("drop table t",)),))
_READ_WHILE_INTERRUPTED = History(
    "postgresql",
    (
        Subscribe(1, f"{ROWS}public/t/1"),
        Subscribe(1, f"{ROWS}public/few"),
        Write(1, ("begin", "update t set x = 0 where id = 3", "commit")),
        Interrupt("rows"),
    ),
)
_LISTING_WHILE_INTERRUPTED = History(
    "mariadb", (Write(0, ("drop table t", "drop table pairs")), Interrupt("rows"))
)
_NEW_INDEX = History(
    "sqlite-delete",
    (Subscribe(0, f"{ROWS}t"), Wait(600), Write(0, ("create index by_x on t (x)",))),
)
_DEFINITION_HIDDEN_BY_RELOAD = History(
    "sqlite-wal", (Subscribe(1, f"{ROWS}few"), Wait(600), Reload(frozenset({"no-t"})))
)
_QUERY_WITHOUT_ITS_TABLE = History(
    "sqlite-wal",
    (Subscribe(0, f"{ROWS}~query/sums"), Wait(600), Write(0, ("drop table t",))),
)

PROPERTY = Property(
    name="updates",
    cases=_histories(),
    check=check,
    kept=(
        _LISTING_BEFORE_WATCH,
        _READ_WHILE_INTERRUPTED,
        _LISTING_WHILE_INTERRUPTED,
        _NEW_INDEX,
        _DEFINITION_HIDDEN_BY_RELOAD,
        _QUERY_WITHOUT_ITS_TABLE,
    ),
    sabotages={
        "event-dropped": _an_event_dropped,
        "commit-unnoticed": _a_commit_unnoticed,
        "subscription-lost-at-reload": _a_subscription_lost_at_reload,
    },
)
