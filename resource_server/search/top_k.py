"""Top-k results of a traversal, resumable page by page.

A walk is divided into windows: what one page came by until its time was over, or the rest of the
walk. The pages of a window show its items best first; the next window follows after its last item.
Nothing is stored between two pages: each repeats the walk of its window, and skips items no worse
than the last one shown. Where the time ends before the window does, the first items of the walk are
returned instead of the best, so that there is a place before which all were shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.provider import Path

T = TypeVar("T")

_MAX_SEGMENTS = 2000
"""Maximum segments of a path: what follows takes time and memory in the square of them."""
_MAX_RANK_DIGITS = 9
_SPARE = 64
INVALID = "the search cannot go on from there; begin again without a cursor"


class TopK(Generic[T]):
    """The best `limit` items that are added in walk order, after those of the pages before.

    `key` gives the sort key of a path with its rank. A walk in another order than that of paths has
    no windows: there, the end of one could not be found again.
    """

    def __init__(
        self,
        key: Callable[[Path, int], Any],
        after: str | None,
        limit: int,
        *,
        has_windows: bool = True,
    ) -> None:
        start, *rest = (after or "").split("\0")
        self.start = to_path(start)
        """The walk starts after this path."""
        self.end: Path = ()
        """The last path of the window; empty: the walk's, or not known yet."""
        self._key = key
        self._limit = limit
        self._has_windows = has_windows
        self._floor: Any = None
        """The key of the last item shown of this window."""
        self._shown = ""
        if rest:
            self.end, self._floor = self._parsed(rest)
            self._shown = "\0".join(("", *rest))
        self.count = 0
        """Number of items that were added and not shown before."""
        self._matches = 0
        self._first: list[_Ranked[T]] = []
        self._best: list[_Ranked[T]] = []
        self._worst: Any = None
        """No item with a greater key is among the best."""

    def _parsed(self, rest: list[str]) -> tuple[Path, Any]:
        if len(rest) != 3 or (rest[0] and not self._has_windows):
            raise InvalidParameter(INVALID)
        end, rank, last = to_path(rest[0]), rest[1], to_path(rest[2])
        is_rank = rank.isascii() and rank.isdigit() and len(rank) <= _MAX_RANK_DIGITS
        if not is_rank or not last:
            raise InvalidParameter(INVALID)
        return end, self._key(last, int(rank))

    @property
    def is_continued(self) -> bool:
        """Whether earlier pages showed items of this window."""
        return self._floor is not None

    @property
    def is_full(self) -> bool:
        """Whether there are enough items for a page."""
        return self.count >= self._limit

    @property
    def _takes_first(self) -> bool:
        return self.is_continued or not self._has_windows

    def add(self, path: Path, rank: int, make: Callable[[], T], matches: int = 1) -> bool:
        """Add an item that has some matches; `make` is called if it may be on this page.

        Returns False if an earlier page showed it.
        """
        key = self._key(path, rank)
        if self._floor is not None and key <= self._floor:
            return False
        self.count += 1
        self._matches += matches
        is_first = self._takes_first and len(self._first) < self._limit
        is_best = self._worst is None or key < self._worst
        if not is_first and not is_best:
            return True
        found = _Ranked(key, path, rank, make(), matches)
        if is_first:
            self._first.append(found)
        if is_best:
            self._best.append(found)
            if len(self._best) >= 2 * self._limit + _SPARE:
                self._keep_best()
        return True

    def _keep_best(self) -> None:
        self._best.sort(key=_sort_key)
        del self._best[self._limit :]
        if len(self._best) == self._limit:
            self._worst = self._best[-1].key

    def page(
        self, stopped_at: Path | None, *, limit: int | None = None
    ) -> tuple[list[T], str | None, int]:
        """Return a page, best first, where the next one continues, and the matches after it.

        `stopped_at` is the last path of a walk that ended before its window; None if it was
        complete. It is the end of a window that has none yet. A lower `limit` than that of the
        beginning shortens the page.
        """
        self._limit = limit or self._limit
        has_more = self.count > self._limit
        if self._takes_first and stopped_at is not None:
            found = sorted(self._first, key=_sort_key)
            at = self._first[-1].path if has_more else stopped_at
            following = "/".join(at) if at == self.end else "/".join(at) + self._shown
        else:
            self._keep_best()
            found = self._best
            end = self.end if stopped_at is None else stopped_at
            following = "/".join(end) or None
            if has_more:
                last = found[-1]
                joined = map("/".join, (self.start, end, (str(last.rank),), last.path))
                following = "\0".join(joined)
        beyond = self._matches - sum(item.matches for item in found)
        return [item.item for item in found], following, beyond


class _Ranked(Generic[T]):
    __slots__ = ("item", "key", "matches", "path", "rank")

    def __init__(self, key: Any, path: Path, rank: int, item: T, matches: int) -> None:
        self.key, self.path, self.rank, self.item, self.matches = key, path, rank, item, matches


def to_path(text: str) -> Path:
    """Return the path whose segments were joined by `/`.

    Raises:
        InvalidParameter: not a path, or one that is too deep.
    """
    path = tuple(text.split("/")) if text else ()
    if len(path) > _MAX_SEGMENTS or not all(map(uris.is_segment, path)):
        raise InvalidParameter(INVALID)
    return path


def _sort_key(found: _Ranked[Any]) -> Any:
    return found.key
