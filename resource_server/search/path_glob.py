"""Globs over names and paths.

`*`, `?` and `[...]` match within a segment, `**` any number of segments; `{a,b}` stands for
alternatives. A glob without a slash matches names; one with a slash matches the end of a path, or
the whole of it after a leading slash. Case is ignored.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from resource_server.errors import InvalidParameter
from resource_server.provider import Path
from resource_server.runtime.near_name import as_typed

_MAX_LENGTH = 1000
_MAX_ALTERNATIVES = 64
_MAX_EXPANDED = 8000
"""Maximum characters of all alternatives: compiling as many takes 25 ms."""
_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")
_IS_GLOB = re.compile(rf"[*?]|\[[^\]]+\]|{_BRACES.pattern}")


def is_glob(text: str) -> bool:
    """Return whether a text contains a wildcard."""
    return _IS_GLOB.search(text) is not None


def name_glob(pattern: str) -> Callable[[str], bool]:
    """Return a matcher of single segments, for a folded glob."""
    # `fnmatch` makes each star an atomic group, so matching does not backtrack.
    matches = re.compile(fnmatch.translate(pattern)).match
    return lambda name: matches(name) is not None


def path_glob(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Return a matcher of the segments of a path, for a folded glob with slashes."""
    segments = pattern.strip("/").split("/")
    if not pattern.startswith("/"):
        segments.insert(0, "**")
    matches = [None if segment == "**" else name_glob(segment) for segment in segments]
    return lambda path: _segments_match(matches, path)


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


class FileGlob:
    """A glob that chooses files, or everything below collections: `*.py`, `docs/**/*.{md,txt}`.

    `{a,b}` stands for alternatives, a leading `!` for everything else.

    Raises:
        InvalidParameter: the glob cannot be used; gives the reason.
    """

    def __init__(self, pattern: str) -> None:
        text = pattern.strip()
        self._is_negated = text.startswith("!")
        text = _folded(text.removeprefix("!").removeprefix("./"))
        if not text.strip("/") or len(text) > _MAX_LENGTH or "://" in text:
            raise InvalidParameter(
                f"`files` is a glob over paths, such as *.py or docs/**/*.md, of at most "
                f"{_MAX_LENGTH} characters; `uri` takes a URI"
            )
        self._names: list[Callable[[str], bool]] = []
        self._paths: list[Callable[[Sequence[str]], bool]] = []
        for each in alternatives(text):
            if "/" in each.rstrip("/"):
                self._paths.append(path_glob(each))
            else:
                self._names.append(name_glob(each.rstrip("/")))
        self._above: tuple[Path, bool] = ((), False)
        """The last collection that was looked at, and whether all below it is chosen."""

    def matches(self, path: Path) -> bool:
        """Return whether the glob chooses a path, or a collection above it."""
        above = path[:-1]
        if above != self._above[0]:
            chosen = any(self._chooses(above[:end]) for end in range(1, len(above) + 1))
            self._above = (above, chosen)
        return (self._above[1] or self._chooses(path)) != self._is_negated

    def _chooses(self, path: Path) -> bool:
        if not path:
            return False
        if self._names:
            name = _folded(path[-1])
            if any(fits(name) for fits in self._names):
                return True
        if self._paths:
            segments = [_folded(segment) for segment in path]
            return any(fits(segments) for fits in self._paths)
        return False


def _folded(text: str) -> str:
    return as_typed(text).casefold()


def alternatives(pattern: str) -> list[str]:
    """Return the globs that a glob with braces stands for.

    Raises:
        InvalidParameter: they are too many, or too long.
    """
    found: list[str] = []
    pending = [pattern]
    while pending:
        each = pending.pop()
        braces = _BRACES.search(each)
        if braces is None:
            found.append(each)
        else:
            before, after = each[: braces.start()], each[braces.end() :]
            pending += [before + part + after for part in set(braces[1].split(","))]
        every = found + pending
        if len(every) > _MAX_ALTERNATIVES or sum(map(len, every)) > _MAX_EXPANDED:
            raise InvalidParameter(
                f"the braces of a glob stand for more than {_MAX_ALTERNATIVES} alternatives, "
                f"or for {_MAX_EXPANDED} characters"
            )
    return [each for each in dict.fromkeys(found) if each.strip("/")]
