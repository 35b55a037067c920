"""The worker process: one DuckDB database, or data files as tables, and nothing else to reach.

`process` starts it as `python -I -m resource_server.providers.database.engines.duckdb.worker FD`.
It opens its database, gives up the lock on it, and is confined for good; then it runs statements,
each in a thread of its own. A database file that changes needs a new worker.
"""

from __future__ import annotations

import hashlib
import os
import queue
import re
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import duckdb
import msgspec

from resource_server.conversion import framing, sandbox
from resource_server.providers.database.engines.duckdb import (
    caller_tables,
    catalog,
    causes,
    data_tables,
    parsed_query,
    syntax,
    text_columns,
    value_readers,
)
from resource_server.providers.database.engines.duckdb.messages import (
    LOGS,
    MAX_MESSAGE_BYTES,
    MAX_RESULT_BYTES,
    MAX_VALUE_BYTES,
    NUMBERED,
    Answer,
    CallerTables,
    Cancel,
    Open,
    Opened,
    Opening,
    OpenRefused,
    RefusalReason,
    Request,
    Run,
    RunFailed,
    RunResult,
    decode_request,
    framed,
    portable,
)
from resource_server.providers.database.engines.reflection import quoted
from resource_server.runtime.causes import find

OWN_THREADS: Final = 3
AUTHOR_THREADS: Final = 2
"""Statements that run at the same time: ours, and queries of the manifest."""
CALLER_THREADS: Final = 2
"""Statements of callers that run at the same time, in a process for them."""
_MEMORY: Final = "512MB"
_ADDRESS_SPACE: Final = 4 * 1024 * 1024 * 1024
"""DuckDB reserves far more than it uses; its own limit is what counts."""
MAX_RESIDENT: Final = 1024 * 1024 * 1024
"""Bytes of memory at which the process ends: DuckDB's own limit leaves out texts and lists that a
function makes, such as `format('{:>900000000}', 1)`."""
_WATCH_S: Final = 0.02
_STATM: Final = "/proc/self/statm"
"""File of this process's memory, on Linux."""
_MAX_STATEMENTS: Final = 1024
_KEPT_BYTES: Final = 1024 * 1024
"""Bytes kept of a value that is truncated."""
_FETCHED_ROWS: Final = 256
_CONFIGURATION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 2,
    "memory_limit": _MEMORY,
    "temp_directory": "",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    # It fails with an internal error where rows are ordered by `rowid` after a column.
    "disabled_optimizers": "late_materialization",
}
_CALLER_CONFIGURATION: Final[dict[str, str | bool | int | float | list[str]]] = {
    **_CONFIGURATION,
    "threads": 1,  # the same statement on the same copies gives the same result
    "enable_external_file_cache": False,
}
_FILES: Final = "files"
"""Name of the database of data files, for callers."""
_MAX_ROW_BYTES: Final = 2 * MAX_RESULT_BYTES
"""Maximum bytes of a row in an answer, where long texts are cut."""
_ROW_TOO_LARGE: Final = f"a row has more than {_MAX_ROW_BYTES // 2**20} MB"
_UTC: Final = "SET TimeZone = 'UTC'"
_LOCKS: Final = ("SET enable_external_access = false", "SET lock_configuration = true")
_SCHEMA: Final = """
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment
FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"""
_CONSTRAINTS: Final = """
SELECT schema_name, table_name, constraint_text FROM duckdb_constraints() ORDER BY ALL"""
_COMMENTS: Final = f"SELECT * FROM {catalog.RELATIONS} ORDER BY ALL"  # noqa: S608
_INDEXES: Final = """
SELECT schema_name, table_name, index_name, sql FROM duckdb_indexes() ORDER BY ALL"""
_SCHEMAS: Final = """
SELECT schema_name FROM duckdb_schemas()
WHERE database_name = $1 ORDER BY schema_name <> 'main', schema_name"""
_STATE: Final = (_SCHEMA, _CONSTRAINTS, _COMMENTS, _INDEXES)
_OF_FILES: Final = (duckdb.InvalidInputException,)
"""Errors by which the content of a data file refuses the program's own statement."""
_OF_THE_PROCESS: Final = ("stopped", "memory", "broken", "damaged")
"""Failures that are no mistakes of a statement."""


def main() -> None:
    """Serve requests until the server closes the socket."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    with suppress(EOFError, OSError):
        opening = _take(channel)
        if isinstance(opening, Open):
            opened = _opened(opening, lambda place: channel.sendall(framed(Opening(place))))
            if isinstance(opened, OpenRefused):
                channel.sendall(framed(opened))
            else:
                _Worker(channel, opened).serve()


class _OpenDatabase(msgspec.Struct, frozen=True):
    """An open database, in a process that is confined."""

    database: duckdb.DuckDBPyConnection
    """Kept open for its connections."""
    connections: Sequence[duckdb.DuckDBPyConnection]
    """One for each thread."""
    known: parsed_query.KnownTables
    """What queries of the manifest, or those of callers, may name."""
    answer: Opened
    is_for_callers: bool = False
    """Whether the statements are those of callers; else ours, and queries of the manifest."""
    paths: Sequence[str] = ()
    """Paths of files that errors may quote."""
    statm: int | None = None
    """Descriptor of the file of this process's memory."""


class _Worker:
    def __init__(self, channel: socket.socket, opened: _OpenDatabase) -> None:
        self._channel = channel
        self._opened = opened
        self._sending = threading.Lock()
        self._own: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self._author: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Run, duckdb.DuckDBPyConnection]] = {}
        self._is_running = threading.Event()
        self._cancelled = set[int]()
        self._statements: dict[tuple[object, ...], _Prepared] = {}

    def serve(self) -> None:
        """Run statements until the server is gone."""
        for place, connection in enumerate(self._opened.connections):
            waiting = self._own if place < OWN_THREADS else self._author
            threading.Thread(target=self._run_all, args=(connection, waiting), daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        self._send(self._opened.answer)
        try:
            while True:
                match _take(self._channel):
                    case Run(is_author=True) as job:
                        self._author.put(job)
                    case Run() as job:
                        self._own.put(job)
                    case Cancel(id):
                        self._cancel(id)
                    case _:
                        return
        finally:
            os._exit(0)

    def _send(self, answer: Answer) -> None:
        data = framed(answer)
        with self._sending:
            self._channel.sendall(data)

    def _cancel(self, id: int) -> None:
        with self._lock:
            self._cancelled.add(id)
            self._interrupt()

    def _interrupt(self) -> None:
        """Interrupt what runs and is cancelled. Hold the lock."""
        for id in self._cancelled & self._running.keys():
            self._running[id][1].interrupt()

    def _run_all(
        self, connection: duckdb.DuckDBPyConnection, waiting: queue.SimpleQueue[Run]
    ) -> None:
        while True:
            job = waiting.get()
            with self._lock:
                self._running[job.id] = job, connection
                self._is_running.set()
                is_cancelled = job.id in self._cancelled
            try:
                answer = (
                    RunFailed(job.id, "stopped") if is_cancelled else self._run(connection, job)
                )
            finally:
                with self._lock:
                    del self._running[job.id]
                    if not self._running:
                        self._is_running.clear()
                    self._cancelled.discard(job.id)
            with suppress(OSError):
                self._send(answer)

    def _watch(self) -> None:
        """End the process if statements take too much memory; our own ones run again."""
        statm = self._opened.statm
        while self._is_running.wait():
            time.sleep(_WATCH_S)
            with self._lock:
                self._interrupt()  # DuckDB forgets an interrupt before its next statement starts
            if statm is None:
                continue
            resident = int(os.pread(statm, 100, 0).split()[1]) * resource.getpagesize()
            if resident <= MAX_RESIDENT:
                continue
            with self._lock, suppress(OSError):
                for job, _ in self._running.values():
                    if job.is_author or self._opened.is_for_callers:
                        self._send(RunFailed(job.id, "memory"))
            os._exit(0)

    def _run(self, connection: duckdb.DuckDBPyConnection, job: Run) -> Answer:
        is_caller = self._opened.is_for_callers
        try:
            return self._ran(connection, job)
        except parsed_query.RefusedQuery as error:
            if is_caller:
                return parsed_query.refusal(job.id, error, self._opened.paths)
            return RunFailed(job.id, "refused", str(error))
        except (duckdb.Error, MemoryError) as error:
            of_files = bool(self._opened.answer.sources)
            failure = causes.flow(error, of_files=of_files, is_author=job.is_author)
            is_ours = not is_caller and not job.is_author
            if is_ours and of_files and type(error) in _OF_FILES:
                failure = "damaged"
            if is_caller and failure not in _OF_THE_PROCESS:
                return parsed_query.refusal(job.id, error, self._opened.paths)
            _, code = find(causes.STATEMENT, causes.codes(error))
            code = causes.DAMAGED if failure == "damaged" else code
            return RunFailed(job.id, failure, str(error) if job.is_author else "", code=code)
        except Exception as error:
            return RunFailed(job.id, "refused", f"a value cannot be read ({type(error).__name__})")

    def _ran(self, connection: duckdb.DuckDBPyConnection, job: Run) -> RunResult:
        if job.only_prepare:
            self._checked(connection, job)
            return RunResult(job.id, tuple(name for name, _ in _described(connection, job)), [])
        prepared = self._prepared(connection, job)
        connection.execute(prepared.sql, list(job.parameters))
        result = _result(connection, job, prepared)
        result = msgspec.structs.replace(result, sources=prepared.sources)
        if result.more and self._opened.is_for_callers:
            connection.execute("SELECT NULL")  # frees the memory of the rest
        return result

    def _prepared(self, connection: duckdb.DuckDBPyConnection, job: Run) -> _Prepared:
        """Return the statement with casts of the values that the driver would change."""
        # Our own statements are not checked; the types of parameters decide those of columns.
        key = job.is_author, job.sql, *map(type, job.parameters)
        known = self._statements.get(key)
        if known is not None:
            return known
        sources = self._checked(connection, job)
        columns = _described(connection, job)
        readers = [value_readers.reader(type) for _, type in columns]
        sql = job.sql
        if any(readers):
            names = [f"v{place}" for place in range(len(columns))]
            each = ", ".join(
                f"{name if reader is None else reader.select(name)} AS {quoted(column)}"
                for name, reader, (column, _) in zip(names, readers, columns, strict=True)
            )
            sql = f"SELECT {each} FROM ({job.sql}\n) AS v({', '.join(names)})"  # noqa: S608
        names = tuple(name for name, _ in columns)
        prepared = _Prepared(sql, names, readers, sources)
        if len(self._statements) >= _MAX_STATEMENTS:
            self._statements.clear()
        self._statements[key] = prepared
        return prepared

    def _checked(self, connection: duckdb.DuckDBPyConnection, job: Run) -> tuple[int, ...] | None:
        """Check a statement unless it is ours; return the places of the data tables it names."""
        sources = self._opened.answer.sources
        is_ours = not (job.is_author or self._opened.is_for_callers)
        if is_ours and not sources:
            return None
        parsed = parsed_query.parsed(connection, job.sql)
        if not is_ours:
            parsed_query.check(parsed, self._opened.known)
        # Other names are those of the catalog, and of common table expressions.
        read = syntax.reads(parsed).tables
        return tuple({sources[name] for name in read if name in sources}) if sources else None


class _Prepared(NamedTuple):
    """A statement as it is run, its columns, the readers of their values, and what it reads."""

    sql: str
    columns: tuple[str, ...]
    readers: Sequence[value_readers.ValueReader | None]
    sources: tuple[int, ...] | None


def _take(channel: socket.socket) -> Request:
    return decode_request(framing.receive(channel, MAX_MESSAGE_BYTES))


def _opened(
    opening: Open, begin: Callable[[int], None] = lambda _: None
) -> _OpenDatabase | OpenRefused:
    """Confine this process and open the database."""
    try:
        files = _reachable(opening)
    except OSError:
        return OpenRefused("missing")
    _limit(len(files))
    statm: int | None = None
    with suppress(OSError):
        statm = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    protections = tuple(sandbox.confine(files, has_locks=False))
    for file in files:
        os.close(file)
    try:
        if opening.visible is not None:
            opened = _opened_for_callers(opening, opening.visible, protections, begin)
        else:
            opened = _opened_whole(opening, protections, begin)
        return msgspec.structs.replace(opened, statm=statm)
    except caller_tables.TooLarge:
        return OpenRefused("memory")
    except (duckdb.Error, OSError) as error:
        return OpenRefused(_reason(error))


def _opened_whole(
    opening: Open, protections: tuple[str, ...], begin: Callable[[int], None]
) -> _OpenDatabase:
    """Open the database for our own statements and queries of the manifest."""
    made = data_tables.Made([], {})
    if opening.database is None:
        database = duckdb.connect(config=_CONFIGURATION)
        made = data_tables.make(database, opening.tables, begin)
        path, schema = f"SET search_path = '{NUMBERED}'", "main"
    else:
        database = duckdb.connect(opening.database, read_only=True, config=_CONFIGURATION)
        _unlock(opening.database)
        database.execute("SET search_path = 'system.main'")
        ((name,),) = database.execute(catalog.DATABASE).fetchall()
        path, schema = _search_path(database, str(name)), None
        database.execute(path)
    digest = _digest(database)
    known = parsed_query.KnownTables.for_authors(database, schema=schema)
    connections = [database.cursor() for _ in range(OWN_THREADS + AUTHOR_THREADS)]
    for connection in connections:
        connection.execute(_UTC)
    for connection in connections[: OWN_THREADS if opening.database is None else None]:
        connection.execute(path)
    for sql in (data_tables.allowed_paths(opening.tables), *_LOCKS):
        database.execute(sql)
    answer = Opened(protections, digest, tuple(made.problems), made.sources, bool(known.paths))
    return _OpenDatabase(database, connections, known, answer)


def _opened_for_callers(
    opening: Open, visible: CallerTables, protections: tuple[str, ...], begin: Callable[[int], None]
) -> _OpenDatabase:
    """Copy what is visible of the database, and close it."""
    database = duckdb.connect(config=_CALLER_CONFIGURATION)
    # Before macros of the source are there, which callers cannot call.
    names = [relation.name for relation in visible.tables]
    known = parsed_query.KnownTables.for_callers(database, names)
    made = data_tables.Made([], {})
    is_database = opening.database is not None
    if opening.database is not None:
        source = _attached(database, opening.database)
        _unlock(opening.database)
    else:
        source = _FILES
        database.execute(f"ATTACH ':memory:' AS {source}")
        database.execute(f"USE {source}")
        made = data_tables.make(database, opening.tables, begin)
    database.execute(_search_path(database, source))
    is_copy = caller_tables.create(database, source, visible, is_database=is_database)
    if is_copy:
        sandbox.refuse_files()
    connections = [database.cursor() for _ in range(CALLER_THREADS)]
    for connection in connections:
        connection.execute(_UTC)
        connection.execute(caller_tables.SEARCH_PATH)
    allowed = () if is_copy else opening.tables
    for sql in (data_tables.allowed_paths(allowed), *_LOCKS):
        database.execute(sql)
    answer = Opened(protections, "", tuple(made.problems), made.sources, is_copy=is_copy)
    paths = [file.path for table in opening.tables for file in table.files]
    paths += [opening.database] if opening.database is not None else []
    return _OpenDatabase(database, connections, known, answer, is_for_callers=True, paths=paths)


def _attached(database: duckdb.DuckDBPyConnection, path: str) -> str:
    """Attach a file, and return the name that it has in SQL."""
    attach = f"ATTACH {text_columns.sql_literal(path)}"
    try:
        database.execute(f"{attach} (READ_ONLY)")
    except duckdb.BinderException:  # it has the name of the database in memory
        database.execute(f"{attach} AS memory_db (READ_ONLY)")
    ((name,),) = database.execute(f"{catalog.DATABASE} AND path IS NOT NULL").fetchall()
    return str(name)


def _unlock(path: str) -> None:
    """Give up the lock on a file, which would keep its writers out.

    They may have it open: a database is whole after each of their writes, as it is after a crash,
    and the engine discards what was read while the file changed.
    """
    # Where the sandbox grants locks: they end when the process closes any descriptor of the file.
    os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def _search_path(database: duckdb.DuckDBPyConnection, name: str) -> str:
    """Return the statement by which built-in functions precede macros of an open database."""
    schemas = [str(schema) for (schema,) in database.execute(_SCHEMAS, [name]).fetchall()]
    path = ["system.main", *(f"{quoted(name)}.{quoted(schema)}" for schema in schemas)]
    return f"SET search_path = {text_columns.sql_literal(','.join(path))}"


def _reachable(opening: Open) -> list[int]:
    """Return descriptors of the files that may be read from now on.

    Raises:
        OSError: a file is missing, or was replaced.
    """
    if opening.database is None:
        files = [data_tables.opened(file) for table in opening.tables for file in table.files]
    else:
        files = [os.open(opening.database, sandbox.PATH_ONLY)]
    logs = [f"{opening.database}{suffix}" for suffix in LOGS] if opening.database else []
    for path in logs:
        with suppress(OSError):
            files.append(os.open(path, sandbox.PATH_ONLY))
    # DuckDB reads them at its start, and crashes where the first cannot be opened.
    return [*files, *sandbox.opened_limits()]


def _reason(error: Exception) -> RefusalReason:
    text = str(error).lower()
    if re.search(r"\block\b", text):  # "block" is in the words about damage
        return "locked"
    if "version" in text or "newer" in text:
        return "version"
    return "extra" if "extension" in text else "damaged"


def _limit(files: int) -> None:
    for what, value in (
        (resource.RLIMIT_AS, _ADDRESS_SPACE),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64 + 2 * files),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))


def _digest(database: duckdb.DuckDBPyConnection) -> str:
    state = [database.execute(sql).fetchall() for sql in _STATE]
    return hashlib.blake2b(repr(state).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _described(connection: duckdb.DuckDBPyConnection, job: Run) -> Sequence[tuple[str, str]]:
    """Return the names and types of the columns of a statement, without running it."""
    described = connection.execute(f"DESCRIBE {job.sql}", list(job.parameters) or None)
    return [(str(row[0]), str(row[1])) for row in described.fetchall()]


def _result(connection: duckdb.DuckDBPyConnection, job: Run, prepared: _Prepared) -> RunResult:
    rows: list[tuple[object, ...]] = []
    truncated: dict[int, dict[int, int]] = {}
    room = MAX_RESULT_BYTES
    while len(rows) < job.limit:
        given = connection.fetchmany(min(_FETCHED_ROWS, job.limit - len(rows)))
        if not given:
            break
        for row in given:
            if room <= 0:
                return RunResult(job.id, prepared.columns, rows, more=True, truncated=truncated)
            values = [
                portable(value if reader is None or value is None else reader.read(value))
                for value, reader in zip(row, prepared.readers, strict=True)
            ]
            lengths = _cut(values)
            size = sum(map(_size, values))
            if size > _MAX_ROW_BYTES:
                if not rows:
                    raise parsed_query.RefusedQuery(_ROW_TOO_LARGE)
                return RunResult(job.id, prepared.columns, rows, more=True, truncated=truncated)
            room -= size
            if lengths:
                truncated[len(rows)] = lengths
            rows.append(tuple(values))
    more = len(rows) == job.limit and bool(connection.fetchmany(1))
    return RunResult(job.id, prepared.columns, rows, more, truncated)


def _cut(values: list[object]) -> dict[int, int]:
    """Cut texts and bytes that are too long; return their lengths by their places."""
    lengths: dict[int, int] = {}
    for place, value in enumerate(values):
        if isinstance(value, str | bytes) and len(value) > MAX_VALUE_BYTES:
            values[place] = value[:_KEPT_BYTES]
            lengths[place] = len(value)
    return lengths


def _size(value: object) -> int:
    """Return about how many bytes a value has in an answer."""
    if isinstance(value, str | bytes):
        return 16 + len(value)
    return 16 + (len(msgspec.msgpack.encode(value)) if isinstance(value, list | dict) else 0)


if __name__ == "__main__":
    main()
