"""What the record of reads has of a database's addresses and statements: no value of a hidden one.

A request that was served has only values of visible columns: a filter by any other is refused, and
a masked column is never part of a key. Whatever a declared query compares its parameters with, and
all of a request that was not served, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database.addressing.address import (
    CELL,
    QUERY,
    CellAddress,
    DatabaseAddress,
    QueriesAddress,
    QueryAddress,
    RowAddress,
    SchemaAddress,
    TableAddress,
    address_path,
    parse_path,
)
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.queries import sql_tokenizer

LEFT_OUT: Final = "..."


def recorded_address(
    path: Path,
    query: Mapping[str, str],
    *,
    served: bool,
    has_schemas: bool,
    is_known: Callable[[TableName | str], bool],
) -> tuple[Path, Mapping[str, str]]:
    """Return an address without values; `is_known` tells names of tables and queries from others.

    See `SupportsRecord.recorded_address`.
    """
    is_query = path[:1] == (QUERY,)
    if served and not is_query:
        return path, query
    return _names(path, has_schemas, is_known), dict.fromkeys(query, LEFT_OUT)


def _names(path: Path, has_schemas: bool, is_known: Callable[[TableName | str], bool]) -> Path:
    try:
        address = parse_path(path, has_schemas=has_schemas)
    except ResourceNotFound:
        return (LEFT_OUT,)
    match address:
        case DatabaseAddress() | QueriesAddress():
            return path
        case QueryAddress(name):
            return path if is_known(name) else (QUERY, LEFT_OUT)
        case SchemaAddress(schema):
            return path if is_known(TableName(schema, "")) else (LEFT_OUT,)
        case _:
            pass
    if not is_known(address.table):
        return (LEFT_OUT,)
    table = address_path(TableAddress(address.table))
    match address:
        case RowAddress():
            return (*table, LEFT_OUT)
        case CellAddress():
            return (*table, LEFT_OUT, CELL, LEFT_OUT)
        case _:
            return path


def recorded_statement(sql: str, engine: EngineName) -> str:
    """Return SQL with `?` for each literal and quoted name, without comments.

    A name in quotes may be a string: SQLite takes it for one if there is no such column.
    """
    try:
        tokens = sql_tokenizer.statement(sql, engine)
    except ValueError:
        return LEFT_OUT
    parts: list[str] = []
    for token in tokens:
        text = token.text
        if token.kind == "space":
            text = " "
        elif token.kind == "parameter":
            text = f":{text}"
        elif token.kind == "name" or (token.kind == "other" and not _is_sign(text)):
            text = "?"
        elif token.kind == "word" and (text[0].isdigit() or parts[-1:] == ["?"]):
            text = "?"  # the rest of a number, such as 0x5EC2E7, 1_000 or 1e9
        if not (text in (" ", "?") and parts[-1:] == [text]):
            parts.append(text)
    return "".join(parts).strip()


def _is_sign(text: str) -> bool:
    return len(text) == 1 and text.isascii() and not text.isalnum() and text not in "'\"`$@#\\"
