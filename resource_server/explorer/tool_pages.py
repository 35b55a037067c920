"""The pages of tools and prompts: a form for each, and what its result gives a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from resource_server.explorer.model_page import call_text, given, pictures
from resource_server.explorer.page import Page
from resource_server.explorer.results import written
from resource_server.protocol.in_process_client import ErrorReply

MAX_FIELDS = 200
"""Fields of a form, at most."""
_MAX_SENT = 2 * MAX_FIELDS
_MAX_COMPLETED = 20
"""Fields of a form with suggested values, at most."""


class FormField(NamedTuple):
    """An argument of a tool or prompt as a field of its form."""

    name: str
    kind: str
    """The input: text, number, checkbox, select or json."""
    description: str
    is_required: bool
    choices: Sequence[str]
    """The values of a select; suggested values of a text."""
    value: str


async def show_tools(page: Page) -> Response:
    """Return the page with all tools and prompts that the caller is offered."""
    tools, prompts = await asyncio.gather(_offered(page, "tools"), _offered(page, "prompts"))
    return page.render("tools.html", tools=tools, prompts=prompts)


async def show_tool(page: Page, body: bytes | None) -> Response:
    """Return the page of one tool; `body` is the form sent, None before.

    Raises:
        HTTPException: there is no such tool, or the form has far too many fields.
    """
    tool = await tool_named(page, page.path)
    fields = form_fields(tool, _sent(page, body), has_defaults=body is None)
    return await _with_result(page, "tools/call", tool, fields, is_sent=body is not None)


async def show_prompt(page: Page, body: bytes | None) -> Response:
    """Return the page of one prompt; `body` is the form sent, None before.

    Raises:
        HTTPException: there is no such prompt, or the form has far too many fields.
    """
    prompt = _of_name(await _offered(page, "prompts"), page.path)
    fields = await _prompt_fields(page, prompt, _sent(page, body))
    return await _with_result(page, "prompts/get", prompt, fields, is_sent=body is not None)


def _sent(page: Page, body: bytes | None) -> Mapping[str, str]:
    form = page.query if body is None else body.decode("utf-8", "replace")
    try:
        return dict(parse_qsl(form, max_num_fields=_MAX_SENT))
    except ValueError:
        raise HTTPException(413, "The form has too many fields.") from None


async def _with_result(
    page: Page,
    method: str,
    definition: Mapping[str, Any],
    fields: Sequence[FormField],
    *,
    is_sent: bool,
) -> Response:
    """Return the page of a form, with the result of the method if the form was sent."""
    values: dict[str, Any] = {
        "call": None,
        "given": (),
        "pictures": 0,
        "failed": False,
        "error": None,
    }
    is_tool = method == "tools/call"
    if is_sent:
        try:
            arguments = form_arguments(fields)
            params = {"name": page.path, "arguments": arguments}
            result = await page.client.request(method, params)
            values |= {"call": call_text(page.path, arguments), "given": given(result)}
            values |= {"pictures": pictures(result), "failed": bool(result.get("isError"))}
        except (ErrorReply, ValueError) as error:
            values |= {"call": page.path, "failed": is_tool, "error": str(error)}
    return page.render("tool.html", tool=definition, is_tool=is_tool, fields=fields, **values)


async def tool_named(page: Page, name: str) -> Mapping[str, Any]:
    """Return the definition of a tool.

    Raises:
        HTTPException: there is no such tool.
    """
    return _of_name(await _offered(page, "tools"), name)


def _of_name(offered: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    found = next((each for each in offered if each["name"] == name), None)
    if found is None:
        raise HTTPException(404)
    return found


async def _offered(page: Page, kind: Literal["tools", "prompts"]) -> Sequence[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        result = await page.client.request(f"{kind}/list", params)
        found += result[kind]
        if (cursor := result.get("nextCursor")) is None:
            return found
        params = {"cursor": cursor}


def form_fields(
    tool: Mapping[str, Any], sent: Mapping[str, str], *, has_defaults: bool = False
) -> Sequence[FormField]:
    """Return a field for each argument of a tool, with the values that a form sent."""
    schema: Mapping[str, Any] = tool["inputSchema"]
    required = schema.get("required", ())
    fields: list[FormField] = []
    for name, of in list(schema.get("properties", {}).items())[:MAX_FIELDS]:
        default = of.get("default")
        has_default = has_defaults and default is not None
        value = sent.get(name, written(default) if has_default else "")
        choices = [written(each) for each in of.get("enum", ())]
        fields.append(
            FormField(name, _kind(of), of.get("description", ""), name in required, choices, value)
        )
    return fields


async def _prompt_fields(
    page: Page, prompt: Mapping[str, Any], sent: Mapping[str, str]
) -> Sequence[FormField]:
    """Return a field for each argument of a prompt, with the values that a host would suggest."""
    arguments: Sequence[Mapping[str, Any]] = prompt.get("arguments", ())[:MAX_FIELDS]
    names: list[str] = [each["name"] for each in arguments]
    context = {"arguments": {name: sent[name] for name in names if name in sent}}

    async def suggested(name: str) -> Sequence[str]:
        reference = {"type": "ref/prompt", "name": prompt["name"]}
        argument = {"name": name, "value": sent.get(name, "")}
        params = {"ref": reference, "argument": argument, "context": context}
        try:
            result = await page.client.request("completion/complete", params)
        except ErrorReply:  # the form works without
            return ()
        return result["completion"]["values"]

    suggestions = await asyncio.gather(*map(suggested, names[:_MAX_COMPLETED]))
    unknown = [()] * len(names[_MAX_COMPLETED:])
    return [
        FormField(
            each["name"],
            "text",
            each.get("description", ""),
            each.get("required", False),
            choices,
            sent.get(each["name"], ""),
        )
        for each, choices in zip(arguments, [*suggestions, *unknown], strict=True)
    ]


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "select"
    kind = schema.get("type", "")
    if isinstance(kind, list):
        # Integers beyond what JSON has exactly are given as text.
        return "text" if "string" in kind else "json"
    return {
        "string": "text",
        "integer": "number",
        "number": "number",
        "boolean": "checkbox",
    }.get(kind, "json")


def form_arguments(fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the arguments of a form; fields left empty are not sent.

    Raises:
        ValueError: a number or JSON is malformed.
    """
    arguments: dict[str, Any] = {}
    for field in fields:
        if not field.value:
            continue
        try:
            match field.kind:
                case "checkbox":
                    arguments[field.name] = field.value == "true"
                case "number" | "json":
                    arguments[field.name] = msgspec.json.decode(field.value)
                case _:
                    arguments[field.name] = field.value
        except (msgspec.DecodeError, RecursionError):
            raise ValueError(f"{field.name}: expected a number, or JSON") from None
    return arguments
