"""Charts of documents as tables of the values that they were drawn from, and diagrams as lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import below, integer
from resource_server.conversion.formats.blocks import Item, table_of

_MAX_POINTS: Final = 1_000
"""Points of a series that are shown."""
_MAX_SERIES: Final = 50
_MAX_LEVEL: Final = 8
_MAX_NODES: Final = 2_000

_Points = Mapping[int, str]


def chart_html(root: Element) -> str:
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


def diagram_items(root: Element) -> Iterator[Item | str]:
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
