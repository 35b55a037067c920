"""Spreadsheets as Markdown tables: XLSX and XLS by calamine, ODS by `opendocument`'s reading.

Calamine allocates the whole rectangle around the cells of a sheet, and blanks cells with errors.
So it gets a copy of an XLSX in which errors are text, and distant cells moved together.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, dropwhile, islice
from types import MappingProxyType
from typing import BinaryIO, Final, TypeVar
from urllib.parse import quote, urlencode
from xml.etree.ElementTree import Element
from xml.sax.saxutils import quoteattr

from python_calamine import (
    CalamineError,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

from resource_server import media_types
from resource_server.conversion.formats import encodings, html
from resource_server.conversion.formats.archives import (
    MAX_OLE_BYTES,
    OLE,
    Archive,
    Relation,
    below,
    copied,
)
from resource_server.conversion.formats.blocks import lists_of
from resource_server.conversion.formats.html import markdown_of
from resource_server.conversion.formats.opendocument import Cell, OpenSheets, Sheet, open_archive
from resource_server.conversion.formats.row_tables import chosen_columns, csv_text, value_text
from resource_server.conversion.formats.sheet_parts import (
    MAX_AREA,
    SheetParts,
    column_letters,
    refuse_area,
)
from resource_server.conversion.formats.xls_parts import XlsRemarks
from resource_server.conversion.registry import SHEET_NAMES
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part
from resource_server.runtime import markdown
from resource_server.runtime.document_range import parse_interval

MAX_SHEET_BYTES: Final = 48 * 1024 * 1024
"""Maximum bytes of one sheet as Markdown, which is made in memory; rows are read on beyond it."""
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATED: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_CELL = re.compile(rb'(<(?:\w+:)?c\s(?:[^>"]*"[^"]*")*?[^>"]*?\br=")([A-Z]{1,3})([0-9]{1,7})(")')
_ROW = re.compile(rb'(<(?:\w+:)?row\s(?:[^>"]*"[^"]*")*?[^>"]*?\br=")([0-9]{1,7})(")')
_COLUMN_REF = re.compile(rb'\sr="([A-Z]{1,3})[0-9]')
_ROW_REF = re.compile(rb'\sr="[A-Z]{0,3}([0-9]{1,7})"')
_FAR_REF = re.compile(rb'\sr="(?:[A-Z]{4}|[A-Z]*[0-9]{8})')
_ROW_RECORD: Final = 0
_CELL_RECORDS: Final = range(1, 12)
_NEEDED = re.compile(
    r"(xl/)?_rels/(workbook\.bin)?\.rels|\[content_types\]\.xml"
    r"|xl/((workbook|styles|sharedstrings)|worksheets/[^/]*)\.bin",
    re.IGNORECASE,
)
"""Parts of an XLSB with its cells."""
_MAX_ROW: Final = 1_048_576
_MAX_COLUMN: Final = 16_384
_BEFORE_DAY_ONE: Final = re.compile(
    rb'(<(?:\w+:)?c\s[^>]*?)\ss="([0-9]{1,6})"([^>]*>(?:<(?:\w+:)?f\b[^<]*</(?:\w+:)?f>)?'
    rb"<(?:\w+:)?v>)(0(?:\.0*)?|-[^<]*)<"
)
"""A cell with a style and a number that calamine takes for midnight, if the style is of dates."""
_DATE_FORMATS: Final = frozenset((*range(14, 18), 22, *range(27, 37), *range(50, 59)))
_UNSHOWN: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|[_*].|;.*')
"""What no number is shown by in its format, and the formats of other numbers."""
_ERROR = re.compile(rb'(<(?:\w+:)?c\s[^>]*\bt=)"e"')

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _About:
    """A sheet, as its workbook lists it."""

    name: str
    part: str
    state: str
    """`visible`, `hidden` or `veryHidden`."""


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield each sheet as a part. Options: `sheet`, `rows` and `columns`."""
    if request.format == "markdown" and html.is_html(file):  # many programs call their HTML XLS
        yield from html.convert(file, request)
        return
    sheets = workbook(file)
    names = [*sheets.names, *sheets.charts]
    if request.format == SHEET_NAMES:
        yield from (Part(name, at, len(names), "text/plain") for at, name in enumerate(names, 1))
        return
    wanted = request.options.get("sheet")
    if wanted is not None and wanted not in names:
        raise InvalidParameter(
            f"the document has no sheet {wanted[:40]!r}; its sheets are {', '.join(names)}"
        )
    if request.format == "csv":
        yield _csv_part(sheets, request)
        return
    last = min(request.last or len(names), len(names))
    for number in range(max(request.first, 1), last + 1):
        if wanted is None or names[number - 1] == wanted:
            yield Part(_part(sheets, number - 1, request), number, len(names))


def _csv_part(sheets: _Excel | OpenSheets, request: ConversionRequest) -> Part:
    """Return the one sheet that is wanted, as CSV: the first one, if it is not said which.

    Raises:
        InvalidParameter: several are wanted.
    """
    names = sheets.names
    wanted = request.options.get("sheet")
    numbers = range(request.first, min(request.last or len(names), len(names)) + 1)
    found = [at for at in numbers if wanted is None or names[at - 1] == wanted]
    if wanted is None and request.last is None:
        found = found[:1]
    if len(found) != 1:
        raise InvalidParameter(
            f"csv is one sheet at a time; write sheet=NAME: the sheets are {', '.join(names)}"
        )
    return Part(_csv(sheets.sheet(found[0] - 1), request), found[0], len(names), "text/csv")


def _part(sheets: _Excel | OpenSheets, index: int, request: ConversionRequest) -> str:
    """Return a sheet, with what it has beside its cells."""
    if index >= len(sheets.names):
        name, chart = list(sheets.charts.items())[index - len(sheets.names)]
        text = markdown_of(chart()) or "[This sheet is empty.]\n"
        return f"{markdown.heading(name, 2)}\n\n{text}"
    text = _markdown(sheets.sheet(index), request)
    remarks = sheets.remarks(index)
    if remarks and ("rows" in request.options or "columns" in request.options):
        return f"{text}\n[Comments, drawings and links are shown without rows and columns.]\n"
    return f"{text}\n{markdown_of(remarks)}" if remarks else text


def workbook(file: BinaryIO) -> _Excel | OpenSheets:
    """Return the sheets of a workbook.

    Raises:
        ConversionError: it is damaged, protected, too large or no workbook.
    """
    head = file.read(len(OLE))
    file.seek(0)
    if head == OLE:
        data = encodings.whole_document(file, MAX_OLE_BYTES)
        return _Excel(io.BytesIO(data), XlsRemarks(data).of)
    archive = open_archive(file)
    if "content.xml" in archive:
        return OpenSheets(archive)
    main = archive.main_part(
        "xl/workbook.bin" if "xl/workbook.bin" in archive else "xl/workbook.xml", "XLSX"
    )
    if main.lower().endswith(".bin"):
        return _binary(archive)
    document = _OpenXml(archive, main)
    return _Excel(document.copy(), document.remarks, document.charts, document.compacted)


class _Excel:
    """A workbook that calamine reads."""

    def __init__(
        self,
        file: BinaryIO,
        remarks: Callable[[int], str],
        charts: Mapping[str, Callable[[], str]] = MappingProxyType({}),
        compacted: Collection[str] = (),
    ) -> None:
        self.remarks = remarks
        """Returns what a sheet has beside its cells, as HTML."""
        self.charts = charts
        """Functions that return sheets which are nothing but a chart, as HTML, by name."""
        self._compacted = compacted
        self._book = _guarded(lambda: CalamineWorkbook.from_filelike(file))
        # Charts and macros are no tables.
        self._sheets = [
            sheet for sheet in self._book.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet
        ]
        self.names = [sheet.name for sheet in self._sheets]

    def sheet(self, index: int) -> Sheet:
        """Return a sheet."""
        about = self._sheets[index]
        sheet = _guarded(lambda: self._book.get_sheet_by_name(about.name))
        return Sheet(
            about.name,
            dropwhile(_is_empty, sheet.iter_rows()),  # those above the first cell, too
            sheet.height,
            is_hidden=about.visible != SheetVisibleEnum.Visible,
            is_compacted=about.name in self._compacted,
        )


def _is_empty(row: Sequence[Cell]) -> bool:
    return all(cell == "" for cell in row)


def _guarded(read: Callable[[], T]) -> T:
    """Return what a function of calamine returns; its errors and panics become ours."""
    try:
        return read()
    except PasswordError:
        raise ConversionError("it is protected by a password") from None
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        # A panic of Rust is no `Exception`.
        if isinstance(error, (CalamineError, Exception)) or "Panic" in type(error).__name__:
            raise ConversionError("it is damaged, or no spreadsheet") from None
        raise


def _binary(archive: Archive) -> _Excel:
    """Return an XLSB. Only its cells are read, from a copy of the parts that calamine needs."""
    members = {name: archive.read(name) for name in archive.names if _NEEDED.fullmatch(name)}
    for name, data in members.items():
        if "worksheets/" in name.lower():
            _refuse_extent(data)
    others = ("/comments", "/drawings/", "/charts/", "/threadedcomments/")
    has_more = any(each in name.lower() for name in archive.names for each in others)
    said = "<p>[Comments and drawings of XLSB workbooks are not shown]</p>" if has_more else ""
    return _Excel(copied(members), lambda index: said if index == 0 else "")


def _refuse_extent(data: bytes) -> None:
    """Refuse a sheet of an XLSB whose cells are too far from each other."""
    at, row = 0, 0
    places: list[tuple[int, int]] = []
    while at < len(data):
        kind, at = _number(data, at, 2)
        size, at = _number(data, at, 4)
        value = int.from_bytes(data[at : at + 4], "little")
        if kind == _ROW_RECORD:
            row = value
        elif kind in _CELL_RECORDS:
            places.append((row, value))
        at += size
    if places:
        (top, bottom), (left, right) = (
            (min(each), max(each)) for each in zip(*places, strict=True)
        )
        refuse_area(bottom - top + 1, right - left + 1)


def _number(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Return a number in groups of seven bits, of `most` bytes at most, and the place after it."""
    number = 0
    for count, byte in enumerate(data[at : at + most]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, at + count + 1
    return number, at + most


class _OpenXml:
    """An XLSX, and a copy of it with what calamine needs, in the names and the form it expects."""

    def __init__(self, archive: Archive, main: str) -> None:
        self._archive = archive
        self._root = archive.xml(main)
        self._parts = SheetParts(archive, main)
        relations, folder = archive.relations(main), posixpath.dirname(main)
        self.sheets: list[_About] = []
        self.charts: dict[str, Callable[[], str]] = {}
        for at, sheet in enumerate(self._root.iter("x:sheet"), 1):
            usual = Relation("worksheet", f"{folder}/worksheets/sheet{at}.xml", False)
            relation = relations.get(sheet.get("r:id", ""), usual)
            if relation.target not in archive:
                raise ConversionError("it is damaged: a sheet is missing")
            state = sheet.get("state", "visible")
            about = _About(sheet.get("name", ""), relation.target, state)
            if relation.kind == "worksheet":
                self.sheets.append(about)
            elif relation.kind == "chartsheet":
                self.charts[about.name] = partial(self._chart, about.part)
        self._others: dict[str, str] = {}
        for kind in ("styles", "sharedStrings"):
            usual_name = f"{folder}/{kind}.xml"
            part = next(iter(archive.related(main, kind)), usual_name)
            if part in archive:
                self._others[f"{kind}.xml"] = part
        self.compacted: set[str] = set()
        self._tails: dict[str, bytes] = {}

    def remarks(self, index: int) -> str:
        """Return what a sheet has beside its cells, as HTML."""
        part = self.sheets[index].part
        return self._parts.remarks(part, self._tails[part])

    def _chart(self, part: str) -> str:
        return lists_of(self._parts.drawings(part))

    def copy(self) -> BinaryIO:
        """Return the copy; sheets whose cells are moved together are `compacted` then."""
        members = {
            f"xl/{name}": _checked(self._archive.read(part)) for name, part in self._others.items()
        }
        kinds = [(name.partition(".")[0], name) for name in self._others]
        styles = self._others.get("styles.xml")
        dates = set[bytes]() if styles is None else _date_styles(self._archive.xml(styles))
        properties = self._root.find("x:workbookPr")
        is_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        entries: list[str] = []
        for at, sheet in enumerate(self.sheets, 1):
            data, is_compacted = _mended(_checked(self._archive.read(sheet.part)))
            if dates:
                data = _with_day_zero(data, dates, b"1904-01-01" if is_1904 else b"1899-12-31")
            self._tails[sheet.part] = data[data.rfind(b"sheetData") :]
            if is_compacted:
                self.compacted.add(sheet.name)
            members[f"xl/worksheets/sheet{at}.xml"] = data
            kinds.append(("worksheet", f"worksheets/sheet{at}.xml"))
            entries.append(
                f'<sheet name={quoteattr(sheet.name)} sheetId="{at}" r:id="id{len(kinds)}" '
                f"state={quoteattr(sheet.state)}/>"
            )
        workbook = (
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATED}"><workbookPr date1904="{is_1904:d}"/>'
            f"<sheets>{''.join(entries)}</sheets></workbook>"
        )
        members["_rels/.rels"] = _relations([("officeDocument", "xl/workbook.xml")])
        members["xl/workbook.xml"] = workbook.encode()
        members["xl/_rels/workbook.xml.rels"] = _relations(kinds)
        return copied(members)


def _relations(targets: Sequence[tuple[str, str]]) -> bytes:
    each = "".join(
        f'<Relationship Id="id{at}" Type="{_RELATED}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}">{each}</Relationships>'.encode()


def _checked(data: bytes) -> bytes:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ConversionError("its XML declares a document type or entities, which are not read")
    return data


def _mended(data: bytes) -> tuple[bytes, bool]:
    """Return a sheet whose errors are text, and whether its cells had to move together."""
    if media_types.mark_codec(data) not in (None, "utf-8"):
        raise ConversionError("its sheets are not in UTF-8")
    if b't="e"' in data:
        data = _ERROR.sub(rb'\1"str"', data)
    columns, rows = set(_COLUMN_REF.findall(data)), set(map(int, _ROW_REF.findall(data)))
    numbers = [_column_number(column) for column in columns]
    is_outside = max(rows, default=0) > _MAX_ROW or max(numbers, default=0) > _MAX_COLUMN
    if is_outside or _FAR_REF.search(data):
        raise ConversionError("it is damaged: a cell is outside its sheet")
    if not columns or not rows:
        refuse_area(data.count(b"<"), 1)
        return data, False
    width = max(numbers) - min(numbers) + 1
    if (max(rows) - min(rows) + 1) * width <= MAX_AREA:
        return data, False
    refuse_area(len(columns), len(rows))
    ranks = {old: at for at, old in enumerate(sorted(rows), 1)}
    order = sorted(columns, key=_column_number)
    letters = {old: column_letters(at).encode() for at, old in enumerate(order, 1)}
    data = _CELL.sub(
        lambda cell: b"%b%b%d%b" % (cell[1], letters[cell[2]], ranks[int(cell[3])], cell[4]), data
    )
    data = _ROW.sub(lambda row: b"%b%d%b" % (row[1], ranks[int(row[2])], row[3]), data)
    # The declared extent and merged cells are those of the original.
    data = re.sub(rb"<(?:\w+:)?dimension\b[^>]*/>", b"", data)
    data = re.sub(rb"<(?:\w+:)?mergeCell\b[^>]*/>", b"", data)
    return data, True


def _date_styles(styles: Element) -> set[bytes]:
    """Return the numbers of the styles of cells that show a day."""
    dates = set(map(str, _DATE_FORMATS))
    for each in styles.iter("x:numFmt"):
        shown = _UNSHOWN.sub("", each.get("formatCode", "")).lower()
        if "y" in shown or "d" in shown:
            dates.add(each.get("numFmtId", ""))
    cells = below(styles, "x:cellXfs")
    numbers = enumerate(() if cells is None else cells)
    return {str(at).encode() for at, style in numbers if style.get("numFmtId") in dates}


def _with_day_zero(data: bytes, dates: set[bytes], day: bytes) -> bytes:
    """Return a sheet whose dates 0 are written as the day, and negative ones are no dates."""

    def mended(cell: re.Match[bytes]) -> bytes:
        begin, style, rest, value = cell.groups()
        if style not in dates or b' t="' in begin + rest:
            return cell[0]
        if value.startswith(b"-"):
            return b"%b%b%b<" % (begin, rest, value)
        return b'%b t="d"%b%b<' % (begin, rest, day)

    return _BEFORE_DAY_ONE.sub(mended, data)


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _markdown(sheet: Sheet, request: ConversionRequest) -> str:
    """Return a sheet as a heading and a table."""
    title = f"{markdown.heading(sheet.name, 2)}{' (hidden)' if sheet.is_hidden else ''}\n\n"
    names, rows, first = _wanted(sheet, request)
    if not names:
        return f"{title}[This sheet is empty.]\n"
    table = _table(names, rows, first, sheet)
    if first > max(sheet.height - 1, 1):
        table += f"\n[There are no such rows: the sheet has {sheet.height - 1}.]\n"
    note = "\n[Empty rows and columns are left out.]\n" if sheet.is_compacted else ""
    return f"{title}{table}{note}"


def _wanted(
    sheet: Sheet, request: ConversionRequest
) -> tuple[Sequence[str], Iterable[Sequence[str]], int]:
    """Return the header, the rows and the number of the first row that are wanted of a sheet."""
    rows = iter(sheet.rows)
    header = list(map(_plain, next(rows, ())))
    first, last = parse_interval("rows", request.options.get("rows") or "1-")
    wanted = (list(map(_plain, row)) for row in islice(rows, first - 1, last))
    if not request.options.get("columns"):
        return header, wanted, first
    chosen = chosen_columns(request.options["columns"], header)
    cells = ([row[at] if at < len(row) else "" for at in chosen] for row in wanted)
    return [header[at] for at in chosen], cells, first


def _csv(sheet: Sheet, request: ConversionRequest) -> str:
    """Return a sheet as CSV; short rows are filled to the width of the header."""
    names, rows, first = _wanted(sheet, request)
    if first > max(sheet.height - 1, 1):
        raise InvalidParameter(f"the sheet has no such rows: it has {sheet.height - 1}")
    cells = chain([names] if names else (), rows)
    return csv_text([*row, *[""] * (len(names) - len(row))] for row in cells)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], first: int, sheet: Sheet) -> str:
    """Return a Markdown table; where it is too long, a sentence says how to read on."""
    rows = iter(rows)
    sample = list(islice(rows, 1000))
    width = max(len(names), max(map(len, sample), default=0))
    lines = [markdown.table_head([*names, *[""] * (width - len(names))])]
    size = len(lines[0])
    for at, row in enumerate(chain(sample, rows), first):
        line = markdown.table_row([*row, *[""] * (width - len(row))])
        size += len(line) if line.isascii() else len(line.encode("utf-8", "replace"))
        if size > MAX_SHEET_BYTES:
            rest = urlencode({"sheet": sheet.name, "rows": f"{at}-"}, quote_via=quote)
            lines.append(
                f"\n[Rows {at} to {sheet.height - 1} do not fit: read them with {rest}.]\n"
            )
            break
        lines.append(line)
    return "".join(lines)


def _plain(cell: Cell) -> str:
    """Return a cell as its program shows it without a format."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        cell = cell.date()
    return value_text(cell)
