"""A load client for a server that answers HTTP/1.1: one request in flight on each connection."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.request import urlopen

from tests.benchmarks.client import ROOT, processor_s

_HOST = "127.0.0.1"
_CHUNK = 1 << 20
_START_S = 20
_END = b"\r\n0\r\n\r\n"
"""Of a body in chunks (RFC 9112, 7.1)."""


class Cost(NamedTuple):
    """What answers cost a server, one at a time."""

    per_second: float
    processor_ms: float
    """Processor time of the server for one."""


class HttpClient:
    """A server process that listens on a port of this machine; begins when it takes connections."""

    def __init__(self, command: Sequence[str], port: int, *, cwd: Path = ROOT) -> None:
        self.port = port
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd
        )
        until = time.perf_counter() + _START_S
        while True:
            try:
                socket.create_connection((_HOST, port)).close()
                break
            except OSError:
                assert self.process.poll() is None, "the server has gone"
                assert time.perf_counter() < until, "the server does not answer"
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> bytes:
        """Return the body of an answer."""
        with urlopen(f"http://{_HOST}:{self.port}{path}", timeout=_START_S) as answer:
            return answer.read()

    def ask(self, request: bytes) -> bytes:
        """Return the whole answer to a request."""
        with self.connect() as connection:
            return exchange(connection, request)

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection((_HOST, self.port))

    def cost(self, requests: Sequence[bytes], *, seconds: float) -> Cost:
        """Return the cost of answering these requests one after the other, again and again."""
        with self.connect() as connection:
            before, begin, answered = processor_s(self.process.pid), time.perf_counter(), 0
            while time.perf_counter() < begin + seconds:
                for request in requests:
                    exchange(connection, request)
                answered += 1
            took, now = time.perf_counter() - begin, processor_s(self.process.pid)
            return Cost(answered / took, (now - before) / answered * 1000)

    def rate(
        self,
        request: bytes | Callable[[socket.socket], bytes],
        *,
        window: int,
        seconds: float,
        port: int | None = None,
    ) -> float:
        """Return how many requests are answered per second with `window` of them in flight.

        They are sent to this port of a balancer, or to the server itself. A request may be made for
        each connection, such as one in a session that is begun there.

        Raises:
            AssertionError: the answers are not all as long as the last before the clock started.
        """
        with ExitStack() as stack, selectors.DefaultSelector() as selector:
            connections = [
                stack.enter_context(socket.create_connection((_HOST, port or self.port)))
                for _ in range(window)
            ]
            requests: dict[int, bytes] = {}
            expected = 0
            for each in connections:
                # The first of a server may be slow, and then a stream, which is longer.
                requests[each.fileno()] = request(each) if callable(request) else request
                expected = len(exchange(each, requests[each.fileno()]))
            missing: dict[int, int] = {}
            begin = time.perf_counter()
            end = begin + seconds
            answered = 0
            for connection in connections:
                selector.register(connection, selectors.EVENT_READ)
                missing[connection.fileno()] = expected
                connection.sendall(requests[connection.fileno()])
            while missing:
                for key, _ in selector.select():
                    chunk = os.read(key.fd, _CHUNK)
                    assert chunk, "the server has gone"
                    missing[key.fd] -= len(chunk)
                    if missing[key.fd] > 0:
                        continue
                    assert not missing[key.fd], f"not all answers have {expected} bytes"
                    answered += 1
                    if time.perf_counter() > end:
                        del missing[key.fd]
                        selector.unregister(key.fd)
                    else:
                        missing[key.fd] = expected
                        os.write(key.fd, requests[key.fd])
            return answered / (time.perf_counter() - begin)


def get(path: str) -> bytes:
    """Return the request for a path."""
    return f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\n\r\n".encode()


def post(path: str, body: bytes, **headers: str) -> bytes:
    """Return a request with a JSON body; `_` in the names of headers stands for `-`."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {_HOST}:80",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return the whole answer, with its head."""
    connection.sendall(request)
    answer = b""
    while not _is_whole(answer):
        chunk = connection.recv(_CHUNK)
        assert chunk, "the server has gone"
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]
    return answer


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return len(body) >= int(value)
    return answer.endswith(_END)
