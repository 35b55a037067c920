"""The start page: what is served, its health, and how to connect a host."""

from __future__ import annotations

from starlette.responses import Response

from resource_server.explorer.page import Page


async def show_start(page: Page) -> Response:
    """Return the page of the server, with the mounts that the caller sees."""
    mounts = page.server.catalog.visibility.current().mounts
    listed = [each for each in mounts if each.listed]
    return page.render("start.html", mounts=listed, endpoint=page.visitor.endpoint)
