from __future__ import annotations

import gc
import json
import logging
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pytest

from resource_server.cli import main
from resource_server.runtime.timing import Timing
from tests.commands import command
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"TERM": "xterm", "PYTHONPATH": str(ROOT)}
"""Environment variables of the started processes."""
QUIET_S = 0.3
"""Longer than the last event of one change takes to follow the first."""


class Outcome(NamedTuple):
    status: int
    out: str
    err: str
    raw: bytes


Run: TypeAlias = Callable[..., Outcome]


PLUGIN = """
import os, sys, threading
from anyio import to_thread
from resource_server.provider import Content, Resource

print("imported"); os.write(1, b"imported\\n")

class Mine:
    templates = ()
    async def __aenter__(self):
        print("entered")
        {enter}
    async def __aexit__(self, *_): pass
    def list(self, parent, *, after, limit): return []
    def metadata(self, path):
        return Resource(path=path, name="x", type="document" if path else "collection")
    async def read(self, path, query):
        def hang():
            print("hanging", file=sys.stderr, flush=True)
            threading.Event().wait()
        await to_thread.run_sync(hang, abandon_on_cancel=True)
"""


def with_plugin(folder: Path, enter: str = "return self") -> Path:
    """Add to a folder a manifest with a root and a plugin that prints, and hangs when read."""
    (folder / "mine.py").write_text(PLUGIN.format(enter=enter), "utf-8")
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text("roots:\n  r: {path: docs}\nproviders:\n  mine: {use: mine.py}\n", "utf-8")
    return folder


@contextmanager
def started(
    *arguments: str | Path,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    timing: Timing | None = None,
) -> Generator[tuple[subprocess.Popen[str], IO[str]]]:
    """Run a command line in its own process; yield it and its standard error.

    The process is killed at the end.
    """
    with subprocess.Popen(
        [*command(timing), *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=ENVIRONMENT,
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr
        finally:
            process.kill()


def wait_for(line: str, errors: IO[str]) -> None:
    """Wait until a process has written this line to standard error."""
    assert any(each == f"{line}\n" for each in errors), f"ended without writing {line!r}"


class Lines:
    """The lines that a process writes to a stream, each awaited with a timeout."""

    def __init__(self, stream: IO[str]) -> None:
        self._queue = queue.Queue[str | None]()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        with suppress(ValueError):  # closed by whoever started the process
            for line in stream:
                self._queue.put(line.removesuffix("\n"))
        self._queue.put(None)

    def next(self) -> str:
        """Return the next line."""
        line = self._queue.get(timeout=PATIENCE_S)
        assert line is not None, "the stream has ended"
        return line

    def until(self, words: str) -> list[str]:
        """Return the lines up to the one that contains `words`."""
        lines = [self.next()]
        while words not in lines[-1]:
            lines.append(self.next())
        return lines

    def some(self, count: int) -> list[str]:
        """Return the next `count` lines, and any more that follow shortly."""
        return [self.next() for _ in range(count)] + self.rest(QUIET_S)

    def rest(self, within: float = PATIENCE_S) -> list[str]:
        """Return the lines until the stream ends, or until none arrives for `within` seconds."""
        lines: list[str] = []
        try:
            while (line := self._queue.get(timeout=within)) is not None:
                lines.append(line)
        except queue.Empty:
            assert within < PATIENCE_S, "the stream does not end"
        return lines


class Client:
    """An MCP client of `serve`, in a process of its own."""

    can: Mapping[str, Any] = {}
    """The client's capabilities."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.errors = Lines(errors)
        self.notifications: list[dict[str, Any]] = []
        """Notifications received before a response and not yet awaited."""
        self._to = process.stdin
        self._lines = Lines(process.stdout)
        self._id = 0
        info = {"name": "test", "version": "1"}
        asked = {"protocolVersion": "2025-11-25", "capabilities": self.can, "clientInfo": info}
        self.capabilities = self.request("initialize", **asked)["result"]["capabilities"]
        self.tell({"method": "notifications/initialized"})

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send any message."""
        self._to.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._to.flush()

    def send(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._id += 1
        self.tell({"id": self._id, "method": method, "params": params})
        return self._id

    def next(self) -> dict[str, Any]:
        """Return the next message."""
        return json.loads(self._lines.next())

    def answer(self, request_id: int) -> dict[str, Any]:
        """Return the response to a request: a result or an error."""
        while (message := self.next()).get("id") != request_id:
            self.notifications.append(message)
        return message

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its response."""
        return self.answer(self.send(method, **params))

    def listed(self) -> list[str]:
        """Return the URIs of all listed resources."""
        result = self.request("resources/list")["result"]
        assert "nextCursor" not in result
        return [resource["uri"] for resource in result["resources"]]

    def told(self) -> tuple[str, str | None]:
        """Return the next notification: its name, and the URI it is about."""
        message = self.notifications.pop(0) if self.notifications else self.next()
        name = message["method"].removeprefix("notifications/resources/")
        return name, message.get("params", {}).get("uri")

    def untold(self) -> list[str]:
        """Return the notifications not yet awaited, and those that follow shortly."""
        kept = [json.dumps(message) for message in self.notifications]
        return kept + self._lines.rest(QUIET_S)

    def end(self) -> list[str]:
        """Close the input; return the rest of standard error once the process has ended."""
        self._to.close()
        assert self.process.wait(PATIENCE_S) == 0
        return self.errors.rest()


@contextmanager
def connected(*arguments: str | Path, timing: Timing | None = None) -> Generator[Client]:
    """Serve a client that has gone through the handshake."""
    with started("serve", *arguments, stdin=subprocess.PIPE, timing=timing) as (process, errors):
        yield Client(process, errors)


def keep(folder: Path, manifest: str, name: str = "mcp-resources.yaml") -> None:
    """Write a manifest as editors do: atomically, over the previous one."""
    temporary = folder / f"{name}.tmp"
    temporary.write_text(manifest, "utf-8")
    temporary.replace(folder / name)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Let started processes be interrupted, even if the tests run in a shell's background.

    Such a shell ignores interrupts, and its processes inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def collections_as_before() -> Iterator[None]:
    """Collect garbage as before a command, or leftovers of a test would fail a later one."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def run(
    capfdbinary: pytest.CaptureFixture[bytes], logs_as_before: None, collections_as_before: None
) -> Run:
    """Run a command line in this process, with its output captured in files."""

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        assert isinstance(left.value.code, int)
        return Outcome(left.value.code, out.decode("utf-8", "replace"), err.decode(), out)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `project` with text, bytes, a collection and a file hidden by default."""
    top = tmp_path / "project"
    (top / "docs" / "deep").mkdir(parents=True)
    (top / "README.md").write_text("# Read me\n", "utf-8")
    (top / "docs" / "guide.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (top / "docs" / "deep" / "note.txt").write_text("grüße\n", "utf-8")
    (top / "blob.bin").write_bytes(bytes(range(256)) * 8)
    (top / ".env").write_text("TOKEN=1\n", "utf-8")
    return top


@pytest.fixture
def home(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, with `folder` as the current one, and no host on PATH."""
    home = tmp_path / "home"
    home.mkdir()
    for variable in "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR":
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(folder)
    return home


INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


LIST = {"id": 2, "method": "resources/list"}


def json_lines(*messages: Mapping[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def serve_command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "resource_server", "serve", *map(str, arguments)]


def serve(
    *arguments: str | Path, messages: tuple[Mapping[str, Any], ...] = (INITIALIZE, LIST)
) -> tuple[int, list[dict[str, Any]], str]:
    """Serve one client that sends `messages`; return the status, the responses and the errors."""
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            serve_command(*arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
            encoding="utf-8",
            cwd=ROOT,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        answers: list[dict[str, Any]] = []
        with suppress(BrokenPipeError):  # it has refused to start
            process.stdin.write(json_lines(*messages))
            process.stdin.flush()
        # The input stays open: at its end, a slow server gives up what it has not answered.
        for line in process.stdout:
            answers.append(json.loads(line))
            if len(answers) == len(messages):
                process.stdin.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        status = process.wait(PATIENCE_S)
        errors.seek(0)
        return status, answers, errors.read()
