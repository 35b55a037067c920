"""Reflection of DuckDB tables: catalog queries and their results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from resource_server.providers.database.engines.duckdb import key_types
from resource_server.providers.database.engines.duckdb.value_readers import is_json
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    Index,
    Key,
    Table,
    TableName,
)

RELATIONS: Final = """
(SELECT schema_name, table_name AS name, 'table' AS type, comment, sql
FROM duckdb_tables() WHERE NOT internal AND NOT temporary
UNION ALL SELECT schema_name, view_name, 'view', comment, sql
FROM duckdb_views() WHERE NOT internal AND NOT temporary)
WHERE (schema_name, lower(name)) NOT IN
    (SELECT (schema_name, lower(view_name)) FROM duckdb_views() WHERE internal)"""
"""Tables and views, but for those in the place of a view that DuckDB finds first."""
TABLES: Final = f"SELECT schema_name, name, type, comment FROM {RELATIONS} ORDER BY ALL"  # noqa: S608
TABLE: Final = f"""
SELECT type, comment, sql FROM {RELATIONS} AND schema_name = $1 AND name = $2"""  # noqa: S608
COLUMNS: Final = """
SELECT column_name, data_type, is_nullable, column_default, comment, is_generated,
    generation_expression
FROM duckdb_columns() WHERE schema_name = $1 AND table_name = $2 ORDER BY column_index"""
CONSTRAINTS: Final = """
SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE schema_name = $1 AND table_name = $2 ORDER BY constraint_index"""
INDEXES: Final = """
SELECT index_name, is_unique, expressions
FROM duckdb_indexes() WHERE schema_name = $1 AND table_name = $2 ORDER BY index_name"""
ESTIMATE: Final = """
SELECT estimated_size FROM duckdb_tables() WHERE schema_name = $1 AND table_name = $2"""
VIEWS: Final = f"SELECT schema_name, name, sql FROM {RELATIONS} AND type = 'view'"  # noqa: S608
DATABASE: Final = "SELECT database_name FROM duckdb_databases() WHERE NOT internal"
"""The name of the database in SQL."""
MACROS: Final = """
SELECT DISTINCT lower(function_name) FROM duckdb_functions()
WHERE NOT internal AND macro_definition IS NOT NULL"""

_ROWID: Final = "rowid"
_ENUMERATION = re.compile(r"ENUM\((.*)\)", re.DOTALL)
_ENUMERATED = re.compile(r"'((?:[^']|'')*)'")
_PLAIN_NAME = re.compile(r'\[?"?([^"\[\],()]+)"?\]?')
_COLLATE = re.compile(r"\bcollate\b", re.IGNORECASE)
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BIGNUM")
_KINDS: Mapping[str, ColumnKind] = {
    "DOUBLE": "real",
    "FLOAT": "real",
    "DECIMAL": "numeric",
    "VARCHAR": "text",
    "ENUM": "text",
    "BLOB": "blob",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "UUID": "uuid",
    "JSON": "json",
}

Row = Sequence[Any]


def table(
    name: TableName,
    head: Row,
    columns: Sequence[Row],
    constraints: Sequence[Row],
    indexes: Sequence[Row],
    *,
    numbered: str | None,
) -> Table:
    """Return a table from the rows of `TABLE`, `COLUMNS`, `CONSTRAINTS` and `INDEXES`.

    Args:
        name: its name.
        head: the row of `TABLE`.
        columns: the rows of `COLUMNS`.
        constraints: the rows of `CONSTRAINTS`.
        indexes: the rows of `INDEXES`.
        numbered: the column that numbers the rows of a data file, which is none of its columns.
    """
    type, comment, ddl = head
    # A collation finds several values that an index keeps apart.
    has_text_keys = _COLLATE.search(ddl or "") is None
    reflected = tuple(
        _column(row, has_text_keys=has_text_keys) for row in columns if row[0] != numbered
    )
    if numbered is not None:
        number, type, ddl = numbered, "table", None
    else:
        number = None if type == "view" or _has_rowid_column(reflected) else _ROWID
    keys = _keys(constraints, reflected)
    if number is not None:
        keys.append(Key("rowid" if numbered is None else "number", (number,)))
    found = Table(
        name=name,
        type=type,
        columns=reflected,
        foreign_keys=tuple(_foreign_key(name, row) for row in constraints if row[2]),
        indexes=tuple(_index(row) for row in indexes),
        comment=comment,
        ddl=ddl,
        rowid=None if number is None else _number(number),
    )
    return found.with_key(keys)


def _number(name: str) -> Column:
    type = key_types.key_type("BIGINT")
    return Column(name, "BIGINT", "integer", nullable=False, key_type=type)


def _has_rowid_column(columns: Sequence[Column]) -> bool:
    return any(column.name.casefold() == _ROWID for column in columns)


def _column(row: Row, *, has_text_keys: bool) -> Column:
    name, type, nullable, default, comment, generated, expression = row
    values = _values(type)
    codec = key_types.key_type(type)
    if codec is not None and type == "VARCHAR" and not has_text_keys:
        codec = msgspec.structs.replace(codec, is_compared=False)
    return Column(
        name,
        type,
        _kind(type),
        nullable=bool(nullable),
        default=expression if generated else default,
        generated=bool(generated),
        comment=comment,
        values=values,
        key_type=codec,
    )


def _values(type: str) -> tuple[str, ...]:
    found = _ENUMERATION.fullmatch(type)
    if found is None:
        return ()
    return tuple(each.replace("''", "'") for each in _ENUMERATED.findall(found[1]))


def _kind(type: str) -> ColumnKind:
    base = type.partition("(")[0]
    if is_json(type):
        return "json"
    if type.endswith("]"):
        return "other"
    if base.startswith("TIMESTAMP"):
        return "datetime"
    if base.startswith("TIME"):
        return "time"
    if base.removeprefix("U") in _INTEGERS:
        return "integer"
    return _KINDS.get(base, "other")


def _keys(constraints: Sequence[Row], columns: Sequence[Column]) -> list[Key]:
    """Return the primary key, then unique ones without NULL, shortest first."""
    types = {column.name: column for column in columns}
    primary: list[Key] = []
    unique: list[Key] = []
    for type, names, *_ in constraints:
        listed = tuple(map(str, names or ()))
        known = [types[name] for name in listed if name in types and types[name].is_address]
        if not listed or len(known) < len(listed):
            continue
        if type == "PRIMARY KEY":
            primary.append(Key("primary", listed))
        elif type == "UNIQUE" and not any(column.nullable for column in known):
            unique.append(Key("unique", listed))
    return [*primary, *sorted(unique, key=lambda key: (len(key.columns), key.columns))]


def _foreign_key(name: TableName, row: Row) -> ForeignKey:
    _, names, referred_table, referred = row
    return ForeignKey(
        tuple(map(str, names)),
        TableName(name.schema, str(referred_table)),
        tuple(map(str, referred)),
    )


def _index(row: Row) -> Index:
    name, unique, expressions = row
    listed = [each.strip() for each in str(expressions or "").strip("[]").split(",")]
    columns = tuple(each.strip("\"'") if _PLAIN_NAME.fullmatch(each) else None for each in listed)
    return Index(name, columns, bool(unique))
