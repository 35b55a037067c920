"""The file of a search index: documents by version, and their trigrams in SQLite's FTS5.

It is private to its owner, complete at every moment, and shared by processes: all read it, and the
one that holds its lock writes to it. A document that changes gets a new number; the trigrams of the
old one remain, harmless, until the index is rebuilt.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import stat
import unicodedata
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from resource_server import __version__
from resource_server.runtime.private_folder import folder_problem, private_folder
from resource_server.search.trigrams import Trigrams
from resource_server.uris import is_unicode

SUFFIX: Final = ".mcp-search"
"""Ending of its file; those that SQLite keeps beside it have longer names. No root serves them."""
LETTERS, ASCII, ALWAYS = range(3)
"""What is known of a document: its text, its ASCII characters, or that any search looks into it."""

_FORMAT: Final = (
    zlib.crc32(repr((2, __version__, unicodedata.unidata_version, sqlite3.sqlite_version)).encode())
    >> 1
)
"""Differs between programs that read text, fold letters or split them in other ways."""
_SCHEMA = """
DROP TABLE IF EXISTS trigrams;
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS directories;
DROP TABLE IF EXISTS facts;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE directories (id INTEGER PRIMARY KEY, prefix TEXT NOT NULL UNIQUE);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    directory INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    known INTEGER NOT NULL,
    UNIQUE (directory, name)
);
CREATE INDEX little_known ON documents (known) WHERE known > 0;
CREATE VIRTUAL TABLE trigrams
    USING fts5(text, content='', columnsize=0, detail='none', tokenize='trigram');
"""
_BUSY_MS = 2_000
_MAX_IDLE = 4
_MAX_WASTE, _WASTE_SHARE = 1_000, 2
"""Unused numbers before an index is rebuilt, and their multiple of the used ones."""


class IndexedDocument(NamedTuple):
    """A document as the index holds it."""

    prefix: str
    name: str
    version: int
    known: int
    text: str


class IndexSnapshot:
    """The index at one moment."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        ((format,),) = connection.execute("PRAGMA user_version").fetchall()
        if format != _FORMAT:
            raise sqlite3.DatabaseError("its file is not made yet, or by another version")
        rows = connection.execute("SELECT value FROM facts WHERE name = 'generation'").fetchall()
        self.generation = str(rows)
        """Differs after the index was rebuilt."""

    def versions(self, prefix: str) -> Mapping[str, int]:
        """Return the versions of the indexed documents of a directory, by name."""
        if not is_unicode(prefix):
            return {}
        rows = self._connection.execute(
            "SELECT name, version FROM documents"
            " WHERE directory = (SELECT id FROM directories WHERE prefix = ?)",
            (prefix,),
        )
        return dict(rows.fetchall())

    def candidates(self, trigrams: Trigrams) -> Mapping[str, set[str]]:
        """Return the indexed documents that may match, by directory."""
        rows = self._connection.execute(
            "SELECT prefix, name FROM documents JOIN directories"
            " ON directories.id = documents.directory WHERE documents.id IN"
            " (SELECT rowid FROM trigrams WHERE trigrams MATCH ?"
            " UNION ALL SELECT id FROM documents WHERE known > 0 AND known >= ?)",
            (trigrams.expression(), ALWAYS if trigrams.is_ascii else ASCII),
        )
        found: dict[str, set[str]] = {}
        for prefix, name in rows:
            names = found.get(prefix)
            if names is None:
                found[prefix] = {str(name)}  # anything, if the file is damaged
            else:
                names.add(str(name))
        return found

    def count(self) -> int:
        """Return the number of documents."""
        ((count,),) = self._connection.execute("SELECT count(*) FROM documents").fetchall()
        return int(count)


class IndexStore:
    """The file of one index. Any thread may call any method, one of them those of writers.

    Methods raise `sqlite3.Error` if the file is damaged or not accessible, and `OSError` if the
    folder is no place for it.
    """

    def __init__(self, folder: Path, root: str, rules: str, *, max_bytes: int) -> None:
        digest = hashlib.blake2b(os.fsencode(os.path.realpath(root)), digest_size=16)
        self._folder = folder
        self._path = folder / (digest.hexdigest() + SUFFIX)
        self._rules = rules
        self._max_bytes = max_bytes
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._inode: int | None = None
        self._written_inode: int | None = None
        self._is_closed = False

    # -- the file

    def lock(self) -> bool:
        """Become the writer, unless another process is; return whether this one is."""
        if self._lock is not None:
            if self._holds_lock():
                return True
            os.close(self._lock)
            self._lock = None
        with private_folder(self._folder) as at:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self._path.name + "-lock", flags, 0o600, dir_fd=at)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._lock = fd
        return self._holds_lock()

    def _holds_lock(self) -> bool:
        """Return whether the lock is that which other processes find."""
        if self._lock is None:
            return False
        try:
            status = os.stat(f"{self._path}-lock", follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(status, os.fstat(self._lock))

    def problem(self) -> str | None:
        """Return why no index can be kept in the folder, or None."""
        try:
            if self.is_there():
                self._connect(read_only=True).close()
        except (OSError, sqlite3.Error) as error:
            return getattr(error, "strerror", None) or str(error)
        return folder_problem(self._folder)

    def prepare(self) -> None:
        """Make an empty index if there is none, or one of another format or other rules."""
        with private_folder(self._folder) as at:
            self._create(at)
        if not self._is_usable():
            self.remove()
            with private_folder(self._folder) as at:
                self._create(at)
            self.make_anew()

    def _create(self, at: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # One that exists is not opened: to close it would release the locks of SQLite.
        with suppress(FileExistsError):
            os.close(os.open(self._path.name, flags, 0o600, dir_fd=at))

    def is_readable(self) -> bool:
        """Return whether there is an index, which another process may have to make."""
        try:
            if self.is_there():
                with self.snapshot():
                    return True
        except sqlite3.Error:
            pass
        self.disconnect()  # the writer may replace the file
        return False

    def _is_usable(self) -> bool:
        try:
            connection = self._written()
            ((format,),) = connection.execute("PRAGMA user_version").fetchall()
            ((sound,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
            connection.execute("SELECT 1 FROM documents, directories, trigrams LIMIT 0")
        except sqlite3.DatabaseError:
            return False
        return format == _FORMAT and sound == "ok" and facts.get("rules") == self._rules

    def make_anew(self) -> None:
        """Empty the index."""
        connection = self._written()
        with _transaction(connection):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            facts = (("generation", os.urandom(8).hex()), ("rules", self._rules))
            connection.executemany("INSERT INTO facts VALUES (?, ?)", facts)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def remove(self) -> None:
        """Delete the file, and those that SQLite keeps beside it."""
        self.disconnect()
        with suppress(FileNotFoundError), private_folder(self._folder) as at:
            for ending in ("-wal", "-shm", "-journal", ""):
                with suppress(FileNotFoundError):
                    os.unlink(self._path.name + ending, dir_fd=at)

    def is_there(self) -> bool:
        """Return whether there is a file, that to which the connections are."""
        if self._lock is not None and not self._holds_lock():
            return False
        try:
            status = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        return {self._inode, self._written_inode} <= {None, status.st_ino}

    def close(self) -> None:
        """Close the file, and let another process write to it."""
        self._is_closed = True
        self.disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def disconnect(self) -> None:
        """Close the connections to the file; the next one may be to another file."""
        self._inode = self._written_inode = None
        while self._idle:
            self._idle.pop().close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def size(self) -> int:
        """Return its bytes on disk."""
        found = 0
        for ending in ("", "-wal"):
            with suppress(OSError):
                found += os.stat(f"{self._path}{ending}").st_size
        return found

    # -- readers

    @contextmanager
    def snapshot(self) -> Generator[IndexSnapshot]:
        """Return the index as it is now."""
        connection = self._reader()
        is_sound = False
        try:
            connection.execute("BEGIN")
            yield IndexSnapshot(connection)
            with suppress(sqlite3.Error):  # after some failures, the transaction has ended
                connection.execute("ROLLBACK")
                is_sound = True
        finally:
            if is_sound and len(self._idle) < _MAX_IDLE and not self._is_closed:
                self._idle.append(connection)
            else:
                connection.close()

    def _reader(self) -> sqlite3.Connection:
        with suppress(IndexError):  # another thread took the last one
            while self._idle:
                connection = self._idle.pop()
                if self.is_there():
                    return connection
                connection.close()  # it is to a file that was deleted
        return self._connect(read_only=True)

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        with private_folder(self._folder) as at:
            status = os.stat(self._path.name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(0, "the search index is not a file of this user")
        self._inode = status.st_ino
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        found = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        found.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if read_only:
            found.execute("PRAGMA query_only = 1")
        return found

    # -- the writer

    def _written(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect(read_only=False)
            self._written_inode = self._inode
            self._writer.execute("PRAGMA journal_mode = wal")
            self._writer.execute("PRAGMA synchronous = normal")
        return self._writer

    @property
    def is_full(self) -> bool:
        """Whether nothing more is added."""
        return self.size() >= self._max_bytes

    def write(self, documents: Sequence[IndexedDocument]) -> None:
        """Add documents, or replace them."""
        if not self.is_there():
            raise FileNotFoundError(0, "its file is gone")  # and another process may be the writer
        connection = self._written()
        prefixes = [(prefix,) for prefix in {document.prefix for document in documents}]
        with _transaction(connection):
            first = self._last_number(connection) + 1
            connection.executemany(
                "INSERT OR IGNORE INTO directories (prefix) VALUES (?)", prefixes
            )
            connection.executemany(
                "INSERT OR REPLACE INTO documents (id, directory, name, version, known)"
                " VALUES (?, (SELECT id FROM directories WHERE prefix = ?), ?, ?, ?)",
                [(first + at, *document[:4]) for at, document in enumerate(documents)],
            )
            connection.executemany(
                "INSERT INTO trigrams (rowid, text) VALUES (?, ?)",
                [
                    (first + at, document.text)
                    for at, document in enumerate(documents)
                    if document.known != ALWAYS
                ],
            )

    @staticmethod
    def _last_number(connection: sqlite3.Connection) -> int:
        """Return the last number that a document got; none is given twice."""
        rows = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
        return int(next(rows, (0,))[0])

    def forget(self, prefix: str, names: Iterable[str]) -> None:
        """Remove documents of a directory that are gone."""
        connection = self._written()
        with _transaction(connection):
            connection.executemany(
                "DELETE FROM documents WHERE name = ?"
                " AND directory = (SELECT id FROM directories WHERE prefix = ?)",
                [(name, prefix) for name in names],
            )

    def forget_directories(self, kept: set[str]) -> None:
        """Remove the documents of all directories but some."""
        connection = self._written()
        rows = connection.execute("SELECT id, prefix FROM directories").fetchall()
        gone = [(id,) for id, prefix in rows if prefix not in kept]
        with _transaction(connection):
            connection.executemany("DELETE FROM documents WHERE directory = ?", gone)
            connection.executemany("DELETE FROM directories WHERE id = ?", gone)

    def is_wasteful(self) -> bool:
        """Return whether most of the index is of documents that were replaced."""
        connection = self._written()
        ((count,),) = connection.execute("SELECT count(*) FROM documents").fetchall()
        last = self._last_number(connection)
        return bool(last - count > _MAX_WASTE + _WASTE_SHARE * count)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_damage(error: Exception) -> bool:
    """Return whether an error is one of a damaged file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what extends it
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
