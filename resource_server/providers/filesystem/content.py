"""Content of documents: the bytes of a file, whole or in ranges, as text or blob.

Nothing is guessed: bytes that do not decode or contain a NUL are a blob, and so is everything of a
binary media type (`image/png`), even if its bytes happen to be ASCII.
"""

from __future__ import annotations

import os
from functools import partial

from resource_server.documents.encoding import decoded_content
from resource_server.documents.ranges import RangeReader, pread, read_all, too_large
from resource_server.provider import Content
from resource_server.providers.filesystem.contained_root import resource_error
from resource_server.runtime.document_range import Range

LOOP_BYTES = 512 * 1024
"""Maximum bytes read on the event loop, cached or not: copying and decoding more takes too long."""


def read_content_now(
    fd: int, status: os.stat_result, mime_type: str | None, *, encoding: str, max_size: int
) -> Content | None:
    """Read a whole document on the event loop, or return None if that takes a worker thread.

    It does for more than `LOOP_BYTES`, for files that are not wholly in the page cache, and if only
    the content can tell the media type.

    Raises:
        ResourceTooLarge: over `max_size` bytes.
    """
    size = status.st_size
    if size > max_size:
        raise too_large(size, max_size, mime_type)
    if mime_type is None or size > LOOP_BYTES:
        return None
    data = read_cached(fd, size)
    return None if data is None else decoded_content(data, mime_type, encoding)


def read_content(
    fd: int,
    status: os.stat_result,
    mime_type: str | None,
    range: Range | None = None,
    *,
    encoding: str,
    max_size: int,
) -> Content:
    """Read a document or a range of it. Blocks; for worker threads.

    `mime_type` is the media type of the name (`media_types.from_name`). The content has
    another if that is None or contradicts the bytes. At most `max_size` bytes are returned; a range
    that begins behind the end is empty.

    * `bytes`: text is cut between characters. A character at either edge of the range is left out,
      unless nothing else is in it. Undecodable content is exactly the bytes of the range, less an
      incomplete character at its end. `next` continues where the content ends.
    * `lines`: if not even the first line fits into `max_size`, `next` continues in bytes.
    * `tail`: if the lines do not fit, the last ones that do; there is no `next`.

    Raises:
        ResourceTooLarge: over `max_size` bytes, and no range.
        InvalidParameter: lines of a binary document, or more than `SCAN_BYTES` into it.
        ResourceNotFound, ResourceBusy: opened, but not readable.
    """
    try:
        if range is None:
            return _read_whole(fd, status.st_size, mime_type, encoding, max_size)
        read = partial(pread, fd)
        reader = RangeReader.of_document(read, status.st_size, mime_type, encoding, max_size)
        return reader.read(range)
    except OSError as error:
        raise resource_error(error) from None


def read_exact(fd: int, mime_type: str | None, *, max_size: int) -> Content:
    """Read a whole document that is sent in exactly its bytes: text only if it is UTF-8. Blocks.

    A byte order mark stays in the text.

    Raises:
        ResourceTooLarge: over `max_size` bytes.
    """
    data = read_all(fd, max_size + 1)
    if len(data) > max_size:
        raise too_large(len(data), max_size, mime_type)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return Content(data, mime_type)
    return Content(data if "\0" in text else text, mime_type)


def _read_whole(fd: int, size: int, mime: str | None, encoding: str, max_size: int) -> Content:
    if size > max_size:
        raise too_large(size, max_size, mime)
    data = read_all(fd, max_size + 1)
    if len(data) > max_size:
        raise too_large(max(size, len(data)), max_size, mime)
    return decoded_content(data, mime, encoding)


def read_cached(fd: int, size: int) -> bytes | None:
    """Return the whole file if it has `size` bytes, all in the page cache; else None.

    Never waits for a disk, thanks to `RWF_NOWAIT` (Linux, not on every file system).
    """
    nowait = getattr(os, "RWF_NOWAIT", None)
    if nowait is None:
        return None
    # One byte more than expected shows a file that has grown.
    buffer = bytearray(size + 1)
    try:
        count = os.preadv(fd, [buffer], 0, nowait)
    except OSError:
        return None
    # With fewer bytes the file has shrunk, or the rest is not in the page cache.
    return bytes(memoryview(buffer)[:size]) if count == size else None
