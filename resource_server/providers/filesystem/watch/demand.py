"""Subscribed paths of one tree, and the directories that have to be watched for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from resource_server.errors import ResourceError
from resource_server.provider import Path
from resource_server.providers.filesystem.file_tree import FileTree


class Demand:
    """Subscribed paths by their keys: where they really are, which differs behind a link.

    A directory is named by its prefix: its key with a trailing slash, or empty for the root.
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
        """The key of each subscribed path."""
        return self._keys

    @property
    def through_links(self) -> Collection[Path]:
        """The subscribed paths that lead through symbolic links."""
        return self._through_links

    def paths(self, key: str) -> Sequence[Path]:
        """Return the paths by which a file or directory is subscribed to."""
        return tuple(self._paths.get(key, ()))

    def inside(self, prefix: str) -> Collection[str]:
        """Return the subscribed keys in a directory."""
        return self._inside.get(prefix, ())

    def needs(self, prefix: str) -> bool:
        """Return whether a directory is subscribed to, or an ancestor of a subscribed path."""
        return prefix in self._needed

    def needs_content(self, prefix: str) -> bool:
        """Return whether writes to the files of a directory matter."""
        return prefix in self._content

    def add(self, path: Path, key: str) -> bool:
        """Subscribe to a path; return whether it is the first one of its key."""
        self._keys[path] = key
        if prefixes := link_prefixes(path, key):
            self._through_links.add(path)
            self._needed.update(prefixes)
        paths = self._paths.setdefault(key, set())
        paths.add(path)
        if len(paths) > 1:
            return False
        prefixes = prefixes_to(key)
        self._inside.setdefault(prefixes[-2], set()).add(key)
        self._needed.update(prefixes)
        self._content.update(prefixes[-2:])
        return True

    def remove(self, path: Path) -> None:
        """Unsubscribe from a subscribed path."""
        key = self._keys.pop(path)
        self._through_links.discard(path)
        _subtract(self._needed, link_prefixes(path, key))
        paths = self._paths[key]
        paths.discard(path)
        if paths:
            return
        del self._paths[key]
        prefixes = prefixes_to(key)
        inside = self._inside[prefixes[-2]]
        inside.discard(key)
        if not inside:
            del self._inside[prefixes[-2]]
        _subtract(self._needed, prefixes)
        _subtract(self._content, prefixes[-2:])


class LinkResolver:
    """Resolves subscribed paths through symbolic links, and again when those may have changed."""

    def __init__(self, tree: FileTree, demand: Demand) -> None:
        self._tree = tree
        self._demand = demand
        self._outdated: dict[Path, None] = {}

    def __bool__(self) -> bool:
        return bool(self._outdated)

    def key(self, path: Path) -> str:
        """Return the key of a path's target; the path itself if the target does not exist."""
        if self._tree.follow_links:
            try:
                return self._tree.find(path).key
            except ResourceError:
                pass
        return "/".join(path)

    def mark_outdated(self, paths: Iterable[Path]) -> None:
        """Mark these paths for resolution."""
        if self._tree.follow_links:
            self._outdated.update(dict.fromkeys(paths))

    def mark_outdated_below(self, keys: Collection[str] | None) -> None:
        """Have paths at or below created or removed `keys` resolved again; None means all.

        Paths that lead through links are resolved again in any case.
        """
        if keys is None or any(self._demand.needs(f"{key}/") for key in keys):
            self.mark_outdated(self._demand.keys)
        else:
            self.mark_outdated(self._demand.through_links)
            for key in keys:
                self.mark_outdated(self._demand.paths(key))

    def resolve_next(self) -> Path | None:
        """Resolve one outdated path; return it if it leads elsewhere now."""
        path, _ = self._outdated.popitem()
        known = self._demand.keys.get(path)
        return path if known is not None and self.key(path) != known else None


def _subtract(counter: Counter[str], prefixes: Sequence[str]) -> None:
    counter.subtract(prefixes)
    for prefix in prefixes:
        if counter[prefix] <= 0:
            del counter[prefix]


def link_prefixes(path: Path, key: str) -> Sequence[str]:
    """Return the directories above a path as written, if it leads elsewhere through links."""
    written = "/".join(path)
    return prefixes_to(written)[:-1] if written != key else ()


def prefixes_to(key: str) -> list[str]:
    """Return the prefixes on the way to a key, its own included: ``, `a/`, `a/b/`.

    At least two, so that the last two are always its parent's and its own.
    """
    if not key:
        return ["", ""]
    parts = key.split("/")
    return ["", *("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))]


def prefix_path(prefix: str) -> Path:
    """Return the path of a directory."""
    return tuple(prefix[:-1].split("/")) if prefix else ()
