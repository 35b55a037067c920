"""What a message is about, as far as those may know who run the server: never which resource."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.errors import ResourceServerError


class Target(NamedTuple):
    """The mount that a message asks, and the scheme of its URIs."""

    mount: str
    scheme: str


class _Params(msgspec.Struct, frozen=True):
    uri: str = ""


class _Asked(msgspec.Struct):
    params: _Params = _Params()


_decode = msgspec.json.Decoder(_Asked).decode


def target_of(catalog: Catalog, body: bytes) -> Target | None:
    """Return what a message is about; None if it names no URI, or one of nothing that is served."""
    try:
        mount, _, _ = catalog.route(_decode(body).params.uri)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ResourceServerError):
        return None
    return Target(mount.name, uris.parse(mount.base).scheme)
