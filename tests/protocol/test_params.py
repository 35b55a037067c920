"""Parameters: whatever the official SDK refuses is refused here, in the same revision."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types.methods import CLIENT_REQUESTS, validate_client_request
from pydantic import ValidationError

from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from resource_server.protocol import revisions
from tests.cases import for_each
from tests.protocol.wire import (
    ENVELOPE,
    EVERY,
    HANDSHAKE,
    MODERN,
    PATIENCE_S,
    Wire,
    request,
    server_of,
)
from tests.providers_for_tests import Tree

Steps: TypeAlias = tuple[str | int, ...]

_CAPABILITIES: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"x": {"y": 1}},
    "extensions": {"x/y": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
_CLIENT: dict[str, Any] = {
    "name": "tests",
    "version": "0",
    "title": "Tests",
    "description": "d",
    "websiteUrl": "https://example.org",
    "icons": [{"src": "data:", "mimeType": "image/png", "sizes": ["1x1"], "theme": "light"}],
}
_META: dict[str, Any] = {"progressToken": "t", "x": 1}
_MODERN_META: dict[str, Any] = {
    **ENVELOPE,
    **_META,
    "io.modelcontextprotocol/clientCapabilities": _CAPABILITIES,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/logLevel": "info",
}
_VALID: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": _CAPABILITIES,
        "clientInfo": _CLIENT,
    },
    "ping": {},
    "server/discover": {},
    "logging/setLevel": {"level": "info"},
    "resources/list": {"cursor": ""},
    "prompts/list": {"cursor": ""},
    "prompts/get": {"name": "p", "arguments": {"a": "a"}},
    "tools/list": {"cursor": ""},
    "tools/call": {"name": "read_resource", "arguments": {"uri": "test://one/a"}},
    "resources/read": {"uri": "test://one/a"},
    "resources/templates/list": {"cursor": ""},
    "resources/subscribe": {"uri": "test://one/a"},
    "resources/unsubscribe": {"uri": "test://one/a"},
    "subscriptions/listen": {
        "notifications": {
            "toolsListChanged": True,
            "promptsListChanged": False,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["test://one/a"],
        }
    },
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "test://one/{+path}"},
        "argument": {"name": "path", "value": "a"},
        "context": {"arguments": {"x": "y"}},
    },
}
PROMPT = Prompt(
    arguments={"a": PromptArgument()},
    messages=(PromptMessage(text="{a}"), PromptMessage(resource="test://one/{+a}")),
)
_PROMPT: dict[str, Any] = {
    **_VALID["completion/complete"],
    "ref": {"type": "ref/prompt", "name": "p", "title": "X"},
    "argument": {"name": "a", "value": "x"},
}
_CASES = [
    (method, revision)
    for revision in EVERY
    for method in _VALID
    if (method, revision) in CLIENT_REQUESTS
]
_JUNK = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.5, 2**70, "", "x", "1", [], [1], ["x"], {}, {"x": 1}]
) | st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


class Asked:
    """A server and the loop it runs on, for tests that are not async themselves."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._server = runner.run(server_of(Tree({"a": "text"})))
        self._server.prompts = {"p": PROMPT}

    def reply(self, method: str, revision: str, params: object) -> Any:
        """Return the reply on a new connection of the revision, which ends then."""
        return self._runner.run(self._reply(method, revision, params))

    def close(self) -> None:
        self._runner.run(self._server.__aexit__())

    async def _reply(self, method: str, revision: str, params: object) -> Any:
        wire = Wire(self._server, None if method == "initialize" else revision)
        if revision in MODERN:
            wire.connection.revision = revisions.MODERN[revision]
        wire.send(request(method, params))
        # What takes more than a turn of the loop is answered by a task, which `close` would cancel.
        await wire.connection.drain(PATIENCE_S)
        await wire.connection.close()
        (reply,) = wire.replies
        return reply


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with asyncio.Runner() as runner:
        asked = Asked(runner)
        yield asked
        asked.close()


def valid(method: str, revision: str) -> dict[str, Any]:
    meta = _MODERN_META if revision in MODERN else _META
    return {**copy.deepcopy(_VALID[method]), "_meta": copy.deepcopy(meta)}


def sdk_accepts(method: str, revision: str, params: dict[str, Any]) -> bool:
    try:
        validate_client_request(method, revision, params)
    except ValidationError:
        return False
    return True


def places(value: object, at: Steps = ()) -> list[Steps]:
    """Return where something stands inside a JSON value, as the steps down to it."""
    found = [at] if at else []
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            found += places(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            found += places(inner, (*at, index))
    return found


@st.composite
def damaged(draw: st.DrawFn, params: dict[str, Any]) -> dict[str, Any]:
    """Replace or remove what stands somewhere, once or twice."""
    params = copy.deepcopy(params)
    for _ in range(draw(st.integers(1, 2))):
        *steps, last = draw(st.sampled_from(places(params) or [("_meta",)]))
        parent: Any = params
        for step in steps:
            parent = parent[step]
        if draw(st.integers(0, 3)) or not parent:
            parent[last] = copy.deepcopy(draw(_JUNK))
        else:
            del parent[last]
    return params


@for_each(("method", "revision"), _CASES)
def test_parameters_with_every_member_are_accepted(
    asked: Asked, method: str, revision: str
) -> None:
    params = valid(method, revision)
    assert sdk_accepts(method, revision, params)
    params.pop("cursor", None)  # an empty one is none that the server gave
    assert "result" in asked.reply(method, revision, params)


@for_each(
    ("method", "params"),
    [
        ("resources/list", {}),
        ("resources/list", {"uri": "test://one/"}),
        ("resources/directory/read", {"uri": "test://one/"}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("skills/list", {}),
        ("tools/list", {}),
    ],
)
def test_an_empty_cursor_is_refused(asked: Asked, method: str, params: dict[str, Any]) -> None:
    revision = EVERY[-1]
    params = {**params, "_meta": _MODERN_META if revision in MODERN else _META}
    assert "result" in asked.reply(method, revision, params)
    error = asked.reply(method, revision, {**params, "cursor": ""})["error"]
    assert error["code"] == -32602
    assert "begin again without a cursor" in error["message"]


@for_each("revision", EVERY)
def test_every_method_known_to_both_is_mutated(revision: str) -> None:
    known = {method for method, version in CLIENT_REQUESTS if version == revision}
    ours = revisions.MODERN if revision in MODERN else revisions.HANDSHAKE
    assert known & ours[revision].methods == {m for m, version in _CASES if version == revision}


@pytest.mark.parametrize(
    ("method", "revision"),
    [
        (method, revision)
        for method in sorted(_VALID)
        for revision in ("2025-11-25", "2026-07-28")
        if (method, revision) in CLIENT_REQUESTS
    ],
)
@settings(max_examples=60)
@given(data=st.data())
def test_parameters_that_the_sdk_refuses_are_refused(
    asked: Asked, method: str, revision: str, data: st.DataObject
) -> None:
    whole = valid(method, revision)
    if method == "completion/complete" and data.draw(st.booleans()):
        whole = {**whole, **copy.deepcopy(_PROMPT)}
    params = data.draw(damaged(whole))
    reply = asked.reply(method, revision, params)
    code = reply.get("error", {}).get("code")
    assert code in (None, -32602, -32002, -32022), reply
    if not sdk_accepts(method, revision, params):
        # Of another revision, nothing else can be judged.
        expected = {-32602} if _names_revision(params) else {-32602, -32022}
        assert code in expected, json.dumps(params)


def _names_revision(params: dict[str, Any]) -> bool:
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        return True
    named = cast("dict[str, Any]", meta).get("io.modelcontextprotocol/protocolVersion")
    return not isinstance(named, str) or named in EVERY


@for_each(("method", "revision"), _CASES)
def test_each_damaged_member_is_refused_if_the_sdk_refuses_it(
    asked: Asked, method: str, revision: str
) -> None:
    whole = valid(method, revision)
    for place in places(whole):
        for junk in (None, True, 5, 1.5, "x", [], {}, [5], {"x": 5}):
            params = copy.deepcopy(whole)
            parent: Any = params
            for step in place[:-1]:
                parent = parent[step]
            parent[place[-1]] = junk
            if not sdk_accepts(method, revision, params):
                reply = asked.reply(method, revision, params)
                assert reply["error"]["code"] == -32602, (place, junk)


@for_each("revision", HANDSHAKE)
@for_each("junk", [None, True, 5, [], {}])
def test_the_uri_of_metadata_is_a_string(asked: Asked, revision: str, junk: object) -> None:
    reply = asked.reply("resources/metadata", revision, {"uri": junk})
    assert reply["error"]["code"] == -32602
    assert "$.uri" in reply["error"]["message"]


@for_each("method", ["resources/read", "resources/metadata", "logging/setLevel"])
def test_a_missing_member_is_named(asked: Asked, method: str) -> None:
    error = asked.reply(method, "2025-11-25", {})["error"]
    assert error["code"] == -32602
    assert ("`level`" if method == "logging/setLevel" else "`uri`") in error["message"]
