"""Hits of a search in text: the best documents of a page, and of those that follow it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from resource_server.provider import Path, Resource
from resource_server.provider.search import Hit, SearchPage, SearchRequest, Together
from resource_server.search import ranking
from resource_server.search.coverage import Gaps
from resource_server.search.text_match import MAX_LINES, Matches, lines_to_keep
from resource_server.search.top_k import TopK

_PATIENCE = 4
"""How much longer a search goes on after a full page in which there is no best possible hit."""


class TextHits:
    """The hits of a pass over documents, by the ways in which the words occur in them.

    A way of `SearchRequest.then` is left out once those before it fill the page.
    """

    def __init__(
        self, request: SearchRequest, after: str | None, limit: int, *, has_windows: bool = True
    ) -> None:
        self.looked_at = 0
        """Number of documents that were passed."""
        self.is_exact = True
        """Whether time decided nothing."""
        ways: Sequence[Together] = (request.together, *(request.then if after is None else ()))
        self._by_way: dict[Together, TopK[Hit]] = {
            way: TopK[Hit](ranking.key, after, limit, has_windows=has_windows) for way in ways
        }
        self.best = self._by_way[request.together]
        """Those of the page itself."""
        self.keep: dict[Together, int] = dict.fromkeys(ways, lines_to_keep(request))
        """By way: how many lines of the next document to quote."""
        self.gaps = Gaps(is_continued=self.best.is_continued)
        self._request, self._limit = request, limit
        self._uncounted = set[Together]()
        self._full_at: float | None = None
        self._has_best = False

    def until(self) -> float:
        """Return when the page may end before its documents do: never while it has room."""
        if self._full_at is None:
            return math.inf
        return self._full_at + self._request.count_s * (1 if self._has_best else _PATIENCE)

    def look_at(self, count: int) -> None:
        """Count documents that were passed."""
        self.looked_at += count
        self._request.report_progress(count)

    def miss(
        self,
        path: Path,
        why: str,
        *,
        by_itself: bool = False,
        in_part: bool = False,
        is_late: bool = False,
    ) -> None:
        """Add a document that is not searched; as `Gaps.add`."""
        self.gaps.add(path, why, by_itself=by_itself, in_part=in_part, is_late=is_late)
        self.is_exact = self.is_exact and not is_late

    def add(self, path: Path, found: Matches, resource: Callable[[], Resource]) -> None:
        """Add a document, if it matches; `resource` is called if it may be on a page."""
        way = found.together
        best = self._by_way.get(way)
        if best is None or not found.count:
            return
        if not found.is_counted:
            self._uncounted.add(way)
        if best.add(path, found.rank, lambda: found.hit(resource()), found.count):
            self.keep[way] = max(self.keep[way] - found.shown, MAX_LINES)
        if best is self.best:
            self._has_best = self._has_best or found.rank == ranking.BEST_RANK
            if self._full_at is None and best.is_full and not best.is_continued:
                self._full_at = time.monotonic()
        if best.is_full:
            self.end_with(way)

    def end_with(self, way: Together) -> None:
        """Leave out the ways after this one."""
        ways: Sequence[Together] = [*self._by_way]
        for later in ways[ways.index(way) + 1 :]:
            del self._by_way[later], self.keep[later]

    def page(self, stopped_at: Path | None, total: int | None) -> SearchPage:
        """Return the page, with the later ones after a whole walk; `stopped_at` as in `TopK`."""
        is_whole = stopped_at is None and not self.best.end
        room, pages = self._limit, dict[Together, SearchPage]()
        for way, best in self._by_way.items():
            hits, following, beyond = best.page(stopped_at, limit=max(room, 1))
            room -= len(hits)
            pages[way] = SearchPage(
                hits=hits,
                next=following,
                # The documents of a window are reported with its first page.
                looked_at=0 if best.is_continued else self.looked_at,
                total=total,
                beyond=beyond,
                is_counted=is_whole and self.is_exact and way not in self._uncounted,
            )
            if not is_whole:
                break
        first = pages.pop(self._request.together)
        return replace(first, unsearched=self.gaps.entries(), later=pages)
