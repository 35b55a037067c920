"""A SQLite database as a file: which one it is now, and whether it can be opened at all."""

# The file is looked at with every statement, and `pathlib` takes several times as long.

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

from resource_server.errors import MountUnavailable

_WAL = b"\x02\x02"
"""Bytes 18 and 19 of a database that is written by way of a log beside it."""


class Identity(NamedTuple):
    """Which file a path names; another one after it was replaced."""

    device: int
    inode: int
    immutable: tuple[int, int] | None = None
    """Time and size of a file that is read without looking for changes, since it cannot be else."""


class Log:
    """The log beside a database file, or that there is none, as when a connection was opened.

    A connection goes on to read a log that was deleted, and never learns of another. Its locks keep
    others from that, unless somebody in this process opens the file and closes it again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def is_still(self) -> bool:
        """Return whether it is the one that writers use."""
        if self._descriptor is None:
            return not os.path.exists(self._path)
        return os.fstat(self._descriptor).st_nlink > 0

    def close(self) -> None:
        """Look at it no longer."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class DatabaseFile:
    """The file of a database, by its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(path)

    def identify(self) -> Identity:
        """Look at the file before it is opened; never blocks on a FIFO.

        Raises:
            MountUnavailable: it is not there, or nothing that could be a database.
        """
        status = self._status()
        if not os.access(self._path, os.R_OK, effective_ids=True):
            raise MountUnavailable("the database file may not be read by this process")
        only_readable = not (self._folder_is_writable() or self.log_exists()) and self._is_wal()
        return Identity(
            status.st_dev,
            status.st_ino,
            (status.st_mtime_ns, status.st_size) if only_readable else None,
        )

    def is_still(self, identity: Identity) -> bool:
        """Return whether the path names the same file as when it was identified.

        Raises:
            MountUnavailable: it names none.
        """
        status = self._status()
        if (status.st_dev, status.st_ino) != identity[:2]:
            return False
        if identity.immutable is None:
            return True
        return identity.immutable == (status.st_mtime_ns, status.st_size) and not self.log_exists()

    def uri(self, identity: Identity) -> str:
        """Return the URI that opens it for reading; nothing of the path is taken for an option."""
        immutable = "" if identity.immutable is None else "&immutable=1"
        return f"file://{quote(os.fsencode(self._path))}?mode=ro{immutable}"

    def _status(self) -> os.stat_result:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            raise MountUnavailable("the database file does not exist") from None
        except OSError:
            raise MountUnavailable("the database file cannot be looked at") from None
        if stat.S_ISDIR(status.st_mode):
            raise MountUnavailable("the database is a folder; expected a SQLite file")
        if not stat.S_ISREG(status.st_mode):
            raise MountUnavailable("the database is not a regular file")
        return status

    def log(self) -> Log:
        """Return the log beside the file as it is now."""
        return Log(f"{self._path}-wal")

    def log_exists(self) -> bool:
        """Return whether there is a log beside the file."""
        return os.path.exists(f"{self._path}-wal")

    def _is_wal(self) -> bool:
        # To close a file that SQLite has open drops its locks, and who writes then deletes the log
        # under it. Here there is no log, and no lock that lasts.
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            raise MountUnavailable("the database file cannot be opened") from None
        try:
            return os.read(descriptor, 100)[18:20] == _WAL
        except OSError:
            raise MountUnavailable("the database file cannot be read") from None
        finally:
            os.close(descriptor)

    def _folder_is_writable(self) -> bool:
        return os.access(os.path.dirname(self._path), os.W_OK, effective_ids=True)
