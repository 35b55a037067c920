"""A folder whose entries are opened beneath its descriptor: from a resource's path to a file.

No name is checked first and opened later. The kernel resolves paths relative to the root's
descriptor (`openat2`, Linux 5.6); elsewhere a walk opens one component after the other, each
relative to its parent. Nothing is opened through a symbolic link, so no name leads outside,
whatever moves meanwhile. Hard links look like any other file.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import stat as modes
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import msgspec

from resource_server import uris
from resource_server.errors import (
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.provider import Path
from resource_server.runtime import openat2

ResolverName: TypeAlias = Literal["openat2", "walk"]

_log = logging.getLogger(__name__)


_PATH = getattr(os, "O_PATH", 0)  # of Linux
# NONBLOCK: opening a FIFO does not wait. NOCTTY: no terminal becomes ours.
_ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = (_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

_BUSY = (
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ETIMEDOUT,
)


_NO_PERMISSION = "cannot be read: this server has no permission for it"


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """The fields of `os.stat` that differ when a file has changed or was replaced."""

    st_ino: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_size: int
    st_dev: int

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Return whether the same file or directory, open all the while, is unchanged."""
        return (
            self.st_ctime_ns == status.st_ctime_ns
            and self.st_mtime_ns == status.st_mtime_ns
            and self.st_size == status.st_size
        )

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether the stamp is that of a status."""
        return (
            self.st_ino == status.st_ino
            and self.st_dev == status.st_dev
            and self.is_unchanged(status)
        )

    def is_same_file(self, other: Stamp) -> bool:
        """Return whether both stamps are of the same file or directory, changed or not."""
        return self.st_ino == other.st_ino and self.st_dev == other.st_dev


Status: TypeAlias = os.stat_result | Stamp


def resource_error(error: OSError) -> ResourceError:
    """Map an error of the operating system to one for clients: absent or busy."""
    if error.errno in _BUSY:
        return ResourceBusy()
    if error.errno == errno.EIO:
        _log.warning("input/output error; is the disk or the network failing?")
    return ResourceNotFound()


class ContainedRoot:
    """A folder that opens files and folders by path, and nothing outside it. Thread-safe.

    Symbolic links are refused. `resolver` forces a resolver; by default it is the kernel's, if
    there is one.

    A root that vanishes is not found, and one that comes back or is replaced is served again: each
    call first checks whether the path still names the open folder.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, resolver: ResolverName | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._resolver = _resolver(resolver)
        self._folder: _RootFolder | None = None

    def check(self) -> None:
        """Check that the root can be served now.

        Raises:
            MountUnavailable: missing, not a folder, or not readable; the text is for the operator.
        """
        # Only its own name: others may read the log, which names the mount as well.
        name = os.path.basename(self.path) or self.path
        try:
            is_folder = modes.S_ISDIR(os.stat(self.path).st_mode)
        except FileNotFoundError:
            raise MountUnavailable(
                f"folder {name!r} does not exist; create it, or correct 'path'"
            ) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise MountUnavailable(f"folder {name!r} cannot be reached: {reason}") from None
        if not is_folder:
            raise MountUnavailable(f"{name!r} is not a folder; 'path' must name a folder")
        try:
            with os.scandir(os.path.join(self.path, ".")):
                pass
        except OSError as error:
            hint = "; give this user permission to read and to search it"
            raise MountUnavailable(
                f"folder {name!r} cannot be listed: {error.strerror}"
                f"{hint if isinstance(error, PermissionError) else ''}"
            ) from None

    def close(self) -> None:
        """Close the descriptor. The next call opens a new one."""
        self._folder = None

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open the path, whatever its type, and return a descriptor, which the caller closes.

        Never waits for a FIFO, but opening a device may have side effects: to read, use
        `open_file` and `open_directory`.

        Raises:
            ResourceNotFound: absent, refused or leading outside, without distinction.
            ResourceBusy: too many open files, or concurrent renames.
        """
        try:
            return self._resolver.open(self._current(), _name(path), flags)
        except OSError as error:
            raise resource_error(error) from None

    def open_listed(self, key: str, flags: int) -> int:
        """Open an entry found by listing this root, by its names joined with `/`.

        Unlike `open`, it does not notice that the root was replaced since the last other call.

        Raises:
            ResourceNotFound, ResourceBusy: as `open`.
        """
        name = key.encode(errors="surrogateescape")
        try:
            return self._resolver.open(self._folder or self._current(), name, flags)
        except OSError as error:
            raise resource_error(error) from None

    def open_file(
        self, path: Path, *, status: os.stat_result | None = None, cached: bool = False
    ) -> tuple[int, os.stat_result]:
        """Open a regular file; return its descriptor, which the caller closes, and its status.

        `status` is a recent result of `stat` for the path: it saves another one, and a check of
        the root. With `cached`, the path is resolved without waiting for a disk or network,
        where the kernel can promise that (Linux 5.12, `openat2`).

        Raises:
            ResourceNotFound: absent, refused, or not a regular file (`stat` detects a folder).
            ResourceUnreadable: this process may not read it.
            ResourceBusy: as in `open`.
            BlockingIOError: only with `cached`: call again in a worker thread, without it.
        """
        name = _name(path)
        try:
            folder = (self._folder if status is not None else None) or self._current()
            # Check before opening, which has side effects on some devices: it starts a watchdog,
            # or resets the device on a serial line.
            if status is None:
                status = self._resolver.stat(folder, name, cached=cached)
            if not modes.S_ISREG(status.st_mode):
                raise ResourceNotFound
            fd = self._resolver.open(folder, name, os.O_RDONLY, cached=cached)
            status = _status(fd)
        except PermissionError:
            raise ResourceUnreadable(_NO_PERMISSION) from None
        except OSError as error:
            if cached and isinstance(error, BlockingIOError):
                raise
            raise resource_error(error) from None
        if not modes.S_ISREG(status.st_mode):
            os.close(fd)
            raise ResourceNotFound
        return fd, status

    def open_directory(self, path: Path) -> tuple[int, os.stat_result]:
        """Open a folder to list it; return its descriptor, which the caller closes, and status.

        Raises:
            NotACollection: a regular file.
            ResourceNotFound: absent, refused, or neither a folder nor a regular file.
            ResourceBusy: as in `open`.
        """
        name = _name(path)
        try:
            folder = self._current()
            try:
                fd = self._resolver.open(folder, name, os.O_RDONLY | os.O_DIRECTORY)
            except NotADirectoryError:
                if modes.S_ISREG(self._resolver.stat(folder, name).st_mode):
                    raise NotACollection from None
                raise
            return fd, _status(fd)
        except OSError as error:
            raise resource_error(error) from None

    def stat(self, path: Path) -> os.stat_result:
        """Return the status at a path, without opening it.

        For a symbolic link, this is the status of the link itself.

        Raises:
            ResourceNotFound, ResourceBusy: as in `open`.
        """
        name = _name(path)
        try:
            return self._resolver.stat(self._current(), name)
        except OSError as error:
            raise resource_error(error) from None

    def _current(self) -> _RootFolder:
        status = os.stat(self.path)
        folder = self._folder
        if folder is None or folder.identity != (status.st_dev, status.st_ino):
            folder = self._folder = _RootFolder(self.path)
        return folder


@functools.lru_cache(maxsize=1024)
def _name(path: Path) -> bytes:
    joined = "/".join(path)
    # `..` may stay beneath the root, but would bypass the rules, which compare paths.
    if not all(map(uris.is_segment, path)):
        raise ResourceNotFound
    try:
        return os.fsencode(joined)
    except UnicodeEncodeError:
        raise ResourceNotFound from None


def _status(fd: int) -> os.stat_result:
    try:
        return os.fstat(fd)
    except OSError:
        os.close(fd)
        raise


class _RootFolder:
    """The open root. Its descriptor is closed when the last call that uses it has returned.

    Closed earlier, the descriptor's number could be reused for another file while another thread
    still opens beneath it.
    """

    __slots__ = ("fd", "identity")

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, _FOLDER)
        status = os.stat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)


def _resolver(resolver: ResolverName | None) -> _KernelResolver | _WalkResolver:
    system_call = openat2.system_call() if resolver != "walk" else None
    if system_call is not None:
        return _KernelResolver(system_call)
    if resolver == "openat2":
        raise NotImplementedError("this system has no openat2, or forbids it")
    return _WalkResolver()


_PATH_MAX = 4096


class _KernelResolver:
    """Resolves with `openat2`: a single system call, during which no link can move.

    A name is made of encoded segments joined by `/`; the empty one is the folder's own.
    """

    _ATTEMPTS = 64
    _RESOLVE = openat2.RESOLVE_BENEATH | openat2.RESOLVE_NO_MAGICLINKS | openat2.RESOLVE_NO_SYMLINKS

    def __init__(self, system_call: openat2.OpenAt2) -> None:
        self._openat2 = system_call
        self._walk = _WalkResolver()

    def open(self, folder: _RootFolder, name: bytes, flags: int, *, cached: bool = False) -> int:
        if len(name) >= _PATH_MAX:
            return self._walk.open(folder, name, flags)
        # Unlike `open`, `openat2` refuses flags that have no meaning with O_PATH.
        flags |= os.O_NOFOLLOW | (os.O_CLOEXEC if flags & _PATH else _ALWAYS)
        resolve = self._RESOLVE | openat2.RESOLVE_CACHED if cached else self._RESOLVE
        how = openat2.HOW.pack(flags, 0, resolve)
        attempts = 1 if cached else self._ATTEMPTS
        while True:
            try:
                return self._openat2(folder.fd, name or b".", how)
            except OSError as error:
                attempts -= 1
                # EAGAIN: something was renamed meanwhile.
                if attempts and error.errno in (errno.EAGAIN, errno.EINTR):
                    continue
                # EINVAL: Linux 5.6 to 5.11 do not know RESOLVE_CACHED.
                if cached and error.errno in (errno.EINVAL, errno.EINTR):
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
                raise

    def stat(self, folder: _RootFolder, name: bytes, *, cached: bool = False) -> os.stat_result:
        fd = self.open(folder, name, _PATH, cached=cached)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)


class _WalkResolver:
    """Resolves by opening one component after the other, as the kernel does in `openat2`."""

    def open(self, folder: _RootFolder, name: bytes, flags: int, *, cached: bool = False) -> int:
        always = os.O_CLOEXEC if flags & _PATH else _ALWAYS
        with self._parent(folder, name) as (parent, last):
            return os.open(last, flags | always | os.O_NOFOLLOW, dir_fd=parent)

    def stat(self, folder: _RootFolder, name: bytes, *, cached: bool = False) -> os.stat_result:
        with self._parent(folder, name) as (parent, last):
            return os.stat(last, dir_fd=parent, follow_symlinks=False)

    @contextmanager
    def _parent(self, folder: _RootFolder, name: bytes) -> Generator[tuple[int, bytes]]:
        """Yield the descriptor of the entry's parent folder, and the name to open in it."""
        *above, last = name.split(b"/")
        parent = folder.fd
        try:
            for segment in above:
                inner = os.open(segment, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
                if parent != folder.fd:
                    os.close(parent)
                parent = inner
            yield parent, last or b"."
        finally:
            if parent != folder.fd:
                os.close(parent)
