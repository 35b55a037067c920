"""Documents at paths as a tree that does not change: for providers made from a function."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias, TypeGuard, cast

import msgspec

from resource_server import media_types, uris
from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider.core import Content, Path, Resource, ResourceType
from resource_server.runtime.json_numbers import exact_json

MAX_DOCUMENTS = 1_000_000
"""Maximum documents of a tree."""
MAX_DOCUMENT_BYTES = 10 * 1024**2
"""Maximum bytes of one document: it is kept in memory, and sent as a whole."""
MAX_BYTES = 1024**3
"""Maximum bytes of all documents."""
_MAX_PATH_BYTES = 4096
_MAX_DEPTH = 64
_MAX_PROBLEMS = 5
_LAST = "\U0010ffff"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Contents with more metadata than their path and type say."""

    content: Contents
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    """Media type, if the name does not say it."""
    last_modified: datetime | float | None = None
    """Aware datetime, or seconds since the epoch."""


Contents: TypeAlias = str | bytes | Mapping[str, Any] | list[Any] | Document
"""Contents of a document: text, bytes, or a mapping or list, which becomes JSON.

Values in JSON may be all that msgspec encodes: dataclasses and times, too. UTF-8 bytes are sent as
text, except under the name of a binary type.
"""


class UnusableDocuments(ValueError):
    """The paths or contents of a function cannot be served; one line for each problem."""


class StoredDocument(msgspec.Struct, frozen=True, gc=False):
    """The contents of one document as they are sent, with its version."""

    data: str | bytes
    size: int
    digest: bytes
    default_type: str
    """Media type of a name without a known one."""
    words: Document | None = None
    """Metadata that the function gave."""

    def resource(self, path: Path) -> Resource:
        """Return the metadata of this document at a path."""
        name, words = path[-1], self.words
        mime_type = media_types.from_name(name) or self.default_type
        version = self.digest.hex()
        if words is None:
            return Resource(
                path=path, name=name, mime_type=mime_type, size=self.size, version=version
            )
        return Resource(
            path=path,
            name=name,
            title=words.title,
            description=words.description,
            mime_type=words.mime_type or mime_type,
            size=self.size,
            last_modified=words.last_modified,
            version=version,
        )

    def contents(self) -> Sequence[Content]:
        """Return the body."""
        return (Content(self.data),)


def store(path: str, contents: object) -> StoredDocument:
    """Return contents as they are sent. Takes time for long ones: for a worker thread.

    Raises:
        UnusableDocuments: they cannot be sent; the message names the path.
    """
    words = None
    if isinstance(contents, Document):
        words, contents = _checked(path, contents), contents.content
    data, default_type = _data(path, contents)
    try:
        encoded = data.encode() if isinstance(data, str) else data
    except UnicodeEncodeError as error:
        raise UnusableDocuments(
            f"{path!r}: its text has a lone surrogate at character {error.start}, "
            "which UTF-8 cannot encode; return bytes for what is not text"
        ) from None
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise UnusableDocuments(
            f"{path!r}: it has {len(encoded)} bytes, more than {MAX_DOCUMENT_BYTES}; "
            "split it, or write a provider that reads ranges"
        )
    if isinstance(data, bytes):
        data = _text_or_bytes(path, data, words)
    digest = hashlib.blake2b(encoded, digest_size=12)
    if words is not None:
        digest.update(repr((words.title, words.description, words.mime_type)).encode())
    return StoredDocument(data, len(encoded), digest.digest(), default_type, words)


def _checked(path: str, words: Document) -> Document:
    """Return metadata without the contents, after a check of its types."""
    try:
        checked = msgspec.convert(
            (words.title, words.description, words.mime_type, words.last_modified),
            tuple[str | None, str | None, str | None, datetime | float | None],
        )
    except msgspec.ValidationError as error:
        raise UnusableDocuments(f"{path!r}: its metadata has a wrong type: {error}") from None
    modified = checked[3]
    if isinstance(modified, datetime) and modified.tzinfo is None:
        raise UnusableDocuments(f"{path!r}: last_modified has no time zone; use datetime.now(UTC)")
    title, description, mime_type, _ = checked
    return Document(
        content="",
        title=title,
        description=description,
        mime_type=mime_type,
        last_modified=modified,
    )


def _data(path: str, contents: object) -> tuple[str | bytes, str]:
    """Return text or bytes, and the media type of a name without a known one."""
    match contents:
        case str():
            return str(contents), "text/plain"
        case bytes() | bytearray() | memoryview():
            data = bytes(cast("bytes", contents))
            is_text = media_types.begins_as_text(data[: media_types.HEAD_BYTES])
            return data, "text/plain" if is_text else "application/octet-stream"
        case Mapping() | list():
            try:
                encoded = msgspec.json.encode(_plain(cast("object", contents))).decode()
                return msgspec.json.format(exact_json(encoded), indent=2), "application/json"
            except (TypeError, ValueError, RecursionError) as error:
                kind = str(error) or type(error).__name__
                raise UnusableDocuments(f"{path!r}: it cannot be written as JSON: {kind}") from None
        case _:
            raise UnusableDocuments(
                f"{path!r}: its contents are of type {type(contents).__name__}; "
                "return text, bytes, a mapping, a list or a Document"
            )


def _plain(contents: object) -> object:
    """Return contents whose mapping is a dict, as JSON is made of."""
    if isinstance(contents, Mapping):
        return dict(cast("Mapping[object, object]", contents))
    return contents


def _text_or_bytes(path: str, data: bytes, words: Document | None) -> str | bytes:
    mime_type = words and words.mime_type
    mime_type = mime_type or media_types.from_name(path.rpartition("/")[2])
    if b"\0" in data or (mime_type is not None and media_types.is_binary(mime_type)):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


class _Collection:
    """One collection of a tree: its children by name."""

    __slots__ = ("collections", "documents", "entries", "names", "version")

    def __init__(self) -> None:
        self.entries: dict[str, StoredDocument | None] = {}
        """Documents by name; None for a collection."""
        self.names: Sequence[str] = ()
        self.documents: Sequence[str] = ()
        self.collections: Sequence[str] = ()
        self.version = ""

    def finish(self) -> None:
        """Sort the names."""
        self.names = sorted(self.entries)
        self.documents = self.names
        if None in self.entries.values():
            self.documents = [name for name in self.names if self.entries[name] is not None]
            self.collections = [name for name in self.names if self.entries[name] is None]
        digest = hashlib.blake2b(digest_size=12)
        for name in self.names:
            kind = "/\0" if self.entries[name] is None else "\0"
            digest.update((name + kind).encode("utf-8", "surrogatepass"))
        self.version = digest.hexdigest()


class DocumentTree:
    """Documents and their collections at one moment; built in a worker thread, then read-only.

    Every method takes time for its result only, never for the whole tree.
    """

    def __init__(
        self,
        entries: Mapping[str, Contents] | Iterable[tuple[str, Contents]],
        name: str,
        description: str | None = None,
    ) -> None:
        """Build the tree of a mapping or of pairs.

        Raises:
            UnusableDocuments: paths or contents cannot be served.
        """
        self._name = name
        self._description = description
        self._collections: dict[Path, _Collection] = {(): _Collection()}
        problems: list[str] = []
        total = 0
        for count, (path, contents) in enumerate(_pairs(entries)):
            if count == MAX_DOCUMENTS:
                raise UnusableDocuments(f"there are more than {MAX_DOCUMENTS} documents")
            try:
                segments = split_path(path)
                document = store(path, contents)
                total += document.size
                self._place(segments, document)
            except UnusableDocuments as problem:
                problems.append(str(problem))
            if len(problems) == _MAX_PROBLEMS:
                problems.append("there may be more problems")
                break
            if total > MAX_BYTES:
                raise UnusableDocuments(f"the documents have more than {MAX_BYTES} bytes in all")
        if problems:
            raise UnusableDocuments("\n".join(problems))
        levels: list[list[Path]] = []
        for path in sorted(self._collections):
            while len(levels) <= len(path):
                levels.append([])
            levels[len(path)].append(path)
            self._collections[path].finish()
        self._levels: Sequence[Sequence[Path]] = levels
        """Collections by depth, sorted."""
        self._holders = [
            [path for path in level if self._collections[path].documents] for level in levels
        ]
        """Collections with documents, by depth, sorted."""

    def _place(self, segments: Path, document: StoredDocument) -> None:
        path = "/".join(segments)
        for depth in range(1, len(segments)):
            place = segments[:depth]
            if place not in self._collections:
                above = self._collections[place[:-1]].entries
                if place[-1] in above:
                    raise UnusableDocuments(f"{path!r}: {'/'.join(place)!r} is a document already")
                above[place[-1]] = None
                self._collections[place] = _Collection()
        entries = self._collections[segments[:-1]].entries
        if segments[-1] in entries:
            kind = "a collection" if entries[segments[-1]] is None else "there"
            raise UnusableDocuments(f"{path!r}: it is {kind} already")
        entries[segments[-1]] = document

    def find(self, path: Path) -> StoredDocument | None:
        """Return a document; None for a collection.

        Raises:
            ResourceNotFound: there is neither.
        """
        if path in self._collections:
            return None
        above = self._collections.get(path[:-1])
        document = None if above is None else above.entries.get(path[-1])
        if document is None:
            raise ResourceNotFound
        return document

    def resource(self, path: Path) -> Resource:
        """Return the metadata of a document or collection."""
        document = self.find(path)
        if document is not None:
            return document.resource(path)
        return Resource(
            path=path,
            name=path[-1] if path else self._name,
            description=None if path else self._description,
            type="collection",
            version=self._collections[path].version,
        )

    def version(self, path: Path) -> str | None:
        """Return the version of a resource; None if it does not exist."""
        try:
            return self.resource(path).version
        except ResourceNotFound:
            return None

    def children(self, parent: Path, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of a collection; see `Provider.list`."""
        if self.find(parent) is not None:
            raise NotACollection
        names = self._collections[parent].names
        start = bisect_right(names, after[-1]) if after else 0
        return [self.resource((*parent, name)) for name in names[start : start + limit]]

    def level(
        self, depth: int, type: ResourceType, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        """Return resources of one depth and type; see `SupportsLevels.level`."""
        if type == "collection":
            level = self._levels[depth] if depth < len(self._levels) else ()
            start = bisect_right(level, after) if after else 0
            return [self.resource(path) for path in level[start : start + limit]]
        return [self.resource(path) for path in islice(self._documents(depth, after), limit)]

    def _documents(self, depth: int, after: Path | None) -> Iterator[Path]:
        holders = self._holders[depth - 1] if depth <= len(self._holders) else ()
        for at in range(bisect_left(holders, after[:-1]) if after else 0, len(holders)):
            parent = holders[at]
            names = self._collections[parent].documents
            start = bisect_right(names, after[-1]) if after and after[:-1] == parent else 0
            for place in range(start, len(names)):
                yield (*parent, names[place])

    def complete(self, typed: str, limit: int) -> Sequence[str]:
        """Return paths that begin with the typed text and end with its segment."""
        *parent, start = typed.split("/")
        found = self._collections.get(tuple(parent))
        if found is None:
            return ()
        first = bisect_left(found.names, start)
        last = min(bisect_right(found.names, start + _LAST), first + limit)
        return [
            "/".join((*parent, name)) + "/" * (found.entries[name] is None)
            for name in found.names[first:last]
        ]

    def collection_version(self, path: Path) -> str | None:
        """Return the version of a collection; None if it does not exist."""
        found = self._collections.get(path)
        return None if found is None else found.version

    def relisted(self, before: DocumentTree) -> Sequence[Path]:
        """Return the collections whose sets of children differ. Takes time: for a thread."""
        return [
            path
            for path, found in self._collections.items()
            if before.collection_version(path) not in (None, found.version)
        ]


def split_path(path: object) -> Path:
    """Return the segments of a path.

    Raises:
        UnusableDocuments: it is no path of a resource.
    """
    if not isinstance(path, str):
        raise UnusableDocuments(f"{path!r:.200}: a path is text, such as 'notes/today.md'")
    shown = repr(path if len(path) <= 200 else path[:200] + "…")
    if len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH_BYTES:
        raise UnusableDocuments(f"{shown}: the path is longer than {_MAX_PATH_BYTES} bytes")
    segments = tuple(path.split("/"))
    if len(segments) > _MAX_DEPTH:
        raise UnusableDocuments(f"{shown}: the path has more than {_MAX_DEPTH} segments")
    if not all(map(uris.is_segment, segments)):
        raise UnusableDocuments(
            f"{shown}: no segment of a path is empty, '.' or '..' or has NUL; "
            "write it as 'notes/today.md', without a slash at either end"
        )
    return segments


def _pairs(entries: object) -> Iterator[tuple[str, object]]:
    """Yield paths and contents, after a check of their types.

    Raises:
        UnusableDocuments: these are no pairs.
    """
    expected = "return a mapping of paths to contents, or pairs of them"
    if isinstance(entries, Mapping):
        entries = cast("Mapping[object, object]", entries).items()
    elif not isinstance(entries, Iterable) or isinstance(entries, str | bytes):
        raise UnusableDocuments(f"the function returned {type(entries).__name__}; {expected}")
    for pair in cast("Iterable[object]", entries):
        if not _is_pair(pair):
            kind = type(pair).__name__
            raise UnusableDocuments(f"the function gave {kind}, which is no pair; {expected}")
        yield pair


def _is_pair(found: object) -> TypeGuard[tuple[str, object]]:
    """Return whether these are two things; the first one is checked as a path."""
    return isinstance(found, tuple) and len(cast("tuple[object, ...]", found)) == 2
