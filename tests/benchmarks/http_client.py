"""A load client for a server that answers HTTP/1.1: one request in flight on each connection."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from urllib.request import urlopen

from tests.benchmarks.client import ROOT

_HOST = "127.0.0.1"
_CHUNK = 1 << 20
_START_S = 20
_END = b"\r\n0\r\n\r\n"
"""Of a body in chunks (RFC 9112, 7.1)."""


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server((_HOST, 0)) as free:
        return int(free.getsockname()[1])


class HttpClient:
    """A server process that listens on a port of this machine; begins when it answers `GET /`."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self._port = port
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        until = time.perf_counter() + _START_S
        while True:
            try:
                self.get("/")
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
        with urlopen(f"http://{_HOST}:{self._port}{path}", timeout=_START_S) as answer:
            return answer.read()

    def rate(self, path: str, *, window: int, seconds: float) -> float:
        """Return how many requests are answered per second with `window` of them in flight.

        Raises:
            AssertionError: the answers are not all as long as the one before the clock started.
        """
        request = f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\n\r\n".encode()
        with ExitStack() as stack, selectors.DefaultSelector() as selector:
            connections = [
                stack.enter_context(socket.create_connection((_HOST, self._port)))
                for _ in range(window)
            ]
            expected = _exchange(connections[0], request)
            missing: dict[int, int] = {}
            begin = time.perf_counter()
            end = begin + seconds
            answered = 0
            for connection in connections:
                selector.register(connection, selectors.EVENT_READ)
                missing[connection.fileno()] = expected
                connection.sendall(request)
            while missing:
                for key, _ in selector.select():
                    chunk = os.read(key.fd, _CHUNK)
                    assert chunk, "the server has gone"
                    missing[key.fd] -= len(chunk)
                    if missing[key.fd] > 0:
                        continue
                    assert not missing[key.fd], f"{path}: not all answers have {expected} bytes"
                    assert chunk.endswith(_END[-len(chunk) :]), f"{path}: not the end of an answer"
                    answered += 1
                    if time.perf_counter() > end:
                        del missing[key.fd]
                        selector.unregister(key.fd)
                    else:
                        missing[key.fd] = expected
                        os.write(key.fd, request)
            return answered / (time.perf_counter() - begin)


def _exchange(connection: socket.socket, request: bytes) -> int:
    """Return how long the answer to a request is, in bytes."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(_END):
        chunk = connection.recv(_CHUNK)
        assert chunk, "the server has gone"
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:100]
    return len(answer)
