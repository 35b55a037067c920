"""Reflected tables, columns, keys and indexes, in one form for all engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from resource_server.providers.database.addressing.key_types import KeyType

TableType: TypeAlias = Literal["table", "view", "materialized view", "virtual table"]

ColumnKind: TypeAlias = Literal[
    "integer",
    "real",
    "numeric",
    "text",
    "blob",
    "boolean",
    "date",
    "time",
    "datetime",
    "uuid",
    "json",
    "any",
    "other",
]
"""The kind of value a column's declared type promises. `any`: each row may have another (SQLite:
BLOB affinity or STRICT ANY); `numeric`: a number of any precision."""

KeyKind: TypeAlias = Literal["primary", "unique", "declared", "rowid", "number", "none"]
"""The origin of a key: `declared` in the manifest; `rowid` is the database's own, which it may
change; `number` counts the rows of a data file from 1; with `none`, rows have neither an order nor
an address."""


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
VIEWS: Sequence[TableType] = ("view", "materialized view")
"""Types of tables whose rows come from other tables."""


class TableName(NamedTuple):
    """The name of a table; `schema` is None if the engine has no schemas."""

    schema: str | None
    name: str


def quoted(name: str, engine: str = "") -> str:
    """Return an identifier in the quotes of an engine; without one, in those of standard SQL."""
    if engine in ("mysql", "mariadb"):
        return backquoted(name)
    return '"' + name.replace('"', '""') + '"'


def backquoted(name: str) -> str:
    """Return a MariaDB or MySQL identifier in quotes; SQLite takes it, too, and never for text."""
    return "`" + name.replace("`", "``") + "`"


def folded(name: str) -> str:
    """Return a name as SQLite and DuckDB compare it: without the case of ASCII letters."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def names_in_sql(tables: Iterable[TableName]) -> Sequence[str]:
    """Return a name for each table, without its schema, for the SQL of callers.

    It is the table's own name. Of tables of one name, the first has it; the name of another begins
    with its schema, as `sales_orders`.
    """
    found: dict[str, str] = {}
    for table in tables:
        name = table.name
        if name.casefold() in found:
            name = f"{table.schema or ''}_{name}"
        while name.casefold() in found:
            name += "_"
        found[name.casefold()] = name
    return [*found.values()]


class TableInfo(msgspec.Struct, frozen=True):
    """A table as listed, without its columns."""

    name: TableName
    type: TableType = "table"
    comment: str | None = None


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """As the database writes it: `NUMERIC(10, 2)`; may be empty on SQLite."""
    kind: ColumnKind
    nullable: bool = True
    default: str | None = None
    """An SQL expression."""
    generated: bool = False
    """Whether the database computes it."""
    comment: str | None = None
    values: tuple[str, ...] = ()
    """The values of an enumeration, in their order."""
    key_type: KeyType | None = None
    """What can be done with its values, and how they are spelled; None: they are only shown."""

    @property
    def is_address(self) -> bool:
        """Whether its values address rows."""
        return self.key_type is not None and self.key_type.is_key and self.key_type.is_compared


class ForeignKey(msgspec.Struct, frozen=True):
    """Columns that refer to the key of another row."""

    columns: tuple[str, ...]
    table: TableName
    referred: tuple[str, ...]


class Index(msgspec.Struct, frozen=True):
    """An index; an indexed expression has None for its column."""

    name: str
    """Empty if it may tell of hidden columns."""
    columns: tuple[str | None, ...]
    unique: bool = False
    partial: bool = False
    """Whether it has a condition."""


class WordIndex(msgspec.Struct, frozen=True):
    """A full-text index, which finds the words of some columns."""

    columns: tuple[str, ...]
    """All that it is made from."""
    table: str = ""
    """SQLite: the full-text table, which may be this one; or it numbers its rows by their `key`."""
    key: str = "rowid"
    expression: str = ""
    """PostgreSQL: what is indexed, of type `tsvector`, with its configuration as an SQL literal."""
    configuration: str = ""


class Key(NamedTuple):
    """Columns whose values address a row, in order."""

    kind: KeyKind
    columns: tuple[str, ...]
    """For a rowid or a number, the name that selects it."""


class FoundKey(NamedTuple):
    """A primary or unique key."""

    is_primary: bool
    rank: Sequence[str]
    """Orders keys of one length."""
    columns: tuple[str, ...]


def best_first(found: Iterable[FoundKey]) -> list[Key]:
    """Return keys, the primary one first, then the shortest."""
    every = sorted(found, key=lambda key: (not key.is_primary, len(key.columns), *key[1:]))
    return [Key("primary" if each.is_primary else "unique", each.columns) for each in every]


class Table(msgspec.Struct, frozen=True):
    """A table or view with its columns, key and indexes."""

    name: TableName
    type: TableType
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """The columns whose values address a row, as `Key.columns`."""
    key_kind: KeyKind = "none"
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    comment: str | None = None
    ddl: str | None = None
    """The CREATE statement, if the database keeps it."""
    strict: bool = False
    """SQLite: a STRICT table, whose values are certain to have the declared types."""
    holds_text: bool = False
    """SQLite: a full-text table with text of its own."""
    trigrams: tuple[str, ...] = ()
    """Columns with an index that finds every part of their text, of three characters and more, in
    any case of ASCII letters: `pg_trgm`, or FTS5 with trigrams."""
    words: tuple[WordIndex, ...] = ()
    """Full-text indexes."""
    other_keys: tuple[Key, ...] = ()
    """Keys that replace a `key` with a hidden column, best first."""
    unread: tuple[str, ...] | None = ()
    """Names of further columns, which the login may not read; None if it cannot be known whether
    there are any, since the login may read single columns only."""
    exact: frozenset[str | None] = frozenset()
    """Generic: columns that are found in quotes only, in lower case; None is the table's name."""
    rowid: Column | None = None
    """The rowid or number, if a key uses it; it is none of `columns`."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key, in order."""
        if self.key_kind in ("rowid", "number") and self.rowid is not None:
            return (self.rowid,)
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key by names that clients may use: none if rows are addressed by their number."""
        return () if self.key_kind == "number" else self.key

    def with_key(self, keys: Sequence[Key]) -> Table:
        """Return the table with the first of these keys, and the others as alternatives."""
        kind, columns = keys[0] if keys else Key("none", ())
        return msgspec.structs.replace(self, key=columns, key_kind=kind, other_keys=tuple(keys[1:]))
