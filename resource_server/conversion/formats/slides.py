"""Presentations as Markdown, slide by slide: PPTX and ODP."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats import opendocument
from resource_server.conversion.formats.archives import Archive, below
from resource_server.conversion.formats.blocks import Item, comment_of, flat, html_lines, lists_of
from resource_server.conversion.formats.drawings import Drawing, is_picture
from resource_server.conversion.formats.html import markdown_of
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_TITLES: Final = frozenset(("title", "ctrTitle"))
_LEFT_OUT: Final = frozenset(("dt", "sldNum", "sldImg"))
"""Placeholders of dates, numbers and, in notes, of the slide."""
_FOOTERS: Final = {"ftr": "footer", "hdr": "header"}
_LISTS: Final = frozenset(("body", "obj"))
"""Placeholders whose paragraphs are items."""


@dataclass(slots=True)
class _Slide:
    """What a slide shows, as HTML."""

    title: str = ""
    blocks: list[Item | str] = field(default_factory=list[Item | str])
    footers: list[str] = field(default_factory=list[str])
    comments: list[Item | str] = field(default_factory=list[Item | str])
    notes: str = ""
    background: list[Item | str] = field(default_factory=list[Item | str])
    """Texts of the layout and the master, if no slide before has these."""
    is_hidden: bool = False


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the slides in their order."""
    archive = opendocument.open_archive(file)
    slides = _OpenSlides(archive) if "content.xml" in archive else _PowerPoint(archive)
    total = slides.total
    for number in range(max(request.first, 1), min(request.last or total, total) + 1):
        slide = slides.slide(number - 1)
        title = f"<h3>{slide.title}</h3>" if slide.title else ""
        text = markdown_of(title + lists_of([*slide.blocks, *slide.footers])).strip()
        yield Part(_markdown(number, slide, text), number, total, is_picture=is_picture(text))


def _markdown(number: int, slide: _Slide, text: str) -> str:
    pieces = [f"## Slide {number}{' (hidden)' if slide.is_hidden else ''}"]
    pieces.append(text or "[This slide has no text.]")
    if slide.notes:
        pieces += ["#### Notes", markdown_of(slide.notes).strip()]
    if slide.background:
        pieces += ["#### Background", markdown_of(lists_of(slide.background)).strip()]
    if slide.comments:
        pieces += ["#### Comments", markdown_of(lists_of(slide.comments)).strip()]
    return "\n\n".join(pieces) + "\n"


class _PowerPoint:
    """The slides of a PPTX, in the order of its main part."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        main = archive.main_part("ppt/presentation.xml", "PPTX")
        presentation = archive.xml(main)
        if presentation.tag != "p:presentation":
            raise ConversionError("it is damaged, or no PPTX: it has no presentation")
        self._main = main
        relations = archive.relations(main)
        self._names = [
            relation.target
            for element in presentation.iter("p:sldId")
            if (relation := relations.get(element.get("r:id", ""))) and not relation.is_external
        ]
        self.total = len(self._names)

    def slide(self, index: int) -> _Slide:
        """Return a slide."""
        name = self._names[index]
        if name not in self._archive:
            return _Slide(blocks=["<p>[This slide is missing.]</p>"])
        root = self._archive.xml(name)
        drawing = Drawing(self._archive, name)
        slide = _Slide(is_hidden=root.get("show") in ("0", "false"))
        for shape in _shapes(drawing, root):
            _add_shape(slide, shape, drawing)
        if root.get("showMasterSp") not in ("0", "false"):
            slide.background = [
                block for part in self._masters.get(index, ()) for block in self._background(part)
            ]
        for notes in self._archive.related(name, "notesSlide"):
            slide.notes += self._notes(notes)
        for comments in self._archive.related(name, "comments"):
            slide.comments += self._comments(comments)
        return slide

    @functools.cached_property
    def _masters(self) -> Mapping[int, list[str]]:
        """The layouts and masters that no slide before has, by the index of the slide."""
        found: dict[int, list[str]] = {}
        seen: set[str] = set()
        for index, name in enumerate(self._names):
            for layout in self._archive.related(name, "slideLayout"):
                if layout not in seen:
                    masters = self._archive.related(layout, "slideMaster")
                    found[index] = [each for each in (layout, *masters) if each not in seen]
                    seen.update(found[index])
        return found

    def _background(self, name: str) -> Iterator[Item | str]:
        drawing = Drawing(self._archive, name)
        for shape in _shapes(drawing, self._archive.xml(name)):
            if _placeholder(shape) is None and next(shape.iter("a:t"), None) is not None:
                yield from drawing.blocks(shape)

    def _notes(self, name: str) -> str:
        drawing, notes = Drawing(self._archive, name), _Slide()
        for shape in _shapes(drawing, self._archive.xml(name)):
            _add_shape(notes, shape, drawing, is_note=True)
        return lists_of([*notes.blocks, *notes.footers])

    def _comments(self, name: str) -> Iterator[Item]:
        """Yield the comments of a part, in the form up to Office 2019 or that since."""
        for comment in self._archive.xml(name).iter():
            if comment.tag in ("p:cm", "pt:cm", "pt:reply"):
                body = comment.find("pt:txBody")
                texts = comment.findall("p:text") if body is None else body.iter("a:p")
                said = html_lines("\n".join("".join(text.itertext()) for text in texts))
                author = self._authors.get(comment.get("authorId", ""), "")
                level = 1 if comment.tag == "pt:reply" else 0
                yield Item(level, None, comment_of(author, said))

    @functools.cached_property
    def _authors(self) -> Mapping[str, str]:
        parts = [
            part
            for kind in ("commentAuthors", "authors")
            for part in self._archive.related(self._main, kind)
        ]
        return {
            author.get("id", ""): author.get("name", "")
            for part in parts
            for author in self._archive.xml(part)
        }


def _shapes(drawing: Drawing, root: Element) -> Iterator[Element]:
    """Yield the shapes of a slide, also those in groups."""
    tree = below(root, "p:cSld", "p:spTree")
    yield from drawing.shapes(tree if tree is not None else ())


def _add_shape(slide: _Slide, shape: Element, drawing: Drawing, *, is_note: bool = False) -> None:
    kind = _placeholder(shape)
    if kind in _LEFT_OUT:
        return
    blocks = drawing.blocks(shape, is_list=kind in _LISTS and not is_note)
    if kind in _FOOTERS:
        slide.footers += _margin(_FOOTERS[kind or ""], flat(blocks))
    elif kind in _TITLES and not slide.title:
        slide.title = flat(blocks).replace("<br>", " ")
    else:
        slide.blocks += blocks


def _placeholder(shape: Element) -> str | None:
    """Return the kind of a placeholder; None of any other shape."""
    found = next(shape.iter("p:ph"), None)
    return found.get("type", "obj") if found is not None else None


class _OpenSlides:
    """The slides of an ODP."""

    def __init__(self, archive: Archive) -> None:
        content = opendocument.content_of(archive)
        body = opendocument.body_of(content, "ODP", "presentation", "drawing")
        self._pages = body.findall("draw:page")
        self.total = len(self._pages)
        self._writer = opendocument.MarkdownText(archive, content)
        self._margins = {
            each.get("presentation:name", ""): each
            for each in body
            if each.tag in ("presentation:footer-decl", "presentation:header-decl")
        }
        masters = [page.get("draw:master-page-name", "") for page in self._pages]
        self._first = {master: masters.index(master) for master in set(masters) if master}
        self._hidden = {
            style.get("style:name", "")
            for root in self._writer.roots
            for style in root.iter("style:style")
            if (properties := style.find("style:drawing-page-properties")) is not None
            and properties.get("presentation:visibility") == "hidden"
        }

    def slide(self, index: int) -> _Slide:
        """Return a slide."""
        page = self._pages[index]
        slide = _Slide(is_hidden=page.get("draw:style-name", "") in self._hidden)
        for element in page:
            kind = element.get("presentation:class", "")
            if element.tag == "presentation:notes":
                slide.notes = lists_of(self._writer.blocks(element))
            elif element.tag == "office:annotation":
                slide.comments.append(Item(0, None, comment_of(*self._writer.comment(element))))
            elif kind == "title" and not slide.title:
                blocks = self._writer.blocks(element)
                slide.title = re.sub("<br>|</?p>", " ", flat(blocks)).strip()
            elif kind in ("footer", "header"):
                slide.footers += _margin(kind, flat(self._writer.block(element)))
            else:
                slide.blocks += self._writer.block(element)
        master = page.get("draw:master-page-name", "")
        if self._first.get(master) == index:
            slide.background = self._background(master)
        for kind in ("header", "footer"):
            declared = self._margins.get(page.get(f"presentation:use-{kind}-name", ""))
            if declared is not None:
                slide.footers += _margin(kind, html_lines("".join(declared.itertext())))
        return slide

    def _background(self, master: str) -> list[Item | str]:
        pages = (page for root in self._writer.roots for page in root.iter("style:master-page"))
        return [
            block
            for page in pages
            if page.get("style:name") == master
            for element in page
            if "presentation:class" not in element.attrib
            and next(element.iter("text:p"), None) is not None
            for block in self._writer.block(element)
        ]


def _margin(kind: str, text: str) -> list[str]:
    return [f"<p>[{kind.capitalize()}: {text}]</p>"] if text else []
