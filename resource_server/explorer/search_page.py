"""The page of a search: matches with their lines, what was not searched, and the next page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response

from resource_server.explorer.page import Page
from resource_server.explorer.tool_pages import form_arguments, form_fields, tool_named
from resource_server.protocol.in_process_client import ErrorReply

_TOOL = "search_resources"


class FoundResource(NamedTuple):
    """A resource with lines that match, or whose name does."""

    path: str
    uri: str
    lines: Sequence[tuple[Any, str]]
    more: int
    """Lines that match and are not shown."""


async def show_search(page: Page) -> Response:
    """Return the page of a search; its parameters are those of the tool."""
    sent = {name: value for name, value in parse_qsl(page.query) if value}
    found: Mapping[str, Any] = {}
    error = following = None
    if sent.get("query"):
        tool = await tool_named(page, _TOOL)
        try:
            params = {"name": _TOOL, "arguments": form_arguments(form_fields(tool, sent))}
            result = await page.client.request("tools/call", params)
        except (ErrorReply, ValueError) as refusal:
            error = str(refusal)
        else:
            found = result.get("structuredContent") or {}
            error = result["content"][0]["text"] if result.get("isError") else None
    if cursor := found.get("next"):
        following = urlencode({**sent, "cursor": cursor})
    return page.render(
        "search.html",
        sent=sent,
        found=found,
        matches=list(_matches(found)),
        error=error,
        following=following,
        crumbs=await page.visible_crumbs(sent["uri"]) if "uri" in sent else (),
    )


def _matches(found: Mapping[str, Any]) -> Iterator[FoundResource]:
    base = found.get("base", "")
    for each in found.get("files", ()):
        entry: Mapping[str, Any] = {"path": each} if isinstance(each, str) else each
        lines = [(number, text) for number, text, *_ in entry.get("lines", ())]
        more = max(entry.get("matches", 0) - len(lines), 0)
        path: str = entry["path"]
        # What is not below the base has its URI; no path has an empty segment.
        yield FoundResource(path, path if "://" in path else f"{base}{path}", lines, more)
