"""From a commit in another process to the line that tells of it; and commits that nobody is told.

The clock starts when that process is told to commit, so the time it waits for its disk counts too.

Who reads a row when told of it, and never else, has missed a commit if the row is another than the
one read last, once no event has come for two seconds. That is asked whenever the writer rests, be
it after a single commit: what only the next one would have told is missed as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count, cycle
from pathlib import Path

from tests.benchmarks import orders, services
from tests.benchmarks.client import ROOT, Client
from tests.benchmarks.committer import Committer
from tests.benchmarks.notify import WARM_UP, Stopwatch
from tests.benchmarks.table import limit
from tests.benchmarks.witness import Subscriber

JOURNALS = {"wal": "write-ahead log", "delete": "rollback journal"}
INTERVALS_S = {"poll": 0.3, "notify": 0.025}
"""Goals of PostgreSQL at the 95th percentile, by how it is watched."""
ROWS = 10_000
WATCHED = 100
SHORTEST_PAUSE_S = 0.02
QUIET_S = 2.0
AT_MOST_S = 20.0
"""The sweep that would find everything comes after 30 seconds."""
STEP_S = 0.01
BURSTS = ((1, 0), (1, 0), (3, 25), (15, 5), (180, 0))
"""Commits between two rests, and how many milliseconds there are between them at most."""


class Watch:
    """Somebody who is told of some orders, and a process that changes them."""

    def __init__(
        self, subscriber: Subscriber, committer: Committer, base: str, number: int
    ) -> None:
        first = orders.FIRST + number * WATCHED
        self.turns = cycle(range(first, first + WATCHED))
        """Their keys, one after the other and again."""
        self.subscriber = subscriber
        self.events = 0
        self.missed = 0
        self._committer = committer
        self._base = base
        self._keys = {f"orders/{key}": key for key in range(first, first + WATCHED)}
        self._numbers = count()
        self._known: dict[int, float] = {}
        self._committed: dict[int, float] = {}
        subscriber.subscribe(list(self._keys))

    def commit(self, key: int, pause_ms: float = 0) -> None:
        """Have the total of an order changed, to one that none has had."""
        self._committed[key] = 100_000.0 + next(self._numbers)
        self._committer.commit(key, self._committed[key], pause_ms)

    def read_all(self) -> None:
        """Read each order: from now on only those that are told of."""
        self._known = {key: self._read(key) for key in self._keys.values()}
        self._committed = dict(self._known)

    def burst(self, size: int, most_ms: float) -> None:
        """Have so many commits made; when it is quiet, take note of those that are missed."""
        for number in range(size):
            self.commit(next(self.turns), most_ms * _scattered(number))
        self._committer.ask()
        while not self._committer.has_answered(0):
            self._take(STEP_S)
        until = time.perf_counter() + AT_MOST_S
        while self._known != self._committed and self._take(QUIET_S):
            assert time.perf_counter() < until, "events without end"
        missed = [key for key in self._known if self._known[key] != self._committed[key]]
        self._known.update((key, self._committed[key]) for key in missed)
        self.missed += len(missed)

    def _take(self, within: float) -> bool:
        """Read what the next event tells of; say if there was one in so many seconds."""
        event = self.subscriber.event(within)
        if event is None:
            return False
        if event.name is not None:
            self.events += 1
            key = self._keys[event.name]
            self._known[key] = self._read(key)
        return True

    def _read(self, key: int) -> float:
        until = time.perf_counter() + AT_MOST_S
        uri = f"{self._base}orders/{key}"
        answer = self.subscriber.answer("resources/read", uri=uri)
        # A rollback journal keeps readers out, and a writer who never rests may do so for long.
        while "error" in answer and answer["error"]["data"].get("retryable"):
            assert time.perf_counter() < until, "an order cannot be read"
            answer = self.subscriber.answer("resources/read", uri=uri)
        (content,) = answer["result"]["contents"]
        return json.loads(content["text"])["total"]


def show(scratch: Path, *, quick: bool) -> None:
    """Print latencies and how many commits were missed."""
    scratch.mkdir()
    _idle(scratch, 10 if quick else 60)
    _sqlite(scratch, 40 if quick else 200, 5 if quick else 50)
    with services.postgres() as url:
        if url is not None:
            _postgres(scratch, url, 10 if quick else 60)


def _idle(scratch: Path, seconds: int) -> None:
    """Print what a mount costs that nobody reads, writes or subscribes to."""
    url = f"sqlite:///{scratch}/idle.db"
    orders.make(url, ROWS)
    source = orders.manifest(scratch, url)
    with Client([sys.executable, "-m", "resource_server", "serve", str(source)]) as client:
        client.request("resources/list")
        time.sleep(QUIET_S)
        print("\nSQLite, without subscriptions")
        share = client.idle_percent(seconds)
        limit(f"processor time, idle for {seconds} s", share, 0.2, "% of a core")


def _sqlite(scratch: Path, rounds: int, repeats: int) -> None:
    with ExitStack() as stack:
        watches: dict[str, Watch] = {}
        for mode, journal in JOURNALS.items():
            url = f"sqlite:///{scratch}/{mode}.db"
            orders.make(url, ROWS)
            # As durable as SQLite is by itself: while a log is synchronized, its commit cannot be
            # seen yet, and who looks only then misses it.
            committer = stack.enter_context(Committer(url, f"PRAGMA journal_mode = {mode}"))
            subscriber = _subscriber(stack, scratch, url)
            watches[journal] = Watch(subscriber, committer, orders.base(url), 0)
        print("\nSQLite, commit in another process -> its line")
        times = _times(watches, rounds, spread_s=0.06)
        for journal, stopwatch in times.items():
            limit(f"{journal}, p50", stopwatch.percentile(50), 10, "ms")
            limit(f"{journal}, p95", stopwatch.percentile(95), 25, "ms")
        print("\nSQLite, commits missed, two seconds after the last event")
        print(f"  {'':<24}{'commits':>9}{'rests':>9}{'events':>9}{'missed':>9}  goal")
        for journal, watch in watches.items():
            watch.read_all()
            commits = rests = 0
            for _ in range(repeats):
                for size, most_ms in BURSTS:
                    watch.burst(size, most_ms)
                    commits += size
                    rests += 1
            numbers = "".join(f"{n:>9,}" for n in (commits, rests, watch.events, watch.missed))
            print(f"  {journal:<24}{numbers}  0 {'MISSED' if watch.missed else 'met'}")


def _postgres(scratch: Path, url: str, rounds: int) -> None:
    orders.make(url, ROWS)
    source = orders.manifest(scratch, url)
    sql = [sys.executable, "-m", "resource_server", "sql", "--notify", str(source)]
    triggers = subprocess.run(sql, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    orders.run(url, triggers)
    with ExitStack() as stack:
        committer = stack.enter_context(Committer(url))
        watches = {
            way: Watch(
                _subscriber(stack, scratch, url, watch=way), committer, orders.base(url), number
            )
            for number, way in enumerate(INTERVALS_S)
        }
        print("\nPostgreSQL, commit -> its line")
        for way, stopwatch in _times(watches, rounds, spread_s=0.25).items():
            limit(f"{way}, p50", stopwatch.percentile(50), None, "ms")
            limit(f"{way}, p95", stopwatch.percentile(95), INTERVALS_S[way] * 1_000, "ms")


def _subscriber(stack: ExitStack, scratch: Path, url: str, **options: object) -> Subscriber:
    source = orders.manifest(scratch, url, **options)
    return stack.enter_context(Subscriber(source, modern=False, base=orders.base(url)))


def _times(
    watches: Mapping[str, Watch], rounds: int, *, spread_s: float
) -> Mapping[str, Stopwatch]:
    """Time one commit after the other; the pauses between them keep no step with any interval."""
    times = {name: Stopwatch(watch.subscriber) for name, watch in watches.items()}
    for number in range(WARM_UP + rounds):
        for name, watch in watches.items():
            key = next(watch.turns)
            times[name].time(f"orders/{key}", partial(watch.commit, key))
            time.sleep(SHORTEST_PAUSE_S + spread_s * _scattered(number))
    return times


def _scattered(number: int) -> float:
    """Return a fraction that seems to have nothing to do with those of the numbers beside it."""
    return number * 7_919 % 1_000 / 1_000
