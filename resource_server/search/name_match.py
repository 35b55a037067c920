"""Matching and ranking of names: for search by name, and for completion.

A search query without a slash matches names, one with a slash paths. With `*`, `?`, `[...]` or
`{a,b}` it is a glob of a whole name, or of the end of a path (`path_glob`); otherwise it matches
part of a name or path. Of several words, one has to match the name, the others the name or a
collection above it. Case is ignored, unless the request says otherwise, and names are compared as
people type them (`as_typed`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from resource_server.provider import MaybeAwaitable, Path
from resource_server.provider.search import SearchRequest
from resource_server.runtime.near_name import as_typed
from resource_server.search import ranking
from resource_server.search.path_glob import FileGlob, alternatives, is_glob, name_glob, path_glob

EXACT, PREFIX, WORD, PART, OTHER = range(5)
"""How well a name matches, best first; `OTHER` is a hit by something other than its name."""

RankKey = tuple[int, bool, int, str]
"""Sort key of a hit: how well it matches, whether it is vendored or generated, the length of its
path, its path."""

MAX_COMPLETIONS = 100
"""Maximum suggestions of a completion."""
_MANY_CANDIDATES = 4096
"""More candidates are ranked in a worker thread."""


class NameQuery:
    """A search query for names or paths: for `query`, or for all `words`; `files` is a glob.

    Raises:
        InvalidParameter: a glob cannot be used; gives the reason.
    """

    def __init__(
        self,
        query: str,
        *,
        match_case: bool = False,
        words: Sequence[str] = (),
        files: str | None = None,
    ) -> None:
        self._folds = not match_case
        self._typed = self._folded(query)
        self.matches_paths = "/" in query or bool(words)
        """Whether the query matches whole paths, not just their last segment."""
        self._matches: Callable[[str], bool] | None = None
        if is_glob(query):
            matcher = _path_matcher if self.matches_paths else name_glob
            self._matches = _any_of([matcher(each) for each in alternatives(self._typed)])
        self._words = [NameQuery(word, match_case=match_case) for word in words]
        self._files = None if files is None else FileGlob(files)

    @staticmethod
    def of(request: SearchRequest) -> NameQuery:
        """Return the query of a request, with all its words and conditions."""
        return NameQuery(
            request.text,
            match_case=bool(request.match_case),
            words=request.words,
            files=request.files,
        )

    def rank(self, path: Path) -> int | None:
        """Return how well a path matches; None if it does not match."""
        if not path:
            return None
        rank = self._rank_of_words(path) if self._words else self._rank(path)
        if rank is None or self._files is None or self._files.matches(path):
            return rank
        return None

    def _rank_of_words(self, path: Path) -> int | None:
        ranks = [word.rank(path) for word in self._words]
        in_name = [rank for rank in ranks if rank is not None]
        if not in_name:
            return None
        if len(in_name) == len(ranks):
            return max(in_name)
        for word, rank in zip(self._words, ranks, strict=True):
            above = range(len(path) - 1, 0, -1)
            if rank is None and all(word.rank(path[:end]) is None for end in above):
                return None
        return OTHER

    def _rank(self, path: Path) -> int | None:
        name = self._folded("/" + "/".join(path) if self.matches_paths else path[-1])
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

    def _folded(self, text: str) -> str:
        text = as_typed(text)
        return text.casefold() if self._folds else text

    def key(self, path: Path, rank: int) -> RankKey:
        """Return the sort key of a path with this rank."""
        joined = "/".join(path)
        return rank, ranking.is_later(path), len(joined), joined

    def candidates(self, names: Sequence[str]) -> Iterable[str]:
        """Return the names among many that may match, in any collection."""
        if self._words:
            found = {name for word in self._words for name in word.candidates(names)}
            return [name for name in names if name in found] if found else ()
        if self.matches_paths:
            return names
        matches = self._matches
        if matches is not None:
            return [name for name in names if matches(self._folded(name))]
        # No name contains NUL: one search of the joined names rules out most listings.
        if self._typed not in self._folded("\0".join(names)):
            return ()
        return [name for name in names if self._typed in self._folded(name)]


def _any_of(matchers: Sequence[Callable[[str], bool]]) -> Callable[[str], bool]:
    if len(matchers) == 1:
        return matchers[0]
    return lambda name: any(matches(name) for matches in matchers)


def _path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a matcher of paths that are written with a leading slash."""
    matches = path_glob(pattern)
    return lambda path: matches(path[1:].split("/"))


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
    meanings = [as_typed(typed) for typed in meanings]

    def key(candidate: str) -> tuple[int, int, str]:
        rank, length, _ = min(_completion_key(typed, as_typed(candidate)) for typed in meanings)
        return rank, length, candidate

    best = heapq.nsmallest(MAX_COMPLETIONS, different, key=key)
    return best, len(different)


def _completion_key(typed: str, candidate: str) -> tuple[int, int, str]:
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
