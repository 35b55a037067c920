"""Ranges of converted text, which may be longer than one conversion gives at a time."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from resource_server.conversion.pool import Conversion
from resource_server.conversion.text_window import MARGIN_BYTES, WindowPlace, between, encoded
from resource_server.documents.encoding import TextEncoding
from resource_server.documents.ranges import RangeReader, wanted_range
from resource_server.provider import Content, Truncation
from resource_server.providers.filesystem.conversion_query import ROWS, SHEET, Wanted
from resource_server.runtime.document_range import Range

_ROW_STARTS = ("|", "[")
"""How a row begins, in Markdown and in JSON."""


def joined_text(conversion: Conversion) -> bytes:
    """Return the text of all parts."""
    parts = conversion.parts
    return encoded(
        between(parts[0].mime_type).join(str(part.data) for part in parts) if parts else ""
    )


def text_beginning(conversion: Conversion, wanted: Wanted) -> Content:
    """Return the beginning of a long text, with the way to the rest.

    It ends with a whole part, row or line.
    """
    *before, last = conversion.parts
    request, converter = wanted.request, wanted.converter
    text = str(last.data)
    whole = text[: text.rfind("\n") + 1]
    has_rows = converter.unit is None and ROWS in converter.options and request.format != "csv"
    rows = _whole_rows(whole, request.format) if has_rows else 0
    following: dict[str, str] = {}
    if converter.unit is not None and before:
        until = "" if request.last is None else str(request.last)
        following = {converter.unit: f"{last.number}-{until}"}
        whole = ""
    # A row that does not fit into a read goes on by lines.
    elif has_rows and (before or rows):
        _, _, until = request.options.get(ROWS, "").partition("-")
        following = {ROWS: f"{last.number + rows}-{until}"}
    else:
        whole = whole or text
    kept = (*before, replace(last, data=whole)) if whole else tuple(before)
    data = joined_text(replace(conversion, parts=kept))
    if ROWS in following and request.format == "json":
        data = data.rstrip().rstrip(b",") + b"]}"
    if not following:
        lines = data.count(b"\n")
        following = {"lines": f"{lines + 1}-"} if lines else {"bytes": f"{len(data)}-"}
    kept_parameters = {
        name: value
        for name, value in wanted.parameters.items()
        if converter.unit not in following or name not in (converter.unit, "pages")
    }
    end = Truncation("limit", "characters", None, {**kept_parameters, **following})
    return Content(data.decode(), last.mime_type, end)


def _whole_rows(text: str, format: str) -> int:
    """Return the number of rows in a text whose last line is whole."""
    # Cells may have other separators of lines.
    rows = sum(line.startswith(_ROW_STARTS) for line in text.split("\n"))
    # The first two lines of a Markdown table are no rows.
    return rows if format == "json" else max(rows - 2, 0)


def has(conversion: Conversion, range: Range) -> bool:
    """Return whether a conversion has the beginning of a range; for a tail, the whole range."""
    place, text = conversion.place, joined_text(conversion)
    if not conversion.is_cut and place.bytes_before == 0:
        return True
    if range.unit == "bytes":
        margin = MARGIN_BYTES if place.bytes_before else 0
        rest = text[max(range.first - place.bytes_before, 0) :][:4]
        begins = any(byte & 0xC0 != 0x80 for byte in rest)  # a character, not only the end of one
        return place.bytes_before + margin <= range.first and (not conversion.is_cut or begins)
    lines = text.count(b"\n") - (not place.begins_line)
    if range.unit == "tail":
        return not conversion.is_cut and range.first <= lines
    first = place.lines_before + 1 + (not place.begins_line)
    return first <= range.first and (not conversion.is_cut or range.first < first + lines)


def content(conversion: Conversion, mime_type: str, wanted: Wanted) -> Content:
    """Return the text of a conversion, or its wanted range."""
    text = joined_text(conversion)
    if wanted.range is None:
        return Content(text.decode(), mime_type, _further_parts(conversion, wanted))
    place = conversion.place
    if not (conversion.is_cut or place.total_bytes is not None):
        lines = text.count(b"\n") + (not text.endswith(b"\n") if text else 0)
        place = WindowPlace(total_bytes=len(text), total_lines=lines)
    range = _moved(wanted.range, -place.bytes_before, -place.lines_before)
    found = _read(text, range, is_cut=conversion.is_cut)
    truncated = found.truncated
    if truncated is None:
        if place.bytes_before == 0:
            return replace(found, mime_type=mime_type)
        is_limit = range.unit == "tail" and text.count(b"\n") < range.first
        unit = "bytes" if range.unit == "bytes" else "lines"
        truncated = Truncation("limit" if is_limit else "requested", unit)
    following: Mapping[str, str] | None = truncated.next
    if following is not None and (rest := wanted_range(following)) is not None:
        rest = _moved(rest, place.bytes_before, place.lines_before)
        following = {**wanted.parameters, **rest.following(rest.first)}
    total = place.total_bytes if truncated.unit == "bytes" else place.total_lines
    return Content(
        found.data,
        mime_type,
        replace(truncated, total=total, next=following),
        offset=None if found.offset is None else found.offset + place.bytes_before,
    )


def _further_parts(conversion: Conversion, wanted: Wanted) -> Truncation | None:
    """Return the way to parts that a format does not have in one text, such as sheets as CSV."""
    last, request = conversion.parts[-1] if conversion.parts else None, wanted.request
    unit = wanted.converter.unit
    if last is None or last.total is None or unit is None or request.last is not None:
        return None
    if SHEET in request.options or last.number >= last.total:
        return None
    following = {**wanted.parameters, unit: f"{last.number + 1}-"}
    return Truncation("limit", "characters", None, following)


def _moved(range: Range, bytes: int, lines: int) -> Range:
    """Return a range moved by the distance between a window and its text."""
    if range.unit == "tail":
        return range
    by = bytes if range.unit == "bytes" else lines
    return Range(range.unit, range.first + by, None if range.last is None else range.last + by)


def _read(text: bytes, range: Range, *, is_cut: bool) -> Content:
    """Return a range of a text that goes on if it `is_cut`."""
    data = text + bytes(MARGIN_BYTES) if is_cut else text
    reader = RangeReader(
        lambda count, offset: data[offset : offset + count],
        len(text),
        "text/plain",
        "text/plain",
        TextEncoding.detect(b"", "utf-8"),
        max(len(text), 1),
        len(text) if is_cut else None,
    )
    return reader.read(range)
