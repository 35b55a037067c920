"""Charts of rows: bars, or lines over time, as Vega-Lite specifications and as pictures of these.

The rows are data, whose fields have names of this module: names and values of a database become
labels and titles, never fields, marks or expressions. `svg` and `png` need the extra `charts`.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from resource_server import uris
from resource_server.conversion import registry
from resource_server.errors import InvalidParameter
from resource_server.provider import Content, Format
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.formats.pages import (
    RenderedPage,
    RowPage,
    cell_text,
    query_columns,
    unique_names,
)
from resource_server.providers.database.formats.values import Blob, TruncatedText, json_value
from resource_server.runtime import extras

VEGA_LITE: Final = Format(
    "vega-lite", "application/vnd.vegalite.v5+json", "A chart, as its specification"
)
_PICTURES: Final = (
    Format("svg", "image/svg+xml", "A chart"),
    Format("png", "image/png", "A chart"),
)
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in (VEGA_LITE, *_PICTURES)}
"""The formats of charts by name, also those whose packages are not installed."""
MAX_MARKS: Final = 500
"""Maximum bars, or points of lines, of one chart."""

_MAX_LABEL: Final = 30
_MAX_LABELS: Final = 50
"""Maximum labels of an axis: a renderer measures each of them, which takes it milliseconds."""
_MAX_TITLE: Final = 120
_TIME: Final = re.compile(
    r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?)?", re.ASCII
)

_Values: TypeAlias = Sequence[object]

_encode = msgspec.json.Encoder().encode


class _Places(NamedTuple):
    """Columns of a chart, by their place in the rows."""

    x: int | None
    y: int
    color: int | None


def offered() -> Sequence[Format]:
    """Return the formats whose packages are installed."""
    return tuple(FORMATS.values()) if has_pictures() else (VEGA_LITE,)


@functools.cache
def has_pictures() -> bool:
    """Return whether the packages for pictures are installed."""
    return not extras.missing("charts")


def draw(specification: Content, name: str) -> Content:
    """Return the picture of a specification, drawn by a worker. Blocks.

    Raises:
        ConversionError, ResourceBusy: as `ConverterPool.convert`.
    """
    # Imported here: most databases never draw.
    from resource_server.conversion import pool

    with tempfile.TemporaryFile() as file:
        file.write(str(specification.data).encode())
        file.seek(0)
        request = ConversionRequest(media_type=VEGA_LITE.mime_type, format=name)
        (part,) = pool.shared().convert(registry.CHARTS, file.fileno(), request).parts
    return msgspec.structs.replace(specification, data=part.data, mime_type=part.mime_type)


def write_chart(page: RowPage, *, max_bytes: int) -> RenderedPage:
    """Return the specification of a chart of the first rows, as many as it may have.

    Raises:
        InvalidParameter: a summary has no numbers, or is grouped by more than two columns.
    """
    page = _with_numbers(page)
    count = min(len(page.rows), MAX_MARKS)
    while True:
        is_cut = page.more or count < len(page.rows)
        data = _encode(_specification(page, page.rows[:count], is_cut=is_cut))
        if len(data) <= max_bytes or count <= 1:
            return RenderedPage(data.decode(), VEGA_LITE.mime_type, count, is_cut)
        count //= 2


def has_numbers(page: RowPage) -> bool:
    """Return whether the rows themselves are drawn, and not how often their first values occur."""
    columns = list(zip(*page.rows, strict=True))
    return not columns or page.groupings is not None or any(map(_are_numbers, columns))


def _with_numbers(page: RowPage) -> RowPage:
    """Return rows that have numbers: of a result without, the counts of its first column."""
    if has_numbers(page):
        return page
    columns = list(zip(*page.rows, strict=True))
    counts = Counter(_label(value, page.columns[0]) for value in columns[0])
    named = query_columns([page.columns[0].name, "count"])
    return structs.replace(page, columns=named, rows=counts.most_common(), groupings=1)


def _specification(page: RowPage, rows: Sequence[_Values], *, is_cut: bool) -> Mapping[str, Any]:
    columns = list(zip(*rows, strict=True)) or [()] * len(page.columns)
    places = _places(page, columns)
    names = [
        _line(name, _MAX_LABEL)
        for name in unique_names(tuple([each.name for each in page.columns]))
    ]
    times = None if places.x is None else _times(columns[places.x])
    labels = times or _labels(page, columns, places.x)
    colors = _labels(page, columns, places.color)
    data: list[dict[str, object]] = []
    seen = Counter[object]()
    for x, y, color in zip(labels, columns[places.y], colors, strict=True):
        seen[x, color] += 1
        if times is None and (again := seen[x, color]) > 1:
            x = f"{x or ''} ({again})"
        data.append({"x": x, "y": _number(y), **({} if places.color is None else {"color": color})})
    x_axis: dict[str, Any] = {"field": "x", "title": "" if places.x is None else names[places.x]}
    encoding: dict[str, Any] = {
        "x": x_axis,
        "y": {"field": "y", "type": "quantitative", "title": names[places.y], "stack": None},
    }
    if places.color is not None:
        encoding["color"] = {
            "field": "color",
            "type": "nominal",
            "title": names[places.color],
            "legend": {"labelLimit": 0, "symbolLimit": 30},
        }
    if times:
        x_axis |= {"type": "temporal", "scale": {"type": "utc"}}
    else:
        named = list(dict.fromkeys(row["x"] for row in data))
        x_axis |= {"type": "nominal", "sort": None, "axis": {"labelLimit": 0}}
        if len(named) > _MAX_LABELS:
            x_axis["axis"]["values"] = named[:: -(-len(named) // _MAX_LABELS)]
        if places.color is not None:
            encoding["xOffset"] = {"field": "color", "type": "nominal"}
    undrawn = sum(row["y"] is None or (times is not None and row["x"] is None) for row in data)
    notes = [
        _line(page.condition, _MAX_TITLE),
        f"{undrawn} without a number or a time are not drawn" if undrawn else "",
        f"the first {len(rows)}, more follow" if is_cut else "",
    ]
    title = page.title if page.groupings is None else f"{page.title}: {names[places.y]}"
    if page.groupings:
        title += f" by {', '.join(names[: page.groupings])}"
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": _line(title, _MAX_TITLE), "subtitle": [each for each in notes if each]},
        "width": 640,
        "height": 320,
        "data": {"values": data},
        "mark": {"type": "line", "point": True, "aria": False}
        if times
        else {"type": "bar", "aria": False},
        "encoding": encoding,
    }


def _labels(page: RowPage, columns: Sequence[_Values], place: int | None) -> _Values:
    if place is None:
        return [None] * len(columns[0])
    return [_label(each, page.columns[place]) for each in columns[place]]


def _places(page: RowPage, columns: Sequence[_Values]) -> _Places:
    """Return the columns to draw: of a summary its first aggregate, else the last with numbers."""
    groups, last = page.groupings, len(columns) - 1
    if groups is not None and groups > 2:
        raise InvalidParameter("a chart has at most two groupings; leave out columns of by")
    ordered = range(last, -1, -1) if groups is None else (*range(groups + 1, last + 1), groups)
    y = next((each for each in ordered if _are_numbers(columns[each])), None)
    if y is None and any(columns):
        named = ", ".join(_line(each.name, _MAX_LABEL) for each in page.columns[:10])
        raise InvalidParameter(f"a chart needs a column of numbers; the result has {named}")
    y = ordered[-1] if y is None else y
    others = [each for each in range(last + 1 if groups is None else groups) if each != y]
    times = [each for each in others if _times(columns[each])]
    x = next(iter((*times, *others)), None)
    colors = [each for each in others if groups is not None or not _are_numbers(columns[each])]
    return _Places(x, y, next((each for each in colors if each != x), None))


def _are_numbers(values: _Values) -> bool:
    given = [each for each in values if each is not None]
    return bool(given) and all(
        isinstance(each, int | float | Decimal) and not isinstance(each, bool) for each in given
    )


def _number(value: Any) -> float | int | None:
    """Return a finite number, exact if JavaScript has it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return value if isinstance(value, int) and abs(value) < 2**53 else number


def _times(values: _Values) -> Sequence[datetime.datetime | None] | None:
    """Return the times of a column, or None if some of its values are none."""
    times = [_time(each) for each in values]
    is_whole = all(
        time is not None or each is None for time, each in zip(times, values, strict=True)
    )
    return times if is_whole and any(times) else None


def _time(value: object) -> datetime.datetime | None:
    try:
        if isinstance(value, str) and len(value) <= 32 and _TIME.fullmatch(value):
            value = datetime.datetime.fromisoformat(value if len(value) > 7 else f"{value}-01")
        if isinstance(value, datetime.datetime):
            is_local = value.tzinfo is None
            return (
                value.replace(tzinfo=datetime.UTC) if is_local else value.astimezone(datetime.UTC)
            )
        if isinstance(value, datetime.date):
            return datetime.datetime.combine(value, datetime.time(), datetime.UTC)
    except (ValueError, OverflowError):
        pass
    return None


def _label(value: object, column: Column) -> str | None:
    match json_value(value, column, cell=_MAX_LABEL):
        case None:
            return None
        case Blob(bytes=size):
            return f"blob, {size} bytes"
        case TruncatedText(text=text):
            return _line(f"{text}…", _MAX_LABEL)
        case form:
            return _line(cell_text(form), _MAX_LABEL)


def _line(text: str, most: int) -> str:
    """Return a text as one line without controls."""
    line = uris.without_controls(text[: 2 * most])
    return line if len(line) <= most and len(text) <= 2 * most else f"{line[: most - 1]}…"
