"""Numbers in JSON that every host reads alike: those that a double cannot hold are text."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

LARGEST_INTEGER = 2**53 - 1
"""Largest integer that JavaScript reads exactly (`Number.MAX_SAFE_INTEGER`), with either sign."""
RULE = f"Decimals, and integers beyond ±{LARGEST_INTEGER}, are text"
"""The rule, for schemas."""

_CANDIDATE = re.compile(r"[0-9.]{16}|[eE][+-]?[0-9]{3}")
"""Found in every text with such a number: 15 digits fit in a double."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]+")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_MIXED = 4
"""Maximum texts of digits of which each may be a number or a text; of more, all are numbers."""


def exact_integer(value: int) -> int | str:
    """Return an integer, as text of its digits if JavaScript would change it."""
    return value if -LARGEST_INTEGER <= value <= LARGEST_INTEGER else str(value)


def exact_json(text: str) -> str:
    """Return valid JSON in which the numbers that JavaScript would change are text of their digits.

    The same object if there are none. `1.10` stays a number, since only its last zero is lost.
    """
    return text if _CANDIDATE.search(text) is None else _TOKEN.sub(_exact, text)


def _exact(token: re.Match[str]) -> str:
    text = token[0]
    return text if text[0] == '"' or is_exact(text) else f'"{text}"'


def is_exact(number: str) -> bool:
    """Return whether JavaScript reads a number of JSON with the value of all its digits."""
    try:
        exact = Decimal(number)
        if _INTEGER.fullmatch(number):
            return abs(exact) <= LARGEST_INTEGER
        read = float(number)
        return math.isfinite(read) and Decimal(repr(read)) == exact
    except (InvalidOperation, OverflowError):
        return False


def inexact_json(text: str) -> Iterator[str]:
    """Yield the other JSON that `exact_json` shows as this text: with numbers for text of digits.

    Text of digits may have been text. So all numbers come first, then each choice among a few.
    """
    if _CANDIDATE.search(text) is None:
        return
    places = [
        found.span(1)
        for found in _STRING.finditer(text)
        if not found[2] and _NUMBER.fullmatch(found[1]) and not is_exact(found[1])
    ]
    sizes = range(len(places), 0, -1) if len(places) <= _MAX_MIXED else [len(places)]
    for chosen in itertools.chain.from_iterable(itertools.combinations(places, n) for n in sizes):
        parts, end = list[str](), 0
        for start, stop in chosen:
            parts += (text[end : start - 1], text[start:stop])
            end = stop + 1
        if parts:
            yield "".join((*parts, text[end:]))
