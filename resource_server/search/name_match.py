"""Which names a query means, and which of them come first.

A query without a slash is about names, one with a slash about paths. With `*`, `?` or `[...]` it is
a glob of the whole name, or of any path that ends so (`**` stands for any number of segments); else
it is a part of it. The case of letters never matters.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from resource_server.provider import Path

EXACT, PREFIX, WORD, PART, OTHER = range(5)
"""How well a name fits, best first; `OTHER`: it was found by something else than its name."""

RankKey = tuple[int, int, str]
"""The order of what was found: how well it fits, the shorter path, the path."""

_IS_GLOB = re.compile(r"[*?]|\[[^\]]+\]")


class NameQuery:
    """A query for names."""

    def __init__(self, query: str) -> None:
        self._typed = query.casefold()
        self.matches_paths = "/" in query
        """Whether the whole path has to be known to say if it fits; else its last segment does."""
        self._fits: Callable[[str], bool] | None = None
        if _IS_GLOB.search(query):
            self._fits = _path_glob(self._typed) if self.matches_paths else _glob(self._typed)

    def rank(self, path: Path) -> int | None:
        """Return how well a path fits, or None: not at all."""
        if not path:
            return None
        name = ("/" + "/".join(path) if self.matches_paths else path[-1]).casefold()
        if self._fits is not None:
            return EXACT if self._fits(name) else None
        typed = self._typed
        at = name.find(typed)
        if at < 0:
            return None
        if self.matches_paths:
            return _rank_of_path(name, typed)
        if at == 0:
            return EXACT if len(name) == len(typed) else PREFIX
        # A later place may be the beginning of a word where the first is not.
        return WORD if _begins_a_word(path[-1], name, typed) else PART

    def key(self, path: Path, rank: int) -> RankKey:
        """Return by what a path that fits is ordered."""
        joined = "/".join(path)
        return rank, len(joined), joined

    def among(self, names: Sequence[str]) -> Iterable[str]:
        """Return those of many names that may fit; not for queries that are `of_paths`."""
        fits = self._fits
        if fits is not None:
            return [name for name in names if fits(name.casefold())]
        # No name holds a NUL: one look at all of them tells of most listings that nothing fits.
        if self._typed not in "\0".join(names).casefold():
            return ()
        return [name for name in names if self._typed in name.casefold()]


def _rank_of_path(path: str, typed: str) -> int:
    anchored = "/" + typed.removeprefix("/")
    if path == anchored:
        return EXACT
    if path.startswith(anchored):
        return PREFIX
    return WORD if anchored in path else PART


def _begins_a_word(name: str, folded: str, typed: str) -> bool:
    at = folded.find(typed)
    while at >= 0:
        if at == 0 or not folded[at - 1].isalnum():
            return True
        # Where folding has changed the length, places in the two are not the same.
        if len(name) == len(folded) and name[at].isupper() and name[at - 1].islower():
            return True
        at = folded.find(typed, at + 1)
    return False


def _glob(pattern: str) -> Callable[[str], bool]:
    # `fnmatch` makes each star an atomic group: no name takes longer than its length allows.
    fits = re.compile(fnmatch.translate(pattern)).match
    return lambda name: fits(name) is not None


def _path_glob(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a path, with a slash before each segment, fits a glob of paths."""
    segments = pattern.strip("/").split("/")
    if not pattern.startswith("/"):
        segments.insert(0, "**")
    fits = [None if segment == "**" else _glob(segment) for segment in segments]
    return lambda path: _segments_fit(fits, path[1:].split("/"))


def _segments_fit(fits: Sequence[Callable[[str], bool] | None], path: Sequence[str]) -> bool:
    """Match segment by segment; None stands for any number of them.

    What fails goes back to the last None only: an earlier one could do no better.
    """
    at = here = 0
    back: tuple[int, int] | None = None
    while here < len(path):
        fit = fits[at] if at < len(fits) else None
        if at < len(fits) and fit is None:
            back = (at, here)
            at += 1
        elif fit is not None and fit(path[here]):
            at, here = at + 1, here + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            at, here = back[0] + 1, back[1]
        else:
            return False
    return all(fit is None for fit in fits[at:])
