"""Rows of a document as tables: the wanted range and columns, as Markdown, JSON or CSV."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from resource_server.conversion.formats import encodings
from resource_server.errors import InvalidParameter
from resource_server.provider.conversion import MARKDOWN, ConversionRequest, Part
from resource_server.runtime import markdown
from resource_server.runtime.document_range import parse_interval
from resource_server.runtime.json_numbers import exact_json

Row: TypeAlias = Sequence[Any]
_PART_ROWS = 1000
TYPES = {
    "integer": re.compile(r"-?(?:0|[1-9][0-9]{0,14})"),
    "number": re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.(?:0|[0-9]{0,14}[1-9]))?"),
    "boolean": re.compile(r"true|false"),
}
"""Types of JSON's values, as text writes them: `1.10` and `007` are other texts than 1.1 and 7."""


@dataclass(slots=True)
class RowTable:
    """The rows of a document, and what is found about them."""

    rows: Iterator[Row]
    columns: list[str]
    types: Mapping[str, str]
    note: str
    """How the document is written."""
    total: Callable[[int], int | None]
    """Returns the number of all rows, given that of the last one read; None if it is unknown."""
    skipped: int = 0
    """Number of rows that `rows` does not have any more."""


def column_names(given: Sequence[str], width: int, taken: Iterable[str] = ()) -> list[str]:
    """Return a name for each column: its own, numbered where letters in other cases are the same.

    A column without one is `column` with its number.
    """
    seen = dict.fromkeys(map(_folded, taken), 1)
    names: list[str] = []
    for at in range(width):
        name = plain = (" ".join(given[at].split()) if at < len(given) else "") or f"column{at + 1}"
        while (copy := seen.get(_folded(name))) is not None:
            seen[_folded(plain)] = copy = max(copy, seen.get(_folded(plain), 1)) + 1
            name = f"{plain}_{copy}"
        seen[_folded(name)] = 1
        names.append(name)
    return names


def _folded(name: str) -> bytes:
    """Return a name as databases compare it: without the case of ASCII letters."""
    return name.encode("utf-8", "surrogatepass").lower()


def parts(table: RowTable, request: ConversionRequest) -> Iterator[Part]:
    """Yield the rows that are wanted, at most 1,000 a part; as `json`, together one document."""
    first, last = wanted_rows(request)
    chosen: Sequence[int] = ()
    if request.options.get("columns"):
        chosen = chosen_columns(request.options["columns"], table.columns)
    begin = max(first - table.skipped - 1, 0)
    rows = itertools.islice(table.rows, begin, None if last is None else begin + last - first + 1)
    number = first
    batch = list(itertools.islice(rows, _PART_ROWS))
    while True:
        following = list(itertools.islice(rows, _PART_ROWS))
        total = None if following or not batch else table.total(number + len(batch) - 1)
        if batch or number == 1:
            ends = (number == first, not following)
            yield _part(table, batch, number, total, chosen, name=request.format, ends=ends)
        if not following:
            return
        number, batch = number + len(batch), following


def _part(
    table: RowTable,
    rows: Sequence[Row],
    number: int,
    total: int | None,
    chosen: Sequence[int],
    *,
    name: str,
    ends: tuple[bool, bool],
) -> Part:
    """Return some rows; `ends` is whether they are the first and the last ones."""
    columns = list(table.columns)
    width = max(map(len, rows), default=0)
    columns += [f"column{at + 1}" for at in range(len(columns), width)]
    chosen = chosen or range(len(columns))
    names = [columns[at] for at in chosen]
    kinds = [table.types.get(each, "text") for each in names]
    cells = [[row[at] if at < len(row) else None for at in chosen] for row in rows]
    if name == "json":
        text = _as_json(names, kinds, cells, ends)
        return Part(encodings.sendable(text), number, total, "application/json")
    if name == "csv":
        texts = ([_plain(cell) for cell in row] for row in cells)
        text = csv_text(itertools.chain([names] if ends[0] else (), texts))
        return Part(encodings.sendable(text), number, total, "text/csv")
    heading = f"Rows {number}-{number + len(rows) - 1}" if rows else "No rows"
    if total is not None and rows:
        heading += f" of {total}"
    text = f"{heading}\n"
    if ends[0]:
        shown = ", ".join(f"{each} ({kind})" for each, kind in zip(names, kinds, strict=True))
        text = f"{table.note}; columns: {shown}\n\n{heading}\n"
    if names:
        text += f"\n{markdown.table_head(names)}"
    text += "".join(markdown.table_row(list(map(_plain, row))) for row in cells)
    return Part(encodings.sendable(text), number, total, MARKDOWN)


def _as_json(
    names: Sequence[str], kinds: Sequence[str], rows: Sequence[Row], ends: tuple[bool, bool]
) -> str:
    values = [[_value(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in rows]
    text = exact_json(",\n".join(map(_dumped, values)))
    head = f'{{"columns": {json.dumps(names, ensure_ascii=False)}, "rows": [\n' if ends[0] else ""
    return f"{head}{text}{']}' if ends[1] else ','}"


def _dumped(row: Sequence[Any]) -> str:
    """Return a row as JSON, which has no infinity and no NaN: these become text."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(row), parse_constant=str)
        return json.dumps(finite, ensure_ascii=False)


def _value(cell: Any, kind: str) -> Any:
    """Return a cell of CSV as JSON; what is not of its column's type stays text."""
    if not isinstance(cell, str) or kind not in TYPES:
        return cell
    if not cell:
        return None
    if not TYPES[kind].fullmatch(cell):
        return cell
    value = json.loads(cell)
    return value if json.dumps(value) == cell else cell


def exact_number(text: str) -> float | str:
    """Return a number with a fraction; as text if it has more digits than a number keeps.

    Raises:
        ValueError: it is no number.
    """
    number = float(text)
    with suppress(ArithmeticError):
        if str(number) == text or Decimal(text) == Decimal(str(number)):
            return number
    return text


class _Lines(list[str]):
    """Lines that a writer of CSV writes, each with a line feed at its end."""

    def write(self, line: str) -> None:
        self.append(f"{line[:-2]}\n")


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as CSV (RFC 4180), but for its ends of lines."""
    lines = _Lines()
    # A cell with a character of these ends is quoted, so a carriage return ends no row.
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(lines)


def value_text(value: object) -> str:
    """Return a value of a spreadsheet or of JSON as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            is_whole = value.is_integer() and abs(value) < 2**53
            return str(int(value)) if is_whole else str(value)
        case list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return _duration_text(value)
        case _:
            return str(value)


def _duration_text(duration: timedelta) -> str:
    """Return a duration as spreadsheets show it: `30:05:00`, not `1 day, 6:05:00`."""
    minutes, seconds = divmod(abs(duration).total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    shown = f"{seconds:02.0f}" if seconds.is_integer() else f"{seconds:09.6f}".rstrip("0")
    return f"{'-' * (duration < timedelta())}{hours:02}:{minutes:02}:{shown}"


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def wanted_rows(request: ConversionRequest) -> tuple[int, int | None]:
    """Return the numbers of the first and last row that are wanted; None for all that follow.

    Raises:
        InvalidParameter: there is no such range.
    """
    text = request.options.get("rows")
    if not text:
        return max(request.first, 1), request.last
    return parse_interval("rows", text)


def chosen_columns(text: str, columns: Sequence[str]) -> list[int]:
    """Return the places of the columns that an option names, with commas between (RFC 4180).

    Raises:
        InvalidParameter: there is no such column.
    """
    given: list[str] = next(csv.reader([text], skipinitialspace=True), list[str]())
    names = [name.strip() for name in given]
    unknown = [name for name in names if name not in columns]
    if unknown or not names:
        raise InvalidParameter(
            f"there is no column {', '.join(unknown)[:80]!r}; there are {', '.join(columns)[:180]}"
        )
    return [columns.index(name) for name in names]
