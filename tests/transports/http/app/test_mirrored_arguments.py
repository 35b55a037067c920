"""Tool arguments repeated in headers (`x-mcp-header`)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cases import for_each
from tests.conformance.served import copied
from tests.transports.program import Answer, Program, message, modern, running

TOOL = "test_custom_headers"


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(copied(place)) as started:
        yield started


def called(program: Program, region: object, **headers: Any) -> Answer:
    asked = {"name": TOOL, "arguments": {"region": region}}
    return program.ask(modern("tools/call", asked, 5, mcp_name=TOOL, **headers))


def encoded(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


@for_each(
    ("region", "header"),
    [
        ("us-west1", "us-west1"),
        ("us-west1", " us-west1\t"),
        ("us-west1", encoded("us-west1")),
        ("Zürich", encoded("Zürich")),
        (" padded", encoded(" padded")),
        ("", ""),
    ],
)
def test_a_header_equal_to_its_argument_is_accepted(
    program: Program, region: str, header: str
) -> None:
    answered = called(program, region, mcp_param_region=header)
    assert answered.status == 200
    assert "isError" not in answered.json["result"]


@for_each(
    ("region", "headers"),
    [
        ("us-west1", {}),
        ("us-west1", {"mcp_param_region": "us-east1"}),
        ("us-west1", {"mcp_param_region": "US-WEST1"}),
        ("us-west1", {"mcp_param_region": "=?base64?dXMtd2VzdDE?="}),
        ("Zürich", {"mcp_param_region": "Z\xfcrich"}),
        (None, {"mcp_param_region": "us-west1"}),
    ],
)
def test_a_header_different_from_its_argument_is_refused(
    program: Program, region: object, headers: Any
) -> None:
    answered = called(program, region, **headers)
    assert (answered.status, answered.code, answered.json["id"]) == (400, -32020, 5)
    said = "The header Mcp-Param-Region is not the argument 'region' of the body"
    assert answered.json["error"]["message"] == said


def test_a_header_with_two_values_is_refused(program: Program) -> None:
    asked = {"name": TOOL, "arguments": {"region": "us-west1"}}
    once = modern("tools/call", asked, mcp_name=TOOL, mcp_param_region="us-west1")
    assert program.ask(once).status == 200
    twice = once.replace(b"\r\n\r\n", b"\r\nMCP-Param-Region: us-east1\r\n\r\n", 1)
    assert program.ask(twice).status == 400


def test_earlier_revisions_need_no_such_headers(program: Program) -> None:
    asked = message("tools/call", {"name": TOOL, "arguments": {"region": "us-west1"}})
    answered = program.session().post(asked, mcp_param_region="us-east1")
    assert "isError" not in answered.json["result"]
