"""Arguments that a tool needs and was not given: the person is asked, where that is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resource_server.errors import CannotElicit, ToolFailed
from resource_server.protocol.call import Call
from resource_server.protocol.tools.registry import Offered

_KEY = "arguments"


async def completed(
    call: Call, offered: Offered, missing: Sequence[str], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments with what a person has answered for those that are missing.

    Raises:
        ToolFailed: nobody can be asked, or somebody would not answer; names what is missing.
    """
    names = ", ".join(missing)
    properties: Mapping[str, Any] = offered.tool.input_schema.get("properties", {})
    fields = {name: properties.get(name, {}) for name in missing}
    title = offered.tool.title or offered.name
    try:
        answer = await call.asker.elicit(
            _KEY,
            f"{title}: please give {names}.",
            {"type": "object", "properties": fields, "required": list(missing)},
        )
    except CannotElicit as error:
        raise ToolFailed(f"Missing arguments: {names}. Call again with them. ({error})") from None
    if answer.action == "decline":
        raise ToolFailed(f"The user was asked for {names}, and prefers not to say.")
    if answer.action == "cancel":
        raise ToolFailed(f"The user was asked for {names}, and has dismissed the question.")
    return {**arguments, **answer.content}
