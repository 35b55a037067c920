"""Grammar of HTTP connections: requests of every revision, pipelined, chunked, damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from tests.protocol.wire import ENVELOPE, EVERY, HANDSHAKE, MODERN
from tests.transports.program import BOTH
from tests.worlds.grammar import Dice, encoded, opening
from tests.worlds.ledger import Id, is_request

SESSION = "{session}"
"""In a header: the id of the session that was opened last."""
End: TypeAlias = Literal["wait", "half", "abort"]


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    chunk_bytes: int | None = None
    """Size of the chunks of a body of unknown length; None for a body with `Content-Length`."""

    def encoded(self, session: str) -> bytes:
        """Return the bytes of the request."""
        lines = [f"{self.method} {self.target} HTTP/1.1", "host: 127.0.0.1"]
        lines += [f"{name}: {value.replace(SESSION, session)}" for name, value in self.headers]
        body = self.body
        if self.chunk_bytes is not None:
            lines.append("transfer-encoding: chunked")
            size = self.chunk_bytes
            parts = [body[start : start + size] for start in range(0, len(body), size)]
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
        elif body or self.method == "POST":
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode("latin-1", "replace") + body

    @property
    def id(self) -> Id | None:
        """The id that its response must repeat, if it holds one request as JSON-RPC has it."""
        if self.method != "POST":
            return None
        try:
            message: object = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        found = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        id = found.get("id")
        is_owed = isinstance(id, str | int) and not isinstance(id, bool) and is_request(found)
        return id if is_owed else None


@dataclass(frozen=True)
class Damage:
    """Some bytes of a connection are removed, and others inserted."""

    start: int
    removed: int
    inserted: bytes


@dataclass(frozen=True)
class Connection:
    """All that is sent on one connection, in writes of so many bytes, and how it ends."""

    requests: tuple[Request, ...]
    damage: tuple[Damage, ...] = ()
    write_bytes: int = 65536
    end: End = "wait"

    def encoded(self, session: str) -> bytes:
        """Return what is sent."""
        data = b"".join(request.encoded(session) for request in self.requests)
        for each in self.damage:
            start = each.start % (len(data) + 1)
            data = data[:start] + each.inserted + data[start + each.removed :]
        return data


@dataclass(frozen=True)
class Http:
    """Connections to one server, one after the other."""

    connections: tuple[Connection, ...]


_ACCEPTS = (BOTH, BOTH, BOTH, BOTH, "application/json", "text/event-stream", "*/*", "x", "")
_TYPES = (*("application/json",) * 8, "application/json; charset=utf-8", "text/plain", "")
_TARGETS = (*("/mcp",) * 4, "/healthz", "/metrics", "/readyz", "/", "/sse", "/messages?session=x")
_METHODS = ("GET", "GET", "DELETE", "OPTIONS", "PUT")
_ODD_HEADERS = (
    ("expect", "100-continue"),
    ("expect", "200-maybe"),
    ("upgrade", "websocket"),
    ("upgrade", "h2c"),
    ("connection", "close"),
    ("connection", "upgrade"),
    ("connection", "keep-alive"),
    ("origin", "http://127.0.0.1"),
    ("origin", "https://evil.example"),
    ("host", "evil.example"),
    ("content-encoding", "gzip"),
    ("content-length", "5"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "identity"),
    ("authorization", "Bearer x"),
    ("last-event-id", "0-1"),
    ("last-event-id", "1-0"),
    ("last-event-id", "x" * 40),
    ("mcp-session-id", "x"),
    ("mcp-session-id", SESSION),
    ("mcp-param-x", "=?base64?eA==?="),
    ("x", "y" * 100),
)
_FRAMING = ("connection", "content-length", "expect", "host", "transfer-encoding", "upgrade")
"""Headers after which a connection may end, or its requests may be others than were meant."""
_JSON = (("accept", BOTH), ("content-type", "application/json"))


class HttpDice(Dice):
    """Draws connections from one source of randomness."""

    def http_request(self) -> Request:
        """Return a request whose headers usually fit."""
        request = self._post() if self.chance(0.75) else self._other()
        if self.chance(0.15):
            more = self.source.sample(_ODD_HEADERS, self.source.randrange(1, 4))
            return replace(request, headers=(*request.headers, *more))
        return request

    def _other(self) -> Request:
        method = self.choice(_METHODS)
        headers = (("accept", self.choice(_ACCEPTS)), ("mcp-session-id", SESSION))
        # A session that ends early would leave little to ask.
        method = "GET" if method == "DELETE" and self.chance(0.7) else method
        return Request(method, self.choice(_TARGETS), headers)

    def _post(self) -> Request:
        """Return a message in a session, without one, or stateless."""
        version = self.choice((*EVERY, *MODERN, *MODERN))
        headers = [("accept", self.choice(_ACCEPTS)), ("content-type", self.choice(_TYPES))]
        body = self.line(modern=version in MODERN)
        if version in MODERN:
            headers.append(("mcp-protocol-version", version))
            if self.chance(0.8):
                message = self.request(modern=True)
                body = encoded(message)
                headers += _repeated(message)
        else:
            headers += [("mcp-protocol-version", version)] if self.chance(0.2) else []
            headers += [("mcp-session-id", SESSION)] if self.chance(0.85) else []
        chunk_bytes = self.choice((1, 7, 100, 100_000)) if self.chance(0.3) else None
        return Request("POST", "/mcp", tuple(headers), body, chunk_bytes)

    def connection(self) -> Connection:
        """Return a connection with a few requests, sometimes damaged."""
        requests = tuple(self.http_request() for _ in range(self.source.randrange(1, 7)))
        damages = self.source.randrange(1, 4) if self.chance(0.2) else 0
        return Connection(
            requests,
            tuple(self._damage() for _ in range(damages)),
            self.choice((65536, 65536, 1000, 17)),
            self.choice(("wait", "wait", "wait", "wait", "half", "abort")),
        )

    def _damage(self) -> Damage:
        parts = (b"", b"\r\n", b"\n", b" ", b"\x00", b"\r\n\r\n", b":", b"0\r\n\r\n", b"\xff")
        return Damage(self.source.randrange(3000), self.source.randrange(6), self.choice(parts))

    def connections(self) -> tuple[Connection, ...]:
        """Return connections, of which the first opens a session."""
        first, _ = opening(self.initialization(self.choice(HANDSHAKE)))
        session = Connection((Request("POST", "/mcp", _JSON, first),))
        return (session, *(self.connection() for _ in range(self.source.randrange(1, 6))))


def _repeated(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the headers that repeat a request of 2026-07-28."""
    params: Mapping[str, Any] = message.get("params", {})
    named = {"mcp-method": message["method"], "mcp-name": params.get("uri", params.get("name"))}
    for header, value in named.items():
        if isinstance(value, str) and value.isprintable():
            yield header, value


def is_plain(connection: Connection) -> bool:
    """Return whether every request of a connection is framed as it was meant."""
    names = [name for request in connection.requests for name, _ in request.headers]
    return not connection.damage and not set(names) & set(_FRAMING)


def report(uri: str) -> Request:
    """Return a stateless read."""
    params = {"uri": uri, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params}
    headers = (*_JSON, ("mcp-protocol-version", MODERN[0]), *_repeated(message))
    return Request("POST", "/mcp", headers, encoded(message))


def deletion(session: str) -> Request:
    """Return the end of a session."""
    return Request("DELETE", "/mcp", (("mcp-session-id", session),))
