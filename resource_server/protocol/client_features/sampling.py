"""Sampling: messages to the model of a client, and its answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from resource_server.errors import CannotElicit, ResourceServerError
from resource_server.protocol import content_blocks
from resource_server.protocol.client_features.client_inputs import Input
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import MediaBlock, SamplingAnswer, SamplingMessage, TextBlock


class _Block(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    text: str | None = None
    data: str | None = None
    mime_type: str | None = None


class _CreateMessageResult(msgspec.Struct, frozen=True, rename="camel"):
    model: str
    content: _Block | list[_Block]
    stop_reason: str | None = None


_decode = msgspec.json.Decoder(_CreateMessageResult).decode


class Sampling(Input[SamplingAnswer]):
    """Messages to a model."""

    capability = "sampling"
    method = "sampling/createMessage"
    max_answer_bytes = 1024 * 1024

    def __init__(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int,
        system: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] = (),
    ) -> None:
        """Take what a tool gives (`ToolRequest.sample`)."""
        if isinstance(messages, str):
            messages = [SamplingMessage(TextBlock(messages))]
        if not messages or max_tokens < 1:
            raise ResourceServerError("a model needs one message, and one token to answer")
        self._messages = messages
        options: Mapping[str, Any] = {
            "systemPrompt": system,
            "temperature": temperature,
            "stopSequences": list(stop_sequences) or None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        self._options = {"maxTokens": max_tokens, **given}

    @override
    def params(self, revision: Revision) -> Mapping[str, Any]:
        messages = [
            {"role": each.role, "content": msgspec.Raw(_block(each.content, revision))}
            for each in self._messages
        ]
        return {"messages": messages, **self._options}

    @override
    def answer(self, data: msgspec.Raw) -> SamplingAnswer:
        result = _decode(data)
        blocks = result.content if isinstance(result.content, list) else [result.content]
        # Without blocks that are neither text nor media.
        content = [block for block in map(_decoded, blocks) if block is not None]
        return SamplingAnswer(content=content, model=result.model, stop_reason=result.stop_reason)


def _block(block: TextBlock | MediaBlock, revision: Revision) -> bytes:
    if isinstance(block, TextBlock):
        return content_blocks.text_block(block.text)
    media = content_blocks.media_block(block.data, block.mime_type, revision)
    if media is None:
        raise CannotElicit(f"this client's model takes no {block.mime_type}")
    return media


def _decoded(block: _Block) -> TextBlock | MediaBlock | None:
    """Return a block of the answer; None for one that was not asked for, such as a tool's use.

    Raises:
        msgspec.ValidationError: it has not what its type says.
    """
    match block:
        case _Block(type="text", text=str() as text):
            return TextBlock(text)
        case _Block(type="image" | "audio" as kind, data=str() as data, mime_type=str() as given):
            if not given.lower().startswith(f"{kind}/"):
                raise msgspec.ValidationError(f"{kind} with another media type")
            try:
                return MediaBlock(base64.b64decode(data, validate=True), given)
            except (binascii.Error, ValueError):
                raise msgspec.ValidationError(f"{kind} that is not base64") from None
        case _Block(type="text" | "image" | "audio" as kind):
            raise msgspec.ValidationError(f"{kind} without its data")
        case _:
            return None
