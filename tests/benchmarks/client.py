"""A stdio load client: a window of requests in flight over raw pipes, every byte counted."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]

# Ids of one width, so that all replies to one request have one length.
_FIRST_ID = 10_000_000
_CHUNK = 1 << 20
_STOP_TIMEOUT_S = 10
_PING_EVERY_S = 0.002
_INFO: Json = {"name": "benchmark", "version": "1"}
_ENVELOPE: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": _INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Pinged(NamedTuple):
    """A result, and the milliseconds until it and at most until the answer to a ping meanwhile."""

    result: Json
    elapsed_ms: float
    longest_ping_ms: float


class Client:
    """A server process with an initialized session; `startup_s` is what it took to get there.

    With `modern` there is no session: each request has the envelope of 2026-07-28.
    """

    def __init__(self, command: Sequence[str], *, modern: bool = False, cwd: Path = ROOT) -> None:
        self._next_id = _FIRST_ID
        self._received = b""
        self._unasked: deque[bytes] = deque()
        """Lines that came while an answer was waited for, and were not it."""
        self._common: Json = {"_meta": _ENVELOPE} if modern else {}
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin = self.process.stdin.fileno()
        self._stdout = self.process.stdout.fileno()
        if modern:
            self.request("server/discover")
        else:
            self.request(
                "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=_INFO
            )
        self.startup_s = time.perf_counter() - begin
        if not modern:
            self._send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def request(self, method: str, **params: object) -> Json:
        """Return the result of one request."""
        answer = self.answer(method, **params)
        assert "result" in answer, f"{method}: {answer}"
        return answer["result"]

    def answer(self, method: str, **params: object) -> Json:
        """Return the answer to one request, which may be an error."""
        return json.loads(self._exchange(method, params))

    def pinged(self, method: str, **params: object) -> Pinged:
        """Return the result of one request, which is pinged every 2 ms until it is answered."""
        head, tail = self._halves(method, params)
        ping_head, ping_tail = self._halves("ping", {})
        wanted, self._next_id = self._next_id, self._next_id + 1
        sent_at: dict[int, float] = {}
        result: Json | None = None
        elapsed = longest = 0.0
        begin = time.perf_counter()
        self._send(b"%b%d%b" % (head, wanted, tail))
        while result is None or sent_at:
            pause = None if sent_at else _PING_EVERY_S
            if b"\n" not in self._received and not select.select([self._stdout], [], [], pause)[0]:
                sent_at[self._next_id] = time.perf_counter()
                self._send(b"%b%d%b" % (ping_head, self._next_id, ping_tail))
                self._next_id += 1
                continue
            line = self._receive_line()
            now = time.perf_counter()
            answer = json.loads(line)
            if answer.get("id") == wanted:
                result, elapsed = answer["result"], now - begin
            elif answer.get("id") in sent_at:
                longest = max(longest, now - sent_at.pop(answer["id"]))
            else:
                self._unasked.append(line)
        return Pinged(result, elapsed * 1_000, longest * 1_000)

    def rate(
        self, method: str, params: Mapping[str, object], *, window: int, seconds: float
    ) -> float:
        """Return how many requests are answered per second with `window` of them in flight.

        Raises:
            AssertionError: the replies are not all as long as the one before the clock started.
        """
        expected = len(self._exchange(method, params))
        assert not self._received
        head, tail = self._halves(method, params)
        answered = size = in_flight = 0
        to_send = window
        begin = time.perf_counter()
        end = begin + seconds
        while to_send or in_flight:
            if to_send:
                ids = range(self._next_id, self._next_id + to_send)
                self._next_id = ids.stop
                self._send(b"".join([b"%b%d%b" % (head, id, tail) for id in ids]))
            in_flight += to_send
            chunk = os.read(self._stdout, _CHUNK)
            assert chunk, "the server has gone"
            size += len(chunk)
            to_send = chunk.count(b"\n")
            answered += to_send
            in_flight -= to_send
            if time.perf_counter() > end:
                to_send = 0
        elapsed = time.perf_counter() - begin
        assert size == answered * expected, f"{method}: {answered} replies have {size} bytes"
        return answered / elapsed

    def together_s(self, method: str, each: Sequence[Json], *, window: int) -> float:
        """Return the seconds until all these requests are answered, so many of them at a time."""
        waiting: set[int] = set()
        begin = time.perf_counter()
        for params in each:
            head, tail = self._halves(method, params)
            waiting.add(self._next_id)
            self._send(b"%b%d%b" % (head, self._next_id, tail))
            self._next_id += 1
            if len(waiting) == window:
                self._take_one(waiting)
        while waiting:
            self._take_one(waiting)
        return time.perf_counter() - begin

    def _take_one(self, waiting: set[int]) -> None:
        while True:
            answer = json.loads(self._receive_line())
            if answer.get("id") in waiting:
                assert "result" in answer, answer
                waiting.remove(answer["id"])
                return

    def workers_mb(self) -> list[float]:
        """Return the memory of the server's own processes, in megabytes (Linux only)."""
        task = Path(f"/proc/{self.process.pid}/task")
        children = {
            child
            for each in task.iterdir()
            for child in (each / "children").read_text("ascii").split()
        }
        found: list[float] = []
        for child in children:
            status = Path(f"/proc/{child}/status").read_text("ascii")
            resident = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
            found += [int(resident[1]) / 1024] if resident else []
        return found

    def resident_mb(self) -> tuple[float, float]:
        """Return the memory of the server now and at its highest, in megabytes (Linux only)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        kilobytes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE))
        return int(kilobytes["VmRSS"]) / 1024, int(kilobytes["VmHWM"]) / 1024

    def processor_s(self) -> float:
        """Return the processor time that the server has taken so far."""
        return processor_s(self.process.pid)

    def idle_percent(self, seconds: float) -> float:
        """Return the share of a core that the server takes while nobody asks for anything."""
        before = self.processor_s()
        time.sleep(seconds)
        return (self.processor_s() - before) / seconds * 100

    def _exchange(self, method: str, params: Mapping[str, object]) -> bytes:
        head, tail = self._halves(method, params)
        wanted = self._next_id
        self._next_id += 1
        self._send(b"%b%d%b" % (head, wanted, tail))
        while True:
            line = self._receive_line()
            if json.loads(line).get("id") == wanted:
                return line
            self._unasked.append(line)

    def _halves(self, method: str, params: Mapping[str, object]) -> tuple[bytes, bytes]:
        message = {"method": method, "params": {**params, **self._common}}
        call = json.dumps(message, separators=(",", ":")).encode()
        return b'{"jsonrpc":"2.0","id":', b"," + call[1:] + b"\n"

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._stdin, data) :]

    def _receive_line(self) -> bytes:
        while b"\n" not in self._received:
            chunk = os.read(self._stdout, _CHUNK)
            assert chunk, "the server has gone"
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line + b"\n"


def processor_s(pid: int) -> float:
    """Return the processor time that a process has taken so far (`proc_pid_stat(5)`)."""
    stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
