"""The contract of a provider that contributes tools beside its resources; see `provider.py` first.

Hosts whose model never sees a resource call tools. The catalog itself is offered as a few tools by
the server, whatever the provider. One that has more to offer implements `SupportsTools`:

    class Dice:
        ...
        def tools(self):
            schema = {"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}},
                      "required": ["sides"], "additionalProperties": False}
            return [Tool(name="roll", description="Roll a die", input_schema=schema)]

        async def call_tool(self, name, arguments, request):
            return ToolResult([TextBlock(str(random.randint(1, arguments["sides"])))])

A tool reads: it changes nothing, here or elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.errors import CannotElicit, ToolFailed
from resource_server.provider.core import Content, MaybeAwaitable, Path

__all__ = [
    "Block",
    "CannotElicit",
    "ElicitationAnswer",
    "EmbeddedBlock",
    "LinkBlock",
    "LogLevel",
    "MediaBlock",
    "Schema",
    "SupportsTools",
    "TextBlock",
    "Tool",
    "ToolFailed",
    "ToolRequest",
    "ToolResult",
]

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema of the dialect 2020-12; of an object."""

LogLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is told of a tool (MCP `Tool`)."""

    name: str
    """1 to 128 of `A-Za-z0-9_-.`; where two mounts have the same, one is told with its mount's."""
    description: str
    """For the model: what it gives and when to call it, in few words."""
    title: str | None = None
    input_schema: Schema = msgspec.field(
        default_factory=lambda: {"type": "object", "additionalProperties": False}
    )
    """Arguments are checked against it before the tool is called.

    Over HTTP clients repeat those in headers of which it names one: `x-mcp-header` (2026-07-28).
    """
    output_schema: Schema | None = None
    """What the structured result keeps to, if there is one."""


class TextBlock(msgspec.Struct, frozen=True):
    """Words for the model."""

    text: str


class MediaBlock(msgspec.Struct, frozen=True):
    """An image or a sound, by its media type `image/…` or `audio/…`."""

    data: bytes
    mime_type: str


class EmbeddedBlock(msgspec.Struct, frozen=True):
    """A document of the provider's own mount, whole."""

    path: Path
    content: Content | None = None
    """None: read when it is sent."""


class LinkBlock(msgspec.Struct, frozen=True):
    """A resource of the provider's own mount, by its URI and metadata."""

    path: Path


Block: TypeAlias = TextBlock | MediaBlock | EmbeddedBlock | LinkBlock


class ToolResult(msgspec.Struct, frozen=True):
    """What a call returned."""

    content: Sequence[Block] = ()
    """What the model reads; says the same as `structured`, where that is given."""
    structured: Mapping[str, Any] | None = None
    """JSON-ready; keeps to the tool's `output_schema`."""


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """What a person answered."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = {}
    """What was filled in, checked against the schema; empty unless accepted."""


class ToolRequest(Protocol):
    """The request that calls a tool: what can be told and asked while it runs."""

    @property
    def can_elicit(self) -> bool:
        """Whether the client can put a question to a person."""
        ...

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how much is done, to a client that asked for it."""
        ...

    def log(self, level: LogLevel, text: str) -> None:
        """Send a log message to a client that asked for its level."""
        ...

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """Put a question to the person (MCP elicitation, form mode).

        `schema` is flat: an object of strings, numbers, booleans, enums, and lists of which several
        values are chosen (not before 2025-11-25). `key` names the question within the call: in
        revisions without sessions the tool is called again with what was answered so far, and comes
        to the same questions in the same order.

        Raises:
            CannotElicit: the client cannot; or nobody answers in time.
        """
        ...


@runtime_checkable
class SupportsTools(Protocol):
    """Contributes tools."""

    def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
        """Return the tools: always the same, in the same order.

        Asked for before the provider is entered, so that clients know them whatever works.
        """
        ...

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> MaybeAwaitable[ToolResult]:
        """Return the result of a tool that `tools` has; the arguments keep to its schema.

        Raises:
            ToolFailed: it cannot be done; the model is told why.
            ResourceError: as in `provider.py`; the model is told as well.
        """
        ...
