"""The messages of a prompt, with arguments filled in and the resources they name read.

What is read goes through the catalog, as every read of a client does: a prompt shows nothing that
its caller could not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import ReadResult
from resource_server.errors import InvalidParameter, ResourceError, ResourceNotFound
from resource_server.manifest import prompts
from resource_server.manifest.prompts import PromptMessage
from resource_server.protocol import content_blocks, error_mapping, params, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.prompts.arguments import values_of
from resource_server.protocol.prompts.listing import prompt_named
from resource_server.runtime.eager import Turns

MAX_TEXT = 8 * 1024 * 1024
"""Characters of one message: a long value may stand in it many times."""
MAX_BYTES = 16 * 1024 * 1024
"""Of all messages of a prompt."""

_encode = msgspec.json.Encoder().encode


async def get_prompt(call: Call, asked: params.GetPrompt) -> Result:
    """Answer `prompts/get`: one message each, but of a collection one for each child."""
    prompt = prompt_named(call.server, asked.name)
    values = values_of(prompt, asked.arguments or {})
    messages: list[bytes] = []
    left_out = size = 0
    turns = Turns()
    for message in prompt.messages:
        await turns.others()
        if message.resource is None:
            found: Sequence[bytes] = [content_blocks.text(_text(message.text or "", values))]
        elif (uri := filled_uri(message.resource, values)) is None:
            continue
        else:
            reading = await _read(call, uri, uris.template_variables(message.resource), values)
            found = _blocks(call, uri, reading)
            left_out += not reading.complete
        size += sum(map(len, found))
        if size > MAX_BYTES:
            reason = f"the messages are longer than {MAX_BYTES} bytes"
            raise InvalidParameter(f"{reason}; shorten the arguments, or name less to read")
        messages += [_message(message, block) for block in found]
    described = b'"description":%b,' % _encode(prompt.description) if prompt.description else b""
    members = described + b'"messages":[' + b",".join(messages) + b"]"
    meta = (
        {serialization.META_TRUNCATED: {"collections": left_out, "more": True}}
        if left_out
        else None
    )
    return Result(members, meta)


def filled_uri(template: str, values: Mapping[str, str]) -> str | None:
    """Return the URI of a message's resource; None where a part of its path has no value.

    What such a URI names is not what was meant: without its last segment it is the collection.

    Raises:
        ResourceNotFound: a value is too long for any URI.
    """
    variables = uris.template_variables(template)
    for name in variables:
        if len(values.get(name, "")) > uris.MAX_URI_LENGTH:
            raise ResourceNotFound(f"argument '{name}' is too long for a URI")
    if any(name not in values for name, operator in variables.items() if operator in ("", "+")):
        return None
    return uris.expand(template, values)


def _text(text: str, values: Mapping[str, str]) -> str:
    if sum(len(values.get(name, "")) for name in prompts.placeholder_names(text)) > MAX_TEXT:
        raise InvalidParameter(f"arguments make a message longer than {MAX_TEXT} characters")
    return prompts.filled_text(text, values)


async def _read(
    call: Call, uri: str, variables: Iterable[str], values: Mapping[str, str]
) -> ReadResult:
    try:
        return await call.server.catalog.read(uri, call.progress)
    except ResourceError as error:
        told, about = error, uri
        if isinstance(error, ResourceNotFound):
            told = ResourceNotFound(_absent([name for name in variables if name in values]))
            # The manifest's author wrote it, and it may be one that does not exist for who asks.
            about = None
        fault = error_mapping.from_error(told, about, call.revision)
        if fault is None:
            raise
        raise fault from error


def _absent(given: Sequence[str]) -> str:
    """Return what can be done about a resource that is not there: another argument, mostly."""
    names = [f"'{name}'" for name in given]
    if not names:
        return "a resource of this prompt cannot be read"
    named = f"argument {names[0]} names" if len(names) == 1 else f"{', '.join(names)} name"
    return f"{named} nothing that can be read"


def _blocks(call: Call, uri: str, reading: ReadResult) -> Sequence[bytes]:
    if reading.collection is None:
        # A message says one thing: of a document read in all its formats, the preferred one.
        return [content_blocks.document(reading.items[0], call.revision)]
    found = serialization.each(
        partial(content_blocks.document, revision=call.revision), reading.items
    )
    if len(found) < len(reading.children) or not reading.complete:
        told = f"There is more in {uri} than the {len(found)} above."
        found.append(content_blocks.text(told if found else f"Nothing in {uri} can be given here."))
    elif not found:
        found.append(content_blocks.text(f"There is nothing in {uri}."))
    return found


def _message(message: PromptMessage, block: bytes) -> bytes:
    return b'{"role":"%b","content":%b}' % (message.role.encode(), block)
