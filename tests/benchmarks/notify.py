"""From a write to the line that tells of it; what watching costs; and what is never told.

The peer is watchfiles, as it comes and with times that are as short as it stays calm with.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from resource_server.cli import runner
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime import inotify
from resource_server.subscriptions.interest import MountInterest
from tests.benchmarks import losses, servers
from tests.benchmarks.listing import make_tree
from tests.benchmarks.table import interleaved, limit, show
from tests.benchmarks.witness import Printer, Subscriber, Witness, until_it_watches

HANDSHAKE = "handshake revision"
MODERN = "2026-07-28"
OURS = (HANDSHAKE, MODERN)
WATCHFILES = servers.WATCHFILES
IDLE = "nothing at all"
WATCHFILES_10 = "watchfiles, step 10"
PAUSE_S = 0.02
"""Between writes to two folders; they take turns, so those to one are 60 ms apart at least."""
APART_S = 0.06
LIST_APART_S = 0.3
WITHIN_S = 10.0
WARM_UP = 5
FILES_IN_DIRECTORY = 100
HEARTBEAT_S = 0.001
LOOK_S = 0.005
IDLE_S = 0.5

Watched: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
Measure: TypeAlias = Callable[[Watched], Coroutine[Any, Any, float]]


def run(*, quick: bool) -> None:
    """Print latencies, the cost of watching, and how many changes were lost."""
    with tempfile.TemporaryDirectory() as scratch:
        _latencies(Path(scratch) / "latency", 60 if quick else 500)
        _set_up(Path(scratch) / "modules", 10_000 if quick else 100_000, 3 if quick else 7)
        _many(Path(scratch) / "many", 1_000 if quick else 10_000, quick=quick)
        losses.show(Path(scratch) / "losses", quick=quick)


# -- one write, one line


def _latencies(scratch: Path, rounds: int) -> None:
    makes: Mapping[str, Callable[[Path], Witness]] = {
        HANDSHAKE: partial(Subscriber, modern=False),
        MODERN: partial(Subscriber, modern=True),
        servers.BARE_INOTIFY: partial(Printer, servers.bare_inotify),
        WATCHFILES: partial(Printer, servers.watchfiles),
        WATCHFILES_10: partial(Printer, partial(servers.watchfiles, step_ms=10, debounce_ms=50)),
    }
    watches: dict[str, tuple[Stopwatch, Path]] = {}
    with ExitStack() as stack:
        for number, (name, make) in enumerate(makes.items()):
            folder = scratch / f"project{number}"
            names = _files(folder, 1)
            witness = stack.enter_context(make(folder))
            until_it_watches(witness, folder)
            witness.subscribe(names)
            watches[name] = Stopwatch(witness), folder
        for count in range(WARM_UP + rounds):
            for watch, folder in watches.values():
                changed = f"d000/file_{count % FILES_IN_DIRECTORY:02}.txt"
                watch.time(changed, partial(_write, folder / changed, count))
                time.sleep(PAUSE_S)
        watch, folder = watches[HANDSHAKE]
        listed = Stopwatch(watch.witness)
        for count in range(WARM_UP + rounds // 10):
            time.sleep(LIST_APART_S)
            listed.time(None, (folder / f"new_{count}.txt").touch)
    stopwatches = {name: watch for name, (watch, _) in watches.items()}
    _show("write to a watched file -> its line", stopwatches)
    print("\nfile made -> list_changed, which waits 50 ms for what else comes")
    limit("p50", listed.percentile(50), None, "ms")
    limit("p99", listed.percentile(99), None, "ms")


class Stopwatch:
    """Times one change after the other; the first few count for nothing."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.times: list[float] = []
        """Milliseconds from just before a change to the end of the line that tells of it."""
        self.repeated = 0
        """Events that told of something once more."""

    def time(self, name: str | None, change: Callable[[], object]) -> None:
        """Change a file, or with None the list, and wait until that is told."""
        while self.witness.event(0):
            self.repeated += 1
        begin = time.perf_counter()
        change()
        event = self.witness.event(WITHIN_S)
        assert event is not None, f"nothing told of {name}"
        assert event.name == name, f"told of {event.name}, not of {name}"
        self.times.append((event.at - begin) * 1_000)

    def percentile(self, percent: int) -> float:
        """Return what so many percent of the times are below."""
        counted = sorted(self.times[WARM_UP:])
        return counted[len(counted) * percent // 100]


def _files(folder: Path, directories: int) -> list[str]:
    """Make a folder of directories of 100 files; return the names of these."""
    names = [
        f"d{directory:03}/file_{number:02}.txt"
        for directory in range(directories)
        for number in range(FILES_IN_DIRECTORY)
    ]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / name, 0)
    return names


def _write(path: Path, number: int) -> None:
    path.write_text(f"version {number}\n", "utf-8")


def _show(title: str, watches: Mapping[str, Stopwatch]) -> None:
    """Print the medians and the 99th percentiles, and judge ours."""
    for percent, most in ((50, 2), (99, 10)):
        found = {name: watch.percentile(percent) for name, watch in watches.items()}
        show(f"{title}, p{percent}", "ms", found, [])
        for name in OURS:
            if name in found:
                limit(name, found[name], most, "ms")
    repeated = sum(watch.repeated for name, watch in watches.items() if name in OURS)
    print(f"  of these, told more than once: {repeated}")


# -- a large tree


def _set_up(tree: Path, count: int, rounds: int) -> None:
    make_tree(tree, count)
    directories = 1 + sum(len(below) for _, below, _ in os.walk(tree))
    blocked: dict[str, list[float]] = {servers.OURS: [], WATCHFILES: [], IDLE: []}

    def measure(name: str, watched: Watched) -> Callable[[], float]:
        def once() -> float:
            blocked[name].append(_in_a_new_process(_beside_a_heart, watched))
            return _in_a_new_process(_timed, watched)

        return once

    measures = {
        servers.OURS: measure(servers.OURS, partial(_watched, tree, directories)),
        WATCHFILES: measure(WATCHFILES, partial(_watched_by_watchfiles, tree)),
        IDLE: measure(IDLE, _idle),
    }
    medians = interleaved(measures, rounds)
    del medians[IDLE]
    title = f"watch set-up, {count:,} files in {directories:,} directories"
    show(title, "ms", medians, [])
    limit(servers.OURS, medians[servers.OURS], 500, "ms")
    print("\nevent loop blocked at most, meanwhile")
    for name, longest in blocked.items():
        limit(name, median(longest), 5 if name == servers.OURS else None, "ms")


def _in_a_new_process(measure: Measure, watched: Watched) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_as_in_a_server, measure, watched).result()


def _as_in_a_server(measure: Measure, watched: Watched) -> float:
    # Its providers are made before; what is imported to watch is so meanwhile.
    runner.favour_the_loop()
    Filesystem(path=Path())
    return asyncio.run(measure(watched))


async def _timed(watched: Watched) -> float:
    """Return how many milliseconds it took, while nothing else was going on."""
    begin = time.perf_counter()
    async with watched():
        return (time.perf_counter() - begin) * 1_000


async def _beside_a_heart(watched: Watched) -> float:
    """Return for how many milliseconds the event loop was blocked at most."""
    longest = 0.0

    async def heart() -> None:
        nonlocal longest
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(HEARTBEAT_S)
            longest = max(longest, time.perf_counter() - begin - HEARTBEAT_S)

    beating = asyncio.create_task(heart())
    await asyncio.sleep(HEARTBEAT_S * 10)
    longest = 0.0
    async with watched():
        await asyncio.sleep(HEARTBEAT_S * 2)
        beating.cancel()
    return longest * 1_000


@asynccontextmanager
async def _watched(tree: Path, directories: int) -> AsyncGenerator[None]:
    """Follow the listing of a folder; begins when the kernel watches each of its directories."""
    interest = MountInterest()
    interest.listing = True
    shared = inotify.Inotify.shared()
    changes = Filesystem(path=tree).changes(interest)

    async def follow() -> None:
        async for change in changes:
            raise AssertionError(f"nothing has changed, and yet: {change}")

    following = asyncio.create_task(follow())
    watches = shared._entries  # pyright: ignore[reportPrivateUsage]
    while len(watches) < directories:
        if following.done():
            following.result()
        await asyncio.sleep(LOOK_S)
    yield
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    shared.release()


@asynccontextmanager
async def _idle() -> AsyncGenerator[None]:
    """Wait: what blocks the event loop now is the machine."""
    await asyncio.sleep(IDLE_S)
    yield


@asynccontextmanager
async def _watched_by_watchfiles(tree: Path) -> AsyncGenerator[None]:
    """Run watchfiles, at its fastest; begins when it tells of a file written all the time."""
    # Imported here: it brings what this server, whose turn it may be, would have to import.
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

    probe = tree / "probe.txt"
    events = awatch(tree, step=1, debounce=10)
    told = asyncio.ensure_future(anext(events))
    while not told.done():
        await asyncio.sleep(LOOK_S)
        probe.touch()
    await told
    yield
    await events.aclose()
    probe.unlink()


# -- many subscriptions


def _many(folder: Path, count: int, *, quick: bool) -> None:
    names = _files(folder, count // FILES_IN_DIRECTORY)
    with Subscriber(folder, modern=False) as client:
        until_it_watches(client, folder)
        begin = time.perf_counter()
        client.subscribe(names)
        elapsed = time.perf_counter() - begin
        watch = Stopwatch(client)
        for number in range(WARM_UP + (60 if quick else 300)):
            name = names[number * 7_919 % count]
            watch.time(name, partial(_write, folder / name, 1 + number))
            time.sleep(APART_S)
        title = f"{count:,} subscriptions, a write to one of the files -> its line"
        _show(title, {HANDSHAKE: watch})
        limit("subscribing to all, one after another", elapsed * 1_000, None, "ms")
        limit("resident memory then", client.resident_mb()[0], None, "MB")
        # Long enough for a sweep over all of them, which comes every 30 seconds.
        seconds = 5 if quick else 60
        share = client.idle_percent(seconds)
        limit(f"processor time, idle for {seconds} s", share, 0.5, "% of a core")
