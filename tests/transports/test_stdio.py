"""Standard input and output of a real process, and the splitting of bytes into lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.transports.stdio import MAX_MESSAGE_BYTES, LineEnds, LineSplitter
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes, signals and /proc of POSIX")

ROOT = Path(__file__).parents[2]
SERVER = """
import asyncio, os, subprocess, sys
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.transports import stdio
from tests.providers_for_tests import Gate, Leaf, SlowTree, Tree, WatchedTree

class Noisy(Tree):
    def read(self, path, query):
        if path == ("loud",):
            print("printed by print")
            os.write(1, b"written to descriptor 1\\n")
            subprocess.run(["echo", "echoed by a child"], check=True)
            print("read:", repr(sys.stdin.read()), flush=True)
        return super().read(path, query)

class Late(SlowTree):
    async def read(self, path, query):
        if path != ("huge",):
            await asyncio.sleep({limit} / 4 if path == ("late",) else 1000)
        return await super().read(path, query)

class Churning(WatchedTree):
    # To read `churn` changes all 16 times, each time as soon as it would be told again.
    async def read(self, path, query):
        if path == ("churn",):
            self.churning = asyncio.create_task(self.churn())
        return super().read(path, query)

    async def churn(self):
        for length in range(16):
            for name in self.nodes:
                self.set(name, to="x" * length)
            await asyncio.sleep(0.06)
        os.write(2, b"churned\\n")

TREES = [
    Noisy({{"loud": "quiet", "small": "x", "large": "y" * 30_000}}),
    Late({{"late": "at last", "never": "", "huge": "z" * 500_000}}),
    Churning({{"churn": ""}} | {{"é" * 200 + str(number): "old" for number in range(2000)}}),
]

async def main(reader, writer):
    names = ("one", "two", "three")
    mounts = [Mount(n, f"test://{{n}}/", tree) for n, tree in zip(names, TREES)]
    async with Server(Catalog(mounts)) as server:
        await server.catalog.start()
        await stdio.serve(server, reader, writer)

stdio._DRAIN_S = stdio._FLUSH_S = {limit}
stdio._HIGH_WATER_BYTES = {high_water}
descriptors = stdio.claim()
asyncio.run(main(*descriptors))
"""

LOUD, SMALL, LARGE = "test://one/loud", "test://one/small", "test://one/large"
LATE, NEVER, HUGE = "test://two/late", "test://two/never", "test://two/huge"
CHURN = "test://three/churn"
CHURNED = ["test://three/" + "%C3%A9" * 200 + str(number) for number in range(2000)]


def message(method: str, id: object = None, **params: Any) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(body if id is None else {**body, "id": id}).encode() + b"\n"


INITIALIZE = message(
    "initialize",
    "init",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "tests", "version": "0"},
)


class Process:
    """A server in a process of its own: raw bytes in, raw lines out, each step within a bound."""

    def __init__(
        self,
        *,
        limit: float = 2.0,
        high_water: int = 1 << 20,
        stdin: Any = subprocess.PIPE,
        opens: bool = True,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER.format(limit=limit, high_water=high_water)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._buffer = b""
        if stdin == subprocess.PIPE and opens:
            self.send(INITIALIZE)
            assert self.reply()["id"] == "init"

    @property
    def stdout(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, data: bytes) -> None:
        """Write all of it, reading what comes meanwhile: so neither side can wait for the other."""
        assert self.process.stdin is not None
        fd = self.process.stdin.fileno()
        rest = memoryview(data)
        while rest:
            readable, writable, _ = self._select([self.stdout], [fd])
            if readable:
                self._buffer += os.read(self.stdout, 1 << 20)
            if writable:
                rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]

    def stuff(self, messages: Iterator[bytes]) -> tuple[int, bytes]:
        """Write messages until the server takes no more, and read nothing.

        Returns how many were begun, and what is left of the last.
        """
        assert self.process.stdin is not None
        fd = self.process.stdin.fileno()
        os.set_blocking(fd, False)
        begun, rest = 0, b""
        while select.select([], [fd], [], 0.2)[1]:
            if not rest:
                begun, rest = begun + 1, next(messages)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(fd, rest) :]
        return begun, rest

    def end(self) -> None:
        """Close the server's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def replies(self) -> Iterator[Any]:
        """Give each reply as it arrives, until the server closes its output."""
        while True:
            *lines, self._buffer = self._buffer.split(b"\n")
            yield from map(json.loads, lines)
            self._select([self.stdout], [])
            data = os.read(self.stdout, 1 << 20)
            if not data:
                assert self._buffer == b""
                return
            self._buffer += data

    def reply(self) -> Any:
        """Return the next reply."""
        while b"\n" not in self._buffer:
            self._select([self.stdout], [])
            data = os.read(self.stdout, 1 << 20)
            assert data, self.errors()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def errors(self) -> str:
        """Return all of standard error, once the process has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def code(self) -> int:
        """Wait for the end of the process; return its exit code."""
        return self.process.wait(PATIENCE_S)

    def memory(self, row: str) -> int:
        """Return a row of /proc/<pid>/status, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(f"{row}:"))
        return int(line.split()[1]) * 1024

    def settled(self, row: str) -> int:
        """Return a row once it has stopped growing."""
        found, last = self.memory(row), -1
        while found != last:
            threading.Event().wait(0.1)
            found, last = self.memory(row), found
        return found

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _select(self, read: list[int], write: list[int]) -> tuple[Any, Any, Any]:
        ready = select.select(read, write, [], PATIENCE_S)
        assert any(ready), "the server is silent"
        return ready


Start: TypeAlias = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def run(**options: Any) -> Process:
        started.append(Process(**options))
        return started[-1]

    yield run
    for process in started:
        process.kill()


# -- the descriptors


def test_plugins_can_neither_write_to_the_client_nor_read_from_it(start: Start) -> None:
    server = start()
    server.send(message("resources/read", 1, uri=LOUD) + message("ping", 2))
    assert server.reply()["result"]["contents"][0]["text"] == "quiet"
    assert server.reply() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    server.end()
    assert list(server.replies()) == []
    assert server.code() == 0
    assert sorted(server.errors().splitlines()) == [
        "echoed by a child",
        "printed by print",
        "read: ''",
        "written to descriptor 1",
    ]


# -- the end


def test_end_of_input_ends_the_process(start: Start) -> None:
    server = start()
    server.end()
    assert list(server.replies()) == []
    assert (server.code(), server.errors()) == (0, "")


def test_requests_in_flight_at_end_of_input_complete(start: Start) -> None:
    server = start()
    server.send(message("resources/read", 1, uri=LATE))
    server.end()
    (reply,) = server.replies()
    assert reply["result"]["contents"][0]["text"] == "at last"
    assert (server.code(), server.errors()) == (0, "")


def test_slow_requests_at_end_of_input_are_abandoned(start: Start) -> None:
    server = start(limit=0.1)
    server.send(message("resources/read", 1, uri=NEVER) + message("ping", 2))
    server.end()
    assert [reply["id"] for reply in server.replies()] == [2]
    assert (server.code(), server.errors()) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_despite_requests_in_flight(
    start: Start, number: signal.Signals
) -> None:
    server = start(limit=1000)
    server.send(message("resources/read", 1, uri=NEVER) + message("ping", 2))
    assert server.reply()["id"] == 2
    server.process.send_signal(number)
    assert list(server.replies()) == []
    assert (server.code(), server.errors()) == (0, "")


def test_a_signal_during_the_last_responses_ends_the_process(start: Start) -> None:
    server = start(limit=1000)
    server.send(message("resources/read", 1, uri=NEVER) + message("ping", 2))
    assert server.reply()["id"] == 2
    server.end()
    server.settled("VmHWM")
    server.process.send_signal(signal.SIGTERM)
    assert list(server.replies()) == []
    assert (server.code(), server.errors()) == (0, "")


def test_a_client_that_disconnects_ends_the_process(start: Start) -> None:
    server = start(limit=1000)
    server.send(message("resources/read", 1, uri=NEVER))
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert server.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        server.process.stdin.write(message("ping", 2))
    assert (server.code(), server.errors()) == (0, "")


# -- what comes in


def test_garbage_is_refused_and_the_next_request_is_served(start: Start) -> None:
    server = start()
    server.send(b"\x00\xff garbage\n\n \t\r\n{}\n" + message("ping", 1).replace(b"\n", b"\r\n"))
    assert [server.reply().get("error", {}).get("code") for _ in range(3)] == [-32700, -32600, None]


def test_a_line_of_100_megabytes_is_refused_once_and_discarded(start: Start) -> None:
    server = start()
    before = server.memory("VmHWM")
    for _ in range(100):
        server.send(b"a" * 1_000_000)
    server.send(b"\n" + message("ping", 1))
    assert server.reply()["error"]["code"] == -32600
    assert server.reply()["result"] == {}
    assert server.memory("VmHWM") - before < 4 * MAX_MESSAGE_BYTES


@pytest.mark.guarantee("any-input-is-answered")
def test_the_longest_message_is_served(start: Start) -> None:
    server = start()
    whole = message("ping", 1, padding="")
    padding = b"a" * (MAX_MESSAGE_BYTES - len(whole) + 1)
    server.send(whole.replace(b'"padding": ""', b'"padding": "%b"' % padding))
    assert server.reply()["result"] == {}
    server.send(whole.replace(b'"padding": ""', b'"padding": "%ba"' % padding))
    assert server.reply()["error"]["code"] == -32600


def test_ten_thousand_pipelined_requests_are_all_answered_in_order(start: Start) -> None:
    server = start()
    server.send(b"".join(message("ping", n) for n in range(10_000)))
    server.end()
    assert [reply["id"] for reply in server.replies()] == list(range(10_000))
    assert server.code() == 0


def test_input_is_paused_while_the_client_does_not_read(start: Start) -> None:
    server = start()
    before = server.memory("VmRSS")
    begun, rest = server.stuff(message("resources/read", n, uri=LARGE) for n in itertools.count())
    assert server.memory("VmHWM") - before < 32 << 20
    server.send(rest)
    server.end()
    assert [reply["id"] for reply in server.replies()] == list(range(begun))
    assert (server.code(), server.errors()) == (0, "")


@pytest.mark.guarantee("any-input-is-answered")
def test_responses_do_not_accumulate_for_a_client_that_never_reads(
    start: Start,
) -> None:
    server = start()
    before = server.memory("VmRSS")
    server.send(b"".join(message("resources/read", n, uri=HUGE) for n in range(200)))
    assert server.settled("VmHWM") - before < 80 << 20
    server.end()
    assert sorted(reply["id"] for reply in server.replies()) == list(range(200))
    assert (server.code(), server.errors()) == (0, "")


@pytest.mark.parametrize("ending", [b"", b"\r\n"])
def test_a_regular_file_is_served_to_its_end(start: Start, tmp_path: Path, ending: bytes) -> None:
    requests = INITIALIZE + message("resources/read", 1, uri=LATE) + message("ping", 2)
    (tmp_path / "requests").write_bytes(requests.rstrip(b"\n") + ending)
    with (tmp_path / "requests").open("rb") as file:
        server = start(stdin=file)
    assert sorted(str(reply["id"]) for reply in server.replies()) == ["1", "2", "init"]
    assert (server.code(), server.errors()) == (0, "")


def test_an_empty_standard_input_ends_the_process(start: Start) -> None:
    server = start(stdin=subprocess.DEVNULL)
    assert list(server.replies()) == []
    assert (server.code(), server.errors()) == (0, "")


def test_a_large_file_of_requests_is_read_only_as_fast_as_responses_drain(
    start: Start, tmp_path: Path
) -> None:
    count = 3000
    padded = b"".join(message("resources/read", n, uri=LARGE, x="x" * 9000) for n in range(count))
    (tmp_path / "requests").write_bytes(INITIALIZE + padded)
    with (tmp_path / "requests").open("rb") as file:
        server = start(stdin=file)
    assert server.reply()["id"] == "init"
    before = server.memory("VmHWM")
    for number in range(count):
        assert server.reply()["id"] == number
    assert server.memory("VmHWM") - before < 16 << 20
    assert list(server.replies()) == []
    assert server.code() == 0


def test_a_slow_reader_gets_every_response_after_its_end_of_input(
    start: Start,
) -> None:
    server = start(limit=0.5)
    asked = b"".join(message("resources/read", n, uri=LARGE) for n in range(20))
    assert server.process.stdin is not None
    server.process.stdin.write(asked.rstrip(b"\n"))
    server.end()
    pause = threading.Event()
    for number in range(20):
        pause.wait(0.05)
        assert server.reply()["id"] == number
    assert list(server.replies()) == []
    assert server.code() == 0


def test_a_last_request_that_arrives_under_backpressure_completes(
    start: Start,
) -> None:
    server = start(high_water=1)
    # Two of these answers fit into a pipe; with the third the client has more than it should.
    asked = [message("resources/read", n, uri=LARGE) for n in range(3)]
    assert server.process.stdin is not None
    server.process.stdin.write(b"".join(asked) + message("resources/read", 3, uri=LATE).rstrip())
    server.end()
    server.settled("VmHWM")
    assert [reply["id"] for reply in server.replies()] == [0, 1, 2, 3]
    assert (server.code(), server.errors()) == (0, "")


# -- notifications


def listen(id: object, *uris: str) -> bytes:
    envelope: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
    return message("subscriptions/listen", id, _meta=envelope, notifications=wanted)


@pytest.mark.parametrize("ending", ["input", "signal"])
def test_shutdown_completes_every_listen(start: Start, ending: str) -> None:
    server = start(limit=1000, opens=False)
    server.send(listen("a", CHURNED[0]) + listen(2))
    for _ in range(2):
        assert server.reply()["method"] == "notifications/subscriptions/acknowledged"
    if ending == "input":
        server.end()
    else:
        server.process.send_signal(signal.SIGTERM)
    answers = list(server.replies())
    assert len(answers) == 2
    assert {each["id"] for each in answers} == {"a", 2}
    assert all(each["result"]["resultType"] == "complete" for each in answers)
    assert (server.code(), server.errors()) == (0, "")


def test_notifications_do_not_accumulate_for_a_client_that_never_reads(start: Start) -> None:
    server = start()
    for uri in CHURNED:
        server.send(message("resources/subscribe", uri, uri=uri))
        assert server.reply()["result"] == {}
    before = server.memory("VmHWM")
    server.send(message("resources/read", "churn", uri=CHURN))
    assert server.process.stderr is not None
    assert server.process.stderr.readline() == b"churned\n"
    # All of it would be more than 40 MB.
    assert server.memory("VmHWM") - before < 16 << 20
    server.send(message("ping", "now"))
    told = list(iter(server.reply, {"jsonrpc": "2.0", "id": "now", "result": {}}))
    assert len(told) < 3 * len(CHURNED)
    server.end()
    told += server.replies()
    assert {each["params"]["uri"] for each in told if "method" in each} == set(CHURNED)
    assert (server.code(), server.errors()) == (0, "")


# -- lines

PIECES = st.lists(st.sampled_from([b"", b"a", b"b" * 5, b" ", b"\r", b"c" * 20]), max_size=4)


@given(
    lines=st.lists(PIECES.map(b"".join), max_size=8),
    last=PIECES.map(b"".join),
    data=st.data(),
)
def test_lines_are_the_same_for_every_chunking_of_the_stream(
    lines: list[bytes], last: bytes, data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines) + last
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    splitter, found = LineSplitter(20), list[bytes | LineEnds]()
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[begin:end])
    found += splitter.end()
    tails = [each.tail if isinstance(each, LineEnds) else each for each in found]
    expected = [line if len(line) > 20 else line.strip() for line in [*lines, last]]
    assert tails == [line for line in expected if line != b""]


@given(data=st.binary(), cut=st.integers(0, 50))
def test_no_bytes_are_lost_or_added(data: bytes, cut: int) -> None:
    splitter = LineSplitter(1000)
    found = splitter.feed(data[:cut]) + splitter.feed(data[cut:]) + splitter.end()
    assert found == [line.strip() for line in data.split(b"\n") if line.strip()]


def test_an_overlong_line_is_reported_once_by_its_ends() -> None:
    splitter = LineSplitter(3000)
    for part in (b"a" * 1000, b"b" * 1000, b"c" * 5000, b"d" * 5000, b"e"):
        assert splitter.feed(part) == []
    ends = LineEnds(b"a" * 1000 + b"b" * 24, b"d" * 1023 + b"e")
    assert splitter.feed(b"\nabc\n") == [ends, b"abc"]
    assert splitter.end() == []


def test_a_message_over_the_limit_is_answered_with_its_id(start: Start) -> None:
    server = start()
    text = b"x" * (MAX_MESSAGE_BYTES + 1)
    for begin, end, expected in (
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"', b'"}}', 7),
        (b'{"method":"ping","params":{"x":"', b'"},"jsonrpc":"2.0","id":"q-1"}', "q-1"),
        (b'{"params":{"x":"', b'"}, "id": -3, "method": "ping"}\r', -3),
        # An id of a response is one of ours; others are not the message's own.
        (b'{"result":{"x":"', b'"},"jsonrpc":"2.0","id":7}', None),
        (b'{"method":"ping","params":{"x":"', b'","id":7}}', None),
        (b'{"method":"ping","params":"', b',\\"id\\":7}"}', None),
        (b'[{"id":7,"method":"ping","params":{"x":"', b'"}}]', None),
        (b"", b"", None),
    ):
        server.send(begin + text + end + b"\n")
        refused = server.reply()
        assert (refused["id"], refused["error"]["code"]) == (expected, -32600), begin
    server.send(message("ping", 1))
    assert server.reply()["result"] == {}


def test_a_byte_order_mark_before_initialize_is_skipped(start: Start, tmp_path: Path) -> None:
    # As PowerShell writes one to a pipe.
    (tmp_path / "requests").write_bytes(b"\xef\xbb\xbf" + INITIALIZE)
    with (tmp_path / "requests").open("rb") as file:
        server = start(stdin=file)
    assert [reply["id"] for reply in server.replies()] == ["init"]
