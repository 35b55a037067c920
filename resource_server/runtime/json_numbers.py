"""Numbers in JSON that every host reads alike: those that a double cannot hold are text."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

LARGEST_INTEGER = 2**53 - 1
"""Largest integer that JavaScript reads exactly (`Number.MAX_SAFE_INTEGER`), with either sign."""
RULE = f"Decimals, and integers beyond ±{LARGEST_INTEGER}, are text"
"""The rule, for schemas."""

_CANDIDATE = re.compile(r"[0-9.]{16}|[eE][+-]?[0-9]{3}")
"""Found in every text with such a number: 15 digits fit in a double."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]+")


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
