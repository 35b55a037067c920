"""Search of text that is too large to be held: block by block, from a place that a cursor carries.

A block is searched as a document of its own. So of several words, those count that occur in one
block of a few MiB, and lines of context end with their block.
"""

from __future__ import annotations

import codecs
import errno
import os
import zlib

import msgspec

from resource_server.documents.encoding import PIECE_BYTES, TextEncoding, decodes_as_utf8
from resource_server.errors import InvalidParameter
from resource_server.provider import Path
from resource_server.provider.search import MatchedLine, SearchRequest
from resource_server.search.text_match import MAX_COUNTED, NO_MATCHES, Check, LineQuery, Matches
from resource_server.search.top_k import INVALID

_FIRST_BYTES = 64 * 1024
"""So few that the first block is searched within any deadline."""
_MOST_BYTES = 8 * 1024 * 1024
_OVERLAP = 4096
"""Bytes shared by the blocks of a line that is longer than one; a multiple of any code unit."""


class OutOfTime(Exception):
    """The time of the search is over, or its caller is gone."""


class Place(msgspec.Struct, frozen=True):
    """Where the search of a document continues."""

    offset: int = 0
    lines: int = 0
    """Number of line ends before."""
    after_line: int = 0
    """As in the request that began."""
    is_utf8: bool = True
    """Whether all before is text in UTF-8; only determined if the query is not ASCII."""
    is_within_match: bool = False
    """Whether it is within a line that has matched already."""
    mark: str = ""
    """That of the file: another one is searched from its beginning."""

    def text(self) -> str:
        """Return the place as a part of a cursor."""
        flags = f"{self.is_utf8:d}.{self.is_within_match:d}"
        return f"{self.offset}.{self.lines}.{self.after_line}.{flags}.{self.mark}"

    @staticmethod
    def parse(text: str) -> Place:
        """Return the place of a cursor.

        Raises:
            InvalidParameter: it is none.
        """
        *numbers, mark = text.split(".")
        is_valid = len(numbers) == 5 and len(mark) <= 8
        if not is_valid or not all(each.isdecimal() and len(each) < 19 for each in numbers):
            raise InvalidParameter(INVALID)
        offset, lines, after_line, is_utf8, is_within_match = map(int, numbers)
        return Place(offset, lines, after_line, bool(is_utf8), bool(is_within_match), mark)

    def of(self, status: os.stat_result) -> Place:
        """Return this place in an open file; the beginning of another file, or a shorter one."""
        mark = f"{zlib.crc32(f'{status.st_dev}.{status.st_ino}'.encode()):08x}"
        if self.mark not in ("", mark) or self.offset > status.st_size:
            return Place(after_line=self.after_line, mark=mark)
        return msgspec.structs.replace(self, mark=mark)


class Stretch(msgspec.Struct, frozen=True):
    """What was found in a part of a document."""

    matches: Matches
    next: Place | None
    """Where the search continues; None at the end."""
    is_utf8: bool = True
    """As in `Place`, at the end."""


class LargeSearch:
    """The search of one open document, from `place` on."""

    def __init__(
        self,
        fd: int,
        place: Place,
        request: SearchRequest,
        encoding: TextEncoding,
        check: Check,
        *,
        path: Path = (),
        block_bytes: tuple[int, int] = (_FIRST_BYTES, _MOST_BYTES),
        overlap: int = _OVERLAP,
    ) -> None:
        """Prepare a search in blocks of a first size, doubled up to the largest."""
        self._fd = fd
        self._place = place
        self._request = msgspec.structs.replace(request, after_line=0)
        self._query = LineQuery(self._request)
        self._encoding = encoding
        self._newline = "\n".encode(encoding.codec)
        self._check = check
        self._path = path
        self._lines: list[MatchedLine] = []
        self._count = self._shown = 0
        self._rank: int | None = None
        self._has_more = False
        """Whether more lines match than are quoted."""
        self._first_bytes, self._most_bytes = block_bytes
        self._overlap = overlap

    def stretch(self, keep: int, *, is_alone: bool) -> Stretch:
        """Search until the time is over, or `MAX_COUNTED` lines match; quote the first `keep`.

        A document that is searched alone is left behind the last line that is quoted.

        Raises:
            OutOfTime: before anything was searched.
            OSError: it cannot be read.
        """
        size = self._first_bytes
        while True:
            start = next_data(self._fd, self._place.offset)
            data = os.pread(self._fd, size, start)
            if not data:
                return self._stretch(None)
            is_part = False
            if len(data) == size:
                end = self._end_of_lines(data)
                is_part = end == 0 and size >= self._overlap * 2
                data = data[: end or size]
            try:
                behind = len(data) - self._overlap * is_part
                is_full = self._search_block(data, start, behind, keep, is_alone=is_alone)
            except OutOfTime:
                if size == self._first_bytes:
                    raise
                return self._stretch(self._place)
            if is_full and is_alone:
                self._has_more = False  # they are on the next page
                return self._stretch(self._place)
            if is_full:
                return self._stretch(None)
            size = min(size * 2, self._most_bytes)

    def _stretch(self, following: Place | None) -> Stretch:
        count = min(self._count, MAX_COUNTED)
        found = Matches(
            tuple(self._lines),
            count,
            self._shown,
            self._has_more,
            rank=self._rank or 0,
            together=self._request.together,
        )
        return Stretch(found, following, self._place.is_utf8)

    def _search_block(
        self, data: bytes, start: int, end: int, keep: int, *, is_alone: bool
    ) -> bool:
        """Search a block and move the place to its `end`; return whether the stretch ends there."""
        text = self._in_utf8(data, start)
        room = keep - self._shown
        # In steps: `count` does not release the GIL.
        steps = range(0, len(text), PIECE_BYTES)
        newlines = sum(text.count(b"\n", at, at + PIECE_BYTES) for at in steps)
        passed = max(self._place.after_line - self._place.lines, self._place.is_within_match)
        query, room = self._query_after(passed, newlines, room)
        found = NO_MATCHES
        if query.may_be_in(text, self._check):
            # One more than is quoted: the last may be the best line instead of the next.
            found = query.matches(text, self._check, max(room, 0) + 1, self._path)
            found = found.first(room, self._request.context)
        found, is_within_match = self._matched_once(found, text)
        has_more = found.has_more and room >= 0
        if has_more and is_alone:
            numbers = [line.number for line in found.lines if not line.is_context]
            if not numbers:
                self._has_more = True
                return True
            newlines, is_within_match = numbers[-1], False
            end = self._end_of_line(data, newlines)
            count = len(numbers)
            if passed > 0:
                head = self._in_utf8(data[:end], start)
                before, _ = self._matched_once(self._query.matches(head, self._check, 0), head)
                count = before.count
            found = msgspec.structs.replace(found, count=count)
        is_utf8 = self._place.is_utf8 and (
            self._query.is_ascii
            or self._encoding.codec != "utf-8"
            or decodes_as_utf8(data, self._check, is_part=True)
        )
        self._add(found)
        self._has_more = self._has_more or has_more
        self._place = msgspec.structs.replace(
            self._place,
            offset=start + end,
            lines=self._place.lines + newlines,
            is_utf8=is_utf8,
            is_within_match=is_within_match,
        )
        return self._has_more and (is_alone or self._count >= MAX_COUNTED)

    def _query_after(self, line: int, newlines: int, room: int) -> tuple[LineQuery, int]:
        """Return the query of a block, and how many lines to quote; below 0 before all of them."""
        if line <= 0:
            return self._query, room
        if line > newlines:
            return self._query, -1
        return self._query.after(line), room

    def _matched_once(self, found: Matches, text: bytes) -> tuple[Matches, bool]:
        """Return what was found in a block, and whether its last line goes on and has matched.

        The line that the block begins within counts only if it had not matched before.
        """
        is_within = self._place.is_within_match
        last = text[text.rfind(b"\n") + 1 :]
        is_one_line = len(last) == len(text)
        goes_on = bool(last) and (
            (is_one_line and is_within)
            or (bool(found.count) and self._query.may_be_in(last, self._check))
        )
        first = text if is_one_line else text[: text.index(b"\n") + 1]
        if is_within and found.count and self._query.may_be_in(first, self._check):
            found = msgspec.structs.replace(found, count=found.count - 1)
        return found, goes_on

    def _add(self, found: Matches) -> None:
        """Add the lines of a block."""
        before = self._place.lines
        self._lines += [
            msgspec.structs.replace(each, number=each.number + before) for each in found.lines
        ]
        self._shown += found.shown
        self._count += found.count
        if found.count:
            self._rank = found.rank if self._rank is None else min(self._rank, found.rank)

    def _in_utf8(self, data: bytes, start: int) -> bytes:
        """Return a block in UTF-8, without a byte order mark."""
        encoding = self._encoding
        if encoding.codec != "utf-8":
            pieces = encoding.pieces(data, self._check, "replace")
            text = b"".join(piece.encode("utf-8", "replace") for piece in pieces)
            return text.removeprefix(codecs.BOM_UTF8 if start == 0 else b"")
        return data.removeprefix(codecs.BOM_UTF8) if start == 0 else data

    def _end_of_lines(self, data: bytes) -> int:
        """Return where the last whole line of a block ends; 0 if there is none."""
        at = data.rfind(self._newline)
        while at % self._encoding.width and at > 0:
            at = data.rfind(self._newline, 0, at + len(self._newline) - 1)
        return at + len(self._newline) if at >= 0 else 0

    def _end_of_line(self, data: bytes, number: int) -> int:
        """Return where the line of this number ends in a block."""
        at = 0
        while number:
            at = data.find(self._newline, at)
            if at < 0:
                return len(data)
            is_newline = at % self._encoding.width == 0
            at += len(self._newline) if is_newline else 1
            number -= is_newline
        return at


def next_data(fd: int, offset: int) -> int:
    """Return where data begins at or after an offset: a hole of a sparse file has no text."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        return max(offset, os.fstat(fd).st_size) if error.errno == errno.ENXIO else offset
