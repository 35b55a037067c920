"""Workers, and servers behind nginx; what Redis adds to a request, and what it holds."""

from __future__ import annotations

import json
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import servers
from tests.benchmarks.http_client import HttpClient, exchange
from tests.benchmarks.over_http import (
    CONNECTIONS,
    resident_kb,
    session_id,
    session_on,
    session_request,
    stateless,
)
from tests.benchmarks.table import Goal, interleaved, limit, show
from tests.nginx import EXAMPLES, NGINX, balancing
from tests.ports import free_port
from tests.transports.http.fleet.fleets import SECRET, Redis, redis_server

ONE, WORKERS, FLEET = "one process", "two workers", "one process, http.fleet"
BEHIND_ONE, BEHIND_TWO = "one server behind nginx", "two servers behind nginx"
_URI = "file:///folder/document.txt"
_READS = 300
_HELD = 10_000
"""Sessions of a fleet, when it is asked what they take."""


class Asked(NamedTuple):
    """A request to a server, and the port at which it is asked."""

    server: HttpClient
    request: bytes
    each: Callable[[socket.socket], bytes] | None = None
    """Makes the request of each connection, where these differ."""
    port: int | None = None

    def rate(self, seconds: float) -> float:
        """Return the answers in a second."""
        request = self.each or self.request
        return self.server.rate(request, window=CONNECTIONS, seconds=seconds, port=self.port)

    def median_ms(self) -> float:
        """Return how long one answer takes, one at a time."""
        with self.server.connect() as connection:
            times: list[float] = []
            for _ in range(_READS):
                begin = time.perf_counter()
                exchange(connection, self.request)
                times.append((time.perf_counter() - begin) * 1000)
        return statistics.median(times)


def run(*, quick: bool) -> None:
    """Print what two processes answer in a second beside one, and what Redis adds to a request."""
    seconds, rounds = (0.3, 3) if quick else (1.0, 9)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        place = Path(scratch)
        store = stack.enter_context(redis_server(place))
        alone = _manifest(place / "alone", "")
        http = f"fleet: {{url: {json.dumps(store.url)}}}, limits: {{sessions: 100000}}"
        shared = _manifest(place / "shared", f"http: {{{http}}}\n")

        def started(folder: Path, *options: str) -> HttpClient:
            port = free_port()
            command = [*servers.ours_http(folder, port), *options]
            return stack.enter_context(HttpClient(command, port))

        one, fleet = started(alone), started(shared)
        clients = {WORKERS: started(alone, "--workers", "2"), ONE: one, FLEET: fleet}
        modern = stateless("resources/read", uri=_URI)
        goals = [Goal(ONE, ">=", 1.5)]
        stateless_reads = {name: Asked(client, modern) for name, client in clients.items()}
        _rates("resources/read of 1 KB", stateless_reads, goals, seconds, rounds)
        reads = {name: Asked(client, _read(client), _read_on) for name, client in clients.items()}
        _rates("the same, a session on each connection", reads, goals, seconds, rounds)
        _added("a read in a session, one at a time, median", reads, rounds)
        count = _HELD // 10 if quick else _HELD
        _hold(fleet, store, count)
        _added(f"the same beside {count:,} sessions", reads, rounds)
        if NGINX is None:
            print("\nnginx is not installed")
            return
        other = started(shared)
        request = _read(fleet)
        pairs = {BEHIND_TWO: (fleet.port, other.port), BEHIND_ONE: (fleet.port, fleet.port)}
        behind: dict[str, Asked] = {}
        for name, ports in pairs.items():
            (place / name).mkdir()
            port = stack.enter_context(_balancing(place / name, *ports))
            behind[name] = Asked(fleet, request, port=port)
        _rates("the same behind nginx", behind, [Goal(BEHIND_ONE, ">=", 1)], seconds, rounds)


def _rates(
    title: str, asked: Mapping[str, Asked], goals: list[Goal], seconds: float, rounds: int
) -> None:
    measures = {name: lambda each=each: each.rate(seconds) for name, each in asked.items()}
    show(title, "requests/s", interleaved(measures, rounds), goals)


def _added(title: str, reads: Mapping[str, Asked], rounds: int) -> None:
    times = interleaved({name: reads[name].median_ms for name in (FLEET, ONE)}, rounds)
    print(f"\n{title}")
    for name, value in times.items():
        limit(name, value, None, "ms")
    limit("what http.fleet adds", times[FLEET] - times[ONE], 0.3, "ms")


def _hold(fleet: HttpClient, store: Redis, count: int) -> None:
    """Begin sessions with one subscription each, and print what they take."""
    before = store.ask("INFO")["used_memory"], resident_kb(fleet)
    with fleet.connect() as connection:
        for _ in range(count):
            subscribing = session_request(session_id(fleet), "resources/subscribe", {"uri": _URI})
            assert b'"result":{}' in exchange(connection, subscribing)
    print(f"\n{count:,} sessions with a subscription each")
    in_redis = (store.ask("INFO")["used_memory"] - before[0]) / 1024
    limit("in Redis, a session", in_redis / count, None, "KB")
    limit("in the server, a session", (resident_kb(fleet) - before[1]) / count, None, "KB")


def _balancing(place: Path, one: int, two: int) -> AbstractContextManager[int]:
    replaced = {
        "127.0.0.1:8001": f"127.0.0.1:{one}",
        "127.0.0.1:8002": f"127.0.0.1:{two}",
        # By itself, nginx closes a connection after a thousand requests.
        "access_log off;": "access_log off; keepalive_requests 10000000;",
    }
    return balancing(place, EXAMPLES / "http/nginx.conf", "127.0.0.1:8080", replaced)


def _read(client: HttpClient) -> bytes:
    return _read_in(session_id(client))


def _read_on(connection: socket.socket) -> bytes:
    return _read_in(session_on(connection))


def _read_in(session: str) -> bytes:
    return session_request(session, "resources/read", {"uri": _URI})


def _manifest(place: Path, more: str) -> Path:
    folder = place / "folder"
    folder.mkdir(parents=True)
    (folder / "document.txt").write_text("plain text, as in a source file\n" * 32, "utf-8")
    text = f"server: {{key: {json.dumps(SECRET)}}}\nroots: {{folder: {{path: folder}}}}\n{more}"
    (place / "mcp-resources.yaml").write_text(text, "utf-8")
    return place
