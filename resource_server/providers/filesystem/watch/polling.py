"""Polling: finds changes without events, by comparing stamps with earlier ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from resource_server.errors import ResourceError
from resource_server.provider import Change
from resource_server.providers.filesystem.directory import Stamp, is_fresh, stamp
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.demand import Demand, prefixes_to

Difference: TypeAlias = Literal["same", "changed", "unknown", "replaced"]
"""`unknown`: a stamp is missing. `replaced`: another directory has taken the place."""


class DirectorySnapshot(msgspec.Struct, eq=False, gc=False):
    """One directory as last scanned, for comparison."""

    digest: int
    """Hash of its listing."""
    rules: int
    """Hash of its ignore rules and those of its ancestors."""
    own_rules: int | None
    """Version of its own ignore rules; None without ignore files."""
    stamp: Stamp | None
    """None if it may change without a trace in its stamp."""
    directories: frozenset[str]
    description: Stamp | None = None
    """Of the document that describes it in listings."""


class Poller:
    """Compares the stamps of directories and of subscribed files."""

    def __init__(self, tree: FileTree, demand: Demand) -> None:
        self._tree = tree
        self._demand = demand
        self._stamps: dict[str, Stamp | None] = {}
        """The last stamps of subscribed keys in polled directories."""

    def forget(self, key: str) -> None:
        """Forget the stamp of a file or directory."""
        self._stamps.pop(key, None)

    def compare(
        self, snapshots: Mapping[str, DirectorySnapshot], prefixes: Iterable[str]
    ) -> Iterator[tuple[str, Difference]]:
        """Yield each directory with its difference; `snapshots` may change meanwhile."""
        for prefix in prefixes:
            snapshot = snapshots.get(prefix)
            if snapshot is not None:
                yield prefix, self._difference(prefix, snapshot, self._stamp(prefix[:-1]))

    def _difference(
        self, prefix: str, snapshot: DirectorySnapshot, now: Stamp | None
    ) -> Difference:
        if snapshot.stamp is None or now is None:
            return "unknown"
        if not snapshot.stamp.is_same_file(now):
            return "replaced"
        # An ignore file may have been written in place, which leaves the stamp unchanged.
        if snapshot.stamp != now or snapshot.own_rules is not None:
            return "changed"
        described = snapshot.description
        if described is not None and self._stamp(f"{prefix}{self._tree.described_by}") != described:
            return "changed"
        return "same"

    def subscribed(self, polled: Collection[str]) -> Iterator[Change]:
        """Yield changes of subscribed paths in polled directories, themselves included."""
        for key in set(self._demand.keys.values()) if polled else ():
            parent, own = prefixes_to(key)[-2:]
            # Writes to the files of a directory leave its own stamp unchanged.
            if own in polled or (parent in polled and self._differs(key)):
                yield from (Change(path) for path in self._demand.paths(key))

    def _differs(self, key: str) -> bool:
        now = self._stamp(key)
        before = self._stamps.get(key)
        self._stamps[key] = now
        return now is None or now != before

    def _stamp(self, key: str) -> Stamp | None:
        """Return the stamp of a file or directory, unless another change might not alter it."""
        try:
            status = self._tree.directories.status(key)
        except ResourceError:
            return None
        return None if is_fresh(status) else stamp(status)
