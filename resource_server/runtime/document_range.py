"""Ranges of documents, as URIs and tools write them: `lines=10-40`, `tail=100`, `pages=3`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from resource_server.errors import InvalidParameter

Unit: TypeAlias = Literal["lines", "tail", "bytes"]
UNITS: tuple[Unit, ...] = ("lines", "tail", "bytes")

# Fifteen digits suffice for a petabyte, and sums of them fit into a file offset.
_INTERVAL = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})?)?")
_COUNT = re.compile(r"[0-9]{1,15}")
_NEGATIVE = re.compile(r"-([0-9]{1,15})")


class Range(msgspec.Struct, frozen=True):
    """The requested part of a document.

    `lines` count from 1, `bytes` from 0; `first` and `last` are both included, and without `last`
    the range reaches to the end. `tail` is the last `first` lines.
    """

    unit: Unit
    first: int
    last: int | None = None

    @property
    def value(self) -> str:
        """The range as an argument or a URI parameter."""
        if self.unit == "tail":
            return str(self.first)
        return f"{self.first}-{'' if self.last is None else self.last}"

    def following(self, first: int) -> Mapping[str, str]:
        """Return the URI parameters of a range of the same length that begins at `first`."""
        last = None if self.last is None else first + self.last - self.first
        return {self.unit: Range(self.unit, first, last).value}


def parse_range(given: Mapping[str, str | int | None], *, is_uri: bool = False) -> Range | None:
    """Return the range among arguments or URI parameters; None without one.

    A URI always has the hyphen: `lines=10-10`, where an argument may be `10`.

    Raises:
        InvalidParameter: there are several, or it is no range; says what is right.
    """
    found: list[tuple[Unit, str]] = [
        (unit, str(given[unit]) if is_uri else str(given[unit]).strip())
        for unit in UNITS
        if unit in given and (is_uri or given[unit] not in (None, ""))
    ]
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(unit for unit, _ in found)
        raise InvalidParameter(f"{names} exclude each other; give one of them")
    [(unit, text)] = found
    if unit == "tail":
        if _COUNT.fullmatch(text) and int(text):
            return Range("tail", int(text))
        raise _refusal(unit, text, is_uri)
    match = _INTERVAL.fullmatch(text)
    if match is None or (is_uri and "-" not in text):
        raise _refusal(unit, text, is_uri)
    first = int(match[1])
    last = int(match[2]) if match[2] else (None if "-" in text else first)
    if unit == "lines" and not first:
        last_line = "" if last is None else max(last, 1)
        raise InvalidParameter(f"lines count from 1; write lines=1-{last_line}")
    if last is not None and last < first:
        raise InvalidParameter(f"{unit} {text} end before they begin; write {unit}={last}-{first}")
    return Range(unit, first, last)


def parse_interval(name: str, value: str) -> tuple[int, int | None]:
    """Return the first and the last number of the parameter `name`; None for all that follow.

    Numbers count from 1.

    Raises:
        InvalidParameter: it is no interval; the message shows one.
    """
    match = _INTERVAL.fullmatch(value)
    first = int(match[1]) if match else 0
    last = int(match[2]) if match and match[2] else None if value.endswith("-") else first
    if not first or (last is not None and last < first):
        raise InvalidParameter(f"{name} cannot be {value[:40]!r}; write {name}=3, 3-7 or 3-")
    return first, last


def _refusal(unit: Unit, text: str, is_uri: bool) -> InvalidParameter:
    name = f"{unit}=" if is_uri else ""
    examples: Mapping[Unit, str] = {
        "lines": f"{name}10-40 or {name}10-, counted from 1",
        "tail": "tail=100" if is_uri else "a number of lines such as 100",
        "bytes": f"{name}0-999 or {name}1000-, counted from 0",
    }
    negative = _NEGATIVE.fullmatch(text) if unit == "lines" else None
    more = f"; for the last lines write tail={int(negative[1])}" if negative else ""
    return InvalidParameter(f"{unit} cannot be {text[:40]!r}; write {examples[unit]}{more}")
