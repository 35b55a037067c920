"""Long CSV files as DuckDB reads them, with every option given, if it reads what we read.

Both read the whole file once: rows and their characters are counted and compared. Cells that are
divided otherwise have other delimiters and quotes among their characters, and so another number.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence
from typing import BinaryIO, Final

import duckdb

from resource_server.conversion.formats import delimited, row_tables
from resource_server.conversion.formats.delimited import Delimited
from resource_server.providers.database.engines.duckdb.messages import ROW
from resource_server.providers.database.engines.duckdb.text_columns import (
    TextRows,
    spelt_columns,
    sql_literal,
)
from resource_server.providers.database.engines.reflection import quoted

_ENCODINGS: Final = ("utf-8", "utf-8-sig")
_CHUNK_ROWS: Final = 20_000


def view(
    database: duckdb.DuckDBPyConnection, path: str, stream: BinaryIO, found: Delimited
) -> TextRows | None:
    """Return the rows of a CSV file as DuckDB reads them; None if it reads others than we do.

    Raises:
        csv.Error: a cell is too large.
    """
    if found.encoding not in _ENCODINGS or found.options["skipinitialspace"]:
        return None
    count, length, widths = _counted(stream, found)
    names = row_tables.column_names(found.names, max(*widths, len(found.names)), (ROW,))
    is_ragged = len(widths | {len(names)}) > 2  # besides that of no row
    source = _source(path, len(names), _first_line(stream, found), found, is_ragged=is_ragged)
    sums = " + ".join(f"coalesce(sum(length(c{at})), 0)" for at in range(len(names)))
    try:
        (row,) = database.execute(f"SELECT count(*), {sums} FROM {source}").fetchall()  # noqa: S608
    except duckdb.Error:
        return None
    if tuple(map(int, row)) != (count, length):
        return None
    renamed = ", ".join(f"c{at} AS {quoted(name)}" for at, name in enumerate(names))
    columns = spelt_columns(names, found.sample)
    return TextRows(f"SELECT {renamed} FROM {source}", columns, count, is_loaded=False)  # noqa: S608


def _counted(stream: BinaryIO, found: Delimited) -> tuple[int, int, set[int]]:
    """Return the number of rows, that of the characters in their cells, and their widths."""
    unclosed: list[int] = []
    rows = delimited.read_rows(stream, found, unclosed)
    count, length, widths = 0, 0, {0}
    while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
        count += len(chunk)
        widths.update(map(len, chunk))
        length += len("".join(itertools.chain.from_iterable(chunk)))
    return count, length, widths


def _first_line(stream: BinaryIO, found: Delimited) -> int:
    """Return the number of lines above the first row."""
    stream.seek(0)
    lines = io.TextIOWrapper(stream, found.encoding, newline="")
    try:
        reader = csv.reader(lines, **found.options)
        left = found.head
        while left and (row := next(reader, None)) is not None:
            left -= bool(row)
        return reader.line_num
    finally:
        lines.detach()


def _source(path: str, width: int, skip: int, found: Delimited, *, is_ragged: bool) -> str:
    options = found.options
    names: Sequence[str] = [f"'c{at}': 'VARCHAR'" for at in range(width)]
    given = {
        "columns": f"{{{', '.join(names)}}}",
        "auto_detect": "false",
        "header": "false",
        "skip": str(skip),
        "delim": sql_literal(options["delimiter"]),
        "quote": sql_literal('"'),
        "escape": sql_literal(options["escapechar"] or '"'),
        "null_padding": str(is_ragged).lower(),
        "parallel": str(not is_ragged).lower(),
    }
    listed = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f"read_csv({sql_literal(path)}, {listed})"
