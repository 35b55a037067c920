"""Soak: hours of clients that come, subscribe, search, die and are slow, while everything changes.

The server runs in processes of its own: one over HTTP for many clients, one over stdio for one. At
the end of each period the load rests. Then subscribers must hold what a fresh read returns, and
memory, descriptors, threads and tasks must be what they were once caches were full: half-way, or in
a long run after the fifth period.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from resource_server.protocol.client_connection import ClientConnection
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.serving import server_builder
from resource_server.subscriptions.broker import Broker
from tests.protocol.wire import CLIENT, ENVELOPE, MODERN
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.writer import TABLES, WORDS
from tests.transports.program import BOTH, ROOT, running
from tests.waiting import pause, quiet_for
from tests.worlds import engines, grammar
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.http_client import Client, Response
from tests.worlds.http_grammar import Request
from tests.worlds.process_patches import Sabotages

_HERE = Path(__file__).parent
_ENGINES = ("sqlite-wal", "postgresql", "mariadb")
_FILES = 60
_ROWS = 10
_VISITORS = 4
_SLOW = 2
_QUIET_S = 2.0
"""Longer than any change takes to be noticed."""
_IDLE_S = (1, 10)
"""How long the session of a dead client lasts, in short periods and in those of a minute."""
_PATIENCE_S = 90.0
"""Timeout of a response or notification on a machine that does much else."""
_SETTLE_S = 15.0
"""Time in which what dead clients leave behind ends on a busy machine."""
_PERIOD_S = 60.0
_WARM = 5
"""Periods of a long run in which caches fill; at most half of a shorter one."""
_LEAST_PERIODS = 3
"""Periods of a run that has no time for them: one alone is compared with nothing."""
_LOAD_SHARE = 0.75
"""Part of a period with load; then the sessions of dead clients end, and all is compared."""
_GROWTH = 1.05
_FILLING = {"memory": 48 * 1024 * 1024, "descriptors": 12, "threads": 4, "tasks": 0}
"""What short periods may add: caches that a minute fills, and connections opened on need."""
_SLACK = {"memory": 1024 * 1024, "descriptors": 2, "threads": 2, "tasks": 2}
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
_HEADERS = (("accept", BOTH), ("content-type", "application/json"))
_TIMES = {"sweep_s": 36000.0}
"""Without sweeps, which would find what no watch has noticed."""
_PROGRAM = """{}
from resource_server.cli import main
from resource_server.runtime.timing import Timing
main(timing=Timing(**{}))
"""


@dataclass(frozen=True)
class Soak:
    """One run, as long as its search."""

    seed: int


class Place:
    """What is served, and the applications that change it."""

    def __init__(self, folder: Path, urls: Mapping[str, engines.Urls], idle_s: int) -> None:
        self.folder = folder
        self.manifest = folder / "mcp-resources.yaml"
        self._notes = folder / "notes.json"
        self.roots = [f"test://{name}/{engines.ENGINES[name].prefix}" for name in urls]
        self.uris = [
            *("test://files/", *(f"test://files/{number}.txt" for number in range(8))),
            *("test://notes/", "test://notes/0", "test://notes/1"),
            *(f"{root}t/{row}" for root in self.roots for row in range(_ROWS)),
            *(f"{root}{path}" for root in self.roots for path in ("t", "t/~rows", "words/a")),
        ]
        (folder / "files").mkdir()
        for number in range(_FILES):
            (folder / "files" / f"{number}.txt").write_text(f"file {number}\n" * 20)
        self._notes.write_text(json.dumps({"0": "first", "1": "second"}))
        databases = {
            name: {"url": each.server, "uri": f"test://{name}/", "interval": "100ms"}
            for name, each in urls.items()
        }
        notes = {"use": str(_HERE / "board.py"), "uri": "test://notes/", "notes": str(self._notes)}
        probe = {"use": str(_HERE / "probe.py"), "uri": "test://probe/"}
        manifest = {
            "version": 1,
            "roots": {"files": {"path": "files", "uri": "test://files/"}},
            "databases": databases,
            "providers": {"notes": notes, "probe": probe},
            "http": {"limits": {"session_idle": f"{idle_s}s"}},
        }
        self.manifest.write_text(json.dumps(manifest))  # JSON is YAML

    async def change_files(self, dice: random.Random) -> None:
        """Write or remove a file or a note."""
        path = self.folder / "files" / f"{dice.randrange(_FILES)}.txt"
        text = f"written {dice.random()}\n"
        match dice.randrange(4):
            case 0:
                path.unlink(missing_ok=True)
            case 1:
                beside = path.with_suffix(".tmp")
                beside.write_text(text)
                beside.replace(path)
            case 2:
                notes = {str(number): text for number in range(dice.randrange(4))}
                beside = self._notes.with_suffix(".tmp")
                beside.write_text(json.dumps(notes))
                beside.replace(self._notes)
            case _:
                path.write_text(text)

    async def change_rows(self, owner: Owner, dice: random.Random) -> None:
        """Run a statement that changes some rows, or none."""
        key, value = dice.randrange(_ROWS), dice.randrange(100)
        statements = (
            owner.insertion.format("t", f"{key}, {value}, 0"),
            owner.insertion.format("words", f"'{dice.choice(WORDS)}', {value}"),
            "update t set x = {value} where id = {key}",
            "update t set y = {value} where id > {key}",
            "update words set x = {value}",
            "delete from t where id = {key}",
        )
        await owner.run(dice.choice(statements).format(key=key, value=value))


# -- clients over HTTP


class Session:
    """A session of a handshake revision, each request on a connection of its own."""

    def __init__(self, port: int, tally: Tally) -> None:
        self.port = port
        self._client = Client(port, _PATIENCE_S)
        self._tally = tally
        self._ids = 0

    async def open(self) -> None:
        await self.call("initialize", _INITIALIZE)
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request.

        Raises:
            Violation: there is none, or not one.
        """
        self._ids += 1
        id = self._ids
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        response = await self._post(message)
        answers = [each for each in response.messages if each.get("id") == id]
        if len(answers) != 1 or response.status != 200:
            raise Violation(f"{message} was answered by {response!r}")
        self._tally.count("requests")
        return answers[0]

    async def _post(self, message: object) -> Response:
        response = await self._client.ask(self._request("POST", grammar.encoded(message)))
        self._client.session = response.headers.get("mcp-session-id", self._client.session)
        return response

    def _request(self, method: str, body: bytes = b"") -> Request:
        session = self._client.session
        headers = (*_HEADERS, ("mcp-session-id", session)) if session != "none" else _HEADERS
        return Request(method, "/mcp", headers, body)

    async def close(self) -> None:
        await self._client.ask(self._request("DELETE"))

    @asynccontextmanager
    async def stream(
        self, taken: Callable[[dict[str, Any]], None]
    ) -> AsyncGenerator[asyncio.StreamWriter]:
        """Open the session's stream, whose messages go to `taken`."""
        async with streaming(self.port, self._request("GET"), taken) as writer:
            yield writer


@asynccontextmanager
async def streaming(
    port: int, request: Request, taken: Callable[[dict[str, Any]], None]
) -> AsyncGenerator[asyncio.StreamWriter]:
    """Send a request whose response is a stream of messages, and take them as they come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)

    async def read() -> None:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                taken(json.loads(line[6:]))

    writer.write(request.encoded(""))
    reading = asyncio.create_task(read())
    try:
        yield writer
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await reading
        writer.transport.abort()


def _listen(uris: Sequence[str]) -> Request:
    params = {"notifications": {"resourceSubscriptions": uris}, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    named = (("mcp-protocol-version", MODERN[0]), ("mcp-method", "subscriptions/listen"))
    return Request("POST", "/mcp", (*_HEADERS, *named), grammar.encoded(message))


def _state(answer: Mapping[str, Any]) -> Hashable:
    """Return what a client knows after a read."""
    if "error" in answer:
        return answer["error"]["code"]
    contents: list[dict[str, Any]] = answer["result"]["contents"]
    return tuple((each["uri"], each.get("text")) for each in contents)


class Subscriber:
    """Holds every resource as it read it after the last notification, for hours."""

    def __init__(self, call: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> None:
        self.events = 0
        self.known: dict[str, Hashable] = {}
        self._call = call
        self._unread: dict[str, None] = {}
        self._news = asyncio.Event()

    def told(self, message: dict[str, Any]) -> None:
        """Note a notification."""
        if message.get("method") == "notifications/resources/updated":
            self.events += 1
            self.note(message["params"]["uri"])

    def note(self, uri: str) -> None:
        """Read a resource soon."""
        self._unread[uri] = None
        self._news.set()

    async def run(self) -> None:
        """Read what it is notified of."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unread:
                uri = next(iter(self._unread))
                del self._unread[uri]
                self.known[uri] = await self._read(uri)

    async def _read(self, uri: str) -> Hashable:
        while True:
            answer = await self._call("resources/read", {"uri": uri})
            error: dict[str, Any] = answer.get("error", {})
            if not error.get("data", {}).get("retryable"):
                return _state(answer)
            await pause(0.05)

    @property
    def is_busy(self) -> bool:
        """Whether something is to be read."""
        return bool(self._unread)


# -- a client over stdio


class StdioClient:
    """A server process, and its only client."""

    def __init__(self, process: asyncio.subprocess.Process, tally: Tally) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to = process.stdin
        self._from = process.stdout
        self._tally = tally
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = 0
        self.told: Callable[[dict[str, Any]], None] = lambda _: None

    async def run(self) -> None:
        """Take what the server sends."""
        while line := await self._from.readline():
            message = json.loads(line)
            if "id" in message:
                self._waiting.pop(message["id"]).set_result(message)
            else:
                self.told(message)

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request."""
        self._ids += 1
        waiting = self._waiting[self._ids] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self._to.write(grammar.encoded(message) + b"\n")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await waiting
        except TimeoutError:
            raise Violation(f"{message} was not answered over stdio") from None
        self._tally.count("requests")
        return answer


@asynccontextmanager
async def _stdio(place: Place, tally: Tally) -> AsyncGenerator[StdioClient]:
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-c",
                _PROGRAM.format(SABOTAGES.code, _TIMES),
                "serve",
                str(place.manifest),
            ),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=1 << 24,
        )
        client = StdioClient(process, tally)
        reading = asyncio.create_task(client.run())
        try:
            await client.call("initialize", _INITIALIZE)
            yield client
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            process.kill()
            await process.wait()
            _close(process)
        log.seek(0)
        _check_log(log.read().decode())


def _close(process: asyncio.subprocess.Process) -> None:
    """Close the pipes of a process that has ended."""
    assert process.stdin is not None
    process.stdin.close()


def _check_log(text: str) -> None:
    for word in ("Traceback", "internal error", "a request failed"):
        if word in text:
            raise Violation(f"logged: {text[-4000:]}")


# -- those who come and go


class Load:
    """Clients that come and go while the load lasts."""

    def __init__(self, port: int, place: Place, dice: random.Random, tally: Tally) -> None:
        self._port = port
        self._place = place
        self._dice = dice
        self._tally = tally
        self.lasts = True

    async def run(
        self, changes: Sequence[Callable[[random.Random], Awaitable[None]]], seconds: float
    ) -> None:
        """Let them all come, for so long, while applications change what is served."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_VISITORS):
                group.create_task(self.visit())
            for _ in range(_SLOW):
                group.create_task(self.be_slow())
            for change in changes:
                group.create_task(self.change(change))
            await pause(seconds)
            self.lasts = False

    async def visit(self) -> None:
        """Come, ask for some things, subscribe to others, and leave in one of three ways."""
        while self.lasts:
            session = Session(self._port, self._tally)
            await session.open()
            self._tally.count("clients")
            if self._dice.random() < 0.5:
                await self._ask(session)
                if self._dice.random() < 0.5:
                    await session.close()
                continue
            async with session.stream(lambda _: self._tally.count("notifications")):
                for uri in self._dice.sample(self._place.uris, 5):
                    await session.call("resources/subscribe", {"uri": uri})
                await self._ask(session)
            if self._dice.random() < 0.3:
                await session.close()

    async def _ask(self, session: Session) -> None:
        for _ in range(self._dice.randrange(1, 12)):
            await session.call(*self._request())
            await pause(self._dice.choice((0, 0.01, 0.05)))

    def _request(self) -> tuple[str, dict[str, Any]]:
        dice = self._dice
        uri = dice.choice(self._place.uris)
        return dice.choice(
            (
                ("resources/list", {}),
                ("resources/list", {"uri": "test://files/"}),
                ("resources/directory/read", {"uri": "test://files/"}),
                ("skills/list", {}),
                ("resources/read", {"uri": uri}),
                ("resources/metadata", {"uri": uri}),
                ("resources/templates/list", {}),
                ("tools/list", {}),
                ("tools/call", {"name": "search", "arguments": {"query": dice.choice("w0f1x")}}),
                ("resources/read", {"uri": f"test://nothing/{dice.random()}"}),
            )
        )

    async def be_slow(self) -> None:
        """Listen to everything, and read nothing of it; then die."""
        while self.lasts:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1024)
            try:
                writer.write(_listen(self._place.uris).encoded(""))
                await pause(self._dice.uniform(0.5, 3))
                self._tally.count("slow clients")
                if self._dice.random() < 0.5:
                    await reader.read(1024)
            finally:
                writer.transport.abort()

    async def change(self, what: Callable[[random.Random], Awaitable[None]]) -> None:
        """Let an application change what is served."""
        while self.lasts:
            await what(self._dice)
            self._tally.count("writes")
            await pause(self._dice.uniform(0, 0.06))


# -- the run


async def check(case: Soak, tally: Tally) -> None:
    """Run periods of load and rest until the time is over."""
    dice = random.Random(case.seed)  # noqa: S311
    period_s = min(_PERIOD_S, tally.remaining_s / 4)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls, owners = await _databases(stack, folder)
        idle_s = _IDLE_S[period_s == _PERIOD_S]
        place = Place(folder, urls, idle_s)
        program = stack.enter_context(
            running(place.manifest, "-v", timing=_TIMES, code=SABOTAGES.code)
        )
        stdio = await stack.enter_async_context(_stdio(place, tally))
        subscribers = Subscribers(program.port, place.uris)
        await subscribers.come(stdio, stack, tally)
        manifest = server_builder.load_manifest(str(place.manifest), allow_plugins=True)
        other = server_builder.build_server(manifest, allow_plugins=True)
        reader = LocalClient(await stack.enter_async_context(other))
        await stack.enter_async_context(reader)
        changes = [place.change_files, *(partial(place.change_rows, owner) for owner in owners)]
        table = Table(period_s)
        while tally.remaining_s > period_s / 2 or len(table.rows) < _LEAST_PERIODS:
            load = Load(program.port, place, dice, tally)
            await load.run(changes, period_s * _LOAD_SHARE)
            try:
                rested_s = await _rest(subscribers, reader, tally, min(_PATIENCE_S, period_s * 2))
            except Violation as violation:
                told = "".join(program.errors[-30:])
                raise Violation(f"{violation}\nlogged:\n{told}") from None
            await quiet_for(idle_s + _QUIET_S)
            table.add(tally, rested_s, await _reports(program.port, stdio, tally))
            _check_log("".join(program.errors))
        began = time.monotonic()
        while table.growth and time.monotonic() - began < _SETTLE_S:
            await pause(_QUIET_S)
            table.rows[-1] = await _reports(program.port, stdio, tally)
        if table.growth:
            raise Violation(table.growth)


async def _databases(
    stack: AsyncExitStack, folder: Path
) -> tuple[dict[str, engines.Urls], list[Owner]]:
    """Make a database on each engine that listens, with some rows."""
    urls: dict[str, engines.Urls] = {}
    owners: list[Owner] = []
    for name in sorted(set(_ENGINES) & set(engines.listening())):
        engine = engines.ENGINES[name]
        urls[name] = await stack.enter_async_context(engine.database(folder))
        owners.append(await stack.enter_async_context(owner_of(urls[name].owner)))
        await owners[-1].run(*engine.preparation, *TABLES)
        await owners[-1].insert("t", *((row, 0, 0) for row in range(_ROWS)))
        await owners[-1].insert("words", *((word, 0) for word in WORDS))
    return urls, owners


class Subscribers:
    """Three clients that stay: with a session, with a listen, and over stdio."""

    def __init__(self, port: int, uris: Sequence[str]) -> None:
        self.port = port
        self.uris = uris
        self.all: list[Subscriber] = []
        self._reading: list[asyncio.Task[None]] = []

    def check(self) -> None:
        """Raise the error of one that has stopped to read."""
        for task in self._reading:
            if task.done():
                task.result()

    def stale(self, now: Mapping[str, Hashable]) -> Sequence[str]:
        """Return what one of them holds that is not so any more."""
        return [
            f"subscriber {number}: {uri} was {each.known[uri]} and is {now[uri]}"
            for uri in self.uris
            for number, each in enumerate(self.all)
            if each.known[uri] != now[uri]
        ]

    @property
    def events(self) -> int:
        """How often they were notified."""
        return sum(each.events for each in self.all)

    @property
    def are_busy(self) -> bool:
        """Whether one of them has something to read."""
        return any(each.is_busy for each in self.all)

    async def come(self, stdio: StdioClient, stack: AsyncExitStack, tally: Tally) -> None:
        """Subscribe to everything, in each of the three ways."""
        session = Session(self.port, tally)
        await session.open()
        first = Subscriber(session.call)
        await stack.enter_async_context(session.stream(first.told))
        second = Subscriber(session.call)
        await stack.enter_async_context(streaming(self.port, _listen(self.uris), second.told))
        third = Subscriber(stdio.call)
        stdio.told = third.told
        for call in (session.call, stdio.call):
            for uri in self.uris:
                answer = await call("resources/subscribe", {"uri": uri})
                if "error" in answer:
                    raise Violation(f"no subscription to {uri}: {answer}")
        self.all = [first, second, third]
        for each in self.all:
            self._reading.append(asyncio.create_task(each.run()))
            stack.callback(self._reading[-1].cancel)
            for uri in self.uris:
                each.note(uri)


async def _reports(port: int, stdio: StdioClient, tally: Tally) -> Sequence[Mapping[str, int]]:
    """Return what the processes hold, the one over HTTP first."""
    session = Session(port, tally)
    await session.open()
    read = "resources/read", {"uri": "test://probe/process"}
    answers = [await call(*read) for call in (session.call, stdio.call)]
    await session.close()
    return [json.loads(each["result"]["contents"][0]["text"]) for each in answers]


class Table:
    """What both processes hold at the end of each period, printed as it comes."""

    def __init__(self, period_s: float) -> None:
        self.rows: list[Sequence[Mapping[str, int]]] = []
        self._period_s = period_s
        self._began = time.monotonic()

    def add(self, tally: Tally, rested_s: float, reports: Sequence[Mapping[str, int]]) -> None:
        """Add and print a row."""
        if not self.rows:
            names = " ".join(f"{name:>19}" for name in _SLACK)
            sys.stdout.write(f"{'minute':>7} {names} {'at rest':>9} (HTTP / stdio)\n")
        self.rows.append(reports)
        cells = [" / ".join(_shown(name, each[name]) for each in reports) for name in _SLACK]
        minute = (time.monotonic() - self._began) / 60
        shown = " ".join(f"{cell:>19}" for cell in cells)
        sys.stdout.write(f"{minute:7.1f} {shown} {rested_s:7.1f} s   {tally}\n")
        sys.stdout.flush()

    @property
    def growth(self) -> str:
        """What a process holds more of than after the first period; empty if nothing."""
        is_short = self._period_s < _PERIOD_S
        begin = self.rows[max(min(_WARM, len(self.rows) // 2), 1) - 1]
        for which, first, last in zip(("HTTP", "stdio"), begin, self.rows[-1], strict=True):
            for name, slack in _SLACK.items():
                most = first[name] * _GROWTH + slack + (_FILLING[name] if is_short else 0)
                if last[name] > most:
                    return f"{which}: {name} grew from {first[name]} to {last[name]}"
        return ""


def _shown(name: str, number: int) -> str:
    return f"{number / 1e6:.1f} MB" if name == "memory" else str(number)


async def _rest(
    subscribers: Subscribers, reader: LocalClient, tally: Tally, patience_s: float
) -> float:
    """Wait until subscribers hold what is there; return the seconds until the last one did.

    The reader is another server's client: a read on this one could let it notice what its watch
    did not.
    """
    began = time.monotonic()
    async with asyncio.timeout(_PATIENCE_S):
        before = -1
        while before != subscribers.events or subscribers.are_busy:
            before = subscribers.events
            await pause(_QUIET_S)
            subscribers.check()
    now = {uri: await _fresh(reader, uri) for uri in subscribers.uris}
    while stale := subscribers.stale(now):
        if time.monotonic() - began > patience_s:
            raise Violation("\n".join(stale))
        await pause(0.1)
        subscribers.check()
    tally.count("versions compared", len(now) * len(subscribers.all))
    return time.monotonic() - began


async def _fresh(reader: LocalClient, uri: str) -> Hashable:
    try:
        return _state({"result": await reader.request("resources/read", {"uri": uri})})
    except ErrorReply as error:
        return error.code


# -- sabotages


def _leak_requests(patch: pytest.MonkeyPatch) -> None:
    """Leave a task behind for each request."""
    admit = ClientConnection._admit  # pyright: ignore[reportPrivateUsage]
    kept = set[asyncio.Task[Any]]()

    def leaky(self: ClientConnection, request: Any) -> Any:
        kept.add(asyncio.get_running_loop().create_task(asyncio.Event().wait()))
        return admit(self, request)

    patch.setattr(ClientConnection, "_admit", leaky)


def _drop_changes(patch: pytest.MonkeyPatch) -> None:
    """Drop half of the changes that providers report."""
    changed = Broker._changed  # pyright: ignore[reportPrivateUsage]
    dice = random.Random(1)  # noqa: S311

    def lossy(broker: Broker, mount: Any, change: Any) -> None:
        if dice.random() < 0.5:
            changed(broker, mount, change)

    patch.setattr(Broker, "_changed", lossy)


SABOTAGES = Sabotages(
    __name__, "SABOTAGES", {"leak": _leak_requests, "change-dropped": _drop_changes}
)
PROPERTY = Property(
    name="soak",
    cases=st.builds(Soak, st.integers(0, 2**32)),
    check=check,
    sabotages={name: partial(SABOTAGES.in_force, name) for name in SABOTAGES.patches},
    is_one_run=True,
)
