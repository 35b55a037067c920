"""Ranges of documents: `lines=10-40`, `bytes=0-65535`, `tail=100`.

A range is decoded on its own, without the rest of the document. A line includes its LF, so that
consecutive ranges of lines make up the document.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from resource_server import media_types
from resource_server.documents.encoding import TextEncoding
from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.provider import Content, Truncation
from resource_server.runtime.document_range import UNITS, Range, parse_range

_BLOCK_BYTES = 256 * 1024
SCAN_BYTES = 256 * 1024 * 1024
"""Maximum bytes scanned for line ends: a fraction of a second, from the page cache."""


_COUNTED_BYTES = 4 * 1024 * 1024
"""Maximum bytes scanned for the number of all lines, beside the range: about a millisecond."""


PARAMETERS: frozenset[str] = frozenset(UNITS)
"""URI parameters of ranges."""
_FIRST_LINES: Mapping[str, str] = {"lines": "1-1000"}
_FIRST_BYTES: Mapping[str, str] = {"bytes": "0-65535"}


def too_large(size: int, limit: int, mime_type: str | None) -> ResourceTooLarge:
    """Return the error for a document of `size` bytes, with the first range to read."""
    is_text = mime_type is not None and media_types.is_text(mime_type)
    return ResourceTooLarge(size=size, limit=limit, next=_FIRST_LINES if is_text else _FIRST_BYTES)


def refuse_unknown(names: Iterable[str], others: Sequence[str]) -> None:
    """Raise `InvalidParameter` if a document takes neither ranges nor `others` by such a name."""
    for name in sorted(names):
        if name not in UNITS and name not in others:
            *taken, last = *others, "lines", "bytes", "tail"
            raise InvalidParameter(
                f"unknown query parameter {name[:40]!r};"
                f" this document takes {', '.join(taken)} or {last}"
            )


def wanted_range(query: Mapping[str, str]) -> Range | None:
    """Return the range that URI parameters ask for; None without parameters.

    Raises:
        InvalidParameter: unknown or more than one parameter, or not a range; with an example.
    """
    if not query:
        return None
    refuse_unknown(query, ())
    return parse_range(query, is_uri=True)


# Longer than any character, and a multiple of every code unit.
_MARGIN = 4


class RangeReader(msgspec.Struct, frozen=True):
    """Reads ranges of a document."""

    pread: Callable[[int, int], bytes]
    """Returns the bytes of a count from an offset, fewer only at the end."""
    size: int
    promised: str | None
    mime_type: str
    encoding: TextEncoding
    max_size: int
    known: int | None = None
    """Bytes that may be read of a document that goes on; None for all."""
    scan_bytes: int | None = None
    """Maximum bytes scanned for the beginning of a range of lines; by default `SCAN_BYTES`."""
    counted_bytes: int = _COUNTED_BYTES

    @staticmethod
    def of_document(
        read: Callable[[int, int], bytes],
        size: int,
        promised: str | None,
        encoding: str,
        max_size: int,
        *,
        scan_bytes: int | None = None,
        counted_bytes: int = _COUNTED_BYTES,
    ) -> RangeReader:
        """Return the reader of an open document, after a look at its head.

        `promised` is the media type of its name, `encoding` that of text without a mark.
        """
        head = read(media_types.HEAD_BYTES, 0)
        detected = TextEncoding.detect(head, encoding)
        is_text = media_types.begins_as_text(head, detected.codec)
        mime_type = media_types.of_content(head, promised, decodes=is_text)
        # With a limit of 0, `next` would never get anywhere.
        return RangeReader(
            read,
            size,
            promised,
            mime_type,
            detected,
            max(max_size, 1),
            scan_bytes=scan_bytes,
            counted_bytes=counted_bytes,
        )

    @property
    def is_binary(self) -> bool:
        """Whether the document has a binary media type."""
        return media_types.is_binary(self.mime_type)

    def _content(
        self,
        data: str | bytes,
        truncated: Truncation | None,
        size: int | None = None,
        offset: int | None = None,
    ) -> Content:
        """Return the content; `size` is that of a whole document, in bytes."""
        size = None if self.encoding.is_plain else size
        mime_type = None if self.mime_type == self.promised else self.mime_type
        return Content(data, mime_type, truncated, size, offset)

    def _decoded(self, data: bytes, offset: int) -> str | bytes:
        if self.is_binary:
            return data
        text = self.encoding.decode(data, at_start=offset == 0)
        return data if text is None else text

    def read(self, range: Range) -> Content:
        """Return a range.

        Raises:
            InvalidParameter: as `lines`, or lines of a binary document.
        """
        if range.unit == "bytes":
            return self.bytes(range)
        if self.is_binary:
            raise InvalidParameter("the document is no text, and has no lines; use bytes or format")
        return self.lines(range) if range.unit == "lines" else self.tail(range.first)

    def bytes(self, range: Range) -> Content:
        """Return a range of bytes; of text, the whole characters in it."""
        start, stop = range.first, range.first + self.max_size
        if range.last is not None:
            stop = min(stop, range.last + 1)
        if self.known is not None:
            stop = min(stop, self.known)
        base = max(0, start - _MARGIN)
        window = self.pread(stop + _MARGIN - base, base)
        file_end = base + len(window) if len(window) < stop + _MARGIN - base else None
        if file_end is not None:
            stop = max(start, min(stop, file_end))
        data, end = self._characters(window, base, start, stop, file_end)
        at_end = file_end is not None and end >= file_end
        if at_end and start == 0:
            return self._content(data, None, end)
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
        """Return the whole characters from `start` to `stop`, or the bytes, and where they end."""
        first, last = start - base, stop - base
        if self.is_binary:
            return window[first:last], stop
        begin, end = first, last
        while begin < last and self.encoding.character_start(window, begin, base) < first:
            begin += 1
        if stop != file_end:
            end = self.encoding.character_start(window, last, base)
            end -= self.encoding.unfinished(window[begin:end])
        if end <= begin < last:  # not one whole character: extend to the end of the first
            end = last
            while end < len(window) and self.encoding.character_start(window, end, base) <= begin:
                end += 1
        end = max(begin, end)
        text = self.encoding.decode(window[begin:end], at_start=base + begin == 0)
        return (window[first:end] if text is None else text), base + end

    def lines(self, range: Range) -> Content:
        """Return the lines of a range that fit into `max_size`.

        Raises:
            InvalidParameter: more than `scan_bytes` into the document.
        """
        skip = range.first - 1
        scanned = self.scan_bytes or SCAN_BYTES
        begin, skipped = self._scan(0, skip, scanned)
        if skipped < skip:
            if not self._ends_at(begin):
                raise InvalidParameter(
                    f"line {range.first} is not among the first {scanned} bytes; use bytes"
                )
            total = skipped + self._is_within_line(begin)
            return self._content("", Truncation("requested", "lines", total))
        count = None if range.last is None else range.last - skip
        stop = begin + self.max_size
        end, found = self._scan(begin, count, stop if self.known is None else min(stop, self.known))
        at_end = self._ends_at(end)
        if found != count and not at_end:
            return self._truncated_lines(range, begin, end, found)
        data = self._decoded(self.pread(end - begin, begin), begin)
        if at_end and begin == 0:
            return self._content(data, None, end)
        total = self._total(end, skip + found)
        following = None if at_end else range.following(range.first + found)
        return self._content(data, Truncation("requested", "lines", total, following), offset=begin)

    def _truncated_lines(self, range: Range, begin: int, end: int, found: int) -> Content:
        """Return the `found` lines that fit between `begin` and `end`."""
        if found:
            end, _ = self._scan(begin, found, end)
            data = self._decoded(self.pread(end - begin, begin), begin)
            following = range.following(range.first + found)
        else:
            window = self.pread(end + _MARGIN - begin, begin)
            data, end = self._characters(window, begin, begin, end, None)
            following = {"bytes": f"{end}-{end + self.max_size - 1}"}
        total = self._total(begin, range.first - 1)
        return self._content(data, Truncation("limit", "lines", total, following), offset=begin)

    def _total(self, offset: int, lines: int) -> int | None:
        """Return the number of all lines, given those before `offset`; None if that takes long."""
        end, found = self._scan(offset, None, offset + self.counted_bytes)
        if self.known is not None or not self._ends_at(end):
            return None
        return lines + found + self._is_within_line(end)

    def tail(self, count: int) -> Content:
        """Return the last lines that fit into `max_size`."""
        # Files of /proc claim no size: reading them finds their end.
        end = self.size or len(self.pread(self.max_size + 1, 0))
        floor = max(0, end - self.max_size)
        floor += -floor % self.encoding.width
        start = self._line_from_end(count, floor, end)
        if start is not None:
            data = self._decoded(self.pread(end - start, start), start)
            if start == 0:
                return self._content(data, None, end)
            requested = Truncation("requested", "lines", self._total(0, 0))
            return self._content(data, requested, offset=start)
        start, found = self._scan(floor, 1, end)
        if not found or start == end:
            base = max(0, floor - _MARGIN)
            window = self.pread(end - base, base)
            data, _ = self._characters(window, base, floor, end, end)
            size = len(data if isinstance(data, bytes) else data.encode(self.encoding.codec))
            start = end - size
        else:
            data = self._decoded(self.pread(end - start, start), start)
        limited = Truncation("limit", "lines", self._total(0, 0))
        return self._content(data, limited, offset=start)

    def _line_from_end(self, count: int, floor: int, end: int) -> int | None:
        """Return the offset of the last `count` lines; None if that is before `floor`."""
        newline, width = self.encoding.newline, self.encoding.width
        # A line end at the end of the document begins no further line.
        missing = count + (not self._is_within_line(end))
        position = end - end % width
        while position > floor:
            block = max(floor, position - _BLOCK_BYTES)
            units = self.encoding.units(self.pread(position - block, block))
            here = units.count(newline)
            if here >= missing:
                return block + width * _after(units, newline, here - missing + 1)
            missing -= here
            position = block
        return None if floor else 0

    def _scan(self, offset: int, count: int | None, stop: int) -> tuple[int, int]:
        """Skip `count` line ends from `offset`, at most to the end of the file or to `stop`.

        Returns the offset reached and the number of line ends skipped.
        """
        newline, width = self.encoding.newline, self.encoding.width
        found = 0
        while offset < stop and found != count:
            block = self.pread(min(_BLOCK_BYTES, stop - offset), offset)
            units = self.encoding.units(block)
            here = units.count(newline)
            if count is not None and found + here >= count:
                return offset + width * _after(units, newline, count - found), count
            if not block:
                break
            found += here
            offset += len(block)
        return offset, found

    def _ends_at(self, offset: int) -> bool:
        return not self.pread(1, offset)

    def _is_within_line(self, offset: int) -> bool:
        """Return whether `offset` lies within a line: the code unit before it is no line end."""
        width = self.encoding.width
        if offset == 0 or offset % width:
            return offset != 0
        units = self.encoding.units(self.pread(width, offset - width))
        return len(units) == 0 or units[0] != self.encoding.newline


def _after(units: bytes | array[int], newline: int, count: int) -> int:
    """Return the index after the `count`-th line end."""
    place = 0
    for _ in range(count):
        place = units.index(newline, place) + 1
    return place


def read_all(fd: int, cap: int) -> bytes:
    """Return the whole file, or its first `cap` bytes, whatever size it claims."""
    return pread(fd, cap, 0)


def pread(fd: int, count: int, offset: int) -> bytes:
    """Return `count` bytes from `offset`, fewer only at the end of the file."""
    blocks: list[bytes] = []
    while count > 0:
        block = os.pread(fd, min(count, _BLOCK_BYTES), offset)
        if not block:
            break
        blocks.append(block)
        offset += len(block)
        count -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)
