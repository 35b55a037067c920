"""Parts of texts that tools show: a range of a text that is known whole, or was read."""

from __future__ import annotations

import re

import msgspec

from resource_server.runtime.document_range import Range

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
WHOLE = Range("lines", 1)


class TextPart(msgspec.Struct, frozen=True):
    """A part of a text: its first line, and the size of the whole text, if known."""

    text: str
    first_line: int | None = None
    total: int | None = None
    """In lines; for a range of bytes in bytes."""
    next: Range | None = None
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


def part_of(text: str, range: Range) -> TextPart:
    """Return a range of a text that is known whole; its bytes are those of UTF-8."""
    if range.unit == "bytes":
        data = text.encode("utf-8", "surrogatepass")
        begin = _boundary(data, range.first)
        end = len(data) if range.last is None else _boundary(data, range.last + 1)
        following = Range("bytes", end) if end < len(data) else None
        part = data[begin:end].decode("utf-8", "surrogatepass")
        return TextPart(part, None, len(data), following)
    lines = lines_of(text)
    total = len(lines)
    if range.unit == "tail":
        first = max(1, total - range.first + 1)
        return TextPart("".join(lines[first - 1 :]), first, total)
    last = total if range.last is None else min(total, range.last)
    following = Range("lines", last + 1) if last < total else None
    return TextPart("".join(lines[range.first - 1 : last]), range.first, total, following)


def _boundary(data: bytes, at: int) -> int:
    """Return the first beginning of a character at or after an offset."""
    at = min(at, len(data))
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at
