"""A directory on the way of a walk, and how much one page may read on the event loop."""

from __future__ import annotations

import os

from resource_server.provider import Path
from resource_server.providers.filesystem.directory import Directory, Listing

_UNREAD_BYTES = 64 * 1024
"""Of directories, by their own size, that may be read on the event loop for one page: on ext4
about 1,500 names. What is known already costs nothing."""
_BLOCK_BYTES = 4096


class Frame:
    """A directory on the way of a walk, and how far its names are used."""

    __slots__ = ("at", "directory", "fd", "listing", "path")

    def __init__(self, path: Path, directory: Directory, fd: int, listing: Listing) -> None:
        self.path = path
        self.directory = directory
        self.fd = fd
        """Negative once it is closed."""
        self.listing = listing
        self.at = 0

    def close(self) -> None:
        """Give up the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Allowance:
    """What may be read on the event loop for one page."""

    def __init__(self, *, patient: bool) -> None:
        self._left = None if patient else _UNREAD_BYTES

    def take(self, directory: Directory) -> None:
        """Count a directory that is to be read.

        Raises:
            BlockingIOError: that would be too much; do it all in a worker thread.
        """
        if self._left is not None and directory.listing is None:
            self._left -= max(directory.stamp.st_size, _BLOCK_BYTES)
            if self._left < 0:
                raise BlockingIOError
