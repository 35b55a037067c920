"""Bytes of a file to the content of a document: whole or a range of it, text or blob.

Nothing is guessed: what does not decode stays bytes, and so does what has a NUL in it, or a media
type that is known to be binary (`image/png`) even where its bytes happen to be ASCII.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from resource_server import media_types
from resource_server.errors import InvalidParameter, ResourceTooLarge
from resource_server.provider import Content
from resource_server.providers.filesystem.encoding import TextEncoding
from resource_server.providers.filesystem.ranges import Range, RangeReader, read_all
from resource_server.providers.filesystem.root import resource_error

LOOP_BYTES = 512 * 1024
"""Larger files leave the event loop, cached or not: copying and decoding take too long."""

_FIRST_LINES: Mapping[str, str] = {"lines": "1-1000"}
_FIRST_BYTES: Mapping[str, str] = {"bytes": "0-65535"}


def read_now(
    fd: int, status: os.stat_result, mime_type: str | None, *, encoding: str, max_size: int
) -> Content | None:
    """Read a whole document on the event loop, or return None: then `read` it in a worker thread.

    None for files over `LOOP_BYTES`, where the page cache does not hold all of it, and where only
    the content can tell the media type.

    Raises:
        ResourceTooLarge: over `max_size` bytes.
    """
    size = status.st_size
    if size > max_size:
        raise _too_large(size, max_size, mime_type)
    if mime_type is None or size > LOOP_BYTES:
        return None
    data = read_cached(fd, size)
    return None if data is None else _content(data, mime_type, encoding)


def read(
    fd: int,
    status: os.stat_result,
    mime_type: str | None,
    range: Range | None = None,
    *,
    encoding: str,
    max_size: int,
) -> Content:
    """Read a document or a range of it. Blocks: for worker threads.

    `mime_type` is what the name promises (`media_types.from_name`); the content's own is set where
    that is None or the bytes are of another. At most `max_size` bytes are returned; a range that
    begins behind the end gives an empty content.

    * `bytes`: text is cut between characters. A character that began before the range is left out
      and so is one that ends behind it, unless nothing remained. What does not decode is exactly
      the bytes asked for, but for the beginning of a character at their end. `next` goes on where
      the content ends.
    * `lines`: where not even the first line fits into `max_size`, `next` goes on in bytes.
    * `tail`: where the lines do not fit, the last ones that do; there is no `next`.

    Raises:
        ResourceTooLarge: over `max_size` bytes, and no range.
        InvalidParameter: lines of a binary document, or more than `SCAN_BYTES` into it.
        ResourceNotFound, ResourceBusy: opened, but not to be read.
    """
    try:
        if range is None:
            return _read_whole(fd, status.st_size, mime_type, encoding, max_size)
        part = RangeReader.of(fd, status.st_size, mime_type, encoding, max_size)
        if range.unit == "bytes":
            return part.bytes(range)
        if part.is_binary:
            raise InvalidParameter(f"a {part.mime_type} document has no lines; use bytes")
        return part.lines(range) if range.unit == "lines" else part.tail(range.first)
    except OSError as error:
        raise resource_error(error) from None


def _read_whole(fd: int, size: int, mime: str | None, encoding: str, max_size: int) -> Content:
    if size > max_size:
        raise _too_large(size, max_size, mime)
    data = read_all(fd, max_size + 1)
    if len(data) > max_size:
        raise _too_large(max(size, len(data)), max_size, mime)
    return _content(data, mime, encoding)


def _too_large(size: int, limit: int, mime_type: str | None) -> ResourceTooLarge:
    is_text = mime_type is not None and media_types.is_text(mime_type)
    return ResourceTooLarge(size=size, limit=limit, next=_FIRST_LINES if is_text else _FIRST_BYTES)


def _content(data: bytes, promised: str | None, encoding: str) -> Content:
    text = None
    if promised is None or not media_types.is_binary(promised):
        text = TextEncoding.of(data, encoding).decode(data)
    mime = media_types.of_content(data, promised, decodes=text is not None)
    if mime == promised:
        return Content(data if text is None else text)
    return Content(data if text is None or media_types.is_binary(mime) else text, mime)


def read_cached(fd: int, size: int) -> bytes | None:
    """Return the whole file if it has `size` bytes and the page cache holds them, else None.

    Never waits for a disk: `RWF_NOWAIT` (Linux, and not on every file system) says so instead.
    """
    nowait = getattr(os, "RWF_NOWAIT", None)
    if nowait is None:
        return None
    # One byte more than expected, so that a file that has grown shows.
    buffer = bytearray(size + 1)
    try:
        count = os.preadv(fd, [buffer], 0, nowait)
    except OSError:
        return None
    # Fewer bytes: the file has shrunk, or the rest would have to be waited for.
    return bytes(memoryview(buffer)[:size]) if count == size else None
