"""OpenDocument files: text, shapes, comments, charts and margins as HTML, and cells as values."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import BinaryIO, Final, TypeAlias
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import MAX_BYTES, Archive, below, copied, integer
from resource_server.conversion.formats.blocks import (
    Item,
    comment_line,
    comment_of,
    flat,
    formatted,
    linked,
    lists_of,
    margin_lines,
    ruby,
    sections_of,
    table_of,
)
from resource_server.conversion.formats.row_tables import exact_number
from resource_server.conversion.formats.sheet_parts import column_letters, refuse_area
from resource_server.errors import ConversionError

_MAX_REPEATED = 64
"""Columns of one cell, at most."""
_MAX_COPIES = 300_000
"""Cells of a document that are there by repetition only, at most."""
_MAX_SPACES = 100
_MAX_ANCESTORS = 20
_MAX_LEVEL = 10
_LEFT_OUT: Final = frozenset(
    """
    text:tracked-changes office:annotation-end office:forms office:scripts
    office:event-listeners text:sequence-decls text:variable-decls text:user-field-decls
    text:hidden-text presentation:notes svg:title svg:desc text:note-citation
    text:alphabetical-index-source text:table-of-content-source text:dde-connection-decls
    """.split()
)
_CHARACTERS: Final = {"text:tab": " ", "text:line-break": "<br>"}
_BLOCKS: Final = frozenset("text:p text:h text:list table:table".split())

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


def text_html(archive: Archive) -> str:
    """Return an ODT as HTML.

    Raises:
        ConversionError: it is protected by a password, damaged, or over a limit.
    """
    content = content_of(archive)
    body = body_of(content, "ODT", "text")
    writer = MarkdownText(archive, content)
    text = lists_of(writer.blocks(body)) + writer.notes_html()
    return text + sections_of(("Headers and footers", writer.margins()))


def open_archive(file: BinaryIO) -> Archive:
    """Return the archive of a document; one in a single XML file is made the content of one.

    Raises:
        ConversionError: it is protected by a password, damaged, or over a limit.
    """
    head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    if not head.startswith(b"<"):
        return Archive(file)
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConversionError(f"it is larger than {MAX_BYTES // 1024**2} MiB")
    return Archive(copied({"content.xml": data}))


def content_of(archive: Archive) -> Element:
    """Return the root of the content.

    Raises:
        ConversionError: it is protected by a password, damaged, or over a limit.
    """
    if "META-INF/manifest.xml" in archive:
        manifest = archive.read("META-INF/manifest.xml")
        if b"encryption-data" in manifest:
            raise ConversionError("it is protected by a password")
    return archive.xml("content.xml")


def body_of(content: Element, kind: str, *names: str) -> Element:
    """Return the body of a document of a kind, by the names that it may have.

    Raises:
        ConversionError: it is none.
    """
    for name in names:
        body = below(content, "office:body", f"office:{name}")
        if body is not None:
            return body
    raise ConversionError(f"it is damaged, or no {kind}: it has no {names[0]}")


class MarkdownText:
    """Writes elements of a document as HTML; notes are collected."""

    def __init__(self, archive: Archive, content: Element) -> None:
        self._archive = archive
        roots = [archive.xml("styles.xml")] if "styles.xml" in archive else []
        self.roots: Sequence[Element] = [*roots, content]
        """The elements that hold styles, those of the content last."""
        self._styles: dict[tuple[str, str], Element] = {}
        self._numbered: dict[str, set[int]] = {}
        for root in self.roots:
            for style in root.iter("style:style"):
                key = (style.get("style:family", ""), style.get("style:name", ""))
                self._styles[key] = style
            for style in root.iter("text:list-style"):
                self._numbered[style.get("style:name", "")] = {
                    integer(level.get("text:level", ""), 1)
                    for level in style.iter("text:list-level-style-number")
                    if level.get("style:num-format")
                }
        self._properties = functools.cache(self._properties_of)
        self._copies = 0
        self._boxes: list[Item | str] = []
        self._notes: list[str] = []

    def notes_html(self) -> str:
        """Return the notes so far."""
        return "".join(f"<p>[^{at}]: {note}</p>" for at, note in enumerate(self._notes, 1))

    def margins(self) -> Iterator[str]:
        """Yield the headers and footers of the pages."""
        pages = (page for root in self.roots for page in root.iter("style:master-page"))
        yield from margin_lines(
            ("Header" if "header" in each.tag else "Footer", each, flat(self.blocks(each)))
            for page in pages
            for each in page
            if re.fullmatch("style:(header|footer)(-left|-first)?", each.tag)
            and each.get("style:display") != "false"
        )

    def comment(self, annotation: Element) -> tuple[str, str]:
        """Return the author of a comment, and its text as HTML."""
        lines = (child for child in annotation if child.tag in _BLOCKS)
        text = flat([block for line in lines for block in self.block(line)])
        return annotation.findtext("dc:creator") or "", text

    def blocks(self, parent: Element) -> list[Item | str]:
        """Return the paragraphs, lists and tables of an element."""
        found: list[Item | str] = []
        for child in parent:
            found += self.block(child)
        return found

    def block(self, element: Element) -> Sequence[Item | str]:
        """Return an element as paragraphs, lists and tables."""
        is_field = element.get("presentation:class") in ("date-time", "page-number")
        if element.tag in _LEFT_OUT or is_field or _is_hidden_section(element):
            return ()
        match element.tag:
            case "text:p" | "text:h":
                return self._paragraph(element)
            case "text:list":
                return self._list(element, 0, "")
            case "table:table":
                return self._table(element)
            case "draw:frame":
                return self.frame(element)
            case "office:annotation":
                return [comment_line(*self.comment(element))]
            case "draw:object" | "draw:object-ole":
                return self._object(element)
            case _:
                return self.blocks(element)

    def frame(self, frame: Element) -> list[Item | str]:
        """Return the text, the table, the chart or the description of a frame."""
        found = self.blocks(frame)
        if found or frame.find("draw:text-box") is not None:
            return found
        text = next(
            (text for tag in ("svg:desc", "svg:title") if (text := frame.findtext(tag))), ""
        )
        kind = "Image" if frame.find("draw:plugin") is None else "Video or sound"
        if text.strip():
            return [f"<p>[{kind}: {escape(' '.join(text.split()), quote=False)}]</p>"]
        is_object = any(frame.find(tag) is not None for tag in ("draw:image", "draw:plugin"))
        return [f"<p>[{kind} not shown]</p>"] if is_object else []

    def _object(self, element: Element) -> list[Item | str]:
        """Return a chart or a formula, which are documents of their own; others are named."""
        name = f"{element.get('xlink:href', '').removeprefix('./').rstrip('/')}/content.xml"
        root = next(iter(element), None)
        if name in self._archive:
            root = self._archive.xml(name)
        chart = next(root.iter("chart:chart"), None) if root is not None else None
        if root is not None and chart is not None:
            titles = (flat(self.blocks(title)) for title in _titles(chart))
            said = "; ".join(title for title in titles if title)
            tables = [block for each in chart.iter("table:table") for block in self._table(each)]
            return [f"<p>[Chart: {said}]</p>" if said else "<p>[Chart]</p>", *tables]
        if root is not None and root.tag.startswith("math:"):
            source = next(root.iter("math:annotation"), root)  # as its author wrote it
            text = "".join(source.itertext())
            return [f"<p><code>{escape(' '.join(text.split()), quote=False)}</code></p>"]
        return ["<p>[Embedded object not shown]</p>"]

    def _paragraph(self, paragraph: Element) -> list[Item | str]:
        hidden = paragraph.find("text:hidden-paragraph")
        is_hidden, *_ = self._properties("paragraph", paragraph.get("text:style-name", ""))
        if is_hidden or (hidden is not None and hidden.get("text:is-hidden") != "false"):
            return []
        outer, self._boxes = self._boxes, []
        text = self._inline(paragraph)
        boxes, self._boxes = self._boxes, outer
        if not text.strip():
            return boxes
        if paragraph.tag == "text:p":
            return [f"<p>{text}</p>", *boxes]
        level = min(max(integer(paragraph.get("text:outline-level", ""), 1), 1), 6)
        return [f"<h{level}>{text}</h{level}>", *boxes]

    def _inline(self, parent: Element) -> str:
        pieces = [escape(parent.text or "", quote=False)]
        for child in parent:
            if child.tag not in _LEFT_OUT:
                pieces.append(self._inline_element(child))
            pieces.append(escape(child.tail or "", quote=False))
        return "".join(pieces)

    def _inline_element(self, element: Element) -> str:
        match element.tag:
            case "text:span":
                return self._span(element)
            case "text:a":
                text, target = self._inline(element), element.get("xlink:href", "")
                return text if target.startswith("#") else linked(text, target)
            case "text:s":
                return " " * min(max(integer(element.get("text:c", ""), 1), 1), _MAX_SPACES)
            case tag if tag in _CHARACTERS:
                return _CHARACTERS[tag]
            case "text:ruby":
                base, above = element.findall("text:ruby-base"), element.findall("text:ruby-text")
                return ruby("".join(map(self._inline, base)), "".join(map(self._inline, above)))
            case "text:note":
                return self._note(element)
            case "draw:frame" | "office:annotation":
                self._boxes += self.block(element)
                return ""
            case tag if tag in _BLOCKS or tag.startswith("draw:"):
                self._boxes += self.blocks(element)
                return ""
            case _:
                return self._inline(element)

    def _span(self, span: Element) -> str:
        name = span.get("text:style-name", "")
        is_hidden, is_bold, is_italic, is_raised = self._properties("text", name)
        text = "" if is_hidden else self._inline(span)
        return formatted(text, strong=is_bold, emphasis=is_italic, raised=is_raised)

    def _note(self, note: Element) -> str:
        at = len(self._notes)
        self._notes.append("")
        body = note.find("text:note-body")
        if body is not None:
            self._notes[at] = flat(self.blocks(body))
        return f"[^{at + 1}]"

    def _properties_of(self, family: str, name: str) -> tuple[bool, bool, bool, bool]:
        """Return whether a style hides its text, makes it bold, italic, and raised."""
        found: dict[str, str] = {}
        for _ in range(_MAX_ANCESTORS):
            style = self._styles.get((family, name))
            if style is None:
                break
            properties = style.find("style:text-properties")
            if properties is not None:
                found = {**dict(properties.items()), **found}
            name = style.get("style:parent-style-name", "")
        return (
            found.get("text:display") == "none",
            found.get("fo:font-weight") in ("bold", "600", "700", "800", "900"),
            found.get("fo:font-style") in ("italic", "oblique"),
            re.match("super|[1-9]", found.get("style:text-position", "")) is not None,
        )

    def _list(self, element: Element, level: int, style: str) -> list[Item | str]:
        style = element.get("text:style-name", style)
        is_numbered = level + 1 in self._numbered.get(style, ())
        found: list[Item | str] = []
        number = 0
        for entry in element:
            if entry.tag not in ("text:list-item", "text:list-header"):
                continue
            number = integer(entry.get("text:start-value", ""), number + 1)
            lines: list[Item | str] = []
            deeper: list[Item | str] = []
            for child in entry:
                if child.tag == "text:list":
                    deeper += self._list(child, min(level + 1, _MAX_LEVEL), style)
                elif child.tag not in _LEFT_OUT:
                    lines += self.block(child)
            if lines:
                found.append(Item(level, number if is_numbered else None, _item_html(lines)))
            found += deeper
        return found

    def _table(self, table: Element) -> Sequence[Item | str]:
        rows = [self._row(row) for row, _ in rows_of(table)]
        rows = [row for row in rows if any(row)]
        if [len(row) for row in rows] == [1]:
            return [f"<p>{rows[0][0]}</p>"]
        return [table_of(rows)] if rows else []

    def _row(self, row: Element) -> Sequence[str]:
        cells: list[str] = []
        for cell, count in cells_of(row):
            text = flat(self.blocks(cell)) if cell.tag == "table:table-cell" else ""
            cells += [text] * min(count, _MAX_REPEATED)
            self._copies += min(count, _MAX_REPEATED) - 1
            if self._copies > _MAX_COPIES:
                raise ConversionError(f"its tables repeat more than {_MAX_COPIES:,} cells")
        return cells


def rows_of(table: Element) -> Iterator[tuple[Element, int]]:
    """Yield the rows of a table, and how often each is there.

    Those in groups are among them, those of tables inside it are not.
    """
    for child in table:
        if child.tag == "table:table-row":
            yield child, max(integer(child.get("table:number-rows-repeated", ""), 1), 1)
        elif child.tag in ("table:table-rows", "table:table-header-rows", "table:table-row-group"):
            yield from rows_of(child)


def cells_of(row: Element) -> Iterator[tuple[Element, int]]:
    """Yield the cells of a row, and how often each is there."""
    for cell in row:
        if cell.tag in ("table:table-cell", "table:covered-table-cell"):
            yield cell, max(integer(cell.get("table:number-columns-repeated", ""), 1), 1)


def _titles(chart: Element) -> Iterator[Element]:
    return (each for each in chart.iter() if each.tag in ("chart:title", "chart:subtitle"))


def _item_html(lines: Sequence[Item | str]) -> str:
    """Return the blocks of an item; a paragraph alone makes the list tight."""
    if len(lines) == 1 and isinstance(lines[0], str):
        return re.sub("^<p>|</p>$", "", lines[0])
    return lists_of(lines)


def _is_hidden_section(element: Element) -> bool:
    return element.tag == "text:section" and element.get("text:display") == "none"


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
