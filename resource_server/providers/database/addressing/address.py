"""Addresses of a database's resources: paths below the mount, parsed without its tables.

| path | names |
|---|---|
| `()` | the database |
| `(schema,)` | a schema, where the engine has schemas; the paths of its tables begin with it |
| `(table,)` | a table or view: the collection of its documents and rows |
| `(table, "~schema")` | the document of its definition |
| `(table, "~rows")` | the document of a page of its rows |
| `(table, "~summary")` | the document of its groups, with counts and sums |
| `(table, k1, k2, …)` | a row, one segment for each column of the key |
| `(table, k1, k2, …, "~cell", column)` | one value of a row, whole |
| `("~query",)` | the collection of queries |
| `("~query", name)` | the document of a query |

Names that a URI cannot carry, or that begin with `~`, have the typed form of text
(`uris.encode_text`): a table `~query` is `~t~7Equery`. Key segments stay undecoded, because
decoding them needs the columns of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database.addressing.segments import decode_text, fits_uri
from resource_server.providers.database.engines.reflection import TableName

SCHEMA = "~schema"
ROWS = "~rows"
SUMMARY = "~summary"
CELL = "~cell"
QUERY = "~query"

_TYPED = tuple("irtb")


class DatabaseAddress(msgspec.Struct, frozen=True):
    """The database: the mount's own collection."""


class SchemaAddress(msgspec.Struct, frozen=True):
    """A schema."""

    schema: str


class TableAddress(msgspec.Struct, frozen=True):
    """A table or view."""

    table: TableName


class DefinitionAddress(msgspec.Struct, frozen=True):
    """The `~schema` of a table."""

    table: TableName


class PageAddress(msgspec.Struct, frozen=True):
    """The `~rows` of a table."""

    table: TableName


class SummaryAddress(msgspec.Struct, frozen=True):
    """The `~summary` of a table."""

    table: TableName


class RowAddress(msgspec.Struct, frozen=True):
    """A row; `key` holds at least one segment, undecoded."""

    table: TableName
    key: Path


class CellAddress(msgspec.Struct, frozen=True):
    """One value of a row."""

    table: TableName
    key: Path
    column: str


class QueriesAddress(msgspec.Struct, frozen=True):
    """The collection of queries."""


class QueryAddress(msgspec.Struct, frozen=True):
    """A query."""

    name: str


Address: TypeAlias = (
    DatabaseAddress
    | SchemaAddress
    | TableAddress
    | DefinitionAddress
    | PageAddress
    | SummaryAddress
    | RowAddress
    | CellAddress
    | QueriesAddress
    | QueryAddress
)

_NAMES: Mapping[type[DefinitionAddress | PageAddress | SummaryAddress], str] = {
    DefinitionAddress: SCHEMA,
    PageAddress: ROWS,
    SummaryAddress: SUMMARY,
}
"""The documents of a table, each with its segment."""


def parse_path(path: Path, *, has_schemas: bool) -> Address:
    """Return the address of a path, whether or not the resource exists.

    Raises:
        ResourceNotFound: no resource can have this path.
    """
    if not path:
        return DatabaseAddress()
    if path[0] == QUERY:
        return _parse_query(path[1:])
    if not has_schemas:
        return _parse_table(None, path[0], path[1:])
    schema, *below = path
    if not below:
        return SchemaAddress(decode_text(schema))
    return _parse_table(decode_text(schema), below[0], tuple(below[1:]))


def address_path(address: Address) -> Path:
    """Return the canonical path of an address; its key has to be canonical already.

    Raises:
        ValueError: the path is too long for a URI, or a name is not Unicode.
    """
    path = _segments_of(address)
    if not fits_uri("/".join(path)):
        raise ValueError("the path is too long for a URI")
    return path


def _parse_table(schema: str | None, name: str, below: Path) -> Address:
    table = TableName(schema, decode_text(name))
    if not below:
        return TableAddress(table)
    for document, segment in _NAMES.items():
        if below == (segment,):
            return document(table)
    if len(below) >= 2 and below[-2] == CELL:
        return CellAddress(table, _parse_key(below[:-2]), decode_text(below[-1]))
    return RowAddress(table, _parse_key(below))


def _parse_query(below: Path) -> Address:
    if not below:
        return QueriesAddress()
    if len(below) != 1:
        raise ResourceNotFound
    return QueryAddress(decode_text(below[0]))


def _parse_key(key: Path) -> Path:
    if not key:
        raise ResourceNotFound
    for segment in key:
        if not uris.is_segment(segment):
            raise ResourceNotFound
        # `~rows` looks like a typed real; `~schema`, `~cell` and `~query` like no typed form.
        if segment[0] == "~" and (not segment.startswith(_TYPED, 1) or segment == ROWS):
            raise ResourceNotFound
    return key


def _segments_of(address: Address) -> Path:
    match address:
        case DatabaseAddress():
            return ()
        case QueriesAddress():
            return (QUERY,)
        case QueryAddress(name):
            return (QUERY, uris.encode_text(name))
        case SchemaAddress(schema):
            return (uris.encode_text(schema),)
        case TableAddress(table):
            return _table_path(table)
        case DefinitionAddress(table) | PageAddress(table) | SummaryAddress(table):
            return (*_table_path(table), _NAMES[type(address)])
        case RowAddress(table, key):
            return (*_table_path(table), *key)
        case CellAddress(table, key, column):
            return (*_table_path(table), *key, CELL, uris.encode_text(column))


def _table_path(table: TableName) -> Path:
    name = uris.encode_text(table.name)
    return (name,) if table.schema is None else (uris.encode_text(table.schema), name)
