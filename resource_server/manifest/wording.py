"""How diagnostics say what was found, what was expected and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from resource_server.runtime.near_name import did_you_mean

_LONGEST = 60
_LONGEST_REASON = 500


def printable(text: str, *, longest: int = _LONGEST) -> str:
    """Return text for one line of a terminal: cut, with control and bidi characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in shortened(text, longest)
    )


def one_line(error: object) -> str:
    """Return an exception's text as one line of bounded length."""
    return shortened(" ".join(exception_text(error).split()), _LONGEST_REASON)


def exception_text(error: object) -> str:
    """Return an exception's text, also where the exception fails to give one."""
    try:
        return str(error)
    except Exception:  # the code of a plugin
        return f"{type(error).__name__} without a text"


def shortened(text: str, longest: int) -> str:
    """Return text cut to that many characters, the last of which says so."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def quoted_value(value: object) -> str:
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
        case list() | tuple():
            return "a list" if value else "an empty list"
        case _:
            return "a mapping"


def unknown_name(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is unknown, with the one probably meant or else all that are known."""
    names = list(known)
    hint = did_you_mean(word, names)
    if not hint and names:
        hint = f"; known: {', '.join(names)}"
    return f"unknown {what}{hint}"
