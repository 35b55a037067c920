"""Presentations as Markdown, slide by slide: PPTX and ODP."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats import opendocument
from resource_server.conversion.formats.archives import Archive, Relation, below
from resource_server.conversion.formats.charts import chart_html
from resource_server.conversion.formats.formulas import latex_of
from resource_server.conversion.formats.html import markdown_of
from resource_server.conversion.formats.opendocument import Item, flat, lists_of, table_of
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_LEVEL = 8
_TITLES: Final = frozenset(("title", "ctrTitle"))
_LEFT_OUT: Final = frozenset(("dt", "ftr", "sldNum", "hdr", "sldImg"))
"""Placeholders of dates, footers and numbers."""
_LISTS: Final = frozenset(("body", "obj"))
"""Placeholders whose paragraphs are items."""


@dataclass(slots=True)
class _Slide:
    """What a slide shows, as HTML."""

    title: str = ""
    blocks: list[Item | str] = field(default_factory=list[Item | str])
    notes: str = ""
    is_hidden: bool = False


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the slides in their order."""
    archive = Archive(file)
    slides = _OpenSlides(archive) if "content.xml" in archive else _PowerPoint(archive)
    total = slides.total
    for number in range(max(request.first, 1), min(request.last or total, total) + 1):
        yield Part(_markdown(number, slides.slide(number - 1)), number, total)


def _markdown(number: int, slide: _Slide) -> str:
    title = f"<h3>{slide.title}</h3>" if slide.title else ""
    text = markdown_of(title + lists_of(slide.blocks)).strip()
    pieces = [f"## Slide {number}{' (hidden)' if slide.is_hidden else ''}"]
    pieces.append(text or "[This slide has no text.]")
    if slide.notes:
        pieces += ["#### Notes", markdown_of(slide.notes).strip()]
    return "\n\n".join(pieces) + "\n"


class _PowerPoint:
    """The slides of a PPTX, in the order of its main part."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        main = archive.main_part("ppt/presentation.xml")
        if main not in archive:
            raise ConversionError("it is damaged, or no PPTX: its main part is missing")
        presentation = archive.xml(main)
        if presentation.tag != "p:presentation":
            raise ConversionError("it is damaged, or no PPTX: it has no presentation")
        relations = archive.relations(main)
        self._names = [
            relation.target
            for element in presentation.iter("p:sldId")
            if (relation := relations.get(element.get("r:id", ""))) and not relation.is_external
        ]

    @property
    def total(self) -> int:
        """Number of slides."""
        return len(self._names)

    def slide(self, index: int) -> _Slide:
        """Return a slide."""
        name = self._names[index]
        if name not in self._archive:
            return _Slide(blocks=["<p>[This slide is missing.]</p>"])
        root = self._archive.xml(name)
        relations = self._archive.relations(name)
        slide = _Slide(is_hidden=root.get("show") in ("0", "false"))
        for shape in _shapes(root):
            _add_shape(slide, shape, relations)
            for chart in shape.iter("c:chart"):
                relation = relations.get(chart.get("r:id", ""))
                if relation is not None and relation.target in self._archive:
                    slide.blocks.append(chart_html(self._archive.xml(relation.target)))
        for relation in relations.values():
            if relation.kind == "notesSlide" and relation.target in self._archive:
                slide.notes = _notes(self._archive.xml(relation.target))
        return slide


def _shapes(root: Element) -> Iterator[Element]:
    """Yield the shapes of a slide, also those in groups."""
    tree = below(root, "p:cSld", "p:spTree")
    yield from _grouped(tree if tree is not None else ())


def _grouped(group: Iterable[Element]) -> Iterator[Element]:
    for child in group:
        if child.tag in ("p:grpSp", "mc:AlternateContent", "mc:Choice"):
            yield from _grouped(child)
        elif child.tag in ("p:sp", "p:graphicFrame", "p:pic", "p:cxnSp"):
            yield child


def _add_shape(slide: _Slide, shape: Element, links: Mapping[str, Relation]) -> None:
    about = next(shape.iter("p:cNvPr"), None)
    kind = _placeholder(shape)
    if kind in _LEFT_OUT or (about is not None and about.get("hidden") in ("1", "true")):
        return
    body = shape.find("p:txBody")
    if body is not None:
        blocks = list(_paragraphs(body, links, is_list=kind in _LISTS))
        if kind in _TITLES and not slide.title:
            slide.title = flat(blocks).replace("<br>", " ")
        else:
            slide.blocks += blocks
        return
    tables = [_table(table, links) for table in shape.iter("a:tbl")]
    slide.blocks += tables
    description = " ".join(about.get("descr", "").split()) if about is not None else ""
    if description and not tables:
        slide.blocks.append(f"<p>[Image: {escape(description, quote=False)}]</p>")


def _placeholder(shape: Element) -> str | None:
    """Return the kind of a placeholder; None of any other shape."""
    found = next(shape.iter("p:ph"), None)
    return found.get("type", "obj") if found is not None else None


def _paragraphs(
    body: Element, links: Mapping[str, Relation], *, is_list: bool = False
) -> Iterator[Item | str]:
    counts: dict[int, int] = {}
    for paragraph in body.iter("a:p"):
        text = "".join(_inline(paragraph, links)).strip()
        if not text:
            continue
        properties = paragraph.find("a:pPr")
        level, is_item, numbering = 0, is_list, None
        if properties is not None:
            level = min(_int(properties.get("lvl", "")), _MAX_LEVEL)
            numbering = properties.find("a:buAutoNum")
            is_item = numbering is not None or properties.find("a:buChar") is not None or is_list
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
            number = counts.get(level, max(_int(numbering.get("startAt", "1")), 1) - 1) + 1
            counts[level] = number
        yield Item(level, number, text)


def _inline(paragraph: Element, links: Mapping[str, Relation]) -> Iterator[str]:
    for child in paragraph:
        if child.tag in ("a:r", "a:fld"):
            text = escape(child.findtext("a:t") or "", quote=False)
            link = below(child, "a:rPr", "a:hlinkClick")
            target = links.get(link.get("r:id", "")) if link is not None else None
            if target is not None and target.is_external and text.strip():
                text = f'<a href="{escape(target.target)}">{text}</a>'
            yield text
        elif child.tag == "a:br":
            yield "<br>"
        elif child.tag in ("mc:AlternateContent", "mc:Choice"):
            yield from _inline(child, links)
        elif child.tag != "mc:Fallback":
            yield escape("".join(map(latex_of, child.iter("m:oMath"))), quote=False)


def _table(table: Element, links: Mapping[str, Relation]) -> str:
    rows: list[list[str]] = []
    for row in table.iter("a:tr"):
        cells: list[str] = []
        for cell in row.iter("a:tc"):
            body = cell.find("a:txBody")
            is_merged = "1" in (cell.get("hMerge"), cell.get("vMerge"))
            cells.append("" if body is None or is_merged else flat(_paragraphs(body, links)))
        rows.append(cells)
    return table_of(rows)


def _notes(root: Element) -> str:
    texts = (
        lists_of(_paragraphs(body, {}))
        for shape in _shapes(root)
        if _placeholder(shape) not in _LEFT_OUT and (body := shape.find("p:txBody")) is not None
    )
    return "".join(texts)


def _int(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else 0


class _OpenSlides:
    """The slides of an ODP."""

    def __init__(self, archive: Archive) -> None:
        content = opendocument.content_of(archive)
        body = below(content, "office:body", "office:presentation")
        if body is None:
            raise ConversionError("it is damaged, or no ODP: it has no presentation")
        self._pages = body.findall("draw:page")
        roots = opendocument.style_roots(archive, content)
        self._writer = opendocument.MarkdownText(roots)
        self._hidden = {
            style.get("style:name", "")
            for root in roots
            for style in root.iter("style:style")
            if (properties := style.find("style:drawing-page-properties")) is not None
            and properties.get("presentation:visibility") == "hidden"
        }

    @property
    def total(self) -> int:
        """Number of slides."""
        return len(self._pages)

    def slide(self, index: int) -> _Slide:
        """Return a slide."""
        page = self._pages[index]
        slide = _Slide(is_hidden=page.get("draw:style-name", "") in self._hidden)
        for element in page:
            kind = element.get("presentation:class", "")
            if element.tag == "presentation:notes":
                slide.notes = lists_of(self._writer.blocks(element))
            elif kind == "title" and not slide.title:
                blocks = self._writer.blocks(element)
                slide.title = re.sub("<br>|</?p>", " ", flat(blocks)).strip()
            elif kind not in ("date-time", "footer", "header", "page-number"):
                slide.blocks += self._writer.block(element)
        return slide
