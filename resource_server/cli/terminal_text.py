"""Text in the columns of a terminal: its width, clipped or wrapped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def columns(text: str) -> int:
    """Return how many columns a terminal takes for escaped text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def clipped(text: str, room: int) -> str:
    """Return text of at most `room` columns; shortened text ends in `…`."""
    if columns(text) <= room:
        return text
    end, used = 0, 1
    while end < len(text) and used + _columns(text[end]) <= room:
        used += _columns(text[end])
        end += 1
    return f"{text[:end]}…" if room > 0 else ""


def wrapped(text: str, room: int) -> Sequence[str]:
    """Return text as lines of at most `room` columns, broken at spaces; a long word stays whole."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if columns(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
