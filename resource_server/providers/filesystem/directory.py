"""Directories as last read: the rules in force in each and the names it exposes.

Nothing cached is used without a check: a directory's data holds until its identity or times,
its ignore files or the rules of its parent change. Data read within a clock tick of a change
is not cached at all, as in git's index.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, ResourceType
from resource_server.providers.filesystem.contained_root import ContainedRoot, Stamp, resource_error
from resource_server.providers.filesystem.exposure.ignore_files import (
    IGNORE_FILES,
    ROOT_IGNORE_FILE,
    IgnoreRules,
    read_ignore_file,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.exposure.withheld import NONE_KNOWN, Identity
from resource_server.runtime.clock import TICK_NS

MAX_NAMES = 500_000
"""Maximum names cached per root, about 40 MB; a single larger directory is still cached."""

_COARSE_TICK_NS = 2_000_000_000
"""The same for file systems whose times count seconds, or pairs of them."""
_CHUNK = 8192
"""Names that are handled in one step, within which no other thread runs."""
_WEIGHT = 4
"""Weight of a directory without names, in names."""
_NO_NAMES: frozenset[str] = frozenset()
_NO_STAMPS: Mapping[str, Stamp | None] = MappingProxyType({})

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or directory."""
    return Stamp(
        status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev
    )


def is_fresh(status: os.stat_result | Stamp) -> bool:
    """Return whether it changed so recently that another change might not alter its stamp."""
    written, changed = status.st_mtime_ns, status.st_ctime_ns
    tick = TICK_NS if written % 1_000_000_000 else _COARSE_TICK_NS
    now = time.time_ns()
    # Either alone: the time of the last write may be set to any, even one to come.
    return -tick < now - changed < tick or -tick < now - written < tick


def has_changed_since(status: os.stat_result | Stamp, moment_ns: int) -> bool:
    """Return whether it may have changed since a moment of `clock.now_ns`."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    tick = 0 if status.st_mtime_ns % 1_000_000_000 else _COARSE_TICK_NS
    return changed >= moment_ns - tick


class WeightedLru(Generic[K, V]):
    """A thread-safe LRU cache, bounded by the total weight of its values.

    The most recent value is kept whatever its weight.
    """

    __slots__ = ("_cache", "_lock", "_max_weight", "_weigh", "_weight")

    def __init__(self, max_weight: int, weigh: Callable[[V], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._cache: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        value = self._cache.get(key)
        if value is None:
            return None
        try:  # noqa: SIM105  `suppress` would cost more than the rest
            self._cache.move_to_end(key)
        except KeyError:
            pass  # evicted by another thread meanwhile
        return value

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._cache.clear()
            self._weight = 0

    def put(self, key: K, value: V) -> None:
        """Cache a value."""
        with self._lock:
            replaced = self._cache.pop(key, None)
            self._cache[key] = value
            self._weight += self._weigh(value)
            if replaced is not None:
                self._weight -= self._weigh(replaced)
            while self._weight > self._max_weight and len(self._cache) > 1:
                self._weight -= self._weigh(self._cache.popitem(last=False)[1])


class DirectoryListing(msgspec.Struct, eq=False, gc=False):
    """The exposed names of a directory in code point order, by type."""

    names: tuple[str, ...]
    directories: frozenset[str]
    links: frozenset[str]
    """Symbolic links, only where they are followed; their targets are not checked yet."""
    others: frozenset[str]
    """Names that are not regular files: directories and links."""
    _digest: int | None = None

    def has(self, type: ResourceType) -> bool:
        """Return whether there may be an entry of a type; a link may be of either."""
        if type == "collection":
            return bool(self.others)
        return len(self.names) > len(self.directories)

    @property
    def has_document(self) -> bool:
        """Whether an entry is no directory and no link."""
        return len(self.names) > len(self.others)

    @property
    def digest(self) -> int:
        """Hash of the names and their types; made on first use, since only a watcher needs it."""
        if self._digest is None:
            # In chunks, so that threads take turns.
            starts = range(0, len(self.names), _CHUNK)
            names = tuple([hash(self.names[start : start + _CHUNK]) for start in starts])
            self._digest = hash((names, self.directories, self.links))
        return self._digest


class Directory(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One directory as last read. `prefix` is its path with a trailing slash, or empty."""

    prefix: str
    stamp: Stamp
    parent_rules: DirectoryRules | None
    """The rules of its parent; None for the root."""
    rules: DirectoryRules
    ignore_stamps: Mapping[str, Stamp | None]
    """Stamps of its ignore files, by name."""
    listing: DirectoryListing | None = None
    """None until it has been listed."""

    @property
    def path(self) -> Path:
        """Its real path below the root."""
        return tuple(self.prefix[:-1].split("/")) if self.prefix else ()


class DirectoryCache:
    """The directories of one root, read on demand."""

    def __init__(
        self,
        root: ContainedRoot,
        exposure: ExposureRules,
        root_rules: DirectoryRules,
        *,
        follow_links: bool,
    ) -> None:
        self._root = root
        self._exposure = exposure
        self._root_rules = root_rules
        self._follow_links = follow_links
        self._base = os.path.join(os.path.abspath(root.path), "")
        self._cache: WeightedLru[str, Directory] = WeightedLru(MAX_NAMES, _weight)
        self._withheld = frozenset[Identity]()
        """The withheld files that the cached listings were made without."""

    def status(self, path: str) -> os.stat_result:
        """Return the status at a path below the root, without following a symbolic link.

        It looks by name, so the result serves only for comparisons: everything that clients see
        is looked at and opened through `ContainedRoot`.

        Raises:
            ResourceNotFound, ResourceBusy: as `ContainedRoot.stat`.
        """
        try:
            return os.stat(self._base + path, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return self._root.stat(tuple(path.split("/")))
            raise resource_error(error) from None
        except ValueError:  # a NUL, or not a possible file name
            raise ResourceNotFound from None

    def link(self, path: str) -> str:
        """Return the target of a symbolic link below the root.

        Raises:
            ResourceNotFound: not a link, or an absolute one.
        """
        try:
            target = os.readlink(self._base + path)
        except OSError as error:
            raise resource_error(error) from None
        if target.startswith("/"):
            raise ResourceNotFound
        return target

    def top(self) -> Directory:
        """Return the root itself.

        Raises:
            ResourceNotFound, ResourceBusy: missing, or not accessible now.
        """
        withheld = self._exposure.withheld
        if withheld is not None and self._withheld is not withheld.lasting:
            self._withheld = withheld.lasting
            self._cache.clear()
        status = self.status("")
        return self._cached("", status, None) or self._enter("", status, None)

    def enter(
        self,
        parent: Directory,
        name: str,
        status: os.stat_result,
        *,
        listed: bool = False,
        is_target: bool = False,
    ) -> Directory | None:
        """Return a subdirectory of `parent` with the rules in force in it; None if it is hidden.

        Set `listed` if the listing of `parent` has it as a directory: then it is not hidden. A
        target is reached through a symbolic link.

        Raises:
            ResourceNotFound, ResourceBusy: its ignore files are not accessible now.
        """
        prefix = f"{parent.prefix}{name}/"
        cached = self._cached(prefix, status, parent.rules)
        if cached is not None:
            return cached
        if not listed and self._exposure.hidden_by(
            parent.rules, parent.prefix, name, is_directory=True, is_target=is_target
        ):
            return None
        return self._enter(prefix, status, parent.rules)

    def _cached(
        self, prefix: str, status: os.stat_result, parent_rules: DirectoryRules | None
    ) -> Directory | None:
        cached = self._cache.get(prefix)
        if (
            cached is None
            or cached.parent_rules is not parent_rules
            or not cached.stamp.is_of(status)
        ):
            return None
        return cached if self.has_current_rules(cached) else None

    def last_listing(self, parent: Directory, name: str) -> DirectoryListing | None:
        """Return the cached names of a subdirectory, without a check that they still hold."""
        cached = self._cache.get(f"{parent.prefix}{name}/")
        return None if cached is None else cached.listing

    def known(self, parent: Directory, name: str, status: os.stat_result) -> Directory | None:
        """Return a subdirectory if it is cached and unchanged.

        Raises:
            ResourceNotFound, ResourceBusy: its ignore files are not accessible now.
        """
        return self._cached(f"{parent.prefix}{name}/", status, parent.rules)

    def read(
        self, parent: Directory, name: str, status: os.stat_result, fd: int
    ) -> tuple[Directory, DirectoryListing]:
        """Return a directory that the listing of `parent` has, and its names, read from `fd`.

        For one that is not `known`: does the work of `enter` and `listing`, faster, since it looks
        for ignore files only among the names. Blocks.

        Raises:
            ResourceNotFound, ResourceBusy: as `enter`, or `fd` cannot be listed.
        """
        prefix = f"{parent.prefix}{name}/"
        scanned = self._names(prefix, fd)
        directory, is_stable = self._read_rules(
            prefix, status, parent.rules, names_in_it=scanned.names
        )
        listing = self._exposed(directory, scanned)
        if is_stable:
            # A change meanwhile has altered the times: then it is read again.
            self._cache.put(prefix, _with_listing(directory, listing))
        return directory, listing

    def _enter(
        self, prefix: str, status: os.stat_result, parent_rules: DirectoryRules | None
    ) -> Directory:
        directory, is_stable = self._read_rules(prefix, status, parent_rules)
        if is_stable:
            self._cache.put(prefix, directory)
        return directory

    def _read_rules(
        self,
        prefix: str,
        status: os.stat_result,
        parent_rules: DirectoryRules | None,
        *,
        names_in_it: Sequence[str] | None = None,
    ) -> tuple[Directory, bool]:
        """Return a directory as it is now, and whether it may be cached.

        `names_in_it` are its entries, if they are known.
        """
        rules = (
            self._root_rules
            if parent_rules is None
            else self._exposure.enter(parent_rules, prefix[:-1])
        )
        stamps, fresh = _NO_STAMPS, False
        if rules.gitignore:
            names = IGNORE_FILES if prefix else (ROOT_IGNORE_FILE, *IGNORE_FILES)
            if names_in_it is not None:
                names = [name for name in names if name in names_in_it]
            if names:
                stamps, fresh = self._ignore_stamps(prefix, names)
        before = self._cache.get(prefix)
        if (
            before is not None
            and before.parent_rules is parent_rules
            and before.ignore_stamps == stamps
        ):
            rules = before.rules
        elif stamps:
            rules = replace(
                rules, ignores=(self._read_ignore_files(prefix, stamps), *rules.ignores)
            )
        directory = Directory(prefix, stamp(status), parent_rules, rules, stamps)
        return directory, not fresh and not is_fresh(status)

    def listing(self, directory: Directory, fd: int) -> DirectoryListing:
        """Return the names in a directory, read from `fd` unless they are cached. Blocks."""
        if directory.listing is not None:
            return directory.listing
        listing = self._exposed(directory, self._names(directory.prefix, fd))
        # A listing is cached only together with the rules that it was made by.
        if self._cache.get(directory.prefix) is directory:
            self._cache_listing(directory, listing, fd)
        return listing

    def _names(self, prefix: str, fd: int) -> _ScannedNames:
        """Return the names in a directory, less those of withheld files."""
        withheld = self._exposure.withheld
        known = withheld.known if withheld is not None else NONE_KNOWN
        scanned = _scan(fd, known.inodes, known.names, follow_links=self._follow_links)
        for name in scanned.suspects:
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                status = None  # a journal that is gone already
            if status is None or self._exposure.withholds(prefix, name, status):
                scanned.names.remove(name)
        return scanned

    def _exposed(self, directory: Directory, scanned: _ScannedNames) -> DirectoryListing:
        directories, links = scanned.directories, scanned.links
        exposed = self._exposure.exposed(
            directory.rules, directory.prefix, scanned.names, directories
        )
        names = _sorted(exposed)
        inner = frozenset(directories.intersection(names)) if directories else _NO_NAMES
        leading = frozenset(links.intersection(names)) if links else _NO_NAMES
        others = inner | leading if leading else inner
        return DirectoryListing(tuple(names), inner, leading, others)

    def _cache_listing(self, directory: Directory, listing: DirectoryListing, fd: int) -> None:
        """Cache a directory with its listing, if nothing has changed meanwhile."""
        if directory.stamp.is_unchanged(os.fstat(fd)) and not is_fresh(directory.stamp):
            self._cache.put(directory.prefix, _with_listing(directory, listing))

    def has_current_rules(self, known: Directory) -> bool:
        """Return whether the ignore files of an unchanged directory are unchanged, too.

        Raises:
            ResourceNotFound, ResourceBusy: they are not accessible now.
        """
        stamps = known.ignore_stamps
        return not stamps or self._ignore_stamps(known.prefix, stamps)[0] == stamps

    def _ignore_stamps(
        self, prefix: str, names: Iterable[str]
    ) -> tuple[Mapping[str, Stamp | None], bool]:
        """Return the stamps of ignore files, weakest first, and whether one is fresh.

        Missing files are left out, except the one inside `.git`, which is None if `.git` exists:
        it may appear without a change in the root's times. Raises as `status`.
        """
        found: dict[str, Stamp | None] = {}
        fresh = False
        base = self._base + prefix
        for name in names:
            try:
                # Most are missing, and an exception would take twice as long.
                status = os.access(base + name, os.F_OK) and os.stat(
                    base + name, follow_symlinks=False
                )
            except FileNotFoundError:
                status = False
            except OSError as error:
                raise resource_error(error) from None
            if status is False:
                if name == ROOT_IGNORE_FILE and os.path.isdir(self._base + ".git"):
                    found[name] = None
            else:
                found[name] = stamp(status)
                fresh = fresh or is_fresh(status)
        return found or _NO_STAMPS, fresh

    def _read_ignore_files(self, prefix: str, names: Iterable[str]) -> IgnoreRules:
        return IgnoreRules(
            prefix,
            [
                (name, read_ignore_file(self._root, tuple(f"{prefix}{name}".split("/"))))
                for name in names
            ],
        )


def _with_listing(known: Directory, listing: DirectoryListing) -> Directory:
    return Directory(
        known.prefix, known.stamp, known.parent_rules, known.rules, known.ignore_stamps, listing
    )


def _weight(directory: Directory) -> int:
    listing = directory.listing
    return _WEIGHT if listing is None else _WEIGHT + len(listing.names)


class _ScannedNames(msgspec.Struct, eq=False, gc=False):
    """The unordered names in a directory that may be exposed, with its directories and links."""

    names: list[str]
    directories: set[str]
    links: set[str]
    suspects: list[str]
    """Files that have one of the inodes or names searched for."""


def _scan(fd: int, inodes: Set[int], sought: Set[str], *, follow_links: bool) -> _ScannedNames:
    names: list[str] = []
    suspects: list[str] = []
    directories: set[str] = set()
    links: set[str] = set()
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    if entry.is_dir(follow_symlinks=False):
                        directories.add(entry.name)
                    elif follow_links and entry.is_symlink():
                        links.add(entry.name)
                    else:
                        continue
                elif entry.name in sought or entry.inode() in inodes:
                    suspects.append(entry.name)
                names.append(entry.name)
    except OSError as error:
        raise resource_error(error) from None
    return _ScannedNames(names, directories, links, suspects)


def _sorted(names: list[str]) -> list[str]:
    """Return the names in code point order, sorted in chunks so that threads take turns."""
    if len(names) <= _CHUNK:
        return sorted(names)
    bounds = sorted(names[::64])[_CHUNK // 64 :: _CHUNK // 64]
    name_runs = [sorted(names[start : start + _CHUNK]) for start in range(0, len(names), _CHUNK)]
    cuts = [[0, *(bisect_right(run, bound) for bound in bounds), len(run)] for run in name_runs]
    found: list[str] = []
    for part in range(len(bounds) + 1):
        # Python's sort finds the sorted runs and merges them.
        found += sorted(
            name
            for run, cut in zip(name_runs, cuts, strict=True)
            for name in run[cut[part] : cut[part + 1]]
        )
    return found
