"""The list of prompts, page by page."""

from __future__ import annotations

from typing import Any

import msgspec

from resource_server.catalog import cursor
from resource_server.errors import InvalidParameter
from resource_server.manifest.prompts import Prompt
from resource_server.protocol import params
from resource_server.protocol.call import Call, Result
from resource_server.protocol.server import Server
from resource_server.runtime.near_name import did_you_mean

_CURSOR_SCOPE = "prompts"

_encode = msgspec.json.Encoder().encode


async def list_prompts(call: Call, given: params.PageParams) -> Result:
    """Answer `prompts/list`, in the order of the manifest."""
    page, next_cursor = cursor.page(
        list(call.server.prompts.items()),
        lambda each: (each[0],),
        given.cursor,
        scope=_CURSOR_SCOPE,
        size=call.server.catalog.limits.page_size,
    )
    prompts = [_wire_prompt(name, prompt, titles=call.revision.titles) for name, prompt in page]
    members = b'"prompts":' + _encode(prompts)
    if next_cursor is not None:
        members += b',"nextCursor":' + _encode(next_cursor)
    return Result(members, ttl_ms=call.server.ttl_ms)


def prompt_named(server: Server, name: str) -> Prompt:
    """Return the prompt with this name.

    Raises:
        InvalidParameter: there is none.
    """
    prompt = server.prompts.get(name)
    if prompt is None:
        hint = did_you_mean(name, server.prompts) or "; see prompts/list"
        raise InvalidParameter(f"no prompt has this name{hint}")
    return prompt


def _wire_prompt(name: str, prompt: Prompt, *, titles: bool) -> dict[str, Any]:
    members = {"name": name, **_labels(prompt.title if titles else None, prompt.description)}
    if prompt.arguments:
        members["arguments"] = [
            {
                "name": name,
                **_labels(each.title if titles else None, each.description),
                "required": each.required,
            }
            for name, each in prompt.arguments.items()
        ]
    return members


def _labels(title: str | None, description: str | None) -> dict[str, Any]:
    labels = {"title": title, "description": description}
    return {name: text for name, text in labels.items() if text is not None}
