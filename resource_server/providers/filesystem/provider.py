"""The `filesystem` provider: serves a folder tree as collections and documents.

A read takes a file's status before its content, from one descriptor: a version is never newer than
the content that it stands for.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import pathlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Self

import msgspec

from resource_server import media_types, uris
from resource_server.access import allows, checked_restrictions
from resource_server.conversion import registry
from resource_server.documents import ranges
from resource_server.documents.encoding import canonical_encoding
from resource_server.documents.options import (
    FORMAT_TEMPLATE,
    ConvertMode,
    DocumentKind,
    Secrets,
    check_patterns,
    check_types,
    offered_converters,
    reading_fingerprint,
)
from resource_server.documents.path_selection import EVERYTHING, PathSelection, selection
from resource_server.documents.ranges import wanted_range
from resource_server.documents.worker_threads import Steps, WorkerThreads, finish
from resource_server.errors import ResourceError, ResourceNotFound, ResourceUnreadable
from resource_server.provider import (
    ByteSize,
    Change,
    Content,
    Interest,
    Link,
    MaybeAwaitable,
    Path,
    Provider,
    Resource,
    ResourceType,
    ServerKey,
    Template,
)
from resource_server.provider.search import SearchPage, SearchRequest, SupportsSearch
from resource_server.provider.skills import SKILL_FILE, Skill, SupportsSkills
from resource_server.providers.filesystem import content
from resource_server.providers.filesystem.contained_root import ContainedRoot, Status
from resource_server.providers.filesystem.directory import WeightedLru
from resource_server.providers.filesystem.exposure import explain
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.exposure.withheld import WithheldFiles
from resource_server.providers.filesystem.file_completion import completed_paths
from resource_server.providers.filesystem.file_tree import DocumentLocation, FileTree, TreeEntry
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
    SkillMode,
    SymlinkPolicy,
    WatchMode,
    directory_keys,
)
from resource_server.runtime import extras
from resource_server.runtime.document_range import Range
from resource_server.runtime.option_types import OptionChecks, check_options
from resource_server.runtime.timing import Timing

if TYPE_CHECKING:
    from resource_server.providers.filesystem.converted import ConvertedDocuments
    from resource_server.providers.filesystem.file_search import FileSearch
    from resource_server.providers.filesystem.search_index.index import SearchIndex
    from resource_server.providers.filesystem.skills.skill_index import FileDigest, SkillIndex

_MANY_ENTRIES = 1001
"""Maximum entries of a page made on the event loop; longer ones are made in a thread."""
_MAX_COUNTED = 10_000
"""Maximum files looked through for a warning."""
_MAX_COMPARED, _MAX_CHECKED = 20_000, 1_000_000
"""Maximum names that patterns are compared with at the start, and by `check`."""
_MAX_THREADS = 32
"""Maximum threads of one folder that wait for a slow disk."""
_MAX_CONVERSIONS = 4
"""Maximum threads of one folder that wait for converters; further conversions wait in line."""
_DIRECTORY_TYPE = "inode/directory"
_FACTS = attrgetter("st_ino", "st_mtime_ns", "st_ctime_ns", "st_size", "st_dev")
"""What the version of a file is made of."""
_MAX_DIGESTS = 100_000
_MAX_LOOKED_INTO = 10_000
"""Maximum files whose examined content is cached."""
_LOOKED_BYTES = 512 * 1024
_PICTURE = re.compile(rb'"(?:image/|png"|jpeg"|svg")')
"""What only a notebook with pictures has, as in nbformat 4 or 3."""

_WATCHER_MODULES = (
    "runtime.inotify",
    "providers.filesystem.watch.event_sources",
    "providers.filesystem.watch.armed_directories",
    "providers.filesystem.watch.scanner",
    "providers.filesystem.watch.file_watcher",
)
"""Modules of the watcher, each with few imports beyond those before it."""

_TEMPLATES = (
    Template(
        "{+path}",
        name="path",
        title="File or folder",
        description="Any file or folder by its path, as in src/main.py",
    ),
    Template(
        "{+path}?lines={lines}",
        name="lines",
        title="Lines of a file",
        description="Lines of a file, as in 10-40 or 10-; ?bytes=0-65535 gives bytes instead",
        type="document",
        optional=("bytes",),
    ),
    Template(
        "{+path}?tail={tail}",
        name="tail",
        title="End of a file",
        description="The last lines of a file, as in 100",
        type="document",
    ),
)


@dataclass
class Filesystem:
    """Serves the exposed files and directories below `path`. Its fields are a root's options."""

    path: pathlib.Path
    """The folder; relative to the manifest."""
    include: tuple[str, ...] = EVERYTHING
    """Patterns of the files that are exposed; `src/` is the directory at the top, `**/src/` any."""
    exclude: tuple[str, ...] = ()
    """Patterns of hidden files and directories, included or not."""
    gitignore: bool = True
    """Whether `.gitignore`, `.ignore` and `.mcpignore` files are obeyed."""
    hidden: bool = False
    """Whether names that begin with a dot are exposed."""
    symlinks: SymlinkPolicy = "deny"
    """Whether symbolic links are hidden, or followed within the root."""
    max_size: ByteSize = ByteSize(10 * 1024 * 1024)
    """Maximum size of a document that is read whole; larger ones are read in ranges."""
    encoding: str = "utf-8"
    """Encoding of text without a byte order mark. Undecodable text is sent as bytes."""
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """Media types by name pattern; they take precedence over the built-in table."""
    secrets: Secrets = field(default_factory=Secrets)
    """Exceptions from the secrets deny-list."""
    directories: Mapping[str, DirectoryOptions] = field(default_factory=dict[str, DirectoryOptions])
    """Options of single directories, by path below the root (no patterns); the deepest wins."""
    watch: WatchMode = "auto"
    """How changes are detected; `auto` uses the best of the system and the file system."""
    skills: SkillMode = "auto"
    """Whether directories with a valid `SKILL.md` are served as skills, too, or none are."""
    convert: ConvertMode | tuple[DocumentKind, ...] = "auto"
    """Whether documents such as PDF are also served as Markdown, by converters in processes of
    their own, or none are; or a list of those that are, as in `[pdf, docx]`."""
    cache: pathlib.Path | None = None
    """A folder that keeps the Markdown of documents between starts, and the `index`, relative to
    the manifest; it is created if it does not exist. By default, memory keeps the Markdown."""
    index: bool = False
    """Whether an index in `cache` tells which documents a search need not look into. It pays for
    tens of thousands of documents; results are the same."""
    index_size: ByteSize = ByteSize(2 * 1024**3)
    """Maximum size of the index; a search looks into all documents that have no place in it."""

    timing: Timing = field(default=Timing(), init=False, repr=False, compare=False)
    """Intervals of the watcher and of searches, for tests."""
    threads: WorkerThreads = field(init=False, repr=False, compare=False)
    conversions: WorkerThreads = field(init=False, repr=False, compare=False)
    """Threads for blocking work, shared by all views of the folder (`narrowed`)."""

    option_checks: ClassVar[OptionChecks] = {
        "include": lambda patterns: check_patterns("include", patterns),
        "exclude": lambda patterns: check_patterns("exclude", patterns),
        "encoding": canonical_encoding,
        "types": check_types,
        "directories": directory_keys,
        "convert": offered_converters,
    }

    def __post_init__(self) -> None:
        check_options(self)
        if self.index and self.cache is None:
            raise ValueError("index: has no folder to be kept in; write 'cache' as well")
        root_rules = DirectoryRules(
            include=selection(self.include),
            exclude=PathSelection(self.exclude) if self.exclude else None,
            gitignore=self.gitignore,
            hidden=self.hidden,
            max_size=self.max_size,
            encoding=canonical_encoding(self.encoding),
            reading=reading_fingerprint(self.max_size, self.encoding, *self.types.items()),
        )
        self._restrictions = checked_restrictions(
            {f"directories.{key}.access": each.access for key, each in self.directories.items()}
        )
        self._name = os.path.basename(os.path.abspath(self.path)) or "/"
        self._types = tuple(self.types.items())
        self._converters = offered_converters(self.convert)
        self.threads = WorkerThreads(_MAX_THREADS)
        self.conversions = WorkerThreads(_MAX_CONVERSIONS)
        # Of the files of skills, for all views of the folder.
        self.digests: WeightedLru[Path, FileDigest] = WeightedLru(_MAX_DIGESTS, lambda _: 1)
        self._looked_into: WeightedLru[str, str] = WeightedLru(_MAX_LOOKED_INTO, lambda _: 1)
        self._exposure = ExposureRules(directory_keys(self.directories), self.secrets.allow)
        self._root = ContainedRoot(os.path.abspath(self.path))
        self._tree = FileTree(
            self._root, self._exposure, root_rules, follow_links=self.symlinks == "within-root"
        )
        if self.skills == "auto":
            self._tree.described_by = SKILL_FILE
        self._link: Link | None = None
        self._whole = self

    def mounted(self, link: Link, key: ServerKey) -> None:
        """Store the function that makes URIs. See `SupportsMount`."""
        self._link = link

    def withhold(self, files: Mapping[str, str]) -> None:
        """Hide these files under every name, unless `secrets.allow` names them.

        `files` are absolute paths, each with the reason. Call it before the first request.
        """
        self.share_withheld(WithheldFiles(files))

    def share_withheld(self, withheld: WithheldFiles | None) -> None:
        """Hide files as another view of the folder does. Call it before the first request."""
        self._exposure.withheld = withheld

    async def __aenter__(self) -> Self:
        self._root.check()
        if self.directories:
            try:
                # Imported here and below: most folders have no rules.
                from resource_server.providers.filesystem.exposure import unmatched

                await self.threads.run(
                    lambda: unmatched.refuse_misnamed(self._tree, self.directories)
                )
            except BaseException:
                await self.__aexit__()  # it does not run after a failed `__aenter__`
                raise
        if self.search_index is not None and self._whole is self:
            self.search_index.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._whole is self and (index := vars(self).get("search_index")) is not None:
            await self.threads.run(index.close)
        self._root.close()
        self.threads.close()
        self.conversions.close()
        if "_search" in vars(self):
            self._search.close()

    def list(
        self, parent: Path, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return children by name in code point order. See `Provider.list`."""
        name = after[-1] if after else None
        return self._page(self._tree.children(parent, self, after=name, limit=limit), limit)

    def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        """Return the entries of one type and depth after `after`. See `SupportsLevels.level`."""
        return self._page(self._tree.level(depth, type, after or (), self, limit=limit), limit)

    @property
    def templates(self) -> Sequence[Template]:
        """Templates of documents, in ranges and other formats. See `Provider.templates`."""
        return (*_TEMPLATES, FORMAT_TEMPLATE) if self._converters else _TEMPLATES

    def metadata(self, path: Path) -> Resource:
        """Return the metadata of a file or directory; only a `SKILL.md` is opened for it."""
        return self._with_formats(self._described(self.resource(self._tree.find(path))))

    def read(self, path: Path, query: Mapping[str, str]) -> MaybeAwaitable[Sequence[Content]]:
        """Return a file, or a range of it, as one content: text if it decodes, else bytes."""
        fetched = self.fetch(path, query)
        return _contents(fetched) if isinstance(fetched, tuple) else _later_contents(fetched)

    def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> MaybeAwaitable[tuple[Resource, Sequence[Content]]]:
        """Return a file's metadata and content from a single open. See `SupportsFetch`."""
        # The query is checked first: a later error would reveal that a hidden document exists.
        if query and self._converters and not ranges.PARAMETERS.issuperset(query):
            return self._fetch_converted(path, query)
        part = wanted_range(query) if query else None
        try:
            location = self._location(path)
            try:
                return self._read_now(path, location, part)
            except BlockingIOError:
                return self.threads.run(lambda: self._read_blocking(path, location, part))
        except ResourceUnreadable:
            raise
        except ResourceNotFound:
            return self._collection(path)

    async def _fetch_converted(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Read a document in another format. Conversions keep no other reads waiting."""
        location = None
        with suppress(ResourceNotFound):
            location = self._location(path)
        try:
            return await self.threads.run(
                lambda: self._read_converted(path, query, location, is_now=True)
            )
        except BlockingIOError:
            return await self.conversions.run(
                lambda: self._read_converted(path, query, location, is_now=False)
            )

    def _location(self, path: Path) -> DocumentLocation:
        location = self._tree.document(path)
        if not location.rules.readable:
            raise ResourceNotFound
        return location

    def _open(
        self, location: DocumentLocation, *, cached: bool = False
    ) -> tuple[int, os.stat_result]:
        try:
            return self._root.open_file(location.file, status=location.status, cached=cached)
        except ResourceUnreadable:
            status = location.status or self._root.stat(location.file)
            if self._tree.is_withheld("/".join(location.file), status):
                raise ResourceNotFound from None
            raise

    @contextmanager
    def _opened(self, location: DocumentLocation) -> Generator[tuple[int, os.stat_result]]:
        """Open a document, unless it is withheld. Blocks."""
        fd, status = self._open(location)
        location.status = status
        try:
            if self._tree.is_withheld("/".join(location.file), status):
                raise ResourceNotFound
            yield fd, status
        finally:
            os.close(fd)

    def _read_now(
        self, path: Path, location: DocumentLocation, part: Range | None
    ) -> tuple[Resource, Sequence[Content]]:
        """Read a whole document without waiting for a disk.

        Raises:
            BlockingIOError: that is not possible.
        """
        fd, status = self._open(location, cached=True)
        location.status = status
        rules = location.rules
        try:
            is_some_withheld = self._exposure.withheld is not None
            if is_some_withheld and self._tree.is_withheld("/".join(location.file), status):
                raise ResourceNotFound
            found = None
            if part is None:
                found = content.read_content_now(
                    fd,
                    status,
                    media_types.from_name(path[-1], self._types),
                    encoding=rules.encoding,
                    max_size=rules.max_size,
                )
        finally:
            os.close(fd)
        # The status is older than the content, so the version is never newer than the content.
        resource = self.document(path, status, rules)
        converters, mime_type = self._converters, resource.mime_type
        if found is None or (found.size is not None and self._is_recoded(found)):
            raise BlockingIOError
        if path[-1] != SKILL_FILE and mime_type in converters.without:
            return resource, (found,)  # as of most: neither a skill nor other formats
        if not converters.is_known(mime_type) or self._is_undescribed(resource):
            raise BlockingIOError
        return self._with_formats(self._described(resource)), (found,)

    def _read_blocking(
        self, path: Path, location: DocumentLocation, part: Range | None
    ) -> tuple[Resource, Sequence[Content]]:
        """Read a document or a range of it; a directory has no content."""
        rules = location.rules
        try:
            with self._opened(location) as (fd, status):
                found = content.read_content(
                    fd,
                    status,
                    self._type(path),
                    part,
                    encoding=rules.encoding,
                    max_size=rules.max_size,
                )
                if part is None and self._is_recoded(found) and self._skills.covers(path):
                    found = content.read_exact(fd, found.mime_type, max_size=rules.max_size)
        except ResourceUnreadable:
            raise
        except ResourceNotFound:
            return self._collection(path)
        resource = self._described(self.document(path, status, rules))
        return self._with_formats(resource), (found,)

    def _read_converted(
        self,
        path: Path,
        query: Mapping[str, str],
        location: DocumentLocation | None,
        *,
        is_now: bool,
    ) -> tuple[Resource, Sequence[Content]]:
        """Read a document in another format. Blocks, with the packages of converters, too.

        Raises:
            BlockingIOError: with `is_now`, it has to be converted first.
        """
        from resource_server.providers.filesystem.converted import with_encoding

        if location is None:
            with suppress(ResourceNotFound):
                return self._collection(path)
        wanted = self.converted.wanted(query, *self._type_and_name(path))
        if location is None:
            raise ResourceNotFound
        with self._opened(location) as (fd, status):
            resource = self.document(path, status, location.rules)
            found = self.converted.read(fd, wanted, is_now=is_now)
        return with_encoding(self._with_formats(resource), found, wanted, query)

    @functools.cached_property
    def converted(self) -> ConvertedDocuments:
        """Converted documents, with one cache for all views of the folder."""
        if self._whole is not self:
            return self._whole.converted
        # Imported here: most folders have no document to convert.
        from resource_server.conversion import pool
        from resource_server.providers.filesystem.converted import ConvertedDocuments

        disk = None
        if self.cache is not None:
            from resource_server.conversion.disk_cache import DiskCache

            disk = DiskCache(self.cache)
        return ConvertedDocuments(pool.shared(), self._converters, disk, self.timing)

    def _with_formats(self, resource: Resource) -> Resource:
        """Return the resource with the formats that its document can be read in."""
        if resource.type == "collection" or not resource.readable:
            return resource
        converter = self._converters.of(resource.mime_type, resource.name)
        if converter is None:
            return resource
        # Imported here: most folders have no document to convert.
        from resource_server.providers.filesystem.converted import with_formats

        return with_formats(resource, converter, self._has_picture)

    def _has_picture(self, resource: Resource) -> bool:
        """Return whether a notebook may have a picture, by its first bytes."""
        known = self._looked_into.get(resource.version or "")
        if known is None:
            known = "picture"
            with (
                suppress(ResourceError),
                self._opened(self._tree.document(resource.path)) as (fd, _),
            ):
                head = ranges.pread(fd, _LOOKED_BYTES, 0)
                is_whole = len(head) < _LOOKED_BYTES
                known = "none" if is_whole and not _PICTURE.search(head) else known
                self._looked_into.put(resource.version or "", known)
        return known == "picture"

    def _is_recoded(self, found: Content) -> bool:
        """Return whether text would be sent in other bytes than a skill's digest covers."""
        return found.size is not None and self.skills == "auto"

    def _collection(self, path: Path) -> tuple[Resource, Sequence[Content]]:
        entry = self._tree.find(path)
        if entry.directory is None:
            raise ResourceNotFound
        return self.resource(entry), ()

    def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> MaybeAwaitable[Sequence[str]]:
        """Return the entries of the directory typed so far, or formats and sheets of a document."""
        if variable in ("format", "sheet") and self._converters:
            return self._parameter_values(variable, value, given.get("path", ""))
        parent, _, typed = value.rpartition("/")
        path = tuple(parent.split("/")) if parent else ()
        is_path = "\0" not in value and all(map(uris.is_segment, path))
        if variable != "path" or value.startswith("/") or not is_path:
            return ()
        return self.threads.now_or_in_thread(completed_paths(self._tree, path, typed))

    async def _parameter_values(self, name: str, typed: str, document: str) -> Sequence[str]:
        """Return the formats or the sheets of a document whose names contain what is typed."""
        path = tuple(document.split("/"))
        found: Sequence[str] = ()
        with suppress(ResourceError):
            if not document:
                found = await self.threads.run(self._every_format) if name == "format" else ()
            elif not all(map(uris.is_segment, path)):
                found = ()
            elif name == "format":
                resource = await self.threads.run(lambda: self.metadata(path))
                found = [each.name for each in resource.formats]
            else:
                location = self._location(path)
                found = await self.threads.run(lambda: self._sheet_names(path, location))
        return [each for each in found if typed.casefold() in each.casefold()]

    def _every_format(self) -> Sequence[str]:
        offered = self._converters.entries().values()
        found = [format.name for each in offered if each.is_available for format in each.formats]
        return list(dict.fromkeys(found))

    def _sheet_names(self, path: Path, location: DocumentLocation) -> Sequence[str]:
        with self._opened(location) as (fd, _):
            return self.converted.sheet_names(fd, *self._type_and_name(path))

    def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> Awaitable[SearchPage]:
        """Search names, or the lines of documents. See `SupportsSearch.search`."""
        return self._described_hits(
            self._search.search(request, below=below, after=after, limit=limit, deadline=deadline)
        )

    async def _described_hits(self, searching: Awaitable[SearchPage]) -> SearchPage:
        found = await searching
        pages = (found, *found.later.values())
        if not any(h.resource.path[-1:] == (SKILL_FILE,) for page in pages for h in page.hits):
            return found

        def described(page: SearchPage) -> SearchPage:
            hits = [
                msgspec.structs.replace(h, resource=self._described(h.resource)) for h in page.hits
            ]
            later = {way: described(each) for way, each in page.later.items()}
            return msgspec.structs.replace(page, hits=hits, later=later)

        return await self.threads.run(lambda: described(found))

    @functools.cached_property
    def _search(self) -> FileSearch:
        # Imported here: most folders are never searched.
        from resource_server.providers.filesystem.file_search import FileSearch

        text = None
        if self._converters:
            text = self.converted.text_of(self._types)
        return FileSearch(self._tree, self, self._types, self.timing, text, index=self.search_index)

    @functools.cached_property
    def search_index(self) -> SearchIndex | None:
        """The index of the whole folder, or None; shared by all views of the folder."""
        if self._whole is not self:
            return self._whole.search_index
        if not self.index or self.cache is None:
            return None
        # Imported here: most folders have no index.
        from resource_server.providers.filesystem.search_index import document_text, index, store

        text = self.converted.text_of(self._types) if self._converters else None
        documents = document_text.DocumentTexts(self._types, text)
        rules = repr((self.include, self.exclude, self.gitignore, self.hidden, self.symlinks))
        rules += repr((self.directories, self.secrets, self._types, self.convert))
        kept = store.IndexStore(self.cache, self._root.path, rules, max_bytes=self.index_size)
        return index.SearchIndex(self._tree, kept, documents, self.timing)

    def list_skills(self, *, after: Path | None, limit: int) -> MaybeAwaitable[Sequence[Skill]]:
        """Return the skills in the folder, depth first. See `SupportsSkills`."""
        if self.skills == "off":
            return ()
        return self.threads.run(lambda: self._skills.page(after, limit))

    def get_skill(self, path: Path) -> MaybeAwaitable[Skill]:
        """Return the skill of a `SKILL.md`. See `SupportsSkills`."""
        if self.skills == "off":
            raise ResourceNotFound
        return self.threads.run(lambda: self._skills.skill(path))

    @functools.cached_property
    def _skills(self) -> SkillIndex:
        # Imported here: most folders have no skill.
        from resource_server.providers.filesystem.skills.skill_index import SkillIndex

        return SkillIndex(self._tree, self, self.digests, self._root_name)

    def _root_name(self) -> str | None:
        """Return the last segment of the folder's own URI."""
        if self._link is None:
            return None
        uri = uris.parse(self._link(()))
        return uri.path[-1] if uri.path else uri.authority

    def _is_undescribed(self, resource: Resource) -> bool:
        """Return whether a file has to be read before its resource can be described."""
        path = resource.path
        if not path or path[-1] != SKILL_FILE or resource.type != "document":
            return False
        return self.skills == "auto" and not self._skills.is_known(resource)

    def _described(self, resource: Resource) -> Resource:
        """Return the resource of a `SKILL.md` with the name and description of its skill."""
        path = resource.path
        if not path or path[-1] != SKILL_FILE or self.skills == "off":
            return resource
        return self._skills.described(resource)

    @property
    def parameters(self) -> frozenset[str]:
        """The URI parameters of documents. See `SupportsParameters`."""
        return ranges.PARAMETERS | registry.PARAMETERS if self._converters else ranges.PARAMETERS

    @property
    def restrictions(self) -> Mapping[str, frozenset[str]]:
        """The scopes that `access` of directories requires. See `SupportsAccess.restrictions`."""
        return self._restrictions

    def narrowed(self, scopes: frozenset[str]) -> Filesystem:
        """Return the folder as visible with these scopes. See `SupportsAccess.narrowed`."""
        directories = {
            key: each
            if allows(each.access, scopes)
            else msgspec.structs.replace(each, exposed=False)
            for key, each in self.directories.items()
        }
        narrowed = replace(self, directories=directories)
        narrowed.become_part_of(self)
        narrowed.share_withheld(self._exposure.withheld)
        return narrowed

    def become_part_of(self, whole: Filesystem) -> None:
        """Share the threads and caches of the whole folder."""
        self.threads, self.timing = whole.threads, whole.timing
        self.conversions, self.digests = whole.conversions, whole.digests
        self._whole = whole

    def explain(self, path: Path) -> str:
        """Return the rule that hides this path, or `exposed`."""
        return explain.explain(self._tree, path)

    def hides(self, *, limit: int) -> MaybeAwaitable[Sequence[tuple[Path, str]]]:
        """Return the hidden entries below the root. See `SupportsCheck`."""
        return self.threads.run(lambda: explain.hidden_entries(self._tree, limit))

    def warnings(self, *, thorough: bool = True) -> MaybeAwaitable[Sequence[tuple[str, str]]]:
        """Return rules that match nothing, and if `thorough` all that may be wrong.

        See `SupportsCheck`.
        """
        if thorough:
            return self.threads.run(self._warnings)
        if not self.directories and self.include == EVERYTHING and not self.exclude:
            return ()
        return self.threads.run(lambda: self._unmatched(_MAX_COMPARED))

    def _unmatched(self, limit: int) -> list[tuple[str, str]]:
        """Return rules that match nothing; `limit` is the number of names to compare."""
        from resource_server.providers.filesystem.exposure import unmatched

        return unmatched.problems(
            self._tree, self.include, self.exclude, self.directories, limit=limit
        )

    def _warnings(self) -> Sequence[tuple[str, str]]:
        found = self._unmatched(_MAX_CHECKED)
        if self.skills == "auto":
            found += [
                ("", f"{'/'.join(path)} is not served as a skill: {problem}")
                for path, problem in self._skills.problems()
            ]
        if self._converters and self.cache is not None:
            # Imported here: nobody else asks.
            from resource_server.runtime.private_folder import folder_problem

            problem = folder_problem(self.cache)
            if problem is not None:
                found.append(("cache", f"converted documents cannot be kept there: {problem}"))
        return [*found, *self._index_problems(), *self._missing_packages()]

    def _index_problems(self) -> Sequence[tuple[str, str]]:
        """Return why there is no index, or the advice to have one."""
        if self.search_index is not None:
            problem = self.search_index.problem()
            return () if problem is None else [("index", f"cannot be kept in 'cache': {problem}")]
        if not self._has_many_files():
            return ()
        return [("", "it has so many files that 'index: true' and 'cache' would speed up searches")]

    def _has_many_files(self) -> bool:
        # Imported here: most folders are never searched.
        from resource_server.providers.filesystem.file_search import MANY_DOCUMENTS

        count = 0
        with closing(self._tree.name_runs((), self._tree.directories.top())) as runs:
            for run in runs:
                count += 0 if run.is_directory else len(run.names)
                if count > MANY_DOCUMENTS:
                    return True
        return False

    def _missing_packages(self) -> Sequence[tuple[str, str]]:
        """Return a warning of the documents whose converters wait for packages, if any do."""
        waiting = {name for name, each in self._converters.entries().items() if each.missing}
        if not waiting:
            return ()
        with closing(self._tree.name_runs((), self._tree.directories.top())) as runs:
            names = (name for run in runs if not run.is_directory for name in run.names)
            types = [
                media_types.from_name(name, self._types) for name in islice(names, _MAX_COUNTED)
            ]
        counts = Counter(each for each in types if each is not None and each in waiting)
        if not counts:
            return ()
        feature = f"reading {registry.counted_kinds(counts)} in other formats"
        return [("", str(extras.MissingExtra(feature, "documents")))]

    async def changes(self, interest: Interest) -> AsyncGenerator[Change]:
        """Yield possible changes below the root. See `SupportsWatch.changes`."""
        # Imported here, as most clients only read, and in parts, as it takes 6 ms.
        for module in _WATCHER_MODULES:
            importlib.import_module(f"resource_server.{module}")
            await asyncio.sleep(0)
        from resource_server.providers.filesystem.watch import file_watcher

        found = file_watcher.changes(self._tree, self.watch, interest, self.timing)
        async with aclosing(found):
            async for change in found:
                if change.kind != "resource" and "_skills" in vars(self):
                    self._skills.forget_walk()
                yield change

    @property
    def watched_by(self) -> str:
        """The change detector in use, for the operator; see `event_sources.back_end`."""
        from resource_server.providers.filesystem.watch import event_sources

        return event_sources.back_end(self._root.path, self.watch)

    def _page(
        self, page: Steps[Sequence[Resource]], limit: int
    ) -> MaybeAwaitable[Sequence[Resource]]:
        steps = self._described_page(page)
        if limit > _MANY_ENTRIES:
            return self.threads.run(lambda: finish(steps))
        return self.threads.now_or_in_thread(steps)

    def _described_page(self, page: Steps[Sequence[Resource]]) -> Steps[Sequence[Resource]]:
        found = yield from page
        if SKILL_FILE not in [each.name for each in found]:
            return found
        if any(map(self._is_undescribed, found)):
            yield
        return [self._described(each) for each in found]

    def _type(self, path: Path) -> str | None:
        return media_types.from_name(path[-1], self._types)

    def _type_and_name(self, path: Path) -> tuple[str | None, str]:
        return (self._type(path), path[-1]) if path else (None, "")

    def resource(self, entry: TreeEntry) -> Resource:
        """Return the resource of an entry."""
        if entry.directory is None:
            return self.document(entry.path, entry.stamp, entry.rules)
        options = self._exposure.options(entry.key)
        return Resource(
            path=entry.path,
            name=uris.without_controls(entry.path[-1] if entry.path else self._name),
            type="collection",
            title=options.title if options else None,
            description=options.description if options else None,
            mime_type=_DIRECTORY_TYPE,
            # No time and no version: they would reveal changes of hidden entries.
            annotations=entry.rules.annotations,
            listed=entry.rules.listed,
        )

    def document(self, path: Path, status: Status, rules: DirectoryRules) -> Resource:
        """Return the resource of a file."""
        name, version = path[-1], _version(status, rules.reading)
        mime_type = media_types.from_name(name, self._types)
        if (
            mime_type == media_types.TYPESCRIPT
            and rules.readable
            and media_types.may_be_stream(mime_type, status.st_size)
        ):
            mime_type = self._stream_type(path, version)
        return Resource(
            path=path,
            name=name if name.isprintable() else uris.without_controls(name),
            mime_type=mime_type,
            size=status.st_size,
            last_modified=status.st_mtime_ns / 1e9,
            version=version,
            annotations=rules.annotations,
            listed=rules.listed,
            readable=rules.readable,
        )

    def _stream_type(self, path: Path, version: str) -> str:
        """Return the media type of a file that may be an MPEG stream, by its size and its head."""
        found = self._looked_into.get(version)
        if found is None:
            found = media_types.TYPESCRIPT
            with suppress(ResourceError), self._opened(self._tree.document(path)) as (fd, _):
                found = media_types.refine(found, ranges.pread(fd, media_types.HEAD_BYTES, 0))
                self._looked_into.put(version, found)
        return found


def _contents(fetched: tuple[Resource, Sequence[Content]]) -> Sequence[Content]:
    resource, contents = fetched
    if resource.type == "collection":
        raise ResourceNotFound
    return contents


async def _later_contents(
    fetched: Awaitable[tuple[Resource, Sequence[Content]]],
) -> Sequence[Content]:
    return _contents(await fetched)


def _version(status: Status, reading: int) -> str:
    # `hash` of integers is the same in every process, and eight times faster than blake2b.
    return hex(hash((*_FACTS(status), reading)) & 0xFFFF_FFFF_FFFF_FFFF)[2:]


_: type[Provider] = Filesystem
_searches: type[SupportsSearch] = Filesystem
_finds_skills: type[SupportsSkills] = Filesystem
