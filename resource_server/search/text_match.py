"""Matching of lines in text, by a part of the line or by a regular expression.

A part matches in any case. An expression is one of RE2, which takes linear time whatever is
written; it is matched against each line. Text is UTF-8 of any length. It is searched in slices of
at most 64 KiB, between which `check` may raise.

A line longer than a slice is split into slices that overlap by 4 KiB. Longer matches in such a line
may be missed; `^` and `$` still match at the ends of the line.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from resource_server.errors import InvalidParameter
from resource_server.provider.search import MatchedLine, SearchRequest

MAX_LINES = 5
"""Maximum lines quoted of one document."""
MAX_LINE_LENGTH = 200
"""Maximum characters quoted of a line."""

_MAX_BEFORE = 60
"""Maximum characters quoted before the match."""
_SLICE = 64 * 1024
"""Bytes searched at a time; RE2 may take a second for as many, and cannot be interrupted."""
_OVERLAP = 4096
"""Bytes shared by the slices of a long line: no shorter match is missed."""
_MAX_MEMORY = 512 * 1024
"""Memory limit of one compiled expression. To compile one that just fits takes 3 ms without the
GIL being released; with RE2's default of 8 MiB it takes 250 ms."""
_MULTI_LINE = "(?m)"

Check: TypeAlias = Callable[[], None]
Find: TypeAlias = Callable[[bytes, int, int], int]
"""Returns where the first match between two positions begins, or -1."""


class LineQuery:
    """A search query for lines.

    Raises:
        InvalidParameter: not a valid regular expression; says why.
    """

    def __init__(self, request: SearchRequest) -> None:
        self._ends_lines = request.is_pattern and "$" in request.text
        self._find: Find
        if request.is_pattern:
            self._find = _expression(request.text)
        elif request.text.isascii():
            self._find = _ascii_part(request.text)
        else:
            self._find = _part(request.text)

    def may_be_in(self, data: bytes, check: Check | None = None) -> bool:
        """Return whether a line may match; `data` need not be text."""
        if self._ends_lines and data.find(b"\r\n", 0, _SLICE) >= 0:
            return True
        return self._first(data, check) >= 0

    def matches(self, data: bytes, check: Check | None = None) -> tuple[MatchedLine, ...]:
        """Return the first matching lines: one more than are quoted, for `quoted`."""
        # `$` matches before a line ending, which may be two characters.
        if self._ends_lines and data.find(b"\r\n", 0, _SLICE) >= 0:
            data = _with_newlines(data)
        found: list[MatchedLine] = []
        number, counted = 1, 0
        at = self._first(data, check)
        while at >= 0:
            number += _count_newlines(data, counted, at)
            counted = at
            found.append(MatchedLine(number, _quoted(data, at)))
            end = -1 if len(found) > MAX_LINES else _next_newline(data, at)
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


def quoted(lines: Sequence[MatchedLine]) -> tuple[tuple[MatchedLine, ...], bool]:
    """Return the lines that are quoted of those that match, and whether there are more."""
    return tuple(lines[:MAX_LINES]), len(lines) > MAX_LINES


def _slices(data: bytes, begin: int) -> Generator[tuple[int, int]]:
    """Slice the data from `begin` on, between lines; a line longer than a slice is split."""
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
        # After the last newline there is no line, or one that belongs to the next slice.
        return -1 if at == end and data[at - 1 : at] in (b"", b"\n") else at

    return find


def _compile(text: str) -> Any:
    try:
        # Imported here: most searches have no expression. The module has no types.
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
        # RE2 caches the last 128 expressions, of any caller.
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
        # A slice may begin or end within a character.
        if part not in data[begin:end].decode("utf-8", "ignore").casefold():
            return -1
        for line in data[begin:end].split(b"\n"):
            text = line.decode("utf-8", "ignore")
            at = text.casefold().find(part)
            if at >= 0:
                # Case folding may change lengths: the position is then approximate.
                return begin + min(len(text[:at].encode()), len(line))
            begin += len(line) + 1
        return -1

    return find


def _with_newlines(data: bytes) -> bytes:
    """Return the text with Unix line endings."""
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
    # In steps: `count` does not release the GIL.
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
    """Return the line in which a match begins, truncated around it if it is long."""
    most = MAX_LINE_LENGTH * 4  # that many characters, at their longest in UTF-8
    before = data.rfind(b"\n", max(0, at - most), at)
    begins = before >= 0 or at <= most
    after = data.find(b"\n", at, at + most)
    ends = after >= 0 or at + most >= len(data)
    head = data[before + 1 if begins else at - most : at].decode("utf-8", "ignore")
    tail = data[at : after if after >= 0 else at + most].decode("utf-8", "ignore")
    if ends:
        tail = tail.removesuffix("\r")
    if begins and len(head) + len(tail) <= MAX_LINE_LENGTH:
        return head + tail
    kept = head[max(0, len(head) - _MAX_BEFORE) :] if len(head) > _MAX_BEFORE else head
    rest = tail[: MAX_LINE_LENGTH - len(kept)]
    front = "…" if not begins or len(kept) < len(head) else ""
    back = "…" if not ends or len(rest) < len(tail) else ""
    return f"{front}{kept}{rest}{back}"
