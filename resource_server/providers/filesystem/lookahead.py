"""Whether a directory leads to anything that `include` selects, so that no empty one is listed.

A pattern such as `*.md` may match at any depth, so only a look tells. It is bounded, and cheap once
the directories are cached: one `stat` each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.contained_root import ContainedRoot
from resource_server.providers.filesystem.directory import (
    Directory,
    DirectoryCache,
    DirectoryListing,
)

MAX_LOOKED = 100
"""Directories that are looked into for one; if there are more, it counts as one that leads on."""


class Lookahead:
    """Looks below directories of one root. Any thread may call any method."""

    def __init__(
        self,
        root: ContainedRoot,
        directories: DirectoryCache,
        linked: Callable[[Path], Directory | None],
    ) -> None:
        self._root = root
        self._directories = directories
        self._linked = linked
        """Returns the directory that a link leads to, None for a document."""

    def leads_on(self, directory: Directory) -> bool:
        """Return whether a bounded look finds an included document at or below a directory."""
        seen = {directory.prefix}
        pending: list[Iterator[Directory | None]] = [iter((directory,))]
        while pending:
            for current in pending[-1]:
                if current is None or not current.rules.is_open or len(seen) > MAX_LOOKED:
                    return True
                listing = self._listing(current)
                if listing is not None and listing.has_document:
                    return True
                if listing is not None and listing.others:
                    pending.append(self._below(current, listing, seen))
                    break
            else:
                pending.pop()
        return False

    def _listing(self, directory: Directory) -> DirectoryListing | None:
        """Return the names in a directory; None if it cannot be read."""
        if directory.listing is not None:
            return directory.listing
        try:
            fd, _ = self._root.open_directory(directory.path)
        except (NotACollection, ResourceNotFound):
            return None
        try:
            return self._directories.listing(directory, fd)
        finally:
            os.close(fd)

    def _below(
        self, parent: Directory, listing: DirectoryListing, seen: set[str]
    ) -> Iterator[Directory | None]:
        """Yield the directories in a directory, those at the end of links too, None for documents.

        Each is added to what was `seen`, and left out if it is there.
        """
        for name in sorted(listing.others):
            try:
                if name in listing.links:
                    found = self._linked((*parent.path, name))
                    if found is None:
                        yield None
                        return
                else:
                    status = self._directories.status(parent.prefix + name)
                    found = self._directories.enter(parent, name, status, listed=True)
            except (NotACollection, ResourceNotFound):
                continue
            if found is not None and found.prefix not in seen:
                seen.add(found.prefix)
                yield found
