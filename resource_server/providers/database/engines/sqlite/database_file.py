"""The file of a SQLite database: its identity, its write-ahead log, the URI that opens it."""

# By `os`, not `pathlib`: every statement checks the file, and `pathlib` is several times slower.

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

from resource_server.errors import MountUnavailable

_WAL = b"\x02\x02"
"""Bytes 18 and 19 of a database in WAL mode."""


class FileIdentity(NamedTuple):
    """The device and inode of a file, which differ after it was replaced."""

    device: int
    inode: int
    immutable: tuple[int, int] | None = None
    """Time and size of a file that SQLite can only read as immutable, without noticing changes."""


def schema_state(version: object, identity: FileIdentity) -> object:
    """Return a value that differs for every schema of every file; see `Engine.schema_state`."""
    return version, identity[:2]


class WriteAheadLog:
    """The log beside a database file, or its absence, at the time a connection was opened.

    A connection keeps reading a deleted log and never notices a new one. Its locks prevent that,
    unless something in this process opens and closes the database file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def is_current(self) -> bool:
        """Return whether writers still use this log."""
        if self._descriptor is None:
            return not os.path.exists(self._path)
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

    def identify(self) -> FileIdentity:
        """Return the file's identity before it is opened; never blocks on a FIFO.

        Raises:
            MountUnavailable: the file is missing, or no regular file that can be read.
        """
        status = self._status()
        if not os.access(self.path, os.R_OK, effective_ids=True):
            raise MountUnavailable("the database file may not be read by this process")
        is_read_only = not (self._folder_is_writable() or self.log_exists()) and self._is_wal()
        return FileIdentity(
            status.st_dev,
            status.st_ino,
            (status.st_mtime_ns, status.st_size) if is_read_only else None,
        )

    def is_current(self, identity: FileIdentity) -> bool:
        """Return whether the path still names the same file.

        Raises:
            MountUnavailable: it names no file.
        """
        status = self._status()
        if (status.st_dev, status.st_ino) != identity[:2]:
            return False
        if identity.immutable is None:
            return True
        return identity.immutable == (status.st_mtime_ns, status.st_size) and not self.log_exists()

    def uri(self, identity: FileIdentity) -> str:
        """Return the URI that opens the file read-only; no part of the path can be an option."""
        immutable = "" if identity.immutable is None else "&immutable=1"
        return f"file://{quote(os.fsencode(self.path))}?mode=ro{immutable}"

    def _status(self) -> os.stat_result:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise MountUnavailable("the database file does not exist") from None
        except OSError:
            raise MountUnavailable("the database file cannot be examined") from None
        if stat.S_ISDIR(status.st_mode):
            raise MountUnavailable("the database is a folder; expected a SQLite file")
        if not stat.S_ISREG(status.st_mode):
            raise MountUnavailable("the database is not a regular file")
        return status

    def log(self) -> WriteAheadLog:
        """Return the log beside the file."""
        return WriteAheadLog(f"{self.path}-wal")

    def log_exists(self) -> bool:
        """Return whether there is a log beside the file."""
        return os.path.exists(f"{self.path}-wal")

    def _is_wal(self) -> bool:
        # Closing a descriptor drops the process's POSIX locks on the file; then a writer may delete
        # the log that a connection reads. Here there is no log, and no lock that outlives its
        # statement.
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            raise MountUnavailable("the database file cannot be opened") from None
        try:
            return os.read(descriptor, 100)[18:20] == _WAL
        except OSError:
            raise MountUnavailable("the database file cannot be read") from None
        finally:
            os.close(descriptor)

    def _folder_is_writable(self) -> bool:
        return os.access(os.path.dirname(self.path), os.W_OK, effective_ids=True)
