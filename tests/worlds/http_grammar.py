"""Grammar of HTTP connections: requests of every revision, pipelined, chunked, damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from tests.protocol.wire import CLIENT, ENVELOPE, EVERY, HANDSHAKE, MODERN
from tests.transports.program import BOTH
from tests.worlds import grammar
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
            message: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        is_owed = isinstance(message, dict) and isinstance(message.get("id"), str | int)
        return message["id"] if is_owed and is_request(message) else None


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


_ACCEPTS = st.sampled_from((BOTH, BOTH, BOTH, "application/json", "text/event-stream", "*/*", "x"))
_TYPES = st.sampled_from(
    ("application/json", "application/json", "application/json; charset=utf-8", "text/plain", "")
)
_ODD_HEADERS = st.sampled_from(
    (
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
        ("last-event-id", "x" * 300),
        ("mcp-session-id", "x"),
        ("mcp-session-id", SESSION),
        ("mcp-param-x", "=?base64?eA==?="),
        ("x", "y" * 5000),
    )
)
_FRAMING = ("connection", "content-length", "expect", "host", "transfer-encoding", "upgrade")
"""Headers after which a connection may end, or its requests may be others than were meant."""


@st.composite
def _posts(draw: st.DrawFn) -> Request:
    """Messages in a session, without one, or stateless, with headers that usually fit."""
    version = draw(st.sampled_from((*EVERY, *MODERN, *MODERN)))
    is_modern = version in MODERN
    headers = [("accept", draw(_ACCEPTS)), ("content-type", draw(_TYPES))]
    body = draw(grammar.lines(modern=is_modern))
    if is_modern:
        message = draw(grammar.requests(modern=True))
        params: dict[str, Any] = message["params"]
        if draw(st.integers(0, 4)):
            body = grammar.encoded(message)
            name = params.get("uri" if "uri" in params else "name")
            headers += [("mcp-protocol-version", version), ("mcp-method", message["method"])]
            if isinstance(name, str) and name.isprintable():
                headers.append(("mcp-name", name))
        else:
            headers.append(("mcp-protocol-version", version))
    else:
        headers += [("mcp-protocol-version", version)] if draw(st.booleans()) else []
        headers += [("mcp-session-id", SESSION)] if draw(st.integers(0, 4)) else []
    return Request("POST", "/mcp", tuple(headers), body, draw(_chunks))


_chunks = st.none() | st.sampled_from((1, 7, 100, 100_000))


def _opening(revision: str) -> Request:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = (("accept", BOTH), ("content-type", "application/json"))
    return Request("POST", "/mcp", headers, grammar.encoded(message))


_others = st.one_of(
    st.builds(
        Request,
        st.sampled_from(("GET", "DELETE", "OPTIONS", "PUT", "GET")),
        st.sampled_from(
            ("/mcp", "/mcp", "/healthz", "/metrics", "/readyz", "/", "/sse", "/messages?session=x")
        ),
        st.just((("accept", BOTH), ("mcp-session-id", SESSION))),
    ),
)


@st.composite
def _requests(draw: st.DrawFn) -> Request:
    request = draw(st.one_of(_posts(), _posts(), _others))
    if draw(st.integers(0, 5)) == 0:
        more = draw(st.lists(_ODD_HEADERS, min_size=1, max_size=3))
        headers = (*request.headers, *more)
        return Request(
            request.method, request.target, headers, request.body, request.chunk_bytes
        )
    return request


def is_plain(connection: Connection) -> bool:
    """Return whether every request of a connection is framed as it was meant."""
    names = [name for request in connection.requests for name, _ in request.headers]
    return not connection.damage and not set(names) & set(_FRAMING)


_damages = st.builds(
    Damage,
    st.integers(0, 3000),
    st.integers(0, 6),
    st.sampled_from((b"", b"\r\n", b"\n", b" ", b"\x00", b"\r\n\r\n", b":", b"0\r\n\r\n"))
    | st.binary(max_size=4),
)
_connections = st.builds(
    Connection,
    st.lists(_requests(), min_size=1, max_size=5).map(tuple),
    st.one_of(st.just(()), st.just(()), st.lists(_damages, min_size=1, max_size=3).map(tuple)),
    st.sampled_from((65536, 65536, 1000, 17)),
    st.sampled_from(("wait", "wait", "wait", "half", "abort")),
)
cases: st.SearchStrategy[Http] = st.builds(
    lambda revision, rest: Http((Connection((_opening(revision),)), *rest)),
    st.sampled_from(HANDSHAKE),
    st.lists(_connections, min_size=1, max_size=4),
)


def report(uri: str) -> Request:
    """Return a stateless read."""
    params = {"uri": uri, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params}
    headers = (
        *(("accept", BOTH), ("content-type", "application/json")),
        *(("mcp-protocol-version", MODERN[0]), ("mcp-method", "resources/read")),
        ("mcp-name", uri),
    )
    return Request("POST", "/mcp", headers, grammar.encoded(message))


def deletion(session: str) -> Request:
    """Return the end of a session."""
    return Request("DELETE", "/mcp", (("mcp-session-id", session),))
