"""Matching and ranking of names: for search by name, and for completion.

A search query without a slash matches names, one with a slash paths. With `*`, `?` or `[...]` it is
a glob of a whole name, or of the end of a path (`**` matches any number of segments); otherwise it
matches part of a name or path. Case is ignored.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Callable, Iterable, Sequence

from resource_server.provider import MaybeAwaitable, Path

EXACT, PREFIX, WORD, PART, OTHER = range(5)
"""How well a name matches, best first; `OTHER` is a hit by something other than its name."""

RankKey = tuple[int, int, str]
"""Sort key of a hit: how well it matches, the length of its path, its path."""

MAX_COMPLETIONS = 100
"""Maximum suggestions of a completion."""
_MANY_CANDIDATES = 4096
"""More candidates are ranked in a worker thread."""

_IS_GLOB = re.compile(r"[*?]|\[[^\]]+\]")


class NameQuery:
    """A search query for names or paths."""

    def __init__(self, query: str) -> None:
        self._typed = query.casefold()
        self.matches_paths = "/" in query
        """Whether the query matches whole paths, not just their last segment."""
        self._matches: Callable[[str], bool] | None = None
        if _IS_GLOB.search(query):
            self._matches = _path_glob(self._typed) if self.matches_paths else _glob(self._typed)

    def rank(self, path: Path) -> int | None:
        """Return how well a path matches; None if it does not match."""
        if not path:
            return None
        name = ("/" + "/".join(path) if self.matches_paths else path[-1]).casefold()
        if self._matches is not None:
            return EXACT if self._matches(name) else None
        typed = self._typed
        at = name.find(typed)
        if at < 0:
            return None
        if self.matches_paths:
            return _rank_of_path(name, typed)
        if at == 0:
            return EXACT if len(name) == len(typed) else PREFIX
        # A later occurrence may begin a word even if the first does not.
        return WORD if _begins_a_word(path[-1], name, typed) else PART

    def key(self, path: Path, rank: int) -> RankKey:
        """Return the sort key of a path with this rank."""
        joined = "/".join(path)
        return rank, len(joined), joined

    def candidates(self, names: Sequence[str]) -> Iterable[str]:
        """Return the names among many that may match; only if not `matches_paths`."""
        matches = self._matches
        if matches is not None:
            return [name for name in names if matches(name.casefold())]
        # No name contains NUL: one search of the joined names rules out most listings.
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
        # Positions in the two differ if case folding changed the length.
        if len(name) == len(folded) and name[at].isupper() and name[at - 1].islower():
            return True
        at = folded.find(typed, at + 1)
    return False


def _glob(pattern: str) -> Callable[[str], bool]:
    # `fnmatch` makes each star an atomic group, so matching does not backtrack.
    matches = re.compile(fnmatch.translate(pattern)).match
    return lambda name: matches(name) is not None


def _path_glob(pattern: str) -> Callable[[str], bool]:
    """Return a matcher of paths, written with a leading slash, for a glob with slashes."""
    segments = pattern.strip("/").split("/")
    if not pattern.startswith("/"):
        segments.insert(0, "**")
    matches = [None if segment == "**" else _glob(segment) for segment in segments]
    return lambda path: _segments_match(matches, path[1:].split("/"))


def _segments_match(matches: Sequence[Callable[[str], bool] | None], path: Sequence[str]) -> bool:
    """Match segment by segment; None matches any number of them.

    A mismatch backtracks to the last None only: an earlier one could not do better.
    """
    at = here = 0
    back: tuple[int, int] | None = None
    while here < len(path):
        fit = matches[at] if at < len(matches) else None
        if at < len(matches) and fit is None:
            back = (at, here)
            at += 1
        elif fit is not None and fit(path[here]):
            at, here = at + 1, here + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            at, here = back[0] + 1, back[1]
        else:
            return False
    return all(fit is None for fit in matches[at:])


def rank_completions(
    meanings: Sequence[str], candidates: Sequence[str]
) -> MaybeAwaitable[tuple[list[str], int]]:
    """Return the best candidates, best first, and the number of different ones.

    Those with the typed prefix come first, then those with a path segment that has it. What was
    typed may have several meanings; each candidate is ranked by the one that suits it best.
    """
    if len(candidates) <= _MANY_CANDIDATES:
        return _best_completions(meanings, candidates)
    from anyio import to_thread

    return to_thread.run_sync(_best_completions, meanings, candidates)


def _best_completions(meanings: Sequence[str], candidates: Sequence[str]) -> tuple[list[str], int]:
    different = set(candidates)

    def key(candidate: str) -> RankKey:
        return min(_completion_key(typed, candidate) for typed in meanings)

    best = heapq.nsmallest(MAX_COMPLETIONS, different, key=key)
    return best, len(different)


def _completion_key(typed: str, candidate: str) -> RankKey:
    lower, prefix = candidate.lower(), typed.lower()
    if candidate.startswith(typed):
        rank = EXACT
    elif lower.startswith(prefix):
        rank = PREFIX
    elif lower.rstrip("/").rpartition("/")[2].startswith(prefix.rpartition("/")[2]):
        rank = WORD
    else:
        rank = PART
    return rank, len(candidate), candidate
