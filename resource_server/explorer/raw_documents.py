"""Documents as they are: pictures for pages, everything else as a download that nothing opens."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from resource_server import media_types, uris
from resource_server.explorer import results
from resource_server.explorer.document_page import RASTERS, SVG
from resource_server.explorer.page import Page

_SANDBOX = "sandbox; default-src 'none'"


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
