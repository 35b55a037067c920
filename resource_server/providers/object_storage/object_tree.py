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
_MAX_MARKS = 15


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
        """Return children in the order of their names; see `Provider.list`.

        Storage has `a/` behind `a-b`. Here its place is that of `a`, so that no other child moves
        where an object becomes a collection between two pages.
        """
        prefix = self.keys.below(parent)
        place = ""
        if after:
            is_raw = _has_many_marks(after[-1]) and self.is_collection(after)
            place = _place(after[-1], is_collection=is_raw)
        start = place and prefix + place + LAST * place.endswith("/")
        found: dict[str, BucketEntry] = {}
        token: str | None = None
        is_begun = False
        while self.keys.exposes(parent, is_collection=True):
            deadline.check()
            # One more than wanted tells what comes before the last that is.
            wanted = min(limit - len(found) + 1, MAX_KEYS)
            page = self.bucket.page(prefix, limit=wanted, after=start, token=token)
            is_begun = is_begun or bool(page.entries) or bool(page.undecodable)
            for place_of, entry in self._exposed(parent, prefix, page.entries):
                # A collection has the place of an object with its name.
                if place_of > place and (entry.stored is None or place_of not in found):
                    found[place_of] = entry
            for shadowed in [each[:-1] for each in found if each.endswith("/")]:
                found.pop(shadowed, None)
            token = page.token
            if token is not None and len(found) >= limit:
                self._add_later_collections(found, parent, page.last[len(prefix) :], place, limit)
            if token is None or len(found) >= limit:
                break
        if not is_begun and parent:
            self._check_collection(parent)
        entries = [found[each] for each in sorted(found)[:limit]]
        for path, stored in entries:
            self._note(self.keys.key(path) + "/" * (stored is None), is_collection=stored is None)
        return entries

    def _add_later_collections(
        self, found: dict[str, BucketEntry], parent: Path, last: str, place: str, limit: int
    ) -> None:
        """Add the collections among the first `limit` children that storage lists after `last`.

        These have names with which `last` begins: a request each, but for few pages there are any.
        """
        bound = sorted(found)[limit - 1]
        name = last.removesuffix("/")
        ends = [at for at, sign in enumerate(name) if sign < "/"]
        names = [
            name[:at] for at in (*ends[: _MAX_MARKS + 1], *ends[_MAX_MARKS + 1 :][-_MAX_MARKS:])
        ]
        for each in names + ([name] if name == last else []):
            path = (*parent, each)
            if not (place < each <= bound and is_name(each)):
                continue
            self._documents.pop(self.keys.key(path), None)  # it may have become one
            if self.is_collection(path, is_new=True):
                found.pop(each, None)
                if not _has_many_marks(each):
                    found[each] = BucketEntry(path, None)

    def beginning(self, parent: Path, start: str) -> Sequence[BucketEntry]:
        """Return children whose names begin with a text: those of one request."""
        prefix = self.keys.below(parent)
        page = self.bucket.page(prefix + start, limit=MAX_KEYS)
        # Collections come later, and take the places of objects with their names.
        return list(dict(self._exposed(parent, prefix, page.entries)).values())

    def _exposed(
        self, parent: Path, prefix: str, entries: Sequence[tuple[str, StoredObject | None]]
    ) -> Iterator[tuple[str, BucketEntry]]:
        """Yield the exposed entries of a listing, each with its place."""
        for key, stored in entries:
            is_collection = stored is None
            name = key[len(prefix) :].removesuffix("/" if is_collection else "")
            path = (*parent, name)
            if not key.startswith(prefix) or not is_name(name):
                continue
            if self.keys.exposes(path, is_collection=is_collection):
                yield _place(name, is_collection=is_collection), BucketEntry(path, stored)

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

    def walk(
        self, top: Path, start: Path = (), *, is_collection: bool = False
    ) -> Iterator[WalkedPage]:
        """Yield what is below a collection in pages of one request each, in the order of keys.

        Goes on after `start`, unless it is empty, where that was as an object or as a collection.
        A collection comes before what is below it.
        """
        prefix = self.keys.below(top)
        token, above = None, start or top
        after = self.keys.key(start) + "/" * is_collection if start else ""
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


def _place(name: str, *, is_collection: bool) -> str:
    """Return the place of a child among those of its collection."""
    return f"{name}/" if is_collection and _has_many_marks(name) else name


def _has_many_marks(name: str) -> bool:
    """Return whether a name has so many signs before '/' that its collection keeps its place.

    Otherwise one key could make a page take a thousand requests.
    """
    return sum(sign < "/" for sign in name) > _MAX_MARKS
