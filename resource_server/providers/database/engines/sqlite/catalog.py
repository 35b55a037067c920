"""Reflection of SQLite tables: columns, indexes, foreign keys, and the key that addresses a row."""

from __future__ import annotations

import re
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    Index,
    KeyKind,
    Table,
    TableInfo,
    TableName,
)
from resource_server.providers.database.engines.sqlite.connection import SqliteConnection
from resource_server.providers.database.engines.sqlite.schema_names import (
    SchemaEntry,
    SqliteSchema,
    is_utf8,
    quoted,
    read_schema,
    table_options,
)

_MAX_TABLES = 1024
"""Maximum reflected tables that are cached."""
_ROWIDS = ("rowid", "_rowid_", "oid")
_HIDDEN, _GENERATED = 1, (2, 3)
"""Values of `hidden` in `PRAGMA table_xinfo`: arguments of virtual tables; generated columns."""
_EXPRESSION = -2
"""The column number of an indexed expression."""

_DECLARED: Mapping[str, ColumnKind] = {
    "BOOL": "boolean",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "datetime",
    "TIMESTAMP": "datetime",
    "JSON": "json",
    "JSONB": "json",
    "UUID": "uuid",
    "GUID": "uuid",
}
"""Declared types that mean nothing to SQLite, and something to their authors."""
_STRICT: Mapping[str, ColumnKind] = {
    "INT": "integer",
    "INTEGER": "integer",
    "REAL": "real",
    "TEXT": "text",
    "BLOB": "blob",
    "ANY": "any",
}
_AFFINITIES: Sequence[tuple[re.Pattern[str], ColumnKind]] = (
    (re.compile("INT"), "integer"),
    (re.compile("CHAR|CLOB|TEXT"), "text"),
    (re.compile("BLOB"), "any"),
    (re.compile("REAL|FLOA|DOUB"), "real"),
)


class _ColumnInfo(NamedTuple):
    """A row of `PRAGMA table_xinfo`."""

    name: str
    type: str
    required: bool
    default: str | None
    place: int
    """The position in the primary key, from 1; 0 outside of it."""
    hidden: int


class _IndexInfo(NamedTuple):
    """A row of `PRAGMA index_list`."""

    reflected: Index
    origin: str
    """The clause that created it: `c` CREATE INDEX, `u` UNIQUE, `pk` PRIMARY KEY."""
    partial: bool


class _CachedTable(NamedTuple):
    table: Table
    data_version: int | None
    """The data version that the choice of the key depends on; None if it does not."""


class SqliteCatalog:
    """A cache of the reflected schema. Its methods run in the connection's thread."""

    def __init__(self) -> None:
        self._version: tuple[SqliteConnection, int] | None = None
        self._schema: SqliteSchema | None = None
        self._tables: OrderedDict[str, _CachedTable] = OrderedDict()

    def version(self, connection: SqliteConnection) -> int:
        """Return the schema version, which changes with the schema of the same file."""
        return connection.versions()[0]

    def tables(self, connection: SqliteConnection) -> Sequence[TableInfo]:
        """Return all tables and views but shadow tables, by name."""
        self._refresh(connection)
        return [
            TableInfo(TableName(None, entry.name), entry.type)
            for entry in self._names(connection).entries.values()
        ]

    def table(self, connection: SqliteConnection, name: str) -> Table:
        """Return one table.

        Raises:
            ResourceNotFound: there is no such table, or one that it depends on is missing.
        """
        data = self._refresh(connection)
        kept = self._tables.get(name)
        if kept is not None and kept.data_version in (None, data):
            self._tables.move_to_end(name)
            return kept.table
        entry = self._names(connection).entries.get(name)
        if entry is None:
            raise ResourceNotFound
        table, depends = self._reflect(connection, entry)
        self._tables[name] = _CachedTable(table, data if depends else None)
        if len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)
        return table

    def estimate(self, connection: SqliteConnection, name: str) -> int | None:
        """Return the row count that the last ANALYZE stored."""
        try:
            rows = connection.database.execute(
                "SELECT stat FROM main.sqlite_stat1 WHERE tbl = ?", (name,)
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        # Partial indexes store fewer rows, so the largest count is the table's.
        counts = [str(stat).split(" ", 1)[0] for (stat,) in rows]
        return max((int(count) for count in counts if count.isdecimal()), default=None)

    def _refresh(self, connection: SqliteConnection) -> int:
        """Empty the cache if the schema has changed; return the data version."""
        schema, data = connection.versions()
        if self._version != (connection, schema):
            self._version = (connection, schema)
            self._schema = None
            self._tables.clear()
        return data

    def _names(self, connection: SqliteConnection) -> SqliteSchema:
        if self._schema is None:
            self._schema = read_schema(connection.database)
        return self._schema

    def _reflect(self, connection: SqliteConnection, entry: SchemaEntry) -> tuple[Table, bool]:
        """Return a table, and whether the choice of its key depends on its rows."""
        name, database = entry.name, connection.database
        try:
            found = _columns(database, name)
        except sqlite3.DatabaseError as error:
            broken = (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH)
            # After a schema change, SQLite reconnects a virtual table, which the authorizer denies.
            if broken and not connection.has_new_schema():
                raise ResourceNotFound from None
            raise
        visible = [column for column in found if column.hidden != _HIDDEN and is_utf8(column.name)]
        if not visible:
            raise ResourceNotFound
        ddl = _ddl(database, name)
        options = table_options(ddl) if ddl and entry.type == "table" else frozenset[str]()
        strict = "STRICT" in options
        indexes = _indexes(database, name) if entry.type == "table" else []
        choice = _KeyChoice(database, entry, found, indexes, "WITHOUT ROWID" in options)
        key_kind, key = choice.find()
        never_null = choice.never_null()
        table = Table(
            name=TableName(None, name),
            type=entry.type,
            columns=tuple(
                Column(
                    name=column.name,
                    type=column.type,
                    kind=_kind(column.type, strict),
                    nullable=not (column.required or column.name in never_null),
                    default=column.default,
                    generated=column.hidden in _GENERATED,
                )
                for column in visible
            ),
            key=key,
            key_kind=key_kind,
            foreign_keys=self._foreign_keys(database, entry, found),
            indexes=tuple(info.reflected for info in indexes),
            ddl=ddl,
            strict=strict,
        )
        return table, choice.depends

    def _foreign_keys(
        self, database: sqlite3.Connection, entry: SchemaEntry, found: Sequence[_ColumnInfo]
    ) -> tuple[ForeignKey, ...]:
        """Return foreign keys in the order of declaration, with names in their defined spelling."""
        if entry.type != "table":
            return ()
        pragma = f"PRAGMA main.foreign_key_list({quoted(entry.name)})"
        groups: dict[int, list[tuple[str, str, str | None]]] = {}
        for number, _, table, column, referred, *_ in database.execute(pragma):
            groups.setdefault(number, []).append((table, column, referred))
        keys = (
            self._foreign_key(database, found, groups[number]) for number in sorted(groups)[::-1]
        )
        return tuple(key for key in keys if key is not None)

    def _foreign_key(
        self,
        database: sqlite3.Connection,
        found: Sequence[_ColumnInfo],
        parts: Sequence[tuple[str, str, str | None]],
    ) -> ForeignKey | None:
        schema = self._schema
        parent = _defined_name(parts[0][0], schema.entries if schema else ())
        if parent is None:
            return None
        parent_columns = _columns(database, parent)
        referred = [part[2] for part in parts if part[2] is not None]
        if not referred:
            referred = [column.name for column in _primary(parent_columns)]
        columns = [_defined_name(part[1], [column.name for column in found]) for part in parts]
        names = [
            _defined_name(name, [column.name for column in parent_columns]) for name in referred
        ]
        if len(columns) != len(names) or None in columns or None in names:
            return None
        return ForeignKey(
            columns=tuple(filter(None, columns)),
            table=TableName(None, parent),
            referred=tuple(filter(None, names)),
        )


class _KeyChoice:
    """The choice of the columns that address a row of a table."""

    def __init__(
        self,
        database: sqlite3.Connection,
        entry: SchemaEntry,
        columns: Sequence[_ColumnInfo],
        indexes: Sequence[_IndexInfo],
        without_rowid: bool,
    ) -> None:
        self._database = database
        self._entry = entry
        self._columns = columns
        self._indexes = indexes
        self._without_rowid = without_rowid
        self._primary = _primary(columns)
        self._names = {column.name.lower() for column in columns}
        self.depends = False
        """Whether the choice depends on rows: a primary key that holds NULL addresses no row."""

    def find(self) -> tuple[KeyKind, tuple[str, ...]]:
        """Return the best key: primary, else unique, else the rowid."""
        if self._entry.type == "view":
            return "none", ()
        if self._entry.type == "virtual table":
            return self._virtual_table_key()
        primary = tuple(column.name for column in self._primary)
        if primary and not self._may_hold_null() and all(map(is_utf8, primary)):
            return "primary", primary
        unique = self._unique()
        if unique:
            return "unique", unique
        return self._rowid()

    def never_null(self) -> frozenset[str]:
        """Return the columns that never hold NULL, although not declared NOT NULL."""
        if self._without_rowid or self._is_rowid():
            return frozenset(column.name for column in self._primary)
        return frozenset()

    def _virtual_table_key(self) -> tuple[KeyKind, tuple[str, ...]]:
        module = self._entry.module
        if module in ("rtree", "rtree_i32"):
            return "primary", (self._columns[0].name,)
        return self._rowid() if module in ("fts3", "fts4", "fts5", "geopoly") else ("none", ())

    def _is_rowid(self) -> bool:
        """Return whether the primary key is an alias of the rowid.

        `INTEGER PRIMARY KEY DESC` is none; it has an index, as other keys do.
        """
        if self._without_rowid or len(self._primary) != 1:
            return False
        integer = self._primary[0].type.upper() == "INTEGER"
        return integer and all(index.origin != "pk" for index in self._indexes)

    def _may_hold_null(self) -> bool:
        if self._without_rowid or self._is_rowid():
            return False
        nullable = [column.name for column in self._primary if not column.required]
        if not nullable:
            return False
        self.depends = True
        name = quoted(self._entry.name)
        for column in nullable:
            sql = f"SELECT 1 FROM main.{name} WHERE {quoted(column)} IS NULL LIMIT 1"  # noqa: S608
            if self._database.execute(sql).fetchone() is not None:
                return True
        return False

    def _unique(self) -> tuple[str, ...]:
        required = {column.name for column in self._columns if column.required}
        candidates: list[tuple[str, ...]] = []
        for index, origin, partial in self._indexes:
            names = [name for name in index.columns if name is not None]
            whole = len(names) == len(index.columns) and not partial and origin != "pk"
            if index.unique and whole and required.issuperset(names) and all(map(is_utf8, names)):
                # A collation other than the column's makes it unique by another `=`.
                sql = _ddl(self._database, index.name) if origin == "c" else None
                if "COLLATE" not in (sql or "").upper():
                    candidates.append(tuple(names))
        return min(candidates, key=lambda names: (len(names), names), default=())

    def _rowid(self) -> tuple[KeyKind, tuple[str, ...]]:
        free = next((name for name in _ROWIDS if name not in self._names), None)
        return ("rowid", (free,)) if free is not None else ("none", ())


def _columns(database: sqlite3.Connection, table: str) -> list[_ColumnInfo]:
    rows = database.execute(f"PRAGMA main.table_xinfo({quoted(table)})")
    return [
        _ColumnInfo(name, type or "", bool(required), default, place, hidden)
        for _, name, type, required, default, place, hidden in rows
    ]


def _primary(columns: Sequence[_ColumnInfo]) -> list[_ColumnInfo]:
    return sorted((column for column in columns if column.place), key=lambda column: column.place)


def _indexes(database: sqlite3.Connection, table: str) -> list[_IndexInfo]:
    rows = database.execute(f"PRAGMA main.index_list({quoted(table)})").fetchall()
    found: list[_IndexInfo] = []
    for _, name, unique, origin, partial in rows:
        parts = database.execute(f"PRAGMA main.index_xinfo({quoted(name)})").fetchall()
        columns = tuple(
            None if cid == _EXPRESSION else column
            for _, cid, column, _, _, is_key in parts
            if is_key
        )
        index = Index(name, columns, bool(unique), bool(partial))
        found.append(_IndexInfo(index, origin, bool(partial)))
    return sorted(found, key=lambda info: info.reflected.name)


def _ddl(database: sqlite3.Connection, name: str) -> str | None:
    found = database.execute(
        "SELECT sql FROM main.sqlite_master WHERE name = ?", (name,)
    ).fetchone()
    return found[0] if found is not None else None


def _kind(type: str, strict: bool) -> ColumnKind:
    declared = type.upper()
    if strict:
        return _STRICT.get(declared, "any")
    if not declared:
        return "any"
    meant = _DECLARED.get(declared.partition("(")[0].strip())
    if meant is not None:
        return meant
    for words, kind in _AFFINITIES:
        if words.search(declared):
            return kind
    return "numeric"


def _defined_name(name: str, known: Mapping[str, object] | Sequence[str]) -> str | None:
    """Return a name in the spelling of its definition; SQLite ignores case."""
    if name in known:
        return name
    return next((other for other in known if other.lower() == name.lower()), None)
