"""Ranges of one object: read by parts, each of the same object as the first."""

from __future__ import annotations

from resource_server.buckets.bucket import Bucket, StoredObject
from resource_server.buckets.failures import NoSuchRange
from resource_server.buckets.transport import Deadline
from resource_server.documents.ranges import RangeReader
from resource_server.errors import InvalidParameter
from resource_server.provider import Content
from resource_server.runtime.document_range import Range

_FIRST_BYTES, _MOST_BYTES = 256 * 1024, 4 * 1024**2
"""Bytes of the first request for an object, and maximum bytes of one."""
_MAX_BYTES = 64 * 1024**2
"""Maximum bytes that one call reads to find lines."""
_COUNTED_BYTES = 512 * 1024
"""Maximum bytes that are read for the number of all lines, beside the range."""


class ObjectReader:
    """The bytes of one object. The first request decides which object that is, by its ETag.

    Raises, as each of its methods: `Replaced`, if the object was replaced by then.
    """

    def __init__(self, bucket: Bucket, key: str, deadline: Deadline) -> None:
        self._bucket, self._key, self._deadline = bucket, key, deadline
        self._window, self._begin = b"", 0
        self._ahead = _FIRST_BYTES
        self._left = _MAX_BYTES
        self.stored = self._open()

    def _open(self) -> StoredObject:
        try:
            stored, body = self._bucket.get(self._key, first=0, last=_FIRST_BYTES - 1)
        except NoSuchRange:
            return self._bucket.head(self._key)  # it is empty
        self._window = self._bucket.read(body, _FIRST_BYTES, self._deadline)
        return stored

    def pread(self, count: int, offset: int) -> bytes:
        """Return `count` bytes from `offset`, fewer only at the end."""
        count = min(count, max(0, self.stored.size - offset))
        if not count:
            return b""
        at = offset - self._begin
        if not at >= 0 or at + count > len(self._window):
            self._fetch(offset, count)
            at = 0
        return self._window[at : at + count]

    def _fetch(self, offset: int, count: int) -> None:
        is_next = offset == self._begin + len(self._window)
        self._ahead = min(2 * self._ahead, _MOST_BYTES) if is_next else _FIRST_BYTES
        wanted = max(count, self._ahead)
        if wanted > self._left:
            raise InvalidParameter(f"this is further than {_MAX_BYTES} bytes away; use bytes")
        _, body = self._bucket.get(
            self._key, etag=self.stored.etag, first=offset, last=offset + wanted - 1
        )
        self._window = self._bucket.read(body, wanted, self._deadline)
        self._begin = offset
        self._left -= len(self._window)

    def read(self, promised: str | None, encoding: str, max_size: int, part: Range) -> Content:
        """Return a range, as `RangeReader.read`; `promised` is the media type of the name."""
        reader = RangeReader.of_document(
            self.pread,
            self.stored.size,
            promised,
            encoding,
            max_size,
            scan_bytes=_MAX_BYTES,
            counted_bytes=_COUNTED_BYTES,
        )
        return reader.read(part)
