"""The page of a collection: its children, and its README as people know it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from anyio import to_thread
from markupsafe import Markup
from starlette.responses import Response

from resource_server import uris
from resource_server.explorer import results
from resource_server.explorer.addresses import page_address, with_parameters
from resource_server.explorer.markup import MAX_MARKDOWN, escaped_html, rendered_markdown, trusted
from resource_server.explorer.page import Page, bytes_text
from resource_server.explorer.results import Listing, ResourceMetadata
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply

_READMES = ("readme.md", "readme.markdown", "readme.txt", "readme")


async def show_folder(page: Page, uri: str, found: ResourceMetadata) -> Response:
    """Return the page of a collection; `cursor` in its address goes on after a page.

    Raises:
        ErrorReply: it cannot be listed.
    """
    cursor = page.parameter("cursor")
    notice = None
    try:
        listing = await results.children(page.client, uri, cursor)
    except ErrorReply as error:
        if cursor is not None or error.code not in (*results.CLOSED, revisions.INVALID_PARAMS):
            raise
        listing, notice = Listing(()), "This collection is listed, but cannot be read."
    following = None
    if listing.next_cursor is not None:
        following = with_parameters(uri, {"cursor": listing.next_cursor})
    has_sizes = any(each.size is not None for each in listing.resources)
    return page.render(
        "folder.html",
        uri=uri,
        resource=found,
        crumbs=page.crumbs(uri),
        entries=_entries_html(listing.resources, page.root, has_sizes=has_sizes),
        has_sizes=has_sizes,
        is_first=cursor is None,
        next_uri=following,
        notice=notice,
        queries=await _queries(page, found.uri) if cursor is None else (),
        readme=await _readme(page, listing.resources),
    )


def _entries_html(entries: Sequence[ResourceMetadata], root: str, *, has_sizes: bool) -> Markup:
    """Return the children as rows; a template takes five times as long."""
    texts = iter(escaped_html([text for each in entries for text in _texts(each, root)]))
    rows: list[str] = []
    for each in entries:
        uri, address, name, description, changed, kind = islice(texts, 6)
        mark = "/" if each.is_collection else ""
        about = f" <small>{description}</small>" if description else ""
        size = ""
        if has_sizes and each.size is None:
            size = '<td class="number" data-value="-1"></td>'
        elif has_sizes:
            size = f'<td class="number" data-value="{each.size}">{bytes_text(each.size or 0)}</td>'
        time = ""
        if changed:
            time = f'<time datetime="{changed}">{changed[:16].replace("T", " ")}</time>'
        rows.append(
            f'<tr data-key="{uri}"><td data-value="{name}"><a href="{address}"><bdi>{name}'
            f"</bdi>{mark}</a>{about}</td>{size}<td>{time}</td><td>{kind}</td></tr>"
        )
    return trusted("\n".join(rows))


def _texts(entry: ResourceMetadata, root: str) -> tuple[str, str, str, str, str, str]:
    changed = str(entry.annotations.get("lastModified", ""))
    kind = "collection" if entry.is_collection else entry.mime_type
    return (
        entry.uri,
        f"{root}{page_address(entry.uri)}",
        entry.name,
        entry.description,
        changed,
        kind,
    )


async def _readme(page: Page, entries: Sequence[ResourceMetadata]) -> object:
    named = {each.name.lower(): each for each in entries if not each.is_collection}
    found = next((named[name] for name in _READMES if name in named), None)
    if found is None or (found.size or 0) > MAX_MARKDOWN:
        return None
    try:
        (content, *_) = await results.contents(page.client, found.uri)
    except ErrorReply:
        return None
    return await to_thread.run_sync(
        rendered_markdown, (content.text or "")[:MAX_MARKDOWN], found.uri, page.root
    )


class QueryForm(NamedTuple):
    """A resource that is named by parameters, which a form asks for."""

    title: str
    description: str
    template: str
    parameters: Sequence[str]


async def _queries(page: Page, uri: str) -> Sequence[QueryForm]:
    """Return the resources of a collection that cannot be listed, since they need parameters."""
    result = await page.client.request("resources/templates/list")
    found: list[QueryForm] = []
    for each in result["resourceTemplates"]:
        template: str = each["uriTemplate"]
        path = template.partition("?")[0]
        if "{" not in path and "{" in template and path.rpartition("/")[0] == uri:
            names = list(uris.template_variables(template))
            title = each.get("title") or each["name"]
            found.append(QueryForm(title, each.get("description", ""), template, names))
    return found
