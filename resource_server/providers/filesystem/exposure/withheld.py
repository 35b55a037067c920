"""Withheld files: the manifest and the databases served beside a root, which no root serves."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from resource_server.runtime.clock import TICK_NS

Identity: TypeAlias = tuple[int, int]
"""Device and inode: the same under every name of a file."""

_JOURNALS = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside a database; they hold its rows."""
_TTL_NS = TICK_NS
"""How long identities are cached; a file that has changed since is looked at again."""


class FileStatus(Protocol):
    """The fields of a status that tell a file."""

    @property
    def st_dev(self) -> int:
        """The device."""
        ...

    @property
    def st_ino(self) -> int:
        """The inode."""
        ...

    @property
    def st_ctime_ns(self) -> int:
        """The time of the last change of the inode, in nanoseconds."""
        ...


class _Identities(NamedTuple):
    at_ns: int
    reasons: Mapping[Identity, str]
    lasting: frozenset[Identity]


class WithheldFiles:
    """Files that are hidden whatever their name, by path, each with the reason.

    A new journal, and a file that replaces another, is withheld from its first moment. A change
    that leaves the times of the file alone (a symbolic link on the way that leads elsewhere) counts
    after 20 ms.
    """

    __slots__ = ("_files", "_seen")

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._seen = self._look()

    @property
    def reasons(self) -> Mapping[Identity, str]:
        """The withheld files that exist, with the reasons."""
        return self._current().reasons

    @property
    def lasting(self) -> frozenset[Identity]:
        """The same without journals, which come and go; the same object while nothing changes."""
        return self._current().lasting

    def reason(self, status: FileStatus) -> str | None:
        """Return why a file is withheld; None if it is not."""
        seen = self._current()
        if status.st_ctime_ns > seen.at_ns - TICK_NS:
            seen = self._refresh()
        return seen.reasons.get((status.st_dev, status.st_ino))

    def _current(self) -> _Identities:
        seen = self._seen
        return seen if -_TTL_NS < time.time_ns() - seen.at_ns < _TTL_NS else self._refresh()

    def _refresh(self) -> _Identities:
        before, found = self._seen, self._look()
        if found.lasting == before.lasting:
            found = found._replace(lasting=before.lasting)
        self._seen = found
        return found

    def _look(self) -> _Identities:
        at_ns = time.time_ns()
        reasons: dict[Identity, str] = {}
        lasting: set[Identity] = set()
        for path, reason in self._files.items():
            identity = _identity(path)
            if identity is not None:
                reasons[identity] = reason
                lasting.add(identity)
            # SQLite resolves symbolic links before it names a journal.
            for place in {path, os.path.realpath(path)}:
                for suffix in _JOURNALS:
                    journal = _identity(place + suffix)
                    if journal is not None:
                        reasons[journal] = f"{reason} (a journal of it)"
        return _Identities(at_ns, reasons, frozenset(lasting))


def _identity(path: str) -> Identity | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
