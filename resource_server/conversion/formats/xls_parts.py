"""What an XLS workbook (BIFF8) has beside its cells, which calamine leaves out."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from resource_server.conversion.formats.archives import protection
from resource_server.conversion.formats.blocks import Item, comment_of, html_lines, sections_of
from resource_server.conversion.formats.sheet_parts import (
    MAX_AREA,
    column_letters,
    margin_line,
    refuse_area,
)
from resource_server.errors import ConversionError

_END: Final = 0xFFFFFFFA
"""Sectors from this number on mark ends of chains and other things."""
_EOF, _HEADER, _FOOTER, _NOTE, _FILEPASS, _CONTINUE, _OBJ, _SHEET, _TXO, _BOF = (
    *(0x0A, 0x14, 0x15, 0x1C, 0x2F, 0x3C, 0x5D, 0x85, 0x1B6, 0x809),
)
_OTHERS: Final = frozenset(
    (_EOF, _HEADER, _FOOTER, _NOTE, _FILEPASS, _CONTINUE, _OBJ, _SHEET, _TXO, _BOF)
)
_CELLS: Final = frozenset((*(0x006, 0x0BD, 0x0BE, 0x0D6, 0x0FD), *range(0x201, 0x206), 0x27E))
"""Records of cells, which begin with their row and column."""
_EXTENT: Final = 0x200
_EXTENT_FIELDS: Final = struct.Struct("<IIHH")
_HEAD: Final = struct.Struct("<HH")
_CHART: Final = b"\x20"
"""The kind of a substream, in its BOF."""
_ROOT: Final = 5

_Record = tuple[int, bytes]


class XlsRemarks:
    """Comments, texts of shapes, headers and footers of the sheets of an XLS.

    Raises:
        ConversionError: it is protected by a password.
    """

    def __init__(self, data: bytes) -> None:
        if cause := protection(data):
            raise ConversionError(f"it is protected by {cause}")
        stream = _CompoundFile(data).stream("workbook", "book")
        begins: list[int] = []
        for kind, record in _records(stream, 0):
            if kind == _FILEPASS:
                raise ConversionError("it is protected by a password")
            if kind == _SHEET and len(record) >= 6 and record[5] == 0:
                begins.append(int.from_bytes(record[:4], "little"))
        self._sheets = [list(_records(stream, begin)) for begin in begins]

    def of(self, index: int) -> str:
        """Return what a sheet has beside its cells, as HTML."""
        if index >= len(self._sheets):
            return ""
        records = self._sheets[index]
        texts = dict(_texts(records))
        comments: list[Item | str] = []
        for kind, data in records:
            if kind == _NOTE and len(data) >= 8:
                row, column, _, number = struct.unpack_from("<4H", data)
                author = _string(data[8:])
                text = texts.pop(number, "").removeprefix(f"{author}:")
                place = f"{column_letters(column + 1)}{row + 1}"
                comments.append(Item(0, None, comment_of(author, html_lines(text), place)))
        drawings = [f"<p>{html_lines(text)}</p>" for text in texts.values()]
        if any(kind == _BOF and data[2:3] == _CHART for kind, data in records):
            drawings.append("<p>[Charts of XLS workbooks are not shown]</p>")
        margins = [
            margin_line(name, _string(data))
            for kind, name in ((_HEADER, "Header"), (_FOOTER, "Footer"))
            for found, data in records
            if found == kind
        ]
        return sections_of(
            ("Comments", comments), ("Drawings", drawings), ("Header and footer", margins)
        )


def _records(stream: bytes, begin: int) -> Iterator[_Record]:
    """Yield the records of a substream, also those of the charts in it, but for its cells.

    Raises:
        ConversionError: its cells are too far from each other.
    """
    depth, end = 0, len(stream) - 4
    left, top, right, bottom = 0xFFFF, 0xFFFF, 0, 0
    while begin <= end:
        kind, size = _HEAD.unpack_from(stream, begin)
        begin += 4
        if kind in _CELLS and size >= 4 and begin < end:
            row, column = _HEAD.unpack_from(stream, begin)
            left = column if column < left else left
            right = column if column > right else right
            top = row if row < top else top
            bottom = row if row > bottom else bottom
        elif kind == _EXTENT and size >= _EXTENT_FIELDS.size and begin + size <= len(stream):
            first, last, start, stop = _EXTENT_FIELDS.unpack_from(stream, begin)
            # Calamine believes it, even where it ends before it begins.
            refuse_area(abs(stop - start), abs(last - first), 2 * MAX_AREA)
            if stop < start or last < first:
                raise ConversionError("it is damaged: a sheet has no extent")
        elif kind in _OTHERS:
            yield kind, stream[begin : begin + size]
            depth += (kind == _BOF) - (kind == _EOF)
            if depth <= 0:
                break
        begin += size
    refuse_area(max(right - left + 1, 0), max(bottom - top + 1, 0))


def _texts(records: Sequence[_Record]) -> Iterator[tuple[int, str]]:
    """Yield the texts of shapes by the numbers of their objects."""
    number = left = 0
    text = ""
    for kind, data in records:
        if kind == _OBJ and len(data) >= 8:
            number = int.from_bytes(data[6:8], "little")
        elif kind == _TXO and len(data) >= 12:
            left, text = int.from_bytes(data[10:12], "little"), ""
        elif kind == _CONTINUE and left > 0:
            piece = _characters(data[1:], left, is_wide=bool(data[:1] > b"\0"))
            text, left = text + piece, left - max(len(piece), 1)
            if left <= 0:
                yield number, text


def _string(data: bytes) -> str:
    """Return a string that begins with its length and how it is encoded."""
    if len(data) < 3:
        return ""
    return _characters(data[3:], int.from_bytes(data[:2], "little"), is_wide=bool(data[2] & 1))


def _characters(data: bytes, count: int, *, is_wide: bool) -> str:
    if is_wide:
        return data[: 2 * count].decode("utf-16-le", "replace")
    return data[:count].decode("latin-1")


class _CompoundFile:
    """The streams of a compound file (MS-CFB)."""

    def __init__(self, data: bytes) -> None:
        self._data = data.ljust(512, b"\0")
        self._shift, self._small_shift = struct.unpack_from("<HH", self._data, 30)
        if not 7 <= self._small_shift + 3 <= self._shift <= 16:
            self._shift, self._small_shift = 9, 6
        fields = struct.unpack_from("<7I", self._data, 48)
        self._directory, _, self._smallest, self._small_table, _, more, _ = fields
        places = list(struct.unpack_from("<109I", self._data, 76))
        while more < _END and len(places) << self._shift < 8 * len(data):
            *found, more = _numbers(self._sector(more)) or (_END,)
            places += found
        sectors = (self._sector(place) for place in places if place < _END)
        # No chain is longer than the file, however often a hostile one names a table.
        self._table = _numbers(b"".join(sectors))[: len(self._data) >> self._shift]

    def _sector(self, number: int) -> bytes:
        return self._data[(number + 1) << self._shift : (number + 2) << self._shift]

    def _chained(self, number: int) -> bytes:
        return b"".join(map(self._sector, _chain(number, self._table)))

    def stream(self, *names: str) -> bytes:
        """Return the first stream with one of some names; empty if there is none."""
        entries, small = self._chained(self._directory), b""
        for begin in range(0, len(entries) - 127, 128):
            entry = entries[begin : begin + 128]
            start, size = struct.unpack_from("<IQ", entry, 116)
            if entry[66] == _ROOT:
                small = self._chained(start)
            elif entry[:64].decode("utf-16-le", "replace").partition("\0")[0].lower() in names:
                if size >= self._smallest:
                    return self._chained(start)[:size]
                shift = self._small_shift
                table = _numbers(self._chained(self._small_table))[: (len(small) >> shift) + 1]
                links = _chain(start, table)
                return b"".join(small[at << shift : (at + 1) << shift] for at in links)[:size]
        return b""


def _chain(number: int, links: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of the sectors of a stream; a chain in a circle ends."""
    for _ in range(len(links)):
        if number >= len(links):
            return
        yield number
        number = links[number]


def _numbers(data: bytes) -> Sequence[int]:
    return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
