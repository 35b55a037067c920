"""CSV, TSV and JSON Lines as tables, read row by row."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from resource_server.conversion.formats import encodings, row_tables
from resource_server.conversion.formats.row_tables import Row, RowTable
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_SAMPLE_BYTES = 256 * 1024
_SAMPLE_ROWS = 1000
_BLOCK_BYTES = 1024 * 1024
_MAX_CELL = 4 * 1024 * 1024
"""Characters of one cell; a quote that is never closed would take the whole file."""
_MAX_COLUMNS = 10_000
_COUNTED_BYTES = 32 * 1024 * 1024
"""Size up to which the rows after a range are counted."""
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_TYPES = (
    *row_tables.TYPES.items(),
    ("date", re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]")),
    ("time", re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9][0-9:.Z+-]*")),
)
_ESCAPED_QUOTE = re.compile(r'\\"(?![,;\t|\r\n]|$)')
_DOUBLED_QUOTE = re.compile(r'(?<![,;\t|\r\n])""(?![,;\t|\r\n]|$)')
"""Inside a cell: two quotes between delimiters are an empty one."""
_JSON_TYPES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "text",
    "list": "list",
}
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield at most 1,000 rows a part; as `json`, the parts together are one document."""
    first, _ = row_tables.wanted_rows(request)
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        is_json = "json" in request.media_type
        table = _json_lines(file, size, first) if is_json else _csv(file, size, first, request)
        yield from row_tables.parts(table, request)
    except csv.Error:
        raise ConversionError("a cell is too large, or a quote is never closed") from None
    except UnicodeError:
        raise ConversionError("its text encoding is damaged") from None
    except RecursionError:
        raise ConversionError("it is nested too deeply") from None


def _total(size: int, rows: Iterator[Row], read: int) -> int | None:
    """Return the number of all rows, unless counting them would take long."""
    if size > _COUNTED_BYTES:
        return read if next(rows, None) is None else None
    return read + sum(1 for _ in rows)


# CSV


def _csv(file: BinaryIO, size: int, first: int, request: ConversionRequest) -> RowTable:
    csv.field_size_limit(_MAX_CELL)
    sample = file.read(_SAMPLE_BYTES)
    is_whole = len(sample) < _SAMPLE_BYTES
    encoding = _encoding(file, sample, is_whole)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample, is_whole)
    declared = re.match(r"sep=([^\w\s\"]|\t)\r?\n", text)  # Excel's own line
    text = text[declared.end() :] if declared else text
    delimiter = declared[1] if declared else _delimiter(text, request.media_type)
    options = _options(text, delimiter)
    rows = _sample_rows(text, options, _SAMPLE_ROWS, is_whole=is_whole)
    if any(len(row) > _MAX_COLUMNS for row in rows):
        raise ConversionError(f"it has more than {_MAX_COLUMNS} columns")
    has_header = _has_header(rows)
    head = has_header + (declared is not None)
    columns = _columns(rows, has_header=has_header)
    skipped = _skip(file, encoding, first - 1, head, is_quoted=True) if first > _SAMPLE_ROWS else 0
    if not skipped:
        file.seek(0)
    reader = (row for row in csv.reader(_lines(file, encoding), **options) if row)
    found = itertools.islice(reader, 0 if skipped else head, None)
    note = f"Delimiter: {_DELIMITERS.get(delimiter, delimiter)}; encoding: {encoding}"
    note = note if has_header else f"{note}; no header"
    types = _types(rows[has_header:], columns)
    return RowTable(found, columns, types, note, functools.partial(_total, size, found), skipped)


def _lines(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield the lines of a file with their ends; the file stays open."""
    lines = io.TextIOWrapper(file, encoding, "replace", newline="")
    try:
        for line in lines:  # noqa: UP028 - `yield from` closes what it yields from
            yield line
    finally:
        lines.detach()


def _encoding(file: BinaryIO, sample: bytes, is_whole: bool) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if sample.startswith(mark):
            return name
    blocks = 0
    while not is_whole and sample.isascii() and b"\0" not in sample:
        following = file.read(_BLOCK_BYTES)
        blocks += 1
        if not following or blocks * _BLOCK_BYTES > _COUNTED_BYTES:
            break
        sample = following
    if not is_whole:
        # Neither half a character nor half a line.
        sample = sample[sample.find(b"\n") + 1 if blocks else 0 :]
        sample = sample[: sample.rfind(b"\n") + 1 or None] if b"\0" not in sample else sample
    if b"\0" not in sample and encodings.is_damaged(sample, "utf-8"):
        return "utf-8"
    found = encodings.guess(sample)
    if found is None:
        raise ConversionError("it is no text in a known encoding")
    return found


def _delimiter(text: str, media_type: str) -> str:
    """Return what divides most rows into the same number of cells."""
    if "tab-separated" in media_type:
        return "\t"
    best, best_share = ",", 0.0
    for delimiter in "\t;,|":
        rows = _sample_rows(text, _options(text, delimiter), 200)
        widths = Counter(map(len, rows))
        width, count = max(widths.items(), key=lambda item: item[1], default=(0, 0))
        share = count / len(rows) if width > 1 else 0.0
        if share > best_share + 0.02:
            best, best_share = delimiter, share
    return best


def _options(text: str, delimiter: str) -> dict[str, Any]:
    """Return the options of `csv.reader`."""
    is_escaped = bool(_ESCAPED_QUOTE.search(text)) and not _DOUBLED_QUOTE.search(text)
    return {
        "delimiter": delimiter,
        "doublequote": not is_escaped,
        "escapechar": "\\" if is_escaped else None,
        "skipinitialspace": f'{delimiter} "' in text,
    }


def _sample_rows(
    text: str, options: dict[str, Any], count: int, *, is_whole: bool = False
) -> list[list[str]]:
    """Return the first rows; without the last one of a sample, which may be half a row."""
    reader = csv.reader(io.StringIO(text, newline=""), **options)
    rows = list(itertools.islice((row for row in reader if row), count))
    return rows if is_whole or len(rows) in (1, count) else rows[:-1]


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row are names: unlike data, nowhere of the type of its column."""
    if len(rows) < 2:
        return bool(rows) and not any(_type_of([cell]) != "text" for cell in rows[0] if cell)
    for at, cell in enumerate(rows[0]):
        if _YEAR.fullmatch(cell.strip()):
            continue
        below = _type_of([row[at] for row in rows[1:] if at < len(row)])
        if below != "text" and cell and _type_of([cell]) in (below, "integer", "number"):
            return False
    return any(cell.strip() for cell in rows[0])


def _columns(rows: Sequence[Sequence[str]], *, has_header: bool) -> list[str]:
    width = max(map(len, rows), default=0)
    given = rows[0] if has_header else ()
    columns: list[str] = []
    taken: set[str] = set()
    for at in range(width):
        plain = " ".join(given[at].split()) if at < len(given) else ""
        name, copy = plain or f"column{at + 1}", 1
        while name in taken:
            copy += 1
            name = f"{plain or f'column{at + 1}'}_{copy}"
        taken.add(name)
        columns.append(name)
    return columns


def _types(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> Mapping[str, str]:
    return {
        name: _type_of([row[at] for row in rows if at < len(row)])
        for at, name in enumerate(columns)
    }


def _type_of(cells: Sequence[str]) -> str:
    """Return the narrowest type of the cells, empty ones aside."""
    filled = [cell for cell in cells if cell]
    if not filled:
        return "text"
    for name, pattern in _TYPES:
        if all(map(pattern.fullmatch, filled)):
            return name
    return "text"


def _skip(file: BinaryIO, encoding: str, rows: int, head: int, *, is_quoted: bool) -> int:
    """Go over rows without parsing them, as long as each line is one; return their number.

    The file is left where the next row begins.
    """
    if encoding.startswith(("utf-16", "utf-32", "iso2022")):
        return 0
    left, position = rows + head, 0
    while left:
        file.seek(position)
        block = file.read(_BLOCK_BYTES)
        end = block.rfind(b"\n") + 1
        block = block[:end]
        if not end or (is_quoted and b'"' in block) or not _has_plain_lines(block):
            break
        count = block.count(b"\n")
        if count > left:
            end = _end_of_line(block, left)
            count = left
        left -= count
        position += end
    skipped = max(rows + head - left - head, 0)
    file.seek(position if skipped else 0)
    return skipped


def _has_plain_lines(block: bytes) -> bool:
    """Return whether each line is a row: no empty lines, no line ends of old Macs."""
    return (
        b"\n\n" not in block
        and b"\n\r" not in block
        and block[0] not in b"\r\n"
        and block.count(b"\r") == block.count(b"\r\n")
    )


def _end_of_line(block: bytes, number: int) -> int:
    end = 0
    for _ in range(number):
        end = block.index(b"\n", end) + 1
    return end


# JSON Lines


def _json_lines(file: BinaryIO, size: int, first: int) -> RowTable:
    sample = file.read(_SAMPLE_BYTES)
    encoding = _encoding(file, sample, len(sample) < _SAMPLE_BYTES)
    file.seek(0)
    columns: list[str] = []
    reader = _json_rows(_lines(file, encoding), columns)
    head = list(itertools.islice(reader, _SAMPLE_ROWS))
    types = {name: _json_type(head, at) for at, name in enumerate(columns)}
    rows, skipped = itertools.chain(head, reader), 0
    if first > len(head) >= _SAMPLE_ROWS:
        reader.close()
        skipped = _skip(file, encoding, first - 1, 0, is_quoted=False)
        if not skipped:
            file.seek(0)
        rows = _json_rows(_lines(file, encoding), columns)
    note, total = f"JSON lines; encoding: {encoding}", functools.partial(_total, size, rows)
    return RowTable(rows, columns, types, note, total, skipped)


def _json_rows(lines: Iterator[str], columns: list[str]) -> Generator[Row, None, None]:
    """Yield the values of each line by columns; new ones are added as they come."""
    places = {name: at for at, name in enumerate(columns)}
    readable = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            value: Any = json.loads(text)
            readable += 1
        except (ValueError, RecursionError):
            if not readable and number > 20:
                raise ConversionError("its lines are no JSON") from None
            value = f"[no JSON] {text}"
        members = _members(value)
        for name in members:
            if name not in places:
                if len(places) >= _MAX_COLUMNS:
                    raise ConversionError(f"it has more than {_MAX_COLUMNS} columns")
                places[name] = len(columns)
                columns.append(name)
        row: list[Any] = [None] * len(columns)
        for name, member in members.items():
            row[places[name]] = member
        yield row
    if not readable and places:
        raise ConversionError("its lines are no JSON")


def _members(value: Any) -> Mapping[str, Any]:
    """Return the cells of a line by the names of their columns."""
    if isinstance(value, dict):
        return cast("Mapping[str, Any]", value)
    if isinstance(value, list):
        cells = cast("list[Any]", value)
        return {f"column{at}": cell for at, cell in enumerate(cells, 1)}
    return {"value": value}


def _json_type(rows: Sequence[Row], at: int) -> str:
    found = {_json_name(row[at]) for row in rows if at < len(row) and row[at] is not None}
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else "mixed" if found else "text"


def _json_name(value: object) -> str:
    return _JSON_TYPES.get(type(value).__name__, "object")
