"""Objects in other formats: fetched whole into files without a name, and converted from there."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from resource_server.buckets.bucket import Bucket, StoredObject
from resource_server.buckets.transport import Deadline
from resource_server.conversion import pool
from resource_server.conversion.registry import Converters
from resource_server.errors import ConversionError
from resource_server.provider import Content, Resource
from resource_server.providers.filesystem.conversion_query import Wanted
from resource_server.providers.filesystem.converted import (
    ConvertedDocuments,
    with_encoding,
    with_formats,
)

MAX_FETCHED_BYTES = 64 * 1024**2
"""Maximum size of an object that is converted."""
_MAX_KEPT_BYTES = 256 * 1024**2
_MAX_KEPT = 64
"""Maximum bytes and number of fetched objects that are kept, so that a part costs one request."""


class _Fetched(Struct):
    """A fetched object: a descriptor, which holds all there is of its file."""

    fd: int
    size: int

    def __del__(self) -> None:
        os.close(self.fd)


class ObjectConversions:
    """Conversions of the objects of one bucket. Any thread may call any method, which block."""

    def __init__(self, bucket: Bucket, converters: Converters) -> None:
        self._bucket = bucket
        self._documents = ConvertedDocuments(pool.shared(), converters)
        self._converters = converters
        self._kept: OrderedDict[tuple[str, str], _Fetched] = OrderedDict()
        self._lock = threading.Lock()

    def wanted(self, query: Mapping[str, str], media_type: str | None, name: str) -> Wanted:
        """Return the conversion that URI parameters ask for; raises `InvalidParameter`."""
        return self._documents.wanted(query, media_type, name)

    def read(self, key: str, stored: StoredObject, wanted: Wanted, deadline: Deadline) -> Content:
        """Return a converted object.

        Raises:
            Replaced: the object was replaced in the meantime.
            ConversionError: it is too large, or cannot be converted.
        """
        with self._open(key, stored, deadline) as fd:
            return self._documents.read(fd, wanted)

    def sheets(
        self, key: str, stored: StoredObject, media_type: str | None, name: str, deadline: Deadline
    ) -> Sequence[str]:
        """Return the names of the sheets of a workbook; as `read`."""
        converter = self._converters.of(media_type, name)
        if converter is None or "sheet" not in converter.options:
            return ()
        with self._open(key, stored, deadline) as fd:
            return self._documents.sheet_names(fd, media_type, name)

    def described(self, resource: Resource) -> Resource:
        """Return a resource with the formats that its document can be read in."""
        converter = self._converters.of(resource.mime_type, resource.name)
        if resource.type == "collection" or converter is None:
            return resource
        return with_formats(resource, converter, lambda _: True)

    def result(
        self, resource: Resource, found: Content, wanted: Wanted, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return a converted document with its metadata."""
        return with_encoding(self.described(resource), found, wanted, query)

    @contextmanager
    def _open(self, key: str, stored: StoredObject, deadline: Deadline) -> Generator[int]:
        """Give a descriptor of an object, fetched now or kept from before."""
        if stored.size > MAX_FETCHED_BYTES:
            raise ConversionError(
                f"it has {stored.size} bytes, and up to {MAX_FETCHED_BYTES} are fetched to be "
                "converted; read a range of it as it is"
            )
        with self._lock:
            found = self._kept.get((key, stored.etag))
        if found is None:
            found = self._fetch(key, stored, deadline)
        with self._lock:
            self._kept[key, stored.etag] = found
            self._kept.move_to_end((key, stored.etag))
            while len(self._kept) > 1 and (
                len(self._kept) > _MAX_KEPT
                or sum(each.size for each in self._kept.values()) > _MAX_KEPT_BYTES
            ):
                self._kept.popitem(last=False)
        fd = os.dup(found.fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def _fetch(self, key: str, stored: StoredObject, deadline: Deadline) -> _Fetched:
        _, body = self._bucket.get(key, etag=stored.etag)
        data = self._bucket.read(body, stored.size, deadline)
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(data)
            return _Fetched(os.dup(file.fileno()), stored.size)
