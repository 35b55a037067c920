"""The tool contract: tools that a provider contributes besides its resources.

The server's own tools list, read and search every mount, so most providers need none. A provider
that can answer more implements `SupportsTools`; read `core.py` first:

    class Dice:
        ...
        def tools(self):
            schema = {"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}},
                      "required": ["sides"], "additionalProperties": False}
            return [Tool(name="roll", description="Roll a die", input_schema=schema)]

        async def call_tool(self, name, arguments, request):
            return ToolResult([TextBlock(str(random.randint(1, arguments["sides"])))])

A tool only reads: it changes nothing, in the mount or elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from resource_server.provider.core import Content, MaybeAwaitable, Path

Schema: TypeAlias = Mapping[str, Any]
"""JSON Schema (2020-12) of an object."""

LogLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of a tool (MCP `Tool`)."""

    name: str
    """1 to 128 characters of `A-Za-z0-9_-.`; a later mount's duplicate becomes `<mount>_<name>`."""
    description: str
    """For the model: what the tool returns and when to call it, in few words."""
    title: str | None = None
    input_schema: Schema = msgspec.field(
        default_factory=lambda: {"type": "object", "additionalProperties": False}
    )
    """Arguments are validated against it before the call.

    A property with `x-mcp-header: NAME` also comes in an HTTP header (2026-07-28), which is named
    `Mcp-Param-NAME`.
    """
    output_schema: Schema | None = None
    """Schema of the structured result, if there is one."""


class TextBlock(msgspec.Struct, frozen=True):
    """Text for the model."""

    text: str


class MediaBlock(msgspec.Struct, frozen=True):
    """An image or audio; the media type is `image/…` or `audio/…`."""

    data: bytes
    mime_type: str


class EmbeddedBlock(msgspec.Struct, frozen=True):
    """A document of the same mount, with its body."""

    path: Path
    content: Content | None = None
    """None reads the document when the result is sent."""


class LinkBlock(msgspec.Struct, frozen=True):
    """A resource of the same mount, as its URI and metadata."""

    path: Path


Block: TypeAlias = TextBlock | MediaBlock | EmbeddedBlock | LinkBlock


class ToolResult(msgspec.Struct, frozen=True):
    """Result of a call."""

    content: Sequence[Block] = ()
    """Blocks for the model; with `structured`, in the same words and numbers."""
    structured: Mapping[str, Any] | None = None
    """JSON values that match the tool's `output_schema`."""


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """A person's answer to an elicitation."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = {}
    """Values of the form, validated against the schema; empty unless accepted."""


class SamplingMessage(msgspec.Struct, frozen=True):
    """One message to the client's model."""

    content: TextBlock | MediaBlock
    role: Literal["user", "assistant"] = "user"


class SamplingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the client's model. Like everything that a client sends, it may be wrong."""

    content: Sequence[TextBlock | MediaBlock]
    model: str
    """Name of the model that wrote it."""
    stop_reason: str | None = None
    """Why the model stopped, such as `endTurn` or `maxTokens`; None if unknown."""

    @property
    def text(self) -> str:
        """The text blocks, joined by line ends."""
        return "\n".join(each.text for each in self.content if isinstance(each, TextBlock))


class ClientRoot(msgspec.Struct, frozen=True):
    """One root as the client describes it (MCP `Root`); it need not exist, and grants nothing."""

    uri: str
    name: str | None = None


class ToolRequest(Protocol):
    """The request that calls a tool; reaches the calling client, its person and its model.

    `elicit`, `sample` and `roots` wait for the client. They may run at the same time, such as in
    `asyncio.gather`; the client then gets all of them in one round. In revisions without sessions
    (2026-07-28) the tool is called again with the answers so far, so up to its last question it
    must do the same each time: ask the same in the same order, and change nothing.

    Each of them raises `CannotElicit` if the client lacks the capability, refuses, does not answer
    in time, or answers what was not asked for.
    """

    @property
    def budget(self) -> int:
        """Maximum characters of the result, as text or as JSON, whichever is longer.

        The server cuts longer text at a line, and refuses longer JSON: leave out items instead.
        """
        ...

    @property
    def can_elicit(self) -> bool:
        """Whether the client can show a form to a person."""
        ...

    @property
    def can_sample(self) -> bool:
        """Whether the client offers its model."""
        ...

    @property
    def can_list_roots(self) -> bool:
        """Whether the client tells the folders that it works on."""
        ...

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress, if the client asked for it."""
        ...

    def log(self, level: LogLevel, text: str) -> None:
        """Send a log message, if the client asked for its level."""
        ...

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """Ask the person behind the client to fill in a form (MCP elicitation, form mode).

        `schema` is a flat object of strings, numbers, booleans, enums and multiple-choice lists
        (from 2025-11-25 on). `key` identifies the question within the call; no other question of
        the call has it.

        Raises:
            CannotElicit: see above.
        """
        ...

    async def sample(
        self,
        key: str,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int,
        system: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] = (),
    ) -> SamplingAnswer:
        """Ask the model of the client, which may first ask its person (MCP sampling).

        Deprecated in MCP, so few clients offer it: do without where `can_sample` is false.
        `messages` as text is one message of the user. `key` is as in `elicit`.

        Raises:
            CannotElicit: see above.
        """
        ...

    async def roots(self) -> Sequence[ClientRoot]:
        """Return the folders that the client works on (MCP roots); deprecated in MCP, too.

        Raises:
            CannotElicit: see above.
        """
        ...


@runtime_checkable
class SupportsTools(Protocol):
    """Contributes tools."""

    def tools(self) -> MaybeAwaitable[Sequence[Tool]]:
        """Return the tools: always the same, in the same order.

        Called before the provider is entered: clients see tools even of a mount that is down.
        """
        ...

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> MaybeAwaitable[ToolResult]:
        """Call a tool that `tools` defines, with arguments that match its schema.

        Raises:
            ToolFailed: the call cannot succeed; the message tells the model what to do.
            ResourceError: as in `core.py`; the model gets the message too.
        """
        ...
