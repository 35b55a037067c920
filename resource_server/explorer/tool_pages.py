"""The pages of tools: a form made from the schema of each, and what a call gives a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
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


class FormField(NamedTuple):
    """An argument of a tool as a field of its form."""

    name: str
    kind: str
    """The input: text, number, checkbox, select or json."""
    description: str
    is_required: bool
    choices: Sequence[str]
    value: str


async def show_tools(page: Page) -> Response:
    """Return the page with all tools that the caller is offered."""
    return page.render("tools.html", tools=await _tools(page))


async def show_tool(page: Page, body: bytes | None) -> Response:
    """Return the page of one tool; `body` is the form sent, None before.

    Raises:
        HTTPException: there is no such tool, or the form has far too many fields.
    """
    tool = await tool_named(page, page.path)
    form = page.query if body is None else body.decode("utf-8", "replace")
    try:
        sent = dict(parse_qsl(form, max_num_fields=_MAX_SENT))
    except ValueError:
        raise HTTPException(413, "The form has too many fields.") from None
    fields = form_fields(tool, sent, has_defaults=body is None)
    values: dict[str, Any] = {
        "call": None,
        "given": (),
        "pictures": 0,
        "failed": False,
        "error": None,
    }
    if body is not None:
        try:
            arguments = form_arguments(fields)
            params = {"name": page.path, "arguments": arguments}
            result = await page.client.request("tools/call", params)
            values |= {"call": call_text(page.path, arguments), "given": given(result)}
            values |= {"pictures": pictures(result), "failed": bool(result.get("isError"))}
        except (ErrorReply, ValueError) as error:
            values |= {"call": page.path, "failed": True, "error": str(error)}
    return page.render("tool.html", tool=tool, fields=fields, **values)


async def tool_named(page: Page, name: str) -> Mapping[str, Any]:
    """Return the definition of a tool.

    Raises:
        HTTPException: there is no such tool.
    """
    tool = next((each for each in await _tools(page) if each["name"] == name), None)
    if tool is None:
        raise HTTPException(404)
    return tool


async def _tools(page: Page) -> Sequence[Mapping[str, Any]]:
    tools: list[Mapping[str, Any]] = []
    params: dict[str, Any] = {}
    while True:
        result = await page.client.request("tools/list", params)
        tools += result["tools"]
        if (cursor := result.get("nextCursor")) is None:
            return tools
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


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "select"
    return {
        "string": "text",
        "integer": "number",
        "number": "number",
        "boolean": "checkbox",
    }.get(schema.get("type", ""), "json")


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
