"""Rendered prompts: arguments filled in, resources read and embedded.

Resources are read through the catalog as for any client, so a prompt shows nothing that its caller
could not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from resource_server import uris
from resource_server.catalog.read_result import ReadResult
from resource_server.errors import CannotElicit, InvalidParameter, ResourceError, ResourceNotFound
from resource_server.manifest import prompts
from resource_server.manifest.prompts import Prompt, PromptArgument
from resource_server.manifest.wording import printable, quoted_value
from resource_server.protocol import content_blocks, error_mapping, params, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.client_features.elicitation_form import missing_arguments
from resource_server.protocol.prompts.listing import prompt_named
from resource_server.runtime.eager import Turns
from resource_server.runtime.near_name import did_you_mean

MAX_MESSAGE_CHARACTERS = 8 * 1024 * 1024
"""Maximum characters of the arguments in one message, which may repeat a long value."""

_MAX_PROBLEMS = 5
_ARGUMENTS_KEY = "arguments"
"""Key of the elicitation for missing arguments."""

_encode = msgspec.json.Encoder().encode


async def get_prompt(call: Call, given: params.GetPromptParams) -> Result:
    """Answer `prompts/get`; the resource of a collection becomes one message per child."""
    prompt = prompt_named(call.server, given.name)
    values = argument_values(
        prompt, await _arguments(call, given.name, prompt, given.arguments or {})
    )
    limit = call.server.limits.prompt_bytes
    messages: list[bytes] = []
    truncated = size = 0
    turns = Turns()
    for message in prompt.messages:
        await turns.others()
        if message.resource is None:
            blocks: Sequence[bytes] = [
                content_blocks.text_block(_filled_text(message.text or "", values))
            ]
        elif (uri := filled_uri(message.resource, values)) is None:
            continue
        else:
            reading = await _read(call, uri, uris.template_variables(message.resource), values)
            blocks = _blocks(call, uri, reading)
            truncated += not reading.complete or reading.is_shortened
        size += sum(map(len, blocks))
        if size > limit:
            reason = f"the messages are longer than {limit} bytes"
            raise InvalidParameter(f"{reason}; shorten the arguments, or name less to read")
        role = message.role.encode()
        messages += [b'{"role":"%b","content":%b}' % (role, block) for block in blocks]
    description = b'"description":%b,' % _encode(prompt.description) if prompt.description else b""
    members = description + b'"messages":[' + b",".join(messages) + b"]"
    meta = None
    if truncated:
        meta = {serialization.META_TRUNCATED: {"collections": truncated, "more": True}}
    return Result(members, meta)


async def _arguments(
    call: Call, name: str, prompt: Prompt, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments, completed by a person's answer for the missing ones if there is one."""
    inputs = call.inputs("prompts/get", name, given)
    missing = _missing(prompt, given)
    if not missing or not inputs.can("elicitation"):
        return given
    # Before the person is asked: a prompt that fails afterwards would lose the answer.
    argument_values(prompt, given, are_all=False)
    fields = {each: _field(prompt.arguments[each]) for each in missing}
    try:
        answer = await inputs.ask(_ARGUMENTS_KEY, missing_arguments(prompt.title or name, fields))
    except CannotElicit:
        return given
    return {**given, **answer.content}


def _missing(prompt: Prompt, given: Mapping[str, object]) -> list[str]:
    """Return the required arguments without a value."""
    return [
        name
        for name, argument in prompt.arguments.items()
        if argument.required and given.get(name, "") == ""
    ]


def _field(argument: PromptArgument) -> dict[str, Any]:
    """Return the schema of an argument in a form."""
    told = {"title": argument.title, "description": argument.description}
    field: dict[str, Any] = {"type": "string", **{k: v for k, v in told.items() if v is not None}}
    return {**field, "enum": list(argument.enum)} if argument.enum else {**field, "minLength": 1}


def argument_values(
    prompt: Prompt, given: Mapping[str, object], *, are_all: bool = True
) -> dict[str, str]:
    """Return the values of arguments, given or by default.

    An empty value counts as missing: forms send it for a field that was left empty. Without
    `are_all`, required arguments may be missing.

    Raises:
        InvalidParameter: with every problem.
    """
    problems = list(_argument_problems(prompt, given, are_all=are_all))
    unknown = [name for name in given if name not in prompt.arguments]
    if problems or unknown:
        # A client may send very many unknown arguments.
        problems += [
            f"there is no argument '{printable(name)}'{did_you_mean(name, prompt.arguments)}"
            for name in unknown[:_MAX_PROBLEMS]
        ]
        reported = problems[:_MAX_PROBLEMS]
        more = len(problems) + len(unknown[_MAX_PROBLEMS:]) - len(reported)
        raise InvalidParameter("; ".join(reported + ([f"and {more} more"] if more else [])))
    values = {name: given.get(name) or each.default for name, each in prompt.arguments.items()}
    return {name: value for name, value in values.items() if value and isinstance(value, str)}


def _argument_problems(
    prompt: Prompt, given: Mapping[str, object], *, are_all: bool
) -> Iterator[str]:
    for name, argument in prompt.arguments.items():
        value = given.get(name, "")
        if not isinstance(value, str):
            yield f"argument '{name}': expected text, found {quoted_value(value)}"
        elif are_all and argument.required and not value:
            yield f"argument '{name}' is required"
        elif value and argument.enum and value not in argument.enum:
            hint = did_you_mean(value, argument.enum)
            yield f"argument '{name}' is one of {', '.join(argument.enum)}{hint}"


def filled_uri(template: str, values: Mapping[str, str]) -> str | None:
    """Return the URI of a message's resource; None without a value for a variable of its path.

    Without a path segment, the URI would name another resource: the collection above.

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


def _filled_text(text: str, values: Mapping[str, str]) -> str:
    if (
        sum(len(values.get(name, "")) for name in prompts.placeholder_names(text))
        > MAX_MESSAGE_CHARACTERS
    ):
        raise InvalidParameter(
            f"arguments make a message longer than {MAX_MESSAGE_CHARACTERS} characters"
        )
    return prompts.filled_text(text, values)


async def _read(
    call: Call, uri: str, variables: Iterable[str], values: Mapping[str, str]
) -> ReadResult:
    catalog = call.server.catalog
    try:
        if (name := await catalog.text_format(uri)) is not None:
            query = {**uris.parse(uri).query, "format": name}
            uri = uris.with_query(uri.partition("?")[0], query)
        return await catalog.read(uri, call.progress)
    except ResourceError as error:
        reported, reported_uri = error, uri
        if isinstance(error, ResourceNotFound):
            reported = ResourceNotFound(_not_found([name for name in variables if name in values]))
            # The URI comes from the manifest, and may be hidden from this caller.
            reported_uri = None
        fault = error_mapping.from_error(reported, reported_uri, call.revision)
        if fault is None:
            raise
        raise fault from error


def _not_found(arguments: Sequence[str]) -> str:
    """Return a message that names the arguments to change."""
    names = [f"'{name}'" for name in arguments]
    if not names:
        return "a resource of this prompt cannot be read"
    subject = f"argument {names[0]} names" if len(names) == 1 else f"{', '.join(names)} name"
    return f"{subject} nothing that can be read"


def _blocks(call: Call, uri: str, reading: ReadResult) -> Sequence[bytes]:
    if reading.collection is None:
        # One message holds one content: the preferred format of a document.
        return [content_blocks.document_block(reading.items[0], call.revision)]
    blocks = serialization.each(
        partial(content_blocks.document_block, revision=call.revision), reading.items
    )
    if len(blocks) < len(reading.items) or not reading.complete:
        total = "" if reading.total is None else f" of {reading.total}"
        text = f"There is more in {uri} than the {len(blocks)}{total} above."
        if not blocks:
            text = f"Nothing in {uri} can be given here."
        blocks.append(content_blocks.text_block(text))
    elif not blocks:
        blocks.append(content_blocks.text_block(f"There is nothing in {uri}."))
    if reading.is_shortened:
        text = f"Some documents of {uri} are truncated above; their URIs read them whole."
        blocks.append(content_blocks.text_block(text))
    return blocks
