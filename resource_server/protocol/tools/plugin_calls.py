"""Calls of provider tools: arguments are validated, time is limited, results become blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from typing_extensions import override

from resource_server import uris
from resource_server.catalog.mount import Mount
from resource_server.catalog.read_result import ReadItem
from resource_server.errors import CannotElicit, ProviderFailed, ResourceServerError, ToolFailed
from resource_server.protocol import content_blocks
from resource_server.protocol.call import Call, Result
from resource_server.protocol.client_features.client_inputs import ClientInputs, Input
from resource_server.protocol.client_features.client_roots import RootsRequest
from resource_server.protocol.client_features.elicitation_form import Elicitation, missing_arguments
from resource_server.protocol.client_features.sampling import Sampling
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.tools.budget import characters
from resource_server.protocol.tools.registry import OfferedTool
from resource_server.protocol.tools.results import has_structured, tool_result
from resource_server.protocol.tools.text_range import beginning
from resource_server.protocol.tools.validation import ArgumentsValidator
from resource_server.provider import Content
from resource_server.provider.tools import (
    Block,
    ClientRoot,
    ElicitationAnswer,
    EmbeddedBlock,
    LinkBlock,
    LogLevel,
    MediaBlock,
    SamplingAnswer,
    SamplingMessage,
    Schema,
    TextBlock,
    ToolRequest,
    ToolResult,
)
from resource_server.runtime.eager import TimeLimit, settle
from resource_server.runtime.json_numbers import exact_json

MAX_ARGUMENT_BYTES = 256 * 1024
"""Maximum bytes of the arguments as JSON."""

_OFF_LOOP_BYTES = 4096
"""Arguments with more bytes are validated off the event loop."""
_MAX_LOG_CHARACTERS = 8 * 1024
_ARGUMENTS_KEY = "arguments"
"""Key of the elicitation for missing arguments."""
_CUT = "[Truncated: the result is longer. Ask for less.]"
_LEFT_OUT = "[The structured result is left out: it is over the budget.]"
_ROOTS_KEY = "client_roots"

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def call_plugin_tool(
    call: Call, offered: OfferedTool, mount: Mount, raw_arguments: bytes
) -> Result:
    """Call the tool of a provider.

    Raises:
        ResourceError: the arguments do not fit, or the provider raises it.
    """
    validator = cast("ArgumentsValidator", offered.validator)
    given = _decoded_arguments(call, validator, raw_arguments)
    inputs = call.inputs("tools/call", offered.name, given)
    arguments = await _arguments(inputs, offered, validator, given, len(raw_arguments))
    await mount.start()
    found = await _run(call, inputs, offered, mount, arguments)
    structured = None
    if found.structured is not None:
        structured = _encode(found.structured)
        if offered.tool.output_schema is None:  # which may promise numbers
            structured = exact_json(structured.decode()).encode()
        if structured[:1] != b"{":
            raise ResourceServerError("the structured result is no object")
    elif offered.tool.output_schema is not None:
        raise ResourceServerError("a tool with an output schema returned no structured result")
    blocks = found.content
    if not blocks and structured is not None:
        blocks = [TextBlock(structured.decode())]
    affordable = _affordable(call, offered, structured)
    content = await _content(call, mount, blocks)
    if affordable is None and structured is not None:
        content.append(content_blocks.text_block(_LEFT_OUT))
    if call.record is not None:
        call.record.called(mount, offered.tool.name, arguments, found.structured)
    return tool_result(call, content, affordable)


def _affordable(call: Call, offered: OfferedTool, structured: bytes | None) -> bytes | None:
    """Return the structured result if it is within the budget: only its tool could shorten it.

    None: it is not, and is left out.

    Raises:
        ToolFailed: it is not, and the tool's schema promises it.
    """
    limit = call.server.toolbox.settings.budget
    if structured is None or not has_structured(call) or characters(structured) <= limit:
        return structured
    if offered.tool.output_schema is None:
        return None
    size = characters(structured)
    raise ToolFailed(f"The result has {size} characters, over the budget of {limit}. Ask for less.")


# -- arguments


def _decoded_arguments(
    call: Call, validator: ArgumentsValidator, raw_arguments: bytes
) -> Mapping[str, Any]:
    if len(raw_arguments) > MAX_ARGUMENT_BYTES:
        raise ToolFailed(f"Invalid arguments: longer than {MAX_ARGUMENT_BYTES} bytes")
    try:
        arguments: Mapping[str, Any] = _decode(raw_arguments)
    except UNPARSABLE as error:
        raise ToolFailed(f"Invalid arguments: {error}") from None
    if call.header is not None:
        validator.header_arguments.check(arguments, call.header)
    return arguments


async def _arguments(
    inputs: ClientInputs,
    offered: OfferedTool,
    validator: ArgumentsValidator,
    arguments: Mapping[str, Any],
    size: int,
) -> Mapping[str, Any]:
    missing = validator.missing(arguments)
    if missing:
        # Before the person is asked: a call that fails afterwards would lose the answer.
        await _check(validator, arguments, size, are_all=False)
        arguments = await _elicited(inputs, offered, missing, arguments)
    await _check(validator, arguments, size)
    return arguments


async def _check(
    validator: ArgumentsValidator, arguments: Mapping[str, Any], size: int, *, are_all: bool = True
) -> None:
    if size <= _OFF_LOOP_BYTES:
        validator.check(arguments, are_all=are_all)
        return
    from anyio import to_thread  # slow to import, and rarely needed

    await settle(to_thread.run_sync(partial(validator.check, arguments, are_all=are_all)))


async def _elicited(
    inputs: ClientInputs,
    offered: OfferedTool,
    missing: Sequence[str],
    arguments: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return the arguments, completed by a person's answer for the missing ones.

    Raises:
        ToolFailed: the client has no elicitation, or nobody answers; names the missing ones.
    """
    names = ", ".join(missing)
    properties: Mapping[str, Any] = offered.tool.input_schema.get("properties", {})
    fields = {name: properties.get(name, {}) for name in missing}
    title = offered.tool.title or offered.name
    try:
        answer = await inputs.ask(_ARGUMENTS_KEY, missing_arguments(title, fields))
    except CannotElicit as error:
        raise ToolFailed(f"Missing arguments: {names}. Call again with them. ({error})") from None
    if answer.action == "decline":
        raise ToolFailed(f"The user was asked for {names}, and prefers not to say.")
    if answer.action == "cancel":
        raise ToolFailed(f"The user was asked for {names}, and has dismissed the question.")
    return {**arguments, **answer.content}


# -- the call


class PluginToolRequest(ToolRequest):
    """The request as its tool sees it; waiting for the client does not count as its time."""

    def __init__(self, call: Call, inputs: ClientInputs, time_limit: TimeLimit) -> None:
        self._call = call
        self._inputs = inputs
        self._time_limit = time_limit
        self._open = 0
        """Number of inputs without an answer."""

    @property
    @override
    def budget(self) -> int:
        return self._call.server.toolbox.settings.budget

    @property
    @override
    def can_elicit(self) -> bool:
        return self._inputs.can("elicitation")

    @property
    @override
    def can_sample(self) -> bool:
        return self._inputs.can("sampling")

    @property
    @override
    def can_list_roots(self) -> bool:
        return self._inputs.can("roots")

    @override
    def progress(self, done: float, total: float | None = None) -> None:
        if self._call.progress is not None:
            self._call.progress.step(done, total)

    @override
    def log(self, level: LogLevel, text: str) -> None:
        self._call.log(level, uris.display(text[:_MAX_LOG_CHARACTERS]))

    @override
    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        return await self._ask(key, Elicitation(message, schema))

    @override
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
        wanted = Sampling(
            messages,
            max_tokens=max_tokens,
            system=system,
            temperature=temperature,
            stop_sequences=stop_sequences,
        )
        return await self._ask(key, wanted)

    @override
    async def roots(self) -> Sequence[ClientRoot]:
        return await self._ask(_ROOTS_KEY, RootsRequest())

    async def _ask(self, key: str, wanted: Input[T]) -> T:
        self._open += 1
        self._time_limit.pause()
        try:
            return await self._inputs.ask(key, wanted)
        finally:
            self._open -= 1
            if self._open == 0:
                self._time_limit.resume()


async def _run(
    call: Call,
    inputs: ClientInputs,
    offered: OfferedTool,
    mount: Mount,
    arguments: Mapping[str, Any],
) -> ToolResult:
    time_limit = TimeLimit(call.server.timing.tool_timeout_s)
    request = PluginToolRequest(call, inputs, time_limit)
    try:
        found = await mount.provider.call_tool(offered.tool.name, arguments, request, time_limit)
    except Exception as error:
        refusal = _refusal(error)
        if refusal is not None:  # other answers would be of no use
            raise refusal from None
        if inputs.interruption is not None:
            raise inputs.interruption from None
        raise
    if inputs.interruption is not None:
        raise inputs.interruption  # which the tool has taken for an answer
    return found


def _refusal(error: BaseException | None) -> CannotElicit | None:
    """Return the missing answer because of which a tool or its task group failed; None if none."""
    if isinstance(error, CannotElicit):
        return error
    if isinstance(error, ProviderFailed):
        return _refusal(error.__cause__)
    if not isinstance(error, BaseExceptionGroup):
        return None
    parts = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return next((found for found in map(_refusal, parts) if found is not None), None)


# -- the result


async def _content(call: Call, mount: Mount, blocks: Sequence[Block]) -> list[bytes]:
    """Return the blocks of a result, whose size is checked one by one.

    Text over the budget is cut at a line; what else is over it, but for images and sounds, is left
    out. Both are marked.
    """
    limit = call.server.limits.tool_result_bytes
    room = call.server.toolbox.settings.budget
    content: list[bytes] = []
    size, is_cut = 0, False
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if sum(map(len, texts)) > room or len(texts) < len(blocks):
        room = max(1, room - len(_CUT) - len(texts))
    for block in blocks:
        if isinstance(block, TextBlock):
            if not room:
                is_cut = True
                continue
            shown = beginning(block.text, room)
            is_cut = is_cut or len(shown) < len(block.text)
            room = 0 if is_cut else room - len(shown)
            block = TextBlock(shown)
        encoded = await _block(call, mount, block)
        if not isinstance(block, TextBlock) and not content_blocks.is_media_block(encoded):
            if characters(encoded) > room:
                is_cut = True
                continue
            room -= characters(encoded)
        content.append(encoded)
        size += len(content[-1])
        if size > limit:
            raise ToolFailed(f"The result is longer than {limit} bytes. Ask for less.")
    return [*content, content_blocks.text_block(_CUT)] if is_cut else content


async def _block(call: Call, mount: Mount, block: Block) -> bytes:
    revision = call.revision
    match block:
        case TextBlock(text=str() as text):
            return content_blocks.text_block(text)
        case MediaBlock(data=bytes() as data, mime_type=str() as mime_type):
            media = content_blocks.media_block(data, mime_type, revision)
            if media is not None:
                return media
            return content_blocks.text_block(
                f"[{mime_type}, {len(data)} bytes: not shown by this client]"
            )
        case LinkBlock(path=path):
            entry = await call.server.catalog.metadata(mount.uri(path))
            return content_blocks.link_block(entry, revision)
        case EmbeddedBlock(path=path, content=content):
            return await _embedded(call, mount.uri(path), content)
    raise ResourceServerError(f"a {type(block).__name__} is no block of a result")


async def _embedded(call: Call, uri: str, content: Content | None) -> bytes:
    catalog = call.server.catalog
    if content is not None:
        # Also checks that the resource is visible.
        body = ReadItem(uri, await catalog.metadata(uri), content)
        return content_blocks.document_block(body, call.revision)
    reading = await catalog.read(uri)
    if reading.collection is not None:
        raise ResourceServerError(f"a collection cannot be embedded: {uris.display(uri)}")
    return content_blocks.document_block(reading.items[0], call.revision)
