"""The file of a SQLite database: its identity, its write-ahead log, the URI that opens it.

A database in WAL mode that nobody writes is read as immutable, so that no log is left beside it:
SQLite makes one for every other reader, and a read-only one cannot remove it. This holds while the
log is missing or empty, before a statement, and the file is the same after it: every commit is in
one of the two. File systems of Linux change the time of a file before its content.
"""

# By `os`, not `pathlib`: every statement checks the file, and `pathlib` is several times slower.

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.causes import unavailable
from resource_server.providers.database.engines.sqlite import causes
from resource_server.runtime.causes import class_names, find
from resource_server.runtime.clock import now_ns
from resource_server.runtime.file_system_kind import FileSystemKind, file_system_kind

_COARSE_NS = 10_000_000
"""Times that are multiples of this are of file systems that keep no finer ones, such as exFAT."""
_SETTLING_S = 0.1
"""Maximum time until a change of a file has another time than the one before."""


def _problem(error: OSError) -> MountUnavailable:
    return unavailable(find(causes.FILE, class_names(error)), "")


class FileIdentity(NamedTuple):
    """The device and inode of a file, which differ after it was replaced."""

    device: int
    inode: int
    immutable: tuple[int, int] | None = None
    """Time of the last change, and size, of a file that is read as immutable."""


def schema_state(version: object, identity: FileIdentity) -> object:
    """Return a value that differs for every schema of every file; see `Engine.schema_state`."""
    return version, identity[:2]


class WriteAheadLog:
    """The log beside a database file, or its absence, at the time a connection was opened.

    A connection keeps reading a deleted log and never notices a new one. Its locks prevent that,
    unless something in this process opens and closes the database file. None is the log of a
    connection that reads none.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor: int | None = None
        if path is not None:
            with suppress(OSError):
                self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def is_current(self) -> bool:
        """Return whether writers still use this log."""
        if self._descriptor is None:
            return self._path is None or not os.path.exists(self._path)
        return os.fstat(self._descriptor).st_nlink > 0

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class DatabaseFile:
    """A database file, by its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._log_path = f"{self.path}-wal"
        self._found_log: bool | None = None
        """Whether there was a log already when the file was opened first."""
        self._keeps_log = False
        """Whether connections of ours keep later logs from being removed."""
        self._is_restless = False
        """Whether somebody wrote during a statement; then it is not read as immutable any more."""
        self._kinds: dict[int, FileSystemKind] = {}

    def identify(self) -> FileIdentity:
        """Return the file's identity before it is opened; never blocks on a FIFO.

        Raises:
            MountUnavailable: the file is missing, or no regular file that can be read.
        """
        status = self._status()
        if not os.access(self.path, os.R_OK, effective_ids=True):
            raise _problem(PermissionError())
        # Beside the target of a link.
        self._log_path = f"{os.path.realpath(self.path)}-wal"
        is_immutable = not self.has_log() and self._may_be_immutable(status) and self._is_wal()
        if self._found_log is None:
            self._found_log = self.has_log()
        self._keeps_log = self._keeps_log or not (is_immutable or self._found_log)
        return FileIdentity(status.st_dev, status.st_ino, _stamp(status) if is_immutable else None)

    def is_current(self, identity: FileIdentity) -> bool:
        """Return whether the path still names the same file, and a statement reads all commits.

        Raises:
            MountUnavailable: it names no file.
        """
        status = self._status()
        if (status.st_dev, status.st_ino) != identity[:2]:
            return False
        if identity.immutable is None:
            return True
        return _stamp(status) == identity.immutable and not self.has_log()

    def is_unchanged(self, identity: FileIdentity) -> bool:
        """Return whether what was read until now is from the state with this identity.

        What others commit is their connections' to keep apart; immutable ones have no such means.
        """
        if identity.immutable is None:
            return True
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        if (status.st_dev, status.st_ino, _stamp(status)) == identity:
            return True
        self._is_restless = True
        return False

    def uri(self, identity: FileIdentity) -> str:
        """Return the URI that opens the file read-only; no part of the path can be an option.

        Waits, for some milliseconds, until no later change of the file can have the same time.
        """
        if identity.immutable is None:
            return self._uri("mode=ro")
        until = time.monotonic() + _SETTLING_S
        while now_ns() <= identity.immutable[0] and time.monotonic() < until:
            time.sleep(0.001)
        return self._uri("mode=ro&immutable=1")

    def _uri(self, options: str) -> str:
        return f"file://{quote(os.fsencode(self.path))}?{options}"

    def _status(self) -> os.stat_result:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise _problem(error) from None
        if stat.S_ISDIR(status.st_mode):
            raise _problem(IsADirectoryError())
        if not stat.S_ISREG(status.st_mode):
            raise _problem(causes.SpecialFileError())
        return status

    def log(self, identity: FileIdentity) -> WriteAheadLog:
        """Return the log that a connection reads."""
        return WriteAheadLog(self._log_path if identity.immutable is None else None)

    def has_log(self) -> bool:
        """Return whether there may be commits in the log."""
        if not os.access(self._log_path, os.F_OK):
            return False
        try:
            return os.stat(self._log_path).st_size > 0
        except OSError:
            return False

    def keeps_log(self) -> bool:
        """Return whether `tidy` has something to do, after all connections were closed."""
        kept = self._keeps_log
        self._keeps_log, self._found_log, self._is_restless = False, None, False
        return kept and os.path.exists(self._log_path)

    def tidy(self) -> None:
        """Have SQLite remove a log that was kept by our connections.

        Whoever closes a database last writes its log into it and removes it; a read-only
        connection cannot, and if it is open then, nobody does. SQLite does nothing here if others
        have the file open, or if this process may not write it.
        """
        places = self.path, os.path.dirname(self._log_path)
        is_rolled_back = os.path.exists(f"{self._log_path.removesuffix('-wal')}-journal")
        if is_rolled_back or not all(
            os.access(place, os.W_OK, effective_ids=True) for place in places
        ):
            return
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(self._uri("mode=rw"), uri=True, timeout=0)) as last,
        ):
            last.execute("PRAGMA schema_version").close()

    def _may_be_immutable(self, status: os.stat_result) -> bool:
        folder = os.path.dirname(self._log_path)
        if not os.access(folder, os.W_OK, effective_ids=True):
            return True  # no other way to read it
        if sys.platform != "linux" or self._is_restless:
            return False
        kind = self._kinds.get(status.st_dev)
        if kind is None:
            kind = self._kinds[status.st_dev] = file_system_kind(folder)
        return (
            kind == "local"
            and status.st_ctime_ns % _COARSE_NS != 0
            and status.st_ctime_ns <= now_ns() + _SETTLING_S * 1e9
        )

    def _is_wal(self) -> bool:
        # By SQLite: closing another descriptor of the file would drop this process's locks on it.
        # Without locks, it opens any file but one in WAL mode.
        try:
            with closing(sqlite3.connect(self._uri("mode=ro&nolock=1"), uri=True)) as probe:
                probe.execute("PRAGMA schema_version").close()
        except sqlite3.Error as error:
            return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN
        return False


def _stamp(status: os.stat_result) -> tuple[int, int]:
    # Unlike the time of modification, this one cannot be set.
    return status.st_ctime_ns, status.st_size
