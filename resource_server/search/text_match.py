"""Which lines of a text match a query, for whoever searches: by a part of them, or an expression.

A part is found in any case of letters. An expression is one of RE2, whose time is linear in the
text whatever is written; it is matched against each line by itself. Texts are UTF-8, and may have
any length: they are looked through in slices of at most 64 KiB, between which `check` may raise.

A line that is longer than a slice is cut into several, which overlap by 4 KiB. In it a match is
sure to be found only if it is no longer than that; `^` and `$` are still the ends of the line.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from resource_server.errors import InvalidParameter
from resource_server.provider.search import MatchedLine, SearchRequest

MOST_LINES = 5
"""Of one document."""
LONGEST_LINE = 200
"""Characters of a line that are quoted."""

_BEFORE = 60
"""Of them, before what matches."""
_SLICE = 64 * 1024
"""Also of one line: RE2 may take a second for so much, in which it cannot be stopped."""
_OVERLAP = 4096
"""Of the slices of a line that is cut: what is no longer than this is found in it."""
_MAX_MEMORY = 512 * 1024
"""Of one expression, compiled and at work. To compile one that just fits takes 3 ms, in which no
other thread has its turn; with the 8 MiB that RE2 takes by itself it is 250 ms."""
_MULTI_LINE = "(?m)"

Check: TypeAlias = Callable[[], None]
Find: TypeAlias = Callable[[bytes, int, int], int]
"""Returns where the first match between two places begins, or -1."""


class LineQuery:
    """A query for lines.

    Raises:
        InvalidParameter: not an expression that can be used; says why.
    """

    def __init__(self, sought: SearchRequest) -> None:
        self._ends_lines = sought.is_pattern and "$" in sought.text
        self._find: Find
        if sought.is_pattern:
            self._find = _expression(sought.text)
        elif sought.text.isascii():
            self._find = _ascii_part(sought.text)
        else:
            self._find = _part(sought.text)

    def may_be_in(self, data: bytes, check: Check | None = None) -> bool:
        """Tell whether a line may match, before it is known whether this is text at all."""
        if self._ends_lines and data.find(b"\r\n", 0, _SLICE) >= 0:
            return True
        return self._first(data, check) >= 0

    def found(self, data: bytes, check: Check | None = None) -> tuple[MatchedLine, ...]:
        """Return the first lines that match."""
        # `$` stands before the end of a line, which may be two characters.
        if self._ends_lines and data.find(b"\r\n", 0, _SLICE) >= 0:
            data = _with_newlines(data)
        found: list[MatchedLine] = []
        number, counted = 1, 0
        at = self._first(data, check)
        while at >= 0:
            number += _count_newlines(data, counted, at)
            counted = at
            found.append(MatchedLine(number, _quoted(data, at)))
            end = -1 if len(found) == MOST_LINES else _next_newline(data, at)
            at = -1 if end < 0 else self._after(data, end + 1, check)
        return tuple(found)

    def _first(self, data: bytes, check: Check | None) -> int:
        size = len(data)
        return self._find(data, 0, size) if size <= _SLICE else self._after(data, 0, check)

    def _after(self, data: bytes, begin: int, check: Check | None) -> int:
        for start, end in _slices(data, begin):
            if check is not None:
                check()
            at = self._find(data, start, end)
            if at >= 0:
                return at
        return -1


def _slices(data: bytes, begin: int) -> Generator[tuple[int, int]]:
    """Cut what follows `begin` between lines; a line that is longer than a slice, anywhere."""
    size = len(data)
    while begin < size:
        end = min(begin + _SLICE, size)
        following = end
        if end < size:
            newline = data.rfind(b"\n", begin, end)
            end = newline + 1 or end
            following = end if newline >= 0 else end - _OVERLAP
        yield begin, end
        begin = following


def _expression(text: str) -> Find:
    compiled = _compile(text)

    def find(data: bytes, begin: int, end: int) -> int:
        match = compiled.search(data, begin, end)
        if match is None:
            return -1
        at = match.start()
        # Behind the last newline there is no line, or one of the next slice.
        return -1 if at == end and data[at - 1 : at] in (b"", b"\n") else at

    return find


def _compile(text: str) -> Any:
    try:
        # Imported here: most searches are for words. It has no types.
        re2: Any = importlib.import_module("re2")
    except ImportError:
        raise InvalidParameter(
            "this server cannot search by regular expressions: it needs resource-server[regex]; "
            "search for a part of a line"
        ) from None
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_MULTI_LINE + text, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace").replace(_MULTI_LINE, "")
        raise InvalidParameter(
            f"not a regular expression of RE2, which has no look-around and no back-references: "
            f"{reason}"
        ) from None
    finally:
        # It would keep the last 128 of them, whoever sent them.
        re2.purge()


def _ascii_part(text: str) -> Find:
    part = text.lower().encode()

    def find(data: bytes, begin: int, end: int) -> int:
        if begin == 0 and end == len(data):
            return data.lower().find(part)
        at = data[begin:end].lower().find(part)
        return at if at < 0 else begin + at

    return find


def _part(text: str) -> Find:
    part = text.casefold()

    def find(data: bytes, begin: int, end: int) -> int:
        # A slice may begin and end within a character.
        if part not in data[begin:end].decode("utf-8", "ignore").casefold():
            return -1
        for line in data[begin:end].split(b"\n"):
            text = line.decode("utf-8", "ignore")
            at = text.casefold().find(part)
            if at >= 0:
                # Folding may change lengths: then the place in the line is nearly right.
                return begin + min(len(text[:at].encode()), len(line))
            begin += len(line) + 1
        return -1

    return find


def _with_newlines(data: bytes) -> bytes:
    """Return the text with its lines ended as on Unix."""
    pieces: list[bytes] = []
    begin = 0
    while begin < len(data):
        end = begin + _SLICE
        if data[end - 1 : end] == b"\r":
            end += 1
        pieces.append(data[begin:end].replace(b"\r\n", b"\n"))
        begin = end
    return b"".join(pieces)


def _count_newlines(data: bytes, begin: int, end: int) -> int:
    # In steps: within one no other thread has its turn.
    return sum(
        data.count(b"\n", start, min(start + _SLICE, end)) for start in range(begin, end, _SLICE)
    )


def _next_newline(data: bytes, begin: int) -> int:
    for start in range(begin, len(data), _SLICE):
        at = data.find(b"\n", start, start + _SLICE)
        if at >= 0:
            return at
    return -1


def _quoted(data: bytes, at: int) -> str:
    """Return the line in which a match begins, cut around it where the line is long."""
    most = LONGEST_LINE * 4  # bytes of so many characters
    before = data.rfind(b"\n", max(0, at - most), at)
    begins = before >= 0 or at <= most
    after = data.find(b"\n", at, at + most)
    ends = after >= 0 or at + most >= len(data)
    head = data[before + 1 if begins else at - most : at].decode("utf-8", "ignore")
    tail = data[at : after if after >= 0 else at + most].decode("utf-8", "ignore")
    if ends:
        tail = tail.removesuffix("\r")
    if begins and len(head) + len(tail) <= LONGEST_LINE:
        return head + tail
    kept = head[max(0, len(head) - _BEFORE) :] if len(head) > _BEFORE else head
    rest = tail[: LONGEST_LINE - len(kept)]
    front = "…" if not begins or len(kept) < len(head) else ""
    back = "…" if not ends or len(rest) < len(tail) else ""
    return f"{front}{kept}{rest}{back}"
