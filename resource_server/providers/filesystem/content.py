"""Bytes of a file to the content of a document: whole or a range, text or blob.

Text is what a byte order mark or strict decoding proves to be text. Nothing is guessed: what does
not decode stays bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import msgspec

from resource_server.provider import Content

LOOP_BYTES = 512 * 1024
"""Larger files leave the event loop, cached or not: the copy alone takes too long."""


class Range(msgspec.Struct, frozen=True):
    """What part of a document is asked for.

    `unit` lines: `first` to `last`, from 1, both included. Bytes: the same, from 0. Tail: the last
    `first` lines. `last` None goes to the end.
    """

    unit: Literal["lines", "bytes", "tail"]
    first: int
    last: int | None = None


def parse_range(query: Mapping[str, str]) -> Range | None:
    """Read `lines=10-40`, `bytes=0-65535` or `tail=100`; None where the query is empty.

    Raises:
        InvalidParameter: another parameter, more than one, or not a range; says how to write it.
    """
    return None


def read_now(
    fd: int, status: os.stat_result, mime_type: str | None, *, encoding: str, max_size: int
) -> Content | None:
    """Read a whole document on the event loop, or return None: then `read` it in a worker thread.

    None for files over `LOOP_BYTES`, for what is not in the page cache, and where only the content
    can tell the media type.

    Raises:
        ResourceTooLarge: over `max_size` bytes.
    """
    return None


def read(
    fd: int,
    status: os.stat_result,
    mime_type: str | None,
    range: Range | None = None,
    *,
    encoding: str,
    max_size: int,
) -> Content:
    """Read a document or a range of it; blocks, so in a worker thread.

    `mime_type` is what its name promises (`media_types.from_name`). The content's own is set where
    the name told none, or the bytes another.

    Raises:
        ResourceTooLarge: over `max_size` bytes and no range.
        InvalidParameter: lines of a document without lines, or too far into it to be counted.
        ResourceNotFound, ResourceBusy: it cannot be read.
    """
    return Content("")
