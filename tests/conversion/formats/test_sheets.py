"""XLSX, ODS and XLS as Markdown tables."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest

from resource_server.conversion.formats.sheets import convert
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError, InvalidParameter
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged_archives
from tests.conversion.formats.zipped import parts_of, pooled, text_of, unzipped, xml_bombs, zipped
from tests.conversion.portable import xlsx
from tests.conversion.samples import SAMPLES
from tests.conversion.samples.whole import xlsb
from tests.conversion.xls import xls


def _text_cell(ref: str, text: str) -> str:
    return f'<c r="{ref}" t="inlineStr"><is><t>{text}</t></is></c>'


def _number(ref: str, value: object, style: int = 0) -> str:
    return f'<c r="{ref}" s="{style}"><v>{value}</v></c>'


def _rows(*rows: str) -> str:
    return "".join(f'<row r="{at}">{row}</row>' for at, row in enumerate(rows, 1))


def _cities() -> str:
    return _rows(
        _text_cell("A1", "city") + _text_cell("B1", "height"),
        *(_text_cell(f"A{at}", f"c{at - 1}") + _number(f"B{at}", at) for at in range(2, 8)),
    )


def test_each_sheet_is_a_part_with_its_name_and_table() -> None:
    document = xlsx(_cities(), _rows(_text_cell("A1", "x")), "", states=("visible", "hidden"))
    first, second, third = parts_of(convert, document)
    assert str(first.data).startswith("## Sheet1\n\n| city | height |\n| --- | --- |\n| c1 | 2 |\n")
    assert (first.number, first.total) == (1, 3)
    assert "## Sheet2 (hidden)" in str(second.data)
    assert "empty" in str(third.data)
    assert [part.number for part in parts_of(convert, document, first=2, last=2)] == [2]


def test_rows_columns_and_sheets_are_chosen_by_options() -> None:
    document = xlsx(_cities(), _rows(_text_cell("A1", "other")))
    text = text_of(convert, document, {"sheet": "Sheet1", "rows": "2-3", "columns": "height"})
    assert text == "## Sheet1\n\n| height |\n| --- |\n| 3 |\n| 4 |\n"
    text = text_of(convert, document, {"sheet": "Sheet1", "rows": "6-"})
    assert text.endswith("| --- | --- |\n| c6 | 7 |\n")


def test_columns_of_a_sheet_are_named_as_those_of_other_tables() -> None:
    document = xlsx(_rows(_text_cell("A1", "a,b") + _text_cell("B1", "a|b"), _number("A2", 1)))
    assert "| 1 |\n" in text_of(convert, document, {"columns": '"a,b"'})
    assert "| a\\|b |\n" in text_of(convert, document, {"columns": "a|b"})


_DAYS = """<row r="2"><c r="A2" s="1"><v>0</v></c><c r="B2" s="2"><f>C2</f><v>0</v></c>
<c r="C2"><v>0</v></c></row><row r="3"><c r="A3" s="1"><v>-1</v></c><c r="B3" s="1"><v>1</v></c>
</row><row r="4"><c r="A4" s="2"><v>0.5</v></c><c r="B4" s="3"><v>0</v></c></row>"""


@for_each(
    ("property", "zero", "one"),
    [("", "1899-12-31", "1900-01-01"), ('<workbookPr date1904="1"/>', "1904-01-01", "1904-01-02")],
)
def test_a_date_with_the_number_0_is_a_day_and_no_time(property: str, zero: str, one: str) -> None:
    members = unzipped(xlsx(_rows(_number("A1", 1)) + _DAYS))
    main = members["xl/workbook.xml"].decode()
    styles = members["xl/styles.xml"].decode().replace("<cellXfs>", _TIMES)
    members["xl/workbook.xml"] = main.replace("<sheets>", f"{property}<sheets>").encode()
    members["xl/styles.xml"] = styles.replace("</cellXfs>", _TIME_STYLE).encode()
    text = text_of(convert, zipped(members))
    assert f"| {zero} | {zero} | 0 |\n| -1 | {one} |  |\n| 12:00:00 | 00:00:00 |  |\n" in text


_TIMES = (
    '<numFmts><numFmt numFmtId="170" formatCode="[h]:mm&quot; day&quot;;d"/></numFmts><cellXfs>'
)
_TIME_STYLE = '<xf numFmtId="170"/></cellXfs>'


@for_each("given", ["12345678901234567890", "0.12345678901234567891", "-98765432109876543210", "7"])
def test_a_number_of_an_ods_has_all_its_digits(given: str) -> None:
    number = f'office:value-type="float" office:value="{given}"'
    text = text_of(convert, _ods(_ods_row(_ods_cell("n")) + _ods_row(_ods_cell("1.2E+19", number))))
    assert f"| {given} |\n" in text


@for_each(
    "options",
    [{"sheet": "None"}, {"rows": "x"}, {"rows": "0-3"}, {"rows": "5-2"}, {"columns": "none"}],
)
def test_options_that_fit_nothing_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter):
        text_of(convert, xlsx(_cities()), options)


def test_dates_errors_and_markup_are_shown_as_text() -> None:
    row = (
        _number("A2", 45000, 1)
        + _number("B2", 45000.5, 2)
        + '<c r="C2" t="e"><v>#DIV/0!</v></c>'
        + _text_cell("D2", "a|b\nc")
        + _number("E2", 1.5)
        + '<c r="F2" t="b"><v>1</v></c>'
    )
    text = text_of(convert, xlsx(_rows("".join(_text_cell(f"{c}1", c) for c in "ABCDEF"), row)))
    assert "| 2023-03-15 | 2023-03-15 12:00:00 | #DIV/0! | a\\|b<br>c | 1.5 | TRUE |" in text


def test_the_last_row_of_a_long_sheet_is_there() -> None:
    rows = _rows(*(_number(f"A{at}", at * 7) for at in range(1, 50_001)))
    assert text_of(convert, xlsx(rows)).endswith("| 350000 |\n")


@for_each("ref", ["A1048577", "A10000000", "XFE1", "AAAA1", "ZZZ99999999"])
def test_a_cell_outside_its_sheet_is_damage(ref: str) -> None:
    rows = f'<row r="1">{_text_cell("A1", "near")}{_text_cell(ref, "far")}</row>'
    with pytest.raises(ConversionError, match="outside its sheet"):
        text_of(convert, xlsx(rows))


def test_distant_cells_do_not_make_a_huge_sheet() -> None:
    far = (
        f'<row r="1">{_text_cell("A1", "near")}</row>'
        f'<row r="1048576">{_text_cell("XFD1048576", "far")}</row>'
    )
    text = text_of(convert, xlsx(far))
    assert "near" in text
    assert "far" in text
    assert "left out" in text
    assert len(text) < 1000


_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style")
)


def _ods(rows: str) -> bytes:
    return zipped(
        {
            "content.xml": f"<office:document-content {_ODF}><office:body><office:spreadsheet>"
            f'<table:table table:name="Data">{rows}</table:table></office:spreadsheet>'
            "</office:body></office:document-content>"
        }
    )


def _ods_row(*cells: str, repeated: int = 1) -> str:
    return (
        f'<table:table-row table:number-rows-repeated="{repeated}">{"".join(cells)}'
        "</table:table-row>"
    )


def _ods_cell(text: str, attributes: str = "") -> str:
    shown = f"<text:p>{text}</text:p>" if text else ""
    return f"<table:table-cell {attributes}>{shown}</table:table-cell>"


_GAP = _ods_cell("", 'table:number-columns-repeated="16000"')


def test_an_ods_keeps_values_dates_and_repeated_cells() -> None:
    text = text_of(
        convert,
        _ods(
            _ods_row(_ods_cell("a"), _ods_cell("b"), _ods_cell("c"), _GAP)
            + _ods_row(
                _ods_cell("1,5", 'office:value-type="float" office:value="1.5"'),
                _ods_cell("x<text:tab/>y", 'table:number-columns-repeated="2"'),
            )
            + _ods_row(
                _ods_cell(
                    "1/2/24", 'office:value-type="date" office:date-value="2024-02-01T10:00:00"'
                ),
                _ods_cell("#DIV/0!", 'office:value-type="float" office:value="0"'),
            )
            + _ods_row(_GAP, repeated=1_048_000)
        ),
    )
    assert text.startswith("## Data\n\n| a | b | c |\n")
    assert "| 1.5 | x\ty | x\ty |\n" in text
    assert "| 2024-02-01 10:00:00 | #DIV/0! |" in text
    assert len(text) < 500


def test_an_ods_of_a_billion_cells_is_refused() -> None:
    full = _ods_cell("x", 'table:number-columns-repeated="16000"')
    with pytest.raises(ConversionError, match="cells"):
        text_of(convert, _ods(_ods_row(full, repeated=1_048_000)))


_BOMBS = xml_bombs("worksheet")


@for_each("name", list(_BOMBS))
def test_hostile_xml_is_refused_or_shows_nothing(name: str) -> None:
    for member in ("xl/workbook.xml", "xl/worksheets/s1.xml", "xl/styles.xml"):
        document = zipped({**unzipped(xlsx(_cities())), member: _BOMBS[name]})
        with suppress(ConversionError):
            assert len(text := text_of(convert, document)) < 10_000
            assert "root:" not in text
    with pytest.raises(ConversionError):
        text_of(convert, zipped({"content.xml": _BOMBS[name]}))


@for_each("extent", [(0, 60_000, 0, 250), (60_000, 0, 0, 250), (0, 2, 28, 0), (0, 2**32 - 1, 0, 2)])
def test_an_xls_of_an_impossible_extent_is_refused(extent: tuple[int, int, int, int]) -> None:
    usual, other = (struct.pack("<IIHH", *each) for each in ((0, 1, 0, 1), extent))
    document = xls({"A": {(0, 0): "x"}})
    assert document.count(usual) == 1
    with pytest.raises(ConversionError, match=r"extent|extends"):
        text_of(convert, document.replace(usual, other))


@for_each("document", [xlsx(_cities()), _ods(_ods_row(_ods_cell("a")))])
def test_damaged_workbooks_raise_nothing_but_conversion_errors(document: bytes) -> None:
    for data in damaged_archives(document, count=200, of_each=60):
        with suppress(ConversionError):
            text_of(convert, data)


@for_each(
    "document",
    [
        xls({"A": {(0, 0): "near", (65_000, 250): "far"}}),
        xlsb({0: ("near", "x", "y", "z", "u", "v"), 1_000_000: ("far",)}),
    ],
    ids=["xls", "xlsb"],
)
def test_distant_cells_of_binary_workbooks_are_refused(document: bytes) -> None:
    with pytest.raises(ConversionError, match="extends over more than"):
        text_of(convert, document)


@for_each("tail", [b"", bytes(512), bytes(5000), b"\xff" * 5000])
def test_what_only_begins_like_an_xls_is_refused(tail: bytes) -> None:
    with pytest.raises(ConversionError):
        text_of(convert, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + tail)


def test_a_confined_worker_converts_workbooks() -> None:
    good = xlsx(_cities())
    bomb = zipped({"xl/workbook.xml": bytes(50_000_000)})
    results = pooled("resource_server.conversion.formats.sheets:convert", [good, bomb, good])
    assert isinstance(results[0], Conversion)
    assert results[0].parts[0].data == text_of(convert, good)
    assert isinstance(results[1], ConversionError)
    assert results[2] == results[0]


def test_the_rows_of_a_sheet_are_read_as_csv() -> None:
    cells = _text_cell("A2", 'a "b", c') + _text_cell("B2", "d|e\nf") + _number("C2", 45000, 1)
    names = "".join(_text_cell(f"{column}1", column.lower()) for column in "ABC")
    document = xlsx(_rows(names, cells, _number("A3", 1.5), _number("A4", 2)))
    options = {"rows": "1-2"}
    (part,) = parts_of(convert, document, options, format="csv")
    assert part.data == 'a,b,c\n"a ""b"", c","d|e\nf",2023-03-15\n1.5,,\n'
    assert part.mime_type == "text/csv"
    (part,) = parts_of(convert, document, {"columns": "c,a", "rows": "3-"}, format="csv")
    assert part.data == "c,a\n,2\n"


def test_a_damaged_chart_sheet_hides_no_other_sheet() -> None:
    members = unzipped(next(each.data for each in SAMPLES if each.name == "whole.xlsx"))
    members["xl/drawings/drawing2.xml"] = b"<damaged"
    document = zipped(members)
    assert "row one" in text_of(convert, document, {"sheet": "Data"})
    with pytest.raises(ConversionError, match="its XML cannot be read"):
        text_of(convert, document, {"sheet": "Trend"})


def test_csv_is_one_sheet_at_a_time() -> None:
    document = xlsx(_cities(), _rows(_text_cell("A1", "other"), _text_cell("A2", "x")))
    with pytest.raises(InvalidParameter, match=r"write sheet=NAME: the sheets are Sheet1, Sheet2"):
        parts_of(convert, document, format="csv", first=1, last=2)
    (first,) = parts_of(convert, document, format="csv")
    assert [first] == parts_of(convert, document, {"sheet": "Sheet1"}, format="csv")
    assert (first.number, first.total) == (1, 2)
    by_name = parts_of(convert, document, {"sheet": "Sheet2"}, format="csv")
    assert by_name == parts_of(convert, document, first=2, last=2, format="csv")
    assert by_name[0].data == "other\nx\n"


@for_each("begin", ["", "\ufeff<!DOCTYPE html>\n", '<?xml version="1.0"?>\n<!-- x -->'])
def test_a_workbook_that_is_html_is_read_as_html(begin: str) -> None:
    page = f"{begin}<html><body><table><tr><th>city<tr><td>Oslo</table></body></html>"
    assert "| city |\n| --- |\n| Oslo |" in text_of(convert, page.encode())
