"""A client of `Person`, whose tool asks questions, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types.methods import validate_server_result

from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from tests.person import Person
from tests.protocol.wire import Wire, server_of

FORMS: Mapping[str, Any] = {"elicitation": {}}
EVERYTHING: Mapping[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
CANNOT = "cannot ask: this client cannot be asked for what is missing"


async def wired(
    revision: str = "2025-11-25",
    can: Mapping[str, Any] | None = FORMS,
    *,
    timing: Timing = DEFAULT_TIMING,
) -> Wire:
    return Wire(await server_of(Person(), timing=timing), revision, can=can)


def words(reply: Mapping[str, Any]) -> str:
    """Return what a tool says."""
    (block,) = reply["result"]["content"]
    return block["text"]


def accepted(**content: object) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def answer_to(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to any question of `Person`."""
    match question["method"]:
        case "elicitation/create":
            return accepted(name="Ada", colour="red")
        case "sampling/createMessage":
            content = {"type": "text", "text": "Paris"}
            return {"role": "assistant", "content": content, "model": "m"}
        case _:
            return {"roots": [{"uri": "file:///a", "name": "A"}]}


def modern(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result that the SDK knows for a question."""
    assert result["resultType"] == "input_required"
    validate_server_result("tools/call", "2026-07-28", dict(result))
    return result
