"""Shapes of Office documents (DrawingML): their text, tables, charts, diagrams and descriptions.

They are those of slides, and of the drawings in text documents and sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import Archive, below, integer
from resource_server.conversion.formats.blocks import Item, flat, formatted, linked, table_of
from resource_server.conversion.formats.charts import chart_html, diagram_items
from resource_server.conversion.formats.formulas import latex_of

_MAX_LEVEL: Final = 8
_GROUPS: Final = frozenset(("grpSp", "lockedCanvas", "wgp", "wpc"))
_SHAPES: Final = frozenset(("sp", "graphicFrame", "pic", "cxnSp"))
_ALTERNATIVES: Final = "mc:AlternateContent"


class Drawing:
    """The shapes that one part of a document has."""

    def __init__(self, archive: Archive, part: str) -> None:
        self._archive = archive
        self._relations = archive.relations(part)

    def shapes(self, group: Iterable[Element]) -> Iterator[Element]:
        """Yield the shapes of a group, also those in groups inside it."""
        for child in group:
            name = local_name(child)
            if child.tag == _ALTERNATIVES:
                choices = (list(self.shapes(each)) for each in child)
                yield from next((found for found in choices if found), ())
            elif name in _GROUPS:
                yield from self.shapes(child)
            elif name in _SHAPES:
                yield child

    def blocks(self, shape: Element, *, is_list: bool = False) -> list[Item | str]:
        """Return what a shape shows."""
        if is_hidden(shape):
            return []
        body = next((child for child in shape if local_name(child) == "txBody"), None)
        if body is not None:
            return list(self.paragraphs(body, is_list=is_list))
        found = self.graphics(shape)
        found += [self._table(table) for table in shape.iter("a:tbl")]
        if not found and local_name(shape) != "cxnSp":
            found.append(f"<p>{picture_text(shape)}</p>")
        return found

    def graphics(self, element: Element) -> list[Item | str]:
        """Return the charts and diagrams in an element, and marks for other objects."""
        found: list[Item | str] = []
        for child in element.iter():
            if child.tag in ("c:chart", "cx:chart") and (root := self._part(child.get("r:id"))):
                found.append(chart_html(root))
            elif child.tag == "dgm:relIds" and (root := self._part(child.get("r:dm"))):
                found += diagram_items(root)
            elif child.tag in ("p:oleObj", "o:OLEObject"):
                program = child.get("progId") or child.get("ProgID") or ""
                about = f": {escape(program, quote=False)}" if program else ""
                found.append(f"<p>[Embedded object not shown{about}]</p>")
        return found

    def _part(self, reference: str | None) -> Element | None:
        relation = self._relations.get(reference or "")
        if relation is None or relation.is_external or relation.target not in self._archive:
            return None
        return self._archive.xml(relation.target)

    def paragraphs(self, body: Element, *, is_list: bool = False) -> Iterator[Item | str]:
        """Yield the paragraphs of a text, and its items of lists."""
        counts: dict[int, int] = {}
        for paragraph in body.iter("a:p"):
            text = "".join(self._inline(paragraph)).strip()
            if not text:
                continue
            properties = paragraph.find("a:pPr")
            level, is_item, numbering = 0, is_list, None
            if properties is not None:
                level = min(integer(properties.get("lvl", "")), _MAX_LEVEL)
                numbering = properties.find("a:buAutoNum")
                is_item = (
                    numbering is not None or properties.find("a:buChar") is not None or is_list
                )
                if properties.find("a:buNone") is not None:
                    is_item = False
            for deeper in [each for each in counts if each > level]:
                del counts[deeper]
            if not is_item:
                counts.clear()
                yield f"<p>{text}</p>"
                continue
            number = None
            if numbering is not None:
                number = counts.get(level, max(integer(numbering.get("startAt", "1")), 1) - 1) + 1
                counts[level] = number
            yield Item(level, number, text)

    def _inline(self, paragraph: Element) -> Iterator[str]:
        for child in paragraph:
            if child.tag in ("a:r", "a:fld"):
                text = escape(child.findtext("a:t") or "", quote=False)
                properties = child.find("a:rPr")
                is_raised = properties is not None and integer(properties.get("baseline", "")) > 0
                text = formatted(text, raised=is_raised)
                link = below(child, "a:rPr", "a:hlinkClick")
                target = self._relations.get(link.get("r:id", "")) if link is not None else None
                if target is not None and target.is_external:
                    text = linked(text, target.target)
                yield text
            elif child.tag == "a:br":
                yield "<br>"
            elif child.tag in (_ALTERNATIVES, "mc:Choice"):
                yield from self._inline(child)
            elif child.tag != "mc:Fallback":
                yield escape("".join(map(latex_of, child.iter("m:oMath"))), quote=False)

    def _table(self, table: Element) -> str:
        rows: list[list[str]] = []
        for row in table.iter("a:tr"):
            cells: list[str] = []
            for cell in row.iter("a:tc"):
                body = cell.find("a:txBody")
                is_merged = "1" in (cell.get("hMerge"), cell.get("vMerge"))
                cells.append("" if body is None or is_merged else flat(self.paragraphs(body)))
            rows.append(cells)
        return table_of(rows)


def local_name(element: Element) -> str:
    """Return the name of an element without its prefix."""
    return element.tag.rpartition(":")[2]


def is_hidden(shape: Element) -> bool:
    """Return whether a shape is not shown."""
    about = _about(shape)
    return about is not None and about.get("hidden") in ("1", "true")


def picture_text(shape: Element) -> str:
    """Return the description of a picture or the like, or a mark that it has none."""
    about = _about(shape)
    if about is None:
        return ""
    said = (about.get(name) for name in ("descr", "title", "alt"))
    description = " ".join(next(filter(None, said), "").split())
    names = {local_name(element) for element in shape.iter()}
    kind = "Video" if "videoFile" in names else "Audio" if "audioFile" in names else "Image"
    if description:
        return f"[{kind}: {escape(description, quote=False)}]"
    is_shown = kind != "Image" or "blip" in names or "imagedata" in names
    return f"[{kind} not shown]" if is_shown else ""


def _about(shape: Element) -> Element | None:
    names = ("cNvPr", "docPr", "shape")
    return next((element for element in shape.iter() if local_name(element) in names), None)
