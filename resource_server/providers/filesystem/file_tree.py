"""The exposed part of a folder as a tree: find an entry, list a directory, walk everything.

Each step goes from a directory to an entry that its rules expose. A symbolic link that is followed
is replaced by what it says, step by step under the same rules, so what it leads to is shown only if
it is exposed where it really is; nothing is ever opened through a link. Below a link the rules and
options of the real place hold.
"""

from __future__ import annotations

import os
import stat as modes
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from resource_server.errors import NotACollection, ResourceBusy, ResourceError, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.providers.filesystem.directory import (
    Directory,
    DirectoryCache,
    Listing,
    Stamp,
    stamp,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.root import Root, resource_error

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_LINKS = 40
_OPEN_AT_ONCE = 64
"""Descriptors that one walk holds; in deeper trees the upper directories are opened again."""
_RUN = 1024
_BELIEVED_S = 0.02
_MAX_BELIEVED = 256
_UNREAD_BYTES = 64 * 1024
"""Of directories, by their own size, that may be read on the event loop for one page: on ext4
about 1,500 names. What is known already costs nothing."""
_BLOCK_BYTES = 4096


class TreeEntry(msgspec.Struct, frozen=True, gc=False):
    """An exposed file or directory. `path` is what it is called, `key` where it really is."""

    path: Path
    key: str
    stamp: Stamp
    rules: DirectoryRules
    """In force for a document, or inside a directory."""
    directory: Directory | None = None
    """None for a document."""


Status: TypeAlias = os.stat_result | Stamp


class DocumentLocation(msgspec.Struct):
    """Where a document really is, what is in force there, and what it was when last opened."""

    file: Path
    rules: DirectoryRules
    status: os.stat_result | None = None


class NameRun(NamedTuple):
    """Names that stand next to each other in a directory, which `fd` holds open for the moment.

    Documents, none of them looked at yet, or a single directory or link: then `entry` is that.
    """

    path: Path
    directory: Directory
    fd: int
    names: Sequence[str]
    entry: TreeEntry | None = None


class ResourceFactory(Protocol):
    """What a page is made of."""

    def document(self, path: Path, status: Status, rules: DirectoryRules) -> Resource:
        """Return the resource of a file."""
        ...

    def resource(self, entry: TreeEntry) -> Resource:
        """Return the resource of any entry."""
        ...


class WalkFrame:
    """A directory on the way of a walk, and how far its names are used."""

    __slots__ = ("at", "directory", "fd", "listing", "path")

    def __init__(self, path: Path, directory: Directory, fd: int, listing: Listing) -> None:
        self.path = path
        self.directory = directory
        self.fd = fd
        """Negative once it is closed."""
        self.listing = listing
        self.at = 0

    def close(self) -> None:
        """Give up the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ReadBudget:
    """What may be read on the event loop for one page."""

    def __init__(self, *, patient: bool) -> None:
        self._left = None if patient else _UNREAD_BYTES

    def take(self, directory: Directory) -> None:
        """Count a directory that is to be read.

        Raises:
            BlockingIOError: that would be too much; do it all in a worker thread.
        """
        if self._left is not None and directory.listing is None:
            self._left -= max(directory.stamp.st_size, _BLOCK_BYTES)
            if self._left < 0:
                raise BlockingIOError


class FileTree:
    """The exposed part of one root. Any thread may call any method."""

    def __init__(
        self, root: Root, exposure: ExposureRules, root_rules: DirectoryRules, *, follow_links: bool
    ) -> None:
        self.root = root
        self.exposure = exposure
        self.directories = DirectoryCache(root, exposure, root_rules, follow_links=follow_links)
        self.follow_links = follow_links
        self.listed_as: dict[str, int | None] | None = None
        """The digests by which directories were listed to clients; None where they differed.

        Kept by whoever watches, who takes out what has been looked at since.
        """
        self._believed: dict[Path, tuple[float, Directory, dict[str, DocumentLocation]]] = {}
        self._folds = folds_names(root.path)

    def find(self, path: Path) -> TreeEntry:
        """Return the entry at a path.

        Raises:
            ResourceNotFound: absent or not exposed.
            ResourceBusy: too many open files.
        """
        return self._locate(path)[0]

    def document(self, path: Path) -> DocumentLocation:
        """Return where a document really is, and what is in force there.

        Made for hot reads: what was seen of a directory and its documents is believed for
        `_BELIEVED_S`, and that the document is there is for its reader to see. So a rule that
        begins to hide a document may come so much later for reads.

        Raises:
            ResourceNotFound, ResourceBusy: as in `find`.
        """
        if self.follow_links or not path:
            entry = self.find(path)
            if entry.directory is not None:
                raise ResourceNotFound
            return DocumentLocation(tuple(entry.key.split("/")), entry.rules)
        name = path[-1]
        outer, places = self._outer(path[:-1])
        place = places.get(name)
        if place is None:
            self._check_spelling(outer, name)
            if self.exposure.hidden_by(outer.rules, outer.prefix, name, is_directory=False):
                raise ResourceNotFound
            place = places[name] = DocumentLocation(path, outer.rules)
        return place

    def _outer(self, path: Path) -> tuple[Directory, dict[str, DocumentLocation]]:
        now = time.monotonic()
        held = self._believed.get(path)
        if held is not None and now < held[0]:
            return held[1], held[2]
        directory = self.find(path).directory
        if directory is None:
            raise ResourceNotFound
        if len(self._believed) >= _MAX_BELIEVED:
            self._believed.clear()
        places: dict[str, DocumentLocation] = {}
        self._believed[path] = (now + _BELIEVED_S, directory, places)
        return directory, places

    def _locate(self, path: Path) -> tuple[TreeEntry, list[Directory]]:
        """Return the entry and the directories on the way, itself the last if it is one."""
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
        return entry, passed

    def _step(self, trail: list[Directory], name: str, path: Path, *, is_last: bool) -> TreeEntry:
        """Go from the last directory of `trail` to an entry in it, through links where followed.

        `trail` are the real directories from the root down, and then those to the entry. What is
        on the way is looked at by name, to choose among rules; what a client is told of, the last
        step, is looked at from the root's descriptor, so that no link swapped in leads outside.
        """
        steps = [name]
        links = 0
        while steps:
            name = steps.pop()
            outer = trail[-1]
            key = outer.prefix + name
            self._check_spelling(outer, name)
            status = self._status(key, is_last=is_last and not steps)
            if modes.S_ISDIR(status.st_mode):
                directory = self.directories.enter(outer, name, status)
                if directory is None:
                    raise ResourceNotFound
                trail.append(directory)
            elif self.exposure.hidden_by(outer.rules, outer.prefix, name, is_directory=False):
                raise ResourceNotFound
            elif modes.S_ISREG(status.st_mode) and not steps:
                return TreeEntry(path, key, stamp(status), outer.rules)
            elif modes.S_ISLNK(status.st_mode) and self.follow_links and links < _MAX_LINKS:
                links += 1
                steps += reversed(self.directories.link(key).split("/"))
            else:
                raise ResourceNotFound
            while steps and steps[-1] in ("", ".", ".."):
                if steps.pop() == "..":
                    if len(trail) == 1:
                        raise ResourceNotFound
                    trail.pop()
        last, key = trail[-1], trail[-1].prefix[:-1]
        # What ends in a slash or `..` was left by a step that was not the last.
        seen = stamp(self._status(key, is_last=True)) if links and is_last and key else last.stamp
        return TreeEntry(path, key, seen, last.rules, last)

    def _check_spelling(self, outer: Directory, name: str) -> None:
        """Refuse another spelling of a name, where the file system would take it for the name.

        Rules judge names as they are written: `PRIVATE/` is not what `private/` hides.
        """
        if not self._folds:
            return
        frame = self._open((), outer, ReadBudget(patient=True))
        frame.close()
        if name not in frame.listing.names:
            raise ResourceNotFound

    def _status(self, key: str, *, is_last: bool) -> os.stat_result:
        return self.root.stat(tuple(key.split("/"))) if is_last else self.directories.status(key)

    def children(
        self,
        path: Path,
        factory: ResourceFactory,
        *,
        after: str | None = None,
        limit: int,
        patient: bool,
    ) -> list[Resource]:
        """Return up to `limit` entries of a directory, by name in code point order, after `after`.

        Raises:
            ResourceNotFound: absent, not exposed or not to be opened.
            NotACollection: a document.
            ResourceBusy: too many open files.
            BlockingIOError: not `patient`, and what has to be read may take long.
        """
        entry, passed = self._locate(path)
        if entry.directory is None:
            raise NotACollection
        frame = self._open(path, entry.directory, ReadBudget(patient=patient))
        found: list[Resource] = []
        try:
            frame.at = bisect_right(frame.listing.names, after) if after is not None else 0
            while (name := self._documents(frame, factory, found, limit)) is not None:
                child = self._entry(frame, name, passed)
                if child is not None:
                    found.append(factory.resource(child))
        finally:
            frame.close()
        return found

    def names(self, path: Path, *, patient: bool) -> tuple[Directory, Listing]:
        """Return a directory and its listing; raises what `children` raises."""
        entry, _ = self._locate(path)
        if entry.directory is None:
            raise NotACollection
        frame = self._open(path, entry.directory, ReadBudget(patient=patient))
        frame.close()
        return entry.directory, frame.listing

    def walk(
        self, after: Path, factory: ResourceFactory, *, limit: int, patient: bool
    ) -> list[Resource]:
        """Return up to `limit` listed entries of the tree, depth first, strictly after `after`.

        What has vanished since counts by its place.

        Raises:
            ResourceNotFound, ResourceBusy, BlockingIOError: as in `children`.
        """
        allowance = ReadBudget(patient=patient)
        frames = [self._open((), self.directories.top(), allowance)]
        found: list[Resource] = []
        try:
            self._resume(frames, after, allowance)
            while frames and len(found) < limit:
                name = self._documents(frames[-1], factory, found, limit)
                if name is not None:
                    entry = self._entry(frames[-1], name, self._passed(frames))
                    if entry is not None and entry.rules.listed:
                        found.append(factory.resource(entry))
                        self._push(frames, entry, allowance)
                elif len(found) < limit:
                    frames.pop().close()
        finally:
            for frame in frames:
                frame.close()
        return found

    def name_runs(self, path: Path, directory: Directory, after: Path) -> Generator[NameRun]:
        """Give what lies below a directory, depth first, strictly after a path below it, if any.

        What is not listed is left out, unless the directory itself is not. Blocks.

        Raises:
            ResourceNotFound, ResourceBusy: as in `children`.
        """
        above = self._locate(path)[1][:-1] if self.follow_links else ()
        allowance, unlisted = ReadBudget(patient=True), not directory.rules.listed
        frames = [self._open(path, directory, allowance)]
        try:
            self._resume(frames, after[len(path) :], allowance, unlisted=unlisted)
            while frames:
                frame = frames[-1]
                if frame.fd < 0:
                    self._reopen(frame)
                names = _run(frame)
                run = NameRun(frame.path, frame.directory, frame.fd, names)
                if not names:
                    frames.pop().close()
                elif names[0] not in frame.listing.others:
                    yield run
                else:
                    entry = self._entry(frame, names[0], [*above, *self._passed(frames)])
                    if entry is not None and (entry.rules.listed or unlisted):
                        yield run._replace(entry=entry)
                        self._push(frames, entry, allowance)
        finally:
            for frame in frames:
                frame.close()

    def _resume(
        self, frames: list[WalkFrame], after: Path, allowance: ReadBudget, *, unlisted: bool = False
    ) -> None:
        """Go down to where `after` is, or to where it would be."""
        for name in after:
            frame = frames[-1]
            frame.at = bisect_left(frame.listing.names, name)
            if frame.listing.names[frame.at : frame.at + 1] != (name,):
                return
            frame.at += 1
            if name not in frame.listing.directories and name not in frame.listing.links:
                return
            entry = self._entry(frame, name, self._passed(frames))
            if entry is None or not (entry.rules.listed or unlisted):
                return
            if not self._push(frames, entry, allowance):
                return

    def _documents(
        self, frame: WalkFrame, factory: ResourceFactory, found: list[Resource], limit: int
    ) -> str | None:
        """Append documents up to the next name that is none, and return that name.

        None where the directory or the page ends. Written for speed: most entries pass here.
        """
        if frame.fd < 0:
            self._reopen(frame)
        path, rules, at, fd = frame.path, frame.directory.rules, frame.at, frame.fd
        names, others = frame.listing.names, frame.listing.others
        end = min(len(names), at + limit - len(found))
        document, regular = factory.document, modes.S_ISREG
        while at < end:
            name = names[at]
            at += 1
            if name in others:
                frame.at = at
                return name
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                status = None  # gone since the directory was read
            if status is not None and regular(status.st_mode):
                found.append(document((*path, name), status, rules))
            else:
                end = min(len(names), end + 1)
        frame.at = at
        return None

    def _reopen(self, frame: WalkFrame) -> None:
        """Open a directory again that had to make room; one that is gone has no more entries."""
        try:
            frame.fd, _ = self.root.open_directory(frame.directory.path)
        except (ResourceNotFound, NotACollection):
            frame.at = len(frame.listing.names)

    def _passed(self, frames: Sequence[WalkFrame]) -> Sequence[Directory]:
        return [frame.directory for frame in frames] if self.follow_links else ()

    def _open(self, path: Path, directory: Directory, allowance: ReadBudget) -> WalkFrame:
        allowance.take(directory)
        fd, _ = self.root.open_directory(directory.path)
        return self._frame(path, directory, fd)

    def _frame(self, path: Path, directory: Directory, fd: int) -> WalkFrame:
        try:
            listing = self.directories.listing(directory, fd)
        except BaseException:
            os.close(fd)
            raise
        if self.listed_as is not None:
            prefix, digest = directory.prefix, listing.digest
            if self.listed_as.setdefault(prefix, digest) != digest:
                self.listed_as[prefix] = None
        return WalkFrame(path, directory, fd, listing)

    def _push(self, frames: list[WalkFrame], entry: TreeEntry, allowance: ReadBudget) -> bool:
        """Go down into an entry; say whether that is a directory that can be opened."""
        directory = entry.directory
        if directory is None:
            return False
        above = frames[-1]
        try:
            if entry.key == above.directory.prefix + entry.path[-1]:
                allowance.take(directory)
                fd = os.open(entry.path[-1], _FOLDER, dir_fd=above.fd)
                frames.append(self._frame(entry.path, directory, fd))
            else:
                frames.append(self._open(entry.path, directory, allowance))
        except BlockingIOError:
            raise
        except (OSError, ResourceError) as error:
            told = resource_error(error) if isinstance(error, OSError) else error
            if isinstance(told, ResourceBusy):
                raise told from None
            return False
        if len(frames) > _OPEN_AT_ONCE:
            frames[-1 - _OPEN_AT_ONCE].close()
        return True

    def _entry(self, frame: WalkFrame, name: str, passed: Sequence[Directory]) -> TreeEntry | None:
        """Return a directory or link of a listing as it is now; None if there is none any more."""
        path = (*frame.path, name)
        outer = frame.directory
        try:
            if name in frame.listing.links:
                return self.find(path)
            status = os.stat(name, dir_fd=frame.fd, follow_symlinks=False)
            # A file that stands there now was not judged as one.
            if not modes.S_ISDIR(status.st_mode):
                return None
            directory = self.directories.enter(outer, name, status, listed=True)
        except (OSError, ResourceNotFound):
            return None
        if directory is None or (passed and _is_among(directory, passed)):
            return None
        return TreeEntry(path, outer.prefix + name, directory.stamp, directory.rules, directory)


def _run(frame: WalkFrame) -> Sequence[str]:
    """Return the next names of a directory: documents, or one that is none; and pass over them."""
    begin, names, others = frame.at, frame.listing.names, frame.listing.others
    end = min(begin + _RUN, len(names))
    if others:
        documents = (at for at in range(begin, end) if names[at] in others)
        end = max(next(documents, end), min(begin + 1, end))
    frame.at = end
    return names[begin:end]


def folds_names(path: str) -> bool:
    """Say whether names in a folder may be found by another spelling: case or normal form."""
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
