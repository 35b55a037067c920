"""One hardened connection to a SQLite file, and what is run on it; all of it in its own thread."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeAlias, TypeVar

from resource_server.errors import InvalidParameter, MountUnavailable, ResourceBusy
from resource_server.providers.database.engines.contract import Beginning, Rows
from resource_server.providers.database.engines.sqlite.authorizer import (
    Authorizer,
    Readable,
    Role,
    folded,
)
from resource_server.providers.database.engines.sqlite.database_file import DatabaseFile, Identity
from resource_server.providers.database.engines.sqlite.schema_names import (
    MODULES,
    Schema,
    quoted,
    read_schema,
)
from resource_server.providers.database.queries.sql_tokenizer import EDGE

T = TypeVar("T")

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
"""By place, or by name."""

_BUSY_TIMEOUT = 0.25
_HEAP = 256 * 1024 * 1024
"""Bytes of all SQLite connections of the process, as this module asks for."""
_LARGEST_VALUE = 16 * 1024 * 1024
_LARGEST_CUT = 128 * 1024 * 1024
"""Larger values are fetched one after the other, and only their beginning is kept."""
_KEPT_OF_CUT = 64 * 1024
_MOST_BYTES = 64 * 1024 * 1024
"""Of the texts and blobs of one result, about; the rows behind are left out."""
_STEPS = 1000
"""Of SQLite's virtual machine."""
_PRAGMAS = f"""
PRAGMA query_only = 1; PRAGMA trusted_schema = 0; PRAGMA cell_size_check = 1;
PRAGMA temp_store = 2; PRAGMA mmap_size = 0; PRAGMA hard_heap_limit = {_HEAP}
"""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: _LARGEST_VALUE,
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
"""Set when the schema has been read, which may be larger than a statement."""
_JOINS = re.compile("using|natural", re.IGNORECASE)
_WITH = re.compile("with", re.IGNORECASE)
# `sqlite3.SQLITE_DBCONFIG_DEFENSIVE` and others came with Python 3.12, as `setconfig` did.
_DEFENSIVE, _TRIGGERS, _TOKENIZERS = 1010, 1003, 1004
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
_MEMORY = frozenset((sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL))
_UNUSABLE = {
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database, or it is encrypted",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; `PRAGMA integrity_check` tells more",
    sqlite3.SQLITE_CANTOPEN: "the database file, or the log beside it, cannot be opened",
    sqlite3.SQLITE_PERM: "the database file may not be read by this process",
    sqlite3.SQLITE_IOERR: "the database file cannot be read: input or output failed",
    sqlite3.SQLITE_READONLY: (
        "the database has to be recovered first: open it once with the program that writes it"
    ),
}


class Refused(Exception):
    """SQLite cannot or may not run a statement; the message may hold parts of it."""


class Outdated(Exception):
    """Somebody changed the schema, and the connection needs to be opened again."""


class Interrupted(Exception):
    """A statement was stopped before its end."""


class Work(Generic[T]):
    """Something to be run with a connection in its thread."""

    __slots__ = ("_result", "abandoned", "run")

    def __init__(self, run: Callable[[Connection], T]) -> None:
        self.run = run
        self.abandoned = False
        """Set by whoever waits for it no longer."""
        self._result: list[T] = []

    def finish(self, result: T) -> None:
        """Keep the result."""
        self._result = [result]

    def fetchall(self) -> list[T]:
        """Return the result in a list of one, as a cursor would."""
        return self._result


class Connection:
    """A connection that reads one file and can do nothing else.

    As little of `sqlite3.Connection` as aiosqlite calls: its threads open it, execute and close.
    `patience` is how long it waits for a writer of a rollback journal, in seconds.
    """

    def __init__(
        self,
        file: DatabaseFile,
        identity: Identity,
        role: Role,
        readable: Readable,
        *,
        patience: float = _BUSY_TIMEOUT,
    ) -> None:
        self.running: Work[object] | None = None
        self.authorizer = Authorizer(role, Schema({}, {}), readable)
        self._version: object = None
        try:
            self.database = _connect(file.uri(identity), patience)
        except (sqlite3.Error, MemoryError) as error:
            raise _explained(error) from None
        try:
            _harden(self.database)
            if role != "watcher":
                # Names may be anything.
                self.database.text_factory = _escaped
                schema = self._warm()
                modules = [name for (name,) in self.database.execute("PRAGMA module_list")]
                self.authorizer = Authorizer(role, schema, readable, modules)
            if role == "reader":
                # Several times as fast, for as long as all text is UTF-8.
                self.database.text_factory = str
            for limit, value in _STATEMENT_LIMITS.items():
                self.database.setlimit(limit, value)
            self.database.set_authorizer(self.authorizer)
            self.state()
            self.log = file.log()
        except (sqlite3.Error, MemoryError) as error:
            self.database.close()
            raise _explained(error) from None
        except BaseException:
            self.database.close()
            raise

    def execute(self, _: str, parameters: tuple[Work[object]]) -> Work[object]:
        """Run the work that is the one parameter, unless nobody waits for it any more.

        Raises:
            ResourceBusy, MountUnavailable: as `Engine` has them.
            Refused, Outdated, Interrupted: what the caller has to deal with.
        """
        (work,) = parameters
        if work.abandoned:
            raise Interrupted
        self.running = work
        try:
            work.finish(work.run(self))
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError) as error:
            explained = _explained(error)
            if isinstance(explained, Refused) and self.is_outdated():
                raise Outdated from None
            raise explained from None
        finally:
            self.running = None
        return work

    def interrupt(self) -> None:
        """Stop what runs, where SQLite looks for that; called from any thread."""
        self.database.interrupt()

    def close(self) -> None:
        """Close it."""
        self.log.close()
        self.database.close()

    def select(self, sql: str, parameters: Parameters, limit: int, *, stored: bool = False) -> Rows:
        """Return up to `limit` rows, fewer where they are very large. Invalid UTF-8 is escaped.

        `stored`: all values are stored ones, as nothing in the file decides how long it takes to
        compute them. Of one over 16 MiB there is a `Beginning` then; over 128 MiB it is refused.
        """
        try:
            return self._decoded(sql, parameters, limit)
        except sqlite3.DataError as error:
            if not stored or error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
                raise
        self.database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_CUT)
        try:
            return self._decoded(sql, parameters, limit)
        finally:
            self.database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)

    def _decoded(self, sql: str, parameters: Parameters, limit: int) -> Rows:
        try:
            return self._select(sql, parameters, limit)
        except sqlite3.OperationalError as error:
            if self.database.text_factory is _escaped or "decode" not in str(error):
                raise
        # From now on: one text that is not UTF-8 is seldom alone.
        self.database.text_factory = _escaped
        return self._select(sql, parameters, limit)

    def _select(self, sql: str, parameters: Parameters, limit: int) -> Rows:
        cursor = self.database.execute(sql, parameters)
        columns = tuple([column[0] for column in cursor.description or ()])
        rows: list[tuple[object, ...]] = []
        size = 0
        for row in cursor:
            if len(rows) == limit or size > _MOST_BYTES:
                cursor.close()
                return Rows(columns, rows, more=True)
            before = size
            for value in row:
                if value.__class__ is str or value.__class__ is bytes:
                    size += len(value)
            if size - before > _LARGEST_VALUE:
                row, size = tuple(map(_cut, row)), before + _LARGEST_VALUE
            rows.append(row)
        return Rows(columns, rows)

    def query(self, sql: str, parameters: Parameters, limit: int) -> Rows:
        """Run the SQL of a manifest's author, if it asks for nothing that is not for queries."""
        with self._in_query(sql):
            self._prepare(sql, parameters)
            return self.select(sql, parameters, limit)

    def check(self, sql: str, parameters: Parameters) -> None:
        """See whether the SQL of a manifest's author may be run, without running it."""
        with self._in_query(sql):
            self._prepare(sql, parameters)

    @contextmanager
    def _in_query(self, sql: str) -> Generator[None]:
        _, author, _ = _parts(sql)
        self.authorizer.in_query = True
        self.authorizer.views = _WITH.search(author) is None
        try:
            yield
        finally:
            self.authorizer.in_query = False
            self.authorizer.views = True

    def _prepare(self, sql: str, parameters: Parameters) -> None:
        # What it asks for itself is told from what virtual tables ask for while it runs.
        self.authorizer.direct = True
        try:
            self.database.execute(f"EXPLAIN {sql}", parameters).close()
            before, author, after = _parts(sql)
            if _JOINS.search(author):
                # SQLite does not ask for the columns that these compare: all must be readable.
                words = folded(author)
                for table in self.authorizer.tables:
                    if folded(table).replace('"', '""') in words or folded(table) in words:
                        # What the name stands for there.
                        every = f"{before}SELECT * FROM {quoted(table)}{after}"  # noqa: S608
                        self.database.execute(f"EXPLAIN {every}").close()
        finally:
            self.authorizer.direct = False

    def names(self, sql: str, parameters: Parameters) -> Sequence[str] | None:
        """Return the names of the columns of a statement without rows.

        None where it takes more than a few steps to find that there are none.
        """
        self.database.set_progress_handler(lambda: 1, _STEPS)
        try:
            with self._in_query(sql):
                return self._select(sql, parameters, 0).columns
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        finally:
            self.database.set_progress_handler(None, 0)

    def state(self) -> tuple[int, int]:
        """Return the versions of the schema and of the data, as this connection sees them."""
        (schema,) = self.database.execute("PRAGMA schema_version").fetchone()
        (data,) = self.database.execute("PRAGMA data_version").fetchone()
        return schema, data

    def is_outdated(self) -> bool:
        """Return whether the schema is another than when the connection was opened."""
        if self._version is None:
            return False
        try:
            return self.state()[0] != self._version
        except sqlite3.Error:
            return False

    def _warm(self) -> Schema:
        """Read the schema, and connect virtual tables while they may still prepare statements."""
        self._version = self.state()[0]
        schema = read_schema(self.database)
        used = [relation for relation in schema.relations.values() if relation.module in MODULES]
        virtual = (quoted(relation.name) for relation in used)
        for name in ("json_each('[]')", "json_tree('[]')", *virtual):
            try:
                self.database.execute(f"SELECT 1 FROM {name} LIMIT 0").close()  # noqa: S608
            except sqlite3.OperationalError:
                continue
        return schema


def _connect(uri: str, patience: float) -> sqlite3.Connection:
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,  # The event loop calls `interrupt`, and may read by it.
        cached_statements=256,
    )


def _harden(database: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS.split(";"):
        database.execute(pragma).close()
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    set_config = getattr(database, "setconfig", None)
    if set_config is not None:
        for option, value in ((_DEFENSIVE, True), (_TRIGGERS, False), (_TOKENIZERS, False)):
            set_config(option, value)
    # Missing where Python was built without extensions.
    load_extensions = getattr(database, "enable_load_extension", None)
    if load_extensions is not None:
        load_extensions(False)


def _parts(sql: str) -> tuple[str, str, str]:
    """Return what is before an author's SQL, it itself, and what is after it."""
    before, edge, rest = sql.partition(EDGE)
    if not edge:
        return "", sql, ""
    author, _, after = rest.rpartition(EDGE)
    return before, author, after


def _escaped(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _cut(value: object) -> object:
    if isinstance(value, str | bytes) and len(value) > _LARGEST_VALUE:
        return Beginning(value[:_KEPT_OF_CUT], len(value))
    return value


def _explained(error: BaseException) -> Exception:
    """Return what an error of SQLite means for whoever waits for the statement."""
    if isinstance(error, MemoryError):
        return ResourceBusy("the database needs too much memory for this")
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary == sqlite3.SQLITE_INTERRUPT:
        return Interrupted()
    if primary in _BUSY:
        return ResourceBusy("the database is locked by a writer")
    if primary in _MEMORY:
        return ResourceBusy("the database needs too much memory for this")
    if primary == sqlite3.SQLITE_TOOBIG:
        return InvalidParameter("a value is too large; read other columns, by `columns`")
    if primary in _UNUSABLE:
        return MountUnavailable(_UNUSABLE[primary])
    return Refused(str(error))
