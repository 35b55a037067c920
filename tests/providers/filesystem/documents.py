"""Reads documents straight from files, as the provider does."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from resource_server.documents.ranges import wanted_range
from resource_server.provider import Content
from resource_server.providers.filesystem import content

TEXT = "text/plain"


@contextmanager
def opened(path: str | Path) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def read(
    path: str | Path,
    query: Mapping[str, str] | None = None,
    mime_type: str | None = TEXT,
    *,
    encoding: str = "utf-8",
    max_size: int = 1 << 20,
) -> Content:
    with opened(path) as fd:
        return content.read_content(
            fd,
            os.fstat(fd),
            mime_type,
            wanted_range(query or {}),
            encoding=encoding,
            max_size=max_size,
        )


def read_now(path: str | Path, mime_type: str | None = TEXT) -> Content | None:
    with opened(path) as fd:
        return content.read_content_now(
            fd, os.fstat(fd), mime_type, encoding="utf-8", max_size=content.LOOP_BYTES * 2
        )
