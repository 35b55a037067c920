"""What is known of directories: the rules in force in each and the names it exposes.

Nothing is believed without a look: what was read of a directory holds as long as its identity and
times, those of its ignore files, and the rules of the directory above are the same. What was read
within a clock tick of a change is not kept at all, as in git's index.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.exposure.ignore_files import (
    IGNORE_FILES,
    ROOT_IGNORE_FILE,
    IgnoreRules,
    read_ignore_file,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.root import Root, resource_error
from resource_server.runtime.clock import TICK_NS

MAX_NAMES = 500_000
"""Kept in all; about 40 MB. A single directory may have more and is kept all the same."""

_COARSE_TICK_NS = 2_000_000_000
"""Of file systems that count seconds, or pairs of them."""
_STEP = 8192
"""Names that are handled in one step: within it no other thread has its turn."""
_WEIGHT = 4
"""Of a directory without names, in names."""
_NONE: frozenset[str] = frozenset()
_NO_STAMPS: Mapping[str, Stamp | None] = MappingProxyType({})

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What differs when a file or directory has changed or is another one; as in `os.stat`."""

    st_ino: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_size: int
    st_dev: int

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Say whether the same file or directory, open all the while, is unchanged."""
        return (
            self.st_ctime_ns == status.st_ctime_ns
            and self.st_mtime_ns == status.st_mtime_ns
            and self.st_size == status.st_size
        )

    def is_same_file(self, other: Stamp) -> bool:
        """Say whether it is of the same file or directory, changed or not."""
        return self.st_ino == other.st_ino and self.st_dev == other.st_dev


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or directory."""
    return Stamp(
        status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev
    )


def is_fresh(status: os.stat_result | Stamp) -> bool:
    """Say whether it changed so lately that another change might not show in its stamp."""
    written, changed = status.st_mtime_ns, status.st_ctime_ns
    tick = TICK_NS if written % 1_000_000_000 else _COARSE_TICK_NS
    return -tick < time.time_ns() - (written if written > changed else changed) < tick


def has_changed_since(status: os.stat_result | Stamp, moment_ns: int) -> bool:
    """Say whether it may have changed after a moment, as `clock.now_ns` gave it."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    tick = 0 if status.st_mtime_ns % 1_000_000_000 else _COARSE_TICK_NS
    return changed >= moment_ns - tick


class WeightedLru(Generic[K, V]):
    """A bounded mapping that forgets what was not used for longest. Any thread may use it.

    The last value put is kept whatever its weight.
    """

    __slots__ = ("_held", "_lock", "_max_weight", "_weigh", "_weight")

    def __init__(self, max_weight: int, weigh: Callable[[V], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._held: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        held = self._held.get(key)
        if held is None:
            return None
        try:  # noqa: SIM105  `suppress` would cost more than the rest
            self._held.move_to_end(key)
        except KeyError:
            pass  # forgotten this very moment
        return held

    def put(self, key: K, value: V) -> None:
        """Keep a value for a while."""
        with self._lock:
            replaced = self._held.pop(key, None)
            self._held[key] = value
            self._weight += self._weigh(value)
            if replaced is not None:
                self._weight -= self._weigh(replaced)
            while self._weight > self._max_weight and len(self._held) > 1:
                self._weight -= self._weigh(self._held.popitem(last=False)[1])


class Listing(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The exposed names of a directory in code point order, and which of them are what."""

    names: tuple[str, ...]
    directories: frozenset[str]
    links: frozenset[str]
    """Symbolic links; only where they are followed. What they lead to is not judged yet."""
    others: frozenset[str]
    """What is no regular file: directories and links."""
    digest: int
    """Of all this; the same only for the same."""


class Directory(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One directory as last seen. `prefix` is its path with a slash at its end, or empty."""

    prefix: str
    stamp: Stamp
    outer: DirectoryRules | None
    """What was in force in the directory above; None above the root."""
    rules: DirectoryRules
    ignore_stamps: Mapping[str, Stamp | None]
    """Of its ignore files, by name."""
    listing: Listing | None = None
    """None until it is listed."""

    @property
    def path(self) -> Path:
        """Where it really is, below the root."""
        return tuple(self.prefix[:-1].split("/")) if self.prefix else ()


class DirectoryCache:
    """The directories of one root, read when they are asked for."""

    def __init__(
        self, root: Root, exposure: ExposureRules, root_rules: DirectoryRules, *, follow_links: bool
    ) -> None:
        self._root = root
        self._exposure = exposure
        self._outermost = root_rules
        self._follow_links = follow_links
        self._base = os.path.join(os.path.abspath(root.path), "")
        self._held: WeightedLru[str, Directory] = WeightedLru(MAX_NAMES, _weight)

    def status(self, path: str) -> os.stat_result:
        """Return the status of what a path below the root names; a symbolic link is itself.

        By name, and thus only to compare with what is known: what a client is told of or given is
        looked at and opened by `Root`.

        Raises:
            ResourceNotFound, ResourceBusy: as `Root.stat`.
        """
        try:
            return os.stat(self._base + path, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return self._root.stat(tuple(path.split("/")))
            raise resource_error(error) from None
        except ValueError:  # a NUL, or what no file name can be
            raise ResourceNotFound from None

    def link(self, path: str) -> str:
        """Return what a symbolic link below the root says.

        Raises:
            ResourceNotFound: no link, or one that begins at the root of the machine.
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
            ResourceNotFound, ResourceBusy: it is not there, or cannot be looked at.
        """
        status = self.status("")
        return self._known("", status, None) or self._enter("", status, None)

    def enter(
        self, outer: Directory, name: str, status: os.stat_result, *, listed: bool = False
    ) -> Directory | None:
        """Return a directory in `outer`, with the rules in force in it; None if it is hidden.

        `listed` says that the listing of `outer` has it, as a directory: so it is not hidden.

        Raises:
            ResourceNotFound, ResourceBusy: its ignore files cannot be looked at, or read now.
        """
        prefix = f"{outer.prefix}{name}/"
        known = self._known(prefix, status, outer.rules)
        if known is not None:
            return known
        if not listed and self._exposure.hidden_by(
            outer.rules, outer.prefix, name, is_directory=True
        ):
            return None
        return self._enter(prefix, status, outer.rules)

    def _known(
        self, prefix: str, status: os.stat_result, above: DirectoryRules | None
    ) -> Directory | None:
        known = self._held.get(prefix)
        if known is None or known.outer is not above or known.stamp != stamp(status):
            return None
        return known if self._holds(known) else None

    def read(
        self, outer: Directory, name: str, status: os.stat_result, fd: int
    ) -> tuple[Directory, Listing]:
        """Return a directory that the listing of `outer` has, and its names, read from `fd`.

        As `enter` and `listing` do, at less cost where nothing is known of it yet. May block.

        Raises:
            ResourceNotFound, ResourceBusy: as `enter`, or `fd` cannot be listed.
        """
        prefix = f"{outer.prefix}{name}/"
        known = self._known(prefix, status, outer.rules)
        if known is not None:
            return known, self.listing(known, fd)
        scanned = _scan(fd, follow_links=self._follow_links)
        directory, lasts = self._entered(prefix, status, outer.rules, among=scanned.names)
        listing = self._exposed(directory, scanned)
        if lasts:
            self._keep(directory, listing, fd)
        return directory, listing

    def _enter(
        self, prefix: str, status: os.stat_result, above: DirectoryRules | None
    ) -> Directory:
        directory, lasts = self._entered(prefix, status, above)
        if lasts:
            self._held.put(prefix, directory)
        return directory

    def _entered(
        self,
        prefix: str,
        status: os.stat_result,
        above: DirectoryRules | None,
        *,
        among: Sequence[str] | None = None,
    ) -> tuple[Directory, bool]:
        """Return a directory as it is now, and whether it may be believed later.

        `among` are the names in it, where they are known.
        """
        rules = self._outermost if above is None else self._exposure.enter(above, prefix[:-1])
        stamps, fresh = _NO_STAMPS, False
        if rules.gitignore:
            names = _candidates(prefix)
            if among is not None:
                names = [name for name in names if name in among]
            if names:
                stamps, fresh = self._ignore_stamps(prefix, names)
        before = self._held.get(prefix)
        if before is not None and before.outer is above and before.ignore_stamps == stamps:
            rules = before.rules
        elif stamps:
            rules = replace(rules, ignores=(self._read(prefix, stamps), *rules.ignores))
        directory = Directory(prefix, stamp(status), above, rules, stamps)
        return directory, not fresh and not is_fresh(status)

    def listing(self, directory: Directory, fd: int) -> Listing:
        """Return the names in a directory, read from `fd` unless they are known. May block."""
        if directory.listing is not None:
            return directory.listing
        listing = self._exposed(directory, _scan(fd, follow_links=self._follow_links))
        # Kept only together with rules that are kept.
        if self._held.get(directory.prefix) is directory:
            self._keep(directory, listing, fd)
        return listing

    def _exposed(self, directory: Directory, scanned: _ScannedNames) -> Listing:
        names, directories, links = scanned
        exposed: list[str] = []
        for start in range(0, len(names), _STEP):
            some = names[start : start + _STEP]
            exposed += self._exposure.exposed(directory.rules, directory.prefix, some, directories)
        names = _sorted(exposed)
        inner = frozenset(directories.intersection(names)) if directories else _NONE
        leading = frozenset(links.intersection(names)) if links else _NONE
        others = inner | leading if leading else inner
        found = tuple(names)
        return Listing(found, inner, leading, others, hash((found, inner, leading)))

    def _keep(self, directory: Directory, listing: Listing, fd: int) -> None:
        """Keep a directory with what was read of it, if nothing has changed meanwhile."""
        if directory.stamp.is_unchanged(os.fstat(fd)) and not is_fresh(directory.stamp):
            known = Directory(
                directory.prefix,
                directory.stamp,
                directory.outer,
                directory.rules,
                directory.ignore_stamps,
                listing,
            )
            self._held.put(directory.prefix, known)

    def _holds(self, known: Directory) -> bool:
        """Say whether the ignore files of an unchanged directory are unchanged, too."""
        stamps = known.ignore_stamps
        return not stamps or self._ignore_stamps(known.prefix, stamps)[0] == stamps

    def _ignore_stamps(
        self, prefix: str, names: Iterable[str]
    ) -> tuple[Mapping[str, Stamp | None], bool]:
        """Return what the ignore files are now, weakest first, and whether one is fresh.

        Those that are missing are left out; but where `.git` is there, its own file may come
        without any change in the root's times, and is None. Raises what `status` raises.
        """
        found: dict[str, Stamp | None] = {}
        fresh = False
        place = self._base + prefix
        for name in names:
            try:
                # Most are missing, and to be told so by an exception takes twice as long.
                status = os.access(place + name, os.F_OK) and os.stat(
                    place + name, follow_symlinks=False
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

    def _read(self, prefix: str, names: Iterable[str]) -> IgnoreRules:
        return IgnoreRules(
            prefix,
            [
                (name, read_ignore_file(self._root, tuple(f"{prefix}{name}".split("/"))))
                for name in names
            ],
        )


def _weight(directory: Directory) -> int:
    listing = directory.listing
    return _WEIGHT if listing is None else _WEIGHT + len(listing.names)


def _candidates(prefix: str) -> Sequence[str]:
    return IGNORE_FILES if prefix else (ROOT_IGNORE_FILE, *IGNORE_FILES)


class _ScannedNames(NamedTuple):
    """What may be exposed of a directory: all names in no order, and the directories and links."""

    names: list[str]
    directories: set[str]
    links: set[str]


def _scan(fd: int, *, follow_links: bool) -> _ScannedNames:
    names: list[str] = []
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
                names.append(entry.name)
    except OSError as error:
        raise resource_error(error) from None
    return _ScannedNames(names, directories, links)


def _sorted(names: list[str]) -> list[str]:
    """Return the names in code point order; many of them in steps, as `list.sort` is one."""
    if len(names) <= _STEP:
        return sorted(names)
    bounds = sorted(names[::64])[_STEP // 64 :: _STEP // 64]
    name_runs = [sorted(names[start : start + _STEP]) for start in range(0, len(names), _STEP)]
    cuts = [[0, *(bisect_right(run, bound) for bound in bounds), len(run)] for run in name_runs]
    found: list[str] = []
    for part in range(len(bounds) + 1):
        # Python's sort sees that it gets sorted runs, and merges them.
        found += sorted(
            name
            for run, cut in zip(name_runs, cuts, strict=True)
            for name in run[cut[part] : cut[part + 1]]
        )
    return found
