"""What sheets have beside their cells: codes of headers, letters of columns, extents."""

from __future__ import annotations

import io

import pytest

from resource_server.conversion.formats.archives import Archive
from resource_server.conversion.formats.sheet_parts import (
    MAX_AREA,
    SheetParts,
    column_letters,
    margin_line,
    refuse_area,
)
from resource_server.errors import ConversionError
from tests.conversion.formats.zipped import zipped


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("&LLeft&RRight", "Left | Right"),
        ('&C&"Arial,Bold"&14Big &K00FF00green', "Big green"),
        ("R&&D <b>", "R&amp;D &lt;b&gt;"),
        ("&&P", "&amp;P"),
        ("&LPage &P of &N", ""),
        ("Page 3 of 4", "Page 3 of 4"),
        ("&LReport, page &P", "Report, page"),
        ("&L &R ", ""),
        ("&", "&amp;"),
        ("", ""),
    ],
)
def test_a_header_has_its_text_without_fonts_and_fields(code: str, text: str) -> None:
    assert margin_line("Header", code) == (f"<p>Header: {text}</p>" if text else "")


def test_columns_have_the_letters_of_excel() -> None:
    letters = {1: "A", 26: "Z", 27: "AA", 52: "AZ", 702: "ZZ", 703: "AAA", 16384: "XFD", 0: ""}
    assert {number: column_letters(number) for number in letters} == letters


def test_an_extent_at_the_limit_is_read_and_one_above_refused() -> None:
    refuse_area(1, MAX_AREA)
    refuse_area(0, 10**9)
    with pytest.raises(ConversionError, match="more than 5,000,000 cells"):
        refuse_area(MAX_AREA, 2)


def test_links_and_margins_of_a_sheet_without_parts_are_read_or_absent() -> None:
    sheet = SheetParts(Archive(io.BytesIO(zipped({"a": "b"}))), "xl/workbook.xml")
    assert sheet.remarks("xl/worksheets/sheet1.xml", b"") == ""
    tail = (
        b'<hyperlinks><hyperlink ref="A1" r:id="none"/></hyperlinks><headerFooter>'
        b"<oddHeader>Draft &amp;&amp; more</oddHeader>"
        b"<evenHeader>Draft &amp;&amp; more</evenHeader>"
        b"<oddFooter>\xff</oddFooter></headerFooter>"
    )
    found = sheet.remarks("xl/worksheets/sheet1.xml", tail)
    assert found == (
        "<h3>Header and footer</h3><p>Header: Draft &amp; more</p><p>Footer: \ufffd</p>"
    )
