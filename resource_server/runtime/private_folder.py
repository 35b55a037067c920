"""Folders of caches, which only their owner may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def private_folder(folder: Path) -> Generator[int]:
    """Return a descriptor of a folder, which is made if it does not exist.

    Raises:
        OSError: it cannot be made, or others may write to it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(error.errno, "it is no folder") from None
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(0, "others may write to the folder")
        yield fd
    finally:
        os.close(fd)


def folder_problem(folder: Path) -> str | None:
    """Return why nothing can be kept in a folder, if it exists; None if something can."""
    try:
        if os.path.lexists(folder):
            with private_folder(folder) as at:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=at):
                    return "it cannot be written to"
    except OSError as error:
        return error.strerror
    return None
