"""Ranges of text, as tools take them: `lines="10-40"`, `tail=100` or `bytes="0-999"`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from resource_server.errors import InvalidParameter

Unit: TypeAlias = Literal["lines", "tail", "bytes"]
UNITS: tuple[Unit, ...] = ("lines", "tail", "bytes")

_INTERVAL = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})?)?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NEGATIVE = re.compile(r"-([0-9]{1,15})")
_EXAMPLES: Mapping[Unit, str] = {
    "lines": "10-40 or 10-, counted from 1",
    "tail": "a number of lines such as 100",
    "bytes": "0-999 or 1000-, counted from 0",
}


class TextRange(msgspec.Struct, frozen=True):
    """A range of a document; without `last` it reaches to the end.

    `lines` count from 1 and `bytes` from 0, `first` and `last` included; `tail` is the last `first`
    lines.
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


WHOLE = TextRange("lines", 1)


def parse_range(given: Mapping[str, str | int | None]) -> TextRange | None:
    """Return the range among arguments or URI parameters; None without one.

    Raises:
        InvalidParameter: there are several, or it is no range; says what is right.
    """
    found: list[tuple[Unit, str]] = [
        (unit, str(given[unit]).strip()) for unit in UNITS if given.get(unit) not in (None, "")
    ]
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(unit for unit, _ in found)
        raise InvalidParameter(f"{names} exclude each other; give one of them")
    unit, text = found[0]
    if unit == "tail":
        if text.isascii() and text.isdigit() and len(text) <= 15 and int(text):
            return TextRange("tail", int(text))
        raise InvalidParameter(f"tail cannot be {text[:40]!r}; write {_EXAMPLES['tail']}")
    match = _INTERVAL.fullmatch(text)
    if match is None:
        more = ""
        if unit == "lines" and (negative := _NEGATIVE.fullmatch(text)):
            more = f"; for the last lines write tail={int(negative[1])}"
        raise InvalidParameter(f"{unit} cannot be {text[:40]!r}; write {_EXAMPLES[unit]}{more}")
    first = int(match[1])
    last = int(match[2]) if match[2] else (None if "-" in text else first)
    if unit == "lines" and not first:
        last_line = "" if last is None else max(last, 1)
        raise InvalidParameter(f"lines count from 1; write lines=1-{last_line}")
    if last is not None and last < first:
        raise InvalidParameter(f"{unit} {text} end before they begin; write {unit}={last}-{first}")
    return TextRange(unit, first, last)


class TextPart(msgspec.Struct, frozen=True):
    """A part of a text: its first line, and the size of the whole text, if known."""

    text: str
    first_line: int | None = None
    total: int | None = None
    """In lines; for a range of bytes in bytes."""
    next: TextRange | None = None
    """What follows; None at the end."""
    limited: bool = False
    """Whether less than the requested range was read."""


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, with their ends; only LF ends a line."""
    return _LINE.findall(text)


def count_lines(text: str) -> int:
    """Return the number of lines of a text."""
    return text.count("\n") + (text[-1:] not in ("", "\n"))


def beginning(text: str, room: int) -> str:
    """Return the lines at the beginning of a text that fit; if none does, the first characters."""
    if len(text) <= room:
        return text
    return text[: text.rfind("\n", 0, room) + 1 or room]


def part_of(text: str, range: TextRange) -> TextPart:
    """Return a range of a text that is known whole; its bytes are those of UTF-8."""
    if range.unit == "bytes":
        data = text.encode("utf-8", "surrogatepass")
        begin = _boundary(data, range.first)
        end = len(data) if range.last is None else _boundary(data, range.last + 1)
        following = TextRange("bytes", end, range.last) if end < len(data) else None
        part = data[begin:end].decode("utf-8", "surrogatepass")
        return TextPart(part, None, len(data), following)
    lines = lines_of(text)
    total = len(lines)
    if range.unit == "tail":
        first = max(1, total - range.first + 1)
        return TextPart("".join(lines[first - 1 :]), first, total)
    last = total if range.last is None else min(total, range.last)
    following = TextRange("lines", last + 1) if last < total else None
    return TextPart("".join(lines[range.first - 1 : last]), range.first, total, following)


def _boundary(data: bytes, at: int) -> int:
    """Return the first beginning of a character at or after an offset."""
    at = min(at, len(data))
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at
