"""A folder that can only be opened beneath: the one way from a resource's path to a descriptor.

Nothing is checked by name and then opened. The kernel resolves the path relative to the root's
descriptor (`openat2`, Linux 5.6), or a walk opens one component after the other, each relative to
the one before and none through a symbolic link that it has not read itself. A name that leads
outside does not open, whatever moves meanwhile. Hard links cannot be told apart from other files.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import logging
import os
import stat as modes
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from resource_server.errors import (
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
)
from resource_server.provider import Path

__all__ = ["Resolver", "Root", "is_unsafe_on_windows", "refusal"]

Resolver: TypeAlias = Literal["openat2", "walk"]

_log = logging.getLogger(__name__)

# What a platform lacks is 0: it has nothing to ask for. Windows has none of them.
_O_PATH = getattr(os, "O_PATH", 0)
_O_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_O_ALWAYS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_O_ALWAYS_WITH_PATH = getattr(os, "O_CLOEXEC", 0)
"""`openat2` refuses `O_PATH` together with anything but this, `O_DIRECTORY` and `O_NOFOLLOW`."""

_NEVER_SEGMENTS = frozenset(("", ".", ".."))
_MAX_LINKS = 40
_PATH_MAX = 4096

_ABSENT = frozenset(
    (
        errno.EACCES,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EPERM,
        errno.ESTALE,
        errno.EXDEV,
    )
)
_BUSY = frozenset(
    (
        errno.EAGAIN,
        errno.EBUSY,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ETIMEDOUT,
    )
)


def refusal(error: OSError) -> ResourceError:
    """Return what a client is told of an error of the operating system: absent, or busy."""
    if error.errno in _BUSY:
        return ResourceBusy()
    if error.errno not in _ABSENT:
        _log.warning("unexpected %s", errno.errorcode.get(error.errno or 0, "error without number"))
    return ResourceNotFound()


class _Folder:
    """The root's descriptor. It is closed when the last of those who use it lets go of it:

    closed by hand while another thread is about to open beneath it, its number could meanwhile
    mean another folder.
    """

    __slots__ = ("fd", "identity")

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, (_O_PATH or os.O_RDONLY) | _O_DIRECTORY | _O_ALWAYS_WITH_PATH)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def __del__(self) -> None:
        fd = getattr(self, "fd", None)
        if fd is not None:
            os.close(fd)


class Root:
    """A folder whose files and folders are opened by path, and nothing outside it.

    Symbolic links are refused, or with `follow_symlinks` followed as long as they stay beneath the
    root and are relative. `resolver` forces one way of resolving; by default the kernel's where it
    offers one. Any thread may call any method.

    A root that vanishes is not found, and one that comes back or is replaced is served again:
    each call looks whether the path still names the folder that is open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        follow_symlinks: bool = False,
        resolver: Resolver | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.follow_symlinks = follow_symlinks

    def check(self) -> None:
        """Make sure that the root can be served now.

        Raises:
            MountUnavailable: missing, not a folder, or not readable; for the operator.
        """

    def close(self) -> None:
        """Give up the descriptor. The next call takes a new one."""

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open what the path names and return a descriptor, which the caller closes. Never blocks.

        Whatever it names is opened: a FIFO and, with its side effects, a device too. `open_file`
        and `open_directory` are for reading.

        Raises:
            ResourceNotFound: absent, refused or leading outside: not told apart.
            ResourceBusy: too many open files, or a name that does not stop moving.
        """
        raise ResourceNotFound

    def open_file(self, path: Path, *, cached: bool = False) -> tuple[int, os.stat_result]:
        """Open a regular file for reading; return its descriptor, which the caller closes, and status.

        With `cached` it never waits for a disk or a network, where the kernel can promise that.

        Raises:
            ResourceNotFound: absent, refused, or not a regular file (`stat` tells a folder).
            ResourceBusy: as in `open`.
            BlockingIOError: only with `cached`: to be called again in a thread, without it.
        """
        raise ResourceNotFound

    def open_directory(self, path: Path) -> tuple[int, os.stat_result]:
        """Open a folder for listing; return its descriptor, which the caller closes, and status.

        Raises:
            NotACollection: a regular file.
            ResourceNotFound: absent, refused, or neither a folder nor a regular file.
            ResourceBusy: as in `open`.
        """
        raise ResourceNotFound

    def stat(self, path: Path) -> os.stat_result:
        """Return the status of what the path names, without opening it.

        A last symbolic link is described itself, unless links are followed.

        Raises:
            ResourceNotFound, ResourceBusy: as in `open`.
        """
        raise ResourceNotFound


def is_unsafe_on_windows(segment: str) -> bool:
    """Say whether Windows may take this name for something other than the file so called."""
    return False
