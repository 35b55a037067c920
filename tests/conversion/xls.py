"""XLS workbooks (BIFF8 in a compound file), written by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_SECTOR = 512
_FREE, _END, _TABLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_SMALLEST_STREAM = 4096
_BOF, _EOF, _SHEET, _EXTENT, _NUMBER, _LABEL = 0x0809, 0x000A, 0x0085, 0x0200, 0x0203, 0x0204
_HEADER, _NOTE, _FILEPASS, _CONTINUE, _OBJ, _TXO = 0x14, 0x1C, 0x2F, 0x3C, 0x5D, 0x1B6

Cells = Mapping[tuple[int, int], str | float]
"""Values by row and column, counted from 0."""


def xls(
    sheets: Mapping[str, Cells],
    *,
    comments: Mapping[tuple[int, int], tuple[str, str]] | None = None,
    boxes: Sequence[str] = (),
    header: str = "",
    has_chart: bool = False,
    is_protected: bool = False,
) -> bytes:
    """Return a workbook with these cells; comments and the like are those of every sheet."""
    others = _record(_HEADER, _string(header)) if header else b""
    others += b"".join(_text(at, text) for at, text in enumerate(boxes, 100))
    for number, ((row, column), (author, text)) in enumerate((comments or {}).items(), 1):
        place = struct.pack("<4H", row, column, 0, number)
        others += _text(number, text) + _record(_NOTE, place + _string(author) + b"\0")
    if has_chart:
        others += _record(_BOF, struct.pack("<HHHHII", 0x0600, 0x0020, 0, 0, 0, 0)) + _record(_EOF)
    bodies = [_sheet(cells, others) for cells in sheets.values()]
    begin = _record(_BOF, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0))
    if is_protected:
        begin += _record(_FILEPASS, struct.pack("<HHH", 1, 1, 1) + bytes(48))
    end = _record(_EOF)
    position = len(begin) + sum(len(_entry(name, 0)) for name in sheets) + len(end)
    entries = b""
    for name, body in zip(sheets, bodies, strict=True):
        entries += _entry(name, position)
        position += len(body)
    return compound("Workbook", b"".join((begin, entries, end, *bodies)))


def _string(text: str) -> bytes:
    return struct.pack("<HB", len(text), 1) + text.encode("utf-16-le")


def _text(number: int, text: str) -> bytes:
    """Return a shape and its text, whose characters are in two records."""
    first, second = text[:5], text[5:]
    return b"".join(
        (
            _record(_OBJ, struct.pack("<4H", 0x15, 0x12, 0x19, number) + bytes(14)),
            _record(_TXO, struct.pack("<5HHHI", 0, 0, 0, 0, 0, len(text), 16, 0)),
            _record(_CONTINUE, b"\0" + first.encode("latin-1")),
            _record(_CONTINUE, b"\1" + second.encode("utf-16-le")),
            _record(_CONTINUE, bytes(16)),
        )
    )


def _entry(name: str, position: int) -> bytes:
    head = struct.pack("<IBBBB", position, 0, 0, len(name), 1)
    return _record(_SHEET, head + name.encode("utf-16-le"))


def _sheet(cells: Cells, others: bytes) -> bytes:
    rows, columns = [row for row, _ in cells], [column for _, column in cells]
    extent = (0, 0, 0, 0)
    if cells:  # the last column of a hostile one does not fit
        extent = (min(rows), max(rows) + 1, min(columns), min(max(columns) + 1, 0xFFFF))
    records = [
        _record(_BOF, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0)),
        _record(_EXTENT, struct.pack("<IIHHH", *extent, 0)),
    ]
    for (row, column), value in cells.items():
        place = struct.pack("<HHH", row, column, 0)
        if isinstance(value, str):
            records.append(_record(_LABEL, place + _string(value)))
        else:
            records.append(_record(_NUMBER, place + struct.pack("<d", value)))
    return b"".join((*records, others, _record(_EOF)))


def _record(kind: int, data: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def compound(name: str, stream: bytes) -> bytes:
    """Return a compound file with one stream (MS-CFB)."""
    stream = stream.ljust(_SMALLEST_STREAM, b"\0")
    count = -(-len(stream) // _SECTOR)
    tables = -(-(count + 1) * 4 // (_SECTOR - 4))
    directory, first = tables, tables + 1
    chain = [*[_TABLE] * tables, _END, *range(first + 1, first + count), _END]
    chain += [_FREE] * (tables * _SECTOR // 4 - len(chain))
    header = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII",
        *(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", bytes(16), 0x3E, 3, 0xFFFE, 9, 6),
        *(0, tables, directory, 0, _SMALLEST_STREAM, _END, 0, _END, 0),
    )
    places = [*range(tables), *[_FREE] * (109 - tables)]
    root = _directory_entry("Root Entry", 5, child=1, start=_END, size=0)
    book = _directory_entry(name, 2, child=_FREE, start=first, size=len(stream))
    return b"".join(
        (
            header,
            _numbers(places),
            _numbers(chain),
            (root + book).ljust(_SECTOR, b"\0"),
            stream.ljust(count * _SECTOR, b"\0"),
        )
    )


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _directory_entry(name: str, kind: int, *, child: int, start: int, size: int) -> bytes:
    encoded = f"{name}\0".encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII16sIQQIQ",
        *(encoded, len(encoded), kind, 1, _FREE, _FREE, child, bytes(16), 0, 0, 0, start, size),
    )
