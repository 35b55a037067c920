"""How diagnostics say what was found, what was expected and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST = 60


def printable(text: str, *, longest: int = _LONGEST) -> str:
    """Return text for one line of a terminal: cut, with control and bidi characters escaped."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def one_line(error: object) -> str:
    """Return an exception's text as one line."""
    return " ".join(str(error).split())


def found(value: object) -> str:
    """Say what a manifest holds: `the number 5`, `'distt/'`, `a list`, `nothing`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {printable(str(value))}"
        case str():
            return f"'{printable(value)}'"
        case list():
            return "a list"
        case _:
            return "a mapping"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean '…'?` for the nearest known word, or nothing."""
    import difflib  # here: only mistakes need it

    # Upper case and hyphens are how other tools spell the same words: maxSize, page-size.
    folded = {name.lower().replace("_", ""): name for name in known}
    near = difflib.get_close_matches(
        re.sub("[-_ ]", "", word[:_LONGEST].lower()), folded, n=1, cutoff=0.6
    )
    return f"; did you mean '{folded[near[0]]}'?" if near else ""


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is unknown, with the one probably meant or else all that are known."""
    names = list(known)
    hint = suggestion(word, names)
    if not hint and names:
        hint = f"; known: {', '.join(names)}"
    return f"unknown {what}{hint}"
