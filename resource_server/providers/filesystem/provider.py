"""The built-in provider of folder trees."""

from __future__ import annotations

import os
import pathlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self, TypeVar

from resource_server import media_types, uris
from resource_server.errors import NotACollection, ResourceError, ResourceNotFound
from resource_server.provider import (
    ByteSize,
    Content,
    MaybeAwaitable,
    Path,
    Provider,
    Resource,
    Template,
)
from resource_server.providers.filesystem import content
from resource_server.providers.filesystem.directory import Stamp
from resource_server.providers.filesystem.encoding import text_encoding
from resource_server.providers.filesystem.ignore import Ignores
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
    Secrets,
    SymlinkPolicy,
    Watch,
    check_patterns,
    check_types,
    directory_keys,
)
from resource_server.providers.filesystem.ranges import Range, parse_range
from resource_server.providers.filesystem.root import Root
from resource_server.providers.filesystem.rules import (
    EVERYTHING,
    Rules,
    Scope,
    Selection,
    selection,
)
from resource_server.providers.filesystem.tree import Entry, Tree

T = TypeVar("T")

_MAX_RESOURCES = 8192
_MANY_ENTRIES = 1000
"""A longer page is made in a worker thread."""
_MANY_NAMES = 4096
"""More than these are looked through for completion in a worker thread."""
_NEVER_SEGMENTS = frozenset(("", ".", ".."))
_DIRECTORY_TYPE = "inode/directory"

_TEMPLATES = (
    Template(
        "{+path}",
        name="path",
        title="File or folder",
        description="Any file or folder by its path, as in src/main.py",
    ),
    Template(
        "{+path}{?lines,bytes,tail}",
        name="part",
        title="Part of a file",
        description="Lines (10-40), bytes (0-65535) or the last lines (100) of a file",
        type="document",
    ),
)


@dataclass
class Filesystem:
    """Serves the exposed files and directories below `path`. Its fields are a root's options."""

    path: pathlib.Path
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    gitignore: bool = True
    """Whether `.gitignore`, `.ignore` and `.mcpignore` files hide what they name."""
    hidden: bool = False
    """Whether names that begin with a dot are shown."""
    symlinks: SymlinkPolicy = "deny"
    max_size: ByteSize = ByteSize(10 * 1024 * 1024)
    """Bytes; larger documents are listed, and read in ranges."""
    encoding: str = "utf-8"
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """Media types by name pattern, before those of the table."""
    secrets: Secrets = field(default_factory=Secrets)
    directories: Mapping[str, DirectoryOptions] = field(default_factory=dict[str, DirectoryOptions])
    """What is different in single directories, by path below the root; the deepest wins."""
    watch: Watch = "auto"

    templates = _TEMPLATES

    def __post_init__(self) -> None:
        check_patterns("include", self.include)
        check_patterns("exclude", self.exclude)
        check_types(self.types)
        outermost = Scope(
            include=selection(self.include),
            exclude=Selection(self.exclude) if self.exclude else None,
            gitignore=self.gitignore,
            hidden=self.hidden,
            max_size=self.max_size,
            encoding=text_encoding(self.encoding),
        )
        self._name = os.path.basename(os.path.abspath(self.path)) or "/"
        self._types = tuple(self.types.items())
        self._rules = Rules(directory_keys(self.directories), self.secrets.allow)
        self._root = Root(os.path.abspath(self.path))
        self._tree = Tree(
            self._root, self._rules, outermost, follow_links=self.symlinks == "within-root"
        )
        self._resources = OrderedDict[Path, Resource]()

    async def __aenter__(self) -> Self:
        self._root.check()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._root.close()

    def list(
        self, parent: Path, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return children by name in code point order. See `Provider.list`."""
        name = after[-1] if after else None
        return self._page(
            lambda patient: self._tree.children(parent, after=name, limit=limit, patient=patient),
            limit,
        )

    def walk(self, *, after: Path | None, limit: int) -> MaybeAwaitable[Sequence[Resource]]:
        """Return what follows `after`, depth first. See `SupportsWalk.walk`."""
        return self._page(
            lambda patient: self._tree.walk(after or (), limit=limit, patient=patient), limit
        )

    def _page(
        self, entries: Callable[[bool], Sequence[Entry]], limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        def page(patient: bool) -> Sequence[Resource]:
            return [self._resource(entry) for entry in entries(patient)]

        if limit > _MANY_ENTRIES:
            return _in_thread(lambda: page(True))
        return _now_or_in_thread(page)

    def metadata(self, path: Path) -> Resource:
        """Return what is known of a file or directory without opening it."""
        return self._resource(self._tree.find(path))

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        """Return a file, or a range of it, as one content: text if it decodes, else bytes."""
        part = parse_range(query)
        key, scope = self._tree.document(path)
        if not scope.readable:
            raise ResourceNotFound
        file, mime_type = tuple(key.split("/")), self._type(path)
        if part is None:
            found = self._read_now(file, mime_type, scope)
            if found is not None:
                return (found,)
        return _in_thread(lambda: (self._read(file, mime_type, scope, part),))

    def _read_now(self, file: Path, mime_type: str | None, scope: Scope) -> Content | None:
        try:
            fd, status = self._root.open_file(file, cached=True)
        except BlockingIOError:
            return None
        try:
            return content.read_now(
                fd, status, mime_type, encoding=scope.encoding, max_size=scope.max_size
            )
        finally:
            os.close(fd)

    def _read(self, file: Path, mime_type: str | None, scope: Scope, part: Range | None) -> Content:
        fd, status = self._root.open_file(file)
        try:
            return content.read(
                fd, status, mime_type, part, encoding=scope.encoding, max_size=scope.max_size
            )
        finally:
            os.close(fd)

    def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> MaybeAwaitable[Sequence[str]]:
        """Return the entries of the directory typed so far whose names hold the rest of `value`."""
        parent, _, typed = value.rpartition("/")
        path = tuple(parent.split("/")) if parent else ()
        illegal = "\0" in value or value.startswith("/") or not _NEVER_SEGMENTS.isdisjoint(path)
        if variable != "path" or illegal:
            return ()
        return _now_or_in_thread(lambda patient: self._completions(path, typed, patient=patient))

    def _completions(self, path: Path, typed: str, *, patient: bool) -> Sequence[str]:
        try:
            entry, listing = self._tree.names(path, patient=patient)
        except (ResourceNotFound, NotACollection):
            return ()
        if not patient and len(listing.names) > _MANY_NAMES:
            raise BlockingIOError
        # Where nothing but the listing decides there is no need to look at each.
        plain = not self.directories and self.symlinks == "deny"
        special = frozenset[str]() if plain else listing.links | listing.directories
        start = "".join(f"{segment}/" for segment in path)
        typed = typed.casefold()
        found: list[str] = []
        for name in listing.names:
            if typed not in name.casefold():
                continue
            is_directory, readable = name in listing.directories, entry.scope.readable
            if name in special:
                try:
                    below = self._tree.find((*path, name))
                except ResourceError:
                    continue
                is_directory, readable = below.directory is not None, below.scope.readable
            if readable:
                found.append(f"{start}{name}/" if is_directory else start + name)
        return found

    def explain(self, path: Path) -> str:
        """Return the rule that hides this path, or `exposed`."""
        return self._tree.explain(path)

    def _type(self, path: Path) -> str | None:
        return media_types.from_name(path[-1], self._types)

    def _resource(self, entry: Entry) -> Resource:
        """Return the same object as before while nothing has changed."""
        # What ignore files say decides what the children are.
        ignores = entry.scope.ignores if entry.directory is not None else ()
        version = _version(entry.stamp, ignores)
        held = self._resources.get(entry.path)
        if held is not None and held.version == version:
            return held
        make = self._document if entry.directory is None else self._collection
        resource = self._resources[entry.path] = make(entry, version)
        if len(self._resources) > _MAX_RESOURCES:
            self._resources.popitem(last=False)
        return resource

    def _document(self, entry: Entry, version: str) -> Resource:
        return Resource(
            path=entry.path,
            name=uris.display(entry.path[-1]),
            mime_type=self._type(entry.path),
            size=entry.stamp.size,
            last_modified=_time(entry.stamp.mtime_ns),
            version=version,
            annotations=entry.scope.annotations,
            listed=entry.scope.listed,
        )

    def _collection(self, entry: Entry, version: str) -> Resource:
        options = self._rules.directories.get(entry.key)
        return Resource(
            path=entry.path,
            name=uris.display(entry.path[-1] if entry.path else self._name),
            type="collection",
            title=options.title if options else None,
            description=options.description if options else None,
            mime_type=_DIRECTORY_TYPE,
            last_modified=_time(entry.stamp.mtime_ns),
            version=version,
            annotations=entry.scope.annotations,
            listed=entry.scope.listed,
        )


def _now_or_in_thread(work: Callable[[bool], T]) -> MaybeAwaitable[T]:
    """Return what `work(False)` gives, or where that would block `work(True)`, from a thread."""
    try:
        return work(False)
    except BlockingIOError:
        return _in_thread(lambda: work(True))


async def _in_thread(work: Callable[[], T]) -> T:
    # Imported here: most folders are served without a thread ever being needed.
    from anyio import to_thread

    return await to_thread.run_sync(work, abandon_on_cancel=True)


def _time(ns: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ns / 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None  # a time that no calendar has


def _version(stamp: Stamp, ignores: Sequence[Ignores]) -> str:
    facts = (stamp.device, stamp.inode, stamp.size, stamp.mtime_ns, stamp.ctime_ns)
    # The hash of integers is the same in every process, and eight times faster than blake2b.
    number = hash((*facts, *(rules.version for rules in ignores)) if ignores else facts)
    return f"{number & 0xFFFF_FFFF_FFFF_FFFF:016x}"


_: type[Provider] = Filesystem
