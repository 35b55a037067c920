"""What a message is about, as far as those may know who run the server: never which resource."""

from __future__ import annotations

from typing import NamedTuple

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceServerError
from resource_server.protocol.message import JsonRpcMessage


class Target(NamedTuple):
    """The mount that a message asks, and the scheme of its URIs."""

    mount: str
    scheme: str


def target_of(catalog: Catalog, message: JsonRpcMessage | None) -> Target | None:
    """Return what a message is about; None if it names no URI, or one of nothing that is served."""
    uri = None if message is None else message.param("uri")
    if not isinstance(uri, str):
        return None
    try:
        mount, _, _ = catalog.route(uri)
    except ResourceServerError:
        return None
    return Target(mount.name, uris.parse(mount.base).scheme)
