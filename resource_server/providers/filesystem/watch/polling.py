"""What differs from how it was looked at last, without an event that tells of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from resource_server.errors import ResourceError
from resource_server.provider import Change
from resource_server.providers.filesystem.directory import Stamp, is_fresh, stamp
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.demand import Demand, places

Finding: TypeAlias = Literal["same", "changed", "unknown", "another"]
"""`unknown`: no stamp tells. `another`: there is another directory in its place."""


class DirectorySnapshot(msgspec.Struct, eq=False, gc=False):
    """One directory as last looked at."""

    digest: int
    """Of the exposed names, and of which are directories."""
    rules: int
    """Of what its ignore files say, and those above."""
    own_rules: int | None
    """Of what its ignore files say; None where there are none."""
    stamp: Stamp | None
    """None where it may have changed without a trace."""
    directories: frozenset[str]


class Poller:
    """Compares stamps of directories and of what is subscribed to."""

    def __init__(self, tree: FileTree, demand: Demand) -> None:
        self._tree = tree
        self._demand = demand
        self._seen: dict[str, Stamp | None] = {}
        """What was subscribed to in a polled directory, as last looked at."""

    def forget(self, key: str) -> None:
        """Compare a file no longer."""
        self._seen.pop(key, None)

    def directories(
        self, nodes: Mapping[str, DirectorySnapshot], prefixes: Iterable[str]
    ) -> Iterator[tuple[str, Finding]]:
        """Yield what is found of each of these directories; `nodes` may change meanwhile."""
        for prefix in prefixes:
            node = nodes.get(prefix)
            if node is not None:
                yield prefix, self._compare(node, self._stamp(prefix[:-1]))

    def _compare(self, node: DirectorySnapshot, now: Stamp | None) -> Finding:
        if node.stamp is None or now is None:
            return "unknown"
        if not node.stamp.is_of_the_same(now):
            return "another"
        # An ignore file may have been written in place.
        return "changed" if node.stamp != now or node.own_rules is not None else "same"

    def subscribed(self, polled: Collection[str]) -> Iterator[Change]:
        """Yield changes of what is subscribed to in these directories, themselves included."""
        for key in set(self._demand.keys.values()) if polled else ():
            above, own = places(key)[-2:]
            # What is written in a collection leaves nothing behind in its own stamp.
            if own in polled or (above in polled and self._differs(key)):
                yield from (Change(path) for path in self._demand.paths(key))

    def _differs(self, key: str) -> bool:
        now = self._stamp(key)
        before = self._seen.get(key)
        self._seen[key] = now
        return now is None or now != before

    def _stamp(self, key: str) -> Stamp | None:
        """Return the stamp of a file or directory, unless another change might not show in it."""
        try:
            status = self._tree.directories.status(key)
        except ResourceError:
            return None
        return None if is_fresh(status) else stamp(status)
