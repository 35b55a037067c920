"""Tables of PDF pages, which are nothing but words at places: found by the gaps between them.

Lines with words in at least three columns, one below the other, are a table. All other text stays
as the library orders it.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from resource_server.runtime import markdown

_pdfium: Any = pypdfium2.raw

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


def text_of(text_page: Any) -> str:
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
