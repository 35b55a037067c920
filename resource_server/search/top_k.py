"""Top-k results of a traversal, resumable page by page.

Nothing is stored between two pages: each page repeats the walk from a place before which every hit
was returned, and skips hits no worse than the last one returned. If the walk ends early, the first
hits it came across are returned instead of the best, so that there is such a place.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.provider import Path
from resource_server.search.name_match import NameQuery, RankKey

T = TypeVar("T")

_MAX_CANDIDATES = 4096
"""Candidates above the limit after which the worst ones are dropped."""
_MAX_SEGMENTS = 2000
"""Maximum segments of a path: what follows takes time and memory in the square of them."""
INVALID = "the search cannot go on from there; begin again without a cursor"


class TopK(Generic[T]):
    """The best `limit` items that are added in walk order, after those of the pages before."""

    def __init__(self, query: NameQuery, after: str | None, limit: int) -> None:
        start, _, last = (after or "").partition("\0")
        self.start = to_path(start)
        """The walk starts after this path."""
        self._last = to_path(last)
        self._query = query
        self._limit = limit
        self._floor: RankKey | None = None
        """The key of the last item returned."""
        if self._last:
            rank = query.rank(self._last)
            if rank is None:
                raise InvalidParameter(INVALID)
            self._floor = query.key(self._last, rank)
        self._count = 0
        self._first: list[tuple[RankKey, Path, T]] = []
        self._best: list[tuple[RankKey, Path, T]] = []

    def add(self, path: Path, rank: int, item: T) -> None:
        """Add a match with its rank."""
        key = self._query.key(path, rank)
        if self._floor is not None and key <= self._floor:
            return
        self._count += 1
        found = (key, path, item)
        if len(self._first) < self._limit:
            self._first.append(found)
        self._best.append(found)
        if len(self._best) >= _MAX_CANDIDATES + self._limit:
            self._best.sort(key=_sort_key)
            del self._best[self._limit :]

    @property
    def beyond(self) -> int:
        """Number of the items that were added and are on later pages."""
        return max(self._count - self._limit, 0)

    def page(self, stopped_at: Path | None) -> tuple[list[T], str | None]:
        """Return a page, best first, and where the next one continues.

        `stopped_at` is the last path of a walk that ended early; None if it was complete.
        """
        has_more = self._count > self._limit
        if stopped_at is None:
            best = sorted(self._best, key=_sort_key)[: self._limit]
            last = best[-1][1] if best else ()
            return [item for _, _, item in best], _joined(self.start, last) if has_more else None
        at = self._first[-1][1] if has_more else stopped_at
        found = [item for _, _, item in sorted(self._first, key=_sort_key)]
        return found, _joined(at, self._last)


def to_path(text: str) -> Path:
    """Return the path whose segments were joined by `/`.

    Raises:
        InvalidParameter: not a path, or one that is too deep.
    """
    path = tuple(text.split("/")) if text else ()
    if len(path) > _MAX_SEGMENTS or not all(map(uris.is_segment, path)):
        raise InvalidParameter(INVALID)
    return path


def _joined(start: Path, last: Path) -> str:
    return "/".join(start) + "\0" + "/".join(last) if last else "/".join(start)


def _sort_key(found: tuple[RankKey, Path, T]) -> RankKey:
    return found[0]
