"""The page of a document: its source, Markdown, picture or conversion, and its download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from markupsafe import Markup
from starlette.responses import Response

from resource_server import media_types, uris
from resource_server.explorer import results
from resource_server.explorer.addresses import with_parameters
from resource_server.explorer.markup import (
    MAX_MARKDOWN,
    MAX_SOURCE,
    rendered_markdown,
    source_lines,
)
from resource_server.explorer.page import Page
from resource_server.explorer.results import ResourceMetadata
from resource_server.explorer.structure import has_structure, structure
from resource_server.protocol.in_process_client import ErrorReply

RASTERS = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"))
"""Pictures that browsers show without running anything in them."""
SVG = "image/svg+xml"
PICTURES = RASTERS | {SVG}
_SANDBOX = "sandbox; default-src 'none'"

_MARKDOWN = ("text/markdown", "text/x-markdown")
_RANGES = ("lines", "tail", "bytes", "pages", "rows")
_MAX_LINES = 2_000
"""Lines of a page, at most."""
_MAX_LINE = 2_000
"""Characters of a line, at most; the rest is in the download."""


async def show_document(
    page: Page, uri: str, found: ResourceMetadata, *, as_source: bool = False
) -> Response:
    """Return the page of a document, or of the part that its address names.

    `as_source` shows Markdown and documents of an office as they are written, if they are text.

    Raises:
        ErrorReply: it cannot be read.
    """
    values: dict[str, Any] = {
        "uri": uri,
        "resource": found,
        "crumbs": page.crumbs(uri),
        "picture": None,
        "markdown": None,
        "lines": None,
        "structure": None,
        "next_uri": None,
        "notice": None,
        "has_source": False,
        "is_readable": True,
    }
    try:
        values |= await _shown(page, uri, found, as_source=as_source)
    except ErrorReply as error:
        if error.code not in results.CLOSED:
            raise
        notice = "This document is listed, but cannot be read."
        values |= {"notice": notice, "is_readable": False}
    return page.render("document.html", **values)


async def raw_document(page: Page) -> Response:
    """Return the bytes of a document; only pictures are shown by a browser, and run nothing.

    Raises:
        ErrorReply: the caller cannot see it, or it cannot be read.
    """
    (content, *_) = await results.contents(page.client, page.uri)
    data = content.data
    headers = {"content-security-policy": _SANDBOX}
    shown = media_types.from_content(data) if content.mime_type in RASTERS else content.mime_type
    if shown in RASTERS or shown == SVG:
        return Response(data, media_type=shown, headers=headers)
    name = quote(uris.display(_file_name(content.name, page.uri)), safe="")
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{name}"
    return Response(data, media_type="application/octet-stream", headers=headers)


def _file_name(name: str, uri: str) -> str:
    """Return a name for a download, with the suffix of the format asked for."""
    asked = uris.parse(uri).query.get("format")
    suffix = {"csv": ".csv", "markdown": ".md", "json": ".json"}.get(asked or "", "")
    if uri.partition("?")[0].endswith("/~rows") and not suffix:
        suffix = ".json"
    return name if name.endswith(suffix) else f"{name}{suffix}"


async def _shown(
    page: Page, uri: str, found: ResourceMetadata, *, as_source: bool
) -> dict[str, Any]:
    """Return what the page shows of the document.

    Raises:
        ErrorReply: it cannot be read.
    """
    query = uris.parse(uri).query
    is_whole = not as_source and "format" not in query
    shown: dict[str, Any] = {}
    if is_whole and found.mime_type in PICTURES:
        shown = {"picture": uri}
    elif is_whole and (converted := found.format("markdown")):
        ranges = {name: query[name] for name in _RANGES if name in query}
        return await _markdown(page, with_parameters(converted.uri, ranges))
    elif media_types.is_text(found.mime_type):
        return await _text_content(page, uri, found, as_source=as_source)
    try:
        await results.contents(page.client, with_parameters(uri, {"bytes": "0-0"}))
    except ErrorReply as error:
        # Some providers have no parts of documents.
        if error.code in results.CLOSED:
            raise
    return shown


async def _markdown(page: Page, uri: str) -> dict[str, Any]:
    try:
        (content, *_) = await results.contents(page.client, uri)
    except ErrorReply as error:
        if error.code in results.CLOSED:
            raise
        return {"notice": str(error)}
    return await _as_html(page, content.text or "", uri, content.truncated.get("next"))


async def _as_html(page: Page, text: str, uri: str, following: str | None) -> dict[str, Any]:
    notice = f"Only the first {MAX_MARKDOWN:,} of {len(text):,} characters are shown."
    return {
        "markdown": await to_thread.run_sync(
            rendered_markdown, text[:MAX_MARKDOWN], uri, page.root
        ),
        "next_uri": following,
        "notice": notice if len(text) > MAX_MARKDOWN else None,
    }


async def _text_content(
    page: Page, uri: str, found: ResourceMetadata, *, as_source: bool
) -> dict[str, Any]:
    query = uris.parse(uri).query
    is_part = any(name in query for name in _RANGES)
    is_markdown = found.mime_type in _MARKDOWN and not as_source and not is_part
    has_lines = not is_part and not is_markdown
    try:
        asked = with_parameters(uri, {"lines": f"1-{_MAX_LINES}"}) if has_lines else uri
        (content, *_) = await results.contents(page.client, asked)
    except ErrorReply:
        if not has_lines:
            raise
        # Cells and documents of some providers have no parts.
        has_lines = False
        (content, *_) = await results.contents(page.client, uri)
    if content.text is None:
        return {"notice": "This is no text."}
    following = content.truncated.get("next")
    if is_markdown:
        shown = await _as_html(page, content.text, found.uri, following)
        return {**shown, "has_source": True}
    begin = query.get("lines", "1").partition("-")[0]
    first = int(begin) if begin.isdigit() else 1
    # The lines of other parts have unknown numbers.
    is_numbered = not is_part or "lines" in query
    lines = content.text.removesuffix("\n").split("\n")
    shown = _bounded(lines)
    notice = None
    if len(shown) < len(lines):
        notice = f"Only the first {len(shown):,} of {len(lines):,} lines are shown."
        if has_lines or "lines" in query:
            following = with_parameters(uri, {"lines": f"{first + len(shown)}-"})
    rows = await to_thread.run_sync(
        source_lines, "\n".join(shown), found.name, found.mime_type, first if is_numbered else None
    )
    is_whole = not is_part and following is None
    tree = await _structure(content.text, found.mime_type) if is_whole else None
    return {"lines": rows, "next_uri": following, "notice": notice, "structure": tree}


async def _structure(text: str, media_type: str | None) -> Markup | None:
    if media_type is None or len(text) > MAX_SOURCE or not has_structure(media_type):
        return None
    return await to_thread.run_sync(structure, text, media_type)


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    """Return as many lines as a page has, without what is too long in them."""
    shown: list[str] = []
    room = MAX_SOURCE
    for line in lines[:_MAX_LINES]:
        cut = f"{line[:_MAX_LINE]}… ({len(line):,} characters)" if len(line) > _MAX_LINE else line
        room -= len(cut)
        if room < 0:
            break
        shown.append(cut)
    return shown
