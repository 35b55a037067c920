"""CSV, TSV and JSON Lines as tables, read row by row."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, TypedDict, cast

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
_TYPES = (
    *row_tables.TYPES.items(),
    ("date", re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]")),
    ("time", re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9][0-9:.Z+-]*")),
)
_NO_DELIMITER = "\x1f"
"""Delimiter of a table of one column, which hardly any text has."""
_DELIMITERS = {
    **{",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"},
    _NO_DELIMITER: "none",
}
_PROSE_COMMA = re.compile(r",(?! )")
"""A comma that is more than a mark between words."""
_MAX_ABOVE = 50
"""Rows above a header."""
_CHUNK_LINES = 2000
_MAX_UNCLOSED = 1000
"""Maximum lines with unclosed quotes; beyond it, quotes are letters."""
_FEW_LINES = 8
"""Lines of a batch after a line with wrong quotes: others may follow."""
_MAX_OPEN_LINES = 64 * _CHUNK_LINES
"""Lines of one row; a quote that is not closed within them stands for itself."""
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


class _Options(TypedDict):
    """Options of `csv.reader`."""

    delimiter: str
    doublequote: bool
    escapechar: str | None
    skipinitialspace: bool


@dataclass(frozen=True, slots=True)
class Delimited:
    """How a delimited text is written, and what its header says."""

    encoding: str
    options: _Options
    above: Sequence[str]
    """Lines above the header: a title, or comments."""
    head: int
    """Number of rows up to the header, with it, that are none of the table."""
    names: Sequence[str]
    """The header, or nothing."""
    sample: Sequence[Sequence[str]]
    """The first rows."""

    @property
    def note(self) -> str:
        """What is found, for a reader."""
        delimiter = self.options["delimiter"]
        found = f"Delimiter: {_DELIMITERS.get(delimiter, delimiter)}; encoding: {self.encoding}"
        found = found if self.names else f"{found}; no header"
        return f"{found}; above the header: {' / '.join(self.above)}" if self.above else found


def read_dialect(file: BinaryIO, media_type: str, *, encoding_bytes: float = math.inf) -> Delimited:
    """Return the dialect of a text, whose encoding shows within its first `encoding_bytes`.

    Raises:
        ConversionError: it is no text in a known encoding, or has too many columns.
    """
    csv.field_size_limit(_MAX_CELL)
    sample = file.read(_SAMPLE_BYTES)
    is_whole = len(sample) < _SAMPLE_BYTES
    encoding = _encoding(file, sample, is_whole, encoding_bytes)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample, is_whole)
    declared = re.match(r"sep=([^\w\s\"]|\t)\r?\n", text)  # Excel's own line
    text = text[declared.end() :] if declared else text
    delimiter = declared[1] if declared else _delimiter(text, media_type, is_whole=is_whole)
    options = _options(text, delimiter)
    rows = _sample_rows(text, options, _SAMPLE_ROWS, is_whole=is_whole)
    first = _first_row(rows)
    above = [delimiter.join(row) for row in rows[:first] if row]
    found = [row for row in rows[first:] if row]
    if any(len(row) > _MAX_COLUMNS for row in found):
        raise ConversionError(f"it has more than {_MAX_COLUMNS} columns")
    has_header = _has_header(found)
    head = (declared is not None) + len(above) + has_header
    names = tuple(found[0]) if has_header else ()
    return Delimited(encoding, options, above, head, names, found[has_header:])


def read_rows(file: BinaryIO, found: Delimited, unclosed: list[int]) -> Iterator[list[str]]:
    """Yield the rows below the header; `unclosed` gets the lines whose quotes are never closed.

    Raises:
        csv.Error: a cell is too large.
    """
    file.seek(0)
    rows = _records(_lines(file, found.encoding), found.options, unclosed)
    return itertools.islice(rows, found.head, None)


def _records(
    lines: Iterator[str],
    options: _Options,
    unclosed: list[int],
    *,
    keeps_empty: bool = False,
) -> Iterator[list[str]]:
    """Yield the cells of each row; empty lines are none, or with `keeps_empty` rows of none.

    A quote that is never closed would take all rows that follow; it stands for itself.
    """
    held: list[str] = []
    number = at = 0  # lines before those held, and those read of them
    most, is_end = _CHUNK_LINES, False
    while True:
        if len(held) - at < most and not is_end:
            del held[:at]
            number, at = number + at, 0
            wanted = max(most, _CHUNK_LINES) - len(held)
            more = list(itertools.islice(lines, wanted))
            held += more
            is_end = len(more) < wanted
        part = held[at : at + most]
        if not part:
            return
        rows, used, is_open = _closed_rows(part, options, keeps_empty=keeps_empty)
        yield from rows
        at += used
        has_more = not is_end or at + len(part) < len(held)
        if used == len(part):
            most = min(most * 4, _CHUNK_LINES)
        elif used:
            most = _FEW_LINES
        elif is_open and has_more and most < _MAX_OPEN_LINES:
            most *= 4
        else:
            row, is_closed = _single_row(part[0], options)
            if row:
                yield row
            at, most = at + 1, _FEW_LINES
            if not is_closed:
                unclosed.append(number + at)
            if len(unclosed) > _MAX_UNCLOSED:
                yield from filter(None, _unquoted(itertools.chain(held[at:], lines), options))
                return


def _closed_rows(
    lines: Sequence[str], options: _Options, *, keeps_empty: bool
) -> tuple[list[list[str]], int, bool]:
    """Return the first rows, their number of lines, and whether the next one is not closed."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        read = csv.reader(lines, strict=True, **options)
        rows += read if keeps_empty else filter(None, read)
        return rows, len(lines), False
    rows, used = [], 0
    reader = csv.reader(lines, strict=True, **options)
    with suppress(csv.Error):
        for row in reader:
            rows += [row] if row or keeps_empty else []
            used = reader.line_num
    return rows, used, reader.line_num == len(lines)


def _single_row(line: str, options: _Options) -> tuple[list[str], bool]:
    """Return the cells of a line, and whether it has another quote for each."""
    row, *rest = csv.reader([line, "\n"], **options)
    if rest:
        return row, True
    return next(_unquoted([line], options)), False


def _unquoted(lines: Iterable[str], options: _Options) -> Iterator[list[str]]:
    plain: _Options = {**options, "escapechar": None}
    return csv.reader(lines, quoting=csv.QUOTE_NONE, **plain)


def _csv(file: BinaryIO, size: int, first: int, request: ConversionRequest) -> RowTable:
    found = read_dialect(file, request.media_type, encoding_bytes=_COUNTED_BYTES)
    width = max((len(found.names), *map(len, found.sample)))
    columns = row_tables.column_names(found.names, width)
    skipped = 0
    if first > _SAMPLE_ROWS:
        skipped = _skip(file, found.encoding, first - 1, found.head, is_quoted=True)
    if skipped:
        rows = _records(_lines(file, found.encoding), found.options, [])
    else:
        rows = read_rows(file, found, [])
    types = {
        name: _type_of([row[at] for row in found.sample if at < len(row)])
        for at, name in enumerate(columns)
    }
    total = functools.partial(_total, size, rows)
    return RowTable(rows, columns, types, found.note, total, skipped)


def _lines(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield the lines of a file with their ends; the file stays open."""
    lines = io.TextIOWrapper(file, encoding, "replace", newline="")
    try:
        for line in lines:  # noqa: UP028 - `yield from` closes what it yields from
            yield line
    finally:
        lines.detach()


def _encoding(file: BinaryIO, sample: bytes, is_whole: bool, most: float = _COUNTED_BYTES) -> str:
    marked = encodings.marked(sample)
    if marked is not None:
        return marked
    blocks = 0
    while not is_whole and sample.isascii() and b"\0" not in sample:
        following = file.read(_BLOCK_BYTES)
        blocks += 1
        if not following or blocks * _BLOCK_BYTES > most:
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


def _delimiter(text: str, media_type: str, *, is_whole: bool) -> str:
    """Return what divides most rows into the same number of cells."""
    if "tab-separated" in media_type:
        return "\t"
    best, best_share = ",", 0.0
    for delimiter in "\t;,|":
        rows = _sample_rows(text, _options(text, delimiter), 200, is_whole=is_whole)
        rows = [row for row in rows if row]
        rows = [row for row in rows if row[0][:1] != "#"] or rows
        widths = Counter(map(len, rows))
        count, width = max(((count, width) for width, count in widths.items()), default=(0, 0))
        share = count / len(rows) if width > 1 else 0.0
        if share:
            # A delimiter of the header, too: the first row, or the first below a title.
            above = next(at for at, row in enumerate(rows) if len(row) == width)
            share += -0.03 * min(above, _MAX_ABOVE) if above else 1
        # Between quotes that are no part of a cell is another delimiter.
        share -= 0.5 * sum(any('"' in cell for cell in row) for row in rows) / max(len(rows), 1)
        if share > best_share + 0.02:
            best, best_share = delimiter, share
    if not best_share and "," in text and not _PROSE_COMMA.search(text):
        return _NO_DELIMITER
    return best


def _options(text: str, delimiter: str) -> _Options:
    """Return the options of `csv.reader`."""
    is_escaped = bool(_ESCAPED_QUOTE.search(text)) and not _DOUBLED_QUOTE.search(text)
    return {
        "delimiter": delimiter,
        "doublequote": not is_escaped,
        "escapechar": "\\" if is_escaped else None,
        "skipinitialspace": f'{delimiter} "' in text,
    }


def _sample_rows(
    text: str, options: _Options, count: int, *, is_whole: bool = False
) -> list[list[str]]:
    """Return the first rows and empty lines; without the last of a sample, which may be half."""
    lines = io.StringIO(text, newline="")
    rows: list[list[str]] = []
    for row in _records(lines, options, [], keeps_empty=True):
        rows.append(row)
        if len(rows) == count:
            return rows
    return rows if is_whole or len(rows) == 1 else rows[:-1]


def _first_row(rows: Sequence[Sequence[str]]) -> int:
    """Return the place of the first row of the table, below a title or comments.

    No line above it could be a row of the table.
    """
    widths = Counter(len(row) for row in rows if row)
    width = max(widths, key=lambda each: (widths[each], each), default=0)
    start = 0
    for at, row in enumerate(rows[:_MAX_ABOVE]):
        if row and not (row[0][:1] == "#" and (len(row) < width or row[0][:2] == "# ")):
            start = at
            break
    below = [row for row in rows[start:] if row]
    if start and width > 1 and not _has_header(below):
        named = [at for at in range(start) if len(rows[at]) == width]
        start = named[-1] if named else start
    first = next((at for at in range(start, len(rows)) if len(rows[at]) == width), start)
    if first == start or any(len(row) > width for row in rows[start:first]) or width < 2:
        return start
    below = [row for row in rows[first:] if row]
    is_apart = not all(rows[start:first])
    is_title = _has_header(below) and (is_apart or _is_above_data(below))
    return first if is_title and first < _MAX_ABOVE else start


def _is_above_data(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is text above values of another type."""
    return any(
        cell and _type_of([cell]) == "text" and _type_of(_below(rows, at)) != "text"
        for at, cell in enumerate(rows[0])
    )


def _below(rows: Sequence[Sequence[str]], at: int) -> list[str]:
    return [row[at] for row in rows[1:] if at < len(row)]


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row are names: unlike data, nowhere of the type of its column."""
    if len(rows) < 2:
        return bool(rows) and not any(_type_of([cell]) != "text" for cell in rows[0] if cell)
    for at, cell in enumerate(rows[0]):
        own = _type_of([cell])
        if own == "text" or _YEAR.fullmatch(cell.strip()):
            continue
        below = [each for each in _below(rows, at) if each]
        kind = _type_of(below)
        alike = sum(_type_of([each]) in (own, "integer", "number") for each in below)
        if kind != "text" and own in (kind, "integer", "number"):
            return False
        if below and alike * 2 >= len(below):
            return False  # a value, though others below are text
    return any(cell.strip() for cell in rows[0])


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
    """Skip rows without parsing them, while each line is a row; return their number.

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


def read_json_lines(file: BinaryIO, columns: list[str], broken: list[int]) -> Iterator[Row]:
    """Yield the values of each line, by `columns`, which get the names as they come.

    `broken` gets the numbers of the lines that are no JSON; their text is in the column `value`.

    Raises:
        ConversionError: hardly any line is JSON, or there are too many columns.
    """
    encoding = _json_encoding(file, math.inf)
    return _json_rows(_lines(file, encoding), columns, broken)


def _json_encoding(file: BinaryIO, most: float) -> str:
    sample = file.read(_SAMPLE_BYTES)
    encoding = _encoding(file, sample, len(sample) < _SAMPLE_BYTES, most)
    file.seek(0)
    return encoding


def _json_lines(file: BinaryIO, size: int, first: int) -> RowTable:
    encoding = _json_encoding(file, _COUNTED_BYTES)
    columns: list[str] = []
    reader = _json_rows(_lines(file, encoding), columns, [])
    head = list(itertools.islice(reader, _SAMPLE_ROWS))
    types = {name: _json_type(head, at) for at, name in enumerate(columns)}
    rows, skipped = itertools.chain(head, reader), 0
    if first > len(head) >= _SAMPLE_ROWS:
        reader.close()
        skipped = _skip(file, encoding, first - 1, 0, is_quoted=False)
        if not skipped:
            file.seek(0)
        rows = _json_rows(_lines(file, encoding), columns, [])
    note, total = f"JSON lines; encoding: {encoding}", functools.partial(_total, size, rows)
    return RowTable(rows, columns, types, note, total, skipped)


_JSON = json.JSONDecoder(parse_float=row_tables.exact_number, parse_constant=str)


def _json_rows(
    lines: Iterator[str], columns: list[str], broken: list[int]
) -> Generator[Row, None, None]:
    """Yield the values of each line by columns; new ones are added as they come."""
    places = {name: at for at, name in enumerate(columns)}
    readable = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            value: Any = _JSON.decode(text)
            readable += 1
        except (ValueError, RecursionError):
            if not readable and number > 20:
                raise ConversionError("its lines are no JSON") from None
            value = f"[no JSON] {text}"
            broken.append(number)
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
