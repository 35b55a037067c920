"""Digests of documents by version, in a cache that the views of one folder share."""

from __future__ import annotations

import msgspec

from resource_server.provider import Path
from resource_server.providers.filesystem.directory import WeightedLru

_MAX_DIGESTS = 100_000


class FileDigest(msgspec.Struct, frozen=True, gc=False):
    """The SHA-256 digest of a document at one version; `size` counts the digested bytes."""

    version: str | None
    digest: str
    size: int


def digest_cache() -> WeightedLru[Path, FileDigest]:
    """Return an empty cache of digests by path."""
    return WeightedLru(_MAX_DIGESTS, lambda _: 1)
