"""The file of the record: opened safely, locked, continued after a crash, rotated by size."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from resource_server.audit import chain
from resource_server.audit.entry import AuditEvent, moment

MAX_FILES: Final = 64
"""Processes that may write beside each other, each to a file of its own."""
LOCK_SUFFIX: Final = ".lock"
_TAIL_BYTES: Final = 4 * 1024 * 1024
"""Bytes at the end of a file that are looked at when it is opened."""
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE: Final = 0o022


class UnusableFile(OSError):
    """Nothing can be recorded in a file. The message has the reason, and not the path."""


class AuditFile:
    """The file that this process alone writes to.

    The first process takes the name as it is given, a second one `audit.2.jsonl` and so on: two
    hosts may start the same server, and a server may have several workers.

    Raises:
        UnusableFile: no file can be opened; from the constructor.
    """

    def __init__(self, path: Path, *, rotate: int, keep: int) -> None:
        self._rotate_bytes = rotate
        self._keep = keep
        self._fd = -1
        self._size = 0
        self._identity = (0, 0)
        self._is_torn = False
        """Whether a line could be written neither to its end nor removed."""
        self.problem: str | None = None
        """Why it is not rotated."""
        try:
            self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnusableFile(f"its folder cannot be opened: {_reason(error)}") from None
        self._lock = -1
        try:
            self.name = self._take(path.name)
            self._open()
            self.tail: Sequence[bytes] = self._last_lines()
            """The last lines of the record, oldest first."""
        except BaseException:
            self.close()
            raise
        self.last = chain.digest(self.tail[-1]) if self.tail else chain.FIRST
        """Hash of the last line."""

    def _take(self, name: str) -> str:
        """Lock the first free name, and return it."""
        for each in names_of(name):
            fd = self._open_regular(each + LOCK_SUFFIX)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            except OSError as error:
                os.close(fd)
                raise UnusableFile(f"cannot be locked: {_reason(error)}") from None
            self._lock = fd
            return each
        raise UnusableFile(f"{MAX_FILES} processes write to such a file already")

    def _open_regular(self, name: str) -> int:
        """Return a descriptor of a file that is made if it does not exist, for its owner alone."""
        try:
            fd = os.open(name, _FLAGS | os.O_CREAT, 0o600, dir_fd=self._folder)
        except OSError as error:
            reason = "is a symbolic link" if self._is_link(name) else _reason(error)
            raise UnusableFile(f"{name} cannot be written: {reason}") from None
        status = os.fstat(fd)
        problem = None
        if not stat.S_ISREG(status.st_mode):
            problem = "is no regular file"
        elif status.st_mode & _OTHERS_WRITE:
            problem = "may be written by others; remove their permission"
        if problem is not None:
            os.close(fd)
            raise UnusableFile(f"{name} {problem}")
        return fd

    def _is_link(self, name: str) -> bool:
        try:
            return stat.S_ISLNK(os.lstat(name, dir_fd=self._folder).st_mode)
        except OSError:
            return False

    def _open(self) -> None:
        fd = self._open_regular(self.name)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        status = os.fstat(fd)
        self._identity, self._size = (status.st_dev, status.st_ino), status.st_size

    # -- its end

    def _last_lines(self) -> Sequence[bytes]:
        """Return the last whole lines, of the file before if this one has none.

        Ends a line that was not written to its end.

        Raises:
            UnusableFile: the file is no record.
        """
        *whole, rest = self._tail_of(self._fd)
        if rest and chain.link_of(rest) is not None:
            whole.append(rest)  # only its line end is missing
        elif rest:
            self._is_torn = True
        is_own = chain.link_of(whole[-1]) is not None if whole else rest[:9] in (b"", b'{"time":"')
        if not is_own:
            raise UnusableFile(f"{self.name} is no record of this server; name a new file")
        if rest and not self._is_torn:
            self._write(b"\n")
        return whole or self._lines_before()

    def _tail_of(self, fd: int) -> list[bytes]:
        """Return the lines at the end of a file, then what follows its last line end."""
        size = os.fstat(fd).st_size
        data = os.pread(fd, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        lines = data.split(b"\n")
        return lines[1:] if size > _TAIL_BYTES and len(lines) > 1 else lines

    def _lines_before(self) -> Sequence[bytes]:
        """Return the last lines of the file that was rotated last; none without one."""
        try:
            fd = os.open(f"{self.name}.1", _FLAGS, dir_fd=self._folder)
        except OSError:
            return ()
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ()
            return [line for line in self._tail_of(fd)[:-1] if chain.link_of(line) is not None]
        finally:
            os.close(fd)

    # -- writing

    def look(self) -> AuditEvent | None:
        """Return what has happened to the file since the last write; opens it anew if it is gone.

        Raises:
            OSError: it is gone, and no other can be opened.
        """
        now = moment(time.time())
        if self._is_torn:
            size = os.fstat(self._fd).st_size
            fragment = len(self._tail_of(self._fd)[-1])
            self._size = size
            self._write(b"\n")
            self._is_torn = False
            return AuditEvent(time=now, event="torn", bytes=fragment)
        try:
            status = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            self._open()
            self._end_line()
            return AuditEvent(time=now, event="moved")
        more = status.st_size - self._size
        if not more:
            return None
        self._size = status.st_size
        self._end_line()
        return AuditEvent(time=now, event="foreign" if more > 0 else "cut", bytes=abs(more))

    def _end_line(self) -> None:
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._write(b"\n")

    def write(self, lines: bytes) -> None:
        """Append lines, to a new file if this one would become too large.

        Raises:
            OSError: no line is written.
        """
        if self._size and self._size + len(lines) > self._rotate_bytes:
            self._rotate()
        self._write(lines)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            if len(left) < len(data):
                self._undo()
            raise
        self._size += len(data)

    def _undo(self) -> None:
        """Remove a line that was not written to its end."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._is_torn = True

    def _rotate(self) -> None:
        """Rename the files, the oldest out, and begin a new one; if that fails, go on in this."""
        try:
            os.fsync(self._fd)
            for number in range(self._keep, 0, -1):
                before = f"{self.name}.{number - 1}" if number > 1 else self.name
                try:
                    os.rename(
                        before,
                        f"{self.name}.{number}",
                        src_dir_fd=self._folder,
                        dst_dir_fd=self._folder,
                    )
                except FileNotFoundError:
                    continue
            self._open()
            self.problem = None
        except OSError as error:
            self.problem = _reason(error)

    def close(self) -> None:
        """Close the file, and leave its name to another process."""
        for fd in (self._fd, self._lock, self._folder):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock = self._folder = -1


def names_of(name: str) -> Sequence[str]:
    """Return the names under which processes write beside each other."""
    path = Path(name)
    return [name, *(f"{path.stem}.{each}{path.suffix}" for each in range(2, MAX_FILES + 1))]


def place_problem(path: Path) -> str | None:
    """Return why nothing could be recorded in a file, or None, without making or writing it."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            return "its folder does not exist"
        return None if os.access(path.parent, os.W_OK | os.X_OK) else "its folder is not writable"
    except OSError as error:
        return f"cannot be looked at: {_reason(error)}"
    if not stat.S_ISREG(status.st_mode):
        return f"{path.name} is no regular file"
    if status.st_mode & _OTHERS_WRITE:
        return f"{path.name} may be written by others; remove their permission"
    return None if os.access(path, os.R_OK | os.W_OK) else f"{path.name} is not writable"


def unusable(error: OSError) -> str:
    """Return why nothing can be recorded, for the manifest's author."""
    reason = _reason(error)
    return reason if isinstance(error, UnusableFile) else f"cannot be written: {reason}"


def _reason(error: OSError) -> str:
    if isinstance(error, UnusableFile):
        return str(error)
    return (error.strerror or "input or output failed").lower()
