"""Shapes of Office documents (DrawingML): their text, tables, charts, diagrams and descriptions.

They are those of slides, and of the drawings in text documents and sheets. Charts are tables of the
values that they were drawn from, and diagrams are lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import Archive, below, integer
from resource_server.conversion.formats.blocks import Item, flat, formatted, linked, table_of
from resource_server.conversion.formats.formulas import latex_of

_MAX_LEVEL: Final = 8
_GROUPS: Final = frozenset(("grpSp", "lockedCanvas", "wgp", "wpc"))
_SHAPES: Final = frozenset(("sp", "graphicFrame", "pic", "cxnSp"))
_ALTERNATIVES: Final = "mc:AlternateContent"
_MAX_POINTS: Final = 1_000
"""Points of a series that are shown."""
_MAX_SERIES: Final = 50
_MAX_NODES: Final = 2_000
_PICTURES: Final = re.compile(r"(?:\[Image(?:: [^][]*| not shown)\]\s*)+")

_Points = Mapping[int, str]


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
                found.append(_chart_html(root))
            elif child.tag == "dgm:relIds" and (root := self._part(child.get("r:dm"))):
                found += _diagram_items(root)
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


def is_picture(text: str) -> bool:
    """Return whether Markdown has descriptions of pictures, or marks of them, and no text."""
    return _PICTURES.fullmatch(text) is not None


def _about(shape: Element) -> Element | None:
    names = ("cNvPr", "docPr", "shape")
    return next((element for element in shape.iter() if local_name(element) in names), None)


def _chart_html(root: Element) -> str:
    """Return the titles and the values of a chart, a column for each series."""
    is_new = root.tag == "cx:chartSpace"
    series = list(_new_series(root) if is_new else _series(root))[:_MAX_SERIES]
    labels: dict[int, str] = {}
    for _, own, _ in series:
        labels = {**own, **labels}
    numbers = sorted({at for points in (labels, *(each[2] for each in series)) for at in points})
    rows: list[Sequence[str]] = [["", *(name for name, _, _ in series)]]
    rows += (
        [labels.get(at, ""), *(points.get(at, "") for _, _, points in series)] for at in numbers
    )
    prefix = "cx" if is_new else "c"
    titles = filter(None, (_title(each) for each in root.iter(f"{prefix}:title")))
    said = escape("; ".join(titles), quote=False)
    heading = f"<p>[Chart: {said}]</p>" if said else "<p>[Chart]</p>"
    if len(rows) > 1:
        return heading + table_of(rows)
    ranges = dict.fromkeys(each.text or "" for each in root.iter() if each.tag in ("c:f", "cx:f"))
    places = escape(", ".join(filter(None, list(ranges)[:_MAX_SERIES])), quote=False)
    return heading + (f"<p>[Its values are not stored with it: {places}]</p>" if places else "")


def _title(title: Element) -> str:
    tags = ("a:t", "c:v", "cx:v")
    return " ".join("".join(each.text or "" for each in title.iter() if each.tag in tags).split())


def _series(root: Element) -> Iterator[tuple[str, _Points, _Points]]:
    """Yield the name of each series, its labels and its values, both by number."""
    for each in root.iter("c:ser"):
        name = " ".join(_points(_within(each, "c:tx")).values())
        if not name:
            name = escape(_within(each, "c:tx").findtext("c:v") or "", quote=False)
        labels = {**_points(_within(each, "c:cat")), **_points(_within(each, "c:xVal"))}
        values = _points(_within(each, "c:val")) or _points(_within(each, "c:yVal"))
        sizes = _points(_within(each, "c:bubbleSize"))
        sized = {at: f"{values[at]} ({size})" for at, size in sizes.items() if at in values}
        yield name, labels, {**values, **sized}


def _new_series(root: Element) -> Iterator[tuple[str, _Points, _Points]]:
    """Yield the series of a chart of the kinds that came with Office 2016, such as waterfalls."""
    data = {each.get("id"): each for each in root.iter("cx:data")}
    for each in root.iter("cx:series"):
        reference = each.find("cx:dataId")
        own = data.get(reference.get("val") if reference is not None else None, Element("none"))
        labels: dict[int, list[str]] = {}
        for level in (level for strings in own.findall("cx:strDim") for level in strings):
            for at, text in _numbered(level.iter("cx:pt")).items():
                labels.setdefault(at, []).insert(0, text)
        numbers = own.find("cx:numDim")
        values = _numbered((Element("none") if numbers is None else numbers).iter("cx:pt"))
        name = escape(_title(_within(each, "cx:tx")), quote=False)
        yield name, {at: " / ".join(texts) for at, texts in labels.items()}, values


def _diagram_items(root: Element) -> Iterator[Item | str]:
    """Yield the texts of a diagram (SmartArt) as items of a list, by their hierarchy."""
    points = {each.get("modelId", ""): each for each in root.iter("dgm:pt")}
    below_of: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter("dgm:cxn"):
        if link.get("type", "parOf") == "parOf":
            place = (integer(link.get("srcOrd", "")), link.get("destId", ""))
            below_of.setdefault(link.get("srcId", ""), []).append(place)
    # Labels of connections and points that nothing leads to come last.
    others = [(0, name) for name, each in points.items() if _is_text(each)]
    waiting = [(-1, name) for name, each in points.items() if each.get("type") == "doc"]
    waiting = [*reversed(others), *reversed(waiting)]
    seen: set[str] = set()
    while waiting:
        level, name = waiting.pop()
        if name in seen or name not in points or len(seen) > _MAX_NODES:
            continue
        seen.add(name)
        if text := _node_text(points[name]):
            yield Item(min(max(level, 0), _MAX_LEVEL), None, text)
        inner = sorted(below_of.get(name, ()), reverse=True)
        waiting += [(level + 1, each) for _, each in inner]


def _is_text(point: Element) -> bool:
    return point.get("type") != "pres" and bool(_node_text(point))


def _node_text(point: Element) -> str:
    lines = (
        "".join(text.text or "" for text in paragraph.iter("a:t"))
        for paragraph in _within(point, "dgm:t").iter("a:p")
    )
    return "<br>".join(escape(line, quote=False) for line in lines if line.strip())


def _within(element: Element, *names: str) -> Element:
    found = below(element, *names)
    return Element("none") if found is None else found


def _points(values: Element) -> _Points:
    """Return the values that a reference to a sheet had, by number."""
    levels = [_numbered(level.iter("c:pt"), "c:v") for level in values.iter("c:lvl")]
    if not levels:
        return _numbered(values.iter("c:pt"), "c:v")
    # Labels of several levels; the outer ones stand at the first point that they are for.
    return {
        at: " / ".join(level[at] for level in reversed(levels) if at in level)
        for at in sorted({at for level in levels for at in level})
    }


def _numbered(points: Iterator[Element], value: str = "") -> _Points:
    found: dict[int, str] = {}
    for point in points:
        index = point.get("idx", "")
        if re.fullmatch("[0-9]{1,6}", index) and len(found) < _MAX_POINTS:
            text = point.findtext(value) if value else point.text
            found[int(index)] = escape(text or "", quote=False)
    return found
