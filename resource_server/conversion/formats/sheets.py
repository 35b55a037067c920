"""Spreadsheets as Markdown tables: XLSX and XLS by calamine, ODS by `opendocument`'s reading.

Calamine allocates the whole rectangle around the cells of a sheet, and blanks cells with errors.
So it gets a copy of an XLSX in which errors are text, and distant cells moved together.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO, Final, TypeAlias, TypeVar
from xml.etree.ElementTree import Element

from python_calamine import (
    CalamineError,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

from resource_server.conversion.formats.archives import Archive, below, copied
from resource_server.conversion.formats.opendocument import content_of
from resource_server.conversion.intervals import parse_interval
from resource_server.conversion.registry import SHEET_NAMES
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part

MAX_SHEET_BYTES: Final = 8 * 1024 * 1024 - 1024
"""Maximum size of the table of one sheet, without the sentence about the rest."""
MAX_AREA: Final = 5_000_000
"""Maximum number of cells in the rectangle around all cells of a sheet."""
_MAX_OLE_BYTES: Final = 64 * 1024 * 1024
_OLE: Final = b"\xd0\xcf\x11\xe0"
_CELL = re.compile(rb'(<(?:\w+:)?c\s(?:[^>"]*"[^"]*")*?[^>"]*?\br=")([A-Z]{1,3})([0-9]{1,7})(")')
_ROW = re.compile(rb'(<(?:\w+:)?row\s(?:[^>"]*"[^"]*")*?[^>"]*?\br=")([0-9]{1,7})(")')
_COLUMN_REF = re.compile(rb'\sr="([A-Z]{1,3})[0-9]')
_ROW_REF = re.compile(rb'\sr="[A-Z]{0,3}([0-9]{1,7})"')
_FAR_REF = re.compile(rb'\sr="(?:[A-Z]{4}|[A-Z]*[0-9]{8})')
_MAX_ROW: Final = 1_048_576
_MAX_COLUMN: Final = 16_384
_ERROR = re.compile(rb'(<(?:\w+:)?c\s[^>]*\bt=)"e"')

T = TypeVar("T")
Cell: TypeAlias = (
    int
    | float
    | str
    | bool
    | datetime.time
    | datetime.date
    | datetime.datetime
    | datetime.timedelta
)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A sheet, whose rows are read when they are needed."""

    name: str
    rows: Iterable[Sequence[Cell]]
    height: int
    """Number of rows, with the header."""
    is_hidden: bool = False
    is_compacted: bool = False
    """Whether empty rows and columns between its cells are left out."""


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield each sheet as a part. Options: `sheet`, `rows` and `columns`."""
    sheets = workbook(file)
    names = sheets.names
    if request.format == SHEET_NAMES:
        yield from (Part(name, at, len(names), "text/plain") for at, name in enumerate(names, 1))
        return
    wanted = request.options.get("sheet")
    if wanted is not None and wanted not in names:
        raise InvalidParameter(
            f"the document has no sheet {wanted[:40]!r}; its sheets are {', '.join(names)}"
        )
    last = min(request.last or len(names), len(names))
    for number in range(max(request.first, 1), last + 1):
        if wanted is None or names[number - 1] == wanted:
            yield Part(_markdown(sheets.sheet(number - 1), request), number, len(names))


def workbook(file: BinaryIO) -> _Excel | _OpenSheets:
    """Return the sheets of a workbook.

    Raises:
        ConversionError: it is damaged, protected, too large or no workbook.
    """
    head = file.read(len(_OLE))
    file.seek(0)
    if head == _OLE:
        data = file.read(_MAX_OLE_BYTES + 1)
        if len(data) > _MAX_OLE_BYTES:
            raise ConversionError(f"it is larger than {_MAX_OLE_BYTES // 1024**2} MiB")
        return _Excel(io.BytesIO(data), frozenset())
    archive = Archive(file)
    if "content.xml" in archive:
        return _OpenSheets(archive)
    return _Excel(*_safe_copy(archive))


class _Excel:
    """A workbook that calamine reads."""

    def __init__(self, file: BinaryIO, compacted: frozenset[str]) -> None:
        self._compacted = compacted
        self._book = _guarded(lambda: CalamineWorkbook.from_filelike(file))
        # Charts and macros are no tables.
        self._sheets = [
            sheet for sheet in self._book.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet
        ]
        self.names = [sheet.name for sheet in self._sheets]

    def sheet(self, index: int) -> _Sheet:
        """Return a sheet."""
        about = self._sheets[index]
        sheet = _guarded(lambda: self._book.get_sheet_by_name(about.name))
        return _Sheet(
            about.name,
            sheet.iter_rows(),
            sheet.height,
            is_hidden=about.visible != SheetVisibleEnum.Visible,
            is_compacted=about.name in self._compacted,
        )


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


def _safe_copy(archive: Archive) -> tuple[BinaryIO, frozenset[str]]:
    """Return an XLSX with nothing but what calamine needs, and the names of compacted sheets."""
    main = archive.main_part("xl/workbook.xml")
    if main not in archive:
        if main.endswith(".bin") or "xl/workbook.bin" in archive:
            raise ConversionError("it is a binary workbook (XLSB), which is not read")
        raise ConversionError("it is damaged, or no XLSX: its main part is missing")
    relations = archive.relations(main)
    names = {
        relation.target: sheet.get("name", "")
        for sheet in archive.xml(main).iter("x:sheet")
        if (relation := relations.get(sheet.get("r:id", "")))
    }
    members: dict[str, bytes] = {}
    compacted: set[str] = set()
    for name in archive.names:
        if not _is_needed(name, names):
            continue
        data = archive.read(name)
        _refuse_document_type(data)
        if name in names:
            data, is_compacted = _mended(data)
            if is_compacted:
                compacted.add(names[name])
        members[name] = data
    return copied(members), frozenset(compacted)


def _is_needed(name: str, sheets: Mapping[str, str]) -> bool:
    if name in sheets or name == "[Content_Types].xml":
        return True
    folder, base = posixpath.split(name)
    if folder.rpartition("/")[2] == "_rels":
        return base in (".rels", "workbook.xml.rels") or folder.endswith("worksheets/_rels")
    return base in ("workbook.xml", "sharedStrings.xml", "styles.xml")


def _refuse_document_type(data: bytes) -> None:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ConversionError("its XML declares a document type or entities, which are not read")


def _mended(data: bytes) -> tuple[bytes, bool]:
    """Return a sheet whose errors are text, and whether its cells had to move together."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ConversionError("its sheets are not in UTF-8")
    if b't="e"' in data:
        data = _ERROR.sub(rb'\1"str"', data)
    columns, rows = set(_COLUMN_REF.findall(data)), set(map(int, _ROW_REF.findall(data)))
    numbers = [_column_number(column) for column in columns]
    is_outside = max(rows, default=0) > _MAX_ROW or max(numbers, default=0) > _MAX_COLUMN
    if is_outside or _FAR_REF.search(data):
        raise ConversionError("it is damaged: a cell is outside its sheet")
    if not columns or not rows:
        _refuse_area(data.count(b"<"), 1)
        return data, False
    width = max(numbers) - min(numbers) + 1
    if (max(rows) - min(rows) + 1) * width <= MAX_AREA:
        return data, False
    _refuse_area(len(columns), len(rows))
    ranks = {old: at for at, old in enumerate(sorted(rows), 1)}
    order = sorted(columns, key=_column_number)
    letters = {old: _column_letters(at) for at, old in enumerate(order, 1)}
    data = _CELL.sub(
        lambda cell: b"%b%b%d%b" % (cell[1], letters[cell[2]], ranks[int(cell[3])], cell[4]), data
    )
    data = _ROW.sub(lambda row: b"%b%d%b" % (row[1], ranks[int(row[2])], row[3]), data)
    # The declared extent and merged cells are those of the original.
    data = re.sub(rb"<(?:\w+:)?dimension\b[^>]*/>", b"", data)
    data = re.sub(rb"<(?:\w+:)?mergeCell\b[^>]*/>", b"", data)
    return data, True


def _refuse_area(width: int, height: int) -> None:
    if width * height > MAX_AREA:
        raise ConversionError(f"a sheet extends over more than {MAX_AREA:,} cells")


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _column_letters(number: int) -> bytes:
    letters = b""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = bytes([65 + rest]) + letters
    return letters


class _OpenSheets:
    """The sheets of an ODS."""

    def __init__(self, archive: Archive) -> None:
        content = content_of(archive)
        body = below(content, "office:body", "office:spreadsheet")
        if body is None:
            raise ConversionError("it is damaged, or no ODS: it has no spreadsheet")
        self._tables = body.findall("table:table")
        self.names = [table.get("table:name", "") for table in self._tables]
        self._hidden = {
            style.get("style:name", "")
            for style in content.iter("style:style")
            if (properties := style.find("style:table-properties")) is not None
            and properties.get("table:display") == "false"
        }

    def sheet(self, index: int) -> _Sheet:
        """Return a sheet."""
        table = self._tables[index]
        rows = list(_open_rows(table))
        is_hidden = table.get("table:style-name", "") in self._hidden
        return _Sheet(self.names[index], rows, len(rows), is_hidden=is_hidden)


def _open_rows(table: Element) -> Iterator[Sequence[Cell]]:
    """Yield the rows of an ODS table from the first one that is not empty to the last such."""
    empty = area = 0
    for row in table.iter("table:table-row"):
        cells = _open_cells(row)
        count = max(_int(row.get("table:number-rows-repeated", "")), 1)
        if not cells:
            empty += count if area else 0
            continue
        area += (empty + count) * len(cells)
        if area > MAX_AREA:
            raise ConversionError(f"a sheet extends over more than {MAX_AREA:,} cells")
        yield from ([] for _ in range(empty))
        yield from (cells for _ in range(count))
        empty = 0


def _open_cells(row: Element) -> Sequence[Cell]:
    """Return the cells of a row up to the last that is not empty."""
    cells: list[Cell] = []
    empty = 0
    for cell in row:
        if cell.tag not in ("table:table-cell", "table:covered-table-cell"):
            continue
        count = max(_int(cell.get("table:number-columns-repeated", "")), 1)
        value = _open_value(cell)
        if value == "":
            empty += count
            continue
        if len(cells) + empty + count > MAX_AREA:
            raise ConversionError(f"a sheet extends over more than {MAX_AREA:,} cells")
        cells += [""] * empty
        cells += [value] * count
        empty = 0
    return cells


def _open_value(cell: Element) -> Cell:
    kind = cell.get("office:value-type")
    shown = "\n".join("".join(_shown(text)) for text in cell.findall("text:p"))
    if kind == "date":
        return cell.get("office:date-value", shown).replace("T", " ")
    if kind in ("float", "currency") and not shown.startswith(("#", "Err:")):
        try:
            return float(cell.get("office:value", ""))
        except ValueError:
            return shown
    return shown


def _shown(paragraph: Element) -> Iterator[str]:
    yield paragraph.text or ""
    for child in paragraph:
        if child.tag == "text:s":
            yield " " * min(max(_int(child.get("text:c", "")), 1), 100)
        elif child.tag == "text:line-break":
            yield "\n"
        elif child.tag != "office:annotation":
            yield from _shown(child)
        yield child.tail or ""


def _int(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


def _markdown(sheet: _Sheet, request: ConversionRequest) -> str:
    """Return a sheet as a heading and a table."""
    title = f"## {_text(sheet.name)}{' (hidden)' if sheet.is_hidden else ''}\n\n"
    rows = iter(sheet.rows)
    header = next(rows, None)
    if header is None:
        return f"{title}[This sheet is empty.]\n"
    names = [_text(cell) for cell in header]
    first, last = _wanted_rows(request.options.get("rows", ""))
    chosen = _wanted_columns(names, request.options.get("columns", ""))
    taken = islice(rows, first - 1, last)
    if chosen is not None:
        names = [names[at] for at in chosen]
        taken = ([row[at] if at < len(row) else "" for at in chosen] for row in taken)
    table = _table(names, taken, first, sheet.height - 1)
    note = "\n[Empty rows and columns are left out.]\n" if sheet.is_compacted else ""
    return f"{title}{table}{note}"


def _table(names: Sequence[str], rows: Iterable[Sequence[Cell]], first: int, total: int) -> str:
    """Return a Markdown table; where it is too long, a sentence says how to read on."""
    rows = iter(rows)
    sample = list(islice(rows, 1000))
    width = max(len(names), max(map(len, sample), default=0))
    names = [*names, *[""] * (width - len(names))]
    lines = [f"| {' | '.join(names)} |\n", f"|{' --- |' * width}\n"]
    size = sum(map(len, lines))
    for at, row in enumerate(chain(sample, rows), first):
        line = f"| {' | '.join(map(_text, row))} |{'  |' * (width - len(row))}\n"
        size += len(line) if line.isascii() else len(line.encode("utf-8", "replace"))
        if size > MAX_SHEET_BYTES:
            lines.append(f"\n[Rows {at} to {total} do not fit: read them with rows={at}-.]\n")
            break
        lines.append(line)
    return "".join(lines)


_ESCAPED: Final = re.compile(r"[|\\\r\n\t]")


def _text(cell: Cell) -> str:
    """Return a cell as it stands in a table."""
    if isinstance(cell, str):
        return _escaped(cell) if _ESCAPED.search(cell) else cell
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        is_day = cell.hour == cell.minute == cell.second == cell.microsecond == 0
        return cell.date().isoformat() if is_day else cell.isoformat(" ")
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    return str(cell)


def _escaped(text: str) -> str:
    text = text.strip().replace("\\", "\\\\").replace("|", "\\|").replace("\t", " ")
    return "<br>".join(text.splitlines())


def _wanted_rows(option: str) -> tuple[int, int | None]:
    """Return the first and the last of the wanted data rows, counted from 1."""
    if not option:
        return 1, None
    return parse_interval("rows", option)


def _wanted_columns(names: Sequence[str], option: str) -> Sequence[int] | None:
    if not option:
        return None
    wanted = [name.strip() for name in option.split(",")]
    places = {name: at for at, name in reversed(list(enumerate(names)))}
    missing = [name for name in wanted if name not in places]
    if missing:
        raise InvalidParameter(
            f"the sheet has no column {missing[0][:40]!r}; its columns are {', '.join(names)}"
        )
    return [places[name] for name in wanted]
