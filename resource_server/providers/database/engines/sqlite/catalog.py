"""Reflection of SQLite tables: columns, indexes, foreign keys, and the key that addresses a row."""

from __future__ import annotations

import re
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_types import (
    EXTREMES,
    NUMERIC,
    KeyType,
    Texts,
)
from resource_server.providers.database.engines.causes import failure
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    FoundKey,
    Index,
    Key,
    Table,
    TableInfo,
    TableName,
    WordIndex,
    best_first,
    folded,
    quoted,
)
from resource_server.providers.database.engines.sqlite import causes
from resource_server.providers.database.engines.sqlite.connection import SqliteConnection
from resource_server.providers.database.engines.sqlite.key_types import Collation, StoredValues
from resource_server.providers.database.engines.sqlite.schema_names import (
    FULL_TEXT,
    SchemaEntry,
    SqliteSchema,
    content_key,
    read_schema,
    table_options,
)
from resource_server.uris import is_unicode

_MAX_TABLES = 1024
"""Maximum reflected tables that are cached."""
_ROWIDS = ("rowid", "_rowid_", "oid")
_HIDDEN, _GENERATED = 1, (2, 3)
"""Values of `hidden` in `PRAGMA table_xinfo`: arguments of virtual tables; generated columns."""
_TRIGRAMS = re.compile(
    r"""[(,]\s*tokenize\s*=\s*(?:trigram|'trigram'|"trigram")\s*[,)]""", re.IGNORECASE
)
_LESS_THAN_ALL = re.compile(r"\b(?:unindexed|detail|content)\b", re.IGNORECASE)
_NOT_EVERY_WORD = re.compile(r"\b(?:unindexed|detail)\b", re.IGNORECASE)
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
_COLLATIONS: Sequence[Collation] = ("BINARY", "NOCASE", "RTRIM")
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
    collations: tuple[str, ...]
    """The collation of each column, in upper case."""
    origin: str
    """The clause that created it: `c` CREATE INDEX, `u` UNIQUE, `pk` PRIMARY KEY."""
    partial: bool


class SqliteCatalog:
    """A cache of the reflected schema. Its methods run in the connection's thread."""

    def __init__(self) -> None:
        self._version: tuple[SqliteConnection, int] | None = None
        self._schema: SqliteSchema | None = None
        self._tables: OrderedDict[str, Table] = OrderedDict()

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

    def unserved(self, connection: SqliteConnection) -> Sequence[TableName]:
        """Return the shadow tables of virtual tables."""
        self._refresh(connection)
        return [TableName(None, name) for name in self._names(connection).shadows]

    def table(self, connection: SqliteConnection, name: str) -> Table:
        """Return one table.

        Raises:
            ResourceNotFound: there is no such table.
            ResourceUnreadable: something that it depends on is missing.
        """
        self._refresh(connection)
        kept = self._tables.get(name)
        if kept is not None:
            self._tables.move_to_end(name)
            return kept
        entry = self._names(connection).entries.get(name)
        if entry is None:
            raise ResourceNotFound
        table = self._tables[name] = self._reflect(connection, entry)
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

    def _refresh(self, connection: SqliteConnection) -> None:
        """Empty the cache if the schema has changed."""
        schema, _ = connection.versions()
        if self._version != (connection, schema):
            self._version = (connection, schema)
            self._schema = None
            self._tables.clear()

    def _names(self, connection: SqliteConnection) -> SqliteSchema:
        if self._schema is None:
            self._schema = read_schema(connection.database)
        return self._schema

    def _reflect(self, connection: SqliteConnection, entry: SchemaEntry) -> Table:
        name, database = entry.name, connection.database
        try:
            found = _columns(database, name)
        except sqlite3.DatabaseError as error:
            if _is_broken(error, connection):
                raise failure(causes.cause_of(error)) from None
            raise
        visible = [
            column for column in found if column.hidden != _HIDDEN and is_unicode(column.name)
        ]
        if not visible:
            raise ResourceNotFound
        ddl = _ddl(database, name)
        options = table_options(ddl) if ddl and entry.type == "table" else frozenset[str]()
        strict = "STRICT" in options
        indexes = _indexes(database, name) if entry.type == "table" else []
        collations = _collations(connection, entry, visible)
        (encoding,) = database.execute("PRAGMA encoding").fetchone()

        def key_type(column: _ColumnInfo) -> KeyType | None:
            collation = collations.get(column.name)
            if collation is None and entry.type == "table":
                return Texts(functions=(), is_compared=False)
            # Texts are compared by the bytes of the file's encoding.
            is_known = encoding == "UTF-8" or collation == "NOCASE"
            kind = _kind(column.type, strict)
            functions = NUMERIC if kind in ("integer", "real", "numeric", "any") else EXTREMES
            return StoredValues(
                kind,
                collation if is_known else None,
                is_strict=strict,
                functions=functions,
                has_text=kind != "boolean",
            )

        keys = _KeyChoice(entry, found, indexes, collations, "WITHOUT ROWID" in options)
        never_null = keys.never_null()
        rowid = keys.rowid()
        return Table(
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
                    key_type=key_type(column),
                )
                for column in visible
            ),
            foreign_keys=self._foreign_keys(database, entry, found),
            indexes=tuple(info.reflected for info in indexes),
            ddl=ddl,
            strict=strict,
            trigrams=_trigrams(entry, ddl, visible),
            words=tuple(self._words(connection, entry)),
            holds_text=entry.module in FULL_TEXT and entry.source is None,
            rowid=None if rowid is None else _rowid(rowid.columns[0]),
        ).with_key(keys.find())

    def _words(self, connection: SqliteConnection, entry: SchemaEntry) -> Iterator[WordIndex]:
        """Yield the full-text indexes of a table: its own, and those kept in other tables."""
        for other in self._names(connection).entries.values():
            is_own = other.name == entry.name and other.source is None
            if other.module == "fts5" and (
                is_own or folded(other.source or "") == folded(entry.name)
            ):
                ddl = _ddl(connection.database, other.name) or ""
                found = _columns(connection.database, other.name)
                columns = tuple([each.name for each in found if each.hidden != _HIDDEN])
                if not (_LESS_THAN_ALL if is_own else _NOT_EVERY_WORD).search(ddl):
                    yield WordIndex(columns, other.name, content_key(ddl))

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
    """The columns that may address a row of a table."""

    def __init__(
        self,
        entry: SchemaEntry,
        columns: Sequence[_ColumnInfo],
        indexes: Sequence[_IndexInfo],
        collations: Mapping[str, Collation],
        without_rowid: bool,
    ) -> None:
        self._entry = entry
        self._columns = columns
        self._indexes = indexes
        self._collations = collations
        self._without_rowid = without_rowid
        self._primary = _primary(columns)

    def find(self) -> list[Key]:
        """Return the primary key, then unique ones, shortest first, then the rowid."""
        rowid = self.rowid()
        last = [] if rowid is None else [rowid]
        if self._entry.type == "virtual table" and self._entry.module in ("rtree", "rtree_i32"):
            return [Key("primary", (self._columns[0].name,))]
        return last if self._entry.type != "table" else [*self._declared(), *last]

    def never_null(self) -> frozenset[str]:
        """Return the columns that never hold NULL, although not declared NOT NULL."""
        if self._without_rowid or self._is_rowid():
            return frozenset(column.name for column in self._primary)
        return frozenset()

    def _is_rowid(self) -> bool:
        """Return whether the primary key is an alias of the rowid.

        `INTEGER PRIMARY KEY DESC` is none; it has an index, as other keys do.
        """
        if self._without_rowid or len(self._primary) != 1:
            return False
        integer = self._primary[0].type.upper() == "INTEGER"
        return integer and all(index.origin != "pk" for index in self._indexes)

    def _declared(self) -> list[Key]:
        required = {column.name for column in self._columns if column.required}
        found: list[FoundKey] = []
        primary = tuple(column.name for column in self._primary)
        if self._is_rowid() and set(primary) <= self._collations.keys():
            found.append(FoundKey(True, primary, primary))
        for index, collations, origin, partial in self._indexes:
            names = tuple(name for name in index.columns if name is not None)
            is_primary = origin == "pk"
            if not index.unique or partial or len(names) < len(index.columns):
                continue
            # Only the primary key may hold NULL; whether it does, its readers see.
            if not is_primary and not required.issuperset(names):
                continue
            if all(map(self._is_unique, names, collations)):
                found.append(FoundKey(is_primary, names, primary if is_primary else names))
        return best_first(found)

    def _is_unique(self, name: str, collation: str) -> bool:
        """Return whether values unique in a collation of an index are unique in the column's own.

        No two different texts are equal in BINARY.
        """
        own = self._collations.get(name)
        return own is not None and own in ("BINARY", collation)

    def rowid(self) -> Key | None:
        """Return the key that selects rows by number, unless a column has that number."""
        names = {column.name.lower() for column in self._columns}
        free = next((name for name in _ROWIDS if name not in names), None)
        is_virtual = self._entry.type == "virtual table"
        numbered = self._entry.type == "table" and not self._without_rowid and not self._is_rowid()
        if is_virtual:
            numbered = self._entry.module in ("fts3", "fts4", "fts5", "geopoly")
        return Key("rowid", (free,)) if numbered and free is not None else None


def _trigrams(
    entry: SchemaEntry, ddl: str | None, columns: Sequence[_ColumnInfo]
) -> tuple[str, ...]:
    """Return the columns of a full-text table with trigrams of its own text, none of them left out.

    An index of another table's text may be out of date.
    """
    has_trigrams = entry.module == "fts5" and entry.source is None
    if not has_trigrams or not _TRIGRAMS.search(ddl or "") or _LESS_THAN_ALL.search(ddl or ""):
        return ()
    return tuple([column.name for column in columns])


def _rowid(name: str) -> Column:
    return Column(
        name,
        "INTEGER",
        "integer",
        nullable=False,
        key_type=StoredValues("integer", is_strict=True, functions=NUMERIC),
    )


def _is_broken(error: sqlite3.DatabaseError, connection: SqliteConnection) -> bool:
    """Return whether a table cannot be used; a new schema is reason enough for an error.

    The authorizer knows only the tables of the schema that the connection was opened with.
    """
    refused = (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH)
    return refused and not connection.has_new_schema()


def _collations(
    connection: SqliteConnection, entry: SchemaEntry, columns: Sequence[_ColumnInfo]
) -> Mapping[str, Collation]:
    """Return the collations of a table's columns, except those that a program has added.

    No pragma tells them, so SQLite compares texts in each column's collation, without any row.
    """
    if entry.type != "table":
        return {}
    names = [quoted(column.name) for column in columns]
    try:
        found = _compared(connection.database, entry.name, names)
    except sqlite3.DatabaseError as error:
        if not _is_broken(error, connection):
            raise
        if len(names) == 1:
            return {}
        each = [_collations(connection, entry, [column]) for column in columns]
        return {name: collation for one in each for name, collation in one.items()}
    return dict(zip([column.name for column in columns], found, strict=True))


def _compared(
    database: sqlite3.Connection, table: str, names: Sequence[str]
) -> Sequence[Collation]:
    texts = ", ".join(["'a'"] * len(names))
    results = ", ".join(f"(x{place} = 'A') + 2 * (x{place} = 'a ')" for place in range(len(names)))
    selected = ", ".join(f"{name} AS x{place}" for place, name in enumerate(names))
    # The limit keeps the two parts together, so that both have the column's collation.
    rows: list[tuple[int, ...]] = database.execute(
        f"SELECT {results} FROM (SELECT {selected} FROM main.{quoted(table)} WHERE 0"  # noqa: S608
        f" UNION ALL SELECT {texts} LIMIT 1)"
    ).fetchall()
    return [_COLLATIONS[number] for number in rows[0]]


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
        key = [(cid, column, collation) for _, cid, column, _, collation, is_key in parts if is_key]
        columns = tuple(None if cid == _EXPRESSION else column for cid, column, _ in key)
        collations = tuple(collation.upper() for *_, collation in key)
        index = Index(name, columns, bool(unique), bool(partial))
        found.append(_IndexInfo(index, collations, origin, bool(partial)))
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
