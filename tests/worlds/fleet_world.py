"""Servers of one fleet in processes of their own, their store, its wires, and what is served."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from resource_server.protocol.server import Server
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests.providers.database.owners import Owner, owner_of
from tests.transports.http.fleet.fleets import SECRET, Redis
from tests.transports.http.fleet.store_wire import StoreWire
from tests.transports.http.workers.crews import TIMES, workers
from tests.transports.program import Program, running
from tests.waiting import pause, until
from tests.worlds.engines import Engine, Urls
from tests.worlds.harness import Tally, Violation
from tests.worlds.http_client import Client, Response
from tests.worlds.http_grammar import Request
from tests.worlds.live_world import FILES, ROWS, TIMING
from tests.worlds.messages import check_log
from tests.worlds.process_patches import Sabotages

TOKEN = "annas-token-of-letters"  # noqa: S105
CONTENT = "contents of a document"
DEADLINE_S = 30.0
"""A request that takes longer hangs: a server waits for its store for a second or two."""
_PERSON = Path(__file__).parents[1] / "person.py"
_BUDGETS = ("key_completion_s", "row_count_s", "search_convert_s", "search_s", "suggest_s")
"""Times after which a server answers with what it has found."""
_TIMES = {
    **msgspec.structs.asdict(TIMING),
    **TIMES,
    **dict.fromkeys(_BUDGETS, DEADLINE_S / 2),
    "fleet_call_s": 2.0,
    "fleet_pause_s": 0.3,
    "fleet_ping_s": 0.5,
    "fleet_retry_max_s": 0.3,
    "fleet_save_s": 0.1,
    "fleet_sync_s": 0.7,
    "http_drain_s": 0.2,
    "shutdown_timeout_s": 2.0,
}
_CALM_S = 5.0
"""Time after the last fault within which servers find their store again."""
_SKEW = "import time\n_now = time.time\ntime.time = lambda: _now() + {}\n"
ROWS_AT_FIRST = range(5)
FILES_AT_FIRST = ("a.txt", "b.txt", "c.txt", "d/e.txt")
FILES_LATER = ("f.txt", "g.txt", "d/h.txt")


class Replica:
    """One server of the fleet, which may be killed and started again."""

    def __init__(
        self, manifest: Path, wire: StoreWire, skew_s: int, patches: str, workers: int
    ) -> None:
        self.wire = wire
        self.workers = workers
        """How many processes it has, each a server of the fleet."""
        self.ends = 0
        """How often it has ended."""
        self.program: Program | None = None
        """None while it does not run."""
        self._manifest = manifest
        self._code = patches + (_SKEW.format(skew_s) if skew_s else "")
        self._stack = ExitStack()

    async def start(self) -> None:
        """Run it, until it takes requests."""
        url = f"redis://127.0.0.1:{self.wire.port}/0"
        options = ("--workers", str(self.workers)) if self.workers > 1 else ()
        started = running(
            self._manifest, *options, timing=_TIMES, code=self._code, env={"FLEET_URL": url}
        )
        self.program = await asyncio.to_thread(self._stack.enter_context, started)

    async def end_worker(self, dice: random.Random) -> None:
        """Kill one of its workers, and wait until another takes its place."""
        before = self._workers()
        killed = dice.choice(sorted(before))
        os.kill(killed, signal.SIGKILL)
        self.ends += 1
        await until(lambda: len(found := self._workers()) == len(before) and killed not in found)
        self.ends += 1

    @property
    def is_ending(self) -> bool:
        """Whether it may refuse a request as temporary: it ends, or a worker of it."""
        return self.program is None or self.workers > 1

    def _workers(self) -> set[int]:
        assert self.program is not None
        return workers(self.program)

    async def end(self, number: signal.Signals) -> None:
        """End it by a signal.

        Raises:
            Violation: it has logged errors, or does not end.
        """
        program, self.program = self.program, None
        if program is None:
            return
        self.ends += 1
        try:
            await asyncio.to_thread(program.end, number)
        except TimeoutError:
            raise Violation(f"a server does not end by {number.name}") from None
        finally:
            await asyncio.to_thread(self._stack.close)
        check_log("".join(program.errors))


class FleetWorld:
    """A fleet, whose requests a balancer gives to any server, each by itself."""

    def __init__(self, place: Path, engine: Engine, urls: Urls) -> None:
        self.place = place
        self.engine = engine
        self.urls = urls
        self.dice = random.Random()  # noqa: S311
        self.store = Redis(place)
        self.replicas: list[Replica] = []
        self.losses = 0
        """Rises before and after the store loses everything."""
        self.secrets = set[str]()
        """What must never be in the store."""
        self.tally = Tally()
        self.owner: Owner
        self._faults = 0
        self._calm_since = time.monotonic()
        self._healing: list[asyncio.Task[None]] = []
        self._is_store_away = False
        self._numbers = 0
        self._gone = set[str]()
        self.manifest = place / "mcp-resources.yaml"
        self.manifest.write_text(json.dumps(self._manifest()))  # JSON is YAML
        (place / "files" / "d").mkdir(parents=True)

    def _manifest(self) -> dict[str, Any]:
        last = "select max(x) as latest, count(*) as number from t"
        rows = {"url": self.urls.server, "uri": ROWS, "interval": "20ms"}
        return {
            "version": 1,
            "server": {"key": SECRET, "page_size": 5},
            "roots": {"files": {"path": "files", "uri": FILES}},
            "databases": {"rows": {**rows, "queries": {"latest": {"sql": last}}}},
            "providers": {"person": {"use": str(_PERSON), "uri": "person://person/"}},
            "prompts": {
                "ask": {
                    "arguments": {"uri": {"required": True}},
                    "messages": [{"role": "user", "text": "About {uri}"}],
                }
            },
            "http": {
                "fleet": {"url": "${FLEET_URL:-redis://127.0.0.1:1/0}"},
                "auth": {"tokens": [{"token": TOKEN, "subject": "anna"}]},
            },
        }

    @asynccontextmanager
    async def single(self) -> AsyncGenerator[Server]:
        """Run one server in this process, of the same manifest, without a fleet."""
        manifest = server_builder.load_manifest(str(self.manifest), allow_plugins=True)
        building = server_builder.build_server(
            manifest, allow_plugins=True, timing=Timing(**_TIMES)
        )
        async with building as server:
            yield server

    async def open(
        self, stack: AsyncExitStack, skews: Sequence[int], patches: Sabotages, workers: int
    ) -> None:
        """Start the store, and a server for each skew of a clock, in seconds."""
        self.owner = await stack.enter_async_context(owner_of(self.urls.owner))
        await self.owner.run(
            *self.engine.preparation, "create table t (id integer primary key, x integer)"
        )
        stack.callback(self.store.stop)
        await asyncio.to_thread(self.store.start)
        for skew_s in skews:
            wire = StoreWire(self.store.port)
            await wire.open()
            stack.push_async_callback(wire.close)
            self.replicas.append(Replica(self.manifest, wire, skew_s, patches.code, workers))
            stack.push_async_callback(self.replicas[-1].end, signal.SIGKILL)
        stack.push_async_callback(self.stop_healing)
        await asyncio.gather(*(each.start() for each in self.replicas))

    async def begin(self, dice: random.Random, tally: Tally) -> None:
        """Have everything as at first, for another case."""
        self.dice, self.tally = dice, tally
        self.secrets = {TOKEN, CONTENT, "anna"}
        self._gone.clear()
        for path in (self.place / "files").rglob("*.txt"):
            path.unlink()
        for name in FILES_AT_FIRST:
            self.put(name)
        await self.owner.run("delete from t")
        await self.owner.insert("t", *((key, self.number()) for key in ROWS_AT_FIRST))
        await asyncio.to_thread(self.store.ask, "FLUSHALL")

    @property
    def ends(self) -> int:
        """How often servers have ended."""
        return sum(each.ends for each in self.replicas)

    # -- requests

    async def any_replica(self) -> Replica:
        """Return a server that runs, as a balancer chooses it."""
        while True:
            if alive := [each for each in self.replicas if each.program is not None]:
                return self.dice.choice(alive)
            await until(lambda: any(each.program is not None for each in self.replicas))

    async def ask(self, request: Request, only: Replica | None = None) -> Response:
        """Return the response of any server, or of one; of another if it ends meanwhile.

        Raises:
            Violation: there is none in time, or it tells of an error of the server's own.
        """
        deadline = time.monotonic() + DEADLINE_S
        while True:
            replica = only or await self.any_replica()
            ends, program = replica.ends, replica.program
            assert program is not None
            try:
                response = await Client(program.port, DEADLINE_S).ask(request)
            except (Violation, OSError, asyncio.IncompleteReadError) as error:
                if replica.ends == ends:
                    raise Violation(f"{request!r} has no response: {error!r}") from None
                continue
            if response.status == 503 and replica.ends != ends:
                continue  # it shuts down
            is_temporary = response.status == 503 and b"try again" in response.body
            if is_temporary and replica.workers > 1 and time.monotonic() < deadline:
                self.tally.count("refusals")
                await pause(0.1)
                continue  # its worker has ended
            if response.status >= 500 or b'"code":-32603' in response.body:
                raise Violation(f"{request!r} was answered by {response!r}")
            self.tally.count("requests")
            return response

    # -- what is served

    def number(self) -> int:
        """Return a number that was never written before: no state of a resource returns."""
        self._numbers += 1
        return self._numbers

    def put(self, name: str) -> None:
        """Write a file, unless it was removed."""
        path = self.place / "files" / name
        if name not in self._gone:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.tmp")
            beside.write_text(f"{CONTENT} {self.number()}\n")
            beside.replace(path)

    def remove(self, name: str) -> None:
        """Remove a file for good."""
        if name in FILES_AT_FIRST and name not in self._gone:
            self._gone.add(name)
            (self.place / "files" / name).unlink()

    async def write_row(self, key: int) -> None:
        """Write a row, unless it was deleted."""
        if f"row {key}" in self._gone:
            return
        if key in ROWS_AT_FIRST:
            await self.owner.run(f"update t set x = {self.number()} where id = {key}")  # noqa: S608
            return
        value = self.number()
        await self.owner.run(
            f"insert into t values ({key}, {value}) on conflict (id) do update set x = {value}"  # noqa: S608
        )

    async def delete_row(self, key: int) -> None:
        """Delete a row for good."""
        if key and key in ROWS_AT_FIRST and f"row {key}" not in self._gone:
            self._gone.add(f"row {key}")
            await self.owner.run(
                "begin",
                f"delete from t where id = {key}",  # noqa: S608
                f"update t set x = {self.number()} where id = 0",  # noqa: S608
                "commit",
            )

    async def change_everything(self) -> None:
        """Change every resource that exists."""
        for name in (*FILES_AT_FIRST, *FILES_LATER):
            if (self.place / "files" / name).exists():
                self.put(name)
        for key in ROWS_AT_FIRST:
            await self.write_row(key)

    # -- faults

    @property
    def is_calm(self) -> bool:
        """Whether no fault of the store is an excuse for a refusal."""
        return not self._faults and time.monotonic() - self._calm_since > _CALM_S

    async def kill(self, replica: Replica, number: signal.Signals, down_ms: int) -> None:
        """End a server, if another runs, and start it again after a time."""
        if replica.workers > 1 and replica.program is not None:
            self.tally.count("kills")
            await replica.end_worker(self.dice)
            return
        others = [each for each in self.replicas if each is not replica and each.program]
        if not others or replica.program is None:
            return
        self.tally.count("kills")
        await replica.end(number)
        self._heal(down_ms, replica.start(), is_of_store=False)

    def fail_wire(self, replica: Replica, how: Any, ms: int) -> None:
        """Let the wire of one server fail for a time."""
        self.tally.count("partitions")

        async def heal() -> None:
            replica.wire.heal()

        replica.wire.fail(how)
        self._heal(ms, heal())

    async def fail_store(self, how: str, ms: int) -> None:
        """Let the store fail for a time: stop, or end and lose everything."""
        process = self.store.process
        if self._is_store_away or process is None:
            return
        self.tally.count("faults of the store")
        self._calm_since = time.monotonic()

        async def come_back() -> None:
            if how == "stop":
                process.send_signal(signal.SIGCONT)
            else:
                await asyncio.to_thread(self.store.start)
            self._is_store_away = False

        if how == "stop":
            process.send_signal(signal.SIGSTOP)
        elif how == "end":
            self.losses += 1
            await asyncio.to_thread(self.store.stop)
            self.losses += 1
        elif how == "flush":
            self.losses += 1
            await asyncio.to_thread(self.store.ask, "FLUSHALL")
            self.losses += 1
        else:
            for kind in ("normal", "pubsub"):
                with suppress(Exception):  # it ends the one that asks, too
                    await asyncio.to_thread(self.store.ask, "CLIENT", "KILL", "TYPE", kind)
        if how in ("stop", "end"):
            self._is_store_away = True
            self._heal(ms, come_back())
        else:
            self._calm_since = time.monotonic()

    @asynccontextmanager
    async def without_store(self) -> AsyncGenerator[None]:
        """Have no store."""
        await asyncio.to_thread(self.store.stop)
        yield
        await asyncio.to_thread(self.store.start)
        self._calm_since = time.monotonic()

    def _heal(
        self, ms: int, healing: Coroutine[Any, Any, object], *, is_of_store: bool = True
    ) -> None:
        self._faults += is_of_store

        async def heal() -> None:
            try:
                await pause(ms / 1000)
            except asyncio.CancelledError:
                healing.close()
                raise
            await healing
            if is_of_store:
                self._faults -= 1
                self._calm_since = time.monotonic()

        self._healing.append(asyncio.create_task(heal()))

    async def healed(self) -> None:
        """Wait until every fault is over."""
        await asyncio.gather(*self._healing)
        self._healing.clear()

    async def stop_healing(self) -> None:
        """Leave everything as it is."""
        for task in self._healing:
            task.cancel()
        await asyncio.gather(*self._healing, return_exceptions=True)

    # -- the store

    def leaks(self) -> list[str]:
        """Return what the store holds that it must not."""
        reads = {b"set": ("SMEMBERS",), b"hash": ("HGETALL",), b"string": ("GET",)}
        ranges = {b"zset": ("ZRANGE",), b"list": ("LRANGE",)}
        found: list[str] = []
        for name in self.store.names():
            kind = self.store.ask("TYPE", name)
            if kind == b"none":
                continue  # it has just expired
            if kind in reads:
                held = self.store.ask(*reads[kind], name)
            else:
                held = self.store.ask(*ranges[kind], name, "0", "-1")
            text = f"{name}: {held!r}"
            if self.store.ask("TTL", name) < 0 and self.store.ask("EXISTS", name):
                found.append(f"the store keeps for ever {text}")
            found += [
                f"the store holds {each!r} in {text}" for each in self.secrets if each in text
            ]
        return found
