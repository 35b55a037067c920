"""What everything costs a server of a fleet, and whether their sum is what a load costs.

The costs are in `scaling.json`, from which `python -m tests.scaling` computes docs/scaling.md.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tests.benchmarks import orders, servers
from tests.benchmarks.corpus import write as write_documents
from tests.benchmarks.http_client import HttpClient, exchange
from tests.benchmarks.over_http import session_id, session_request
from tests.benchmarks.services import postgres
from tests.ports import free_port
from tests.transports.http.fleet.fleets import SECRET, Redis, redis_server

COSTS = Path(__file__).with_name("scaling.json")
SIZES = (200, 600, 1_800)
"""Clients of the loads."""
LOAD_S = 30.0
"""Two comparisons of each session with the store."""
PER_CLIENT_S: Mapping[str, float] = {"read": 0.1, "rows": 1 / 30, "list": 1 / 60, "search": 1 / 300}
"""How often a client of the load asks for each: nine times a minute in all."""
SUBSCRIPTIONS = 3
"""Of each client."""
CHANGES_S = 1.0
"""Time between two changes of a document, of which every client is notified."""

_HELD = 200
_PAUSE_S = 0.01
"""Between two requests: one right after the other finds everything in the processor's caches."""
_ROUNDS = 3
_BEGUN = ("session", "stream", "subscriptions")
_MANIFEST = """
server: {{key: {key}}}
roots: {{folder: {{path: folder}}, documents: {{path: documents}}}}
databases: {{shop: {{url: "{shop}"}}}}
http: {{limits: {{sessions: 100000, streams: 100000}}, fleet: {{url: "{redis}"}}}}
"""
_DOCUMENT = "file:///folder/document.txt"
_STREAM = b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAccept: text/event-stream\r\n"


class Cost(NamedTuple):
    """The cost of something, once, or while it is held."""

    processor_ms: float = 0.0
    """Of the server; of something held, in a second."""
    database_ms: float = 0.0
    """Processor time of the database server."""
    redis_commands: float = 0.0
    redis_ms: float = 0.0
    """Processor time of Redis."""
    memory_kb: float = 0.0
    redis_kb: float = 0.0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))

    def times(self, count: float) -> Cost:
        """Return the cost of so many."""
        return Cost(*(value * count for value in self))

    def plus(self, other: Cost) -> Cost:
        """Return the sum of both."""
        return Cost(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))


class Place:
    """A server of a fleet on a Redis of its own, with everything that clients ask for."""

    def __init__(self, folder: Path, redis: Redis, shop: str, schema: str) -> None:
        (folder / "folder" / "many").mkdir(parents=True)
        for number in range(1_000):
            (folder / "folder" / "many" / f"document-{number}.txt").write_text("text\n", "utf-8")
        self.document = folder / "folder" / "document.txt"
        self.document.write_text("plain text, as in a source file\n" * 32, "utf-8")
        (folder / "documents").mkdir()
        self.documents = write_documents(folder / "documents", 3)
        text = _MANIFEST.format(key=json.dumps(SECRET), shop=shop, redis=redis.url)
        (folder / "mcp-resources.yaml").write_text(text, "utf-8")
        self._redis = redis
        self._database = urlsplit(shop).path.strip("/")
        self._port = free_port()
        self._client = HttpClient(servers.ours_http(folder, self._port), self._port)
        self.session = session_id(self._client)
        orders_uri = f"{'sqlite' if shop.startswith('sqlite') else 'postgresql'}://shop/{schema}"
        self.requests = {
            "read": ("resources/read", {"uri": _DOCUMENT}),
            "list": ("resources/directory/read", {"uri": "file:///folder/many"}),
            "rows": ("resources/read", {"uri": f"{orders_uri}orders/~rows?limit=100"}),
            "search": (
                "tools/call",
                {
                    "name": "search_resources",
                    "arguments": {"query": "document-77", "uri": "file:///folder/many"},
                },
            ),
        }

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.__exit__(None, None, None)

    def spent(self) -> Cost:
        """Return what was spent until now."""
        server = _tree(self._client.process.pid)
        stats = self._redis.ask("INFO")
        return Cost(
            processor_ms=sum(map(_processor_ms, server)),
            database_ms=sum(map(_processor_ms, _backends(self._database))),
            redis_commands=stats["total_commands_processed"],
            redis_ms=(stats["used_cpu_user"] + stats["used_cpu_sys"]) * 1_000,
            memory_kb=sum(map(_resident_kb, server)),
            redis_kb=stats["used_memory"] / 1024,
        )

    def ask(self, name: str, session: str | None = None) -> bytes:
        """Return a request."""
        method, params = self.requests[name]
        return session_request(session or self.session, method, params)

    def call(self, request: bytes) -> None:
        """Send a request on a connection of its own."""
        self._client.ask(request)

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return self._client.connect()

    def open_session(self) -> str:
        """Return the id of a new session."""
        return session_id(self._client)


def run(*, quick: bool) -> None:
    """Measure the costs, and write them unless this is quick; then compare loads with their sum."""
    count, sizes, seconds = (50, SIZES[:2], 5.0) if quick else (_HELD, SIZES, LOAD_S)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with place() as measured:
        costs = _costs(measured, count)
    for name, cost in costs.items():
        print(f"  {name:<14}" + "".join(f"{value:>12,.3f}" for value in cost))
    results: dict[str, tuple[Cost, Cost]] = {}
    for size in sizes:
        with place() as loaded:
            results[str(size)] = _loaded(loaded, costs, size, seconds)
    for size, (expected, found) in results.items():
        print(f"\n{size} clients: computed, measured")
        for field, ours, theirs in zip(Cost._fields, expected, found, strict=True):
            print(f"  {field:<14}{ours:>14,.1f}{theirs:>14,.1f}{_error(ours, theirs):>8.0%}")
    if not quick:
        COSTS.write_text(json.dumps({"costs": costs, "loads": results}, indent=1) + "\n", "utf-8")


@contextmanager
def place() -> Generator[Place]:
    """Start everything; the database is PostgreSQL where it runs."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(redis_server(folder))
        url = stack.enter_context(postgres())
        shop = url or f"sqlite:///{folder / 'shop.db'}"
        orders.make(shop, 30_000)
        schema = "public/" if url else ""
        yield stack.enter_context(Place(folder, store, shop, schema))


def _costs(server: Place, count: int) -> Mapping[str, Cost]:
    costs: dict[str, Cost] = {}
    for name in server.requests:
        server.call(server.ask(name))
        cost = _each(server, count * 2, lambda name=name: server.call(server.ask(name)))
        costs[name] = cost._replace(memory_kb=0.0, redis_kb=0.0)
    converted = [
        session_request(
            server.session,
            "resources/read",
            {"uri": f"file:///documents/{path.name}?format=markdown"},
        )
        for path in itertools.chain.from_iterable(zip(*server.documents.values(), strict=True))
    ]
    kinds = len(server.documents)
    for request in converted[:kinds]:  # which starts the workers
        server.call(request)
    pending = iter(converted[kinds:])
    costs["conversion"] = _each(
        server, len(converted) - kinds, lambda: server.call(next(pending)), rounds=1
    )._replace(memory_kb=0.0, redis_kb=0.0)
    costs |= _held(server, count)
    return costs


def _held(server: Place, count: int) -> Mapping[str, Cost]:
    """Return the costs of sessions, streams and subscriptions, to begin and to hold."""
    costs = {"idle": _idle(server)}
    opened: list[str] = []
    held: list[str] = []
    with Streams(server) as streams:

        def open_stream() -> None:
            session = opened.pop()
            streams.open(session)
            held.append(session)

        def subscribe() -> None:
            session = held.pop()
            for uri in _subscribed(server):
                server.call(_subscribe(session, uri))

        def begin() -> Sequence[Cost]:
            session = _each(server, count, lambda: opened.append(server.open_session()), rounds=1)
            stream = _each(server, count, open_stream, rounds=1)
            return (session, stream, _each(server, count, subscribe, rounds=1))

        begin()  # what a first session takes, later ones do not
        rounds = [begin() for _ in range(_ROUNDS)]
        for name, found in zip(
            ("session", "stream", "subscriptions"), zip(*rounds, strict=True), strict=True
        ):
            costs[name] = _median(found)
        everyone = (_ROUNDS + 1) * count
        costs["stream held"] = (_idle(server) - costs["idle"]).times(1 / everyone)
        before = server.spent()
        for number in range(10):
            streams.expect(everyone, lambda number=number: _write(server.document, number))
        costs["notification"] = (server.spent() - before).times(1 / (10 * everyone))
    return costs


def _each(
    server: Place, count: int, action: Callable[[], object], *, rounds: int = _ROUNDS
) -> Cost:
    """Return the median cost of an action."""
    found: list[Cost] = []
    for _ in range(rounds):
        before = server.spent()
        for _ in range(count):
            action()
            time.sleep(_PAUSE_S)
        found.append((server.spent() - before).times(1 / count))
    return _median(found)


def _median(found: Sequence[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*found, strict=True)))


def _idle(server: Place, seconds: float = 30.0) -> Cost:
    """Return the cost of a second in which nobody asks for anything."""
    before = server.spent()
    time.sleep(seconds)
    return ((server.spent() - before).times(1 / seconds))._replace(memory_kb=0.0, redis_kb=0.0)


class Streams:
    """Streams of notifications that are read to no end."""

    def __init__(self, server: Place) -> None:
        self._server = server
        self._selector = selectors.DefaultSelector()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for each in self._open:
            each.close()
        self._selector.close()

    def open(self, session: str) -> None:
        """Open the stream of a session."""
        stream = self._server.connect()
        head = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n\r\n".encode()
        stream.sendall(_STREAM + head)
        assert stream.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        stream.setblocking(False)
        self._selector.register(stream, selectors.EVENT_READ)
        self._open.append(stream)

    def read(self, timeout: float = 0.0) -> set[int]:
        """Read what has come; return the streams that were notified of a change."""
        found: set[int] = set()
        for key, _ in self._selector.select(timeout):
            if b"resources/updated" in os.read(key.fd, 1 << 16):
                found.add(key.fd)
        return found

    def expect(self, count: int, change: Callable[[], object]) -> None:
        """Make a change, and wait until so many streams are notified."""
        change()
        found: set[int] = set()
        until = time.monotonic() + 30
        while len(found) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} streams were notified"
            found |= self.read(1)


def _loaded(
    server: Place, costs: Mapping[str, Cost], clients: int, seconds: float
) -> tuple[Cost, Cost]:
    """Return what a load of so many clients should cost, and what it does."""
    for name in server.requests:
        server.call(server.ask(name))
    for _ in range(_HELD):
        server.open_session()  # what first ones take, later ones do not
    before = server.spent()
    with Streams(server) as streams:
        sessions = [server.open_session() for _ in range(clients)]
        for session in sessions:
            streams.open(session)
            for uri in _subscribed(server):
                server.call(_subscribe(session, uri))
        streams.read()
        held = server.spent()
        with server.connect() as connection:
            asked, changes, took = _ask_at_rate(server, streams, connection, sessions, seconds)
        after = server.spent()
    begun = costs["session"].plus(costs["stream"]).plus(costs["subscriptions"])
    expected = costs["idle"].plus(costs["stream held"].times(clients)).times(took)
    for name, count in asked.items():
        expected = expected.plus(costs[name].times(count))
    expected = expected.plus(costs["notification"].times(changes * clients))
    memory = begun.times(clients)
    found = after - held
    kept = held - before
    return (
        expected._replace(memory_kb=memory.memory_kb, redis_kb=memory.redis_kb),
        found._replace(memory_kb=kept.memory_kb, redis_kb=kept.redis_kb),
    )


def _ask_at_rate(
    server: Place,
    streams: Streams,
    connection: socket.socket,
    sessions: Sequence[str],
    seconds: float,
) -> tuple[Mapping[str, int], int, float]:
    """Ask as the clients do; return how often for what, the changes, and the time it took."""
    asked = dict.fromkeys(PER_CLIENT_S, 0)
    changes = 0
    begin = time.monotonic()
    turn = itertools.cycle(sessions)
    while (now := time.monotonic() - begin) < seconds:
        if changes * CHANGES_S <= now:
            _write(server.document, changes)
            changes += 1
        due = [
            name for name, rate in PER_CLIENT_S.items() if asked[name] < now * rate * len(sessions)
        ]
        for name in due:
            exchange(connection, server.ask(name, next(turn)))
            asked[name] += 1
        streams.read(0.0 if due else 0.002)
    return asked, changes, time.monotonic() - begin


def _subscribed(server: Place) -> Iterator[str]:
    yield _DOCUMENT
    for number in range(SUBSCRIPTIONS - 1):
        yield f"file:///folder/many/document-{number}.txt"


def _subscribe(session: str, uri: str) -> bytes:
    return session_request(session, "resources/subscribe", {"uri": uri})


def _write(document: Path, number: int) -> None:
    document.write_text(f"change {number}, plain text, as in a source file\n" * 20, "utf-8")


def _error(expected: float, found: float) -> float:
    return (expected - found) / found if found else 0.0


def _tree(pid: int) -> list[int]:
    """Return a process, and those below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found.extend(map(int, task.read_text("ascii").split()))
    return found


def _backends(database: str) -> list[int]:
    """Return the processes of PostgreSQL that serve a database."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = each.read_text("utf-8", "replace")
        except OSError:
            continue
        if title.startswith("postgres:") and f" {database} " in title:
            found.append(int(each.parent.name))
    return found


def _processor_ms(pid: int) -> float:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return (
            sum(int((each / "schedstat").read_text("ascii").split()[0]) for each in threads) / 1e6
        )
    except OSError:
        return 0.0


def _resident_kb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("ascii"))
    return float(found[1]) if found else 0.0
