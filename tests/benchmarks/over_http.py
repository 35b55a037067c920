"""Reads over HTTP, and streams that are told: against an empty web application and the SDK."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import empty_app, servers
from tests.benchmarks.http_client import HttpClient, exchange, post
from tests.benchmarks.table import Goal, interleaved, limit, show
from tests.ports import free_port

CONNECTIONS = 8
STREAMS = 1_000
EMPTY = "empty ASGI application"
SESSION = "resource-server, session"
_PATH = "/mcp"
_ENVELOPE: Mapping[str, object] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_REVISION = "2025-06-18"
_PATIENCE_S = 30.0


def run(*, quick: bool) -> None:
    """Print requests per second, how soon streams are told, and what they cost in memory."""
    seconds, rounds = (0.3, 3) if quick else (0.8, 9)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "folder"
        folder.mkdir()
        (folder / "document.txt").write_text("plain text, as in a source file\n" * 32, "utf-8")
        _reads(folder, seconds, rounds)
        _streams(folder, 100 if quick else STREAMS)


def _reads(folder: Path, seconds: float, rounds: int) -> None:
    uri = f"file:///{folder.name}/document.txt"
    modern, session = stateless("resources/read", uri=uri), {"uri": uri}
    with ExitStack() as stack:

        def started(command: Callable[[int], list[str]]) -> HttpClient:
            port = free_port()
            return stack.enter_context(HttpClient(command(port), port))

        ours = started(lambda port: servers.ours_http(folder, port))
        sdk = started(lambda port: servers.sdk_http(folder, port))
        fast_sdk = started(lambda port: servers.fast_sdk_http(folder, port))
        answer = ours.ask(modern)
        text = (folder / "document.txt").read_text("utf-8")
        for client in (ours, sdk, fast_sdk):
            body = client.ask(modern).partition(b"\r\n\r\n")[2]
            assert json.loads(body)["result"]["contents"][0]["text"] == text
        # Of the length that ours has: what is compared is the work, not the bytes.
        os.environ[empty_app.SIZE] = str(len(answer.partition(b"\r\n\r\n")[2]))
        empty = started(_empty)
        session_request = in_session(ours, "resources/read", session)
        request = {servers.OURS: (ours, modern), SESSION: (ours, session_request)}
        request |= {EMPTY: (empty, modern), servers.SDK: (sdk, modern)}
        request |= {servers.FAST_SDK: (fast_sdk, modern)}
        medians = interleaved(
            {name: _rate(client, asked, seconds) for name, (client, asked) in request.items()},
            rounds,
        )
    title = f"resources/read of 1 KB over HTTP, {CONNECTIONS} connections"
    show(title, "requests/s", medians, [Goal(EMPTY, ">=", 0.33), Goal(servers.SDK, ">=", 3.5)])
    both = {SESSION: medians[SESSION], servers.OURS: medians[servers.OURS]}
    show("the same in a session", "requests/s", both, [Goal(servers.OURS, ">=", 0.9)])


def _streams(folder: Path, count: int) -> None:
    """Print how long it takes until all who listen to one document are told of a change."""
    document = folder / "document.txt"
    uri = f"file:///{folder.name}/document.txt"
    port = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(HttpClient(servers.ours_http(folder, port), port))
        server.ask(stateless("resources/read", uri=uri))
        before = resident_kb(server)
        listen = stateless("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(count):
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stream.sendall(listen)
            selector.register(stream, selectors.EVENT_READ)
        _until_told(selector, b"notifications/subscriptions/acknowledged", count)
        per_stream = (resident_kb(server) - before) / count
        times: list[float] = []
        for number in range(5):
            begin = time.perf_counter()
            document.write_text(f"change {number}\n", "utf-8")
            _until_told(selector, b"notifications/resources/updated", count)
            times.append((time.perf_counter() - begin) * 1000)
            time.sleep(0.2)
    print(f"\n{count:,} streams on one document")
    limit("a write -> all are told, median", sorted(times)[2], 100, "ms")
    limit("memory of a stream", per_stream, None, "KB")
    _sessions(folder, count)


def _sessions(folder: Path, count: int) -> None:
    port = free_port()
    with HttpClient(servers.ours_http(folder, port), port) as server:
        session_id(server)
        before = resident_kb(server)
        count -= 1  # there are no more than a thousand at once
        for _ in range(count):
            session_id(server)
        limit("memory of a session", (resident_kb(server) - before) / count, None, "KB")


def _until_told(selector: selectors.BaseSelector, word: bytes, count: int) -> None:
    """Wait until this word came on every stream."""
    told: set[int] = set()
    until = time.perf_counter() + _PATIENCE_S
    while len(told) < count:
        assert time.perf_counter() < until, f"{len(told)} of {count} streams were told"
        for key, _ in selector.select(timeout=1):
            if word in os.read(key.fd, 1 << 16):
                told.add(key.fd)


def stateless(method: str, **params: object) -> bytes:
    """Return a request of 2026-07-28."""
    body: dict[str, object] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": _ENVELOPE},
    }
    headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    if "uri" in params:
        headers["Mcp_Name"] = str(params["uri"])
    return post(_PATH, json.dumps(body).encode(), **headers)


def session_id(server: HttpClient) -> str:
    """Return the id of a new session."""
    with server.connect() as connection:
        return session_on(connection)


def session_on(connection: socket.socket) -> str:
    """Return the id of a new session, begun on a connection."""
    client_info = {"name": "benchmark", "version": "1"}
    params = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": client_info}
    body: dict[str, object] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    head = exchange(connection, post(_PATH, json.dumps(body).encode()))
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"mcp-session-id":
            return value.strip().decode()
    raise AssertionError("no session")


def in_session(client: HttpClient, method: str, params: Mapping[str, object]) -> bytes:
    """Return a request in a new session."""
    return session_request(session_id(client), method, params)


def session_request(session: str, method: str, params: Mapping[str, object]) -> bytes:
    """Return a request in a session."""
    body: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return post(
        _PATH,
        json.dumps(body).encode(),
        Mcp_Session_Id=session,
        MCP_Protocol_Version=_REVISION,
    )


def _empty(port: int) -> list[str]:
    options = ["--http", "httptools", "--log-level", "error", "--no-access-log"]
    application = "tests.benchmarks.empty_app:make"
    return [
        sys.executable, "-m", "uvicorn", "--factory", application, "--port", str(port), *options
    ]  # fmt: skip


def _rate(client: HttpClient, request: bytes, seconds: float) -> Callable[[], float]:
    return lambda: client.rate(request, window=CONNECTIONS, seconds=seconds)


def resident_kb(client: HttpClient) -> float:
    """Return the resident memory of a server."""
    for line in Path(f"/proc/{client.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise AssertionError("no resident memory")
