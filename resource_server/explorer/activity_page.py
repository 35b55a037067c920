"""The page of the activity: the last requests as a table, newest first, which follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from resource_server.audit.activity import Activity
from resource_server.audit.entry import AuditEntry
from resource_server.explorer import results
from resource_server.explorer.page import Page
from resource_server.explorer.results import ResourceMetadata

_MAX_URIS = 5
"""URIs of one request that the table names, at most."""


class _Requests(msgspec.Struct):
    rows: list[AuditEntry]


class ShownRequest(NamedTuple):
    """One request as a row of the table."""

    key: str
    entry: AuditEntry
    client: str
    uris: Sequence[str]
    more: int
    """URIs that are not shown."""
    is_linked: bool
    """Whether its URIs lead to pages."""


def is_activity(page: Page, found: ResourceMetadata) -> bool:
    """Return whether a document is the last requests."""
    mount = page.mount
    return mount is not None and mount.provider.is_instance(Activity) and not found.is_collection


async def show_activity(page: Page, uri: str, found: ResourceMetadata) -> Response:
    """Return the page of the last requests; parameters of its address lead to older ones.

    Raises:
        ErrorReply: the caller cannot see it, or the parameters cannot be used.
    """
    (content, *_) = await results.contents(page.client, uri)
    requests = msgspec.json.decode(content.text or "", type=_Requests).rows
    following: Mapping[str, Any] = content.truncated
    return page.render(
        "activity.html",
        uri=uri,
        resource=found,
        crumbs=page.crumbs(found.uri),
        requests=[_shown(each) for each in requests],
        next_uri=following.get("next"),
        is_first="?" not in uri,
    )


def _shown(entry: AuditEntry) -> ShownRequest:
    client = entry.client
    program = " ".join(filter(None, (client.name, client.version)))
    several = entry.uris or ((entry.uri,) if entry.uri is not None else ())
    return ShownRequest(
        key=f"{entry.time} {entry.method} {entry.uri} {entry.ms}",
        entry=entry,
        client=" · ".join(filter(None, (program, client.address))),
        uris=several[:_MAX_URIS],
        more=max(0, len(several) - _MAX_URIS) + entry.uris_left_out,
        is_linked=entry.decision == "served" and entry.method != "completion/complete",
    )
