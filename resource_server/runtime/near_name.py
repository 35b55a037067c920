"""The nearest known name for a misspelt one: "did you mean"."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MAX_LENGTH = 64
"""Characters of a name that are compared: the comparison takes quadratic time."""


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if none is close.

    Case, hyphens, spaces and underscores do not count: `maxSize` is near `max_size`.
    """
    import difflib  # here: only mistakes need it

    folded = {_folded(each): each for each in known}
    near = difflib.get_close_matches(_folded(name), folded, n=1)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean '…'?`, or nothing if no known name is close."""
    near = near_name(name, known)
    return f"; did you mean '{near}'?" if near else ""


def _folded(name: str) -> str:
    return re.sub("[-_ ]", "", name[:_MAX_LENGTH].casefold())
