"""Wording of diagnostics: quoted values, unknown names, safe and short text."""

from __future__ import annotations

from collections.abc import Iterable

from resource_server.runtime.near_name import did_you_mean

_LONGEST = 60
_LONGEST_REASON = 500


def printable(text: str, *, longest: int = _LONGEST) -> str:
    """Return text safe for one terminal line: shortened, control and bidi characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in shortened(text, longest)
    )


def one_line(error: object) -> str:
    """Return an exception's text as one line of bounded length."""
    return shortened(" ".join(exception_text(error).split()), _LONGEST_REASON)


def exception_text(error: object) -> str:
    """Return the text of an exception, even if its `__str__` fails."""
    try:
        return str(error)
    except Exception:  # the code of a plugin
        return f"{type(error).__name__} without a message"


def shortened(text: str, longest: int) -> str:
    """Return text of at most `longest` characters; shortened text ends in `…`."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def quoted_value(value: object) -> str:
    """Return a manifest value in words: `the number 5`, `'distt/'`, `a list`, `nothing`."""
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
    """Return a message that a name is unknown, with the likely one or all known names."""
    names = list(known)
    hint = did_you_mean(word, names)
    if not hint and names:
        hint = f"; known: {', '.join(names)}"
    return f"unknown {what}{hint}"
