"""The tree of a bucket: pages of a collection's children, and a walk through all below one."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from resource_server.buckets.bucket import (
    LAST,
    MAX_KEYS,
    Bucket,
    StoredObject,
)
from resource_server.buckets.location import is_name
from resource_server.buckets.transport import Deadline
from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.object_storage.keys import KeySpace

_KIND_S = 300.0
"""How long a name is known to be no collection: the check takes a request."""
_MAX_KINDS = 10_000


class BucketEntry(NamedTuple):
    """An exposed object, or a collection without one."""

    path: Path
    stored: StoredObject | None


class WalkedPage(NamedTuple):
    """The entries of one page of a walk."""

    entries: Sequence[BucketEntry]
    seen: Sequence[str]
    """All its keys, whether they are exposed or not, or are no path at all."""
    undecodable: int
    shadowed: Sequence[Path]
    """Objects that have the name of a collection."""
    is_last: bool


class ObjectTree:
    """The exposed objects below a prefix, and their collections. All methods block."""

    def __init__(self, bucket: Bucket, keys: KeySpace) -> None:
        self.bucket, self.keys = bucket, keys
        self._documents: dict[str, float] = {}
        """Keys that are no collections, until a time of `time.monotonic()`."""
        self._collections: dict[str, None] = {}
        """Prefixes of collections that were listed last."""

    def children(
        self, parent: Path, after: Path | None, limit: int, deadline: Deadline
    ) -> Sequence[BucketEntry]:
        """Return children in the order of their keys; see `Provider.list`."""
        prefix = self.keys.below(parent)
        is_exposed = self.keys.exposes(parent, is_collection=True)
        start = self._position(after) if after else ""
        found: list[BucketEntry] = []
        token: str | None = None
        is_begun = False
        while is_exposed and len(found) < limit:
            deadline.check()
            # One more than wanted often tells whether the last object is a collection, too.
            wanted = min(limit - len(found) + 1, MAX_KEYS)
            page = self.bucket.page(prefix, limit=wanted, after=start, token=token)
            is_begun = is_begun or bool(page.entries) or bool(page.undecodable)
            found += self._exposed(parent, prefix, page.entries, start, is_last=not page.token)
            token = page.token
            if token is None:
                break
        if not is_begun and parent:
            self._check_collection(parent)
        return found[:limit]

    def beginning(self, parent: Path, start: str) -> Sequence[BucketEntry]:
        """Return children whose names begin with a text: those of one request."""
        prefix = self.keys.below(parent)
        page = self.bucket.page(prefix + start, limit=MAX_KEYS)
        return self._exposed(parent, prefix, page.entries, "", is_last=not page.token)

    def _exposed(
        self,
        parent: Path,
        prefix: str,
        entries: Sequence[tuple[str, StoredObject | None]],
        start: str,
        *,
        is_last: bool,
    ) -> Sequence[BucketEntry]:
        found: list[BucketEntry] = []
        keys = [key for key, _ in entries]
        for key, stored in entries:
            name = key[len(prefix) :].removesuffix("/" if stored is None else "")
            path = (*parent, name)
            if key <= start or not key.startswith(prefix) or not is_name(name):
                continue
            if not self.keys.exposes(path, is_collection=stored is None):
                continue
            if stored is None:
                self._note(key, is_collection=True)
            elif self._is_shadowed(key, path, keys, is_last=is_last):
                continue
            found.append(BucketEntry(path, stored))
        return found

    def _is_shadowed(self, key: str, path: Path, keys: Sequence[str], *, is_last: bool) -> bool:
        """Return whether an object has the name of an exposed collection.

        `keys` are those beside it, up to the last one if `is_last`.
        """
        below = f"{key}/"
        at = bisect_left(keys, below)
        if at < len(keys) and keys[at].startswith(below):
            return self.keys.exposes(path, is_collection=True)
        if at == len(keys) and not is_last:
            return self.is_collection(path)
        self._note(key, is_collection=False)
        return False

    def _position(self, after: Path) -> str:
        """Return the key after which the children go on that follow a path."""
        key = self.keys.key(after)
        return f"{key}/{LAST}" if self.is_collection(after) else key

    def is_collection(self, path: Path, *, is_new: bool = False) -> bool:
        """Return whether there is an exposed collection: none, or one request.

        With `is_new`, it is asked for even if it was there before.
        """
        if not path:
            return True
        if not self.keys.exposes(path, is_collection=True):
            return False
        below = self.keys.below(path)
        if below in self._collections and not is_new:
            return True
        if self._documents.get(below[:-1], 0.0) > time.monotonic():
            return False
        page = self.bucket.page(below, limit=1, is_deep=True)
        is_collection = bool(page.entries) or bool(page.undecodable)
        self._note(below if is_collection else below[:-1], is_collection=is_collection)
        return is_collection

    def _check_collection(self, path: Path) -> None:
        """Raise what is right for a listing without entries, of something that is not the root."""
        if self.is_collection(path, is_new=True):
            return
        if not self.keys.exposes(path, is_collection=False):
            raise ResourceNotFound
        self.bucket.head(self.keys.key(path))
        raise NotACollection

    def _note(self, key: str, *, is_collection: bool) -> None:
        """Store whether a name is a collection."""
        known = self._collections if is_collection else self._documents
        if len(known) >= _MAX_KINDS:
            known.clear()
        if is_collection:
            self._collections[key] = None
        else:
            self._documents[key] = time.monotonic() + _KIND_S
            self._collections.pop(f"{key}/", None)

    def walk(self, top: Path, start: Path) -> Iterator[WalkedPage]:
        """Yield what is below a collection in pages of one request each, in the order of keys.

        Goes on after `start`, unless it is empty. A collection comes before what is below it.
        """
        prefix = self.keys.below(top)
        token, after, above = None, "", start or top
        if start:
            after = self.keys.key(start)
            after = f"{after}/" if self.is_collection(start) else after
        while True:
            page = self.bucket.page(prefix, limit=MAX_KEYS, after=after, token=token, is_deep=True)
            token = page.token
            keys = [key for key, _ in page.entries]
            entries: list[BucketEntry] = []
            shadowed: list[Path] = []
            for key, stored in page.entries:
                path = self.keys.path(key.removesuffix("/"))
                if path is None or path == top or not key.startswith(prefix):
                    continue
                is_marker = key.endswith("/")
                for depth in range(len(top) + 1, len(path) + is_marker):
                    folder = path[:depth]
                    if folder != above[:depth] and self.keys.exposes(folder, is_collection=True):
                        entries.append(BucketEntry(folder, None))
                above = path
                if is_marker or not self.keys.exposes(path, is_collection=False):
                    continue
                if self._is_shadowed(key, path, keys, is_last=token is None):
                    shadowed.append(path)
                else:
                    entries.append(BucketEntry(path, stored))
            yield WalkedPage(entries, keys, page.undecodable, shadowed, token is None)
            if token is None:
                return
