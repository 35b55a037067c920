"""Bytes of a file to the content of a document: whole or a range of it, text or blob.

Text is what a byte order mark or strict decoding proves to be text; the mark itself is dropped.
Nothing is guessed: what does not decode stays bytes, and so does what has a NUL in it, or a media
type that is known to be binary (`image/png`) even where its bytes happen to be ASCII. A range is
decoded by itself: the rest of the document is not looked at.

A line ends with LF and keeps it, so that lines read one range after the other make up the document.
"""

from __future__ import annotations

import codecs
import functools
import os
import re
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from resource_server import media_types
from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.provider import Content, Truncation
from resource_server.providers.filesystem.root import refusal

__all__ = ["Range", "parse_range", "read", "read_all", "read_cached", "read_now", "text_encoding"]

LOOP_BYTES = 512 * 1024
"""Larger files leave the event loop, cached or not: copying and decoding take too long."""

SCAN_BYTES = 256 * 1024 * 1024
"""As far into a document as lines are counted: a fraction of a second, cached."""

_BLOCK = 256 * 1024


class Range(msgspec.Struct, frozen=True):
    """The part of a document that is asked for.

    `lines` count from 1, `bytes` from 0; `first` and `last` are both included, and `last` None is
    the end. `tail` is the last `first` lines.
    """

    unit: Literal["lines", "bytes", "tail"]
    first: int
    last: int | None = None

    def following(self, first: int) -> Mapping[str, str]:
        """Return the query of the range that begins at `first` and is as long as this one."""
        last = "" if self.last is None else first + self.last - self.first
        return {self.unit: f"{first}-{last}"}


_FIRST_LINES: Mapping[str, str] = {"lines": "1-1000"}
_FIRST_BYTES: Mapping[str, str] = {"bytes": "0-65535"}

# Fifteen digits: a petabyte, and no arithmetic of ours overflows a file offset.
_INTERVAL = re.compile(r"([0-9]{1,15})-([0-9]{1,15})?")
_COUNT = re.compile(r"[0-9]{1,15}")
_EXAMPLES = {
    "lines": "lines=10-40 or lines=10-, counted from 1",
    "bytes": "bytes=0-65535 or bytes=100-, counted from 0",
    "tail": "tail=100",
}


def parse_range(query: Mapping[str, str]) -> Range | None:
    """Read `lines=10-40`, `bytes=0-65535` or `tail=100`; None where the query is empty.

    Raises:
        InvalidParameter: another parameter, more than one, or not a range; says how to write it.
    """
    if not query:
        return None
    for name in query:
        if name not in _EXAMPLES:
            raise InvalidParameter(
                f"unknown query parameter {name[:40]!r}; a document takes lines, bytes or tail"
            )
    if len(query) > 1:
        raise InvalidParameter(f"{' and '.join(query)} exclude each other; ask for one of them")
    [(unit, value)] = query.items()
    if unit == "tail":
        if _COUNT.fullmatch(value) and int(value):
            return Range("tail", int(value))
    elif match := _INTERVAL.fullmatch(value):
        first, last = int(match[1]), int(match[2]) if match[2] else None
        if (last is None or first <= last) and (first or unit == "bytes"):
            return Range("lines" if unit == "lines" else "bytes", first, last)
    raise InvalidParameter(f"{unit} cannot be {value[:40]!r}; write {_EXAMPLES[unit]}")


# `utf-7` and the escapes can spell lone surrogates, which no message can carry.
_NOT_FOR_FILES = ("utf-7", "unicode-escape", "raw-unicode-escape", "idna", "punycode")
# The byte order of files without a mark is little-endian, whatever machine reads them.
_WITHOUT_MARK = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def text_encoding(name: str) -> str:
    """Return the canonical name of an encoding that documents can be read in.

    Raises:
        ValueError: unknown, or not an encoding of text files (`base64`, `idna`, `utf-7`).
    """
    try:
        codec = codecs.lookup(name).name.replace("_", "-")
        "\n".encode(codec)
    except (LookupError, ValueError):
        codec = ""
    if not codec or codec in _NOT_FOR_FILES:
        raise ValueError(f"{name!r} is no text encoding; write one such as utf-8 or cp1252")
    return _WITHOUT_MARK.get(codec, codec)


def read_now(
    fd: int, status: os.stat_result, mime_type: str | None, *, encoding: str, max_size: int
) -> Content | None:
    """Read a whole document on the event loop, or return None: then `read` it in a worker thread.

    None for files over `LOOP_BYTES`, where the page cache does not hold all of it, and where only
    the content can tell the media type.

    Raises:
        ResourceTooLarge: over `max_size` bytes.
    """
    size = status.st_size
    if size > max_size:
        raise _too_large(size, max_size, mime_type)
    if mime_type is None or size > LOOP_BYTES:
        return None
    data = read_cached(fd, size)
    return None if data is None else _content(data, mime_type, encoding)


def read(
    fd: int,
    status: os.stat_result,
    mime_type: str | None,
    range: Range | None = None,
    *,
    encoding: str,
    max_size: int,
) -> Content:
    """Read a document or a range of it. Blocks: for worker threads.

    `mime_type` is what the name promises (`media_types.from_name`); the content's own is set where
    that is None or the bytes are of another. At most `max_size` bytes are returned; a range that
    begins behind the end gives an empty content.

    * `bytes`: text is cut between characters. A character that began before the range is left out
      and so is one that ends behind it, unless nothing remained. What does not decode is exactly
      the bytes asked for, but for the beginning of a character at their end. `next` goes on where
      the content ends.
    * `lines`: where not even the first line fits into `max_size`, `next` goes on in bytes.
    * `tail`: where the lines do not fit, the last ones that do; there is no `next`.

    Raises:
        ResourceTooLarge: over `max_size` bytes, and no range.
        InvalidParameter: lines of a binary document, or more than `SCAN_BYTES` into it.
        ResourceNotFound, ResourceBusy: opened, but not to be read.
    """
    try:
        if range is None:
            return _read_whole(fd, status.st_size, mime_type, encoding, max_size)
        part = _Part.of(fd, status.st_size, mime_type, encoding, max_size)
        if range.unit == "bytes":
            return part.bytes(range)
        if part.is_binary:
            raise InvalidParameter(f"a {part.mime_type} document has no lines; use bytes")
        return part.lines(range) if range.unit == "lines" else part.tail(range.first)
    except OSError as error:
        raise refusal(error) from None


def read_cached(fd: int, size: int) -> bytes | None:
    """Return the whole file if it has `size` bytes and the page cache holds them, else None.

    Never waits for a disk: `RWF_NOWAIT` (Linux, and not on every file system) says so instead.
    """
    nowait = getattr(os, "RWF_NOWAIT", None)
    if nowait is None:
        return None
    # One byte more than expected, so that a file that has grown shows.
    buffer = bytearray(size + 1)
    try:
        count = os.preadv(fd, [buffer], 0, nowait)
    except OSError:
        return None
    # Fewer bytes: the file has shrunk, or the rest would have to be waited for.
    return bytes(memoryview(buffer)[:size]) if count == size else None


def read_all(fd: int, cap: int) -> bytes:
    """Return the file from beginning to end, or to `cap` bytes; its size is not asked."""
    return _pread(fd, cap, 0)


def _pread(fd: int, count: int, offset: int) -> bytes:
    """Return `count` bytes from `offset`; fewer only where the file ends."""
    blocks: list[bytes] = []
    while count > 0:
        block = _pread_once(fd, min(count, _BLOCK), offset)
        if not block:
            break
        blocks.append(block)
        offset += len(block)
        count -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _pread_once(fd: int, count: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, count, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows; the descriptor is used by one call only
    return os.read(fd, count)


def _read_whole(fd: int, size: int, mime: str | None, encoding: str, max_size: int) -> Content:
    if size > max_size:
        raise _too_large(size, max_size, mime)
    data = read_all(fd, max_size + 1)
    if len(data) > max_size:
        raise _too_large(max(size, len(data)), max_size, mime)
    return _content(data, mime, encoding)


def _too_large(size: int, limit: int, mime_type: str | None) -> ResourceTooLarge:
    is_text = mime_type is not None and media_types.is_text(mime_type)
    return ResourceTooLarge(size=size, limit=limit, next=_FIRST_LINES if is_text else _FIRST_BYTES)


def _content(data: bytes, promised: str | None, encoding: str) -> Content:
    text = None
    if promised is None or not media_types.is_binary(promised):
        text = _Form.of(data, encoding).decode(data)
    mime = _media_type(data, promised, is_text=text is not None)
    if mime == promised:
        return Content(data if text is None else text)
    return Content(data if text is None or media_types.is_binary(mime) else text, mime)


def _media_type(head: bytes, promised: str | None, *, is_text: bool) -> str:
    if promised is not None:
        return media_types.refine(promised, head)
    mime = media_types.from_content(head)
    # A legacy encoding is text that `from_content` does not know; what breaks after its first
    # bytes is none, though it looked so to it.
    if is_text:
        return "text/plain" if mime == "application/octet-stream" else mime
    return "application/octet-stream" if media_types.is_text(mime) else mime


@dataclass(frozen=True, slots=True)
class _Form:
    """How a document spells characters: codec, bytes per code unit, byte order mark or not."""

    codec: str
    width: Literal[1, 2, 4]
    has_mark: bool

    @staticmethod
    def of(head: bytes, encoding: str) -> _Form:
        if head[:1] in _FIRST_OF_MARKS:
            for mark, codec in media_types.BOMS:
                if head.startswith(mark):
                    return _form(codec, has_mark=True)
        return _form(encoding, has_mark=False)

    def decode(self, data: bytes, *, at_start: bool = True) -> str | None:
        """Return the text, or None where the bytes are none."""
        try:
            text = data.decode(self.codec)
        except UnicodeError:
            return None
        if "\0" in text:
            return None
        return text.removeprefix("\ufeff") if at_start and self.has_mark else text

    @property
    def newline(self) -> int:
        """The code unit that ends a line, as `units` gives it."""
        return int.from_bytes("\n".encode(self.codec), sys.byteorder)

    def units(self, data: bytes) -> bytes | array[int]:
        """Return the code units; a half one at the end is left out."""
        if self.width == 1:
            return data
        return array("H" if self.width == 2 else "I", data[: len(data) - len(data) % self.width])

    def character_at(self, data: bytes, at: int, base: int) -> int:
        """Return where the character begins that the byte `at` is part of.

        `data` stands at offset `base` of the document and begins some bytes before `at`. In legacy
        encodings of several bytes no byte tells: there it is `at` itself.
        """
        if self.codec == "utf-8":
            return _utf8_character_at(data, at)
        at -= (base + at) % self.width
        if self.codec.startswith("utf-16") and at >= 2:
            high = slice(None, None, -1) if self.codec == "utf-16-le" else slice(None)
            before, here = data[at - 2 : at][high], data[at : at + 2][high]
            if before[:1] and 0xD8 <= before[0] < 0xDC and here[:1] and 0xDC <= here[0] < 0xE0:
                return at - 2
        return at

    def unfinished(self, data: bytes) -> int:
        """Return the number of bytes at the end that begin a character of a legacy encoding."""
        if self.codec.startswith("utf-"):
            return 0
        decoder = codecs.getincrementaldecoder(self.codec)()
        try:
            decoder.decode(data)
        except UnicodeError:
            return 0
        return len(decoder.getstate()[0])


_FIRST_OF_MARKS = frozenset(mark[:1] for mark, _ in media_types.BOMS)
_WIDTHS: Mapping[str, Literal[2, 4]] = {"utf-16": 2, "utf-32": 4}


@functools.lru_cache(maxsize=32)
def _form(codec: str, *, has_mark: bool) -> _Form:
    return _Form(codec, _WIDTHS.get(codec[:6], 1), has_mark)


def _utf8_character_at(data: bytes, at: int) -> int:
    if at >= len(data) or data[at] & 0xC0 != 0x80:
        return at
    for begin in (at - 1, at - 2, at - 3):
        if begin >= 0 and data[begin] & 0xC0 == 0xC0:
            length = 2 + (data[begin] >= 0xE0) + (data[begin] >= 0xF0)
            return begin if begin + length > at else at
        if begin < 0 or data[begin] < 0x80:
            break
    return at


# Longer than any character, and a multiple of every code unit.
_MARGIN = 4


@dataclass(frozen=True, slots=True)
class _Part:
    """An open document of which ranges are read."""

    fd: int
    size: int
    promised: str | None
    mime_type: str
    form: _Form
    max_size: int

    @staticmethod
    def of(fd: int, size: int, promised: str | None, encoding: str, max_size: int) -> _Part:
        head = _pread(fd, media_types.HEAD_BYTES, 0)
        form = _Form.of(head, encoding)
        is_text = media_types.begins_as_text(head, form.codec)
        mime_type = _media_type(head, promised, is_text=is_text)
        # With a limit of nothing, `next` would lead nowhere for ever.
        return _Part(fd, size, promised, mime_type, form, max(max_size, 1))

    @property
    def is_binary(self) -> bool:
        return media_types.is_binary(self.mime_type)

    def _content(self, data: str | bytes, truncated: Truncation | None) -> Content:
        return Content(data, None if self.mime_type == self.promised else self.mime_type, truncated)

    def _decoded(self, data: bytes, offset: int) -> str | bytes:
        if self.is_binary:
            return data
        text = self.form.decode(data, at_start=offset == 0)
        return data if text is None else text

    def bytes(self, range: Range) -> Content:
        start, stop = range.first, range.first + self.max_size
        if range.last is not None:
            stop = min(stop, range.last + 1)
        base = max(0, start - _MARGIN)
        window = _pread(self.fd, stop + _MARGIN - base, base)
        file_end = base + len(window) if len(window) < stop + _MARGIN - base else None
        if file_end is not None:
            stop = max(start, min(stop, file_end))
        data, end = self._characters(window, base, start, stop, file_end)
        at_end = file_end is not None and end >= file_end
        if at_end and start == 0:
            return self._content(data, None)
        if file_end is None:
            total = self.size if self.size >= end else None
        else:
            total = file_end if window else self.size
        asked = at_end or (range.last is not None and stop > range.last)
        return self._content(
            data,
            Truncation(
                reason="requested" if asked else "limit",
                unit="bytes",
                total=total,
                next=None if at_end else range.following(end),
            ),
        )

    def _characters(
        self, window: bytes, base: int, start: int, stop: int, file_end: int | None
    ) -> tuple[str | bytes, int]:
        """Return the whole characters from `start` to `stop`, or the bytes; and where they end."""
        first, last = start - base, stop - base
        if self.is_binary:
            return window[first:last], stop
        begin, end = first, last
        while begin < last and self.form.character_at(window, begin, base) < first:
            begin += 1
        if stop != file_end:
            end = self.form.character_at(window, last, base)
            end -= self.form.unfinished(window[begin:end])
        if end <= begin < last:  # Not one character is whole: go on to the end of the first.
            end = last
            while end < len(window) and self.form.character_at(window, end, base) <= begin:
                end += 1
        end = max(begin, end)
        text = self.form.decode(window[begin:end], at_start=base + begin == 0)
        return (window[first:end] if text is None else text), base + end

    def lines(self, range: Range) -> Content:
        skip = range.first - 1
        begin, skipped = self._scan(0, skip, SCAN_BYTES)
        if skipped < skip:
            if not self._ends_at(begin):
                raise InvalidParameter(
                    f"line {range.first} is not among the first {SCAN_BYTES} bytes; use bytes"
                )
            total = skipped + self._is_within_line(begin)
            return self._content("", Truncation("requested", "lines", total))
        count = None if range.last is None else range.last - skip
        end, found = self._scan(begin, count, begin + self.max_size)
        at_end = self._ends_at(end)
        if found != count and not at_end:
            return self._cut_lines(range, begin, end, found)
        data = self._decoded(_pread(self.fd, end - begin, begin), begin)
        if at_end and begin == 0:
            return self._content(data, None)
        total = skip + found + self._is_within_line(end) if at_end else None
        following = None if at_end else range.following(range.first + found)
        return self._content(data, Truncation("requested", "lines", total, following))

    def _cut_lines(self, range: Range, begin: int, end: int, found: int) -> Content:
        """Return the `found` lines that fit between `begin` and `end`."""
        if found:
            end, _ = self._scan(begin, found, end)
            data = self._decoded(_pread(self.fd, end - begin, begin), begin)
            following = range.following(range.first + found)
        else:
            window = _pread(self.fd, end + _MARGIN - begin, begin)
            data, end = self._characters(window, begin, begin, end, None)
            following = {"bytes": f"{end}-{end + self.max_size - 1}"}
        return self._content(data, Truncation("limit", "lines", None, following))

    def tail(self, count: int) -> Content:
        # Files of /proc have no size: their end is found by reading.
        end = self.size or len(read_all(self.fd, self.max_size + 1))
        floor = max(0, end - self.max_size)
        floor += -floor % self.form.width
        start = self._line_from_end(count, floor, end)
        if start is not None:
            data = self._decoded(_pread(self.fd, end - start, start), start)
            return self._content(data, Truncation("requested", "lines") if start else None)
        start, found = self._scan(floor, 1, end)
        if not found or start == end:
            base = max(0, floor - _MARGIN)
            window = _pread(self.fd, end - base, base)
            data, _ = self._characters(window, base, floor, end, end)
        else:
            data = self._decoded(_pread(self.fd, end - start, start), start)
        return self._content(data, Truncation("limit", "lines"))

    def _line_from_end(self, count: int, floor: int, end: int) -> int | None:
        """Return where the last `count` lines begin; None where that is before `floor`."""
        newline, width = self.form.newline, self.form.width
        # The end of the last line begins no further one.
        missing = count + (not self._is_within_line(end))
        position = end - end % width
        while position > floor:
            block = max(floor, position - _BLOCK)
            units = self.form.units(_pread(self.fd, position - block, block))
            here = units.count(newline)
            if here >= missing:
                return block + width * _after(units, newline, here - missing + 1)
            missing -= here
            position = block
        return None if floor else 0

    def _scan(self, offset: int, count: int | None, stop: int) -> tuple[int, int]:
        """Pass `count` line ends from `offset`, but not the end of the file or the offset `stop`.

        Returns where that is and how many were passed.
        """
        newline, width = self.form.newline, self.form.width
        found = 0
        while offset < stop and found != count:
            block = _pread(self.fd, min(_BLOCK, stop - offset), offset)
            units = self.form.units(block)
            here = units.count(newline)
            if count is not None and found + here >= count:
                return offset + width * _after(units, newline, count - found), count
            if not block:
                break
            found += here
            offset += len(block)
        return offset, found

    def _ends_at(self, offset: int) -> bool:
        return not _pread(self.fd, 1, offset)

    def _is_within_line(self, offset: int) -> bool:
        """Say whether the code unit before `offset` leaves a line without its end."""
        width = self.form.width
        if offset == 0 or offset % width:
            return offset != 0
        units = self.form.units(_pread(self.fd, width, offset - width))
        return len(units) == 0 or units[0] != self.form.newline


def _after(units: bytes | array[int], newline: int, count: int) -> int:
    """Return the place behind the `count`-th line end."""
    place = 0
    for _ in range(count):
        place = units.index(newline, place) + 1
    return place
