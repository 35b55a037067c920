"""The page for operators that says what is hidden below a resource, and by which rule."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from resource_server import uris
from resource_server.errors import MountUnavailable, ResourceBusy, ResourceServerError
from resource_server.explorer.page import Page

_MAX_PATHS = 10_000
_MAX_SHOWN = 500


async def show_hidden(page: Page) -> Response:
    """Return the page that explains a URI, with the hidden paths below it; for operators only.

    Raises:
        HTTPException: the caller is no operator, or the URI is outside all mounts that the caller
            sees, or its mount is unavailable.
    """
    if not page.visit.is_operator:
        raise HTTPException(404)
    catalog = page.server.catalog
    try:
        explanation = await catalog.explain(page.uri)
        mount, path, _ = catalog.route(page.uri)
        found = (
            await mount.provider.hides(limit=_MAX_PATHS)
            if "check" in mount.provider.abilities
            else ()
        )
    except ResourceServerError as error:
        if isinstance(error, ResourceBusy | MountUnavailable) and page.mount is not None:
            reason = page.mount.problem or str(error)
            raise HTTPException(503, f"{page.mount.name} is unavailable: {reason}") from None
        raise HTTPException(404) from None
    below = [(hidden, rule) for hidden, rule in found if hidden[: len(path)] == path]
    return page.render(
        "hidden.html",
        uri=page.uri,
        crumbs=await page.visible_crumbs(page.uri),
        explanation=explanation,
        hidden=[
            ("/".join(hidden[len(path) :]), uris.join(mount.base, hidden), rule)
            for hidden, rule in below[:_MAX_SHOWN]
        ],
        more=len(below) - _MAX_SHOWN,
        is_cut=len(found) >= _MAX_PATHS,
        is_below_hidden=any(path[: len(hidden)] == hidden for hidden, _ in found),
    )
