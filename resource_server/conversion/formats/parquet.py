"""Parquet as tables, read by DuckDB: the rows and columns that are wanted and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

import duckdb

from resource_server.conversion.formats import row_tables
from resource_server.conversion.formats.row_tables import Row, RowTable
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

MEMORY_BYTES: Final = 4 * 1024 * 1024 * 1024
"""DuckDB reserves far more than it uses; its own limit is what counts."""
OPENS_DOCUMENT: Final = True
_CONFIGURATION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "memory_limit": "256MB",
    "temp_directory": "",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}
_ROWS: Final = 10_000
"""Rows of one statement."""
_FOUND_ROW: Final = "file_row_number"
_COUNTED_ROW: Final = '"~row"'
_JSON_TYPES: Final[Mapping[str, str]] = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "number"),
}
_NESTED: Final = ("STRUCT", "MAP", "UNION")


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield at most 1,000 rows a part; as `json`, the parts together are one document."""
    try:
        yield from row_tables.parts(_table(file, request), request)
    except duckdb.OutOfMemoryException:
        raise ConversionError("it takes too much memory") from None
    except duckdb.Error:
        raise ConversionError("it is damaged, encrypted, or no Parquet") from None


def _table(file: BinaryIO, request: ConversionRequest) -> RowTable:
    path = f"/dev/fd/{file.fileno()}"
    database = duckdb.connect(config=_CONFIGURATION)
    database.execute(f"SET allowed_paths = ['{path}']")
    for each in ("TimeZone = 'UTC'", "enable_external_access = false", "lock_configuration = true"):
        database.execute(f"SET {each}")
    plain = f"read_parquet('{path}')"
    described = database.execute(f"DESCRIBE SELECT * FROM {plain}").fetchall()  # noqa: S608
    types = {str(name): str(type) for name, type, *_ in described}
    source, place = f"read_parquet('{path}', file_row_number = true)", _FOUND_ROW
    if _FOUND_ROW in map(str.lower, types):  # the file has a column of this name
        place = _COUNTED_ROW
        source = f"(SELECT *, row_number() OVER () - 1 AS {place} FROM {plain})"  # noqa: S608
    counted = "SELECT num_rows FROM parquet_file_metadata(?)"
    ((total,),) = database.execute(counted, [path]).fetchall()
    first, last = row_tables.wanted_rows(request)
    until = total if last is None else min(last, total)
    values = ", ".join(_value(f'"{_escaped(name)}"', type) for name, type in types.items())
    # The place of a row is known without reading those before it.
    select = (
        f"SELECT {values} FROM {source} WHERE {place} BETWEEN ? AND ? "  # noqa: S608
        f"ORDER BY {place}"
    )
    rows = _rows(database, select, first - 1, until, list(types.values()))
    kinds = {name: _JSON_TYPES.get(type, type.lower()) for name, type in types.items()}
    return RowTable(rows, list(types), kinds, "Parquet", lambda _: total, skipped=first - 1)


def _rows(
    database: duckdb.DuckDBPyConnection, select: str, first: int, until: int, types: list[str]
) -> Iterator[Row]:
    nested = [_is_nested(type) for type in types]
    for begin in range(first, until, _ROWS):
        database.execute(select, [begin, min(begin + _ROWS, until) - 1])
        while found := database.fetchmany(100):
            for row in found:
                yield [
                    json.loads(value) if is_nested and value is not None else value
                    for value, is_nested in zip(row, nested, strict=True)
                ]


def _value(column: str, type: str) -> str:
    """Return the SQL of a value as the worker sends it: a number, a boolean or text."""
    if type in _JSON_TYPES:
        return column
    if _is_nested(type):
        return f"CAST(to_json({column}) AS VARCHAR)"
    if type == "BLOB":
        return f"'[' || octet_length({column}) || ' bytes]'"
    return f"CAST({column} AS VARCHAR)"


def _is_nested(type: str) -> bool:
    return type.endswith("]") or type.startswith(_NESTED)


def _escaped(name: str) -> str:
    return name.replace('"', '""')
