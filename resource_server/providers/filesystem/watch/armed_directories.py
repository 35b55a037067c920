"""The directories of one tree that a source tells of, as many as the system allows.

A directory is watched first and read then, so what comes into it in between is found by one or the
other.
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
from resource_server.providers.filesystem.directory import Directory, Listing, Stamp, stamp
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.demand import Demand, prefix_path
from resource_server.providers.filesystem.watch.event_sources import EventSource
from resource_server.providers.filesystem.watch.file_system_kind import FileSystemKinds

logger = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class OpenedDirectory(NamedTuple):
    """A directory as of after it was watched."""

    directory: Directory
    listing: Listing
    is_settled: bool
    """False: its rules changed meanwhile, so it has to be looked at again."""


class ArmedDirectories:
    """Which directories are watched by events; those subscribed to before all others."""

    def __init__(self, tree: FileTree, source: EventSource | None, demand: Demand) -> None:
        self._tree = tree
        self._source = source
        self._kinds = FileSystemKinds(tree.root.path)
        self._demand = demand
        self._files: dict[str, Collection[str]] = {}
        """The files that are watched themselves, by directory."""
        self.given_up: set[str] = set()
        """The directories that are not watched any more, until somebody clears it."""
        self._is_full = False

    def __contains__(self, prefix: str) -> bool:
        return prefix in self._files

    @property
    def has_source(self) -> bool:
        """Whether there are any events at all."""
        return self._source is not None

    def open(self, prefix: str, outer: Directory | None, *, arm: bool) -> OpenedDirectory:
        """Read a directory, and with `arm` watch it first if that can be.

        `outer` is the directory above, where it is known.

        Raises:
            ResourceNotFound, NotACollection: not there, not exposed, or nothing to be watched.
            ResourceBusy: too many open files.
        """
        path = prefix_path(prefix)
        root = self._tree.root
        fd = root.open(path, _FOLDER) if outer is None else root.open_listed(prefix[:-1], _FOLDER)
        try:
            status = os.fstat(fd)
            kind = self._kinds.kind(prefix, status.st_dev)
            if kind == "pseudo" and not self._demand.needs(prefix):
                raise ResourceNotFound
            if arm and kind == "local":
                self._arm(prefix, fd)
            # What changed after `status` and before the watch is in what is read now.
            directory, listing = self._read(path, outer, status, fd)
        finally:
            os.close(fd)
        if not directory.ignore_stamps and not self._files.get(prefix):
            return OpenedDirectory(directory, listing, is_settled=True)
        found = directory.ignore_stamps.items()
        is_settled = self._arm_files(prefix, {name: seen for name, seen in found if seen})
        return OpenedDirectory(directory, listing, is_settled)

    def is_there(self, prefix: str) -> bool:
        """Say whether there is a directory that could be watched, if it could be opened."""
        try:
            status = self._tree.directories.status(prefix[:-1])
        except ResourceError:
            return False
        is_directory = modes.S_ISDIR(status.st_mode)
        return is_directory and self._kinds.kind(prefix, status.st_dev) != "pseudo"

    def _read(
        self, path: Path, outer: Directory | None, status: os.stat_result, fd: int
    ) -> tuple[Directory, Listing]:
        if outer is not None:
            return self._tree.directories.read(outer, path[-1], status, fd)
        directory = self._tree.find(path).directory
        if directory is None:
            raise ResourceNotFound
        return directory, self._tree.directories.listing(directory, fd)

    def _arm(self, prefix: str, fd: int) -> None:
        """Watch a directory, if that can be, perhaps instead of others."""
        while self._source is not None:
            try:
                self._source.add(prefix, fd, content=self._demand.needs_content(prefix))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    break
                self._say_full()
                other = self._make_room() if self._demand.needs(prefix) else None
                if other is None:
                    break
                self.given_up.add(other)
            else:
                self._files.setdefault(prefix, ())
                break

    def _arm_files(self, prefix: str, files: Mapping[str, Stamp]) -> bool:
        """Watch these files of a directory themselves: they may be written in place.

        Say whether each is still what was found.
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
                self._say_full()
            finally:
                os.close(fd)
        return is_same

    def disarm(self, prefix: str) -> None:
        """Watch a directory and its files no longer."""
        names = self._files.pop(prefix, None)
        if names is not None and self._source is not None:
            for name in ("", *names):
                self._source.remove(prefix, name)

    def _make_room(self) -> str | None:
        """Give up the watch of a directory that nobody subscribes to; return it."""
        for prefix in self._files:
            if not self._demand.needs(prefix):
                self.disarm(prefix)
                return prefix
        return None

    def _say_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "the limit of file watches is reached: other directories are looked at every now "
                "and then; raise it with: sysctl fs.inotify.max_user_watches=1048576"
            )
