"""A hardened, read-only SQLite connection: pragmas, limits, authorizer, mapping of errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TypeVar

from resource_server.providers.database.addressing.key_types import real_text
from resource_server.providers.database.engines.causes import failure
from resource_server.providers.database.engines.contract import (
    DIGEST,
    REAL_TEXT,
    Rows,
    Statement,
    TruncatedValue,
)
from resource_server.providers.database.engines.reflection import folded, quoted
from resource_server.providers.database.engines.sqlite import causes
from resource_server.providers.database.engines.sqlite.authorizer import Authorizer, Readable, Role
from resource_server.providers.database.engines.sqlite.database_file import (
    DatabaseFile,
    FileIdentity,
)
from resource_server.providers.database.engines.sqlite.schema_names import (
    MODULES,
    VOCABULARIES,
    SqliteSchema,
    read_schema,
)
from resource_server.runtime.causes import Cause

T = TypeVar("T")

BUSY_TIMEOUT_S = 0.25
"""How long a connection waits for a writer's lock, in rollback journal mode."""
_CLOSING_TIMEOUT_S = 5.0
"""The same in WAL mode, where only a writer that closes the file, or recovers it, locks it."""
_MAX_HEAP_BYTES = 256 * 1024 * 1024
"""Maximum memory of all SQLite connections of the process."""
_MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a value that is returned whole."""
_MAX_TRUNCATED_BYTES = 128 * 1024 * 1024
"""Maximum bytes of a stored value whose beginning is returned."""
_KEPT_BYTES = 64 * 1024
"""Bytes of that beginning."""
_MAX_RESULT_BYTES = 64 * 1024 * 1024
"""Bytes of text and blobs after which a result ends, with `more`."""
_MAX_COLUMNS_AT_ONCE = 128
_MAX_COLUMN_BYTES_AT_ONCE = 2 * 1024 * 1024
"""Maximum bytes of one column of all rows; a single value may have its share of them."""
_PRAGMAS = f"""
PRAGMA query_only = 1; PRAGMA trusted_schema = 0; PRAGMA cell_size_check = 1;
PRAGMA temp_store = 2; PRAGMA mmap_size = 0; PRAGMA hard_heap_limit = {_MAX_HEAP_BYTES}
"""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: _MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 2000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
}
_STATEMENT_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 250_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
}
"""Set after the schema was read, whose statements may be longer."""
# `sqlite3.SQLITE_DBCONFIG_DEFENSIVE` and others came with Python 3.12, as `setconfig` did.
_DEFENSIVE, _TRIGGERS, _TOKENIZERS = 1010, 1003, 1004


class StatementRefused(Exception):
    """SQLite or the authorizer refuses a statement; the message may quote its SQL.

    `found` is the cause, and its code.
    """

    def __init__(self, message: str, found: tuple[Cause, str]) -> None:
        super().__init__(message)
        self.found = found


class StatementInterrupted(Exception):
    """A statement was stopped before its end."""


class SchemaChanged(Exception):
    """The schema, or a file read as immutable, has changed: the connection must be reopened."""


class SqliteConnection:
    """A connection that can only read one file.

    `busy_timeout_s` is how long it waits for a writer's lock; None is the time for its journal.
    """

    def __init__(
        self,
        file: DatabaseFile,
        identity: FileIdentity,
        role: Role,
        readable: Readable,
        *,
        busy_timeout_s: float | None = None,
    ) -> None:
        self._file, self._identity = file, identity
        self.authorizer = Authorizer(role, SqliteSchema({}, {}), readable)
        self._version: object = None
        with errors_explained():
            self.database = hardened(file.uri(identity), busy_timeout(file, busy_timeout_s))
            try:
                # Names in the schema may hold any bytes.
                self.database.text_factory = surrogate_text
                self._schema = self._warm()
                modules = [name for (name,) in self.database.execute("PRAGMA module_list")]
                self.authorizer = Authorizer(role, self._schema, readable, modules)
                if role == "reader":
                    # Several times as fast, until the first text that is not UTF-8.
                    self.database.text_factory = str
                limit_statements(self.database)
                self.database.set_authorizer(self.authorizer)
                self.versions()
                self.log = file.log(identity)
            except BaseException:
                self.database.close()
                raise

    def run(self, function: Callable[[SqliteConnection], T]) -> T:
        """Call a function with this connection, and explain the errors of SQLite.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` raises them.
            StatementRefused, StatementInterrupted, SchemaChanged: for the engine to handle.
        """
        try:
            result = self._explaining(function)
        except StatementInterrupted:
            raise
        except Exception:
            if not self.is_unchanged():
                raise SchemaChanged from None
            raise
        if not self.is_unchanged():
            raise SchemaChanged
        return result

    def _explaining(self, function: Callable[[SqliteConnection], T]) -> T:
        try:
            return function(self)
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError) as error:
            explained = _explained(error)
            if isinstance(explained, StatementRefused) and self.has_new_schema():
                raise SchemaChanged from None
            raise explained from None

    def is_unchanged(self) -> bool:
        """Return whether all that was read is of one state of the file."""
        return self._file.is_unchanged(self._identity)

    def interrupt(self) -> None:
        """Stop the running statement at its next step; any thread may call this."""
        self.database.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self.log.close()
        self.database.close()

    def select(
        self, sql: str, parameters: Sequence[object], limit: int, *, stored: bool = False
    ) -> Rows:
        """Return up to `limit` rows, fewer if they are very large. Invalid UTF-8 is escaped.

        Args:
            sql: a SELECT.
            parameters: its parameters.
            limit: maximum rows.
            stored: whether it selects stored values only, so that none is computed by an
                expression in the file. Then a value over 16 MiB is a `TruncatedValue`, and only
                one over 128 MiB is refused.
        """
        try:
            return self._select_decoded(sql, parameters, limit)
        except sqlite3.DataError as error:
            if not stored or error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
                raise
        self.database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TRUNCATED_BYTES)
        try:
            return self._select_decoded(sql, parameters, limit)
        finally:
            self.database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)

    def _select_decoded(self, sql: str, parameters: Sequence[object], limit: int) -> Rows:
        try:
            return self._select(sql, parameters, limit)
        except sqlite3.OperationalError as error:
            if self.database.text_factory is surrogate_text or "decode" not in str(error):
                raise
        # Permanently: if one text is not UTF-8, others will follow.
        self.database.text_factory = surrogate_text
        return self._select(sql, parameters, limit)

    def _select(self, sql: str, parameters: Sequence[object], limit: int) -> Rows:
        cursor = self.database.execute(sql, parameters)
        columns = tuple([column[0] for column in cursor.description or ()])
        rows: list[tuple[object, ...]] = []
        size = 0
        for row in cursor:
            if len(rows) == limit or size > _MAX_RESULT_BYTES:
                cursor.close()
                return Rows(columns, rows, more=True)
            before = size
            for value in row:
                if value.__class__ is str or value.__class__ is bytes:
                    size += len(value)
            if size - before > _MAX_VALUE_BYTES:
                row, size = tuple(map(_truncated, row)), before + _MAX_VALUE_BYTES
            rows.append(row)
        return Rows(columns, rows)

    def at_once(self, statement: Statement, limit: int) -> Rows | None:
        """Return the rows of a statement of ours; None if they may be large. For `InlineReader`.

        Bounds the size of each value, not their sum, which would double the time of the fetch.

        Raises:
            sqlite3.Error: whatever SQLite raises; a `DataError` for a large value.
        """
        database = self.database
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_COLUMN_BYTES_AT_ONCE // limit)
        cursor = database.execute(statement.sql, statement.parameters)
        columns = tuple([column[0] for column in cursor.description or ()])
        if len(columns) > _MAX_COLUMNS_AT_ONCE:
            return None
        rows = cursor.fetchmany(limit)
        more = cursor.fetchone() is not None
        cursor.close()
        return Rows(columns, rows, more)

    def columns_read_by(self, view: str) -> set[tuple[str, str]]:
        """Return tables and views with the columns that a view reads, not through other views.

        A vocabulary reads all columns of its full-text table, and a full-text table of another
        table's text those that it names.
        """
        found: set[tuple[str, str]] = set()
        entries = self._schema.entries
        if view in entries and (source := entries[view].source) is not None:
            names = [name for name in entries if not source or folded(name) == folded(source)]
            columns = ["*"]
            if source and entries[view].module not in VOCABULARIES:
                columns = ["", *self._columns_of(view)]
            return {(name, column) for name in names for column in columns}

        def record(
            action: int, first: str | None, second: str | None, schema: str | None, by: str | None
        ) -> int:
            # SQLite names common table expressions like views: then it may be this view's.
            through = by is not None and by != view and by in self.authorizer.tables
            if action == sqlite3.SQLITE_READ and first and second and first != view and not through:
                found.add((first, second))
            return sqlite3.SQLITE_OK  # nothing runs

        self.database.set_authorizer(record)
        try:
            self.database.execute(f"EXPLAIN SELECT * FROM {quoted(view)}").close()  # noqa: S608
        except sqlite3.Error:
            found.clear()  # such as a view of a missing table
        finally:
            self.database.set_authorizer(self.authorizer)
        return found

    def _columns_of(self, table: str) -> list[str]:
        rows = self.database.execute(f"PRAGMA main.table_xinfo({quoted(table)})")
        return [name for _, name, _, _, _, _, hidden in rows if not hidden]

    def versions(self) -> tuple[int, int]:
        """Return the versions of the schema and the data, as this connection sees them."""
        schema = self.schema_version()
        (data,) = self.database.execute("PRAGMA data_version").fetchone()
        return schema, data

    def schema_version(self) -> int:
        """Return the version of the schema, as this connection sees it."""
        (version,) = self.database.execute("PRAGMA schema_version").fetchone()
        return version

    def explained(self, error: BaseException) -> Exception:
        """Return the error that the caller of a statement sees for an error of SQLite."""
        return _explained(error)

    def has_new_schema(self) -> bool:
        """Return whether the schema has changed since the connection was opened."""
        if self._version is None:
            return False
        try:
            return self.schema_version() != self._version
        except sqlite3.Error:
            return False

    def _warm(self) -> SqliteSchema:
        """Read the schema, and connect its virtual tables."""
        self._version = self.schema_version()
        schema = read_schema(self.database)
        warm_modules(self.database, schema)
        return schema


def warm_modules(database: sqlite3.Connection, schema: SqliteSchema, file: str = "main") -> None:
    """Connect virtual tables, which an authorizer forbids; `file` is the name of their schema."""
    virtual = [
        f"{quoted(file)}.{quoted(name)}"
        for name, entry in schema.entries.items()
        if entry.module in MODULES
    ]
    for name in ("json_each('[]')", "json_tree('[]')", *virtual):
        try:
            database.execute(f"SELECT 1 FROM {name} LIMIT 0").close()  # noqa: S608 - quoted
        except sqlite3.OperationalError:
            continue


def limit_statements(database: sqlite3.Connection) -> None:
    """Set the limits of statements, after the schema was read."""
    for limit, value in _STATEMENT_LIMITS.items():
        database.setlimit(limit, value)


def hardened(
    uri: str,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    *,
    attached: tuple[str, str] | None = None,
    encoding: str = "UTF-8",
) -> sqlite3.Connection:
    """Open a connection that cannot write, attach files or load extensions.

    `attached` is the URI of a file, and its name in SQL; then temporary views can be made until
    `query_only` is set. `encoding` is that of an empty database.
    """
    database = sqlite3.connect(
        uri,
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,  # the event loop calls `interrupt`, and reads inline
        cached_statements=256,
    )
    try:
        if attached is not None:
            database.execute(f"PRAGMA encoding = '{encoding}'").close()
            database.execute(f"ATTACH ? AS {quoted(attached[1])}", attached[:1]).close()
        _harden(database)
        if attached is not None:
            database.execute("PRAGMA query_only = 0").close()
    except BaseException:
        database.close()
        raise
    return database


def _harden(database: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS.split(";"):
        database.execute(pragma).close()
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    database.create_function(DIGEST, 3, _digest, deterministic=True)
    database.create_function(REAL_TEXT, 1, real_text, deterministic=True)
    set_config = getattr(database, "setconfig", None)
    if set_config is not None:
        for option, value in ((_DEFENSIVE, True), (_TRIGGERS, False), (_TOKENIZERS, False)):
            set_config(option, value)
    # Missing if Python was built without extensions.
    load_extensions = getattr(database, "enable_load_extension", None)
    if load_extensions is not None:
        load_extensions(False)


def busy_timeout(file: DatabaseFile, given_s: float | None) -> float:
    """Return how long a connection waits for a writer's lock, unless a time is given."""
    if given_s is not None:
        return given_s
    return _CLOSING_TIMEOUT_S if file.has_log() else BUSY_TIMEOUT_S


@contextmanager
def errors_explained() -> Generator[None]:
    """Raise errors of SQLite as `SqliteConnection.run` does."""
    try:
        yield
    except (sqlite3.Error, MemoryError) as error:
        raise _explained(error) from None


def surrogate_text(text: bytes) -> str:
    """Return text whose invalid bytes are lone surrogates."""
    return text.decode("utf-8", "surrogateescape")


def _digest(kind: str, value: float | bytes | None, secret: str) -> bytes | None:
    """Return a digest that differs for values of different types (`kind`) or bytes."""
    if value is None:
        return None
    data = value if isinstance(value, bytes) else str(value).encode("ascii")
    key = bytes.fromhex(secret)
    return blake2b(f"{kind}:".encode("ascii") + data, key=key, digest_size=16).digest()


def _truncated(value: object) -> object:
    if isinstance(value, str | bytes) and len(value) > _MAX_VALUE_BYTES:
        return TruncatedValue(value[:_KEPT_BYTES], len(value))
    return value


def _explained(error: BaseException) -> Exception:
    """Return the error that the caller of a statement sees for an error of SQLite."""
    found = causes.cause_of(error)
    match found[0].kind:
        case "stopped":
            return StatementInterrupted()
        case "busy" | "operation":
            return failure(found)
        case _:
            return causes.file_problem(error) or StatementRefused(str(error), found)
