"""PDF as Markdown, page by page, or as pictures of its pages; by PDFium.

Tables of PDF are nothing but words at places. Lines with words in at least three columns, one below
the other, are a table. All other text stays as the library orders it.
"""

from __future__ import annotations

import ctypes
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, BinaryIO, Final

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part
from resource_server.runtime import markdown

# The library has no types.
_library: Any = pypdfium2
_pdfium: Any = pypdfium2.raw

_MAX_SIDE = 1600
"""Pixels of the longer side of a picture."""
_MAX_URI_BYTES = 2048
_MAX_LINKS = 200
"""Links of a page that are shown."""
_MAX_HEADINGS = 10_000
_MAX_ANNOTATIONS = 1_000
"""Annotations of a page that are looked at."""
_MAX_OBJECTS = 10_000
"""Objects of a page without text among which a picture is looked for."""
_MAX_TEXT_BYTES = 64 * 1024
_NO_COMMENTS = frozenset((_pdfium.FPDF_ANNOT_LINK, _pdfium.FPDF_ANNOT_POPUP))
_PASSWORD = 1 << 13
"""The flag of a field whose value nobody is to see."""
_UNSEEN = _pdfium.FPDF_ANNOT_FLAG_HIDDEN | _pdfium.FPDF_ANNOT_FLAG_NOVIEW

_MAX_PIECES: Final = 5_000
"""Pieces of text on a page that are looked at; drawings of single letters have more."""
_MIN_COLUMNS: Final = 3
_MAX_COLUMNS: Final = 40
_MIN_ROWS: Final = 3
_MAX_CELL: Final = 40
"""Mean characters of a cell: columns of prose have more."""
_GAP: Final = 0.9
"""Distance of columns, as a multiple of the height of a line; words are nearer."""
_PITCH: Final = 2.6
"""Distance of rows, likewise."""


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield pages: their text, or with the format `png` their pictures."""
    document = _open(file)
    document.init_forms()
    total = len(document)
    last = min(request.last or total, total)
    if request.format == "png":
        for number in range(request.first, last + 1):
            yield Part(_picture(_page(document, number)), number, total, "image/png")
        return
    headings = _headings(document)
    for number in range(request.first, last + 1):
        text, is_picture = _markdown(document, number, headings.get(number, ()))
        yield Part(text, number, total, is_picture=is_picture)


def _open(file: BinaryIO) -> Any:
    try:
        return _library.PdfDocument(file)
    except _library.PdfiumError as error:
        if "password" in str(error).lower():
            raise ConversionError("it is protected by a password") from None
        raise ConversionError("it is damaged, or no PDF") from None


def _page(document: Any, number: int) -> Any:
    try:
        return document[number - 1]
    except _library.PdfiumError:
        raise ConversionError(f"it is damaged: page {number} cannot be read") from None


def _headings(document: Any) -> Mapping[int, list[tuple[int, str]]]:
    """Return the levels and titles of the outline, by page."""
    found: dict[int, list[tuple[int, str]]] = {}
    for count, item in enumerate(document.get_toc(max_depth=8)):
        if count == _MAX_HEADINGS:
            break
        target = item.get_dest()
        index = target.get_index() if target is not None else None
        title = " ".join(item.get_title().split())
        if index is not None and title:
            found.setdefault(index + 1, []).append((item.level, title))
    return found


def _markdown(
    document: Any, number: int, headings: list[tuple[int, str]] | tuple[()]
) -> tuple[str, bool]:
    """Return the text of a page, and whether that is only in pictures."""
    page = _page(document, number)
    text_page = page.get_textpage()
    text = _page_text(text_page)
    lines = _with_headings(text.split("\n"), headings)
    is_picture = not text and _has_picture(page)
    if not text:
        lines = ["[This page is a picture: it has no text. Read it with format=png.]"]
    links = _links(document, page, text_page)
    parts = [f"## Page {number}", "\n".join(lines)]
    if links:
        parts.append("\n".join(f"- <{link}>" for link in links))
    comments, fields = _annotations(document, page)
    files = _attached(document) if number == 1 else []
    for title, lines in (
        ("Form fields", fields),
        ("Comments", comments),
        ("Attached files, not shown", files),
    ):
        if lines:
            parts += [f"#### {title}", "\n".join(f"- {line}" for line in lines)]
    text_page.close()
    page.close()
    return "\n\n".join(parts) + "\n", is_picture


def _has_picture(page: Any) -> bool:
    objects = islice(page.get_objects(max_depth=4), _MAX_OBJECTS)
    with suppress(_library.PdfiumError):  # a damaged object ends the list
        return any(each.type == _pdfium.FPDF_PAGEOBJ_IMAGE for each in objects)
    return False


def _with_headings(lines: list[str], headings: list[tuple[int, str]] | tuple[()]) -> list[str]:
    """Mark the lines that are titles in the outline; titles that are no line come first."""
    marked = [line.rstrip() for line in lines]
    missing: list[str] = []
    for level, title in headings:
        heading = f"{'#' * min(level + 3, 6)} {title}"
        at = next((at for at, line in enumerate(marked) if " ".join(line.split()) == title), None)
        if at is None:
            missing.append(heading)
        else:
            marked[at] = f"\n{heading}\n"
    return [*missing, *marked]


def _links(document: Any, page: Any, text_page: Any) -> list[str]:
    """Return the addresses that a page links to, each once."""
    found: dict[str, None] = {}
    position, link = ctypes.c_int(0), _pdfium.FPDF_LINK()
    while len(found) < _MAX_LINKS and _pdfium.FPDFLink_Enumerate(page, position, link):
        action = _pdfium.FPDFLink_GetAction(link)
        if action and _pdfium.FPDFAction_GetType(action) == _pdfium.PDFACTION_URI:
            buffer = ctypes.create_string_buffer(_MAX_URI_BYTES)
            size = _pdfium.FPDFAction_GetURIPath(document, action, buffer, _MAX_URI_BYTES)
            if 1 < size <= _MAX_URI_BYTES:
                found[buffer.raw[: size - 1].decode("utf-8", "replace")] = None
    return [uri for uri in found if uri.isprintable() and not set(uri) & set("<> ")]


def _annotations(document: Any, page: Any) -> tuple[list[str], list[str]]:
    """Return the comments on a page, and the fields of forms with their values."""
    comments: list[str] = []
    fields: list[str] = []
    for index in range(min(_pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = _pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = _pdfium.FPDFAnnot_GetSubtype(annotation)
        if _pdfium.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
            pass
        elif kind == _pdfium.FPDF_ANNOT_WIDGET and document.formenv is not None:
            form = document.formenv
            name = _buffered_text(_pdfium.FPDFAnnot_GetFormFieldName, form, annotation)
            value = _buffered_text(_pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)
            is_secret = _pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
            if name and value and not is_secret and f"{name}: {value}" not in fields:
                fields.append(f"{name}: {value}")
        elif kind not in _NO_COMMENTS:
            author = _buffered_text(_pdfium.FPDFAnnot_GetStringValue, annotation, b"T")
            said = _buffered_text(_pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
            if said:
                comments.append(f"{author}: {said}" if author else said)
        _pdfium.FPDFPage_CloseAnnot(annotation)
    return comments, fields


def _buffered_text(read: Any, *arguments: Any) -> str:
    """Return a text that a function of the library writes to a buffer, on one line."""
    buffer = (_pdfium.FPDF_WCHAR * (_MAX_TEXT_BYTES // 2))()
    size = min(read(*arguments, buffer, _MAX_TEXT_BYTES), _MAX_TEXT_BYTES)
    return " ".join(bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace").split())


def _attached(document: Any) -> list[str]:
    """Return the names of the files in a document."""
    names: list[str] = []
    with suppress(_library.PdfiumError):  # a damaged entry ends the list
        numbers = range(min(document.count_attachments(), _MAX_ANNOTATIONS))
        names.extend(document.get_attachment(at).get_name() for at in numbers)
    return [" ".join(name.split()) for name in names]


def _picture(page: Any) -> bytes:
    width, height = page.get_size()
    if not (0 < width < 1e6 and 0 < height < 1e6):
        raise ConversionError("the page has no usable size")
    scale = min(_MAX_SIDE / max(width, height), 4.0)
    bitmap = page.render(scale=scale, may_draw_forms=False)
    buffer = io.BytesIO()
    bitmap.to_pil().save(buffer, "PNG", optimize=False)
    return buffer.getvalue()


@dataclass(slots=True)
class _Box:
    """Words in a line without a wide gap; the axes point right and up."""

    left: float
    bottom: float
    right: float
    top: float

    def add(self, other: _Box) -> None:
        """Grow around another box."""
        self.left, self.right = min(self.left, other.left), max(self.right, other.right)
        self.bottom, self.top = min(self.bottom, other.bottom), max(self.top, other.top)


@dataclass(slots=True)
class _Line:
    """Boxes of one line, from left to right."""

    boxes: list[_Box]
    bottom: float
    top: float


def _page_text(text_page: Any) -> str:
    """Return the text of a page, its tables as Markdown."""
    whole = _normal(text_page.get_text_bounded())
    lines = _lines(text_page)
    tables = list(_tables(text_page, lines)) if lines else []
    if not tables:
        return whole
    pieces: list[str] = []
    words: list[str] = []
    upper: float | None = None
    for begin, end, rows in tables:
        if begin:
            above = (lines[begin].top + lines[begin - 1].bottom) / 2
            pieces.append(_normal(text_page.get_text_bounded(top=upper, bottom=above)))
            words.append(pieces[-1])
        header, *others = rows
        table = markdown.table_head(header) + "".join(map(markdown.table_row, others))
        pieces.append(f"\n{table}")
        words += [cell for row in rows for cell in row]
        upper = lines[end - 1].bottom
        if end < len(lines):
            upper = (upper + lines[end].top) / 2
    if tables[-1][1] < len(lines):
        pieces.append(_normal(text_page.get_text_bounded(top=upper)))
        words.append(pieces[-1])
    # Where text overlaps, a letter could be lost between two places, or be in both.
    if _letters("".join(words)) != _letters(whole):
        return whole
    return "\n".join(piece for piece in pieces if piece).strip()


def _letters(text: str) -> Counter[str]:
    return Counter("".join(text.split()))


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _lines(text_page: Any) -> Sequence[_Line]:
    """Return the lines of a page from top to bottom; none if they do not lie one below another."""
    count = _pdfium.FPDFText_CountRects(text_page, 0, -1)
    if not 2 * _MIN_ROWS <= count <= _MAX_PIECES:
        return ()
    values = [ctypes.c_double() for _ in range(4)]
    boxes: list[_Box] = []
    for index in range(count):
        if _pdfium.FPDFText_GetRect(text_page, index, *values):
            left, top, right, bottom = (each.value for each in values)
            boxes.append(_Box(left, bottom, right, top))
    boxes.sort(key=lambda box: (-box.top - box.bottom, box.left))
    lines: list[_Line] = []
    for box in boxes:
        middle = (box.top + box.bottom) / 2
        if lines and lines[-1].bottom <= middle <= lines[-1].top:
            lines[-1].boxes.append(box)
        else:
            lines.append(_Line([box], box.bottom, box.top))
    for line in lines:
        line.boxes = _joined(line)
    return lines


def _joined(line: _Line) -> list[_Box]:
    """Return the boxes of a line, those with a narrow gap as one."""
    joined: list[_Box] = []
    for box in sorted(line.boxes, key=lambda box: box.left):
        if joined and box.left - joined[-1].right < _GAP * (line.top - line.bottom):
            joined[-1].add(box)
        else:
            joined.append(box)
    return joined


def _tables(
    text_page: Any, lines: Sequence[_Line]
) -> Iterator[tuple[int, int, Sequence[Sequence[str]]]]:
    """Yield the tables: the numbers of the first line and of that after the last, and the rows."""
    begin = 0
    while begin < len(lines):
        end, columns = _extent(lines, begin)
        if end - begin >= _MIN_ROWS:
            rows = [_cells(text_page, line, columns) for line in lines[begin:end]]
            filled = [cell for row in rows for cell in row if cell]
            if sum(map(len, filled)) <= _MAX_CELL * len(filled):
                yield begin, end, rows
                begin = end
                continue
        begin += 1


def _extent(lines: Sequence[_Line], begin: int) -> tuple[int, Sequence[_Box]]:
    """Return the end of the table that begins with a line, and its columns."""
    if len(lines[begin].boxes) < _MIN_COLUMNS:
        return begin, ()
    columns: Sequence[_Box] = [_Box(*_edges(box)) for box in lines[begin].boxes]
    height = lines[begin].top - lines[begin].bottom
    end, label = begin + 1, False
    while end < len(lines):
        line = lines[end]
        wider = _fitted(columns, line)
        if wider is None or lines[end - 1].bottom - line.top > _PITCH * height:
            break
        # A line that is in the first column only may be the text that follows.
        is_label = len(line.boxes) == 1 and line.boxes[0].left < columns[0].right
        if is_label and label:
            break
        label, columns = is_label, wider
        end += 1
    return end - label, columns


def _fitted(columns: Sequence[_Box], line: _Line) -> Sequence[_Box] | None:
    """Return columns that are as wide as a line needs; None if it is of no such table."""
    wider = [_Box(*_edges(column)) for column in columns]
    taken: set[int] = set()
    for box in line.boxes:
        places = [
            at
            for at, column in enumerate(columns)
            if box.left < column.right and column.left < box.right
        ]
        if not places and len(line.boxes) > 1:
            wider.append(_Box(*_edges(box)))  # a column without a name
            continue
        if len(places) != 1 or places[0] in taken:
            return None
        taken.add(places[0])
        wider[places[0]].add(box)
    wider.sort(key=lambda column: column.left)
    are_apart = all(left.right < right.left for left, right in pairwise(wider))
    return wider if are_apart and len(wider) <= _MAX_COLUMNS else None


def _edges(box: _Box) -> tuple[float, float, float, float]:
    return box.left, box.bottom, box.right, box.top


def _cells(text_page: Any, line: _Line, columns: Sequence[_Box]) -> list[str]:
    cells = [""] * len(columns)
    for box in line.boxes:
        at = next(
            at for at, column in enumerate(columns) if column.left <= box.left <= column.right
        )
        # Lines may touch; dots are at the bottom.
        top = box.top - (box.top - box.bottom) / 10
        text = text_page.get_text_bounded(box.left, box.bottom, box.right, top)
        cells[at] = " ".join(text.split())
    return cells
