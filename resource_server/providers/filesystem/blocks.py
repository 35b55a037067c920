"""Bytes of an open file, from where they are asked for."""

from __future__ import annotations

import os

BLOCK_BYTES = 256 * 1024


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


def read_all(fd: int, cap: int) -> bytes:
    """Return the file from beginning to end, or to `cap` bytes; its size is not asked."""
    return pread(fd, cap, 0)


def pread(fd: int, count: int, offset: int) -> bytes:
    """Return `count` bytes from `offset`; fewer only where the file ends."""
    blocks: list[bytes] = []
    while count > 0:
        block = _pread_once(fd, min(count, BLOCK_BYTES), offset)
        if not block:
            break
        blocks.append(block)
        offset += len(block)
        count -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _pread_once(fd: int, count: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, count, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows; the descriptor is used by one call only
    return os.read(fd, count)
