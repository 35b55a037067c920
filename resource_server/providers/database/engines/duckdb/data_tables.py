"""Tables of data files: CSV, JSON Lines and sheets as our reader reads them, Parquet as it is.

Each has two relations of its name: in the schema `main` the columns of the file, for queries; in
the schema `NUMBERED` also `ROW`, the number of each row from 1, which is the key of its pages.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import duckdb
from msgspec.structs import replace

from resource_server.conversion import causes, sandbox
from resource_server.conversion.formats import delimited, row_tables
from resource_server.conversion.formats.delimited import Delimited
from resource_server.errors import ConversionError
from resource_server.providers.database.engines.duckdb import text_columns
from resource_server.providers.database.engines.duckdb.messages import (
    NUMBERED,
    ROW,
    DataFile,
    DataTable,
)
from resource_server.providers.database.engines.duckdb.text_columns import (
    STAGE,
    TextRows,
    spelt_columns,
    sql_literal,
)
from resource_server.providers.database.engines.reflection import quoted
from resource_server.runtime.causes import UNKNOWN, find

_LOADED_BYTES: Final = 64 * 1024 * 1024
"""Size of the CSV files that are loaded into memory, all together; longer ones are views."""
_MAX_CELLS: Final = 5_000_000
"""Cells of a sheet."""
_UNREADABLE: Final = (
    duckdb.Error,
    OSError,
    EOFError,
    zlib.error,
    csv.Error,
    ValueError,
    RecursionError,
    MemoryError,
    ImportError,
    ConversionError,
)
_FOUND_ROW: Final = "file_row_number"
_PARQUET: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_MAX_NAMED: Final = 5
"""Lines that a problem names."""
_ENCODINGS: Final = ("utf-8", "utf-8-sig")
_CHUNK_ROWS: Final = 20_000


class Made(NamedTuple):
    """Tables made of data files."""

    problems: list[str]
    """What is left out, or unusual, of each file."""
    sources: dict[str, int]
    """Place of the data table that each was made of, by its name in lower case."""


def make(
    database: duckdb.DuckDBPyConnection,
    tables: Sequence[DataTable],
    begin: Callable[[int], None] = lambda _: None,
) -> Made:
    """Create the tables of all files that can be read.

    `begin` is called with the index of each data table before its creation, then with their number.
    """
    maker = _Maker(database)
    database.execute(f"CREATE SCHEMA {quoted(NUMBERED)}")
    for place, table in enumerate(tables):
        begin(place)
        maker.make(place, table)
    begin(len(tables))
    return maker.made


def allowed_paths(tables: Sequence[DataTable]) -> str:
    """Return the statement that allows DuckDB to read the files of these tables only."""
    paths = [file.path for table in tables for file in table.files]
    return f"SET allowed_paths = [{', '.join(map(sql_literal, paths))}]"


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


class _Maker:
    """Makes tables one after the other, within one amount of memory."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._room = _LOADED_BYTES
        self._place = 0
        self.made = Made([], {})

    def make(self, place: int, table: DataTable) -> None:
        """Create one table, or those of the sheets of a file."""
        self._place = place
        self._database.execute(f"ATTACH ':memory:' AS {STAGE} (COMPRESS)")
        try:
            match table.kind:
                case "parquet":
                    self._make_parquet(table)
                case "sheets":
                    with self._left_out(table.files[0].name):
                        self._make_sheets(table)
                case _:
                    self._make_texts(table)
        finally:
            self._database.execute(f"DETACH {STAGE}")

    @contextmanager
    def _left_out(self, name: str) -> Generator[None]:
        try:
            yield
        except _UNREADABLE as error:
            self.made.problems.append(f"a data file is left out: {name}: {_reason(error)}")

    def _note(self, name: str, notes: Sequence[str]) -> None:
        self.made.problems.extend(f"{name}: {note}" for note in notes)

    def _create(self, name: str, select: str, *, is_loaded: bool) -> None:
        """Create both relations of a table.

        Raises:
            ValueError: there is one of its name.
        """
        if name.lower() in self.made.sources:
            raise ValueError("another file has this name, in other letter cases; rename one")
        own = _numbered(name)
        self._database.execute(f"CREATE {'TABLE' if is_loaded else 'VIEW'} {own} AS {select}")
        self._database.execute(
            f"CREATE VIEW main.{quoted(name)} AS "  # noqa: S608
            f"SELECT * EXCLUDE ({quoted(ROW)}) FROM {own}"
        )
        self.made.sources[name.lower()] = self._place

    def _make_parquet(self, table: DataTable) -> None:
        files: list[DataFile] = []
        for file in table.files:
            with self._left_out(file.name):
                _check_parquet(file)
                self._database.execute(f"DESCRIBE {_parquet([file])}")
                files.append(file)
        if not files:
            return
        with self._left_out(table.name if files[1:] else files[0].name):
            source = _parquet(files)
            described = self._database.execute(f"DESCRIBE {source}").fetchall()
            columns = [str(row[0]).lower() for row in described]
            if ROW in columns:
                raise ValueError(f"it has a column '{ROW}', a reserved name")
            is_numbered = len(files) == 1 and _FOUND_ROW not in columns
            number = f"{_FOUND_ROW} + 1" if is_numbered else "row_number() OVER ()"
            rows = source.removeprefix("SELECT ")
            self._create(table.name, f"SELECT {number} AS {quoted(ROW)}, {rows}", is_loaded=False)

    def _make_texts(self, table: DataTable) -> None:
        """Make one table of files of text, whose columns go by name."""
        size = sum(file.size for file in table.files)
        is_view = table.kind == "csv" and size > self._room
        parts: list[TextRows] = []
        for number, file in enumerate(table.files):
            with self._left_out(file.name):
                part = self._read(file, table.kind, f"s{number}", is_view=is_view)
                if not part.columns:
                    raise ValueError("it is empty")
                parts.append(part)
                self._note(file.name, part.notes)
        if parts:
            with self._left_out(table.name if parts[1:] else table.files[0].name):
                loaded = self._create_typed(table.name, text_columns.united(parts))
                self._room -= size * loaded

    def _read(self, file: DataFile, kind: str, stage: str, *, is_view: bool) -> TextRows:
        """Return the rows of a file; CSV that does not fit into memory as DuckDB reads it."""
        with _stream(file) as stream:
            if kind == "json":
                return _json_texts(self._database, stage, stream)
            media_type = "text/tab-separated-values" if ".tsv" in file.name.lower() else "text/csv"
            found = delimited.read_dialect(stream, media_type)
            if is_view:
                part = csv_view(self._database, file.path, stream, found)
                if part is not None:
                    return part
            unclosed: list[int] = []
            rows = delimited.read_rows(stream, found, unclosed)
            try:
                part = text_columns.stage_rows(self._database, stage, found.names, rows)
            except duckdb.OutOfMemoryException:
                part = None if is_view else csv_view(self._database, file.path, stream, found)
                if part is None:
                    raise
            note = "a quote is never closed; the line is read as it stands"
            return replace(part, notes=(*part.notes, *_of_lines(unclosed, note)))

    def _create_typed(self, name: str, texts: TextRows) -> bool:
        """Create a table of texts with the types that fit them; return whether it is loaded."""
        types = text_columns.typed(self._database, texts)
        select = f"SELECT row_number() OVER () AS {quoted(ROW)}, {types} FROM ({texts.select})"  # noqa: S608
        self._create(name, select, is_loaded=texts.is_loaded)
        if texts.is_loaded:
            counted = f"SELECT count(*) FROM {_numbered(name)}"  # noqa: S608
            ((count,),) = self._database.execute(counted).fetchall()
            if count != texts.rows:
                self._note(name, [f"{count:,} rows are served of {texts.rows:,} in the file"])
        return texts.is_loaded

    def _make_sheets(self, table: DataTable) -> None:
        """Load each sheet of a spreadsheet as a table; its first row names the columns."""
        from resource_server.conversion.formats import sheets

        with Path(table.files[0].path).open("rb") as file:
            workbook = sheets.workbook(file)
            for place, sheet_name in enumerate(workbook.names):
                name = f"{table.name}.{sheet_name}" if workbook.names[1:] else table.name
                with self._left_out(name if workbook.names[1:] else table.files[0].name):
                    self._make_sheet(name, f"s{place}", workbook.sheet(place))

    def _make_sheet(self, name: str, stage: str, sheet: Any) -> None:
        """Load a sheet, whose first row names the columns; one without cells is no table."""
        rows: Iterator[Sequence[Any]] = iter(sheet.rows)
        head = [text_columns.spelt_text(cell, "") for cell in next(rows, ())]
        if not head:
            return
        texts = text_columns.stage_values(
            self._database,
            stage,
            _bounded(rows, len(head)),
            lambda width: row_tables.column_names(head, max(width, len(head)), (ROW,)),
            null="",
        )
        self._create_typed(name, texts)
        notes = [text for text, holds in _notes(sheet) if holds]
        if notes:
            comment = sql_literal(f"{'; '.join(notes)}.")
            kinds = (("TABLE", _numbered(name)), ("VIEW", f"main.{quoted(name)}"))
            for kind, relation in kinds:
                self._database.execute(f"COMMENT ON {kind} {relation} IS {comment}")


def _json_texts(database: duckdb.DuckDBPyConnection, stage: str, stream: BinaryIO) -> TextRows:
    names: list[str] = []
    broken: list[int] = []
    rows = delimited.read_json_lines(stream, names, broken)
    texts = text_columns.stage_values(
        database, stage, rows, lambda width: row_tables.column_names(names, width, (ROW,))
    )
    note = "the line is no JSON; it is text in the column `value`"
    return replace(texts, notes=(*texts.notes, *_of_lines(broken, note)))


def _of_lines(numbers: Sequence[int], note: str) -> Sequence[str]:
    """Return a note about lines, by their numbers."""
    if not numbers:
        return ()
    named = ", ".join(map(str, numbers[:_MAX_NAMED]))
    more = f" and {len(numbers) - _MAX_NAMED} more" if len(numbers) > _MAX_NAMED else ""
    return (f"line{'s' if numbers[1:] else ''} {named}{more}: {note}",)


@contextmanager
def _stream(file: DataFile) -> Generator[BinaryIO]:
    with Path(file.path).open("rb") as stream:
        if file.name.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=stream) as inside:
                yield cast("BinaryIO", inside)
        else:
            yield stream


def _parquet(files: Sequence[DataFile]) -> str:
    paths = ", ".join(sql_literal(file.path) for file in files)
    return f"SELECT * FROM read_parquet([{paths}], union_by_name = true)"  # noqa: S608


def _check_parquet(file: DataFile) -> None:
    """Check the signs at both ends of a Parquet file.

    Raises:
        ValueError: they are missing.
    """
    with Path(file.path).open("rb") as stream:
        begin = stream.read(len(_PARQUET))
        stream.seek(max(file.size - len(_PARQUET), 0))
        ends = {begin, stream.read(len(_PARQUET))}
    if _ENCRYPTED in ends:
        raise ValueError("it is encrypted")
    if begin != _PARQUET:
        raise ValueError("it is no Parquet: it begins otherwise")
    if ends != {_PARQUET}:
        raise ValueError("its end is missing; it was not written whole")


def _bounded(rows: Iterator[Sequence[Any]], width: int) -> Iterator[Sequence[Any]]:
    """Yield the rows of a sheet.

    Raises:
        ValueError: there are too many.
    """
    for count, row in enumerate(rows):
        if count * max(width, len(row)) > _MAX_CELLS:
            raise ValueError(f"it has more than {_MAX_CELLS:,} cells")
        yield row


def _notes(sheet: Any) -> Iterator[tuple[str, bool]]:
    yield "Hidden sheet", sheet.is_hidden
    yield "Empty rows and columns are left out", sheet.is_compacted


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "spreadsheets need the extra `documents`"
    if isinstance(error, ValueError | ConversionError) and not isinstance(error, UnicodeError):
        return str(error)
    cause, _ = find(causes.DOCUMENT, causes.codes(error))
    return f"{cause.told}; {cause.remedy}" if cause is not UNKNOWN else "it cannot be read"


def _numbered(name: str) -> str:
    return f"{quoted(NUMBERED)}.{quoted(name)}"


def csv_view(
    database: duckdb.DuckDBPyConnection, path: str, stream: BinaryIO, found: Delimited
) -> TextRows | None:
    """Return the rows of a CSV file as DuckDB reads them; None if it reads others than we do.

    Both read the whole file once: rows and their characters are counted and compared. Cells that
    are divided otherwise have other delimiters and quotes among their characters.

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
