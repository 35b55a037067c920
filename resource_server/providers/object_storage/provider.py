"""The `object_storage` provider: serves the objects below a prefix of a bucket.

Names are exact, and in the order of their characters. A key that is no path (an empty segment, `.`,
`..`, a control) does not exist. Where an object has the name of a collection, the collection wins.
"""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

from msgspec import Struct

from resource_server import media_types, uris
from resource_server.buckets.bucket import Bucket, StoredObject
from resource_server.buckets.failures import Replaced
from resource_server.buckets.location import check_endpoint, is_name, parse_location
from resource_server.buckets.transport import Deadline
from resource_server.conversion import registry
from resource_server.documents.encoding import canonical_encoding, decoded_content
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
from resource_server.documents.path_selection import EVERYTHING
from resource_server.documents.ranges import PARAMETERS, too_large, wanted_range
from resource_server.documents.worker_threads import WorkerThreads
from resource_server.errors import (
    MountUnavailable,
    ResourceBusy,
    ResourceError,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.provider import (
    ByteSize,
    Change,
    Content,
    Interest,
    Path,
    Provider,
    Resource,
    Template,
)
from resource_server.provider.search import SearchPage, SearchRequest, SupportsSearch
from resource_server.providers.object_storage.keys import KeySpace
from resource_server.providers.object_storage.object_reads import ObjectReader
from resource_server.providers.object_storage.object_tree import BucketEntry, ObjectTree
from resource_server.runtime.document_range import Range
from resource_server.runtime.option_types import Duration, OptionChecks, Rate, check_options

if TYPE_CHECKING:
    from resource_server.providers.object_storage.conversions import ObjectConversions
    from resource_server.providers.object_storage.survey import ListedKeys

T = TypeVar("T")

_TYPE = "inode/directory"
_MAX_THREADS = 16
"""Maximum threads that wait for the storage service."""
_COST = 2
"""Maximum requests of one comparison: a head and a check of the name, or two pages."""
_SHORTEST_S = 0.1
_CLOCKS_S = 2.0
"""How much the clock of the service may be behind, with its steps of a second."""
_MAX_CONVERSIONS = 4
"""Maximum threads that wait for converters."""
_ATTEMPTS = 3
"""Reads of an object that is replaced meanwhile."""

_TEMPLATES = (
    Template(
        "{+path}",
        name="path",
        title="Object or collection",
        description="Any object or collection by its path, as in 2026/07/orders.csv",
    ),
    Template(
        "{+path}?lines={lines}",
        name="lines",
        title="Lines of an object",
        description="Lines of an object, as in 10-40 or 10-; ?bytes=0-65535 gives bytes, "
        "?tail=100 the last lines",
        type="document",
        optional=("bytes", "tail"),
    ),
)


class Polling(Struct, frozen=True):
    """How often subscribed objects and prefixes are compared, and what that may cost."""

    interval: Duration = Duration(60)
    """Pause between two comparisons of each; longer where the budget demands it."""
    budget: Rate = Rate(1000 / 3600)
    """Maximum requests for comparisons, as in `1000/h`."""

    def __post_init__(self) -> None:
        if self.interval < _SHORTEST_S:
            raise ValueError("interval: is too short; write 1s or more")


_DEFAULT_POLLING = Polling()


@dataclass
class ObjectStorage:
    """Serves the objects below a prefix of a bucket. Its fields are a root's options."""

    path: str
    """The bucket, and the prefix of the objects in it, as in `s3://bucket/prefix`."""
    endpoint: str | None = None
    """URL of a service that is not Amazon's."""
    region: str | None = None
    """Region of the bucket; by default, that of the environment or the profile."""
    profile: str | None = None
    """Profile of the configuration files of AWS, which have its keys."""
    anonymous: bool = False
    """Whether requests carry no credentials, for public buckets."""
    include: tuple[str, ...] = EVERYTHING
    """Patterns of the objects that are exposed, as for a folder. A collection is listed if anything
    below it could match."""
    exclude: tuple[str, ...] = ()
    """Patterns of hidden objects and collections, included or not."""
    hidden: bool = False
    """Whether names that begin with a dot are exposed."""
    max_size: ByteSize = ByteSize(10 * 1024 * 1024)
    """Maximum size of an object that is read whole; larger ones are read in ranges."""
    encoding: str = "utf-8"
    """Encoding of text without a byte order mark. Undecodable text is sent as bytes."""
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """Media types by name pattern; they take precedence over the built-in table."""
    secrets: Secrets = field(default_factory=Secrets)
    """Exceptions from the secrets deny-list."""
    convert: ConvertMode | tuple[DocumentKind, ...] = "auto"
    """Which documents are also served as Markdown and in other formats, as for a folder."""
    watch: Literal["auto", "off"] | Polling = "auto"
    """How subscribed objects and collections are compared, and the listing if clients follow it;
    `off` compares none."""

    searches_text: ClassVar[bool] = False
    is_swept: ClassVar[bool] = False
    """A sweep would compare beyond the budget."""
    option_checks: ClassVar[OptionChecks] = {
        "path": parse_location,
        "endpoint": check_endpoint,
        "include": lambda patterns: check_patterns("include", patterns),
        "exclude": lambda patterns: check_patterns("exclude", patterns),
        "encoding": canonical_encoding,
        "types": check_types,
        "convert": offered_converters,
    }

    def __post_init__(self) -> None:
        check_options(self)
        location = parse_location(self.path)
        self._name = location.name
        self._bucket = Bucket(
            location,
            endpoint=self.endpoint,
            region=self.region,
            profile=self.profile,
            anonymous=self.anonymous,
            connections=_MAX_THREADS,
        )
        self._keys = KeySpace(
            location.prefix,
            include=self.include,
            exclude=self.exclude,
            hidden=self.hidden,
            allowed_secrets=self.secrets.allow,
        )
        self._types = tuple(self.types.items())
        self._encoding = canonical_encoding(self.encoding)
        self._reading = reading_fingerprint(self.max_size, self.encoding, *self._types)
        self._polling = self.watch if isinstance(self.watch, Polling) else _DEFAULT_POLLING
        self._threads = WorkerThreads(_MAX_THREADS)
        self._conversion_threads = WorkerThreads(_MAX_CONVERSIONS)
        self._tree = ObjectTree(self._bucket, self._keys)
        self._converters = offered_converters(self.convert)

    async def __aenter__(self) -> Self:
        await self._run(lambda _: self._bucket.open())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._threads.close()
        self._conversion_threads.close()
        self._bucket.close()

    async def _run(self, work: Callable[[Deadline], T]) -> T:
        deadline = Deadline()
        return await self._threads.run(lambda: deadline.run(work))

    # -- the contract

    @property
    def templates(self) -> Sequence[Template]:
        """Templates of objects, in ranges and other formats. See `Provider.templates`."""
        return (*_TEMPLATES, FORMAT_TEMPLATE) if self._converters else _TEMPLATES

    @property
    def parameters(self) -> frozenset[str]:
        """The URI parameters of documents. See `SupportsParameters`."""
        return PARAMETERS | registry.PARAMETERS if self._converters else PARAMETERS

    @functools.cached_property
    def _conversions(self) -> ObjectConversions:
        # Imported here: most buckets have no document to convert.
        from resource_server.providers.object_storage.conversions import ObjectConversions

        return ObjectConversions(self._bucket, self._converters)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return children in the order of their keys. See `Provider.list`."""
        return await self._run(
            lambda deadline: self._resources(self._tree.children(parent, after, limit, deadline))
        )

    async def metadata(self, path: Path) -> Resource:
        """Return the metadata of an object, by its head, or of a collection."""
        return await self._run(lambda _: self._with_formats(self._described(path)))

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return an object, or a range of it, as one content: text if it decodes, else bytes."""
        resource, contents = await self.fetch(path, query)
        if resource.type == "collection":
            raise ResourceNotFound
        return contents

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return an object's metadata and content, of the same object. See `SupportsFetch`."""
        if self._converters and not PARAMETERS.issuperset(query):
            give_up = Deadline()
            return await self._conversion_threads.run(
                lambda: give_up.run(
                    lambda _: self._again(lambda: self._converted(path, query, give_up), give_up)
                )
            )
        part = wanted_range(query)
        return await self._run(
            lambda give_up: self._again(lambda: self._read(path, part, give_up), give_up)
        )

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the paths that begin with what is typed, of one page of the listing."""
        if variable == "path":
            return await self._run(lambda _: self._completed(value))
        if variable not in ("format", "sheet") or not self._converters:
            return ()
        path = tuple(given.get("path", "").split("/"))
        found: Sequence[str] = ()
        with suppress(ResourceError, Replaced):
            found = await self._run(lambda give_up: self._values(variable, path, give_up))
        return [each for each in found if value.casefold() in each.casefold()]

    # -- searches and surveys

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """Search names; see `SupportsSearch.search`. The server itself searches text."""
        # Imported here: most mounts are never searched.
        from resource_server.providers.object_storage import survey

        return await self._run(
            lambda give_up: survey.search_names(
                self._tree,
                request,
                self._described(below),
                lambda entry: self._resources([entry])[0],
                after=after,
                limit=limit,
                deadline=deadline,
                give_up=give_up,
            )
        )

    def explain(self, path: Path) -> str:
        """Return the rule that hides a path, or `exposed`."""
        if not all(map(is_name, path)):
            return "no path: it has an empty segment, '.', '..' or a control"
        rules = [self._keys.hidden_by(path, is_collection=each) for each in (False, True)]
        return "exposed by the rules, if it exists" if None in rules else rules[0] or ""

    async def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        """Return hidden paths among the first keys. See `SupportsCheck`."""
        from resource_server.providers.object_storage import survey

        return await self._run(lambda _: survey.hidden(self._tree, limit))

    async def warnings(self, *, thorough: bool) -> Sequence[tuple[str, str]]:
        """Return what is not served of the first keys, if asked thoroughly."""
        from resource_server.providers.object_storage import survey

        return await self._run(lambda _: survey.unserved_keys(self._tree)) if thorough else ()

    # -- one resource

    def _described(self, path: Path) -> Resource:
        if self._tree.is_collection(path, is_new=True):
            return self._collection(path)
        if not self._keys.exposes(path, is_collection=False):
            raise ResourceNotFound
        key = self._keys.key(path)
        try:
            return self._document(path, self._bucket.head(key))
        except ResourceUnreadable:
            # It may still be listed: only a read tells that it is refused.
            page = self._bucket.page(key, limit=1, is_deep=True)
            for found, stored in page.entries:
                if found == key and stored is not None:
                    return self._document(path, stored)
            raise ResourceNotFound from None

    def _read(
        self, path: Path, part: Range | None, deadline: Deadline
    ) -> tuple[Resource, Sequence[Content]]:
        if self._tree.is_collection(path):
            resource = self._described(path)
            if resource.type == "collection":  # otherwise an object has taken its place
                return resource, ()
        if not self._keys.exposes(path, is_collection=False):
            raise ResourceNotFound
        resource, contents = self._read_once(path, part, deadline)
        return self._with_formats(resource), contents

    @staticmethod
    def _again(read: Callable[[], T], deadline: Deadline) -> T:
        """Read an object, and again if it is replaced meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                return read()
            except Replaced:
                deadline.check()
        raise ResourceBusy("the object is replaced again and again; try again later")

    def _converted(
        self, path: Path, query: Mapping[str, str], deadline: Deadline
    ) -> tuple[Resource, Sequence[Content]]:
        """Read an object in another format."""
        name = path[-1] if path else ""
        # The query is checked first: a later error would reveal that a hidden object exists.
        media_type = media_types.from_name(name, self._types) if path else None
        wanted = self._conversions.wanted(query, media_type, name)
        resource = self._described(path)
        if resource.type == "collection":
            return resource, ()
        key = self._keys.key(path)
        stored = self._bucket.head(key)
        found = self._conversions.read(key, stored, wanted, deadline)
        return self._conversions.result(self._document(path, stored), found, wanted, query)

    def _with_formats(self, resource: Resource) -> Resource:
        if self._converters.of(resource.mime_type, resource.name) is None:
            return resource
        return self._conversions.described(resource)

    def _read_once(
        self, path: Path, part: Range | None, deadline: Deadline
    ) -> tuple[Resource, Sequence[Content]]:
        key, promised = self._keys.key(path), media_types.from_name(path[-1], self._types)
        if part is not None:
            reader = ObjectReader(self._bucket, key, deadline)
            content = reader.read(promised, self._encoding, self.max_size, part)
            return self._document(path, reader.stored), (content,)
        stored, body = self._bucket.get(key)
        if stored.size > self.max_size:
            body.close()
            raise too_large(stored.size, self.max_size, promised)
        data = self._bucket.read(body, stored.size, deadline)
        return self._document(path, stored), (decoded_content(data, promised, self._encoding),)

    def _resources(self, entries: Sequence[BucketEntry]) -> Sequence[Resource]:
        return [
            self._collection(path) if stored is None else self._document(path, stored)
            for path, stored in entries
        ]

    def _document(self, path: Path, stored: StoredObject) -> Resource:
        version = zlib.crc32(stored.etag.encode(), self._reading)
        return Resource(
            path=path,
            name=uris.without_controls(path[-1]),
            mime_type=media_types.from_name(path[-1], self._types),
            size=stored.size,
            last_modified=stored.modified,
            version=f"{stored.etag.strip(chr(34))}-{version:x}",
        )

    def _collection(self, path: Path) -> Resource:
        name = path[-1] if path else self._name
        return Resource(
            path=path, name=uris.without_controls(name), type="collection", mime_type=_TYPE
        )

    # -- completion and changes

    def _completed(self, typed: str) -> Sequence[str]:
        parent, _, start = typed.rpartition("/")
        path = tuple(parent.split("/")) if parent else ()
        if typed.startswith("/") or not self._keys.exposes(path, is_collection=True):
            return ()
        if not all(map(is_name, path)) or (start and not is_name(start)):
            return ()
        found = self._tree.beginning(path, start)
        return ["/".join(each.path) + "/" * (each.stored is None) for each in found]

    def _values(self, name: str, path: Path, deadline: Deadline) -> Sequence[str]:
        """Return the formats or the sheets of an object."""
        if not all(map(is_name, path)):
            return ()
        resource = self._with_formats(self._described(path))
        if name == "format":
            return [each.name for each in resource.formats]
        key = self._keys.key(path)
        return self._conversions.sheets(
            key, self._bucket.head(key), resource.mime_type, path[-1], deadline
        )

    @property
    def watched_by(self) -> str:
        """How changes are found, for the operator."""
        per_hour = self._polling.budget * 3600
        return (
            f"poll every {self._polling.interval:g} s, at most {per_hour:.0f} requests an hour"
            " (of what is subscribed to)"
        )

    @property
    def storage_counts(self) -> tuple[int, int, int]:
        """The numbers of requests to the service, of failed ones, and of bytes received."""
        return self._bucket.counts

    async def changes(self, interest: Interest) -> AsyncGenerator[Change]:
        """Yield each subscribed path after each interval; the server compares it.

        What is listed is compared here, if somebody follows it.
        """
        due = 0.0
        listed: bytes | None = None
        while True:
            added, _ = await interest.next(within=max(0.0, due - time.monotonic()))
            paths, is_due, requests = list(added), time.monotonic() >= due, 0
            if not interest.listing:
                listed = None
            elif is_due or listed is None:
                state = await self._listing_state()
                requests = 1 if state is None else state.requests
                if state is not None:
                    since = interest.listing_since_ns / 1e9 - _CLOCKS_S
                    is_new = listed is None and state.newest >= since
                    if is_new or listed not in (None, state.digest):
                        yield Change((), "children")
                    listed = state.digest
            if is_due:
                paths = list(interest.paths)
                requests += len(paths) * _COST
            if is_due or requests:
                pause = max(self._polling.interval, requests / self._polling.budget)
                due = time.monotonic() + pause
            for path in paths:
                yield Change(path)

    async def _listing_state(self) -> ListedKeys | None:
        # Imported here: most listings are not followed.
        from resource_server.providers.object_storage import survey

        with suppress(ResourceError, MountUnavailable):  # compared again after the next interval
            return await self._run(lambda give_up: survey.listing_state(self._tree, give_up))
        return None


_: type[Provider] = ObjectStorage
_searches: type[SupportsSearch] = ObjectStorage
