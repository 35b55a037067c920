"""The official SDK judges every message sent over HTTP, in every revision."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse, jsonrpc_message_adapter
from mcp_types.methods import SERVER_NOTIFICATIONS, validate_server_result

from tests.cases import for_each
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN
from tests.transports.program import (
    EACH_PROGRESS,
    MANY,
    README,
    Program,
    RawConnection,
    initialize,
    message,
    modern,
    request,
    serving,
)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("resources/list", {}),
    ("resources/read", {"uri": README}),
    ("resources/read", {"uri": MANY}),
    ("resources/read", {"uri": MANY, "_meta": {"progressToken": "p"}}),
    ("resources/templates/list", {}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "file:///project/{+path}"},
            "argument": {"name": "path", "value": "r"},
        },
    ),
]
ACCEPTED = ("application/json", "text/event-stream", "application/json, text/event-stream")


start_program = partial(serving, timing=EACH_PROGRESS)


@contextmanager
def asked(
    program: Program, revision: str, method: str, params: dict[str, Any], accept: str
) -> Generator[list[Any]]:
    """Ask in a revision; give all messages that come, in order."""
    if revision in MODERN:
        data = modern(method, params, accept=accept)
    else:
        data = program.session(revision).request("POST", message(method, params), accept=accept)
    with program.line() as line:
        answered = line.ask(data)
        if answered.headers["content-type"] == "application/json":
            yield [answered.body]
        else:
            yield [event.data for event in line.events() if event.data]


@for_each("accept", ACCEPTED)
@for_each("revision", EVERY)
def test_the_sdk_accepts_every_result(program: Program, revision: str, accept: str) -> None:
    for method, params in CALLS:
        with asked(program, revision, method, params, accept) as came:
            *before, last = [jsonrpc_message_adapter.validate_json(each) for each in came]
            assert isinstance(last, JSONRPCResponse)
            validate_server_result(method, revision, last.result)
            for each in before:
                judge(each, revision, "notifications/progress")
            if "_meta" in params and accept != "application/json":
                assert before


@for_each("accept", ACCEPTED)
@for_each("revision", EVERY)
def test_the_sdk_accepts_every_error(program: Program, revision: str, accept: str) -> None:
    for method, params in (
        ("resources/read", {"uri": "file:///project/absent"}),
        ("resources/read", {}),
        ("of/nobody", {}),
    ):
        with asked(program, revision, method, params, accept) as came:
            (error,) = [jsonrpc_message_adapter.validate_json(each) for each in came]
            assert isinstance(error, JSONRPCError)
            assert error.id == 1


@for_each("revision", HANDSHAKE)
def test_the_sdk_accepts_the_handshake(program: Program, revision: str) -> None:
    result = program.ask(request("POST", initialize(revision))).json["result"]
    validate_server_result("initialize", revision, result)


@for_each("revision", MODERN)
def test_the_sdk_accepts_server_discover(program: Program, revision: str) -> None:
    result = program.ask(modern("server/discover")).json["result"]
    validate_server_result("server/discover", revision, result)


@for_each("revision", EVERY)
def test_the_sdk_accepts_notifications(program: Program, revision: str) -> None:
    with program.line() as line:
        if revision in MODERN:
            wanted = {"resourcesListChanged": True, "resourceSubscriptions": [README]}
            line.ask(modern("subscriptions/listen", {"notifications": wanted}))
            judge(told(line), revision, "notifications/subscriptions/acknowledged")
        else:
            session = program.session(revision)
            session.post(message("resources/subscribe", {"uri": README}))
            line.ask(session.request("GET"))
            if revision == "2025-11-25":
                line.event()
        with (program.folder / "read me.md").open("a") as file:
            file.write("more\n")
        judge(told(line), revision, "notifications/resources/updated")
        (program.folder / f"new in {revision}").write_text("")
        judge(told(line), revision, "notifications/resources/list_changed")


def test_the_sdk_accepts_every_refusal(program: Program) -> None:
    for data in (
        request("POST", b"{"),
        request("POST", message("ping")),
        request("POST", message("ping"), mcp_session_id="x"),
        request("POST", message("ping"), content_type="text/plain"),
        request("POST", message("ping"), host="evil.example"),
        request("POST", message("ping"), origin="null"),
        request("PUT"),
        request("POST", message("ping"), path="/nowhere"),
        modern("resources/read", {"uri": README}, mcp_name="x"),
    ):
        refused = program.ask(data)
        assert refused.status >= 400
        assert isinstance(jsonrpc_message_adapter.validate_json(refused.body), JSONRPCError)


def told(line: RawConnection) -> Any:
    return jsonrpc_message_adapter.validate_json(line.event().data)


def judge(notification: Any, revision: str, method: str) -> None:
    assert isinstance(notification, JSONRPCNotification)
    assert notification.method == method
    sent = notification.model_dump(mode="json", by_alias=True, exclude_unset=True)
    SERVER_NOTIFICATIONS[method, revision].model_validate(sent, strict=True)
