"""Grammar of JSON-RPC and MCP: messages right and wrong, and bytes that are none.

A conversation is made by dice, not by strategies: hypothesis takes longer to draw a message than
the engine to answer ten, and nine of ten that it draws are pings and cancellations.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from tests.protocol.wire import CLIENT, ENVELOPE, EVERY, MODERN

ASKING = (
    *("greet", "paint", "meet", "insist", "think", "insist_on_model", "where"),
    *("survey", "crowd", "clash", "collect"),
)
"""Tools without arguments that ask the client."""
TOOLS = ("list_resources", "read_resource", "search", "query_big", "no", *ASKING)
KEYS = ("name", "colour", "thought", "client_roots", "arguments", "name-0", "same")
"""Keys of the inputs that these tools ask for."""
URIS = (
    "file:///files",
    "file:///files/a.txt",
    "file:///files/a.txt?lines=1-2",
    "file:///files/many",
    "file:///files/many/7.txt",
    "file:///files/no",
    "file:///files/%2e%2e/x",
    "sqlite://shop/t",
    "sqlite://shop/t/1",
    "sqlite://shop/t/~rows?limit=2",
    "sqlite://shop/t/~schema",
    "sqlite://shop/~query/big?least=1",
    "sqlite://shop/~query/big?least=x",
    "probe://probe/",
    "probe://probe/slow/20",
    "probe://probe/slow/1",
    "person://person/",
    "",
    "x",
    "file://",
    "file:///files/" + "a" * 300,
    "nothing://else/",
)
METHODS = (
    *("initialize", "ping", "server/discover", "logging/setLevel"),
    *("resources/list", "resources/read", "resources/metadata", "resources/templates/list"),
    *("resources/directory/read", "skills/list", "skills/get"),
    *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    *("prompts/list", "prompts/get", "prompts/get", "completion/complete"),
    *("tools/list", *("tools/call",) * 4),
)
NOTIFICATIONS = (
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/roots/list_changed",
    "notifications/progress",
    "notifications/message",
    "notifications/unknown",
)
_CAPABILITIES: tuple[dict[str, Any], ...] = (
    {},
    {"roots": {"listChanged": True}, "elicitation": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {}},
    {"elicitation": {}, "sampling": {"tools": {}}, "roots": {}},
)
_ANSWERS: Any = (
    {"action": "accept", "content": {"name": "Ada", "colour": "red", "uri": "x"}},
    {"action": "accept", "content": {"name": 5}},
    {"action": "decline"},
    {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
    {"role": "assistant", "content": [{"type": "image", "data": "?"}], "model": "m"},
    {"model": "m", "content": {"type": "text", "text": "x" * 70_000}},
    {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "x"}]},
    {"roots": [{}]},
    {},
    None,
)
"""Right and wrong answers to what a client is asked."""
_AGAIN = "again-"
"""Begins the ids of requests that are repeated with answers."""

_RAW = (
    b"",
    b" ",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b"[" * 3000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 3000,
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}',
    b"\x00\x01\x02",
    b"GET / HTTP/1.1\r",
)

_IDS: Sequence[object] = (
    *range(6),
    *range(6),
    *("a", "b", "", "\u00e9", "x" * 1030, -1, 2**53, 2**63 - 1, -(2**63)),
)
_ODD_IDS: Sequence[object] = (None, True, 1.5, [], {}, 2**64, 1e400, "\ud800")
_TEXTS = (
    *("", "a", "b", "1", "x" * 300, "../", "W10", "e30", "AAAA", "bnVsbA", "ask", "ms"),
    *("\u0000", "\u202e", "\U0001f600", "\ud800", "\n", "%2e", "=?base64?eA==?="),
)

Params: TypeAlias = dict[str, Any]


class Dice:
    """Draws messages from one source of randomness."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.choice = source.choice

    def chance(self, share: float) -> bool:
        """Return True in this share of all cases."""
        return self.source.random() < share

    def text(self) -> str:
        return self.choice(_TEXTS)

    def uri(self) -> str:
        return self.choice(URIS) if self.chance(0.9) else self.text()

    def id(self) -> object:
        return self.choice(_IDS)

    def some_id(self) -> object:
        return self.choice(_ODD_IDS) if self.chance(0.2) else self.id()

    def value(self, depth: int = 2) -> object:
        """Return any JSON, and some that Python alone writes."""
        match self.source.randrange(9 if depth else 7):
            case 0:
                return None
            case 1:
                return self.chance(0.5)
            case 2:
                return self.choice((0, 1, -1, 2**31, 2**63, -(2**65), 10**400))
            case 3:
                return self.choice((0.5, 1e300, float("inf"), float("nan"), -0.0))
            case 4 | 5 | 6:
                return self.text()
            case 7:
                return [self.value(depth - 1) for _ in range(self.source.randrange(3))]
            case _:
                return self.members(depth - 1)

    def members(self, depth: int = 1) -> Params:
        names = ("uri", "name", "cursor", "x", "", "arguments", "_meta")
        return {self.choice(names): self.value(depth) for _ in range(self.source.randrange(3))}

    def maybe(self, **members: Callable[[], object]) -> Params:
        """Return some of these members."""
        return {name: make() for name, make in members.items() if self.chance(0.5)}

    # -- parameters

    def arguments(self) -> object:
        """Return arguments of a tool or prompt, which fit one of them more or less."""
        if self.chance(0.1):
            return self.value()
        return self.maybe(
            uri=self.uri,
            query=self.text,
            least=lambda: self.choice((0, 1, 2, "1", "x", None, 10**30)),
            cursor=self.text,
            limit=lambda: self.source.randrange(-1, 200),
            pattern=lambda: self.choice(("*", "a", "[", "**/*", "x" * 600)),
        )

    def params(self, method: str) -> Params:
        """Return parameters that are usually right."""
        if method in ("ping", "server/discover") or self.chance(0.1):
            return self.members() if self.chance(0.1) else {}
        match method:
            case "initialize":
                return self.initialization(self.choice((*EVERY, "1999-01-01", "")))
            case "logging/setLevel":
                return {"level": self.choice(("debug", "error", "no"))}
            case "resources/list" | "resources/directory/read":
                return self.maybe(uri=self.uri, cursor=self.text)
            case "resources/templates/list" | "prompts/list" | "tools/list" | "skills/list":
                return self.maybe(cursor=self.text) if self.chance(0.3) else {}
            case "subscriptions/listen":
                return {"notifications": self._listened()}
            case "prompts/get":
                name = "ask" if self.chance(0.7) else self.text()
                return {"name": name, **self.maybe(arguments=self.arguments), **self._inputs()}
            case "completion/complete":
                return self._completion()
            case "tools/call":
                return self._call()
            case _:
                return {"uri": self.uri()}

    def initialization(self, revision: str) -> Params:
        capabilities = self.choice(_CAPABILITIES)
        return {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": CLIENT}

    def _listened(self) -> Params:
        return self.maybe(
            resourcesListChanged=lambda: True,
            toolsListChanged=lambda: self.chance(0.5),
            resourceSubscriptions=lambda: [self.uri() for _ in range(self.source.randrange(4))],
        )

    def _call(self) -> Params:
        name = self.choice(TOOLS) if self.chance(0.9) else self.text()
        is_plain = name in ASKING and self.chance(0.8)
        arguments: object = Params() if is_plain else self.arguments()
        return {"name": name, "arguments": arguments, **self._inputs()}

    def _inputs(self) -> Params:
        """Return answers to what a request may ask for, usually none."""
        if self.chance(0.7):
            return {}
        state = {"requestState": self.text()} if self.chance(0.2) else {}
        if self.chance(0.1):
            return {**state, "inputResponses": self.value()}
        keys = self.source.sample(KEYS, self.source.randrange(5))
        return {**state, "inputResponses": {key: self.choice(_ANSWERS) for key in keys}}

    def _completion(self) -> Params:
        known: Sequence[object] = (
            {"type": "ref/prompt", "name": "ask"},
            {"type": "ref/prompt", "name": self.text()},
            {"type": "ref/resource", "uri": "file:///files/{+path}"},
            {"type": "ref/resource", "uri": "sqlite://shop/{table}/{+key}"},
            {"type": "ref/resource", "uri": self.uri()},
            self.value(),
        )
        names = ("path", "table", "key", "uri", "query", self.text())
        return {
            "ref": self.choice(known),
            "argument": {"name": self.choice(names), "value": self.text()},
            **self.maybe(context=lambda: {"arguments": {self.choice(names): self.text()}}),
        }

    def meta(self, *, modern: bool) -> Params:
        """Return `_meta`; `modern` with the envelope of 2026-07-28, usually a right one."""
        meta = self.maybe(
            progressToken=self.some_id,
            traceparent=lambda: self.choice(("00-" + "1" * 32 + "-" + "2" * 16 + "-01", "x", 1)),
        )
        meta = meta if self.chance(0.3) else {}
        if modern and self.chance(0.9):
            can = self.choice(_CAPABILITIES)
            return {**meta, **ENVELOPE, "io.modelcontextprotocol/clientCapabilities": can}
        if modern or self.chance(0.05):
            prefix = "io.modelcontextprotocol/"
            return {
                **meta,
                f"{prefix}protocolVersion": self.choice((*EVERY, "1", "", 7)),
                f"{prefix}clientCapabilities": self.choice((*_CAPABILITIES, 1)),
                f"{prefix}logLevel": self.choice(("debug", "no")),
            }
        return meta

    # -- messages

    def request(self, *, modern: bool) -> dict[str, Any]:
        """Return a request, usually a right one."""
        method = self.choice(METHODS) if self.chance(0.95) else self.text()
        params = self.params(method)
        meta = self.meta(modern=modern)
        if meta:
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self.id(), "method": method}
        return {**message, "params": params} if params or self.chance(0.5) else message

    def message(self, *, modern: bool) -> dict[str, Any]:
        """Return a message of any kind, most of them requests."""
        draw = self.source.random()
        if draw < 0.75:
            return self.request(modern=modern)
        if draw < 0.83:
            return _notification("notifications/cancelled", {"requestId": self.some_id()})
        if draw < 0.88:
            return _notification(self.choice(NOTIFICATIONS), self.value())
        if draw < 0.92:
            # A response to a request that was never sent, or only later.
            member = self.choice(("result", "error"))
            answer = self.choice(_ANSWERS) if self.chance(0.5) else self.value()
            number = self.source.randrange(4)
            id = f"ask-{number}" if self.chance(0.5) else self.id()
            return {"jsonrpc": "2.0", "id": id, member: answer}
        message = self.request(modern=modern)
        name = self.choice(("jsonrpc", "id", "method", "params"))
        if self.chance(0.5):
            message.pop(name, None)
        else:
            message[name] = self.choice(_ODD_IDS) if name == "id" else self.value()
        return message

    def line(self, *, modern: bool) -> bytes:
        """Return a line: a message, a batch, broken JSON, or other bytes."""
        draw = self.source.random()
        if draw < 0.8:
            return encoded(self.message(modern=modern))
        if draw < 0.88:
            size = 101 if self.chance(0.02) else self.source.randrange(5)
            return encoded([self.message(modern=modern) for _ in range(size)])
        if draw < 0.95:
            return self.damaged(encoded(self.message(modern=modern)))
        if draw < 0.99:
            return self.choice(_RAW)
        return self.source.randbytes(self.source.randrange(20)).replace(b"\n", b"")

    def damaged(self, data: bytes) -> bytes:
        """Return bytes with a few replaced, removed or inserted."""
        start = self.source.randrange(len(data) + 1)
        end = start + self.source.randrange(6)
        by = self.choice((b"", b"\x00", b"\xff", b'"', b"{", b"}", b"[", b",", b"\\", b"\\ud8"))
        return data[:start] + by + data[end:]

    def conversation(self, length: int) -> tuple[bytes, ...]:
        """Return all that a client sends."""
        revision = self.choice((*EVERY, "2025-03-26", *MODERN, ""))
        lines = (self.line(modern=revision in MODERN) for _ in range(length))
        if revision in MODERN or not revision:
            return tuple(lines)
        return (*opening(self.initialization(revision)), *lines)


def answers_to(question: Mapping[str, Any]) -> Sequence[bytes]:
    """Return how a client answers a request of the server: each time in another way."""
    id = question["id"]
    number = int(str(id).rpartition("-")[2])
    error = {"code": -32601, "message": "Method not found"}
    results = ({"jsonrpc": "2.0", "id": id, "result": each} for each in _ANSWERS)
    answers = [encoded(each) for each in (*results, {"jsonrpc": "2.0", "id": id, "error": error})]
    first = answers[number % len(answers)]
    other = encoded({"jsonrpc": "2.0", "id": f"{id}0", "result": _ANSWERS[0]})
    # Twice, with another id before it, or just so.
    return ((first, answers[0]), (other, first), (first,))[number % 3]


def may_ask(request: Mapping[str, Any]) -> bool:
    """Return whether a request calls what asks the client, whatever else is wrong with it."""
    params = request.get("params")
    name = cast("Params", params).get("name") if isinstance(params, dict) else None
    asks = {"tools/call": ASKING, "prompts/get": ("ask",)}
    return isinstance(name, str) and name in asks.get(request["method"], ())


def is_forged(id: object) -> bool:
    """Return whether the request with this id has a state that no server has made."""
    return isinstance(id, str) and id.startswith(_AGAIN) and int(id.removeprefix(_AGAIN)) % 2 == 1


def continued(request: Mapping[str, Any], result: Mapping[str, Any], number: int) -> bytes:
    """Return a request with answers to what its result asks for; every other is forged."""
    asked: Mapping[str, Any] = result["inputRequests"]
    right = {
        "elicitation/create": _ANSWERS[0],
        "sampling/createMessage": _ANSWERS[3],
        "roots/list": _ANSWERS[6],
    }
    answers = {key: right[each["method"]] for key, each in asked.items()}
    state: str = result["requestState"]
    id = f"{_AGAIN}{number}"
    if is_forged(id):
        state = ("B" if state.startswith("A") else "A") + state[1:]
    params = {**request["params"], "inputResponses": answers, "requestState": state}
    return encoded({**request, "id": id, "params": params})


def _notification(method: str, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def opening(params: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the handshake of a client."""
    first = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}
    return encoded(first), encoded(_notification("notifications/initialized", {}))


def encoded(message: object) -> bytes:
    """Return JSON in one line; numbers beyond JSON stay as Python writes them."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
