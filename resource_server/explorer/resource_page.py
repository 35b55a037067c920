"""The page of a resource, by the kind that its metadata has."""

from __future__ import annotations

from starlette.responses import Response

from resource_server.explorer import results
from resource_server.explorer.activity_page import is_activity, show_activity
from resource_server.explorer.document_page import show_document
from resource_server.explorer.folder_page import show_folder
from resource_server.explorer.page import Page
from resource_server.explorer.results import ResourceMetadata
from resource_server.explorer.table_page import ROWS, show_row, show_table
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply

_CELL = "/~cell/"
"""In the URIs of values, which may be JSON of any kind; rows are objects."""


async def show_resource(page: Page) -> Response:
    """Return the page of the resource that the address names.

    Raises:
        ErrorReply: the caller cannot see it, or it cannot be read.
    """
    uri = page.uri
    path = uri.partition("?")[0]
    above, _, last = path.rpartition("/")
    # Rows come with their own metadata; alone, it takes as long as they do.
    if last == ROWS and (table := await _table(page, above)) is not None:
        return await show_table(page, uri, None, table)
    found = await results.metadata(page.client, path)
    if found.is_collection:
        if "table" in found.details:
            return await show_table(page, f"{found.uri}/{ROWS}{page.parameters}", found, found)
        return await show_folder(page, uri, found)
    if is_activity(page, found):
        return await show_activity(page, uri, found)
    table = await _table_of(page, found)
    if found.format("columns") is not None:
        # A summary of a table has columns of its own.
        is_whole = table is not None and found.uri == f"{table.uri}/{ROWS}"
        try:
            return await show_table(page, uri, found, table if is_whole else None)
        except ErrorReply as error:
            if error.code != revisions.INVALID_PARAMS or page.parameters:
                raise
            # A query that needs parameters: the form for them is on the page of all queries.
            return await show_folder(page, above, await results.metadata(page.client, above))
    if table is not None and _CELL not in found.uri:
        (content, *_) = await results.contents(page.client, uri)
        return await show_row(page, uri, content, table)
    return await show_document(page, uri, found)


async def show_source(page: Page) -> Response:
    """Return the page of a document as it is written.

    Raises:
        ErrorReply: the caller cannot see it, or it cannot be read.
    """
    found = await results.metadata(page.client, page.uri.partition("?")[0])
    return await show_document(page, page.uri, found, as_source=True)


async def _table_of(page: Page, found: ResourceMetadata) -> ResourceMetadata | None:
    """Return the table above a resource; None if there is none."""
    if found.mime_type != "application/json":
        return None
    for crumb in reversed(page.crumbs(found.uri)[:-1]):
        if (table := await _table(page, crumb["uri"])) is not None:
            return table
    return None


async def _table(page: Page, uri: str) -> ResourceMetadata | None:
    """Return the table of a URI; None if there is none."""
    try:
        found = await results.metadata(page.client, uri)
    except ErrorReply:
        return None
    return found if "table" in found.details else None
