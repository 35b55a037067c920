"""Searches by name, and surveys for the operator: walks of a bucket that are bounded."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import NamedTuple

from resource_server.buckets.bucket import MAX_KEYS
from resource_server.buckets.transport import Deadline
from resource_server.errors import InvalidParameter
from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, SearchPage, SearchRequest
from resource_server.providers.object_storage.object_tree import BucketEntry, ObjectTree
from resource_server.search.name_match import NameQuery
from resource_server.search.top_k import INVALID, TopK, to_path

_MAX_PAGES = 20
"""Maximum requests of one page of a search, or of a survey: 20,000 keys."""
_SHOWN = 3
_COLLECTION = "/"
"""Begins a place at a collection: objects with names such as `a-b` lie between `a` and `a/`."""


def search_names(
    tree: ObjectTree,
    request: SearchRequest,
    below: Resource,
    resource: Callable[[BucketEntry], Resource],
    *,
    after: str | None,
    limit: int,
    deadline: float,
    give_up: Deadline,
) -> SearchPage:
    """Return the hits below a collection, or a document itself; see `SupportsSearch.search`.

    A page looks through so many keys at most; the next one goes on there.
    """
    if request.where == "text":
        raise InvalidParameter("the text of objects is searched by reading each")
    query = NameQuery.of(request)
    place = (after or "").removeprefix(_COLLECTION)
    top_k = TopK[Resource](query.key, place, limit, has_windows=False)
    start = top_k.start
    # By their kinds when they were passed, which may be others by the next page.
    collections = {start} if place != (after or "") else set[Path]()
    if start and start[: len(below.path)] != below.path:
        raise InvalidParameter(INVALID)
    looked_at = 0
    last: Path | None = None
    is_whole = True
    if below.type == "document":
        rank = None if start else query.rank(below.path)
        if rank is not None:
            top_k.add(below.path, rank, lambda: below)
        looked_at = 1
    else:
        walk = tree.walk(below.path, start, is_collection=start in collections)
        for number, page in enumerate(walk, 1):
            for entry in page.entries:
                if entry.stored is None:
                    collections.add(entry.path)
                rank = query.rank(entry.path)
                if rank is not None:
                    top_k.add(entry.path, rank, lambda entry=entry: resource(entry))
                last = entry.path
            looked_at += len(page.entries)
            request.report_progress(len(page.entries))
            give_up.check()
            is_whole = page.is_last
            # A place to go on from must be one that the caller may see.
            if last is not None and (number >= _MAX_PAGES or time.monotonic() >= deadline):
                break
    found, following, beyond = top_k.page(None if is_whole else last)
    return SearchPage(
        hits=[Hit(each) for each in found],
        next=_marked(following, collections),
        looked_at=0 if top_k.is_continued else looked_at,
        total=looked_at if is_whole and after is None else None,
        beyond=beyond,
        is_counted=is_whole,
    )


def _marked(place: str | None, collections: Collection[Path]) -> str | None:
    """Return the place of the next page with its kind."""
    if place is None or to_path(place.partition("\0")[0]) not in collections:
        return place
    return _COLLECTION + place


class ListedKeys(NamedTuple):
    """What is listed of the first keys, for comparison."""

    digest: bytes
    """Equal for the same exposed objects and collections, whatever is in them."""
    requests: int
    newest: float
    """When the newest object was written, in seconds since the epoch."""


def listing_state(tree: ObjectTree, give_up: Deadline) -> ListedKeys:
    """Return what is listed of the first keys."""
    digest, number, newest = hashlib.blake2b(digest_size=16), 0, 0.0
    for page in islice(tree.walk(()), _MAX_PAGES):
        number += 1
        for path, stored in page.entries:
            digest.update("/".join((*path, "" if stored is None else ".")).encode())
            newest = max(newest, 0.0 if stored is None else stored.modified)
        give_up.check()
    return ListedKeys(digest.digest(), number, newest)


def unserved_keys(tree: ObjectTree) -> Sequence[tuple[str, str]]:
    """Return what is not served of the first keys, and why, for the operator."""
    odd: list[str] = []
    shadowed: list[Path] = []
    looked_at = undecodable = 0
    is_whole = False
    for page in islice(tree.walk(()), _MAX_PAGES):
        odd += [key for key in page.seen if _is_odd(tree, key)]
        shadowed += page.shadowed
        undecodable += page.undecodable
        looked_at += len(page.seen) + page.undecodable
        is_whole = page.is_last
    found: list[str] = []
    if odd or undecodable:
        names = ", ".join(f"{key!r:.60}" for key in odd[:_SHOWN]) or "not UTF-8"
        found.append(f"keys that are no paths, and not served: {len(odd) + undecodable} ({names})")
    if shadowed:
        names = ", ".join(f"{'/'.join(path)!r:.60}" for path in shadowed[:_SHOWN])
        found.append(f"objects hidden by collections of the same name: {len(shadowed)} ({names})")
    if not is_whole:
        found.append(
            f"only the first {looked_at:,} keys were looked through, at {MAX_KEYS:,} a request"
        )
    return [("", each) for each in found]


def _is_odd(tree: ObjectTree, key: str) -> bool:
    """Return whether a key is no path; a marker of a collection is one with a slash at its end."""
    rest = key.removesuffix("/")
    return rest != tree.keys.prefix.removesuffix("/") and tree.keys.path(rest) is None


def hidden(tree: ObjectTree, limit: int) -> Sequence[tuple[Path, str]]:
    """Return hidden paths among the first keys, each with its rule; see `SupportsCheck.hides`."""
    found: dict[Path, str] = {}
    for page in islice(tree.walk(()), _MAX_PAGES):
        for key in page.seen:
            path = tree.keys.path(key.removesuffix("/"))
            for depth in range(1, len(path or ()) + 1):
                is_collection = depth < len(path or ()) or key.endswith("/")
                part = (path or ())[:depth]
                rule = tree.keys.hidden_by(part, is_collection=is_collection)
                if rule is not None:
                    found.setdefault(part, rule)
                    break
        if len(found) >= limit:
            break
    return list(found.items())[:limit]
