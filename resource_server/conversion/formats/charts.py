"""Charts of Office documents as tables: the values that they were drawn from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import below
from resource_server.conversion.formats.opendocument import table_of

_MAX_POINTS: Final = 1_000
"""Points of a series that are shown."""
_MAX_SERIES: Final = 50


def chart_html(root: Element) -> str:
    """Return the title and the values of a chart, a column for each series."""
    title = "".join(text.text or "" for text in _within(root, "c:chart", "c:title").iter("a:t"))
    series = list(root.iter("c:ser"))[:_MAX_SERIES]
    names = [_only(_points(_within(each, "c:tx"))) for each in series]
    values = [
        _points(_within(each, "c:val")) or _points(_within(each, "c:yVal")) for each in series
    ]
    labels: dict[int, str] = {}
    for each in series:
        labels = {**_points(_within(each, "c:cat")), **_points(_within(each, "c:xVal")), **labels}
    numbers = sorted({at for points in (labels, *values) for at in points})
    rows = [
        ["", *names],
        *([labels.get(at, ""), *(points.get(at, "") for points in values)] for at in numbers),
    ]
    heading = f"<p>[Chart: {escape(title, quote=False)}]</p>" if title.strip() else ""
    return heading + (table_of(rows) if len(rows) > 1 else "")


def _within(element: Element, *names: str) -> Element:
    found = below(element, *names)
    return Element("none") if found is None else found


def _points(values: Element) -> Mapping[int, str]:
    """Return the values that a reference to a sheet had, by number."""
    found: dict[int, str] = {}
    for point in values.iter("c:pt"):
        index = point.get("idx", "")
        if re.fullmatch("[0-9]{1,6}", index) and len(found) < _MAX_POINTS:
            found[int(index)] = escape(point.findtext("c:v") or "", quote=False)
    return found


def _only(points: Mapping[int, str]) -> str:
    return " ".join(points.values())
