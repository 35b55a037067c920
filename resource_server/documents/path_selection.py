"""Selections of paths: the patterns of `include` and `exclude`, as people type them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from resource_server.documents.patterns import Pattern, Patterns, bytewise
from resource_server.runtime.near_name import as_typed

EVERYTHING = ("**",)


class PathSelection:
    """Patterns of `include` or `exclude`, relative to the directory `prefix`.

    They match names as people type them (`as_typed`), which git's own files do not.
    """

    __slots__ = ("_base", "_leads", "_patterns")

    def __init__(self, patterns: Iterable[str], prefix: str = "") -> None:
        self._base = len(bytewise(as_typed(prefix)))
        self._patterns = Patterns(map(as_typed, patterns))
        self._leads = Patterns(_leads(self._patterns))

    def match(self, path: str, name: str, *, is_directory: bool) -> Pattern | None:
        """Return the pattern that decides for this exact path, or None."""
        if not path.isascii():
            path, name = _as_typed(path), _as_typed(name)
        index = self._patterns.last_match(path[self._base :], name, is_directory=is_directory)
        return self._patterns.lines.get(index)

    def may_lead(self, path: str, name: str) -> bool:
        """Return whether anything below this directory can match."""
        if not path.isascii():
            path, name = _as_typed(path), _as_typed(name)
        return self._leads.last_match(path[self._base :], name, is_directory=True) >= 0


def _as_typed(path: str) -> str:
    """Return a `bytewise` path as people type it, `bytewise` as well."""
    return bytewise(as_typed(_from_bytewise(path)))


def _from_bytewise(path: str) -> str:
    return os.fsdecode(path.encode("latin-1"))


def _leads(patterns: Patterns) -> Iterable[str]:
    """Yield patterns of the ancestor directories of everything that `patterns` can match."""
    for pattern in patterns.lines.values():
        if pattern.negated:
            continue
        segments = _from_bytewise(pattern.glob).split("/") if pattern.anchored else ["**", ""]
        for depth in range(1, len(segments)):
            way = "/".join(segments[:depth])
            yield f"/{way}/"
            if segments[depth - 1] == "**":
                break


def selection(include: Sequence[str], prefix: str = "") -> PathSelection | None:
    """Return the selection of `include`, or None if that is everything.

    A directory such as `src/` is the one at the top: if one at any depth were meant, every other
    directory would have to be listed, too. `**/src/` names those.
    """
    if tuple(include) == EVERYTHING:
        return None
    return PathSelection([f"/{each}" if _is_directory(each) else each for each in include], prefix)


def _is_directory(line: str) -> bool:
    pattern = Pattern.parse(line)
    return (
        pattern is not None and pattern.directory_only and not (pattern.negated or pattern.anchored)
    )
