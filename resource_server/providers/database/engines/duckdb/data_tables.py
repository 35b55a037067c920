"""Tables of data files: CSV, JSON and Parquet as views, short ones and spreadsheets in memory.

Each has two relations of its name: in the schema `main` the columns of the file, for queries; in
the schema `NUMBERED` also `ROW`, the number of each row from 1, which is the key of its pages.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import msgspec

from resource_server.conversion import sandbox
from resource_server.errors import ConversionError
from resource_server.providers.database.engines.duckdb.messages import (
    NUMBERED,
    ROW,
    DataFile,
    DataTable,
)

_LOADED_BYTES: Final = 64 * 1024 * 1024
"""Size of the files that are loaded into memory, all together; longer ones are read as needed."""
_MAX_CELLS: Final = 5_000_000
"""Cells of a sheet."""
_UNREADABLE: Final = (
    duckdb.Error,
    OSError,
    ValueError,
    MemoryError,
    ImportError,
    ConversionError,
)
_PADDING: Final = ", null_padding = true, parallel = false"
"""Options for rows of different lengths; a parallel reader cannot pad line breaks in quotes."""
_CHUNK_ROWS: Final = 4096
_FOUND_ROW: Final = "file_row_number"


def make(database: duckdb.DuckDBPyConnection, tables: Sequence[DataTable]) -> list[str]:
    """Create the tables; return the problems of those that cannot be read."""
    problems: list[str] = []
    room = _LOADED_BYTES
    database.execute(f"CREATE SCHEMA {quoted(NUMBERED)}")
    for table in tables:
        try:
            if table.kind == "sheets":
                _load_sheets(database, table)
                continue
            size = sum(file.size for file in table.files)
            is_loaded = table.kind != "parquet" and size <= room
            room -= size * is_loaded
            try:
                _create(database, table, is_loaded=is_loaded)
            except duckdb.Error:
                bad = _unreadable(database, table)
                files = [file for file in table.files if file.name not in bad]
                if not bad or not files:
                    raise
                problems += [f"{name}: {reason}" for name, reason in bad.items()]
                rest = msgspec.structs.replace(table, files=tuple(files))
                _create(database, rest, is_loaded=is_loaded)
        except _UNREADABLE as error:
            name = table.name if table.files[1:] else table.files[0].name
            problems.append(f"{name}: {_reason(error)}")
    return problems


def _unreadable(database: duckdb.DuckDBPyConnection, table: DataTable) -> dict[str, str]:
    """Return why files of a table of several cannot be read, by their names."""
    found: dict[str, str] = {}
    for file in table.files if table.files[1:] else ():
        try:
            source = _source(database, msgspec.structs.replace(table, files=(file,)))
            database.execute(f"SELECT count(COLUMNS(*)) FROM ({source})").fetchall()  # noqa: S608
        except _UNREADABLE as error:
            found[file.name] = _reason(error)
    return found


def allowed_paths(tables: Sequence[DataTable]) -> str:
    """Return the statement that allows DuckDB to read the files of these tables only."""
    paths = [file.path for table in tables for file in table.files]
    return f"SET allowed_paths = [{', '.join(map(literal, paths))}]"


def opened(file: DataFile) -> int:
    """Return a descriptor that names the file for the sandbox, and cannot be read from.

    Raises:
        OSError: another file, or no regular one, has taken its place.
    """
    fd = os.open(file.path, sandbox.PATH_ONLY | os.O_NOFOLLOW)
    status = os.fstat(fd)
    is_same = (status.st_dev, status.st_ino) == (file.device, file.inode)
    if not is_same or not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError("it was replaced")
    return fd


def _create(database: duckdb.DuckDBPyConnection, table: DataTable, *, is_loaded: bool) -> None:
    source = _source(database, table)
    columns = [str(row[0]) for row in database.execute(f"DESCRIBE {source}").fetchall()]
    if ROW in columns:
        raise ValueError(f"it has a column '{ROW}', a reserved name")
    is_numbered = table.kind == "parquet" and len(table.files) == 1 and _FOUND_ROW not in columns
    number = f"{_FOUND_ROW} + 1" if is_numbered else "row_number() OVER ()"
    select = f"SELECT {number} AS {quoted(ROW)}, * {source[len('SELECT *') :]}"
    if is_loaded:
        with suppress(duckdb.OutOfMemoryException):
            database.execute(f"CREATE TABLE {_numbered(table.name)} AS {select}")
            _show(database, table.name)
            return
    database.execute(f"CREATE VIEW {_numbered(table.name)} AS {select}")
    _show(database, table.name)


def _show(database: duckdb.DuckDBPyConnection, name: str) -> None:
    database.execute(
        f"CREATE VIEW main.{quoted(name)} AS "  # noqa: S608
        f"SELECT * EXCLUDE ({quoted(ROW)}) FROM {_numbered(name)}"
    )


def _source(database: duckdb.DuckDBPyConnection, table: DataTable) -> str:
    """Return a SELECT of all columns of the files."""
    paths = f"[{', '.join(literal(file.path) for file in table.files)}]"
    match table.kind:
        case "parquet":
            return f"SELECT * FROM read_parquet({paths}, union_by_name = true)"  # noqa: S608
        case "json":
            return f"SELECT * FROM read_json({paths}, union_by_name = true)"  # noqa: S608
        case _:
            return _csv_source(database, [file.path for file in table.files])


class _CsvDialect(NamedTuple):
    """What DuckDB finds in a CSV file by all of its rows."""

    names: Sequence[str]
    has_header: bool
    skipped: int
    """Lines before the header."""
    source: str
    """A SELECT of all columns, which does not look for the dialect again."""


def _csv_source(database: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> str:
    """Return a SELECT of all columns of CSV files.

    Rows are padded only where a row of fewer or more values than the header hides the others.
    Padding everywhere would take a title above the header for the header.
    """
    found = _csv_dialect(database, paths[0], "")
    padding = ""
    if _may_hide_rows(database, found):
        padded = _csv_dialect(database, paths[0], _PADDING)
        if len(padded.names) > 1 and padded.names[1] != "column1":
            found, padding = padded, _PADDING
    if paths[1:]:
        files = f"[{', '.join(map(literal, paths))}]"
        return f"SELECT * FROM read_csv({files}, union_by_name = true{padding})"  # noqa: S608
    return found.source


def _csv_dialect(database: duckdb.DuckDBPyConnection, path: str, options: str) -> _CsvDialect:
    sniff = "SELECT Columns, HasHeader, SkipRows, Prompt FROM sniff_csv"
    rows = database.execute(f"{sniff}({literal(path)}, sample_size = -1{options})").fetchall()
    for columns, has_header, skipped, prompt in rows:
        # DuckDB writes the path as it is, with its quotes.
        _, written, rest = str(prompt).partition(f"FROM read_csv('{path}'")
        if written:
            names = [str(column["name"]) for column in columns]
            source = f"SELECT * FROM read_csv({literal(path)}{rest.rstrip(';')}"  # noqa: S608
            return _CsvDialect(names, bool(has_header), int(skipped), source)
    raise ValueError("its dialect is not found")


def _may_hide_rows(database: duckdb.DuckDBPyConnection, found: _CsvDialect) -> bool:
    """Return whether lines are one value each, or the lines above the rows may be rows, too."""
    if len(found.names) == 1 or (found.skipped and not found.has_header):
        return True
    return bool(found.skipped) and not database.execute(f"{found.source} LIMIT 1").fetchall()


def _load_sheets(database: duckdb.DuckDBPyConnection, table: DataTable) -> None:
    """Load each sheet of a spreadsheet as a table; its first row names the columns."""
    from resource_server.conversion.formats import sheets

    with Path(table.files[0].path).open("rb") as file:
        workbook = sheets.workbook(file)
        for place, name in enumerate(workbook.names):
            own = f"{table.name}.{name}" if workbook.names[1:] else table.name
            sheet = workbook.sheet(place)
            _load_sheet(database, own, sheet.rows)
            notes = [text for text, holds in _notes(sheet) if holds]
            if notes:
                comment = literal(f"{'; '.join(notes)}.")
                for kind, relation in (("TABLE", _numbered(own)), ("VIEW", f"main.{quoted(own)}")):
                    database.execute(f"COMMENT ON {kind} {relation} IS {comment}")


def _notes(sheet: Any) -> Iterator[tuple[str, bool]]:
    yield "Hidden sheet", sheet.is_hidden
    yield "Empty rows and columns are left out", sheet.is_compacted


def _load_sheet(
    database: duckdb.DuckDBPyConnection, name: str, given: Iterable[Sequence[Any]]
) -> None:
    # The rows of an ODS differ in length; others are as long as the sheet is wide.
    width = max(map(len, given), default=0) if isinstance(given, list) else 0
    rows = iter(given)
    head = next(rows, None)
    if head is None:
        return
    names = _unique_names([*head, *[None] * (width - len(head))])
    texts: list[list[str | None]] = [[] for _ in names]
    count = 0
    raw = f"{quoted(NUMBERED)}.{quoted('~loaded')}"
    columns = ", ".join(f"{quoted(each)} VARCHAR" for each in names)
    database.execute(f"CREATE OR REPLACE TABLE {raw} ({quoted(ROW)} BIGINT, {columns})")

    def insert() -> None:
        first = count - len(texts[0]) + 1
        numbers = list(range(first, count + 1))
        places = ", ".join(["unnest(?)"] * (len(names) + 1))
        database.execute(f"INSERT INTO {raw} SELECT {places}", [numbers, *texts])
        for each in texts:
            each.clear()

    for row in rows:
        if count * len(names) > _MAX_CELLS:
            raise ValueError(f"it has more than {_MAX_CELLS:,} cells")
        for place, values in enumerate(texts):
            values.append(_text(row[place]) if place < len(row) else None)
        count += 1
        if count % _CHUNK_ROWS == 0:
            insert()
    if texts[0]:
        insert()
    casts = ", ".join(
        f"TRY_CAST({quoted(each)} AS {_type(database, raw, each)}) AS {quoted(each)}"
        for each in names
    )
    database.execute(
        f"CREATE TABLE {_numbered(name)} AS SELECT {quoted(ROW)}, {casts} FROM {raw} "  # noqa: S608
        f"ORDER BY {quoted(ROW)}"
    )
    database.execute(f"DROP TABLE {raw}")
    _show(database, name)


def _type(database: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Return the narrowest type that holds every value of a column of texts."""
    name = quoted(column)
    for type in ("BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "BOOLEAN"):
        # Only digits: DuckDB would round "1.5" to an integer.
        fits = f"TRY_CAST({name} AS {type}) IS NOT NULL"
        if type == "BIGINT":
            fits = f"({fits} AND regexp_full_match({name}, '-?(0|[1-9][0-9]*)'))"
        if type == "DATE":  # which DuckDB also makes of a time of a day
            fits = (
                f"({fits} AND CAST(TRY_CAST({name} AS DATE) AS TIMESTAMP) = "
                f"TRY_CAST({name} AS TIMESTAMP))"
            )
        ((unfit, held),) = database.execute(
            f"SELECT count(*) FILTER (NOT {fits}), count({name}) FROM {table} "  # noqa: S608
            f"WHERE {name} IS NOT NULL"
        ).fetchall()
        if held and not unfit:
            return type
    return "VARCHAR"


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _unique_names(head: Sequence[Any]) -> list[str]:
    """Return a name for each column: its cell in the first row, or `column` with its number."""
    names: list[str] = []
    taken = {ROW}
    for place, value in enumerate(head, 1):
        name = given = _text(value) or f"column{place}"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{given}_{number}"
        taken.add(name.casefold())
        names.append(name)
    return names


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return "it needs too much memory"
    if isinstance(error, duckdb.Error):
        text = str(error)
        if isinstance(error, duckdb.CatalogException) and "already exists" in text:
            return "another file has this name, in other letter cases; rename one"
        if "utf-8" in text.lower() or "unicode" in text.lower():
            return "its text is not UTF-8; save it as UTF-8"
        return "it is damaged, or not what its name says; replace or remove it"
    if isinstance(error, ImportError):
        return "spreadsheets need the extra `documents`"
    return str(error) if isinstance(error, ValueError | ConversionError) else "it cannot be read"


def _numbered(name: str) -> str:
    return f"{quoted(NUMBERED)}.{quoted(name)}"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
