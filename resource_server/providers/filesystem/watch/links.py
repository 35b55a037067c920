"""Where subscribed paths really are, in a tree whose symbolic links are followed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from resource_server.errors import ResourceError
from resource_server.provider import Path
from resource_server.providers.filesystem.tree import Tree
from resource_server.providers.filesystem.watch.demand import Demand


class Links:
    """Resolves what is subscribed to, and again what may be somewhere else by now."""

    def __init__(self, tree: Tree, demand: Demand) -> None:
        self._tree = tree
        self._demand = demand
        self._doubtful: dict[Path, None] = {}

    def __bool__(self) -> bool:
        return bool(self._doubtful)

    def real(self, path: Path) -> str:
        """Return the key of where a path leads; of itself where nothing is."""
        if self._tree.follow_links:
            try:
                return self._tree.find(path).key
            except ResourceError:
                pass
        return "/".join(path)

    def doubt(self, paths: Iterable[Path]) -> None:
        """See to it that these are resolved again."""
        if self._tree.follow_links:
            self._doubtful.update(dict.fromkeys(paths))

    def doubt_below(self, keys: Collection[str] | None) -> None:
        """Doubt what is at or below these keys, at which something came or went; None: all.

        What leads through a link is doubted in any case.
        """
        if keys is None or any(self._demand.needs(f"{key}/") for key in keys):
            self.doubt(self._demand.keys)
        else:
            self.doubt(self._demand.through_links)
            for key in keys:
                self.doubt(self._demand.paths(key))

    def resolve_next(self) -> Path | None:
        """Resolve one that is doubted; return it if it is somewhere else."""
        path, _ = self._doubtful.popitem()
        known = self._demand.keys.get(path)
        return path if known is not None and self.real(path) != known else None
