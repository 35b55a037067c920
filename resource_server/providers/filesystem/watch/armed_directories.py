"""Directories of one tree that have watches, within the limit of the system.

A directory is watched first and read then, so whatever appears in between is found by one of the
two.
"""

from __future__ import annotations

import errno
import logging
import os
import stat as modes
from collections.abc import Collection, Mapping
from typing import NamedTuple

from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.directory import Directory, DirectoryListing, Stamp, stamp
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.demand import Demand, prefix_path
from resource_server.providers.filesystem.watch.event_sources import EventSource
from resource_server.runtime.file_system_kind import FileSystemKinds

logger = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class OpenedDirectory(NamedTuple):
    """A directory as read after its watch was added."""

    directory: Directory
    listing: DirectoryListing
    is_settled: bool
    """False if its rules changed meanwhile, so that it has to be read again."""


class ArmedDirectories:
    """Adds and removes watches. Subscribed directories take precedence over all others."""

    def __init__(self, tree: FileTree, source: EventSource | None, demand: Demand) -> None:
        self._tree = tree
        self._source = source
        self._kinds = FileSystemKinds(tree.root.path)
        self._demand = demand
        self._files: dict[str, Collection[str]] = {}
        """Files that have watches of their own, by directory prefix."""
        self.given_up: set[str] = set()
        """Directories that lost their watches to others; cleared by the caller."""
        self._has_warned = False

    def __contains__(self, prefix: str) -> bool:
        return prefix in self._files

    @property
    def has_source(self) -> bool:
        """Whether there are any events at all."""
        return self._source is not None

    def open(self, prefix: str, parent: Directory | None, *, arm: bool) -> OpenedDirectory:
        """Read a directory; with `arm`, watch it first if possible.

        `parent` is the directory above it, if that is known.

        Raises:
            ResourceNotFound, NotACollection: absent, not exposed, or on a pseudo file system.
            ResourceBusy: too many open files.
        """
        path = prefix_path(prefix)
        root = self._tree.root
        fd = root.open(path, _FOLDER) if parent is None else root.open_listed(prefix[:-1], _FOLDER)
        try:
            status = os.fstat(fd)
            kind = self._kinds.kind(prefix, status.st_dev)
            if kind == "pseudo" and not self._demand.needs(prefix):
                raise ResourceNotFound
            if arm and kind == "local":
                self._arm(prefix, fd)
            # Changes between `status` and the watch are included in what is read now.
            directory, listing = self._read(path, parent, status, fd)
        finally:
            os.close(fd)
        found = {name: seen for name, seen in directory.ignore_stamps.items() if seen}
        described = self._tree.description(directory, listing)
        if described is not None and self._tree.described_by is not None:
            found[self._tree.described_by] = described
        if not found and not self._files.get(prefix):
            return OpenedDirectory(directory, listing, is_settled=True)
        return OpenedDirectory(directory, listing, self._arm_files(prefix, found))

    def exists(self, prefix: str) -> bool:
        """Return whether there is a directory that could be watched if it could be opened."""
        try:
            status = self._tree.directories.status(prefix[:-1])
        except ResourceError:
            return False
        is_directory = modes.S_ISDIR(status.st_mode)
        return is_directory and self._kinds.kind(prefix, status.st_dev) != "pseudo"

    def _read(
        self, path: Path, parent: Directory | None, status: os.stat_result, fd: int
    ) -> tuple[Directory, DirectoryListing]:
        if parent is not None:
            return self._tree.directories.read(parent, path[-1], status, fd)
        directory = self._tree.directory(path)
        if directory is None:
            raise ResourceNotFound
        return directory, self._tree.directories.listing(directory, fd)

    def _arm(self, prefix: str, fd: int) -> None:
        """Watch a directory if possible; a subscribed one may take the watch of another."""
        while self._source is not None:
            try:
                self._source.add(prefix, fd, content=self._demand.needs_content(prefix))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    break
                self._warn_full()
                other = self._make_room() if self._demand.needs(prefix) else None
                if other is None:
                    break
                self.given_up.add(other)
            else:
                self._files.setdefault(prefix, ())
                break

    def _arm_files(self, prefix: str, files: Mapping[str, Stamp]) -> bool:
        """Watch single files of a directory, which may be written in place.

        Returns whether each still has the given stamp.
        """
        if self._source is None or prefix not in self._files:
            return True
        for name in self._files[prefix]:
            if name not in files:
                self._source.remove(prefix, name)
        self._files[prefix] = tuple(files)
        is_same = True
        for name in files:
            try:
                fd, _ = self._tree.root.open_file(tuple((prefix + name).split("/")))
            except ResourceError:
                continue
            try:
                self._source.add_file(prefix, name, fd)
                is_same = is_same and stamp(os.fstat(fd)) == files[name]
            except OSError:
                self._warn_full()
            finally:
                os.close(fd)
        return is_same

    def disarm(self, prefix: str) -> None:
        """Stop watching a directory and its files."""
        names = self._files.pop(prefix, None)
        if names is not None and self._source is not None:
            for name in ("", *names):
                self._source.remove(prefix, name)

    def _make_room(self) -> str | None:
        """Remove the watch of a directory without subscribers; return its prefix."""
        for prefix in self._files:
            if not self._demand.needs(prefix):
                self.disarm(prefix)
                return prefix
        return None

    def _warn_full(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the limit of file watches is reached: other directories are polled instead; "
                "raise it with: sysctl fs.inotify.max_user_watches=1048576"
            )
