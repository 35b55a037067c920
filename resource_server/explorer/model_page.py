"""The page that shows what a model is given: of a resource, a call of a tool, or a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from resource_server.explorer.page import Page
from resource_server.protocol.serialization import META_RESOURCE

TOOL = "read_resource"

_CHARACTERS_OF_A_TOKEN = 4


class Given(NamedTuple):
    """One form in which the result of a call reaches a model, or one message of a prompt."""

    title: str
    text: str
    uri: str | None = None
    """URI of the resource that a message embeds."""
    is_picture: bool = False

    @property
    def characters(self) -> int:
        """Number of characters."""
        return len(self.text)

    @property
    def tokens(self) -> int:
        """Number of tokens, about."""
        return -(-len(self.text) // _CHARACTERS_OF_A_TOKEN)


async def show_as_model(page: Page) -> Response:
    """Return the page with what `read_resource` gives a model of the resource.

    Raises:
        ErrorReply: the tool is not offered.
    """
    arguments = {"uri": page.uri}
    result = await page.client.request("tools/call", {"name": TOOL, "arguments": arguments})
    return page.render(
        "model.html",
        uri=page.uri,
        crumbs=await page.visible_crumbs(page.uri),
        call=call_text(TOOL, arguments),
        given=given(result),
        pictures=pictures(result),
        failed=bool(result.get("isError")),
    )


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as people write it."""
    return f"{name} {msgspec.json.encode(arguments).decode()}"


def given(result: Mapping[str, Any]) -> Sequence[Given]:
    """Return what reaches a model.

    A call of a tool has a form for hosts that take text and one for those that take JSON; a prompt
    has messages.
    """
    if "messages" in result:
        return [_message(each["role"], each["content"]) for each in result["messages"]]
    texts = [_block_text(block) for block in result.get("content", ())]
    forms = [Given("Hosts that take text", "\n".join(texts))]
    structured = result.get("structuredContent")
    if structured is not None:
        encoded = msgspec.json.encode(structured).decode()
        forms.append(Given("Hosts that take JSON (structuredContent)", encoded))
    return forms


def pictures(result: Mapping[str, Any]) -> int:
    """Return the number of image blocks of a result."""
    return sum(block.get("type") == "image" for block in result.get("content", ()))


def _message(role: str, block: Mapping[str, Any]) -> Given:
    # An image is no resource, but names the one that it is of.
    resource = block.get("resource") or block.get("_meta", {}).get(META_RESOURCE, {})
    return Given(role, _block_text(block), resource.get("uri"), block["type"] == "image")


def _block_text(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"mimeType": str(media_type), "data": str(data)}:
            return f"[{media_type}: {len(data) * 3 // 4:,} bytes]"
        case _:
            return msgspec.json.encode(block).decode()
