"""Text documents as Markdown: DOCX here, ODT by `opendocument`.

Tracked deletions and hidden text are left out. Comments and text boxes follow the paragraph that
they are anchored in; notes, headers and footers come last. Nothing outside the document is ever
read: links stay links, and pictures are their descriptions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats import opendocument
from resource_server.conversion.formats.archives import Archive, Relation, below, integer
from resource_server.conversion.formats.blocks import (
    Item,
    comment_line,
    flat,
    formatted,
    linked,
    lists_of,
    margin_lines,
    ruby,
    sections_of,
    table_of,
)
from resource_server.conversion.formats.drawings import Drawing, is_hidden, is_picture, picture_text
from resource_server.conversion.formats.formulas import latex_of
from resource_server.conversion.formats.html import markdown_of
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_SPAN = 64
"""Columns of one cell, at most; more is no table that anybody reads."""
_MAX_LEVEL = 8
_MAX_ANCESTORS = 20
"""Styles that a style is based on, at most."""

_TRANSPARENT: Final = frozenset(
    """
    w:ins w:moveTo w:smartTag w:customXml w:sdt w:sdtContent w:fldSimple w:dir w:bdo
    """.split()
)
"""Elements that stand for their content."""
_PICTURES: Final = frozenset("w:drawing w:pict w:object mc:AlternateContent".split())
_CHARACTERS: Final = {
    "w:tab": " ",
    "w:ptab": " ",
    "w:cr": "<br>",
    "w:noBreakHyphen": "\u2011",
}
_SYMBOLS: Final = {"F0FE": "☒", "F0FD": "☒", "F0A8": "☐", "F06F": "☐", "F0FC": "✓", "F0E0": "→"}
"""Of Wingdings: what forms and lists are ticked with."""
_HYPERLINK = re.compile(r'\s*HYPERLINK\s+(?:"([^"]+)"|([^\\\s]\S*))')
_HEADING = re.compile(r"heading ([1-9])$", re.IGNORECASE)


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the document as one part."""
    archive = opendocument.open_archive(file)
    try:
        if "content.xml" in archive:
            html = opendocument.text_html(archive)
        else:
            html = _WordDocument(archive).html()
    except RecursionError:
        raise ConversionError("it is nested too deeply") from None
    text = markdown_of(html)
    if request.first <= 1:
        yield Part(text or "[The document has no text.]\n", 1, 1, is_picture=is_picture(text))


@dataclass(frozen=True, slots=True)
class _Style:
    """The effects of a style on text."""

    heading: int | None = None
    """Level, from 1."""
    is_hidden: bool = False
    is_bold: bool = False
    is_italic: bool = False
    number: tuple[str, int] | None = None
    """The list and the level of its paragraphs."""


@dataclass(slots=True)
class _Field:
    """A field: a code such as `HYPERLINK "…"`, and after it its result."""

    code: str = ""
    is_result: bool = False
    is_link: bool = False


_PLAIN = _Style()


class _WordDocument:
    """The main part of a DOCX, with the parts that it needs."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._main = archive.main_part("word/document.xml", "DOCX")
        self._enter(self._main)
        self._styles = _styles(self._part("styles"))
        self._levels = _levels(self._part("numbering"))
        self._counts: dict[tuple[str, int], int] = {}
        self._fields: list[_Field] = []
        self._joined = ""
        """Text of paragraphs whose ends are deleted: it belongs to the next one."""
        self._boxes: list[Item | str] = []
        """Text boxes, which follow the paragraph that they are anchored in."""
        self._notes: dict[tuple[str, str], int] = {}
        self._commented: set[str] = set()

    def _enter(self, part: str) -> None:
        """Take the references of a part for those of the text that follows."""
        self._relations = self._archive.relations(part)
        self._drawing = Drawing(self._archive, part)

    def _part(self, kind: str) -> Element | None:
        parts = self._archive.related(self._main, kind)
        return self._archive.xml(parts[0]) if parts else None

    def html(self) -> str:
        """Return the text, with the notes at its end."""
        body = self._archive.xml(self._main).find("w:body")
        if body is None:
            raise ConversionError("it is damaged, or no DOCX: it has no body")
        text = lists_of(self._blocks(body)) + "".join(self._note_texts())
        return text + sections_of(("Headers and footers", margin_lines(self._margins(body))))

    def _note_texts(self) -> Iterator[str]:
        found: dict[str, Mapping[str, Element]] = {}
        for (kind, note_id), number in list(self._notes.items()):
            for part in self._archive.related(self._main, f"{kind}s")[:1]:
                if kind not in found:
                    notes = self._archive.xml(part).iter(f"w:{kind}")
                    found[kind] = {note.get("w:id", ""): note for note in notes}
                if (note := found[kind].get(note_id)) is not None:
                    self._enter(part)
                    yield f"<p>[^{number}]: {self._cell(note)}</p>"

    def _margins(self, body: Element) -> Iterator[tuple[str, Element, str]]:
        """Yield the headers and footers that the sections of the document show."""
        relations = self._archive.relations(self._main)
        has_even = _is_on(self._part("settings"), "w:evenAndOddHeaders", False)
        kinds = {"w:headerReference": "Header", "w:footerReference": "Footer"}
        parts: dict[str, str] = {}
        for section in body.iter("w:sectPr"):
            is_shown = {"first": _is_on(section, "w:titlePg", False), "even": has_even}
            for reference in section:
                relation = relations.get(reference.get("r:id", ""))
                if reference.tag not in kinds or relation is None:
                    continue
                if is_shown.get(reference.get("w:type", ""), True):
                    parts.setdefault(relation.target, kinds[reference.tag])
        for part, kind in parts.items():
            if part in self._archive:
                self._enter(part)
                root = self._archive.xml(part)
                yield kind, root, self._cell(root)

    @functools.cached_property
    def _comments(self) -> Mapping[str, Element]:
        root = self._part("comments")
        return {} if root is None else {each.get("w:id", ""): each for each in root}

    def _comment(self, comment_id: str) -> str:
        """Keep a comment, which follows its paragraph."""
        comment = self._comments.get(comment_id)
        if comment is not None and comment_id not in self._commented:
            self._commented.add(comment_id)
            before = self._relations, self._drawing
            self._enter(next(iter(self._archive.related(self._main, "comments"))))
            self._boxes.append(comment_line(comment.get("w:author", ""), self._cell(comment)))
            self._relations, self._drawing = before
        return ""

    def _blocks(self, parent: Element) -> list[Item | str]:
        """Return the paragraphs and tables of an element."""
        found: list[Item | str] = []
        for child in parent:
            if child.tag == "w:p":
                found += self._paragraph(child)
            elif child.tag == "w:tbl":
                found += self._table(child)
            elif child.tag in _TRANSPARENT:
                found += self._blocks(child)
            elif child.tag in ("m:oMath", "m:oMathPara"):
                found.append(f"<p>{_formula(child)}</p>")
            elif child.tag in _PICTURES:
                outer, self._boxes = self._boxes, found
                self._picture(child)
                self._boxes = outer
            elif child.tag == "w:altChunk":
                found.append("<p>[Embedded document not shown]</p>")
        return found

    def _paragraph(self, paragraph: Element) -> Iterable[Item | str]:
        """Return a paragraph and the boxes in it, which may have paragraphs themselves."""
        outer, self._boxes = self._boxes, []
        try:
            return [*self._lines(paragraph), *self._boxes]
        finally:
            self._boxes = outer

    def _lines(self, paragraph: Element) -> Iterable[Item | str]:
        properties = paragraph.find("w:pPr")
        style = self._styles.get(_value(properties, "w:pStyle"), _PLAIN)
        before, self._joined = self._joined, ""
        text = before + self._inline(paragraph, is_hidden=style.is_hidden)
        for _ in range(sum(each.is_link for each in self._fields)):
            text += "</a>"
        for each in self._fields:
            each.is_link = False
        if properties is not None and _is_deleted(properties.find("w:rPr")):
            self._joined = text
            return ()
        level = integer(_value(properties, "w:outlineLvl"), -1) + 1
        heading = level if 1 <= level <= 9 else style.heading
        if not text.strip():
            return ()
        if heading is not None:
            text = re.sub("</?strong>", "", text)
            depth = min(heading, 6)
            return [f"<h{depth}>{text}</h{depth}>"]
        return [self._item(properties, style, text)]

    def _item(self, properties: Element | None, style: _Style, text: str) -> Item | str:
        """Return a paragraph as an item of a list, or by itself."""
        number = style.number
        if properties is not None and (own := properties.find("w:numPr")) is not None:
            number_id = _value(own, "w:numId") or (number[0] if number else "")
            number = (number_id, integer(_value(own, "w:ilvl"), number[1] if number else 0))
        if number is None or number[0] in ("", "0"):
            return f"<p>{text}</p>"
        number_id, level = number[0], min(number[1], _MAX_LEVEL)
        is_numbered, first = self._levels.get(number_id, {}).get(level, (False, 1))
        count = self._counts.get((number_id, level), first - 1) + 1
        self._counts[number_id, level] = count
        for deeper in range(level + 1, _MAX_LEVEL + 1):
            self._counts.pop((number_id, deeper), None)
        return Item(level, count if is_numbered else None, text)

    def _inline(self, parent: Element, *, is_hidden: bool = False) -> str:
        pieces: list[str] = []
        for child in parent:
            tag = child.tag
            if tag == "w:r":
                pieces.append(self._run(child, is_hidden=is_hidden))
            elif tag == "w:hyperlink":
                pieces.append(self._link(child, is_hidden=is_hidden))
            elif tag in _TRANSPARENT:
                pieces.append(self._inline(child, is_hidden=is_hidden))
            elif tag in _PICTURES and not is_hidden:
                pieces.append(self._picture(child))
            elif tag in ("m:oMath", "m:oMathPara") and not is_hidden:
                pieces.append(_formula(child))
        return _merged("".join(pieces))

    def _link(self, link: Element, *, is_hidden: bool) -> str:
        text = self._inline(link, is_hidden=is_hidden)
        relation = self._relations.get(link.get("r:id", ""), Relation("", "", False))
        return linked(text, relation.target) if relation.is_external else text

    def _run(self, run: Element, *, is_hidden: bool) -> str:
        properties = run.find("w:rPr")
        style = _PLAIN
        if properties is not None:
            style = self._styles.get(_value(properties, "w:rStyle"), _PLAIN)
            is_hidden = is_hidden or _is_on(properties, "w:vanish", style.is_hidden)
        text = "".join(self._characters(run, is_hidden=is_hidden))
        if properties is None or text.startswith(("<a ", "</a>")):
            return text
        return formatted(
            text,
            raised=_value(properties, "w:vertAlign") == "superscript",
            struck=_is_on(properties, "w:strike", False),
            emphasis=_is_on(properties, "w:i", style.is_italic),
            strong=_is_on(properties, "w:b", style.is_bold),
        )

    def _characters(self, run: Element, *, is_hidden: bool) -> Iterator[str]:
        for child in run:
            tag = child.tag
            if tag == "w:fldChar":
                yield self._field_text(child, is_hidden=is_hidden)
            elif tag == "w:instrText" and self._fields:
                self._fields[-1].code += child.text or ""
            elif not is_hidden and all(each.is_result for each in self._fields):
                yield self._character(child)

    def _character(self, element: Element) -> str:
        """Return what an element of a run shows."""
        match element.tag:
            case "w:t":
                return escape(element.text or "", quote=False)
            case "w:br":
                return "<br>" if element.get("w:type") in (None, "textWrapping") else ""
            case "w:footnoteReference" | "w:endnoteReference":
                return self._note(element.tag[2:-9], element.get("w:id", ""))
            case "w:commentReference":
                return self._comment(element.get("w:id", ""))
            case "w:ruby":
                base, above = element.findall("w:rubyBase"), element.findall("w:rt")
                return ruby("".join(map(self._inline, base)), "".join(map(self._inline, above)))
            case "w:sym":
                return _SYMBOLS.get(element.get("w:char", "").upper(), "")
            case tag if tag in _PICTURES:
                return self._picture(element)
            case tag if tag in _TRANSPARENT:
                return self._inline(element)
            case tag:
                return _CHARACTERS.get(tag, "")

    def _note(self, kind: str, note_id: str) -> str:
        return f"[^{self._notes.setdefault((kind, note_id), len(self._notes) + 1)}]"

    def _field_text(self, mark: Element, *, is_hidden: bool) -> str:
        """Follow the marks of fields; return what a mark itself shows."""
        kind = mark.get("w:fldCharType")
        if kind == "begin":
            self._fields.append(_Field())
            box = below(mark, "w:ffData", "w:checkBox")
            if box is None or is_hidden:
                return ""
            is_checked = _is_on(box, "w:checked", _is_on(box, "w:default", False))
            return "[x] " if is_checked else "[ ] "
        if not self._fields:
            return ""
        if kind == "separate":
            current = self._fields[-1]
            current.is_result = True
            found = _HYPERLINK.match(current.code)
            if found and not is_hidden:
                current.is_link = True
                return f'<a href="{escape(found[1] or found[2])}">'
        elif kind == "end" and self._fields.pop().is_link:
            return "</a>"
        return ""

    def _picture(self, picture: Element) -> str:
        """Return the description of a picture; keep its text boxes for later."""
        if picture.tag == "mc:AlternateContent":
            chosen = picture.find("mc:Choice")
            if chosen is None or not _is_understood(chosen):
                chosen = picture.find("mc:Fallback")
            return "" if chosen is None else "".join(self._picture(each) for each in chosen)
        for box in _outermost(picture, "w:txbxContent"):
            self._boxes += self._blocks(box)
        graphics = self._drawing.graphics(picture)
        has_text = bool(graphics) or next(picture.iter("w:txbxContent"), None) is not None
        self._boxes += graphics
        art = (escape(each.get("string", ""), quote=False) for each in picture.iter("v:textpath"))
        self._boxes += [f"<p>{text}</p>" for text in art if text]
        return "" if has_text or is_hidden(picture) else picture_text(picture)

    def _table(self, table: Element) -> Iterable[Item | str]:
        rows = [row for row in _descendants(table, "w:tr") if not _is_left_out(row)]
        cells = [list(_descendants(row, "w:tc")) for row in rows]
        if [len(row) for row in cells] == [1]:
            return self._blocks(cells[0][0])
        texts: list[list[str]] = []
        for row, in_row in zip(rows, cells, strict=True):
            before = integer(_value(row.find("w:trPr"), "w:gridBefore"), 0)
            texts.append([""] * min(before, _MAX_SPAN))
            for cell in in_row:
                texts[-1] += self._cells(cell)
        return [table_of(texts)]

    def _cells(self, cell: Element) -> Iterable[str]:
        """Return the text of a cell, and empty ones for the other columns that it spans."""
        properties = cell.find("w:tcPr")
        span = min(max(integer(_value(properties, "w:gridSpan"), 1), 1), _MAX_SPAN)
        if properties is None:
            return [self._cell(cell)]
        merged = properties.find("w:vMerge")
        is_continued = merged is not None and merged.get("w:val", "continue") == "continue"
        is_blank = is_continued or properties.find("w:cellDel") is not None
        return ["" if is_blank else self._cell(cell), *[""] * (span - 1)]

    def _cell(self, cell: Element) -> str:
        return flat(self._blocks(cell))


def _descendants(parent: Element, tag: str) -> Iterator[Element]:
    """Yield the children of a tag, also those in content controls."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag in _TRANSPARENT:
            yield from _descendants(child, tag)


def _is_understood(choice: Element) -> bool:
    return any(element.tag in ("w:txbxContent", "wp:docPr") for element in choice.iter())


def _outermost(parent: Element, tag: str) -> Iterator[Element]:
    for child in parent:
        if child.tag == tag:
            yield child
        else:
            yield from _outermost(child, tag)


def _is_left_out(row: Element) -> bool:
    properties = row.find("w:trPr")
    return properties is not None and (
        properties.find("w:del") is not None or _is_on(properties, "w:hidden", False)
    )


def _is_deleted(properties: Element | None) -> bool:
    return properties is not None and (
        properties.find("w:del") is not None or properties.find("w:moveFrom") is not None
    )


def _is_on(properties: Element | None, name: str, otherwise: bool) -> bool:
    found = properties.find(name) if properties is not None else None
    return otherwise if found is None else found.get("w:val") not in ("0", "false", "off", "none")


def _value(properties: Element | None, name: str) -> str:
    found = properties.find(name) if properties is not None else None
    return "" if found is None else found.get("w:val", "")


def _formula(formula: Element) -> str:
    text = escape(latex_of(formula), quote=False)
    return f"<code>{text}</code>" if "\\" in text or "{" in text else text


def _merged(html: str) -> str:
    """Join neighbours of one format, which Word splits by its revisions."""
    for between in (
        "</em></strong><strong><em>",
        "</strong><strong>",
        "</em><em>",
        "</s><s>",
        "</sup><sup>",
    ):
        html = html.replace(between, "")
    return html


def _styles(root: Element | None) -> Mapping[str, _Style]:
    if root is None:
        return {}
    elements = {style.get("w:styleId", ""): style for style in root.iter("w:style")}
    return {style_id: _style(style_id, elements) for style_id in elements}


def _style(style_id: str, elements: Mapping[str, Element]) -> _Style:
    """Return a style with what it inherits."""
    chain: list[Element] = []
    while style_id in elements and len(chain) < _MAX_ANCESTORS:
        chain.append(elements[style_id])
        style_id = _value(chain[-1], "w:basedOn")
    runs = [style.find("w:rPr") for style in chain]
    paragraphs = [style.find("w:pPr") for style in chain]
    is_character = chain[0].get("w:type") == "character"
    return _Style(
        heading=next((level for each in chain if (level := _heading(each)) is not None), None),
        is_hidden=_inherited(runs, "w:vanish"),
        is_bold=is_character and _inherited(runs, "w:b"),
        is_italic=is_character and _inherited(runs, "w:i"),
        number=_inherited_number(paragraphs),
    )


def _heading(style: Element) -> int | None:
    name = _value(style, "w:name")
    if name.lower() == "title":
        return 1
    if found := _HEADING.match(name):
        return int(found[1])
    level = integer(_value(style.find("w:pPr"), "w:outlineLvl"), 9)
    return level + 1 if 0 <= level < 9 else None


def _inherited(chain: Iterable[Element | None], name: str) -> bool:
    for properties in chain:
        if properties is not None and properties.find(name) is not None:
            return _is_on(properties, name, False)
    return False


def _inherited_number(chain: Iterable[Element | None]) -> tuple[str, int] | None:
    for properties in chain:
        number = properties.find("w:numPr") if properties is not None else None
        if number is not None and (number_id := _value(number, "w:numId")):
            return number_id, integer(_value(number, "w:ilvl"), 0)
    return None


def _levels(root: Element | None) -> Mapping[str, Mapping[int, tuple[bool, int]]]:
    """Return for each list its levels: whether it is numbered, and its first number."""
    if root is None:
        return {}
    abstract: dict[str, dict[int, tuple[bool, int]]] = {}
    for definition in root.iter("w:abstractNum"):
        levels: dict[int, tuple[bool, int]] = {}
        for level in definition.iter("w:lvl"):
            is_numbered = _value(level, "w:numFmt") not in ("bullet", "none", "")
            first = integer(_value(level, "w:start"), 1)
            levels[integer(level.get("w:ilvl", ""), 0)] = (is_numbered, first)
        abstract[definition.get("w:abstractNumId", "")] = levels
    return {
        number.get("w:numId", ""): abstract.get(_value(number, "w:abstractNumId"), {})
        for number in root.iter("w:num")
    }
