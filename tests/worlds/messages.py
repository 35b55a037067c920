"""Any message: whatever clients send, each request gets one response, and nothing accumulates.

Conversations of one client go to the engine in this process, or to a server process over stdio.
Connections with HTTP requests, and with bytes that are none, go to a server process over HTTP,
which serves all cases of a search, so that what accumulates shows.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import hmac
import itertools
import json
import os
import random
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import strategies as st

from resource_server.catalog.cursor import ListCursor
from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.server import Server
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests.protocol.wire import CLIENT
from tests.transports.program import running
from tests.waiting import until
from tests.worlds import grammar, http_grammar, logs
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.http_client import Client
from tests.worlds.http_grammar import Http, HttpDice
from tests.worlds.ledger import Ledger
from tests.worlds.process_patches import Sabotages

T = TypeVar("T")

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_PATIENCE_S = 20.0
_LEAK_S = 5.0
"""Time after which a task or a descriptor of an ended connection is a leak."""
_SHUFFLES = 8
_PROGRAM = "{}\nfrom resource_server.cli import main\nmain()"
TIMING = Timing(progress_interval_s=0.0, sweep_s=0.5)
_MANIFEST = {
    "version": 1,
    "roots": {"files": {"path": "files"}},
    "databases": {
        "shop": {
            "url": "sqlite:///shop.db",
            "queries": {
                "big": {
                    "sql": "select id, name from t where id >= :least",
                    "parameters": {"least": {"type": "integer", "default": 2}},
                }
            },
        }
    },
    "providers": {
        "probe": {"use": str(_HERE / "probe.py"), "uri": "probe://probe/"},
        "person": {"use": str(_HERE.parent / "person.py"), "uri": "person://person/"},
    },
    "prompts": {
        "ask": {
            "arguments": {"uri": {"required": True}, "query": {}},
            "messages": [{"role": "user", "text": "About {uri}: {query}"}],
        }
    },
    "http": {"limits": {"sessions": 50, "streams": 50, "session_idle": "2s"}},
}


@dataclass(frozen=True)
class Engine:
    """Clients of the engine in this process: the first sends the lines in their order.

    To generate a line costs as much as to answer ten, so others send them in other orders.
    """

    lines: tuple[bytes, ...]
    shuffles: int = 0


@dataclass(frozen=True)
class Stdio:
    """A client of a process of its own, over stdio, in writes of so many bytes."""

    lines: tuple[bytes, ...]
    write_bytes: int = 65536
    has_last_line_end: bool = True


@functools.cache
def place() -> Path:
    """Make the folder with the manifest that every case serves; return the manifest."""
    folder = tempfile.TemporaryDirectory(prefix="messages-")
    atexit.register(folder.cleanup)
    top = Path(folder.name)
    (top / "files" / "many").mkdir(parents=True)
    (top / "files" / "a.txt").write_text("one\ntwo\nthree\n")
    (top / "files" / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(2000))
    for number in range(120):
        (top / "files" / "many" / f"{number}.txt").write_text(f"number {number}\n")
    with sqlite3.connect(top / "shop.db") as shop:
        shop.execute("create table t (id integer primary key, name text)")
        shop.executemany("insert into t values (?, ?)", [(n, f"name {n}") for n in range(30)])
    shop.close()
    manifest = top / "mcp-resources.yaml"
    manifest.write_text(json.dumps(_MANIFEST))  # JSON is YAML
    return manifest


# -- the engine


async def _check_engine(case: Engine, tally: Tally) -> None:
    gc.freeze()  # what lives until now is no garbage of this case
    tasks, descriptors = len(asyncio.all_tasks()), _descriptors()
    with logs.no_errors():
        connections = await _converse(case, tally)
    gc.collect()
    for connection in connections:
        if connection() is not None:
            raise Violation(f"the connection lives on: {gc.get_referrers(connection())}")
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEAK_S):
            await until(lambda: len(asyncio.all_tasks()) <= tasks and _descriptors() <= descriptors)
        return
    raise Violation(f"{asyncio.all_tasks()}, {_descriptors() - descriptors} more descriptors")


async def _converse(case: Engine, tally: Tally) -> list[weakref.ref[ClientConnection]]:
    manifest = server_builder.load_manifest(str(place()), allow_plugins=True)
    async with server_builder.build_server(manifest, allow_plugins=True, timing=TIMING) as server:
        connections = [await _converse_once(server, case.lines, tally)]
        for number in range(case.shuffles):
            lines = random.Random(number).sample(case.lines, len(case.lines))  # noqa: S311
            connections.append(await _converse_once(server, lines, tally))
    return connections


async def _converse_once(
    server: Server, lines: Sequence[bytes], tally: Tally
) -> weakref.ref[ClientConnection]:
    ledger = Ledger()
    loop = asyncio.get_running_loop()

    def take(data: bytes) -> None:
        for question in ledger.receive(data):
            for answer in grammar.answers_to(question):
                loop.call_soon(send, answer)
        for line in ledger.continuations():
            ledger.send(line)
            loop.call_soon(send, line)

    def send(line: bytes) -> None:
        connection.receive(line, take, take)

    connection = ClientConnection(server, push=take)
    for line in map(bytes.strip, lines):  # as transports do
        if line:
            ledger.send(line)
            send(line)
            await asyncio.sleep(0)
    await _until_settled(ledger, connection)
    await connection.close()
    try:
        ledger.check()
    except Violation as violation:
        raise Violation(f"{violation}; sent: {lines!r}") from None
    if not connection.is_idle:
        raise Violation("requests are in flight after the end")
    tally.count("messages", ledger.sent)
    tally.count("responses", ledger.received)
    return weakref.ref(connection)


async def _until_settled(ledger: Ledger, connection: ClientConnection) -> None:
    with suppress(TimeoutError):
        await connection.drain(_PATIENCE_S)
        await until(lambda: ledger.is_settled and connection.is_idle)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


# -- stdio


async def _check_stdio(case: Stdio, tally: Tally) -> None:
    ledger = Ledger()
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM.format(SABOTAGES.code), "serve", str(place())),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=1 << 24,
        )
        reading = asyncio.create_task(_read(process, ledger))
        status = None
        try:
            async with asyncio.timeout(_PATIENCE_S * 2):
                await _write(process, case, ledger)
                status = await process.wait()
                await reading
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        log.seek(0)
        check_log(log.read().decode())
    ledger.check()
    if status != 0:
        raise Violation("it does not end" if status is None else f"it ended with {status}")
    tally.count("messages", ledger.sent)
    tally.count("responses", ledger.received)
    tally.count("processes")


async def _read(process: asyncio.subprocess.Process, ledger: Ledger) -> None:
    """Take what a server sends, and answer its requests."""
    assert process.stdin is not None
    assert process.stdout is not None
    while line := await process.stdout.readline():
        answers = [each for asked in ledger.receive(line) for each in grammar.answers_to(asked)]
        for more in () if process.stdin.is_closing() else ledger.continuations():
            ledger.send(more)
            answers.append(more)
        process.stdin.writelines(each + b"\n" for each in answers)


async def _write(process: asyncio.subprocess.Process, case: Stdio, ledger: Ledger) -> None:
    """Send everything; end the input once all is answered that can be before its end."""
    assert process.stdin is not None
    for line in map(bytes.strip, case.lines):
        if line:
            ledger.send(line)
    data = b"\n".join(case.lines) + (b"\n" if case.has_last_line_end else b"")
    for start in range(0, len(data), case.write_bytes):
        process.stdin.write(data[start : start + case.write_bytes])
        await process.stdin.drain()
    if case.has_last_line_end:
        await until(lambda: ledger.is_settled)
    process.stdin.close()


def check_log(text: str) -> None:
    """Raise `Violation` if a log tells of an error of the server's own."""
    for word in ("Traceback", "internal error", "a request failed", "Task "):
        if word in text:
            raise Violation(f"logged: {text}")


# -- HTTP


class _Served:
    """A server process over HTTP, for all cases until one violates the property."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        started = running(place(), timing=_HTTP_TIMES, code=SABOTAGES.code)
        self.program = self._stack.enter_context(started)
        self.cases = 0
        self._first: dict[str, int] = {}
        self._seen_errors = 0

    def end(self) -> None:
        """End the process."""
        self._stack.close()

    async def check(self) -> None:
        """Raise `Violation` if it has logged errors, or something accumulates."""
        errors = self.program.errors
        check_log("".join(errors[self._seen_errors :]))
        self._seen_errors = len(errors)
        now = await self._report()
        self.cases += 1
        if self.cases == _WARM_CASES:
            self._first = now
        for what, first in self._first.items():
            if now[what] > first + _SLACK[what]:
                raise Violation(f"{what}: {first} after {_WARM_CASES} cases, now {now[what]}")

    async def _report(self) -> dict[str, int]:
        client = Client(self.program.port)
        response = await client.ask(http_grammar.report("probe://probe/process"))
        (message,) = response.messages
        return json.loads(message["result"]["contents"][0]["text"])


_WARM_CASES = 30
_SLACK = {"memory": 64 * 1024 * 1024, "descriptors": 60, "threads": 40, "tasks": 300}
"""How much more than after the first cases there may be: what sessions and streams may hold."""
_HTTP_TIMES = {
    "progress_interval_s": 0.0,
    "sweep_s": 0.5,
    "request_timeout_s": 1.0,
    "http_drain_s": 0.2,
    "session_evictable_s": 0.1,
}
_served: list[_Served] = []


@atexit.register
def _end_served() -> None:
    while _served:
        _served.pop().end()


async def _check_http(case: Http, tally: Tally) -> None:
    if not _served:
        _served.append(_Served())
    (served,) = _served
    client = Client(served.program.port)
    try:
        for connection in case.connections:
            await client.run(connection)
        for session in client.sessions:
            await client.ask(http_grammar.deletion(session))
        await served.check()
    except Violation:
        _end_served()
        raise
    tally.count("connections", len(case.connections))
    tally.count("HTTP requests", sum(len(each.requests) for each in case.connections))
    tally.count("HTTP responses", client.received)


# -- sabotages


def _lose_replies(patch: pytest.MonkeyPatch) -> None:
    """Lose every fifth response."""
    reply = ClientConnection._reply  # pyright: ignore[reportPrivateUsage]
    numbers = itertools.count(1)

    def lossy(self: ClientConnection, request: Any, result: Any) -> None:
        if next(numbers) % 5:
            reply(self, request, result)

    patch.setattr(ClientConnection, "_reply", lossy)


def _answer_twice(patch: pytest.MonkeyPatch) -> None:
    """Answer reads twice."""
    reply = ClientConnection._reply  # pyright: ignore[reportPrivateUsage]

    def twice(self: ClientConnection, request: Any, result: Any) -> None:
        reply(self, request, result)
        if request.method == "resources/read":
            reply(self, request, result)

    patch.setattr(ClientConnection, "_reply", twice)


def _fail_within(patch: pytest.MonkeyPatch) -> None:
    """Fail on the cursors that clients make up."""

    def decode(*_: object, **__: object) -> None:
        raise KeyError

    patch.setattr(ListCursor, "decode", decode)


def _leak_requests(patch: pytest.MonkeyPatch) -> None:
    """Leave a task behind for each request."""
    admit = ClientConnection._admit  # pyright: ignore[reportPrivateUsage]
    kept = set[asyncio.Task[Any]]()

    def leaky(self: ClientConnection, request: Any) -> Any:
        kept.add(asyncio.get_running_loop().create_task(asyncio.Event().wait()))
        return admit(self, request)

    patch.setattr(ClientConnection, "_admit", leaky)


def _accept_forgeries(patch: pytest.MonkeyPatch) -> None:
    """Take every state for one of this server's own."""

    def alike(_: bytes, __: bytes) -> bool:
        return True

    patch.setattr(hmac, "compare_digest", alike)


SABOTAGES = Sabotages(
    __name__,
    "SABOTAGES",
    {
        "reply-lost": _lose_replies,
        "answered-twice": _answer_twice,
        "forgeries-accepted": _accept_forgeries,
        "internal-error": _fail_within,
        "leak": _leak_requests,
    },
)


@contextmanager
def _sabotaged(name: str) -> Generator[None]:
    _end_served()
    with SABOTAGES.in_force(name):
        try:
            yield
        finally:
            _end_served()


# -- the property

Case: TypeAlias = Engine | Stdio | Http


async def check(case: Case, tally: Tally) -> None:
    """Send everything, and compare what comes with what is owed."""
    match case:
        case Engine():
            await _check_engine(case, tally)
        case Stdio():
            await _check_stdio(case, tally)
        case Http():
            await _check_http(case, tally)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    """Draw a seed and roll the rest; hypothesis makes a case smaller by leaving out its parts."""
    dice = HttpDice(random.Random(draw(st.binary(min_size=8, max_size=8))))  # noqa: S311
    # A process takes a second to start, so there are few of them.
    kind = draw(st.sampled_from(("engine",) * 10 + ("http",) * 10 + ("stdio",)))

    def some(parts: Sequence[T]) -> tuple[T, ...]:
        return tuple(part for part in parts if draw(st.integers(0, 30)))

    if kind == "http":
        first, *others = dice.connections()
        return Http(
            (first, *(replace(each, requests=some(each.requests)) for each in some(others)))
        )
    lines = some(dice.conversation(dice.choice((3, 10, 40))))
    if kind == "engine":
        return Engine(lines, _SHUFFLES)
    return Stdio(lines, dice.choice((65536, 50, 1)), dice.chance(0.8))


_NOT_UTF8 = Engine(
    (
        *grammar.opening(
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        ),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        b'"params":{"name":"greet","arguments":{"x":"\xff"}}}',
    )
)

PROPERTY: Property[Case] = Property(
    name="messages",
    cases=_cases(),
    check=check,
    kept=(_NOT_UTF8,),
    sabotages={name: functools.partial(_sabotaged, name) for name in SABOTAGES.patches},
)
