"""What is known of directories: the rules in force in each and the names it exposes.

Nothing is believed without a look: what was read of a directory holds as long as its identity and
times, those of its ignore files, and the rules of the directory above are the same. What was read
within a clock tick of a change is not kept at all, as in git's index.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from resource_server.errors import ResourceNotFound
from resource_server.providers.filesystem.ignore import (
    IGNORE_FILES,
    ROOT_IGNORE_FILE,
    Ignores,
    read_ignore_file,
)
from resource_server.providers.filesystem.root import Root, refusal
from resource_server.providers.filesystem.rules import Rules, Scope

MAX_NAMES = 500_000
"""Kept in all; about 40 MB. A single directory may have more and is kept all the same."""

_TICK_NS = 20_000_000
"""Changes within one tick of the kernel's clock may leave the same time behind; 10 ms at most."""
_COARSE_TICK_NS = 2_000_000_000
"""Of file systems that count seconds, or pairs of them."""
_SORTED_AT_ONCE = 16_384
_WEIGHT = 4
"""Of a directory without names, in names."""
_NONE: frozenset[str] = frozenset()
_NO_STAMPS: Mapping[str, Stamp] = MappingProxyType({})

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What differs when a file or directory has changed or is another one."""

    inode: int
    mtime_ns: int
    ctime_ns: int
    size: int
    device: int


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or directory."""
    return Stamp(
        status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev
    )


def is_fresh(status: os.stat_result) -> bool:
    """Say whether it changed so lately that another change might not show in its stamp."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    tick = _TICK_NS if status.st_mtime_ns % 1_000_000_000 else _COARSE_TICK_NS
    return abs(time.time_ns() - changed) < tick


class RecentlyUsed(Generic[K, V]):
    """A bounded mapping that forgets what was not used for longest, roughly.

    Two generations: what is used moves to the young one, and when that has half of the weight it
    becomes the old one, whose rest is forgotten. Safe to use from several threads at once.
    """

    __slots__ = ("_half", "_old", "_weight", "_young")

    def __init__(self, max_weight: int) -> None:
        self._half = max_weight // 2
        self._weight = 0
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        held = self._young.get(key)
        if held is None:
            held = self._old.get(key)
            if held is None:
                return None
            self.put(key, *held)
        return held[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value for a while."""
        replaced = self._young.get(key)
        if self._weight + weight > self._half and self._young:
            self._old, self._young, self._weight = self._young, {}, 0
            replaced = None
        self._young[key] = (value, weight)
        self._weight += weight - (replaced[1] if replaced else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The exposed names of a directory in code point order, and which of them are what."""

    names: list[str]
    directories: frozenset[str]
    links: frozenset[str]
    """Symbolic links; only where they are followed. What they lead to is not judged yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """One directory as last seen. `prefix` is its path with a slash at its end, or empty."""

    prefix: str
    stamp: Stamp
    outer: Scope | None
    """What was in force in the directory above; None above the root."""
    scope: Scope
    ignore_stamps: Mapping[str, Stamp]
    """Of the ignore files that are there, by name."""
    listing: Listing | None = None
    """None until it is listed."""


class Directories:
    """The directories of one root, read when they are asked for."""

    def __init__(self, root: Root, rules: Rules, outermost: Scope, *, follow_links: bool) -> None:
        self._root = root
        self._rules = rules
        self._outermost = outermost
        self._follow_links = follow_links
        self._base = os.path.join(os.path.abspath(root.path), "")
        self._held: RecentlyUsed[str, Directory] = RecentlyUsed(MAX_NAMES)

    def status(self, path: str) -> os.stat_result:
        """Return the status of what a path below the root names; a symbolic link is itself.

        By name and thus only to compare with what is known: what is read is opened by `Root`.

        Raises:
            ResourceNotFound, ResourceBusy: as `Root.stat`.
        """
        try:
            return os.stat(self._base + path, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return self._root.stat(tuple(path.split("/")))
            raise refusal(error) from None
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
            raise refusal(error) from None
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

    def enter(self, outer: Directory, name: str, status: os.stat_result) -> Directory | None:
        """Return a directory in `outer`, with the rules in force in it; None if it is hidden."""
        prefix = f"{outer.prefix}{name}/"
        known = self._known(prefix, status, outer.scope)
        if known is not None:
            return known
        if self._rules.hidden_by(outer.scope, outer.prefix, name, is_directory=True):
            return None
        return self._enter(prefix, status, outer.scope)

    def _known(self, prefix: str, status: os.stat_result, above: Scope | None) -> Directory | None:
        known = self._held.get(prefix)
        if known is None or known.outer is not above or known.stamp != stamp(status):
            return None
        return known if self._holds(known) else None

    def _enter(self, prefix: str, status: os.stat_result, above: Scope | None) -> Directory:
        scope = self._outermost if above is None else self._rules.enter(above, prefix[:-1])
        found = self._ignore_files(prefix) if scope.gitignore else {}
        stamps = {name: stamp(held) for name, held in found.items()}
        before = self._held.get(prefix)
        if before is not None and before.outer is above and before.ignore_stamps == stamps:
            scope = before.scope
        elif stamps:
            scope = replace(scope, ignores=(self._read(prefix, stamps), *scope.ignores))
        directory = Directory(prefix, stamp(status), above, scope, stamps or _NO_STAMPS)
        if not any(map(is_fresh, (status, *found.values()))):
            self._held.put(prefix, directory, _WEIGHT)
        return directory

    def listing(self, directory: Directory, fd: int) -> Listing:
        """Return the names in a directory, read from `fd` unless they are known. May block."""
        if directory.listing is not None:
            return directory.listing
        names, directories, links = _scan(fd, follow_links=self._follow_links)
        names = self._rules.exposed(directory.scope, directory.prefix, names, directories)
        listing = Listing(
            names,
            frozenset(directories.intersection(names)) if directories else _NONE,
            frozenset(links.intersection(names)) if links else _NONE,
        )
        status = os.fstat(fd)
        # Kept only together with rules that are kept, and if nothing has changed meanwhile.
        known = self._held.get(directory.prefix)
        if known is directory and stamp(status) == directory.stamp and not is_fresh(status):
            held = replace(directory, listing=listing)
            self._held.put(directory.prefix, held, _WEIGHT + len(names))
        return listing

    def _holds(self, known: Directory) -> bool:
        """Say whether the ignore files of an unchanged directory are unchanged, too."""
        if not known.ignore_stamps and (known.prefix or not known.scope.gitignore):
            return True
        # A change in the folder of `ROOT_IGNORE_FILE` does not show in the root's own times.
        found = self._ignore_files(known.prefix, None if not known.prefix else known.ignore_stamps)
        return {name: stamp(status) for name, status in found.items()} == known.ignore_stamps

    def _ignore_files(
        self, prefix: str, names: Iterable[str] | None = None
    ) -> dict[str, os.stat_result]:
        """Return the status of the ignore files that are there, weakest first."""
        if names is None:
            names = IGNORE_FILES if prefix else (ROOT_IGNORE_FILE, *IGNORE_FILES)
        found: dict[str, os.stat_result] = {}
        for name in names:
            with suppress(OSError):
                found[name] = os.stat(f"{self._base}{prefix}{name}", follow_symlinks=False)
        return found

    def _read(self, prefix: str, names: Iterable[str]) -> Ignores:
        return Ignores(
            prefix,
            [
                (name, read_ignore_file(self._root, tuple(f"{prefix}{name}".split("/"))))
                for name in names
            ],
        )


def _scan(fd: int, *, follow_links: bool) -> tuple[list[str], set[str], set[str]]:
    """Return the sorted names of what may be exposed, the directories and the links among them."""
    names: list[str] = []
    directories: set[str] = set()
    links: set[str] = set()
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.add(entry.name)
                elif follow_links and entry.is_symlink():
                    links.add(entry.name)
                elif not entry.is_file(follow_symlinks=False):
                    continue
                names.append(entry.name)
    except OSError as error:
        raise refusal(error) from None
    return _sorted(names), directories, links


def _sorted(names: list[str]) -> list[str]:
    """Return the names in order, sorted in steps: each holds up the event loop while it lasts."""
    if len(names) <= _SORTED_AT_ONCE:
        names.sort()
        return names
    starts = range(0, len(names), _SORTED_AT_ONCE)
    runs = [sorted(names[start : start + _SORTED_AT_ONCE]) for start in starts]
    while len(runs) > 1:
        # Python's sort sees that it gets two sorted runs, and merges them.
        runs.append(sorted(runs.pop(0) + runs.pop(0)))
    return runs[0]
