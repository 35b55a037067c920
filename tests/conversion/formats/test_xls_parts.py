from __future__ import annotations

import struct
import tracemalloc

import pytest

from resource_server.conversion.formats.xls_parts import XlsRemarks
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.xls import compound, xls


def _record(kind: int, data: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def _book(*records: bytes) -> bytes:
    """Return a workbook whose only sheet has these records."""
    begin, end = _record(0x809, bytes(16)), _record(0x0A)
    entry = _record(0x85, struct.pack("<IBBBB", len(begin) + 16, 0, 0, 1, 0) + b"A")[:12]
    entry = struct.pack("<HH", 0x85, 8) + entry[4:]
    return compound("BOOK", b"".join((begin, entry, end, begin, *records, end)))


def test_parts_belong_to_one_sheet_and_one_that_is_not_there_has_none() -> None:
    remarks = XlsRemarks(xls({"A": {}, "B": {}}, boxes=["a <b> & ü€"], header="&Ltop"))
    assert "a &lt;b&gt; &amp; ü€" in remarks.of(1)
    assert "top" in remarks.of(0)
    assert remarks.of(2) == ""


@for_each(
    "record",
    [
        _record(0x1C, struct.pack("<4H", 0xFFFF, 0xFFFF, 0, 7)),
        _record(0x1C, b"\0" * 7),
        _record(0x14, b"\xff\xff\1"),
        _record(0x14, b"\xff"),
        _record(0x5D) + _record(0x1B6) + _record(0x3C, b"\1x"),
        _record(0x5D, bytes(8)) + _record(0x1B6, b"\xff" * 12) + _record(0x3C) * 9,
        _record(0x3C, b"\0orphan"),
        struct.pack("<HH", 0x14, 0xFFFF),
    ],
    ids=range(8),
)
def test_a_record_that_is_cut_or_lies_about_its_length_is_passed_over(record: bytes) -> None:
    assert "orphan" not in XlsRemarks(_book(record)).of(0)


@for_each(
    ("record", "said"),
    [
        (_record(0x203, struct.pack("<HH", 0, 0)) + _record(0x203, b"\xff" * 4), "cells"),
        (_record(0x200, struct.pack("<IIHH", 0, 2**32 - 1, 0, 256)), "cells"),
        (_record(0x200, struct.pack("<IIHH", 5, 4, 0, 1)), "damaged"),
    ],
    ids=range(3),
)
def test_a_sheet_that_claims_to_be_huge_is_refused(record: bytes, said: str) -> None:
    with pytest.raises(ConversionError, match=said):
        XlsRemarks(_book(record))


def test_sectors_in_a_circle_take_no_more_memory_than_the_file() -> None:
    data = bytearray(xls({"A": {(0, 0): "x" * 200}}))
    data[76 : 76 + 109 * 4] = bytes(109 * 4)  # the first table of sectors, 109 times
    first = data.index("Workbook".encode("utf-16-le")) + 116
    (start,) = struct.unpack_from("<I", data, first)
    struct.pack_into("<IQ", data, first, start, 2**31)
    struct.pack_into("<I", data, 512 + 4 * start, start)
    tracemalloc.start()
    try:
        XlsRemarks(bytes(data))
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()
