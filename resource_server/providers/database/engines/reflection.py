"""Tables as reflected: what a database says of its tables and views, in the same words for all."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

TableType: TypeAlias = Literal["table", "view", "materialized view", "virtual table"]

Kind: TypeAlias = Literal[
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
"""What values of a column are, as far as its declared type tells. `any`: of every row another
(SQLite: BLOB affinity or STRICT ANY); `numeric` is a number that may have any precision."""

KeyKind: TypeAlias = Literal["primary", "unique", "declared", "rowid", "none"]
"""Where a key comes from: `declared` is the manifest's; `rowid` is SQLite's own, which VACUUM may
change; with `none` rows have neither order nor address."""


class TableName(NamedTuple):
    """The name of a table; `schema` is None where the engine has none."""

    schema: str | None
    name: str


class TableInfo(msgspec.Struct, frozen=True):
    """What a listing of tables says of one."""

    name: TableName
    type: TableType = "table"
    comment: str | None = None


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """As the database writes it: `NUMERIC(10, 2)`; may be empty on SQLite."""
    kind: Kind
    nullable: bool = True
    default: str | None = None
    """An SQL expression."""
    generated: bool = False
    """Computed by the database."""
    comment: str | None = None
    values: tuple[str, ...] = ()
    """Of an enumeration."""


class ForeignKey(msgspec.Struct, frozen=True):
    """Columns that hold the key of a row elsewhere."""

    columns: tuple[str, ...]
    table: TableName
    referred: tuple[str, ...]


class Index(msgspec.Struct, frozen=True):
    """An index on columns; one on expressions has None in their places."""

    name: str
    columns: tuple[str | None, ...]
    unique: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table or view with all that a reader of its rows has to know."""

    name: TableName
    type: TableType
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """The columns whose values address a row, in order; of a rowid table its name for the rowid."""
    key_kind: KeyKind = "none"
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    comment: str | None = None
    ddl: str | None = None
    """The statement that made it, where the database keeps it."""
    strict: bool = False
    """SQLite: values are of the declared types for certain."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)
