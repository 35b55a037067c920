"""The exposed part of a folder as a tree: find an entry, list a directory, walk everything.

Each step goes from a directory to an entry that its rules expose. A followed symbolic link is
replaced by its target, step by step under the same rules, so it leads only to what is exposed at
its real place, with the rules and options of that place. Nothing is ever opened through a link.
"""

from __future__ import annotations

import os
import stat as modes
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec
from msgspec.structs import replace

from resource_server import uris
from resource_server.documents.worker_threads import Steps, finish
from resource_server.errors import NotACollection, ResourceBusy, ResourceNotFound
from resource_server.provider import Path, Resource, ResourceType
from resource_server.providers.filesystem.contained_root import (
    ContainedRoot,
    Status,
    resource_error,
)
from resource_server.providers.filesystem.directory import (
    Directory,
    DirectoryCache,
    DirectoryListing,
    Stamp,
    stamp,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.exposure.withheld import NONE_KNOWN
from resource_server.providers.filesystem.lookahead import Lookahead

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_LINKS = 40
_MAX_DESCRIPTORS = 64
"""Maximum descriptors of one walk; in deeper trees it opens the upper directories again."""
_MAX_RUN = 1024
"""Maximum names of one `NameRun`."""
_BELIEVED_S = 0.02
"""TTL of the directories cached by `document`."""
_MAX_BELIEVED = 256
"""Maximum directories cached by `document`, and names of each."""
_UNREAD_BYTES = 32 * 1024
"""Maximum bytes of unknown directories that are read on the event loop for one page, by their own
sizes: about 750 names on ext4."""
_BLOCK_BYTES = 4096
_MAX_PASSED = 100
"""Directories that one page passes on the event loop, known or not."""
_FEW = 10
"""Names for one directory among them, beyond which the directories are sorted anew."""


class TreeEntry(msgspec.Struct, frozen=True, gc=False):
    """An exposed file or directory: its path, and its key, the real path behind any links."""

    path: Path
    key: str
    stamp: Stamp
    rules: DirectoryRules
    """Those of a document's directory, or inside a directory."""
    directory: Directory | None = None
    """None for a document."""


class DocumentLocation(msgspec.Struct):
    """The real path of a document, the rules of its directory, and its status when last opened."""

    file: Path
    rules: DirectoryRules
    status: os.stat_result | None = None


class _BelievedDirectory(msgspec.Struct, eq=False):
    """A directory cached by `document`, valid until a time of the monotonic clock."""

    until: float
    directory: Directory
    locations: dict[str, DocumentLocation]
    exposed: set[str]
    """Names that its rules expose; kept after `until` while the rules stay the same."""


class NameRun(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Consecutive names of a directory, which `fd` holds open until the next run.

    They are documents, not looked at yet, or a single directory or link: then `entry` is that.
    """

    path: Path
    directory: Directory
    fd: int
    names: Sequence[str]
    entry: TreeEntry | None = None

    @property
    def is_directory(self) -> bool:
        """Whether this is a single directory."""
        return self.entry is not None and self.entry.directory is not None


class ResourceFactory(Protocol):
    """Makes the resources of a page."""

    def document(self, path: Path, status: Status, rules: DirectoryRules) -> Resource:
        """Return the resource of a file."""
        ...

    def resource(self, entry: TreeEntry) -> Resource:
        """Return the resource of any entry."""
        ...


class WalkFrame:
    """A directory on the path of a walk, with the position reached in its names."""

    __slots__ = ("at", "directory", "fd", "listing", "path")

    def __init__(
        self, path: Path, directory: Directory, fd: int, listing: DirectoryListing
    ) -> None:
        self.path = path
        self.directory = directory
        self.fd = fd
        """Negative when closed."""
        self.listing = listing
        self.at = 0

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ReadBudget:
    """Directories that one page may still read or pass on the event loop."""

    def __init__(self) -> None:
        self._left = _UNREAD_BYTES
        self._passed = 0

    def is_over(self, directory_bytes: int) -> bool:
        """Count a directory that is about to be read; return whether that may take long."""
        self._left -= max(directory_bytes, _BLOCK_BYTES)
        return self._left < 0

    def passed(self) -> Steps[None]:
        """Count an entry that takes time, but no place on the page."""
        self._passed += 1
        if self._passed == _MAX_PASSED:
            yield


class FileTree:
    """The exposed part of one root. Any thread may call any method."""

    def __init__(
        self,
        root: ContainedRoot,
        exposure: ExposureRules,
        root_rules: DirectoryRules,
        *,
        follow_links: bool,
    ) -> None:
        self.root = root
        self.exposure = exposure
        exposure.follows_links = follow_links
        self.directories = DirectoryCache(root, exposure, root_rules, follow_links=follow_links)
        self.follow_links = follow_links
        self.listed_as: dict[str, int | None] | None = None
        """The digest under which each directory was listed to clients; None if they differed.

        Set by a scanner, which removes what it has scanned since.
        """
        self.described_by: str | None = None
        """Name of the document whose content shows in listings of its directory, if any."""
        self.searches = set[object]()
        """Searches that have not ended."""
        self._lookahead = Lookahead(root, self.directories, self.directory)
        self._believed: dict[Path, _BelievedDirectory] = {}
        self.ignores_case = folds_names(root.path)
        """Whether the file system may find names in another case or normal form."""

    def is_directory(self, path: Path) -> bool:
        """Return whether there is a directory at a path, hidden or not, and not behind a link."""
        try:
            return modes.S_ISDIR(self.root.stat(path).st_mode)
        except (ResourceNotFound, ResourceBusy):
            return False

    def find(self, path: Path) -> TreeEntry:
        """Return the entry at a path.

        Raises:
            ResourceNotFound: absent or not exposed.
            ResourceBusy: too many open files.
        """
        entry = self._locate(path)[0]
        if path and not self.leads_on(entry.directory):
            raise ResourceNotFound
        return entry

    def directory(self, path: Path) -> Directory | None:
        """Return the directory at a path, exposed or on the way to what may be; else None.

        Raises:
            ResourceNotFound, ResourceBusy: as in `find`.
        """
        return self._locate(path)[0].directory

    def leads_on(self, directory: Directory | None) -> bool:
        """Return whether a directory is exposed as one that is included, or leads to what is."""
        if directory is None or not directory.rules.is_open:
            return True
        return self._lookahead.leads_on(directory)

    def digest(self, directory: Directory, listing: DirectoryListing) -> int:
        """Return a hash of what clients see listed: names, types, and links that lead somewhere."""
        doubtful = listing.others if directory.rules.is_open else listing.links
        dead = frozenset(name for name in doubtful if not self._leads((*directory.path, name)))
        if not dead:
            return listing.digest
        names = tuple([name for name in listing.names if name not in dead])
        directories, links = listing.directories - dead, listing.links - dead
        return replace(
            listing, names=names, directories=directories, links=links, _digest=None
        ).digest

    def description(self, directory: Directory, listing: DirectoryListing) -> Stamp | None:
        """Return the stamp of the exposed document that describes a directory, if it has one."""
        name, names = self.described_by, listing.names
        if name is None or names[(at := bisect_left(names, name)) : at + 1] != (name,):
            return None
        try:
            return self.find((*directory.path, name)).stamp
        except (NotACollection, ResourceBusy, ResourceNotFound):
            return None

    def _leads(self, path: Path) -> bool:
        try:
            self.find(path)
        except (NotACollection, ResourceBusy, ResourceNotFound):
            return False
        return True

    def document(self, path: Path) -> DocumentLocation:
        """Return the location of a document, without checking that it exists.

        Made for hot reads: what was seen of a directory and its documents is believed for 20 ms,
        so a new rule may take that long to hide a document from reads.

        Raises:
            ResourceNotFound, ResourceBusy: as in `find`.
        """
        if self.follow_links or not path:
            entry = self.find(path)
            if entry.directory is not None:
                raise ResourceNotFound
            return DocumentLocation(tuple(entry.key.split("/")), entry.rules)
        name = path[-1]
        believed = self._believe(path[:-1])
        location = believed.locations.get(name)
        if location is None:
            parent = believed.directory
            self._check_spelling(parent, name)
            if name not in believed.exposed:
                if self.exposure.hidden_by(parent.rules, parent.prefix, name, is_directory=False):
                    raise ResourceNotFound
                believed.exposed.add(name)
            location = believed.locations[name] = DocumentLocation(path, parent.rules)
        return location

    def is_withheld(self, key: str, status: Status) -> bool:
        """Return whether a file is hidden under every name, as the server works with it.

        `key` is its real path below the root.
        """
        if self.exposure.withheld is None:  # asked at each read
            return False
        prefix, slash, name = key.rpartition("/")
        return self.exposure.withholds(prefix + slash, name, status) is not None

    def _believe(self, path: Path) -> _BelievedDirectory:
        now = time.monotonic()
        before = self._believed.get(path)
        if before is not None and now < before.until:
            return before
        directory = self.directory(path)
        if directory is None:
            raise ResourceNotFound
        if len(self._believed) >= _MAX_BELIEVED:
            self._believed.clear()
        exposed = set[str]()
        if before is not None and before.directory.rules is directory.rules:
            exposed = before.exposed if len(before.exposed) < _MAX_BELIEVED else exposed
        believed = _BelievedDirectory(now + _BELIEVED_S, directory, {}, exposed)
        self._believed[path] = believed
        return believed

    def _locate(self, path: Path) -> tuple[TreeEntry, list[Directory]]:
        """Return an entry and its ancestor directories from the root; itself last if it is one."""
        trail = [self.directories.top()]
        passed = trail[:]
        entry = TreeEntry((), "", trail[0].stamp, trail[0].rules, trail[0])
        for depth, name in enumerate(path, 1):
            if entry.directory is None:
                raise ResourceNotFound
            entry = self._step(trail, name, path[:depth], is_last=depth == len(path))
            if entry.directory is not None:
                if self.follow_links and _is_among(entry.directory, passed):
                    raise ResourceNotFound
                passed.append(entry.directory)
        if entry.directory is None and self.is_withheld(entry.key, entry.stamp):
            raise ResourceNotFound
        return entry, passed

    def _step(self, trail: list[Directory], name: str, path: Path, *, is_last: bool) -> TreeEntry:
        """Go from the last directory of `trail` to an entry in it, through followed links.

        `trail` holds the real directories from the root; those on the way to the entry are added.
        Intermediate steps are looked at by name, only to choose rules. The last step, which
        clients see, is looked at from the root's descriptor: no link swapped in leads outside.
        """
        steps = [name]
        links = 0
        while steps:
            name = steps.pop()
            parent = trail[-1]
            key = parent.prefix + name
            self._check_spelling(parent, name, is_target=links > 0)
            status = self._status(key, is_last=is_last and not steps)
            if modes.S_ISDIR(status.st_mode):
                directory = self.directories.enter(parent, name, status, is_target=links > 0)
                if directory is None:
                    raise ResourceNotFound
                trail.append(directory)
            elif self.exposure.hidden_by(
                parent.rules, parent.prefix, name, is_directory=False, is_target=links > 0
            ):
                raise ResourceNotFound
            elif modes.S_ISREG(status.st_mode) and not steps:
                return TreeEntry(path, key, stamp(status), parent.rules)
            elif modes.S_ISLNK(status.st_mode) and self.follow_links and links < _MAX_LINKS:
                links += 1
                steps += reversed(self.directories.link(key).split("/"))
            else:
                raise ResourceNotFound
            while steps and (steps[-1] == "" or steps[-1] in uris.DOT_SEGMENTS):
                if steps.pop() == "..":
                    if len(trail) == 1:
                        raise ResourceNotFound
                    trail.pop()
        last, key = trail[-1], trail[-1].prefix[:-1]
        # A target that ends in a slash or `..` had no last step to be looked at from the root.
        seen = stamp(self._status(key, is_last=True)) if links and is_last and key else last.stamp
        return TreeEntry(path, key, seen, last.rules, last)

    def _check_spelling(self, parent: Directory, name: str, *, is_target: bool = False) -> None:
        """Refuse other spellings of a name where the file system ignores case or normal form.

        Rules compare names as written: `private/` does not hide `PRIVATE/`. A name for links alone
        is refused unless it `is_target`; its directory may be cached since a link led there.
        """
        if self.exposure.is_only_target(name):
            if not is_target:
                raise ResourceNotFound
            return
        if not self.ignores_case:
            return
        frame = finish(self._open((), parent, ReadBudget()))
        frame.close()
        if name not in frame.listing.names:
            raise ResourceNotFound

    def _status(self, key: str, *, is_last: bool) -> os.stat_result:
        return self.root.stat(tuple(key.split("/"))) if is_last else self.directories.status(key)

    def children(
        self, path: Path, factory: ResourceFactory, *, after: str | None = None, limit: int
    ) -> Steps[list[Resource]]:
        """Return up to `limit` entries of a directory after `after`, by name in code point order.

        Raises:
            ResourceNotFound: absent, not exposed, or not accessible.
            NotACollection: a document.
            ResourceBusy: too many open files.
        """
        entry, passed = self._locate(path)
        if entry.directory is None:
            raise NotACollection
        if entry.directory.rules.is_open:
            yield  # a look below directories takes its time
            if path and not self.leads_on(entry.directory):
                raise ResourceNotFound
        budget = ReadBudget()
        frame = yield from self._open(path, entry.directory, budget)
        found: list[Resource] = []
        try:
            frame.at = bisect_right(frame.listing.names, after) if after is not None else 0
            while (name := self._documents(frame, factory, found, limit)) is not None:
                child = self._entry(frame, name, passed)
                if child is not None:
                    found.append(factory.resource(child))
                else:
                    yield from budget.passed()
        finally:
            frame.close()
        return found

    def names(self, path: Path) -> Steps[tuple[Directory, DirectoryListing]]:
        """Return a directory, exposed or leading to nothing, and its listing; as `children`."""
        entry, _ = self._locate(path)
        if entry.directory is None:
            raise NotACollection
        frame = yield from self._open(path, entry.directory, ReadBudget())
        frame.close()
        return entry.directory, frame.listing

    def level(
        self,
        depth: int,
        type: ResourceType,
        after: Path,
        factory: ResourceFactory,
        *,
        limit: int,
    ) -> Steps[list[Resource]]:
        """Return up to `limit` listed entries of one type and depth, strictly after `after`.

        Directories of high priority come first, with all below them, then by name.

        Raises:
            ResourceNotFound, ResourceBusy: as in `children`.
        """
        budget, top = ReadBudget(), self.directories.top()
        if depth == 1 and top.listing is not None and not top.listing.has(type):
            self._note_listed(top, top.listing)
            return []
        frames = [(yield from self._open((), top, budget))]
        inner: list[Iterator[str]] = []
        found: list[Resource] = []
        try:
            while frames and len(found) < limit:
                frame, place = frames[-1], len(frames) - 1
                if frame.fd < 0:
                    self._reopen(frame)
                last = after[place] if after[:place] == frame.path and after[place:] else None
                if place == depth - 1:
                    found += yield from self._members(
                        frames, type, last, factory, limit=limit - len(found), budget=budget
                    )
                    frames.pop().close()
                    continue
                if len(inner) == place:
                    inner.append(iter(self._inner(frame, last)))
                name = next(inner[-1], None)
                if name is None:
                    inner.pop()
                    frames.pop().close()
                    continue
                yield from budget.passed()
                if not self._lacks(frame, name, type if place == depth - 2 else "collection"):
                    yield from self._descend(frames, name, budget)
        finally:
            for frame in frames:
                frame.close()
        return found

    def _lacks(self, frame: WalkFrame, name: str, type: ResourceType) -> bool:
        """Return whether a directory is known to have no entries of a type, without opening it."""
        listing = self.directories.last_listing(frame.directory, name)
        if listing is None or listing.has(type):
            return False
        try:
            status = self.directories.status(frame.directory.prefix + name)
            directory = self.directories.known(frame.directory, name, status)
        except (ResourceBusy, ResourceNotFound):
            return False
        if directory is None or directory.listing is not listing:
            return False
        self._note_listed(directory, listing)
        return True

    def _members(
        self,
        frames: Sequence[WalkFrame],
        type: ResourceType,
        last: str | None,
        factory: ResourceFactory,
        *,
        limit: int,
        budget: ReadBudget,
    ) -> Steps[list[Resource]]:
        """Return the entries of one type in the directory of the last frame, after `last`."""
        frame, found = frames[-1], list[Resource]()
        if type == "document":
            frame.at = bisect_right(frame.listing.names, last) if last is not None else 0
            while (name := self._documents(frame, factory, found, limit)) is not None:
                if name not in frame.listing.directories:
                    found += self._other(frames, name, type, factory)
                else:
                    yield from budget.passed()
            return found
        if frame.directory.rules.is_open:
            yield
        for name in self._inner(frame, last):
            if len(found) >= limit:
                break
            if name != last:
                some = self._other(frames, name, type, factory)
                found += some
                if not some:
                    yield from budget.passed()
        return found

    def _other(
        self, frames: Sequence[WalkFrame], name: str, type: ResourceType, factory: ResourceFactory
    ) -> Sequence[Resource]:
        """Return a directory or link, if it is listed and of this type."""
        entry = self._entry(frames[-1], name, self._passed(frames))
        if (
            entry is None
            or not entry.rules.listed
            or (entry.directory is None) != (type == "document")
        ):
            return ()
        return (factory.resource(entry),)

    def _inner(self, frame: WalkFrame, first: str | None) -> Iterable[str]:
        """Return the directories and links of a directory from `first` on, by priority and name."""
        names, others = frame.listing.names, frame.listing.others
        if not self.exposure.priorities:
            if len(others) * _FEW < len(names):
                names = sorted(others)
            at = bisect_left(names, first) if first is not None else 0
            return (name for name in islice(names, at, None) if name in others)
        rules, prefix = frame.directory.rules, frame.directory.prefix

        def order(name: str) -> tuple[float, str]:
            return -self.exposure.priority(rules, prefix + name), name

        sorted_names = sorted(others, key=order)
        if first is None:
            return sorted_names
        return [name for name in sorted_names if order(name) >= order(first)]

    def name_runs(
        self, path: Path, directory: Directory, after: Path = (), *, unlisted: bool = False
    ) -> Generator[NameRun]:
        """Yield the names below a directory, depth first, strictly after the path `after`, if any.

        Unlisted directories are left out, unless this one is unlisted itself, or with `unlisted`.
        Blocks.

        Raises:
            ResourceNotFound, ResourceBusy: as in `children`.
        """
        above = self._locate(path)[1][:-1] if self.follow_links else ()
        budget, unlisted = ReadBudget(), unlisted or not directory.rules.listed
        frames = [finish(self._open(path, directory, budget))]
        try:
            finish(self._resume(frames, after[len(path) :], budget, above, unlisted=unlisted))
            while frames:
                frame = frames[-1]
                if frame.fd < 0:
                    self._reopen(frame)
                names = _run(frame)
                if not names:
                    frames.pop().close()
                elif names[0] not in frame.listing.others:
                    yield NameRun(frame.path, frame.directory, frame.fd, names)
                else:
                    steps = self._descend(frames, names[0], budget, above, unlisted=unlisted)
                    entry = finish(steps)
                    if entry is not None:
                        yield NameRun(frame.path, frame.directory, frame.fd, names, entry)
        finally:
            for frame in frames:
                frame.close()

    def document_runs(self, path: Path) -> Generator[NameRun]:
        """Yield the documents of one directory, as `name_runs` does."""
        entry, _ = self._locate(path)
        if entry.directory is None:
            raise NotACollection
        frame = finish(self._open(path, entry.directory, ReadBudget()))
        try:
            while names := _run(frame):
                if names[0] not in frame.listing.others:
                    yield NameRun(frame.path, frame.directory, frame.fd, names)
        finally:
            frame.close()

    def _resume(
        self,
        frames: list[WalkFrame],
        after: Path,
        budget: ReadBudget,
        above: Sequence[Directory] = (),
        *,
        unlisted: bool = False,
    ) -> Steps[None]:
        """Descend to the position of `after`, or to where it would be."""
        for name in after:
            frame = frames[-1]
            frame.at = bisect_left(frame.listing.names, name)
            if frame.listing.names[frame.at : frame.at + 1] != (name,):
                return
            frame.at += 1
            if name not in frame.listing.others:
                return
            yield from self._descend(frames, name, budget, above, unlisted=unlisted)
            if frames[-1] is frame:
                return

    def _documents(
        self, frame: WalkFrame, factory: ResourceFactory, found: list[Resource], limit: int
    ) -> str | None:
        """Append documents up to the next other entry, and return the name of that.

        Returns None where the directory or the page ends. Written for speed: most entries pass
        here.
        """
        if frame.fd < 0:
            self._reopen(frame)
        path, rules, at, fd = frame.path, frame.directory.rules, frame.at, frame.fd
        names, others = frame.listing.names, frame.listing.others
        end = min(len(names), at + limit - len(found))
        document, regular = factory.document, modes.S_ISREG
        withheld = self.exposure.withheld
        known = withheld.known if withheld is not None else NONE_KNOWN
        suspects, settled_ns = known.inodes, known.settled_ns
        stat = os.stat
        while at < end:
            name = names[at]
            at += 1
            if name in others:
                frame.at = at
                return name
            try:
                status = stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:  # removed since the directory was read
                end = min(len(names), end + 1)
                continue
            if regular(status.st_mode) and not (
                (status.st_ino in suspects or status.st_ctime_ns > settled_ns)
                and self.is_withheld(frame.directory.prefix + name, status)
            ):
                found.append(document((*path, name), status, rules))
            else:
                end = min(len(names), end + 1)
        frame.at = at
        return None

    def _reopen(self, frame: WalkFrame) -> None:
        """Reopen a directory that was closed for deeper ones; a removed one has no more entries."""
        try:
            frame.fd, _ = self.root.open_directory(frame.directory.path)
        except (ResourceNotFound, NotACollection):
            frame.at = len(frame.listing.names)

    def _passed(self, frames: Sequence[WalkFrame]) -> Sequence[Directory]:
        return [frame.directory for frame in frames] if self.follow_links else ()

    def _open(self, path: Path, directory: Directory, budget: ReadBudget) -> Steps[WalkFrame]:
        if directory.listing is None and budget.is_over(directory.stamp.st_size):
            yield
        fd, _ = self.root.open_directory(directory.path)
        try:
            listing = self.directories.listing(directory, fd)
        except BaseException:
            os.close(fd)
            raise
        return self._frame(path, directory, fd, listing)

    def _frame(
        self, path: Path, directory: Directory, fd: int, listing: DirectoryListing
    ) -> WalkFrame:
        self._note_listed(directory, listing)
        return WalkFrame(path, directory, fd, listing)

    def _note_listed(self, directory: Directory, listing: DirectoryListing) -> None:
        if self.listed_as is not None:
            prefix, digest = directory.prefix, self.digest(directory, listing)
            if self.listed_as.setdefault(prefix, digest) != digest:
                self.listed_as[prefix] = None

    def _descend(
        self,
        frames: list[WalkFrame],
        name: str,
        budget: ReadBudget,
        above: Sequence[Directory] = (),
        *,
        unlisted: bool = False,
    ) -> Steps[TreeEntry | None]:
        """Return a listed directory or link, and add its frame if it is an accessible directory.

        None if it is gone, or not `unlisted` as the walk requires. A directory among its own
        ancestors, `frames` and those `above` them, is left out.
        """
        parent = frames[-1]
        passed = [*above, *(frame.directory for frame in frames)] if self.follow_links else ()
        frame = None
        if name in parent.listing.directories:
            frame = yield from self._open_listed(parent, name, budget)
        if frame is None:
            entry = self._entry(parent, name, passed)
        else:
            leads_on = True
            if frame.directory.rules.is_open:
                yield
                leads_on = frame.listing.has_document or self.leads_on(frame.directory)
            is_loop = bool(passed) and _is_among(frame.directory, passed)
            entry = None if is_loop or not leads_on else _entry_of(frame)
        if entry is None or not (entry.rules.listed or unlisted):
            if frame is not None:
                frame.close()
            return None
        if frame is None and entry.directory is not None:
            try:
                frame = yield from self._open(entry.path, entry.directory, budget)
            except (ResourceNotFound, NotACollection):
                return entry
        if frame is not None:
            frames.append(frame)
            if len(frames) > _MAX_DESCRIPTORS:
                frames[-1 - _MAX_DESCRIPTORS].close()
        return entry

    def _open_listed(
        self, parent: WalkFrame, name: str, budget: ReadBudget
    ) -> Steps[WalkFrame | None]:
        """Open a listed directory and read it in one go; None if it is not accessible."""
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent.fd)
        except OSError as error:
            problem = resource_error(error)
            if isinstance(problem, ResourceBusy):
                raise problem from None
            return None
        try:
            status = os.fstat(fd)
            directory = self.directories.known(parent.directory, name, status)
            listing = None if directory is None else directory.listing
            if directory is None or listing is None:
                if budget.is_over(status.st_size):
                    yield
                directory, listing = self.directories.read(parent.directory, name, status, fd)
        except ResourceNotFound:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return self._frame((*parent.path, name), directory, fd, listing)

    def _entry(self, frame: WalkFrame, name: str, passed: Sequence[Directory]) -> TreeEntry | None:
        """Return a listed directory or link as it is now; None if it is gone."""
        path = (*frame.path, name)
        parent = frame.directory
        try:
            if name in frame.listing.links:
                return self.find(path)
            status = os.stat(name, dir_fd=frame.fd, follow_symlinks=False)
            # A file that replaced it was not checked against the rules for files.
            if not modes.S_ISDIR(status.st_mode):
                return None
            directory = self.directories.enter(parent, name, status, listed=True)
        except (OSError, ResourceNotFound):
            return None
        if directory is None or (passed and _is_among(directory, passed)):
            return None
        if not self.leads_on(directory):
            return None
        return TreeEntry(path, parent.prefix + name, directory.stamp, directory.rules, directory)


def _entry_of(frame: WalkFrame) -> TreeEntry:
    directory = frame.directory
    return TreeEntry(frame.path, directory.prefix[:-1], directory.stamp, directory.rules, directory)


def _run(frame: WalkFrame) -> Sequence[str]:
    """Return the next documents of a directory, or one other entry, and advance past them."""
    begin, names, others = frame.at, frame.listing.names, frame.listing.others
    end = len(names)
    if begin == end:
        return ()
    if end - begin > _MAX_RUN:
        end = begin + _MAX_RUN
    if others:
        at = begin
        while at < end and names[at] not in others:
            at += 1
        end = at if at > begin else begin + 1
    frame.at = end
    return names[begin:end]


def folds_names(path: str) -> bool:
    """Return whether the file system of a folder may find names in another case or normal form."""
    if sys.platform == "darwin":
        return True
    name = os.path.basename(path)
    other = os.path.join(os.path.dirname(path), name.swapcase())
    try:
        return name != name.swapcase() and os.path.samefile(path, other)
    except OSError:
        return False


def _is_among(directory: Directory, passed: Sequence[Directory]) -> bool:
    here = directory.stamp
    return any(
        here.st_ino == other.stamp.st_ino and here.st_dev == other.stamp.st_dev for other in passed
    )
