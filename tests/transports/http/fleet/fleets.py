"""Several servers that share sessions by a Redis of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.ports import free_port
from tests.transports.http.fleet.store_wire import StoreWire
from tests.transports.program import Program, Session, running
from tests.waiting import PATIENCE_S, block_until

SECRET = "one secret of every server of this fleet"  # noqa: S105
TIMES = {"fleet_sync_s": 1.0, "fleet_save_s": 0.1, "fleet_retry_max_s": 0.5}


class Redis:
    """A Redis that tests may stop, slow down and empty."""

    def __init__(self, place: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._place = place
        self._options = options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._place), *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        block_until(self.answers)

    def stop(self) -> None:
        """Kill it, without a word to its clients."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, *command: str | bytes) -> Any:
        """Send one command; its result is bytes, a number or a list."""
        with redis.Redis(port=self.port) as client:  # pyright: ignore[reportUnknownMemberType]
            return cast("Any", client).execute_command(*command)

    def answers(self) -> bool:
        """Return whether it takes commands."""
        try:
            return bool(self.ask("PING"))
        except redis.ConnectionError:
            return False

    def names(self) -> Sequence[str]:
        """Return the keys of all sessions."""
        return [each.decode() for each in self.ask("KEYS", "*")]


@contextlib.contextmanager
def redis_server(place: Path, *options: str) -> Generator[Redis]:
    """Run a Redis on a free port."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    store = Redis(place, *options)
    store.start()
    try:
        yield store
    finally:
        store.stop()


@contextlib.contextmanager
def stalling(store: Redis) -> Generator[tuple[str, Callable[[bool], None]]]:
    """Return a URL of a store, and what lets its wire stall, or flow again."""
    with _wired(store) as (url, wire, run):

        async def stall(is_stalled: bool) -> None:
            wire.fail("stall") if is_stalled else wire.heal()

        yield url, lambda is_stalled: run(stall(is_stalled))


@contextlib.contextmanager
def switching(store: Redis) -> Generator[tuple[str, Callable[[Redis], None]]]:
    """Return a URL of a store, and what gives its address to another one."""
    with _wired(store) as (url, wire, run):

        async def switch(other: Redis) -> None:
            wire.lead_to(other.port)

        yield url, lambda other: run(switch(other))


@contextlib.contextmanager
def _wired(
    store: Redis,
) -> Generator[tuple[str, StoreWire, Callable[[Coroutine[Any, Any, None]], None]]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)

    wire = StoreWire(store.port)
    run(wire.open())
    try:
        yield f"redis://127.0.0.1:{wire.port}/0", wire, run
    finally:
        run(wire.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def server(
    place: Path,
    url: str,
    *,
    key: str = SECRET,
    more: str = "",
    access: str | None = None,
    http: str = "",
    timing: Mapping[str, float] | None = None,
) -> Generator[Program]:
    """Run one server of a fleet; all of one `place` serve the same folder."""
    (place / "project").mkdir(exist_ok=True)
    manifest = place / "mcp-resources.yaml"
    rule = "" if access is None else f", access: {access}"
    manifest.write_text(
        f"server: {{key: {json.dumps(key)}}}\n"
        f"roots: {{project: {{path: project{rule}}}}}\n{more}"
        f"http: {{fleet: {{url: {json.dumps(url)}}}{http}}}\n"
    )
    with running(manifest, timing={**TIMES, **(timing or {})}) as program:
        yield program


@contextlib.contextmanager
def fleet(
    place: Path, store: Redis, count: int = 2, *, url: str | None = None, **options: Any
) -> Generator[Sequence[Program]]:
    """Run several servers of one fleet."""
    with contextlib.ExitStack() as stack:
        url = url or store.url
        yield [stack.enter_context(server(place, url, **options)) for _ in range(count)]


def at(program: Program, session: Session) -> Session:
    """Return the session as a client has it whose requests reach another server."""
    return Session(program, session.id, session.revision)
