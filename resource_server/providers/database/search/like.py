"""Patterns of LIKE, with which every engine finds the same."""

from __future__ import annotations

import re

ESCAPE = "!"
"""Makes `%`, `_` and itself characters like others."""

_LONGEST = 200
"""Characters; SQLite takes patterns of 1,000 bytes."""
_SPECIAL = re.compile(f"[%_{ESCAPE}]")


def containing(text: str) -> str | None:
    """Return a pattern that is fitted by all that holds a text, in any case of letters.

    It is of the longest part that all engines compare in the same way, so that more may fit; None
    where there is no such part.
    """
    alike = "".join(c if _is_alike(c) else "\0" for c in text)
    longest = max(alike.split("\0"), key=len)[:_LONGEST]
    return f"%{_SPECIAL.sub(_escape, longest)}%" if longest else None


def _is_alike(character: str) -> bool:
    # SQLite knows the case of ASCII letters only, other engines what their locale says.
    if character.isascii():
        return character != "\0"
    is_surrogate = "\ud800" <= character <= "\udfff"
    return character == character.casefold() == character.upper() and not is_surrogate


def _escape(found: re.Match[str]) -> str:
    return ESCAPE + found[0]
