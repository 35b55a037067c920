"""What the official conformance suite calls: tools by the names that it knows.

What a plugin may use beyond `resource_server.provider` is in `resource_server.provider.tools`.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from resource_server.errors import ToolFailed
from resource_server.provider import (
    Content,
    NotACollection,
    Path,
    Provider,
    Resource,
    ResourceNotFound,
)
from resource_server.provider.tools import (
    EmbeddedBlock,
    MediaBlock,
    Schema,
    SupportsTools,
    TextBlock,
    Tool,
    ToolRequest,
    ToolResult,
)

DOCUMENTS = {
    "embedded-resource": "This is an embedded resource content.",
    "mixed-content-resource": '{"test":"data","value":123}',
}
MOMENT_S = 0.05

_PICTURE = MediaBlock(b"\x89PNG\r\n\x1a\n", "image/png")
_TEXT = ToolResult([TextBlock("This is a simple text response for testing.")])
_NOTHING: Schema = {"type": "object", "additionalProperties": False}
_2020_12: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def of(**fields: object) -> Schema:
    """Return the schema of an object that has all of these."""
    return {"type": "object", "properties": fields, "required": list(fields)}


_TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
_OPTIONS = ["option1", "option2", "option3"]
_NAME = ("user_name", "What is your name?", of(name={"type": "string"}))
_USER = of(username={"type": "string"}, email={"type": "string"})
_CONFIRM = ("confirm", "Please confirm", of(ok={"type": "boolean"}))
_DEFAULTS = of(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
_CHOICES = of(
    untitledSingle={"type": "string", "enum": _OPTIONS},
    titledSingle={"type": "string", "oneOf": _TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
)
QUESTIONS: Mapping[str, Sequence[tuple[str, str, Schema]]] = {
    "test_elicitation_sep1034_defaults": [("defaults", "Who are you?", _DEFAULTS)],
    "test_elicitation_sep1330_enums": [("choices", "Choose", _CHOICES)],
    "test_input_required_result_elicitation": [_NAME],
    "test_input_required_result_request_state": [_CONFIRM],
    "test_input_required_result_tampered_state": [_CONFIRM],
    "test_input_required_result_multi_round": [
        ("step1", "Step 1: What is your name?", of(name={"type": "string"})),
        ("step2", "Step 2: What is your favorite color?", of(color={"type": "string"})),
    ],
    "test_streaming_elicitation": [_NAME],
}
"""What these tools ask, one thing after the other: a key, the question and its form."""

SCHEMAS: Mapping[str, Schema] = {
    "json_schema_2020_12_tool": _2020_12,
    "test_custom_headers": of(region={"type": "string", "x-mcp-header": "Region"}),
    "test_elicitation": of(message={"type": "string"}),
    "test_sampling": of(prompt={"type": "string"}),
}
"""Of tools that take arguments."""
RESULTS = {
    "test_simple_text": _TEXT,
    "test_image_content": ToolResult([_PICTURE]),
    "test_audio_content": ToolResult([MediaBlock(b"RIFF\x24\0\0\0WAVE", "audio/wav")]),
    "test_embedded_resource": ToolResult([EmbeddedBlock(("embedded-resource",))]),
    "test_multiple_content_types": ToolResult(
        [
            TextBlock("Multiple content types test:"),
            _PICTURE,
            EmbeddedBlock(("mixed-content-resource",)),
        ]
    ),
}
"""Of tools that always say the same."""


@dataclass
class Diagnostics:
    """The tools, and the documents that they embed."""

    manifest: pathlib.Path
    """Where two of them write, so that there are other tools or prompts."""
    tools_changed: int
    templates = ()

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return nothing: no document is listed."""
        if self.metadata(parent).type != "collection":
            raise NotACollection
        return ()

    def metadata(self, path: Path) -> Resource:
        """Describe the mount or a document."""
        match path:
            case ():
                return Resource(path=(), name="diagnostics", type="collection")
            case (name,) if name in DOCUMENTS:
                mime_type = "application/json" if name.startswith("mixed") else "text/plain"
                return Resource(path=path, name=name, type="document", mime_type=mime_type)
            case _:
                raise ResourceNotFound

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Read a document."""
        return [Content(DOCUMENTS[self.metadata(path).name])]

    def tools(self) -> Sequence[Tool]:
        """Return the tools; the last is another one in each state of the manifest."""
        changed = f"test_changed_{self.tools_changed}"
        triggers = ("test_trigger_prompt_change", "test_trigger_tool_change", changed)
        others = dict.fromkeys((*RESULTS, *QUESTIONS, *_OTHERS, *triggers), _NOTHING)
        return [
            Tool(name=name, description=name, input_schema=schema)
            for name, schema in {**others, **SCHEMAS}.items()
        ]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        """Do what the suite expects of a tool."""
        match name:
            case "test_elicitation":
                return await _asking(request, [("user", arguments["message"], _USER)])
            case "test_sampling":
                return await _sampling(request, arguments["prompt"])
            case "test_trigger_prompt_change":
                return await self._count(r"(Changed )(\d+)")
            case "test_trigger_tool_change":
                return await self._count(r"(tools_changed: )(\d+)")
            case _ if name in QUESTIONS:
                return await _asking(request, QUESTIONS[name])
            case _ if name in _OTHERS:
                return await _OTHERS[name](request)
            case _:
                return RESULTS.get(name, _TEXT)

    async def _count(self, number: str) -> ToolResult:
        """Count up a number in the manifest, which is then loaded again."""

        def change() -> None:
            text = self.manifest.read_text("utf-8")
            text = re.sub(number, lambda found: f"{found[1]}{int(found[2]) + 1}", text)
            self.manifest.write_text(text, "utf-8")

        await asyncio.to_thread(change)
        return ToolResult([TextBlock("Changed")])


async def _asking(asked: ToolRequest, questions: Sequence[tuple[str, str, Schema]]) -> ToolResult:
    answers = [await asked.elicit(*question) for question in questions]
    told = (f"action={each.action}, content={json.dumps(each.content)}" for each in answers)
    return ToolResult([TextBlock(f"Elicitation completed: {'; '.join(told)}; state-ok")])


async def _sampling(
    asked: ToolRequest, prompt: str = "What is the capital of France?"
) -> ToolResult:
    answer = await asked.sample("question", prompt, max_tokens=100)
    return ToolResult([TextBlock(f"LLM response: {answer.text}")])


async def _listing_roots(asked: ToolRequest) -> ToolResult:
    return ToolResult([TextBlock(str(await asked.roots()))])


async def _asking_all(asked: ToolRequest) -> ToolResult:
    """Ask person, model and client in one round."""
    name, greeting, roots = await asyncio.gather(
        asked.elicit(*_NAME),
        asked.sample("greeting", "Generate a greeting", max_tokens=50),
        asked.roots(),
    )
    return ToolResult([TextBlock(f"{greeting.text} {name.content} in {roots}")])


async def _asking_what_the_client_can(asked: ToolRequest) -> ToolResult:
    if asked.can_sample:
        return await _sampling(asked, "Generate a greeting")
    return await _asking(asked, [_NAME])


async def _hurrying(asked: ToolRequest) -> ToolResult:
    """Wait for a person, but not for long: until then the answer is a stream."""
    with suppress(TimeoutError):
        async with asyncio.timeout(MOMENT_S):
            await asked.elicit(*_NAME)
    return ToolResult([TextBlock("Reconnection test completed successfully")])


async def _failing(_: ToolRequest) -> ToolResult:
    raise ToolFailed("This tool intentionally returns an error for testing")


async def _logging(asked: ToolRequest) -> ToolResult:
    asked.log("info", "Tool execution started")
    await asyncio.sleep(MOMENT_S)
    asked.log("info", "Tool processing data")
    await asyncio.sleep(MOMENT_S)
    asked.log("info", "Tool execution completed")
    return ToolResult([TextBlock("Logged")])


async def _progressing(asked: ToolRequest) -> ToolResult:
    for done in (0, 50, 100):
        asked.progress(done, 100)
        await asyncio.sleep(MOMENT_S)
    return ToolResult([TextBlock("Done")])


_OTHERS: Mapping[str, Callable[[ToolRequest], Awaitable[ToolResult]]] = {
    "test_error_handling": _failing,
    "test_input_required_result_capabilities": _asking_what_the_client_can,
    "test_input_required_result_list_roots": _listing_roots,
    "test_input_required_result_multiple_inputs": _asking_all,
    "test_input_required_result_sampling": _sampling,
    "test_logging_tool": _logging,
    "test_missing_capability": _sampling,
    "test_reconnection": _hurrying,
    "test_tool_with_logging": _logging,
    "test_tool_with_progress": _progressing,
}
"""The tools without arguments that ask, report or fail."""

_: tuple[type[Provider], type[SupportsTools]] = (Diagnostics, Diagnostics)
