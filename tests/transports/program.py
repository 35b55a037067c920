"""The real program on a port of this machine, and a client that can send it any bytes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import threading
import time
from array import array
from collections.abc import Callable, Generator, Mapping
from fcntl import ioctl
from pathlib import Path
from termios import TIOCOUTQ
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from tests.commands import command
from tests.protocol.wire import CLIENT, ENVELOPE, MODERN
from tests.waiting import PATIENCE_S, PATIENT, block_until

ROOT = Path(__file__).parents[2]
GATES = Path(__file__).with_name("gates.py")
PHONE = Path(__file__).with_name("phone.py")
_START_S = 60.0
"""A start takes the processor, which may be shared with much else."""
BOTH = "application/json, text/event-stream"
README = "file:///project/read%20me.md"
GATE, OPEN, STATE = "test://gates/gate/", "test://gates/open/", "test://gates/state/"
LARGE, MANY = "test://gates/large", "test://gates/many"

# Progress is told at most every so often; tests want all of it.
EACH_PROGRESS = {"progress_interval_s": 0.0}

_MANIFEST = """
version: 1
roots: {{project: {{path: project}}}}
providers: {{gates: {{use: {gates}, uri: "test://gates/"}}}}
http: {http}
"""
_SERVING = re.compile(r"serving at https?://\S+:(\d+)/mcp")


class Answer(NamedTuple):
    """An HTTP answer; of a stream only its head."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """The code of its JSON-RPC error."""
        return int(self.json["error"]["code"])


class Event(NamedTuple):
    """A server-sent event."""

    id: str | None
    data: str
    name: str = "message"
    retry: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def request(
    method: str = "POST",
    body: object = b"",
    *,
    path: str = "/mcp",
    version: str = "HTTP/1.1",
    **headers: Any,
) -> bytes:
    """Return a request, with a body if it is a POST.

    Headers that are None are left out; `_` in their names stands for `-`.
    """
    data = b"" if method != "POST" else body if isinstance(body, bytes) else _encoded(body)
    lines: dict[str, Any] = {"host": "127.0.0.1", "accept": BOTH}
    if method == "POST":
        lines |= {"content-type": "application/json", "content-length": str(len(data))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = [f"{method} {path} {version}"]
    head += [f"{name}: {value}" for name, value in lines.items() if value is not None]
    return "\r\n".join((*head, "", "")).encode("latin-1") + data


def _encoded(body: object) -> bytes:
    return json.dumps(body).encode()


def message(method: str, params: Mapping[str, Any] | None = None, id: object = 1) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Any:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def initialize(revision: str, id: object = 1) -> Any:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
    return message("initialize", params, id)


def read(uri: str, id: object = 1) -> Any:
    return message("resources/read", {"uri": uri}, id)


def modern(
    method: str, params: Mapping[str, Any] | None = None, id: object = 1, **headers: Any
) -> bytes:
    """Return a request of the stateless revision."""
    asked = dict(params or {})
    named = {"mcp_name": asked.get("uri")} if method == "resources/read" else {}
    body = message(method, {**asked, "_meta": {**ENVELOPE, **asked.get("_meta", {})}}, id)
    said: dict[str, Any] = {"mcp_protocol_version": MODERN[0], "mcp_method": method, **named}
    return request("POST", body, **{**said, **headers})


class RawConnection:
    """One connection to the program."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        source: str | None = None,
        receive: int | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(PATIENCE_S)
        if receive is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect((host, port))
        self.primer = Event("", "")
        self._received = b""
        self._chunks = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def takes(self, data: bytes, times: int) -> bool:
        """Send data repeatedly; return whether the other side keeps the connection open."""
        try:
            for _ in range(times):
                self.send(data)
        except ConnectionError:
            return False
        return True

    def ask(self, data: bytes) -> Answer:
        """Send a request and return its answer."""
        self.send(data)
        return self.answer(bodiless=data.startswith(b"HEAD "))

    def answer(self, *, bodiless: bool = False) -> Answer:
        """Return the next answer, whole unless it is a stream."""
        head, _, rest = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), lines
        self._received = rest
        status = int(first.split()[1])
        if "transfer-encoding" in headers or bodiless:
            return Answer(status, headers)
        length = int(headers.get("content-length", "0"))
        while len(self._received) < length:
            self._more()
        body, self._received = self._received[:length], self._received[length:]
        return Answer(status, headers, body)

    def event(self) -> Event:
        """Return the next event of the stream that has begun; comments are skipped."""
        while True:
            block = self.block()
            fields = [line.split(": ", 1) for line in block.split("\n") if line[:1] != ":"]
            found = {name.rstrip(":"): "".join(value) for name, *value in fields}
            if found:
                return Event(
                    found.get("id"),
                    found["data"],
                    found.get("event", "message"),
                    found.get("retry"),
                )

    def block(self) -> str:
        """Return the next lines of the stream, up to an empty one.

        Raises:
            EOFError: the stream has ended.
        """
        while b"\n\n" not in self._chunks:
            size = int(self._until(b"\r\n").split(b"\r\n", 1)[0], 16)
            self._received = self._received.partition(b"\r\n")[2]
            while len(self._received) < size + 2:
                self._more()
            self._chunks += self._received[:size]
            self._received = self._received[size + 2 :]
            if size == 0:
                assert not self._chunks
                raise EOFError
        block, _, self._chunks = self._chunks.partition(b"\n\n")
        return block.decode()

    def events(self) -> list[Event]:
        """Return all events to the end of the stream."""
        found: list[Event] = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(self.event())
        return found

    def is_closed(self) -> bool:
        """Wait until the other side closes the connection; False where it sends something."""
        return self.rest() == 0

    def begins(self) -> None:
        """Wait until something comes, and leave it there."""
        assert select.select([self.socket], [], [], PATIENCE_S)[0]

    def rest(self) -> int:
        """Return how many bytes more come until the other side closes the connection."""
        count = 0
        with contextlib.suppress(ConnectionResetError):
            while data := self.socket.recv(1 << 16):
                count += len(data)
        return count

    def _until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._more()
        return self._received

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._received += data


class Program:
    """A running `resource-server serve MANIFEST --http 127.0.0.1:0`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        """The folder served as `file:///project/`."""
        self.errors: list[str] = []
        self.port = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._started = threading.Event()
        self._reading.start()
        assert self._started.wait(_START_S), self.errors
        assert self.port, self.errors

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def line(self, **options: Any) -> RawConnection:
        """Connect to it."""
        return RawConnection(self.port, **options)

    @contextlib.contextmanager
    def lines(self, count: int, **options: Any) -> Generator[list[RawConnection]]:
        """Open that many connections."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.line(**options)) for _ in range(count)]

    def has_read(self, *lines: RawConnection) -> None:
        """Wait until it has read everything that these connections sent."""
        unsent = array("i", [0])
        for line in lines:
            block_until(lambda: ioctl(line.socket, TIOCOUTQ, unsent) or not unsent[0])  # noqa: B023
        for _ in range(20):  # With each of these it reads a part of what is there.
            assert self.ask(request("GET", path="/healthz")).status == 200

    def ask(self, data: bytes) -> Answer:
        """Send one request by a connection of its own."""
        with self.line() as line:
            return line.ask(data)

    def session(self, revision: str = "2025-11-25") -> Session:
        """Begin a session of a handshake revision."""
        opened = self.ask(request("POST", initialize(revision)))
        session = Session(self, opened.headers["mcp-session-id"], revision)
        assert session.post(notification("notifications/initialized")).status == 202
        return session

    def read(self, uri: str) -> str:
        """Read a document, in the stateless revision."""
        return str(
            self.ask(modern("resources/read", {"uri": uri})).json["result"]["contents"][0]["text"]
        )

    def until(self, claim: Callable[[], bool]) -> None:
        """Ask until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not claim():
            assert time.monotonic() < deadline

    def waiting(self, name: str, *, readers: int = 1) -> None:
        """Wait for that many readers of `gate/NAME`."""
        self.until(lambda: self.read(STATE + name).startswith(f"{readers} waiting"))

    def memory(self) -> int:
        """Return the bytes of memory that it has in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def sockets(self) -> int:
        """Return how many sockets it has open."""
        found = 0
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found += str(file.readlink()).startswith("socket:")
        return found

    def end(self, number: int | None = None) -> int:
        """Send a signal, if any, and return the status with which it ends."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        return status

    def close(self) -> None:
        """Close its standard error; the program has ended."""
        self._reading.join(PATIENCE_S)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            if found := _SERVING.search(line):
                self.port = int(found[1])
                self._started.set()
            else:
                self.errors.append(line)
        self._started.set()


class Session:
    """A session of a handshake revision, each request by a connection of its own."""

    def __init__(self, program: Program, id: str, revision: str) -> None:
        self.program = program
        self.id = id
        self.revision = revision

    def request(self, method: str, body: object = b"", **headers: Any) -> bytes:
        """Return a request in this session."""
        return request(method, body, **{"mcp_session_id": self.id, **headers})

    def post(self, body: object, **headers: Any) -> Answer:
        """Send a message."""
        return self.program.ask(self.request("POST", body, **headers))

    @contextlib.contextmanager
    def stream(
        self,
        method: str = "GET",
        body: object = b"",
        *,
        receive: int | None = None,
        **headers: Any,
    ) -> Generator[RawConnection]:
        """Open a stream, which has begun; the event that primes it, if any, is its `primer`."""
        with self.program.line(receive=receive) as line:
            opened = line.ask(self.request(method, body, **headers))
            assert opened.status == 200, opened
            assert opened.headers["content-type"] == "text/event-stream"
            if self.revision >= "2025-11-25":
                line.primer = line.event()
                assert line.primer.data == ""
            yield line


@contextlib.contextmanager
def running(
    manifest: Path,
    *options: str,
    http: str = "127.0.0.1:0",
    timing: Mapping[str, float] | None = None,
    code: str = "",
    env: Mapping[str, str] | None = None,
) -> Generator[Program]:
    """Run `resource-server serve MANIFEST --http …`.

    `timing` has other members of `Timing` than `PATIENT`, `code` is Python that runs before, for
    the few limits that nothing else can shorten, `env` is added to the environment.
    """
    process = subprocess.Popen(
        [
            *command(replace(PATIENT, **(timing or {})), code),
            "serve",
            str(manifest),
            "--http",
            http,
            *options,
        ],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        text=True,
    )
    started: Program | None = None
    try:
        started = Program(process, manifest.parent / "project")
        yield started
    finally:
        process.kill()
        process.wait()
        if started is not None:
            started.close()


@contextlib.contextmanager
def serving(
    place: Path,
    *options: str,
    http: str = "{}",
    timing: Mapping[str, float] | None = None,
    code: str = "",
) -> Generator[Program]:
    """Run the program with a folder and gates; `http` is that section of its manifest."""
    folder = place / "project"
    folder.mkdir(exist_ok=True)
    (folder / "read me.md").write_text("# Hällo\n", encoding="utf-8")
    manifest = place / "mcp-resources.yaml"
    manifest.write_text(_MANIFEST.format(gates=GATES, http=http))
    with running(manifest, *options, timing=timing, code=code) as program:
        yield program


def project(place: Path, http: str = "{}", more: str = "", provider: Path = PHONE) -> Path:
    """Write a manifest with a folder and a phone, or another provider; `more` is YAML below it."""
    (place / "project").mkdir()
    (place / "project" / "read me.md").write_text("# Hello\n")
    manifest = place / "mcp-resources.yaml"
    manifest.write_text(
        f"roots: {{project: {{path: project}}}}\n"
        f'providers: {{phone: {{use: {provider}, uri: "test://phone/"}}}}\n'
        f"http: {http}\n{more}"
    )
    return manifest
