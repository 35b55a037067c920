"""Request headers: repeated, padded and negotiated."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.cases import for_each
from tests.transports.program import (
    BOTH,
    Program,
    initialize,
    message,
    modern,
    request,
    serving,
)

BODY = 100_000


start_program = partial(serving, http=f"{{limits: {{body: {BODY}}}}}")


INITIALIZE: Any = initialize("2025-11-25")


@for_each(
    "accept",
    [None, "", BOTH, "application/json", "*/*", "application/*", "Application/JSON;q=0.1",
     "text/html, */*;q=0.1", "text/event-stream", "*/*;q=0, application/json",
     "application/json;q=0, text/*"],
)  # fmt: skip
def test_a_client_that_accepts_one_of_our_media_types_gets_it(
    program: Program, accept: str | None
) -> None:
    assert program.ask(request("POST", INITIALIZE, accept=accept)).status == 200


@for_each(
    "accept",
    ["text/html", "application/xml, image/*", "application/json;q=0", "*/*; q=0.000",
     "application/json;q=0, text/event-stream ; q=0 , */*"],
)  # fmt: skip
def test_a_client_that_accepts_none_of_our_media_types_gets_406(
    program: Program, accept: str
) -> None:
    assert program.ask(request("POST", INITIALIZE, accept=accept)).status == 406


def test_a_stream_is_406_for_a_client_that_accepts_none(program: Program) -> None:
    session = program.session()
    asked = {"notifications": {"resourcesListChanged": True}}
    for accept in ("application/json", "text/event-stream;q=0"):
        assert program.ask(session.request("GET", accept=accept)).status == 406
        assert program.ask(modern("subscriptions/listen", asked, accept=accept)).status == 406


@for_each(
    "name",
    ["accept", "authorization", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
     "mcp-protocol-version", "mcp-session-id", "origin"],
)  # fmt: skip
def test_a_repeated_header_is_400_unless_it_is_a_list(program: Program, name: str) -> None:
    whole = request("POST", INITIALIZE)
    line = next((line for line in whole.split(b"\r\n") if line.startswith(name.encode())), None)
    line = line or f"{name}: x".encode()
    twice = whole.replace(b"\r\n", b"\r\n" + line + b"\r\n" + line + b"\r\n", 1)
    assert program.ask(twice).status == (200 if name == "accept" else 400)


def test_two_headers_of_a_list_are_joined(program: Program) -> None:
    asked = request("POST", INITIALIZE, accept="text/html", Accept="application/json")
    assert program.ask(asked).status == 200


@for_each("space", ["", "  ", "\t", " \t "])
def test_whitespace_around_a_header_is_ignored(program: Program, space: str) -> None:
    session = program.session()
    asked = {"mcp_session_id": f"{space}{session.id}{space}"}
    assert program.ask(session.request("POST", message("ping"), **asked)).status == 200


@for_each("other", ["\xa0", "\x85", "\x1f"])
def test_other_blanks_around_a_header_are_not_ignored(program: Program, other: str) -> None:
    session = program.session()
    asked = session.request("POST", message("ping"), mcp_session_id=session.id + other)
    assert program.ask(asked).status in (400, 404)
