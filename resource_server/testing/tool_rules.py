"""Rules of `tools` and `call_tool`: valid definitions, and results that match their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from resource_server.errors import CannotElicit, ResourceServerError
from resource_server.protocol.tools.registry import TOOL_NAME
from resource_server.protocol.tools.validation import ArgumentsValidator, schema_problems
from resource_server.provider import Resource
from resource_server.provider.tools import (
    ClientRoot,
    ElicitationAnswer,
    EmbeddedBlock,
    LinkBlock,
    LogLevel,
    MediaBlock,
    SamplingAnswer,
    SamplingMessage,
    Schema,
    SupportsTools,
    TextBlock,
    Tool,
    ToolResult,
)
from resource_server.runtime.json_numbers import exact_json
from resource_server.testing.provider_calls import Calls, brief


class SilentToolRequest:
    """A request from a client without progress, log messages or anything to ask."""

    budget = 25_000
    can_elicit = can_sample = can_list_roots = False

    def __repr__(self) -> str:
        return "request"

    def progress(self, done: float, total: float | None = None) -> None:
        """See `ToolRequest.progress`."""

    def log(self, level: LogLevel, text: str) -> None:
        """See `ToolRequest.log`."""

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `ToolRequest.elicit`."""
        raise CannotElicit

    async def sample(
        self, key: str, messages: str | Sequence[SamplingMessage], **options: Any
    ) -> SamplingAnswer:
        """See `ToolRequest.sample`."""
        raise CannotElicit

    async def roots(self) -> Sequence[ClientRoot]:
        """See `ToolRequest.roots`."""
        raise CannotElicit


async def known_tools(calls: Calls) -> Sequence[Tool]:
    """Return the tools of a provider that is not entered yet; none on failure."""
    return await calls.sequence("tools") if isinstance(calls.provider, SupportsTools) else ()


async def check_tools(calls: Calls, before: Sequence[Tool]) -> None:
    """Check each tool, and call those without required arguments."""
    if not isinstance(calls.provider, SupportsTools):
        return
    found = await calls.call("tools")
    if found != before:
        rule = "tools are always the same, even before the provider is entered"
        calls.broken(rule, f"tools() gave {brief(found)}, but {brief(before)} before")
    names = [tool.name for tool in before]
    for name in sorted({name for name in names if names.count(name) > 1}):
        calls.broken("tool names are unique", f"tools() gave {name!r} more than once")
    for tool in before:
        if _is_usable(calls, tool) and not tool.input_schema.get("required"):
            await _check_call(calls, tool)


def _is_usable(calls: Calls, tool: Tool) -> bool:
    if not TOOL_NAME.fullmatch(tool.name) or not tool.description.strip():
        rule = "a tool has a description, and a name of 1 to 128 characters from A-Z a-z 0-9 _ - ."
        calls.broken(rule, f"tools() gave {brief(tool)}")
        return False
    try:
        ArgumentsValidator(tool)
    except ResourceServerError as error:
        calls.broken("the schemas of a tool are valid", f"{tool.name}: {error}")
        return False
    return True


async def _check_call(calls: Calls, tool: Tool) -> None:
    found = await calls.call("call_tool", tool.name, {}, SilentToolRequest())
    if not isinstance(found, ToolResult):
        return  # an allowed error, or a broken rule that has been recorded
    call = f"call_tool({tool.name!r}, {{}})"
    if tool.output_schema is not None:
        for problem in _structured_problems(tool.output_schema, found.structured):
            calls.broken("a structured result matches the output schema", f"{call}: {problem}")
    for block in found.content:
        match block:
            case TextBlock(text=str()) | MediaBlock(data=bytes(), mime_type=str()):
                pass
            case LinkBlock(path=path) | EmbeddedBlock(path=path):
                described = await calls.metadata(path)
                is_collection = isinstance(described, Resource) and described.type == "collection"
                if not isinstance(described, Resource):
                    calls.broken(
                        "a block refers to an existing resource", f"{call} gave {brief(block)}"
                    )
                elif is_collection and isinstance(block, EmbeddedBlock):
                    calls.broken("only documents are embedded", f"{call} gave {brief(block)}")
            case _:
                calls.broken("a result consists of content blocks", f"{call} gave {brief(block)}")


def _structured_problems(schema: Schema, structured: Mapping[str, Any] | None) -> Sequence[str]:
    if structured is None:
        return ["it has none"]
    try:
        encoded = msgspec.json.encode(structured).decode()
        problems = schema_problems(schema, msgspec.json.decode(encoded))
    except (TypeError, OverflowError) as error:
        return [f"not JSON: {error}"]
    if exact_json(encoded) != encoded:
        return [*problems, "it has a number that JavaScript changes; give it as text"]
    return problems
