"""Withheld files: the manifest and the databases served beside a root, which no root serves."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from resource_server.providers.filesystem.contained_root import Status
from resource_server.runtime.clock import TICK_NS

Identity: TypeAlias = tuple[int, int]
"""Device and inode: the same under every name of a file."""

_JOURNALS = ("-wal", "-shm", "-journal", ".wal", ".wal.checkpoint", ".wal.recovery")
"""Files that SQLite and DuckDB keep beside a database; they hold its rows."""
_TTL_NS = TICK_NS
"""How long identities are cached; a file that has changed since is looked at again."""


class KnownFiles(NamedTuple):
    """The withheld files that existed at one time."""

    settled_ns: int
    """Every other file that has not changed since this time is not withheld."""
    reasons: Mapping[Identity, str]
    inodes: frozenset[int]
    """The inodes in `reasons`, for a first look at each entry of a listing."""
    lasting: frozenset[Identity]
    names: frozenset[str]
    """The names of all withheld files, whether or not they exist."""


NONE_KNOWN = KnownFiles(sys.maxsize, {}, frozenset(), frozenset(), frozenset())
"""For roots without withheld files: no time is too late for a file to be none."""


class WithheldFiles:
    """Files that are hidden whatever their name, by path, each with the reason.

    A new journal, and a file that replaces another, is withheld from its first moment, in listings
    as in reads. What counts after 20 ms: a change that leaves the times of the file alone (a
    symbolic link on the way that leads elsewhere), and in completion a new file under a name that
    no withheld file has.
    """

    __slots__ = ("_files", "_seen")

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._seen = self._look()

    @property
    def known(self) -> KnownFiles:
        """The withheld files as they were at most 20 ms ago: a newer file needs its `reason`."""
        seen = self._seen
        age_ns = time.time_ns() - TICK_NS - seen.settled_ns
        return seen if -_TTL_NS < age_ns < _TTL_NS else self._refresh()

    @property
    def lasting(self) -> frozenset[Identity]:
        """Those that exist, without journals, which come and go; the same object while the same."""
        return self.known.lasting

    def reason(self, status: Status) -> str | None:
        """Return why a file is withheld; None if it is not."""
        seen = self.known
        if status.st_ctime_ns > seen.settled_ns:
            seen = self._refresh()
        return seen.reasons.get((status.st_dev, status.st_ino))

    def _refresh(self) -> KnownFiles:
        before, found = self._seen, self._look()
        if found.lasting == before.lasting:
            found = KnownFiles(
                found.settled_ns, found.reasons, found.inodes, before.lasting, found.names
            )
        self._seen = found
        return found

    def _look(self) -> KnownFiles:
        settled_ns = time.time_ns() - TICK_NS
        reasons: dict[Identity, str] = {}
        lasting: set[Identity] = set()
        names: set[str] = set()
        for path, reason in self._files.items():
            identity = _identity(path)
            if identity is not None:
                reasons[identity] = reason
                lasting.add(identity)
            # SQLite resolves symbolic links before it names a journal.
            for place in {path, os.path.realpath(path)}:
                name = os.path.basename(place)
                names.update(name + suffix for suffix in ("", *_JOURNALS))
                for suffix in _JOURNALS:
                    journal = _identity(place + suffix)
                    if journal is not None:
                        reasons[journal] = f"{reason} (a journal of it)"
        inodes = frozenset(inode for _, inode in reasons)
        return KnownFiles(settled_ns, reasons, inodes, frozenset(lasting), frozenset(names))


def _identity(path: str) -> Identity | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
