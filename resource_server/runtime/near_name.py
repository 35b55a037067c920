"""Names as people write them: as they are typed, and the nearest known one for a misspelt one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_MAX_LENGTH = 64
"""Characters of a name that are compared: the comparison takes quadratic time."""


_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def as_typed(name: str) -> str:
    """Return a name as people type it: with composed characters (NFC) and plain spaces.

    Programs write names that look the same otherwise: macOS has accents decomposed (NFD), and
    U+202F before the AM and PM of its screenshots.
    """
    return name if name.isascii() else _SPACES.sub(" ", unicodedata.normalize("NFC", name))


def near_name(name: str, known: Iterable[str], *, ratio: float = 0.6) -> str | None:
    """Return the known name most like `name`, or None if none is close.

    Case, hyphens, spaces and underscores do not count: `maxSize` is near `max_size`. `ratio` is
    that of the characters that both have in common, from 0 to 1.
    """
    import difflib  # here: only mistakes need it

    folded = {_folded(each): each for each in known}
    near = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=ratio)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean '…'?`, or nothing if no known name is close."""
    near = near_name(name, known)
    return f"; did you mean '{near}'?" if near else ""


def sentences(problem: str, then: str) -> str:
    """Return a problem, which may end in "did you mean", and what follows from it, if anything."""
    if not then:
        return problem
    return f"{problem} {then}" if problem.endswith("?") else f"{problem}. {then}"


def _folded(name: str) -> str:
    return re.sub("[-_ ]", "", name[:_MAX_LENGTH].casefold())
