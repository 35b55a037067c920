"""What is subscribed to in one tree, and which of its directories that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from resource_server.errors import ResourceError
from resource_server.provider import Path
from resource_server.providers.filesystem.file_tree import FileTree


class Demand:
    """Subscribed paths by where they really are: their key, which a link may make another one.

    A directory is named by its prefix: its key with a slash at its end, or empty for the root.
    """

    def __init__(self) -> None:
        self._keys: dict[Path, str] = {}
        self._through_links: set[Path] = set()
        self._paths: dict[str, set[Path]] = {}
        self._inside: dict[str, set[str]] = {}
        self._needed = Counter[str]()
        self._content = Counter[str]()

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def keys(self) -> Mapping[Path, str]:
        """Where each subscribed path really is."""
        return self._keys

    @property
    def through_links(self) -> Collection[Path]:
        """The subscribed paths that lead somewhere else than they say."""
        return self._through_links

    def paths(self, key: str) -> Sequence[Path]:
        """Return the paths by which a file or directory is subscribed to."""
        return tuple(self._paths.get(key, ()))

    def inside(self, prefix: str) -> Collection[str]:
        """Return the keys in a directory that are subscribed to."""
        return self._inside.get(prefix, ())

    def needs(self, prefix: str) -> bool:
        """Say whether a directory is, or is on the way to, one that is subscribed to."""
        return prefix in self._needed

    def needs_content(self, prefix: str) -> bool:
        """Say whether it matters what is written in a directory."""
        return prefix in self._content

    def add(self, path: Path, key: str) -> bool:
        """Subscribe to a path; say whether it is the first of its key."""
        self._keys[path] = key
        if links := prefixes_to_links(path, key):
            self._through_links.add(path)
            self._needed.update(links)
        paths = self._paths.setdefault(key, set())
        paths.add(path)
        if len(paths) > 1:
            return False
        way = places(key)
        self._inside.setdefault(way[-2], set()).add(key)
        self._needed.update(way)
        self._content.update(way[-2:])
        return True

    def remove(self, path: Path) -> None:
        """Unsubscribe from a path that is subscribed to."""
        key = self._keys.pop(path)
        self._through_links.discard(path)
        _subtract(self._needed, prefixes_to_links(path, key))
        paths = self._paths[key]
        paths.discard(path)
        if paths:
            return
        del self._paths[key]
        way = places(key)
        inside = self._inside[way[-2]]
        inside.discard(key)
        if not inside:
            del self._inside[way[-2]]
        _subtract(self._needed, way)
        _subtract(self._content, way[-2:])


class LinkResolver:
    """Resolves what is subscribed to, and again what may be somewhere else by now."""

    def __init__(self, tree: FileTree, demand: Demand) -> None:
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


def _subtract(counter: Counter[str], some: Sequence[str]) -> None:
    counter.subtract(some)
    for each in some:
        if counter[each] <= 0:
            del counter[each]


def prefixes_to_links(path: Path, key: str) -> Sequence[str]:
    """Return the directories on the way that a path says, where links lead elsewhere from it."""
    said = "/".join(path)
    return places(said)[:-1] if said != key else ()


def places(key: str) -> list[str]:
    """Return the directories on the way to a key, and the key itself as one: ``, `a/`, `a/b/`.

    At least two, so that the last two are always its parent and itself.
    """
    if not key:
        return ["", ""]
    parts = key.split("/")
    return ["", *("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))]


def prefix_path(prefix: str) -> Path:
    """Return the path of a directory."""
    return tuple(prefix[:-1].split("/")) if prefix else ()
