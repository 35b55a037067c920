"""A proxy before a storage service, which fails in the ways that networks and services do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct


class Asked(NamedTuple):
    """One request for the service."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def is_listing(self) -> bool:
        return "list-type=2" in self.query

    @property
    def is_range(self) -> bool:
        return "range" in self.headers


class Answer(Struct):
    """What the proxy answers.

    `cut_at` ends the connection after some bytes of the body.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut_at: int | None = None
    wait: threading.Event | None = None


def refused(status: int, code: str) -> Answer:
    """Return an error as S3 writes it, with words that no message may repeat."""
    body = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>secret-words of key-of-tests"
        "</Message><RequestId>1</RequestId></Error>"
    )
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


Fault = Callable[[Asked], Answer | None]


class Proxy:
    """Forwards requests, unless `fault` answers them; `change` alters what comes back."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.asked: list[Asked] = []
        self.fault: Fault = lambda _: None
        self.change: Callable[[Asked, Answer], Answer] = lambda _, answer: answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, unquote(path), query, headers)
        proxy = cast("_Server", self.server).proxy
        proxy.asked.append(asked)
        answer = proxy.fault(asked) or proxy.change(asked, self._forwarded())
        with suppress(OSError):
            self._send(answer)

    do_HEAD = do_GET  # noqa: N815  its base names it

    def _forwarded(self) -> Answer:
        connection = http.client.HTTPConnection(cast("_Server", self.server).target, timeout=30)
        connection.request(self.command, self.path, headers=dict(self.headers.items()))
        found = connection.getresponse()
        body = found.read()
        kept = {k: v for k, v in found.getheaders() if k.lower() not in _OF_CONNECTIONS}
        if self.command == "HEAD":
            kept["Content-Length"] = found.headers["Content-Length"] or "0"
        connection.close()
        return Answer(found.status, body, kept)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: answer.cut_at])
        self.wfile.flush()
        if answer.wait is not None:
            answer.wait.wait()
        if answer.cut_at is not None:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(endpoint).netloc
        self.proxy = Proxy()
        self.proxy.endpoint = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def before(endpoint: str) -> Generator[Proxy]:
    """Run a proxy before a service."""
    server = _Server(endpoint)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_OF_CONNECTIONS = ("content-length", "connection", "transfer-encoding", "date", "server")
