"""The best of what a walk comes by, page after page, even where the walk ends early.

Nothing is kept between two pages: each walks again from where all before it was given, and passes
over what is no worse than the last item given. Where a walk has ended early, what it came by first
is given, so that there is a place before which nothing is left.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.provider import Path
from resource_server.search.name_match import NameQuery, RankKey

T = TypeVar("T")

_KEPT = 4096
"""More candidates than these, and the worst of them are forgotten."""
INVALID = "the search cannot go on from there; begin again without a cursor"


class TopK(Generic[T]):
    """The best `limit` of what is added in the order of a walk, after those given before."""

    def __init__(self, names: NameQuery, after: str | None, limit: int) -> None:
        start, _, last = (after or "").partition("\0")
        self.start = to_path(start)
        """The walk goes on behind this path."""
        self._last = to_path(last)
        self._names = names
        self._limit = limit
        self._floor: RankKey | None = None
        if self._last:
            rank = names.rank(self._last)
            if rank is None:
                raise InvalidParameter(INVALID)
            self._floor = names.key(self._last, rank)
        self._count = 0
        self._first: list[tuple[RankKey, Path, T]] = []
        self._best: list[tuple[RankKey, Path, T]] = []

    def add(self, path: Path, rank: int, item: T) -> None:
        """Add what fits with this rank."""
        key = self._names.key(path, rank)
        if self._floor is not None and key <= self._floor:
            return
        self._count += 1
        found = (key, path, item)
        if len(self._first) < self._limit:
            self._first.append(found)
        self._best.append(found)
        if len(self._best) >= _KEPT + self._limit:
            self._best.sort(key=_key)
            del self._best[self._limit :]

    def page(self, stopped_at: Path | None) -> tuple[list[T], str | None]:
        """Return a page, best first, and where the next goes on.

        `stopped_at` is the last path that the walk came by; None: it came to its end.
        """
        more = self._count > self._limit
        if stopped_at is None:
            best = sorted(self._best, key=_key)[: self._limit]
            last = best[-1][1] if best else ()
            return [item for _, _, item in best], _joined(self.start, last) if more else None
        at = self._first[-1][1] if more else stopped_at
        found = [item for _, _, item in sorted(self._first, key=_key)]
        return found, _joined(at, self._last)


def to_path(text: str) -> Path:
    """Return a path whose segments were joined by `/`.

    Raises:
        InvalidParameter: it cannot be one.
    """
    path = tuple(text.split("/")) if text else ()
    if not all(map(uris.is_segment, path)):
        raise InvalidParameter(INVALID)
    return path


def _joined(start: Path, last: Path) -> str:
    return "/".join(start) + "\0" + "/".join(last) if last else "/".join(start)


def _key(found: tuple[RankKey, Path, T]) -> RankKey:
    return found[0]
