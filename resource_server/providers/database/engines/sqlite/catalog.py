"""Reflection of a SQLite schema: tables, columns, keys, indexes, and which key addresses a row."""

from __future__ import annotations

import re
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.reflection import (
    Column,
    ForeignKey,
    Index,
    KeyKind,
    Kind,
    Table,
    TableInfo,
    TableName,
)
from resource_server.providers.database.engines.sqlite.connection import Connection
from resource_server.providers.database.engines.sqlite.schema_names import (
    Relation,
    Schema,
    is_text,
    quoted,
    read_schema,
    table_options,
)

_MOST_TABLES = 1024
"""Reflected tables that are kept."""
_ROWIDS = ("rowid", "_rowid_", "oid")
_HIDDEN, _GENERATED = 1, (2, 3)
"""Of `PRAGMA table_xinfo`: columns of virtual tables that are arguments, and computed ones."""
_EXPRESSION = -2
"""The column of an index that is an expression."""

_DECLARED: Mapping[str, Kind] = {
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
"""What a type is that SQLite does not know, and whoever declared it meant something by."""
_STRICT: Mapping[str, Kind] = {
    "INT": "integer",
    "INTEGER": "integer",
    "REAL": "real",
    "TEXT": "text",
    "BLOB": "blob",
    "ANY": "any",
}
_AFFINITIES: Sequence[tuple[re.Pattern[str], Kind]] = (
    (re.compile("INT"), "integer"),
    (re.compile("CHAR|CLOB|TEXT"), "text"),
    (re.compile("BLOB"), "any"),
    (re.compile("REAL|FLOA|DOUB"), "real"),
)


class _Found(NamedTuple):
    """A column as `PRAGMA table_xinfo` has it."""

    name: str
    type: str
    required: bool
    default: str | None
    place: int
    """In the primary key, from 1; 0 outside."""
    hidden: int


class _FoundIndex(NamedTuple):
    """An index as the PRAGMAs have it."""

    about: Index
    origin: str
    """`c` by CREATE INDEX, `u` by UNIQUE, `pk` by PRIMARY KEY."""
    partial: bool


class _Kept(NamedTuple):
    table: Table
    data: int | None
    """The version of the data that the choice of the key depends on; None where it does not."""


class Catalog:
    """What is known of a schema, until it changes. Its methods run in the connection's thread."""

    def __init__(self) -> None:
        self._version: tuple[Connection, int] | None = None
        self._schema: Schema | None = None
        self._tables: OrderedDict[str, _Kept] = OrderedDict()

    def version(self, connection: Connection) -> int:
        """Return what differs when the schema was changed in the same file."""
        return connection.state()[0]

    def tables(self, connection: Connection) -> Sequence[TableInfo]:
        """Return what users count as tables, by name."""
        self._refresh(connection)
        return [
            TableInfo(TableName(None, relation.name), relation.type)
            for relation in self._names(connection).relations.values()
        ]

    def table(self, connection: Connection, name: str) -> Table:
        """Return one table.

        Raises:
            ResourceNotFound: there is none, or what it is made of is not there.
        """
        data = self._refresh(connection)
        kept = self._tables.get(name)
        if kept is not None and kept.data in (None, data):
            self._tables.move_to_end(name)
            return kept.table
        relation = self._names(connection).relations.get(name)
        if relation is None:
            raise ResourceNotFound
        table, depends = self._reflect(connection, relation)
        self._tables[name] = _Kept(table, data if depends else None)
        if len(self._tables) > _MOST_TABLES:
            self._tables.popitem(last=False)
        return table

    def estimate(self, connection: Connection, name: str) -> int | None:
        """Return how many rows a table had when it was analysed last."""
        try:
            rows = connection.database.execute(
                "SELECT stat FROM main.sqlite_stat1 WHERE tbl = ?", (name,)
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        # Of a partial index, how many rows are in it: fewer.
        counts = [str(stat).split(" ", 1)[0] for (stat,) in rows]
        return max((int(count) for count in counts if count.isdecimal()), default=None)

    def _refresh(self, connection: Connection) -> int:
        """Forget everything where the schema has changed; return the version of the data."""
        schema, data = connection.state()
        if self._version != (connection, schema):
            self._version = (connection, schema)
            self._schema = None
            self._tables.clear()
        return data

    def _names(self, connection: Connection) -> Schema:
        if self._schema is None:
            self._schema = read_schema(connection.database)
        return self._schema

    def _reflect(self, connection: Connection, relation: Relation) -> tuple[Table, bool]:
        """Return a table, and whether its key would be another with other rows."""
        name, database = relation.name, connection.database
        try:
            found = _columns(database, name)
        except sqlite3.DatabaseError as error:
            broken = (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH)
            # A virtual table is connected again after a change of the schema, which is refused.
            if broken and not connection.is_outdated():
                raise ResourceNotFound from None
            raise
        shown = [column for column in found if column.hidden != _HIDDEN and is_text(column.name)]
        if not shown:
            raise ResourceNotFound
        ddl = _ddl(database, name)
        options = table_options(ddl) if ddl and relation.type == "table" else frozenset[str]()
        strict = "STRICT" in options
        indexes = _indexes(database, name) if relation.type == "table" else []
        choice = _Key(database, relation, found, indexes, "WITHOUT ROWID" in options)
        key_kind, key = choice.find()
        always = choice.never_null()
        table = Table(
            name=TableName(None, name),
            type=relation.type,
            columns=tuple(
                Column(
                    name=column.name,
                    type=column.type,
                    kind=_kind(column.type, strict),
                    nullable=not (column.required or column.name in always),
                    default=column.default,
                    generated=column.hidden in _GENERATED,
                )
                for column in shown
            ),
            key=key,
            key_kind=key_kind,
            foreign_keys=self._foreign_keys(database, relation, found),
            indexes=tuple(index.about for index in indexes),
            ddl=ddl,
            strict=strict,
        )
        return table, choice.depends

    def _foreign_keys(
        self, database: sqlite3.Connection, relation: Relation, found: Sequence[_Found]
    ) -> tuple[ForeignKey, ...]:
        """Return foreign keys in the order of their declaration, with names as they are spelt."""
        if relation.type != "table":
            return ()
        pragma = f"PRAGMA main.foreign_key_list({quoted(relation.name)})"
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
        found: Sequence[_Found],
        parts: Sequence[tuple[str, str, str | None]],
    ) -> ForeignKey | None:
        schema = self._schema
        parent = _spelt(parts[0][0], schema.relations if schema else ())
        if parent is None:
            return None
        theirs = _columns(database, parent)
        referred = [part[2] for part in parts if part[2] is not None]
        if not referred:
            referred = [column.name for column in _primary(theirs)]
        columns = [_spelt(part[1], [column.name for column in found]) for part in parts]
        names = [_spelt(name, [column.name for column in theirs]) for name in referred]
        if len(columns) != len(names) or None in columns or None in names:
            return None
        return ForeignKey(
            columns=tuple(filter(None, columns)),
            table=TableName(None, parent),
            referred=tuple(filter(None, names)),
        )


class _Key:
    """The choice of the columns that address a row of one table."""

    def __init__(
        self,
        database: sqlite3.Connection,
        relation: Relation,
        columns: Sequence[_Found],
        indexes: Sequence[_FoundIndex],
        without_rowid: bool,
    ) -> None:
        self._database = database
        self._relation = relation
        self._columns = columns
        self._indexes = indexes
        self._without_rowid = without_rowid
        self._primary = _primary(columns)
        self._names = {column.name.lower() for column in columns}
        self.depends = False
        """Whether rows decide: a primary key may hold NULL, and then addresses nothing."""

    def find(self) -> tuple[KeyKind, tuple[str, ...]]:
        """Return the best key there is."""
        if self._relation.type == "view":
            return "none", ()
        if self._relation.type == "virtual table":
            return self._of_virtual_table()
        primary = tuple(column.name for column in self._primary)
        if primary and not self._may_hold_null() and all(map(is_text, primary)):
            return "primary", primary
        unique = self._unique()
        if unique:
            return "unique", unique
        return self._rowid()

    def never_null(self) -> frozenset[str]:
        """Return the columns that hold no NULL although they are not declared so."""
        if self._without_rowid or self._is_rowid():
            return frozenset(column.name for column in self._primary)
        return frozenset()

    def _of_virtual_table(self) -> tuple[KeyKind, tuple[str, ...]]:
        module = self._relation.module
        if module in ("rtree", "rtree_i32"):
            return "primary", (self._columns[0].name,)
        return self._rowid() if module in ("fts3", "fts4", "fts5", "geopoly") else ("none", ())

    def _is_rowid(self) -> bool:
        """Return whether the primary key is another name of the rowid.

        `INTEGER PRIMARY KEY DESC` is not, and has an index as other keys do.
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
        name = quoted(self._relation.name)
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
            if index.unique and whole and required.issuperset(names) and all(map(is_text, names)):
                # With another collation than the column's it would not be unique for `=`.
                sql = _ddl(self._database, index.name) if origin == "c" else None
                if "COLLATE" not in (sql or "").upper():
                    candidates.append(tuple(names))
        return min(candidates, key=lambda names: (len(names), names), default=())

    def _rowid(self) -> tuple[KeyKind, tuple[str, ...]]:
        free = next((name for name in _ROWIDS if name not in self._names), None)
        return ("rowid", (free,)) if free is not None else ("none", ())


def _columns(database: sqlite3.Connection, table: str) -> list[_Found]:
    rows = database.execute(f"PRAGMA main.table_xinfo({quoted(table)})")
    return [
        _Found(name, type or "", bool(required), default, place, hidden)
        for _, name, type, required, default, place, hidden in rows
    ]


def _primary(columns: Sequence[_Found]) -> list[_Found]:
    return sorted((column for column in columns if column.place), key=lambda column: column.place)


def _indexes(database: sqlite3.Connection, table: str) -> list[_FoundIndex]:
    rows = database.execute(f"PRAGMA main.index_list({quoted(table)})").fetchall()
    found: list[_FoundIndex] = []
    for _, name, unique, origin, partial in rows:
        parts = database.execute(f"PRAGMA main.index_xinfo({quoted(name)})").fetchall()
        columns = tuple(
            None if cid == _EXPRESSION else column
            for _, cid, column, _, _, is_key in parts
            if is_key
        )
        found.append(_FoundIndex(Index(name, columns, bool(unique)), origin, bool(partial)))
    return sorted(found, key=lambda index: index.about.name)


def _ddl(database: sqlite3.Connection, name: str) -> str | None:
    found = database.execute(
        "SELECT sql FROM main.sqlite_master WHERE name = ?", (name,)
    ).fetchone()
    return found[0] if found is not None else None


def _kind(type: str, strict: bool) -> Kind:
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


def _spelt(name: str, known: Mapping[str, object] | Sequence[str]) -> str | None:
    """Return a name as it is spelt where it is defined; SQLite does not tell case apart."""
    if name in known:
        return name
    return next((other for other in known if other.lower() == name.lower()), None)
