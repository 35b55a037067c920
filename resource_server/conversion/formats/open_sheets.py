"""Sheets of ODS workbooks: their cells as values, and what they have beside them as HTML."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import Archive, integer
from resource_server.conversion.formats.blocks import Item, comment_of, sections_of
from resource_server.conversion.formats.opendocument import (
    MarkdownText,
    body_of,
    cells_of,
    content_of,
    rows_of,
)
from resource_server.conversion.formats.row_tables import exact_number
from resource_server.conversion.formats.sheet_parts import column_letters, refuse_area

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
class Sheet:
    """A sheet, whose rows are read when they are needed."""

    name: str
    rows: Iterable[Sequence[Cell]]
    height: int
    """Number of rows, with the header."""
    is_hidden: bool = False
    is_compacted: bool = False
    """Whether empty rows and columns between its cells are left out."""


class OpenSheets:
    """The sheets of an ODS."""

    def __init__(self, archive: Archive) -> None:
        content = content_of(archive)
        self._tables = body_of(content, "ODS", "spreadsheet").findall("table:table")
        self.names = [table.get("table:name", "") for table in self._tables]
        self.charts: Mapping[str, Callable[[], str]] = {}
        self._writer = MarkdownText(archive, content)
        self._hidden = {
            style.get("style:name", "")
            for style in content.iter("style:style")
            if (properties := style.find("style:table-properties")) is not None
            and properties.get("table:display") == "false"
        }

    def sheet(self, index: int) -> Sheet:
        """Return a sheet."""
        table = self._tables[index]
        rows = list(_open_rows(table))
        is_hidden = table.get("table:style-name", "") in self._hidden
        return Sheet(self.names[index], rows, len(rows), is_hidden=is_hidden)

    def remarks(self, index: int) -> str:
        """Return what a sheet has beside its cells, as HTML; headers and footers at the first."""
        table = self._tables[index]
        comments: list[Item] = []
        drawings = [
            block for each in table.findall("table:shapes") for block in self._writer.blocks(each)
        ]
        for place, cell in _open_places(table):
            for child in cell:
                if child.tag == "office:annotation":
                    comments.append(Item(0, None, comment_of(*self._writer.comment(child), place)))
                elif child.tag.startswith("draw:") and (blocks := self._writer.block(child)):
                    drawings += [f"<p>At {place}:</p>", *blocks]
        margins = self._writer.margins() if index == 0 else ()
        return sections_of(
            ("Comments", comments), ("Drawings", drawings), ("Header and footer", margins)
        )


def _open_places(table: Element) -> Iterator[tuple[str, Element]]:
    """Yield the cells that have anything in them, each with its name."""
    at = 1
    for row, rows in rows_of(table):
        column = 1
        for cell, columns in cells_of(row):
            if len(cell):
                yield f"{column_letters(column)}{at}", cell
            column += columns
        at += rows


def _open_rows(table: Element) -> Iterator[Sequence[Cell]]:
    """Yield the rows of an ODS table from the first one that is not empty to the last such."""
    empty = area = 0
    for row, count in rows_of(table):
        cells = _open_cells(row)
        if not cells:
            empty += count if area else 0
            continue
        area += (empty + count) * len(cells)
        refuse_area(area, 1)
        yield from ([] for _ in range(empty))
        yield from (cells for _ in range(count))
        empty = 0


def _open_cells(row: Element) -> Sequence[Cell]:
    """Return the cells of a row up to the last that is not empty."""
    cells: list[Cell] = []
    empty = 0
    for cell, count in cells_of(row):
        value = _open_value(cell)
        if value == "":
            empty += count
            continue
        refuse_area(len(cells) + empty + count, 1)
        cells += [""] * empty
        cells += [value] * count
        empty = 0
    return cells


def _open_value(cell: Element) -> Cell:
    kind = cell.get("office:value-type")
    shown = "\n".join("".join(_shown(text)) for text in cell.findall("text:p"))
    if kind == "date":
        given = cell.get("office:date-value", shown)
        with suppress(ValueError):
            parse = datetime.datetime if "T" in given else datetime.date
            return parse.fromisoformat(given)
        return given.replace("T", " ")
    if kind == "boolean" and (given := cell.get("office:boolean-value")) in ("true", "false"):
        return given == "true"
    if kind in ("float", "currency", "percentage") and not shown.startswith(("#", "Err:")):
        given = cell.get("office:value", "")
        with suppress(ValueError):
            return int(given) if _INTEGER.fullmatch(given) else exact_number(given)
    return shown


_INTEGER: Final = re.compile("-?[0-9]{1,300}")
_BREAKS: Final = {"text:line-break": "\n", "text:tab": "\t"}


def _shown(paragraph: Element) -> Iterator[str]:
    yield paragraph.text or ""
    for child in paragraph:
        if child.tag == "text:s":
            yield " " * min(integer(child.get("text:c", ""), 1), 100)
        elif child.tag in _BREAKS:
            yield _BREAKS[child.tag]
        elif child.tag != "office:annotation":
            yield from _shown(child)
        yield child.tail or ""
