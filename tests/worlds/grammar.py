"""Grammars of JSON-RPC, MCP and HTTP: messages right and wrong, and bytes that are none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.protocol.wire import CLIENT, ENVELOPE, EVERY, MODERN

TOOLS = ("list_resources", "read_resource", "search", "query_big", "greet", "paint", "meet", "no")
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
    "file:///files/" + "a" * 5000,
    "nothing://else/",
)
METHODS = (
    *("initialize", "ping", "server/discover", "logging/setLevel"),
    *("resources/list", "resources/read", "resources/metadata", "resources/templates/list"),
    *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    *("prompts/list", "prompts/get", "completion/complete", "tools/list", "tools/call"),
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
)

ids = st.one_of(
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(("a", "b", "", "\u00e9", "x" * 1100, -1, 2**53, 2**63 - 1, -(2**63))),
)
odd_ids = st.sampled_from((None, True, 1.5, [], {}, 2**64, 1e400, "\ud800"))
texts = st.one_of(
    st.sampled_from(("", "a", "\u0000", "\u202e", "\U0001f600", "x" * 3000, "../", "\ud800")),
    st.text(max_size=8),
)
uris = st.one_of(st.sampled_from(URIS), st.sampled_from(URIS), texts)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(width=32) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Any:
    return st.fixed_dictionaries(dict(required), optional=dict(optional or {}))


_envelopes = st.one_of(
    st.just(ENVELOPE),
    st.just(ENVELOPE),
    _object(
        {},
        {
            "io.modelcontextprotocol/protocolVersion": st.sampled_from((*EVERY, "1", "", 7)),
            "io.modelcontextprotocol/clientCapabilities": st.sampled_from((*_CAPABILITIES, 1)),
            "io.modelcontextprotocol/logLevel": st.sampled_from(("debug", "no")),
        },
    ),
)
_metas = _object(
    {},
    {
        "progressToken": ids | odd_ids,
        "traceparent": texts | st.just("00-" + "1" * 32 + "-" + "2" * 16 + "-01"),
        "io.modelcontextprotocol/logLevel": st.sampled_from(("debug", "no", 1)),
    },
)
_cursors = st.none() | texts | st.sampled_from(("W10", "e30", "AAAA", "bnVsbA"))
_arguments = _object(
    {},
    {
        "uri": uris,
        "query": texts,
        "least": st.integers(0, 3) | texts,
        "cursor": _cursors,
        "limit": st.integers(-1, 200),
        "pattern": st.sampled_from(("*", "a", "[", "**/*", "x" * 600)),
    },
)
_refs = st.one_of(
    _object({"type": st.just("ref/prompt"), "name": texts | st.just("ask")}),
    _object({"type": st.just("ref/resource"), "uri": uris | st.just("probe://probe/slow/{ms}")}),
    values,
)
_PARAMS: Mapping[str, st.SearchStrategy[Any]] = {
    "initialize": _object(
        {
            "protocolVersion": st.sampled_from((*EVERY, "1999-01-01", "")),
            "capabilities": st.sampled_from(_CAPABILITIES),
            "clientInfo": st.just(CLIENT),
        }
    ),
    "logging/setLevel": _object({"level": st.sampled_from(("debug", "error", "no"))}),
    "resources/list": _object({}, {"uri": uris, "cursor": _cursors}),
    "resources/read": _object({"uri": uris}),
    "resources/metadata": _object({"uri": uris}),
    "resources/templates/list": _object({}, {"cursor": _cursors}),
    "resources/subscribe": _object({"uri": uris}),
    "resources/unsubscribe": _object({"uri": uris}),
    "subscriptions/listen": _object(
        {
            "notifications": _object(
                {},
                {
                    "resourcesListChanged": st.booleans(),
                    "toolsListChanged": st.booleans(),
                    "resourceSubscriptions": st.lists(uris, max_size=4),
                },
            )
        }
    ),
    "prompts/get": _object({"name": texts | st.just("ask")}, {"arguments": _arguments | values}),
    "completion/complete": _object(
        {
            "ref": _refs,
            "argument": _object({"name": texts | st.just("ms"), "value": texts}),
        },
        {"context": _object({"arguments": st.dictionaries(texts, texts, max_size=2)})},
    ),
    "tools/call": _object(
        {"name": st.sampled_from(TOOLS) | texts},
        {
            "arguments": _arguments | values,
            "requestState": texts,
            "inputResponses": st.dictionaries(texts, values, max_size=2),
        },
    ),
}


@st.composite
def requests(draw: st.DrawFn, *, modern: bool | None = None) -> dict[str, Any]:
    """Requests with parameters that are usually right; `modern` says whether with envelope."""
    method = draw(st.sampled_from(METHODS) | st.just("resources/read"))
    given = draw(_PARAMS.get(method, st.just({})))
    if draw(st.integers(0, 9)) == 0:
        given = draw(st.dictionaries(st.sampled_from(("uri", "name", "cursor", "x")), values))
    meta = draw(_metas) if draw(st.booleans()) else {}
    if modern or (modern is None and draw(st.booleans())):
        meta = {**meta, **draw(_envelopes)}
    return {
        "jsonrpc": "2.0",
        "id": draw(ids),
        "method": method,
        "params": {**given, **({"_meta": meta} if meta else {})},
    }


def _notification(method: str, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _cancellation(id: object) -> dict[str, Any]:
    return _notification("notifications/cancelled", {"requestId": id})


def _response(id: object, member: str, value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, member: value}


notifications = st.one_of(
    st.builds(_cancellation, ids),
    st.builds(_cancellation, odd_ids),
    st.builds(_notification, st.sampled_from(NOTIFICATIONS), values),
)
responses = st.builds(_response, ids, st.sampled_from(("result", "error")), values)
"""Responses to requests that were never sent."""


@st.composite
def _malformed(draw: st.DrawFn) -> dict[str, Any]:
    """Requests with a member that is missing, or of a wrong kind."""
    message = draw(requests())
    name = draw(st.sampled_from(("jsonrpc", "id", "method", "params")))
    if draw(st.booleans()):
        message.pop(name)
    else:
        message[name] = draw(odd_ids if name == "id" else values)
    return message


def messages(*, modern: bool | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Messages of every kind, most of them requests."""
    asked = requests(modern=modern)
    return st.one_of(asked, asked, asked, notifications, responses, _malformed())


def encoded(message: object) -> bytes:
    """Return JSON in one line; numbers beyond JSON stay as Python writes them."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _batches(modern: bool | None) -> st.SearchStrategy[bytes]:
    sizes = st.lists(messages(modern=modern), max_size=4)
    many = st.just([_cancellation(1)] * 101)
    return st.builds(encoded, sizes | many)


@st.composite
def _mutated(draw: st.DrawFn) -> bytes:
    """Messages with some bytes replaced, removed or inserted."""
    data = encoded(draw(messages()))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 8)))
    return (data[:start] + draw(st.binary(max_size=4)) + data[end:]).replace(b"\n", b" ")


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


def lines(*, modern: bool | None = None) -> st.SearchStrategy[bytes]:
    """Single lines: messages, batches, broken messages, and other bytes."""
    one = st.builds(encoded, messages(modern=modern))
    return st.one_of(
        *(one, one, one, one), _batches(modern), _mutated(), st.sampled_from(_RAW), st.binary()
    ).map(lambda line: line.replace(b"\n", b" "))


@st.composite
def openings(draw: st.DrawFn) -> tuple[tuple[bytes, ...], bool]:
    """How a client begins, and whether its requests have the envelope of 2026-07-28."""
    revision = draw(st.sampled_from((*EVERY, "2025-03-26", "")))
    if revision in MODERN or not revision:
        return (), bool(revision)
    capabilities = draw(st.sampled_from(_CAPABILITIES))
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": CLIENT}
    first = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}
    begun = _notification("notifications/initialized", {})
    return (encoded(first), encoded(begun)), False


conversations: st.SearchStrategy[tuple[bytes, ...]] = openings().flatmap(
    lambda begun: st.lists(lines(modern=begun[1]), min_size=1, max_size=25).map(
        lambda rest: (*begun[0], *rest)
    )
)
"""All that one client sends."""
